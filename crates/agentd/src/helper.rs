//! The helper process: it does for the agent what the agent cannot do in its sandbox. It starts askpass
//! programs, checks the paths of libraries, lets security keys sign (each in a process of `fido`), starts
//! the processes that reach tokens (`token`), and removes the agent's socket when the agent ends, however
//! it ends.
//!
//! It is forked before the agent holds keys, and it ends when the agent's end of their socket is
//! closed. Each request runs on a thread of its own, so that none waits for another; only signatures
//! with one key are made one after the other.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agent::socket::AgentSocket;
use fido::{FidoError, Provider};
use keys::PrivateKey;
use keys::pattern::{Case, match_list};
use keys::private_file::HeldKey;
use sys::signals::Signal;
use sys::terminal::askpass::{self, Notification};
use token::TokenProcess;
use wire::{Put, Reader};
use zeroize::Zeroizing;

use crate::requests::{MAX_TOUCH_BYTES, Signing};
use crate::workers::AnswerPlace;

/// Longest message to the helper, in bytes: data to sign, and less than this for all other fields.
/// The kernel's default limit for one message is 208 KiB.
const MAX_REQUEST_BYTES: usize = MAX_TOUCH_BYTES + 32 * 1024;
/// Longest answer, in bytes: a signature, or the path of a provider.
const MAX_ANSWER_BYTES: usize = 16 * 1024;

/// The second part of a message.
const QUESTION: u8 = 1;
const CHECK_PROVIDER: u8 = 2;
const SIGN: u8 = 3;
const CANCEL: u8 = 4;
const START_TOKEN: u8 = 5;
const RESOLVE_TOKEN: u8 = 6;

/// An answer of the helper.
#[derive(Debug)]
pub(crate) enum HelperAnswer {
    /// True if the user has answered yes.
    Confirmed(bool),
    /// The path of a permitted provider, or the reason why it is not permitted.
    Checked(Result<String, String>),
    /// The signature of a security key, or the reason why there is none.
    Signed(Result<Vec<u8>, String>),
    /// The canonical path of a library of tokens, with the socket of the process that has been started
    /// for it if that was asked for; or the reason why there is none.
    Reached(Result<(String, Option<OwnedFd>), String>),
}

/// The agent's end of the socket to the helper process.
pub(crate) struct Helper {
    socket: OwnedFd,
}

/// The facts about the agent that the helper needs.
pub(crate) struct HelperTask {
    /// The socket to remove at the end.
    pub(crate) socket: Option<AgentSocket>,
    /// Patterns of the canonical paths of libraries that may be loaded.
    pub(crate) allowed_providers: String,
}

impl Helper {
    /// Forks the helper. The descriptor `listener` is closed there, so that nobody connects to a
    /// socket without an agent.
    pub(crate) fn start(task: HelperTask, listener: OwnedFd) -> io::Result<(Self, OwnedFd)> {
        let (ours, theirs) = sys::socket::seqpacket_pair()?;
        if sys::process::fork()?.is_some() {
            drop(theirs);
            sys::io::set_nonblocking(&ours, true)?;
            return Ok((Self { socket: ours }, listener));
        }
        drop((ours, listener));
        // The agent waits until this end of the pair is closed, which is after the removal: another agent
        // may then listen at the same path.
        let held = serve(theirs, task.allowed_providers);
        if let Some(socket) = task.socket {
            socket.remove();
        }
        drop(held);
        std::process::exit(0)
    }

    /// Readable when a question is answered or the helper has gone.
    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Asks a question.
    pub(crate) fn ask(&self, place: AnswerPlace, question: &str) -> io::Result<()> {
        self.send(place, QUESTION, |out| {
            out.extend_from_slice(question.as_bytes())
        })
    }

    /// Asks whether a library may be loaded, and for its path without links.
    pub(crate) fn check_provider(&self, place: AnswerPlace, provider: &str) -> io::Result<()> {
        self.send(place, CHECK_PROVIDER, |out| {
            out.extend_from_slice(provider.as_bytes())
        })
    }

    /// Lets a security key sign.
    pub(crate) fn sign(&self, place: AnswerPlace, signing: &Signing) -> io::Result<()> {
        let invalid = || io::Error::from(io::ErrorKind::InvalidInput);
        let touch = signing.touch().ok_or_else(invalid)?;
        let held = HeldKey {
            key: signing.key().ok_or_else(invalid)?.clone(),
            certificate: None,
        };
        let mut key = Zeroizing::new(Vec::new());
        held.write(&mut key).map_err(|_| invalid())?;
        self.send(place, SIGN, |out| {
            out.put_string(touch.provider.as_bytes());
            out.put_string(touch.notice.as_bytes());
            out.put_string(touch.pin_prompt.as_bytes());
            out.put_string(signing.data());
            out.put_string(&key);
        })
    }

