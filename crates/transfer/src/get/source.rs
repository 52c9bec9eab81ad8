//! A single file that is looked up, opened and read in one flight: over a long path each round trip
//! costs as much as many bytes.
//!
//! The server sends the whole file without a request per block (`open-read`, docs/PROTOCOL.md).
//! Data that arrives before the local file is open is kept in the received buffers; the channel's
//! window bounds it. A server without the extension refuses the request, and the attributes are
//! known by then as usual.
//!
//! The local file is not touched before data has arrived. A small file, which fits in one flight
//! anyway, is received completely first: its length is that of the received data, whatever its
//! attributes say (a sysfs file claims a page, a log grows), and a failure on the way leaves the
//! local file unchanged.

use bytes::Bytes;
use sftp::extension::{Extended, OpenRead};
use sftp::message::{Reply, Request, request};
use sftp::{Attributes, vendor};

use crate::engine::{EngineError, Op, Session, Token, Work, status_text};
use crate::glob::{self, Match};
use crate::options::{Options, Resume};
use crate::plan::id::FileId;
use crate::step::SMALL_BYTES;

/// Maximum number of bytes kept; beyond it the stream is ended, and the file is downloaded in the
/// ordinary way.
const MOST_KEPT_BYTES: usize = 32 << 20;
/// Minimum length of a piece kept in its receive buffer, bytes. A shorter one is copied, since it
/// would pin a buffer that may mostly hold other data.
const WORTH_KEEPING_BYTES: usize = 16 << 10;
/// Memory counted per piece in addition to its bytes.
const PIECE_BYTES: usize = 128;

/// What the tokens of STAT and LSTAT are about: what the path leads to, and the name itself.
const TARGET: usize = 0;
const NAME: usize = 1;

/// The work that looks up and opens one file, as the module's documentation describes.
#[derive(Debug)]
pub struct DownloadSource {
    path: Vec<u8>,
    there: Option<Attributes>,
    /// LSTAT was answered.
    named: bool,
    /// LSTAT failed: there is no such name, as in OpenSSH, even if the server would open it.
    missing: bool,
    /// STAT was answered, or is not needed.
    looked: bool,
    reading: Option<Reading>,
    sent: bool,
    /// An interrupt: open nothing.
    stopped: bool,
    lost: bool,
}

/// A file that the server streams.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) path: Vec<u8>,
    pub(super) id: u32,
    /// The handle, while the file is open.
    pub(super) handle: Option<Vec<u8>>,
    attributes: Option<Attributes>,
    /// The data received.
    pub(super) pieces: Vec<Bytes>,
    kept: usize,
    /// The stream has ended, with the error if it failed.
    pub(super) ended: Option<Option<String>>,
    /// The server sent an answer of an unexpected type.
    pub(super) is_odd: bool,
    /// The file was opened, so its handle is counted.
    counts: bool,
    unwanted: bool,
    /// The stream was cancelled or the handle closed.
    left: bool,
}

impl Reading {
    fn new(path: Vec<u8>, id: u32) -> Self {
        Self {
            path,
            id,
            handle: None,
            attributes: None,
            pieces: Vec::new(),
            kept: 0,
            ended: None,
            is_odd: false,
            counts: false,
            unwanted: false,
            left: false,
        }
    }

    /// The token of the stream: that of the file that a download begins first.
    fn token() -> Token {
        FileId::FIRST.token(Op::OpenRead)
    }

    /// Processes an answer.
    pub(super) fn reply(&mut self, session: &mut Session, reply: &Reply<'_>) {
        match reply {
            Reply::Extended(fields) => {
                self.opened(session, fields);
                return;
            }
            Reply::Status(status) => {
                let why = (!status.code.is_ok()).then(|| status_text(status.code, status.message));
                let is_whole = why.is_none() && self.is_small() && self.is_wanted();
                if let (true, Some(attributes)) = (is_whole, &mut self.attributes) {
                    attributes.size = u64::try_from(self.kept).ok();
                }
                self.ended = Some(why);
            }
            _ => {
                self.surprises();
                self.ended = Some(None);
            }
        }
        if !self.counts {
            session.handle_ends();
        }
    }

    fn opened(&mut self, session: &mut Session, fields: &[u8]) {
        let opened = vendor::OpenedFile::decode(fields).ok();
        let Some(opened) = opened.filter(|_| self.attributes.is_none()) else {
            self.surprises();
            return;
        };
        self.attributes = Some(opened.attributes);
        self.counts = !opened.handle.is_empty();
        if self.counts && self.left {
            session.close_read(opened.handle);
        } else if self.counts {
            self.handle = Some(opened.handle.to_vec());
        }
    }

