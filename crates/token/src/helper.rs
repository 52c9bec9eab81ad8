//! The process that loads a PKCS #11 library. Each login and signature has a thread, so that a slow
//! token delays no other; a library that does not permit that is called from one thread.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use sys::cryptoki::Cryptoki;
use zeroize::Zeroizing;

use crate::message::{TokenReply, TokenRequest, whole_frame};
use crate::tokens::LibraryTokens;

/// Most threads at a time; beyond them requests wait.
const MAX_THREADS: usize = 64;
/// Bytes that are read at a time.
const READ_BYTES: usize = 16 * 1024;

/// The end of the socket that replies are written to.
struct Replies(Mutex<OwnedFd>);

impl Replies {
    fn send(&self, number: u32, reply: &TokenReply) {
        let socket = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A send fails only if the owner has gone; the thread that reads requests then ends the process.
        let _ = sys::io::write_all(&*socket, &reply.encode(number));
    }
}

/// Main function of the role; the argument is the library's path. Returns the exit status.
#[must_use]
pub fn main(arguments: Vec<OsString>) -> i32 {
    let ([library], Ok(control)) = (arguments.as_slice(), sys::io::inherited(crate::CONTROL_FD))
    else {
        eprintln!("{}: only other Fulmar processes start it", crate::ROLE);
        return 2;
    };
    let _ = sys::process::set_name("pkcs11");
    let _ = serve(&control, Path::new(library));
    // Exit handlers of a library might hang.
    sys::process::exit_at_once(0)
}

fn serve(control: &OwnedFd, library: &Path) -> io::Result<()> {
    let replies = Arc::new(Replies(Mutex::new(sys::io::dup(control)?)));
    let path = PathBuf::from(library);
    let loaded = sys::sandbox::token(&path)
        .map_err(|error| format!("sandbox: {error}"))
        .and_then(|_| Cryptoki::load(&path));
    let mut loaded = loaded.map(|cryptoki| HelperWork {
        cryptoki: Arc::new(cryptoki),
        tokens: LibraryTokens::default(),
        replies: Arc::clone(&replies),
        threads: Arc::default(),
    });
    let mut input = Zeroizing::new(Vec::new());
    let mut buffer = Zeroizing::new(vec![0; READ_BYTES]);
    loop {
        while let Some(body) = whole_frame(&input).map_err(io::Error::other)? {
            let length = body.len() + 4;
            let (number, request) = TokenRequest::decode(body).map_err(io::Error::other)?;
            match &mut loaded {
                Ok(work) => work.handle(number, request),
                Err(reason) => {
                    let reason = reason.clone();
                    let is_pin_wrong = false;
                    replies.send(
                        number,
                        &TokenReply::Failed {
                            reason,
                            is_pin_wrong,
                        },
                    );
                }
            }
            let rest = Zeroizing::new(input.get(length..).unwrap_or_default().to_vec());
            input = rest;
        }
        match sys::io::read(control, &mut buffer)? {
            0 => return Ok(()),
            count => {
                let mut wider = Zeroizing::new(Vec::with_capacity(input.len() + count));
                wider.extend_from_slice(&input);
                wider.extend_from_slice(buffer.get(..count).unwrap_or_default());
                input = wider;
            }
        }
    }
}

struct HelperWork {
    cryptoki: Arc<Cryptoki>,
    tokens: LibraryTokens,
    replies: Arc<Replies>,
    threads: Arc<AtomicUsize>,
}

impl HelperWork {
    fn handle(&mut self, number: u32, request: TokenRequest) {
        let unknown = || TokenReply::Failed {
            reason: "no such token or key".to_owned(),
            is_pin_wrong: false,
        };
        match request {
            TokenRequest::Open { pin } => {
                let reply = self.tokens.refresh(&self.cryptoki, pin.as_ref());
                self.replies.send(number, &reply);
            }
            TokenRequest::Login { token, pin } => match self.tokens.login(token) {
                Some(slot) => self.start(number, move |cryptoki| {
                    slot.perform_login(cryptoki, pin.as_ref())
                }),
                None => self.replies.send(number, &unknown()),
            },
            TokenRequest::Sign {
                key,
                algorithm,
                data,
                pin,
            } => match self.tokens.signing(key, algorithm) {
                Some(task) => {
                    self.start(number, move |cryptoki| task.perform(cryptoki, &data, pin))
                }
                None => self.replies.send(number, &unknown()),
            },
        }
    }

    /// Does the work on a thread of its own, if the library and the number of threads permit that.
    fn start(&self, number: u32, work: impl FnOnce(&Cryptoki) -> TokenReply + Send + 'static) {
        let may_start =
            self.cryptoki.is_concurrent() && self.threads.load(Ordering::Acquire) < MAX_THREADS;
        if !may_start {
            return self.replies.send(number, &work(&self.cryptoki));
        }
        self.threads.fetch_add(1, Ordering::AcqRel);
        let cryptoki = Arc::clone(&self.cryptoki);
        let replies = Arc::clone(&self.replies);
        let threads = Arc::clone(&self.threads);
        let started = std::thread::Builder::new().spawn(move || {
            replies.send(number, &work(&cryptoki));
            threads.fetch_sub(1, Ordering::AcqRel);
        });
        if started.is_err() {
            self.threads.fetch_sub(1, Ordering::AcqRel);
            let reason = "cannot start a thread".to_owned();
            let is_pin_wrong = false;
            self.replies.send(
                number,
                &TokenReply::Failed {
                    reason,
                    is_pin_wrong,
                },
            );
        }
    }
}
