//! Looks up and opens the target of a file in one flight, before it is known whether the path is a
//! directory: over a long path each round trip costs as much as many bytes.
//!
//! A path that may be the file's own or that of a directory for it is opened as both. Every server
//! refuses one of the two, for a directory cannot be written to, and nothing lies below a file. The
//! OPEN does not truncate: the target may be the source itself.

use sftp::attributes::mode;
use sftp::message::{Reply, Request, open_flag, request};
use sftp::{Attributes, Code};

use crate::engine::{EngineError, Op, Session, Token, Work, status_text};
use crate::step::SMALL_BYTES;

/// The answers for one path.
#[derive(Debug, Default)]
pub(super) struct Place {
    pub(super) path: Vec<u8>,
    /// Attributes from STAT, which follows links.
    pub(super) there: Option<Attributes>,
    /// Attributes from LSTAT.
    pub(super) itself: Option<Attributes>,
    /// The handle, or the error of OPEN.
    pub(super) opened: Option<Result<Vec<u8>, String>>,
}

/// The work that looks up and opens the target, as the module's documentation describes.
#[derive(Debug)]
pub struct Target {
    places: Vec<Place>,
    /// The mode for a new file, if the target is to be opened.
    opens: Option<u32>,
    waiting: usize,
    sent: bool,
    lost: bool,
}

/// The answers for the target of a file.
#[derive(Debug)]
pub(super) struct Known {
    /// The path that the file is written to.
    pub(super) place: Place,
    /// The handle of the other path, if that was opened, to be closed.
    pub(super) other: Option<Vec<u8>>,
}

impl Target {
    /// Maximum size of a file that is sent as a whole and does not need this work.
    pub const WORTH_BYTES: u64 = SMALL_BYTES;

    /// For a file that is written to `path`, or to `below` if `path` is a directory. With `opens`
    /// the target is opened, and created with that mode; the copy must then use the first
    /// connection only.
    #[must_use]
    pub fn new(path: Vec<u8>, below: Vec<u8>, opens: Option<u32>) -> Self {
        let place = |path| Place {
            path,
            ..Place::default()
        };
        Self {
            places: vec![place(path), place(below)],
            opens,
            waiting: 0,
            sent: false,
            lost: false,
        }
    }

    /// True if the first path is a directory.
    #[must_use]
    pub fn is_directory(&self) -> bool {
        let there = self.places.first().and_then(|place| place.there.as_ref());
        there.is_some_and(|there| there.is(mode::DIRECTORY))
    }

    pub(super) fn into_known(mut self) -> Option<Known> {
        let right = usize::from(self.is_directory());
        if right >= self.places.len() {
            return None;
        }
        let place = self.places.swap_remove(right);
        let other = self.places.pop().and_then(|place| place.opened);
        Some(Known {
            place,
            other: other.and_then(Result::ok),
        })
    }

    fn send(&mut self, index: usize, op: Op, session: &mut Session, request: &Request<'_>) {
        session.send(Token::new(index, op), request);
        self.waiting += 1;
    }
}

impl Work for Target {
    fn poll(&mut self, link: usize, session: &mut Session) -> bool {
        let may = session.is_ready() || session.takes_early();
        if link != 0 || self.sent || !may {
            return false;
        }
        self.sent = true;
        for index in 0..self.places.len() {
            let Some(path) = self.places.get(index).map(|place| place.path.clone()) else {
                continue;
            };
            let path = path.as_slice();
            let request = Request::Stat(request::Stat { path });
            self.send(index, Op::Stat, session, &request);
            let Some(mode) = self.opens else {
                let request = Request::Lstat(request::Lstat { path });
                self.send(index, Op::Plain, session, &request);
                continue;
            };
            session.handle_begins();
            let attributes = Attributes::with_permissions(mode & 0o777);
            let request = Request::Open(request::Open {
                path,
                flags: open_flag::WRITE | open_flag::CREATE,
                attributes: session.sole_writer(attributes),
            });
            self.send(index, Op::Open, session, &request);
        }
        true
    }

    fn is_early(&self) -> bool {
        !self.sent
    }

    fn reply(&mut self, _link: usize, session: &mut Session, token: Token, reply: &Reply<'_>) {
        self.waiting = self.waiting.saturating_sub(1);
        let Some(place) = self.places.get_mut(token.job) else {
            return;
        };
        match (token.op, reply) {
            (Op::Stat, Reply::Attrs(there)) => place.there = Some(*there),
            (Op::Plain, Reply::Attrs(itself)) => place.itself = Some(*itself),
            (Op::Open, Reply::Handle(handle)) => place.opened = Some(Ok(handle.handle.to_vec())),
            (Op::Open, reply) => {
                session.handle_ends();
                let why = match reply {
                    Reply::Status(status) if status.code != Code::OK => {
                        status_text(status.code, status.message)
                    }
                    _ => "the answer has no handle".to_owned(),
                };
                place.opened = Some(Err(why));
            }
            _ => {}
        }
    }

    fn is_done(&self) -> bool {
        self.lost || self.sent && self.waiting == 0
    }

    fn lost(&mut self, _why: &EngineError) {
        self.lost = true;
    }
}
