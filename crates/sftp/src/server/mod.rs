//! The file server of one SFTP channel: [`Serve`] takes the client's bytes, carries out the
//! requests, and puts the answers into packet buffers ([`Outbox`]). It does not read or write the
//! channel, and splits long operations into slices, so that it can run in the thread of a
//! connection.
//!
//! The data of a WRITE is written to the file from the slabs in which its packets were decrypted;
//! that of a READ is read into the packet that carries it, after the headroom. Requests are carried
//! out in order. Requests with several answers (`read-range`, `open-read`, `walk`) and long ones
//! (`hash-range`) run concurrently with later requests.
//!
//! Texts, status codes and log lines are those of OpenSSH's sftp-server, but a STATUS "Failure" has
//! the reason as its text.

mod bulk;
mod directories;
mod handles;
mod hash;
mod jobs;
mod log;
mod long_name;
mod openssh;
mod options;
mod outbox;
mod paths;
mod permits;
mod requests;
mod small;
mod status;
pub mod stdio;
mod walk;
mod write;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::attributes::{ExactTimes, Owner, Times, Timestamp};
use crate::frame::{FrameError, FramePiece, ReadingSide, Splitter};
use crate::message::Undecodable;
use crate::message::reply::{self, encode_extended};
use crate::{Attributes, Code};
use bytes::Bytes;
use sys::fs::{Info, PathRoot};

use handles::Handles;
use jobs::{Job, Slice};
use long_name::Names;
use status::Failed;
use write::Writing;

pub use escape::LogLevel;
pub use log::{Log, shown};
pub use options::{Options, OptionsError, Wanted};
pub use outbox::{Buffers, Outbox};
pub use permits::{NotInit, Permits, REQUESTS, RequestInfo, RequestRefusal, SftpPhase, name};

/// Maximum number of waiting bytes of answers; with more, requests wait.
pub const OUTBOX_BYTES: usize = 1 << 20;
/// Maximum number of requests and slices per [`Serve::work`], so that other tasks get their turn.
const STEPS: usize = 256;
/// Maximum number of data bytes per [`Serve::work`], approximately.
const STEP_BYTES: usize = 4 << 20;
/// Number of file descriptors reserved for the rest of the process.
const OTHER_DESCRIPTORS: u64 = 32;
/// Maximum number of handles of one client.
const MAX_HANDLES: u64 = 4096;

/// Returns the number of handles that a client may have open in this process: the limit on open
/// files less 32, between 8 and 4096.
#[must_use]
pub fn max_handles() -> usize {
    let limit = sys::process::limit(sys::process::Resource::OpenFiles);
    let files = limit.map_or(256, |limit| limit.soft);
    let handles = files
        .saturating_sub(OTHER_DESCRIPTORS)
        .clamp(8, MAX_HANDLES);
    usize::try_from(handles).unwrap_or(8)
}

/// Limits of one [`Serve::work_for`].
#[derive(Debug)]
pub struct Turn<'t> {
    /// Maximum number of waiting bytes of answers; with more, requests wait.
    pub answers: usize,
    /// Maximum number of data bytes read and written, approximately.
    pub bytes: usize,
    /// When set, no further request is begun.
    pub stop: &'t AtomicBool,
}

/// Why a session cannot continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServeError {
    /// The stream cannot be split into messages.
    Frame(FrameError),
    /// The client did not begin with INIT.
    NotInit,
    /// A message too short to hold a request id for an answer.
    NoId(Undecodable),
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Frame(error) => write!(f, "bad message from client: {error}"),
            Self::NotInit => write!(f, "bad message from client: {NotInit}"),
            Self::NoId(error) => write!(f, "bad message from client: {error}"),
        }
    }
}

impl std::error::Error for ServeError {}

/// Result of [`Serve::work`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Nothing can be done until more bytes arrive or answers are sent.
    Waiting,
    /// There is more to do.
    Busy,
    /// The client has closed its side, and everything was answered.
    Ended,
}