    /// Handles an answer of an unexpected type: unless a file is open, the ordinary way may work.
    fn surprises(&mut self) {
        self.is_odd = true;
        if self.handle.is_none() {
            self.give_up();
        }
    }

    /// Processes the next data.
    pub(super) fn data(&mut self, bytes: &Bytes) {
        if self.unwanted {
            return;
        }
        if self.handle.is_none() || self.is_odd {
            self.surprises();
            return;
        }
        self.kept = self.kept.saturating_add(bytes.len());
        self.pieces.push(match bytes.len() {
            ..WORTH_KEEPING_BYTES => Bytes::copy_from_slice(bytes),
            _ => bytes.clone(),
        });
        let besides = self.pieces.len().saturating_mul(PIECE_BYTES);
        if self.kept.saturating_add(besides) > MOST_KEPT_BYTES {
            self.give_up();
        }
    }

    /// True if the attributes give a small size and no more data has arrived. A file of size 0 may
    /// have any length.
    fn is_small(&self) -> bool {
        let size = self.attributes.and_then(|attributes| attributes.size);
        size.is_some_and(|size| (1..=SMALL_BYTES).contains(&size))
            && u64::try_from(self.kept).is_ok_and(|kept| kept <= SMALL_BYTES)
    }

    /// True if the received data suffices to decide whether the local file is touched.
    fn is_told(&self) -> bool {
        let goes_on = self.kept > 0 && !self.is_small();
        self.handle.is_some() && (self.is_odd || self.ended.is_some() || goes_on)
    }

    /// True if the stream failed without data worth writing to the local file.
    pub(super) fn is_spoiled(&self) -> bool {
        let failed = matches!(self.ended, Some(Some(_)));
        self.is_odd || failed && (self.kept == 0 || self.is_small())
    }

    /// Marks the stream as not needed.
    pub(super) fn give_up(&mut self) {
        self.unwanted = true;
        self.pieces = Vec::new();
    }

    /// True if the stream is needed.
    pub(super) fn is_wanted(&self) -> bool {
        !self.unwanted
    }

    /// Ends a stream that is not needed, once; returns true if a request was sent.
    pub(super) fn leave(&mut self, session: &mut Session) -> bool {
        if !self.unwanted || std::mem::replace(&mut self.left, true) {
            return false;
        }
        if self.ended.is_none() {
            session.cancel(self.id);
        }
        if let Some(handle) = self.handle.take() {
            session.close_read(&handle);
        }
        true
    }

    /// True if the stream is ended and its handle closed.
    pub(super) fn is_left(&self) -> bool {
        self.left && self.ended.is_some()
    }
}

impl DownloadSource {
    /// Creates the work for the file that `word` names. `None` for a pattern, and for a copy that
    /// resumes, preserves holes, has a rate limit or uses several connections.
    #[must_use]
    pub fn new(word: &[u8], options: &Options, links: usize) -> Option<Self> {
        let whole = options.resume == Resume::Never
            && options.limit_bytes == 0
            && !options.sparse
            && links == 1;
        let path = glob::plain_path(word).filter(|path| whole && !path.is_empty())?;
        Some(Self {
            path,
            there: None,
            named: false,
            missing: false,
            looked: false,
            reading: None,
            sent: false,
            stopped: false,
            lost: false,
        })
    }

    /// Returns the path and attributes of the file; `None` if there is none or a request failed.
    #[must_use]
    pub fn found(&self) -> Option<Match> {
        self.there.filter(|_| !self.missing).map(|there| Match {
            path: self.path.clone(),
            attributes: Some(there),
            listed: None,
        })
    }

    pub(super) fn into_reading(self) -> Option<Reading> {
        self.reading.filter(Reading::is_wanted)
    }
}

impl Work for DownloadSource {
    fn poll(&mut self, link: usize, session: &mut Session) -> bool {
        let may = session.is_ready() || session.takes_early();
        if link != 0 || !may {
            return false;
        }
        if std::mem::replace(&mut self.sent, true) {
            let reading = self.reading.as_mut();
            return reading.is_some_and(|reading| reading.leave(session));
        }
        let path = self.path.as_slice();
        // Otherwise nothing is open yet.
        let has_told = session.is_open();
        let opens = !self.stopped
            && session.may_know(vendor::OPEN_READ, "1")
            && (!has_told || session.takes_handle());
        // A server that announced the extension answers with the attributes, which replace STAT's.
        self.looked = opens && has_told;
        let lstat = Request::Lstat(request::Lstat { path });
        session.send(Token::new(NAME, Op::Stat), &lstat);
        if !self.looked {
            let stat = Request::Stat(request::Stat { path });
            session.send(Token::new(TARGET, Op::Stat), &stat);
        }
        if opens {
            session.handle_begins();
            let open = Request::Extended(Extended::OpenRead(OpenRead {
                path,
                flags: 0,
                len: u64::MAX,
            }));
            let id = session.send(Reading::token(), &open);
            self.reading = Some(Reading::new(self.path.clone(), id));
        }
        true
    }

