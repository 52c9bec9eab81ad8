//! Compares the content of both ends: by hashes if the server supports them, else by reading the
//! server's file back.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use bytes::Bytes;
use sftp::extension::{self, Extended};
use sftp::message::{Reply, Request, open_flag, request};
use sftp::{Attributes, Code, vendor};

use crate::engine::{EngineError, Op, Session, Token, Work, status_text};
use crate::plan::shown;
use crate::source::hash::{self, Hashing};
use crate::step::SMALL_BYTES;
use crate::text;

/// A local file and the server's file to compare with it.
#[derive(Debug, Clone)]
pub struct Pair {
    /// Path of the local file.
    pub local: PathBuf,
    /// Path at the server.
    pub remote: Vec<u8>,
}

#[derive(Debug)]
struct Current {
    pair: Pair,
    file: File,
    len: u64,
    handle: Option<Vec<u8>>,
    next: u64,
    waiting: u32,
    asked: bool,
    closing: bool,
    hash: Option<Hashing>,
    error: Option<String>,
}

/// Compares the pairs one by one, in the order given.
#[derive(Debug, Default)]
pub struct Compare {
    pairs: VecDeque<Pair>,
    current: Option<Current>,
    by_hash: bool,
    /// Pairs that differ or could not be compared: one line each.
    pub failures: Vec<String>,
    lost: bool,
}

impl Compare {
    /// Creates a work that compares `pairs`.
    #[must_use]
    pub fn new(pairs: Vec<Pair>) -> Self {
        Self {
            pairs: pairs.into(),
            ..Self::default()
        }
    }

    /// Returns the method of comparison, for the user.
    #[must_use]
    pub fn how(&self) -> &'static str {
        match self.by_hash {
            true => "BLAKE3 at both ends",
            false => "read back",
        }
    }

    fn begin(&mut self) -> bool {
        let Some(pair) = self.pairs.pop_front() else {
            return false;
        };
        let opened = File::open(&pair.local).and_then(|file| Ok((length(&file)?, file)));
        match opened {
            Ok((len, file)) => {
                self.current = Some(Current {
                    pair,
                    file,
                    len,
                    handle: None,
                    next: 0,
                    waiting: 0,
                    asked: false,
                    closing: false,
                    hash: None,
                    error: None,
                });
            }
            Err(error) => {
                let local = shown(&pair.local);
                self.failures
                    .push(format!("verify \"{local}\": {}", text::reason(&error)));
            }
        }
        true
    }
}