/// A file server for one channel, as the module's documentation describes.
pub struct Serve {
    place: PathRoot,
    permits: Permits,
    log: Box<dyn Log>,
    phase: SftpPhase,
    splitter: Splitter,
    handles: Handles,
    writing: Option<Writing>,
    /// Buffer for the pieces of the next WRITE.
    spare_pieces: Vec<Bytes>,
    jobs: VecDeque<Job>,
    names: Names,
    out: Outbox,
    /// Attributes are sent with nanoseconds.
    exact_times: bool,
    /// SYMLINK names the link before its target ([`Serve::take_links_by_draft`]).
    links_by_draft: bool,
    /// `None`: as many threads as the processors permit.
    hash_threads: Option<usize>,
    input_ended: bool,
    /// Number of bytes read and written in this call of [`Serve::work`].
    moved: usize,
    scratch: Vec<u8>,
}

impl fmt::Debug for Serve {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Serve")
            .field("phase", &self.phase)
            .field("handles", &self.handles.len())
            .finish_non_exhaustive()
    }
}

impl Serve {
    /// Creates a server for the files in `place`; at most `max_handles` files and directories are
    /// open at once.
    #[must_use]
    pub fn new(place: PathRoot, permits: Permits, max_handles: usize, log: Box<dyn Log>) -> Self {
        Self {
            place,
            permits,
            log,
            phase: SftpPhase::default(),
            splitter: Splitter::new(ReadingSide::Server),
            handles: Handles::new(max_handles),
            writing: None,
            spare_pieces: Vec::new(),
            jobs: VecDeque::new(),
            names: Names::default(),
            out: Outbox::new(),
            exact_times: false,
            links_by_draft: false,
            hash_threads: None,
            input_ended: false,
            moved: 0,
            scratch: Vec::new(),
        }
    }

    /// Looks up the names of the process's own user and group now, before a sandbox (Landlock)
    /// prevents it; other owners are then shown as numbers.
    pub fn learn_own_names(&mut self) {
        if let Ok(own) = sys::process::own_credentials() {
            self.names.user(own.uid);
            self.names.group(own.gid);
        }
    }

    /// Reads SYMLINK in the order of the draft (draft-ietf-secsh-filexfer-02 §6.10), which names the link
    /// first; OpenSSH's order is the default. For clients that send it to servers of other names.
    pub fn take_links_by_draft(&mut self) {
        self.links_by_draft = true;
    }

    /// The directory tree in which paths are resolved.
    #[must_use]
    pub fn place(&self) -> &PathRoot {
        &self.place
    }

    /// Appends bytes from the client.
    pub fn receive(&mut self, bytes: Bytes) {
        self.splitter.push(bytes);
    }

    /// Records that the client sends nothing more.
    pub fn end_input(&mut self) {
        self.input_ended = true;
    }

    /// Records that nobody takes answers any more: the requests received so far are still carried
    /// out, but jobs that only read (ranges, walks, hashes) are dropped.
    pub fn end_answers(&mut self) {
        self.input_ended = true;
        self.jobs.retain(|job| matches!(job, Job::Copy(_)));
    }

    /// Returns and resets the number of the client's bytes consumed since the last call.
    pub fn take_consumed(&mut self) -> usize {
        self.splitter.take_consumed()
    }

    /// The answers that wait to be sent.
    pub fn outbox(&mut self) -> &mut Outbox {
        &mut self.out
    }

    /// Carries out the received requests as far as there is room for answers.
    ///
    /// # Errors
    /// [`ServeError`]: the session is over.
    pub fn work(&mut self, buffers: &mut dyn Buffers) -> Result<Work, ServeError> {
        let turn = Turn {
            answers: OUTBOX_BYTES,
            bytes: STEP_BYTES,
            stop: &AtomicBool::new(false),
        };
        self.work_for(&turn, buffers)
    }

    /// As [`Serve::work`], within the limits of `turn`.
    ///
    /// # Errors
    /// [`ServeError`]: the session is over.
    pub fn work_for(
        &mut self,
        turn: &Turn<'_>,
        buffers: &mut dyn Buffers,
    ) -> Result<Work, ServeError> {
        let worked = self.steps(turn, buffers);
        self.write_gathered();
        worked
    }

