//! What the copying of one file needs whichever way its bytes go: its handles at the server, its
//! unanswered requests, its error and its counts ([`FileCopy`]); the proof of what the target holds
//! already ([`Proof`]); the files in progress ([`Files`]); and the work on all of them
//! ([`FileWork`]).
//!
//! An upload (`put`), a download (`get`), a copy between servers (`relay`) and a comparison
//! (`verify`) differ in their source and sink only: their stages are there.
//!
//! Invariants: every request about a file is counted until it is answered, so that a file is over
//! only when none is left; a handle is closed once; the first error of a file is the one that is
//! reported.

use sftp::message::{Reply, Request, request};
use sftp::{Attributes, Code};

use crate::engine::{Op, Session, status_text};
use crate::plan::id::{DirId, FileId};
use crate::report::FileResult;
use crate::step::Step;

mod handles;
mod progress;
mod proof;
mod work;

pub(crate) use handles::Handles;
pub(crate) use progress::{FileAnswer, FileJob, Files};
pub(crate) use proof::Proof;
pub(crate) use work::FileWork;

/// The part of a file's copy that does not depend on its direction.
#[derive(Debug)]
pub(crate) struct FileCopy {
    id: FileId,
    /// The directory that counts the file.
    parent: Option<DirId>,
    pub(crate) handles: Handles,
    /// Number of unanswered requests.
    waiting: u32,
    error: Option<String>,
    /// Number of bytes transferred.
    pub(crate) moved: u64,
    /// Number of bytes of the target that existed before and were kept.
    pub(crate) resumed: u64,
    /// Number of bytes that need not be transferred and were not reported yet.
    pub(crate) skipped: u64,
    /// Connections on which the file has become able to send.
    wakes: Vec<usize>,
}

impl FileCopy {
    /// For a file that is copied over these connections.
    pub(crate) fn new(id: FileId, parent: Option<DirId>, links: Vec<usize>) -> Self {
        Self {
            id,
            parent,
            handles: Handles::new(links),
            waiting: 0,
            error: None,
            moved: 0,
            resumed: 0,
            skipped: 0,
            wakes: Vec::new(),
        }
    }

    pub(crate) fn id(&self) -> FileId {
        self.id
    }

    pub(crate) fn parent(&self) -> Option<DirId> {
        self.parent
    }

    /// The copy has failed; only the first error counts.
    pub(crate) fn fail(&mut self, error: String) {
        self.error.get_or_insert(error);
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.error.is_some()
    }

    pub(crate) fn error(&mut self) -> Option<&mut String> {
        self.error.as_mut()
    }

    /// Result of the copy, once it is over.
    pub(crate) fn into_result(self, from: Vec<u8>, to: Vec<u8>) -> FileResult {
        FileResult {
            from,
            to,
            bytes: self.moved,
            resumed_bytes: self.resumed,
            verified: None,
            error: self.error,
        }
    }

    // ---- requests -------------------------------------------------------------------------

    /// True if every request was answered.
    pub(crate) fn is_idle(&self) -> bool {
        self.waiting == 0
    }

    /// Sends a request about the file.
    pub(crate) fn send(&mut self, session: &mut Session, op: Op, request: &Request<'_>) {
        self.sent();
        session.send(self.id.token(op), request);
    }

    /// Sends a request about `len` bytes of the file from `offset` on.
    pub(crate) fn send_data(
        &mut self,
        session: &mut Session,
        op: Op,
        (offset, len): (u64, u32),
        request: &Request<'_>,
    ) {
        self.sent();
        session.send(self.id.data_token(op, offset, len), request);
    }

    /// Sends READ of a range of the file.
    pub(crate) fn read(&mut self, session: &mut Session, handle: &[u8], range: (u64, u32)) {
        let (offset, len) = range;
        let request = Request::Read(request::Read {
            handle,
            offset,
            len,
        });
        self.send_data(session, Op::Read, range, &request);
    }