/// Returns the number of bytes that can be read. For a file in sysfs the system reports the size of
/// a page, although it has less.
fn length(file: &File) -> io::Result<u64> {
    let len = file.metadata()?.len();
    if len > SMALL_BYTES {
        return Ok(len);
    }
    let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
    let mut had = 0;
    while let Some(room) = bytes.get_mut(had..).filter(|room| !room.is_empty()) {
        match file.read_at(room, u64::try_from(had).unwrap_or(len)) {
            Ok(0) => break,
            Ok(count) => had += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(u64::try_from(had).unwrap_or(len))
}

impl Current {
    fn fail(&mut self, why: &str) {
        let remote = text::name(&self.pair.remote);
        self.error
            .get_or_insert(format!("verify \"{remote}\": {why}"));
    }

    fn step(&mut self, session: &mut Session, by_hash: &mut bool) -> bool {
        let token = |op| Token::new(0, op);
        if !self.asked {
            if !session.takes_handle() {
                return false;
            }
            self.asked = true;
            self.waiting += 1;
            session.handle_begins();
            let request = Request::Open(request::Open {
                path: &self.pair.remote,
                flags: open_flag::READ,
                attributes: Attributes::NONE,
            });
            session.send(token(Op::Open), &request);
            return true;
        }
        let Some(handle) = self.handle.clone() else {
            return false;
        };
        let all_asked = self.next > self.len || self.error.is_some();
        if all_asked {
            if self.waiting > 0 || self.closing {
                return false;
            }
            self.closing = true;
            self.waiting += 1;
            let request = Request::Close(request::Close { handle: &handle });
            session.send(token(Op::Close), &request);
            return true;
        }
        *by_hash = session.server().has(vendor::HASH_RANGE, "1");
        if *by_hash {
            self.next = self.len + 1;
            self.waiting += 1;
            let request = Extended::HashRange(extension::HashRange {
                handle: &handle,
                offset: 0,
                // One byte more than expected: the answer's length then shows a longer file.
                len: self.len + 1,
                block_len: 0,
            });
            session.send(token(Op::Hash), &Request::Extended(request));
            if let Ok(file) = self.file.try_clone() {
                self.hash = Some(hash::begin(file, self.len, 0));
            }
            return true;
        }
        if !session.takes_read() {
            return false;
        }
        // One byte more than expected, to detect a longer file.
        let left = self.len + 1 - self.next;
        let len = u32::try_from(left)
            .unwrap_or(u32::MAX)
            .min(session.server().max_read);
        self.waiting += 1;
        let request = Request::Read(request::Read {
            handle: &handle,
            offset: self.next,
            len,
        });
        session.send(Token::data(0, Op::Read, self.next, len), &request);
        self.next += u64::from(len);
        true
    }

    fn hashed(&mut self, reply: &Reply<'_>) {
        let ours = self.hash.take().and_then(|hashing| hashing.join().ok());
        let theirs = match reply {
            Reply::Extended(fields) => vendor::Hashes::decode(fields).ok(),
            _ => None,
        };
        match (ours, theirs) {
            (Some(ours), Some(theirs)) => {
                if theirs.len != self.len || theirs.hashes != ours {
                    self.fail("the content differs");
                }
            }
            _ => self.fail("no hash is available"),
        }
    }
}

impl Work for Compare {
    fn poll(&mut self, link: usize, session: &mut Session) -> bool {
        if link != 0 || !session.is_ready() {
            return false;
        }
        let mut by_hash = self.by_hash;
        let sent = match &mut self.current {
            Some(current) => current.step(session, &mut by_hash),
            None => self.begin(),
        };
        self.by_hash = by_hash;
        sent
    }

    fn reply(&mut self, _link: usize, session: &mut Session, token: Token, reply: &Reply<'_>) {
        let Some(current) = &mut self.current else {
            return;
        };
        current.waiting = current.waiting.saturating_sub(1);
        let mut over = false;
        match (token.op, reply) {
            (Op::Open, Reply::Handle(handle)) => current.handle = Some(handle.handle.to_vec()),
            (Op::Open, Reply::Status(status)) => {
                session.handle_ends();
                current.fail(&status_text(status.code, status.message));
                over = true;
            }
            (Op::Read, Reply::Status(status)) if status.code == Code::EOF => {
                if token.offset < current.len {
                    current.fail("the content differs: the file on the server is shorter");
                }
            }
            (Op::Read, Reply::Status(status)) => {
                current.fail(&status_text(status.code, status.message));
            }
            (Op::Hash, reply) => current.hashed(reply),
            (Op::Close, _) => {
                session.handle_ends();
                over = true;
            }
            _ => current.fail("an answer of an unexpected type"),
        }
        if over && let Some(current) = self.current.take() {
            self.failures.extend(current.error);
        }
    }

    fn data(&mut self, _link: usize, token: Token, at: u32, bytes: &Bytes) {
        let Some(current) = &mut self.current else {
            return;
        };
        let offset = token.offset + u64::from(at);
        let mut ours = vec![0; bytes.len()];
        let same = current.file.read_exact_at(&mut ours, offset).is_ok() && ours == **bytes;
        if !same {
            current.fail("the content differs");
        }
    }

    fn data_ends(&mut self, _link: usize, _session: &mut Session, token: Token, len: u32) {
        if let Some(current) = &mut self.current {
            current.waiting = current.waiting.saturating_sub(1);
            let until = token.offset + u64::from(len);
            if len < token.len && until < current.len {
                // After a short answer, request the missing bytes and all that follow again.
                current.next = current.next.min(until);
            }
        }
    }

    fn is_done(&self) -> bool {
        self.lost || (self.pairs.is_empty() && self.current.is_none())
    }

    fn lost(&mut self, why: &EngineError) {
        self.lost = true;
        self.failures.push(format!("verify: {why}"));
    }
}