    /// Ends a signature of a security key that nobody awaits any more.
    pub(crate) fn cancel(&self, place: AnswerPlace) {
        // If it cannot be sent, the token's own time limit ends the signature.
        let _ = self.send(place, CANCEL, |_| {});
    }

    /// Starts the process that reaches the tokens of a library, if the library may be loaded.
    pub(crate) fn start_token(&self, place: AnswerPlace, library: &str) -> io::Result<()> {
        self.send(place, START_TOKEN, |out| {
            out.extend_from_slice(library.as_bytes())
        })
    }

    /// Finds a library's canonical path.
    pub(crate) fn resolve_token(&self, place: AnswerPlace, library: &str) -> io::Result<()> {
        self.send(place, RESOLVE_TOKEN, |out| {
            out.extend_from_slice(library.as_bytes())
        })
    }

    fn send(
        &self,
        place: AnswerPlace,
        kind: u8,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> io::Result<()> {
        let mut message = Vec::with_capacity(4096);
        write_place(&mut message, place);
        message.put_u8(kind);
        write(&mut message);
        if message.len() > MAX_REQUEST_BYTES {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        sys::socket::local::send_with_fds(&self.socket, &message, &[]).map(|_| ())
    }

    /// The next answer. `None` if there is none now.
    ///
    /// # Errors
    /// `UnexpectedEof` if the helper has gone.
    pub(crate) fn answer(&self) -> io::Result<Option<(AnswerPlace, HelperAnswer)>> {
        let mut message = [0; MAX_ANSWER_BYTES];
        let mut received = match sys::socket::recv_with_fds(&self.socket, &mut message, 1) {
            Ok(received) if received.len == 0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(received) => received,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error),
        };
        let whole = message.get(..received.len).unwrap_or_default();
        Ok(read_answer(whole, received.fds.pop()))
    }

    /// Lets the helper remove the socket, and waits until it has.
    pub(crate) fn finish(self) {
        let _ = sys::socket::shutdown(&self.socket, sys::socket::ShutdownDirection::Write);
        let _ = sys::io::set_nonblocking(&self.socket, false);
        let mut rest = [0; MAX_ANSWER_BYTES];
        while matches!(sys::io::read(&self.socket, &mut rest), Ok(1..)) {}
    }
}

/// The place, and the rest of a message.
fn read_place(message: &[u8]) -> Option<(AnswerPlace, &[u8])> {
    let (connection, rest) = message.split_first_chunk()?;
    let (request, rest) = rest.split_first_chunk()?;
    let place = AnswerPlace {
        connection: u64::from_be_bytes(*connection),
        request: u64::from_be_bytes(*request),
    };
    Some((place, rest))
}

fn write_place(out: &mut Vec<u8>, place: AnswerPlace) {
    out.put_u64(place.connection);
    out.put_u64(place.request);
}

fn read_answer(message: &[u8], socket: Option<OwnedFd>) -> Option<(AnswerPlace, HelperAnswer)> {
    let (place, rest) = read_place(message)?;
    let (kind, rest) = rest.split_first()?;
    let (is_good, rest) = rest.split_first()?;
    let text = || String::from_utf8_lossy(rest).into_owned();
    let is_good = *is_good == 1;
    let answer = match *kind {
        QUESTION => HelperAnswer::Confirmed(is_good),
        CHECK_PROVIDER if is_good => HelperAnswer::Checked(Ok(text())),
        CHECK_PROVIDER => HelperAnswer::Checked(Err(text())),
        SIGN if is_good => HelperAnswer::Signed(Ok(rest.to_vec())),
        SIGN => HelperAnswer::Signed(Err(text())),
        START_TOKEN | RESOLVE_TOKEN if is_good => HelperAnswer::Reached(Ok((text(), socket))),
        START_TOKEN | RESOLVE_TOKEN => HelperAnswer::Reached(Err(text())),
        _ => return None,
    };
    Some((place, answer))
}

/// The result of a thread of the helper.
#[derive(Default)]
struct Performed {
    /// The rest of the answer.
    bytes: Vec<u8>,
    /// The process that reaches a library's tokens, and its socket.
    started: Option<TokenProcess>,
}

impl From<Vec<u8>> for Performed {
    fn from(bytes: Vec<u8>) -> Self {
        Self {
            bytes,
            started: None,
        }
    }
}

/// The state that the helper's threads share.
struct Helping {
    socket: OwnedFd,
    allowed_providers: String,
    /// Signatures of security keys that are awaited, each with the socket whose shutdown ends it once it
    /// has begun.
    awaited: Mutex<HashMap<(u64, u64), Option<OwnedFd>>>,
    /// One lock for each key that has signed.
    keys: Mutex<HashMap<Vec<u8>, Arc<Mutex<()>>>>,
}

/// Serves requests until the agent has gone.
fn serve(socket: OwnedFd, allowed_providers: String) -> Arc<Helping> {
    // The terminal's signals are for the agent, whose end the helper waits for.
    let _ = sys::signals::block(&[Signal::INT, Signal::HUP, Signal::TERM, Signal::QUIT]);
    let helping = Arc::new(Helping {
        socket,
        allowed_providers,
        awaited: Mutex::default(),
        keys: Mutex::default(),
    });
    let mut message = vec![0; MAX_REQUEST_BYTES];
    let code = sys::memory::CodePages::find();
    loop {
        code.wait_without(helping.socket.as_fd(), None);
        let length = match sys::io::read(&helping.socket, &mut message) {
            Ok(0) | Err(_) => return helping,
            Ok(length) => length,
        };
        let request = message.get(..length).and_then(read_place);
        let Some((place, Some((kind, rest)))) =
            request.map(|(place, rest)| (place, rest.split_first()))
        else {
            return helping;
        };
        let kind = *kind;
        if kind == CANCEL {
            helping.cancel(place);
            continue;
        }
        if kind == SIGN {
            locked(&helping.awaited).insert((place.connection, place.request), None);
        }
        let (threads, rest) = (Arc::clone(&helping), rest.to_vec());
        let working = std::thread::Builder::new().spawn(move || {
            let (done, started) = match threads.perform(place, kind, &rest) {
                Ok(done) => (Ok(done.bytes), done.started),
                Err(reason) => (Err(reason), None),
            };
            threads.answer(place, kind, done, started.as_ref().map(|it| &it.socket));
            if let Some(mut started) = started {
                // The child ends when the agent has closed the socket, of which this is a copy, and
                // with this thread.
                drop(started.socket);
                started.printed.show_to_end();
                let _ = started.child.wait();
            }
        });
        if working.is_err() {
            locked(&helping.awaited).remove(&(place.connection, place.request));
            helping.answer(
                place,
                kind,
                Err("no thread can be started".to_owned()),
                None,
            );
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Helping {
    fn perform(&self, place: AnswerPlace, kind: u8, rest: &[u8]) -> Result<Performed, String> {
        match kind {
            QUESTION => match askpass::confirms(&String::from_utf8_lossy(rest)) {
                true => Ok(Performed::default()),
                false => Err(String::new()),
            },
            CHECK_PROVIDER => {
                let provider = self.provider(&String::from_utf8_lossy(rest))?;
                Ok(provider.name().as_bytes().to_vec().into())
            }
            SIGN => {
                let signature = self.sign(place, rest);
                locked(&self.awaited).remove(&(place.connection, place.request));
                signature.map(Performed::from)
            }
            START_TOKEN => self.start_token(&String::from_utf8_lossy(rest)),
            RESOLVE_TOKEN => {
                let (_, text) = canonical(&String::from_utf8_lossy(rest))?;
                Ok(text.into_bytes().into())
            }
            _ => Err("unknown request".to_owned()),
        }
    }

    /// The provider, if its path without links matches the patterns.
    fn provider(&self, name: &str) -> Result<Provider, String> {
        let provider =
            Provider::new(name).map_err(|why| format!("failed provider \"{name}\": {why}"))?;
        let is_allowed =
            provider.is_internal() || may_load(provider.name(), &self.allowed_providers);
        match is_allowed {
            true => Ok(provider),
            false => Err(format!("provider \"{name}\" is not allowed (-P)")),
        }
    }

    /// Starts the process for a library of tokens, if its path without links matches the patterns.
    fn start_token(&self, library: &str) -> Result<Performed, String> {
        let (path, text) = canonical(library)?;
        if !may_load(&text, &self.allowed_providers) {
            return Err("the option -P does not permit its path".to_owned());
        }
        let started = token::start(&path).map_err(|error| error.to_string())?;
        Ok(Performed {
            bytes: text.into_bytes(),
            started: Some(started),
        })
    }

    fn sign(&self, place: AnswerPlace, rest: &[u8]) -> Result<Vec<u8>, String> {
        let malformed = |error: wire::DecodeError| error.to_string();
        let mut reader = Reader::new(rest);
        let provider = reader.utf8().map_err(malformed)?;
        let notice = reader.utf8().map_err(malformed)?;
        let pin_prompt = reader.utf8().map_err(malformed)?;
        let data = reader.string().map_err(malformed)?;
        let key = reader.string().map_err(malformed)?;
        let key = HeldKey::read(&mut Reader::new(key))
            .map_err(|error| error.to_string())?
            .key;
        let provider = self.provider(provider)?;
        let turn = Arc::clone(locked(&self.keys).entry(key.public().blob()).or_default());
        let _turn = locked(&turn);
        let mut pin: Option<Zeroizing<Vec<u8>>> = None;
        let at = (place.connection, place.request);
        loop {
            if !locked(&self.awaited).contains_key(&at) {
                return Err("nobody awaits the signature".to_owned());
            }
            let shown = match notice {
                "" => None,
                notice => Notification::show(notice),
            };
            let pin_bytes = pin.as_deref().map(Vec::as_slice);
            match self.sign_once(place, &provider, &key, data, pin_bytes) {
                Err(FidoError::PinRequired) if pin.is_none() && askpass::may_ask() => {
                    drop(shown);
                    let asked = askpass::ask(&askpass::program(), pin_prompt, None);
                    pin = Some(asked?.ok_or("the user gave no PIN")?);
                }
                other => return other.map_err(|error| error.to_string()),
            }
        }
    }

    fn sign_once(
        &self,
        place: AnswerPlace,
        provider: &Provider,
        key: &PrivateKey,
        data: &[u8],
        pin: Option<&[u8]>,
    ) -> Result<Vec<u8>, FidoError> {
        let running = provider.start_signing(key, data, pin)?;
        let at = (place.connection, place.request);
        if let Ok(canceller) = running.canceller() {
            match locked(&self.awaited).get_mut(&at) {
                Some(awaited) => *awaited = Some(canceller),
                // Canceled while it began.
                None => end(&canceller),
            }
        }
        let signature = running.signature(key);
        if let Some(awaited) = locked(&self.awaited).get_mut(&at) {
            *awaited = None;
        }
        signature
    }

    fn cancel(&self, place: AnswerPlace) {
        let awaited = locked(&self.awaited).remove(&(place.connection, place.request));
        if let Some(Some(socket)) = awaited {
            end(&socket);
        }
    }

    fn answer(
        &self,
        place: AnswerPlace,
        kind: u8,
        done: Result<Vec<u8>, String>,
        token: Option<&OwnedFd>,
    ) {
        let mut message = Vec::new();
        write_place(&mut message, place);
        message.put_u8(kind);
        message.put_bool(done.is_ok());
        let rest = done.unwrap_or_else(String::into_bytes);
        let room = MAX_ANSWER_BYTES - message.len();
        message.extend_from_slice(rest.get(..room).unwrap_or(&rest));
        let sockets: Vec<BorrowedFd<'_>> = token.map(AsFd::as_fd).into_iter().collect();
        let _ = sys::socket::local::send_with_fds(&self.socket, &message, &sockets);
    }
}

/// Ends the signature that is awaited at a socket.
fn end(socket: &OwnedFd) {
    let _ = sys::socket::shutdown(socket, sys::socket::ShutdownDirection::Both);
}

/// A library's path without links, also as text.
fn canonical(library: &str) -> Result<(PathBuf, String), String> {
    let path = std::fs::canonicalize(library).map_err(|error| {
        let reason = error.to_string();
        escape::system_words(&reason).into_owned()
    })?;
    let text = path.to_str().ok_or("its path is not text")?.to_owned();
    Ok((path, text))
}

/// Whether the patterns of `-P` permit to load the library with this path, which has no links.
fn may_load(path: &str, allowed: &str) -> bool {
    match_list(path.as_bytes(), allowed.as_bytes(), Case::Sensitive).is_yes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_is_permitted_by_its_canonical_path() {
        let allowed = may_load;
        let default = "/usr/lib*/*,/usr/local/lib*/*";
        assert!(allowed(
            "/usr/lib/x86_64-linux-gnu/softhsm/libsofthsm2.so",
            default
        ));
        assert!(allowed("/usr/lib64/pkcs11/x.so", default));
        assert!(allowed("/usr/local/lib/x.so", default));
        assert!(!allowed("/tmp/usr/lib/x.so", default));
        assert!(!allowed("/home/mia/x.so", default));
        assert!(!allowed("/usr/lib/x.so", "/usr/lib/*,!/usr/lib/x.so"));
        assert!(!allowed("/usr/lib/x.so", ""));
    }
}