    fn steps(&mut self, turn: &Turn<'_>, buffers: &mut dyn Buffers) -> Result<Work, ServeError> {
        self.moved = 0;
        for _ in 0..STEPS {
            if self.out.len() >= turn.answers {
                return Ok(Work::Waiting);
            }
            if self.moved >= turn.bytes || turn.stop.load(Ordering::Relaxed) {
                return Ok(Work::Busy);
            }
            let answered = self.step(buffers)?;
            let sliced = self.slice(buffers);
            if !answered && !sliced {
                let over = self.input_ended && self.out.is_empty();
                return Ok(if over { Work::Ended } else { Work::Waiting });
            }
        }
        Ok(Work::Busy)
    }

    /// Processes the next piece of the stream; returns false if there is none.
    fn step(&mut self, buffers: &mut dyn Buffers) -> Result<bool, ServeError> {
        // A copy is in progress, and later requests may depend on it.
        if matches!(self.jobs.front(), Some(Job::Copy(_))) {
            return Ok(false);
        }
        let Some(piece) = self.splitter.next_piece().map_err(ServeError::Frame)? else {
            return Ok(false);
        };
        match piece {
            FramePiece::Message(message) => self.message(&message, buffers)?,
            FramePiece::Write {
                id,
                handle,
                offset,
                len,
            } => {
                if self.phase == SftpPhase::Beginning {
                    return Err(ServeError::NotInit);
                }
                self.begin_write(id, &handle, offset, len, buffers);
            }
            FramePiece::Payload { bytes, left } => self.write_payload(bytes, left, buffers),
            // Only a client's splitter returns these.
            FramePiece::Data { .. } => {}
        }
        Ok(true)
    }

    // ---- answers ---------------------------------------------------------------------------

    fn answer(&mut self, buffers: &mut dyn Buffers, write: impl FnOnce(&mut Vec<u8>)) {
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        write(&mut scratch);
        self.out.put(&scratch, buffers);
        self.scratch = scratch;
    }

    fn answer_extended(
        &mut self,
        id: u32,
        buffers: &mut dyn Buffers,
        fields: impl FnOnce(&mut Vec<u8>),
    ) {
        self.answer(buffers, |out| encode_extended(id, out, fields));
    }

    fn answer_attributes(&mut self, id: u32, info: &Info, buffers: &mut dyn Buffers) {
        let attributes = attributes(info, self.exact_times);
        self.answer(buffers, |out| reply::encode_attrs(id, &attributes, out));
    }

    fn ok(&mut self, id: u32, buffers: &mut dyn Buffers) {
        let failed = Failed::code(Code::OK);
        self.fail(id, &failed, buffers);
    }

    fn fail(&mut self, id: u32, failed: &Failed, buffers: &mut dyn Buffers) {
        if failed.code > Code::EOF && self.log.wants(LogLevel::Verbose) {
            let line = format!("sent status {}", failed.code.text());
            self.log.line(LogLevel::Verbose, &line);
        }
        self.answer(buffers, |out| {
            reply::Status {
                code: failed.code,
                message: failed.text().as_bytes(),
            }
            .encode_into(id, out);
        });
    }
}

impl Drop for Serve {
    /// Log the files that the client left open.
    fn drop(&mut self) {
        self.handles.close_all(&*self.log);
    }
}

/// Success: the request was answered or will be. Error: it failed.
type Done = Result<(), Failed>;

/// Converts the information on a file to its attributes.
fn attributes(info: &Info, exact: bool) -> Attributes {
    let timestamp = |time: sys::fs::Time| Timestamp {
        seconds: time.seconds,
        nanoseconds: time.nanoseconds,
    };
    let times = ExactTimes {
        accessed: timestamp(info.accessed),
        modified: timestamp(info.modified),
    };
    Attributes {
        size: Some(info.size),
        owner: Some(Owner {
            uid: info.uid,
            gid: info.gid,
        }),
        permissions: Some(info.mode),
        times: Some(Times::from(times)),
        exact_times: exact.then_some(times),
        sole_writer: false,
    }
}
