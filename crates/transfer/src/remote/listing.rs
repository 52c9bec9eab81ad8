//! Reads the entries of a directory.

use sftp::message::{Reply, Request, request};
use sftp::{Attributes, Code};

use super::RemoteError;
use crate::engine::{Engine, EngineError, Op, Session, Token, Transport, Work, status_text};

/// Maximum number of unanswered READDIRs.
const MAX_OPEN_READS: u32 = 4;
/// Maximum number of entries kept of one directory.
const MAX_ENTRIES: usize = 1_000_000;

/// One entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The name, one path component; escape it before printing.
    pub name: Vec<u8>,
    /// The line of `ls -l` as the server formats it; escape it before printing.
    pub long_name: Vec<u8>,
    /// The attributes as LSTAT returns them.
    pub attributes: Attributes,
}

struct Listing<'p> {
    link: usize,
    path: &'p [u8],
    asked: bool,
    handle: Option<Vec<u8>>,
    reading: u32,
    at_end: bool,
    closing: bool,
    done: bool,
    entries: Vec<Entry>,
    error: Option<RemoteError>,
}

/// Reads the entries of the directory at `path`.
pub(super) fn read<T: Transport>(
    engine: &mut Engine<T>,
    link: usize,
    path: &[u8],
) -> Result<Vec<Entry>, RemoteError> {
    let mut work = Listing {
        link,
        path,
        asked: false,
        handle: None,
        reading: 0,
        at_end: false,
        closing: false,
        done: false,
        entries: Vec::new(),
        error: None,
    };
    engine.run(&mut work)?;
    match work.error {
        Some(error) => Err(error),
        None => Ok(work.entries),
    }
}

impl Listing<'_> {
    fn fail(&mut self, reply: &Reply<'_>) {
        let error = match reply {
            Reply::Status(status) => RemoteError::Status {
                code: status.code,
                text: status_text(status.code, status.message),
            },
            _ => RemoteError::Unexpected,
        };
        self.error.get_or_insert(error);
    }
}

impl Work for Listing<'_> {
    fn poll(&mut self, link: usize, session: &mut Session) -> bool {
        if link != self.link || !session.is_open() {
            return false;
        }
        if !self.asked {
            self.asked = true;
            let request = Request::Opendir(request::Opendir { path: self.path });
            session.send(Token::new(0, Op::Opendir), &request);
            return true;
        }
        let Some(handle) = &self.handle else {
            return false;
        };
        if self.at_end {
            if self.reading > 0 || self.closing {
                return false;
            }
            self.closing = true;
            let request = Request::Close(request::Close { handle });
            session.send(Token::new(0, Op::Close), &request);
            return true;
        }
        if self.reading >= MAX_OPEN_READS {
            return false;
        }
        self.reading += 1;
        let request = Request::Readdir(request::Readdir { handle });
        session.send(Token::new(0, Op::Readdir), &request);
        true
    }

    fn reply(&mut self, _link: usize, _session: &mut Session, token: Token, reply: &Reply<'_>) {
        match (token.op, reply) {
            (Op::Opendir, Reply::Handle(handle)) => self.handle = Some(handle.handle.to_vec()),
            (Op::Opendir, reply) => {
                self.fail(reply);
                self.done = true;
            }
            (Op::Readdir, Reply::Names(names)) => {
                self.reading = self.reading.saturating_sub(1);
                self.at_end |= names.count() == 0 || self.entries.len() >= MAX_ENTRIES;
                for entry in names.iter() {
                    let Ok(entry) = entry else {
                        self.error.get_or_insert(RemoteError::Unexpected);
                        self.at_end = true;
                        break;
                    };
                    self.entries.push(Entry {
                        name: entry.name.to_vec(),
                        long_name: entry.long_name.to_vec(),
                        attributes: entry.attributes,
                    });
                }
            }
            (Op::Readdir, reply) => {
                self.reading = self.reading.saturating_sub(1);
                let ended = matches!(reply, Reply::Status(status) if status.code == Code::EOF);
                if !ended && !self.at_end {
                    self.fail(reply);
                }
                self.at_end = true;
            }
            (Op::Close, _) => self.done = true,
            _ => {}
        }
    }

    fn is_done(&self) -> bool {
        self.done
    }

    fn stop(&mut self) {
        self.at_end = true;
        self.done |= !self.asked;
    }

    fn lost(&mut self, _why: &EngineError) {
        self.done = true;
    }
}