    /// Forgets handles and requests, since the connections are lost.
    pub(crate) fn abandon(&mut self) {
        self.handles.abandon();
        self.waiting = 0;
    }

    /// Counts a request that is sent otherwise.
    pub(crate) fn sent(&mut self) {
        self.waiting += 1;
    }

    /// A request was answered.
    pub(crate) fn answered(&mut self) {
        self.waiting = self.waiting.saturating_sub(1);
    }

    /// Opens the file on this connection.
    pub(crate) fn open(&mut self, link: usize, session: &mut Session, open: request::Open<'_>) {
        session.handle_begins();
        self.handles.asked(link);
        self.send(session, Op::Open, &Request::Open(open));
    }

    /// Opens the file on this connection for reading only.
    pub(crate) fn open_to_read(&mut self, link: usize, session: &mut Session, path: &[u8]) -> Step {
        if !session.takes_handle() {
            return Step::Full;
        }
        let open = request::Open {
            path,
            flags: sftp::message::open_flag::READ,
            attributes: Attributes::NONE,
        };
        self.open(link, session, open);
        Step::Sent { more: false }
    }

    /// Processes the answer to OPEN on this connection.
    ///
    /// # Errors
    /// Why the connection has no handle.
    pub(crate) fn opened(
        &mut self,
        link: usize,
        session: &mut Session,
        reply: &Reply<'_>,
    ) -> Result<(), String> {
        if let Reply::Handle(handle) = reply {
            self.handles.opened(link, handle.handle.to_vec());
            return Ok(());
        }
        session.handle_ends();
        self.handles.refused(link);
        Err(failure(reply).map_or("the answer has no handle".to_owned(), |(_, why)| why))
    }

    /// Closes a handle that was only read from; the answer does not matter.
    pub(crate) fn close_read(&mut self, link: usize, session: &mut Session) {
        if let Some(handle) = self.handles.close(link) {
            session.close_read(&handle);
        }
    }

    /// Closes the file on this connection, if it is open there.
    pub(crate) fn close(&mut self, link: usize, session: &mut Session) -> Step {
        let Some(handle) = self.handles.close(link) else {
            return Step::Nothing;
        };
        let handle = &handle;
        let request = Request::Close(request::Close { handle });
        self.send(session, Op::Close, &request);
        Step::Sent { more: false }
    }

    /// Closes the first connection's handle and wakes the other connections.
    pub(crate) fn close_all(&mut self, session: &mut Session) {
        self.wakes.extend(self.handles.links().skip(1));
        if let Some(first) = self.handles.first_link() {
            self.close(first, session);
        }
    }

    // ---- connections that can send --------------------------------------------------------

    /// Returns and resets the connections on which the file has become able to send.
    pub(crate) fn take_wakes(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.wakes)
    }

    pub(crate) fn wake(&mut self, link: usize) {
        self.wakes.push(link);
    }

    pub(crate) fn wake_first(&mut self) {
        self.wakes.extend(self.handles.first_link());
    }

    pub(crate) fn wake_all(&mut self) {
        self.wakes.extend(self.handles.links());
    }

    /// Wakes the connections that have opened the file and move no data yet.
    pub(crate) fn wake_opened(&mut self) {
        self.wakes.extend(self.handles.begin_opened());
    }

    /// The first handle is valid only on its own connection: wakes that connection, unless an
    /// answer will.
    pub(crate) fn leave_to_first(&mut self) -> Step {
        if self.is_idle() {
            self.wake_first();
        }
        Step::Nothing
    }
}

/// Code and text of an answer that reports a failure; `None` for any other answer.
pub(crate) fn failure(reply: &Reply<'_>) -> Option<(Code, String)> {
    match reply {
        Reply::Status(status) if !status.code.is_ok() => {
            Some((status.code, status_text(status.code, status.message)))
        }
        _ => None,
    }
}