    fn is_early(&self) -> bool {
        !self.sent
    }

    fn reply(&mut self, _link: usize, session: &mut Session, token: Token, reply: &Reply<'_>) {
        if token.op == Op::Stat && token.job == NAME {
            self.named = true;
            self.missing = !matches!(reply, Reply::Attrs(_));
            if let (true, Some(reading)) = (self.missing, &mut self.reading) {
                reading.give_up();
            }
            return;
        }
        if token.op == Op::Stat {
            self.looked = true;
            if let (Reply::Attrs(there), None) = (reply, self.there) {
                self.there = Some(*there);
            }
            return;
        }
        let Some(reading) = &mut self.reading else {
            return;
        };
        reading.reply(session, reply);
        // The opened file is the one that is copied.
        self.there = reading.attributes.or(self.there);
        if reading.ended.is_some() && reading.handle.is_none() {
            self.reading = None;
        }
    }

    fn data(&mut self, _link: usize, _token: Token, _at: u32, bytes: &Bytes) {
        if let Some(reading) = &mut self.reading {
            reading.data(bytes);
        }
    }

    fn is_done(&self) -> bool {
        let waits = |reading: &Reading| match reading.is_wanted() {
            true => !reading.is_told(),
            false => !reading.is_left(),
        };
        self.lost
            || self.sent && self.named && self.looked && !self.reading.as_ref().is_some_and(waits)
    }

    fn stop(&mut self) {
        self.stopped = true;
        if let Some(reading) = &mut self.reading {
            reading.give_up();
        }
    }

    fn lost(&mut self, _why: &EngineError) {
        self.lost = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A session with the request for a file, and its work.
    fn asked() -> (Session, Reading) {
        let mut session = Session::default();
        session.handle_begins();
        let stat = Request::Stat(request::Stat { path: b"f" });
        let id = session.send(Reading::token(), &stat);
        (session, Reading::new(b"f".to_vec(), id))
    }

    fn opened(handle: &[u8]) -> Vec<u8> {
        let mut fields = Vec::new();
        let attributes = Attributes::with_permissions(0o100_644);
        vendor::OpenedFile { attributes, handle }.write(&mut fields);
        fields
    }

    #[test]
    fn no_more_is_kept_than_fits_whatever_comes() {
        let (mut session, mut reading) = asked();
        reading.reply(&mut session, &Reply::Extended(&opened(b"h")));
        let piece = Bytes::from(vec![0; 1 << 20]);
        for _ in 1..MOST_KEPT_BYTES >> 20 {
            reading.data(&piece);
            assert!(reading.is_wanted() && !reading.leave(&mut session));
        }
        let before = session.open_requests();
        for _ in 0..3 {
            reading.data(&piece);
            assert!(!reading.is_wanted() && reading.pieces.is_empty());
        }
        // The stream is cancelled and the handle closed, once.
        assert!(reading.leave(&mut session) && !reading.leave(&mut session));
        assert_eq!(session.open_requests(), before + 2);
        assert!(!reading.is_left());
        reading.reply(&mut session, &Reply::Attrs(Attributes::NONE));
        assert!(reading.is_left());
    }

    #[test]
    fn what_is_opened_when_nobody_wants_it_any_more_is_closed() {
        let (mut session, mut reading) = asked();
        reading.give_up();
        let before = session.open_requests();
        assert!(reading.leave(&mut session));
        assert_eq!(session.open_requests(), before + 1);
        reading.reply(&mut session, &Reply::Extended(&opened(b"h")));
        assert_eq!(session.open_requests(), before + 2);
        assert!(reading.handle.is_none());
    }

    #[test]
    fn a_short_piece_does_not_keep_the_packet_that_it_came_in() {
        let mut reading = Reading::new(b"file".to_vec(), 1);
        reading.handle = Some(b"handle".to_vec());
        let packet = Bytes::from(vec![7; 64 << 10]);
        reading.data(&packet.slice(..1));
        assert!(packet.is_unique());
        reading.data(&packet.slice(1..));
        assert!(!packet.is_unique());
        assert_eq!(reading.pieces.concat(), packet);
        // However short the pieces, the memory for them is bounded.
        while reading.is_wanted() {
            reading.data(&packet.slice(..1));
            assert!(reading.pieces.len() <= MOST_KEPT_BYTES / PIECE_BYTES);
        }
        assert!(reading.pieces.is_empty());
    }
}
