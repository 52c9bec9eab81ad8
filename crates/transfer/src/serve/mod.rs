//! The file server behind one SFTP channel: [`Serve`] takes the client's bytes, does what they ask
//! with files, and leaves its answers in packet buffers ([`Outbox`]). It neither reads nor writes
//! the channel, and does what takes long in slices, so that it can live in a connection's process.
//!
//! The data of a WRITE go to the file from the slabs in which their packets were opened; those of
//! a READ are read behind the headroom of the packet that carries them. Requests are carried out
//! in order; what is answered by many messages (`read-range`, `open-read`, `walk`) and what takes
//! long (`hash-range`) goes on beside them.
//!
//! Words, codes and log lines are those of OpenSSH's sftp-server; where its STATUS says "Failure",
//! ours says why.

mod bulk;
mod directories;
mod handles;
mod hash;
mod log;
mod long_name;
mod openssh;
mod options;
mod outbox;
mod paths;
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

use bytes::Bytes;
use sftp::attributes::{ExactTimes, Owner, Times, Timestamp};
use sftp::extension::{Extended, Limits};
use sftp::frame::{FrameError, Piece, Side, Splitter};
use sftp::message::reply::{self, encode_extended};
use sftp::message::request::{Open, Read};
use sftp::message::{Request, Undecodable};
use sftp::server::{NotInit, Permits, Phase, Refusal};
use sftp::{Attributes, Code};
use sys::fs::{Info, Place};

use handles::Handles;
use long_name::Names;
use status::Failed;
use write::Writing;

pub use log::{Level, Log, shown};
pub use options::{Options, OptionsError, Wanted, levels};
pub use outbox::{Buffers, Outbox};

/// Bytes of answers that may wait before requests have to.
pub const OUTBOX_BYTES: usize = 1 << 20;
/// Requests and slices in one [`Serve::work`], so that others get their turn.
const STEPS: usize = 256;
/// Bytes of data in one [`Serve::work`].
const STEP_BYTES: usize = 4 << 20;
/// Answers of many messages that may be under way at once.
const MAX_JOBS: usize = 64;

/// Descriptors that are left to the rest of the process.
const OTHER_DESCRIPTORS: u64 = 32;
/// Most handles of one client.
const MAX_HANDLES: u64 = 4096;

/// How many handles a client may have open at once in this process: as many as it may have
/// descriptors, but for some.
#[must_use]
pub fn max_handles() -> usize {
    let limit = sys::process::limit(sys::process::Resource::OpenFiles);
    let files = limit.map_or(256, |limit| limit.soft);
    let handles = files
        .saturating_sub(OTHER_DESCRIPTORS)
        .clamp(8, MAX_HANDLES);
    usize::try_from(handles).unwrap_or(8)
}

/// How far one [`Serve::work_for`] goes.
#[derive(Debug)]
pub struct Turn<'t> {
    /// Bytes of answers that may wait before requests have to.
    pub answers: usize,
    /// Bytes of data that are moved, about.
    pub bytes: usize,
    /// Nothing more is begun when this is set.
    pub stop: &'t AtomicBool,
}

/// Why a conversation cannot go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServeError {
    /// The stream cannot be cut into messages.
    Frame(FrameError),
    /// The client did not begin with INIT.
    NotInit,
    /// A message has no id that an answer could name.
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

/// What comes of [`Serve::work`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Nothing can be done until more bytes come, or answers leave.
    Waiting,
    /// There is more to do.
    Busy,
    /// The client is done, and everything was answered.
    Ended,
}

/// What goes on beside the requests.
enum Job {
    Bulk(bulk::Bulk),
    Hash(Box<hash::Hash>),
    Walk(Box<walk::Walk>),
    Copy(openssh::Copy),
}

impl Job {
    fn id(&self) -> u32 {
        match self {
            Self::Bulk(job) => job.id,
            Self::Hash(job) => job.id,
            Self::Walk(job) => job.id,
            Self::Copy(job) => job.id,
        }
    }

    /// Directories that it has open.
    fn open_directories(&self) -> usize {
        match self {
            Self::Walk(job) => job.open(),
            _ => 0,
        }
    }
}

/// A file server. See the module's head.
pub struct Serve {
    place: Place,
    permits: Permits,
    log: Box<dyn Log>,
    phase: Phase,
    splitter: Splitter,
    handles: Handles,
    writing: Option<Writing>,
    /// For the pieces of the next WRITE.
    spare_pieces: Vec<Bytes>,
    jobs: VecDeque<Job>,
    names: Names,
    out: Outbox,
    /// Attributes carry nanoseconds.
    exact_times: bool,
    /// None: as many as the processors allow.
    hash_threads: Option<usize>,
    input_ended: bool,
    /// Bytes moved in this call of [`Serve::work`].
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
    /// A server for what is in `place`. At most `max_handles` files and directories are open at
    /// once.
    #[must_use]
    pub fn new(place: Place, permits: Permits, max_handles: usize, log: Box<dyn Log>) -> Self {
        Self {
            place,
            permits,
            log,
            phase: Phase::default(),
            splitter: Splitter::new(Side::Server),
            handles: Handles::new(max_handles),
            writing: None,
            spare_pieces: Vec::new(),
            jobs: VecDeque::new(),
            names: Names::default(),
            out: Outbox::new(),
            exact_times: false,
            hash_threads: None,
            input_ended: false,
            moved: 0,
            scratch: Vec::new(),
        }
    }

    /// Looks up the names of the process's own user and group now, while it can: behind a wall
    /// (Landlock) others are shown as numbers.
    pub fn learn_own_names(&mut self) {
        if let Ok(own) = sys::process::own_credentials() {
            self.names.user(own.uid);
            self.names.group(own.gid);
        }
    }

    /// Where paths are looked up.
    #[must_use]
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Takes the client's bytes.
    pub fn receive(&mut self, bytes: Bytes) {
        self.splitter.push(bytes);
    }

    /// Nothing more will come.
    pub fn end_input(&mut self) {
        self.input_ended = true;
    }

    /// Nobody takes answers any more: what was asked for is still done, but nothing is looked up
    /// or hashed or read for it.
    pub fn end_answers(&mut self) {
        self.input_ended = true;
        self.jobs.retain(|job| matches!(job, Job::Copy(_)));
    }

    /// Bytes of the client's that were used since this was asked last.
    pub fn take_consumed(&mut self) -> usize {
        self.splitter.take_consumed()
    }

    /// Answers that wait to be sent.
    pub fn outbox(&mut self) -> &mut Outbox {
        &mut self.out
    }

    /// Carries out what has come, as far as answers have room.
    ///
    /// # Errors
    /// [`ServeError`]: the conversation is over.
    pub fn work(&mut self, buffers: &mut dyn Buffers) -> Result<Work, ServeError> {
        let turn = Turn {
            answers: OUTBOX_BYTES,
            bytes: STEP_BYTES,
            stop: &AtomicBool::new(false),
        };
        self.work_for(&turn, buffers)
    }

    /// The same, as far as `turn` says.
    ///
    /// # Errors
    /// [`ServeError`]: the conversation is over.
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

    /// Deals with the next piece of the stream; false when there is none.
    fn step(&mut self, buffers: &mut dyn Buffers) -> Result<bool, ServeError> {
        // A copy is under way, and what comes behind it may need it done.
        if matches!(self.jobs.front(), Some(Job::Copy(_))) {
            return Ok(false);
        }
        let Some(piece) = self.splitter.next_piece().map_err(ServeError::Frame)? else {
            return Ok(false);
        };
        match piece {
            Piece::Message(message) => self.message(&message, buffers)?,
            Piece::Write {
                id,
                handle,
                offset,
                len,
            } => {
                if self.phase == Phase::Beginning {
                    return Err(ServeError::NotInit);
                }
                self.begin_write(id, &handle, offset, len, buffers);
            }
            Piece::Payload { bytes, left } => self.write_payload(bytes, left, buffers),
            // Only a client's splitter makes these.
            Piece::Data { .. } => {}
        }
        Ok(true)
    }

    fn message(&mut self, message: &[u8], buffers: &mut dyn Buffers) -> Result<(), ServeError> {
        if self.phase == Phase::Beginning {
            let (phase, permits) = (&mut self.phase, &self.permits);
            let mut answer = Vec::new();
            phase
                .begin(message, permits, &mut answer)
                .map_err(|NotInit| ServeError::NotInit)?;
            self.out.put(&answer, buffers);
            if let Phase::Serving { client_version } = self.phase {
                self.log.line(
                    Level::Verbose,
                    &format!("received client version {client_version}"),
                );
            }
            return Ok(());
        }
        let (id, request) = match Request::decode(message) {
            Ok(decoded) => decoded,
            Err(error) => {
                let Some(id) = error.id else {
                    return Err(ServeError::NoId(error));
                };
                self.log.line(Level::Error, &format!("bad {error}"));
                let failed = Failed::new(Code::BAD_MESSAGE, error.error.to_string());
                self.fail(id, &failed, buffers);
                return Ok(());
            }
        };
        match self.permits.request(&request) {
            Ok(()) => self.request(id, &request, buffers),
            Err(refusal) => self.refuse(id, sftp::server::name(&request), refusal, buffers),
        }
        Ok(())
    }

    fn refuse(&mut self, id: u32, name: Option<&str>, refusal: Refusal, buffers: &mut dyn Buffers) {
        let name = name.unwrap_or("unknown");
        let text = match refusal {
            Refusal::ReadOnly => {
                self.log.line(
                    Level::Verbose,
                    &format!("Refusing {name} request in read-only mode"),
                );
                "the server is read-only"
            }
            Refusal::NotPermitted => {
                self.log
                    .line(Level::Verbose, &format!("Refusing {name} request"));
                "the server does not permit this request"
            }
        };
        let failed = Failed::new(Code::PERMISSION_DENIED, text);
        self.fail(id, &failed, buffers);
    }

    fn request(&mut self, id: u32, request: &Request<'_>, buffers: &mut dyn Buffers) {
        let done = match request {
            Request::Open(open) => self.open(id, open, buffers),
            Request::Close(close) => self.close(id, close.handle, buffers),
            Request::Read(read) => self.read(id, read, buffers),
            // The splitter takes WRITE apart; a whole one comes from nowhere.
            Request::Write(_) => Err(Failed::code(Code::BAD_MESSAGE)),
            Request::Opendir(request) => self.open_directory(id, request.path, buffers),
            Request::Readdir(request) => self.read_directory(id, request.handle, buffers),
            Request::Extended(extended) => self.extended(id, extended, buffers),
            Request::UnknownExtension { name } => {
                self.log.line(
                    Level::Debug1,
                    &format!("unknown extended request \"{}\"", shown(name)),
                );
                Err(Failed::code(Code::OP_UNSUPPORTED))
            }
            Request::Unknown { number } => {
                self.log
                    .line(Level::Error, &format!("Unknown message {number}"));
                Err(Failed::code(Code::OP_UNSUPPORTED))
            }
            _ => self.by_path(id, request, buffers),
        };
        if let Err(failed) = done {
            self.fail(id, &failed, buffers);
        }
    }

    fn extended(&mut self, id: u32, extended: &Extended<'_>, buffers: &mut dyn Buffers) -> Done {
        match extended {
            Extended::GetLimits(_) => {
                let limits = Limits {
                    max_message_bytes: sftp::MAX_MESSAGE_BYTES as u64,
                    max_read_bytes: u64::from(sftp::MAX_DATA_BYTES),
                    max_write_bytes: u64::from(sftp::MAX_DATA_BYTES),
                    max_handles: self.handles.max() as u64,
                };
                self.answer_extended(id, buffers, |out| limits.write(out));
                Ok(())
            }
            Extended::SetExactTimes(request) => {
                self.exact_times = request.on;
                self.ok(id, buffers);
                Ok(())
            }
            Extended::Cancel(cancel) => {
                let position = self.jobs.iter().position(|job| job.id() == cancel.request);
                if let Some(job) = position.and_then(|position| self.jobs.remove(position)) {
                    let failed = Failed::new(Code::FAILURE, "cancelled");
                    self.fail(job.id(), &failed, buffers);
                }
                self.ok(id, buffers);
                Ok(())
            }
            Extended::HashRange(request) => self.hash_range(id, request),
            Extended::ReadRange(request) => self.read_range(id, request),
            Extended::OpenRead(request) => self.open_read(id, request, buffers),
            Extended::PutFile(request) => self.put_file(id, request, buffers),
            Extended::GetFile(request) => self.get_file(id, request, buffers),
            Extended::Walk(request) => self.walk(id, request),
            Extended::WalkOn(request) => {
                self.walk_on(id, request, buffers);
                Ok(())
            }
            _ => self.openssh(id, extended, buffers),
        }
    }

    fn open(&mut self, id: u32, request: &Open<'_>, buffers: &mut dyn Buffers) -> Done {
        let handle = self.handles.open(&self.place, request, &*self.log)?;
        self.answer(buffers, |out| {
            reply::Handle { handle: &handle }.encode_into(id, out);
        });
        Ok(())
    }

    fn close(&mut self, id: u32, handle: &[u8], buffers: &mut dyn Buffers) -> Done {
        self.handles.close(handle, &*self.log)?;
        self.ok(id, buffers);
        Ok(())
    }

    fn read(&mut self, id: u32, request: &Read<'_>, buffers: &mut dyn Buffers) -> Done {
        let file = self.handles.file(request.handle)?;
        let len = request.len.min(sftp::MAX_DATA_BYTES);
        if self.log.wants(Level::Debug1) {
            let name = shown(&file.path);
            let line = format!(
                "request {id}: read \"{name}\" off {} len {len}",
                request.offset
            );
            self.log.line(Level::Debug1, &line);
        }
        let fd = &file.fd;
        let count = self.out.data(id, len, buffers, &mut |room, done| {
            sys::fs::content::read_at(fd, room, request.offset.saturating_add(done))
        })?;
        if count == 0 && len > 0 {
            return Err(Failed::code(Code::EOF));
        }
        file.read += u64::from(count);
        self.moved += usize::try_from(count).unwrap_or(0);
        if len == 0 {
            self.answer(buffers, |out| {
                out.extend_from_slice(&reply::data_head(id, 0));
            });
        }
        Ok(())
    }

    /// Lets the first of what goes on beside requests go on; false when there is none, or it
    /// would have to wait.
    fn slice(&mut self, buffers: &mut dyn Buffers) -> bool {
        // A walk that may send nothing is passed over.
        let goes_on = |job: &Job| !matches!(job, Job::Walk(walk) if walk.is_held());
        let Some(at) = self.jobs.iter().position(goes_on) else {
            return false;
        };
        let open: usize = self.jobs.iter().map(Job::open_directories).sum();
        let Some(mut job) = self.jobs.remove(at) else {
            return false;
        };
        let others = self.handles.len() + open - job.open_directories();
        let id = job.id();
        let sliced = match &mut job {
            Job::Bulk(job) => job.slice(&mut self.out, buffers),
            Job::Hash(job) => job.slice(&mut self.out, buffers),
            Job::Walk(job) => {
                let around = walk::Around {
                    place: &self.place,
                    log: &*self.log,
                    exact: self.exact_times,
                    room: self.handles.max().saturating_sub(others),
                };
                Ok(job.slice(&around, &mut self.out, buffers))
            }
            Job::Copy(job) => job.slice(),
        };
        match sliced {
            Ok(Slice::More(bytes)) => {
                self.moved += bytes;
                match job {
                    Job::Copy(_) => self.jobs.push_front(job),
                    _ => self.jobs.push_back(job),
                }
            }
            Ok(Slice::Done) => self.ok(id, buffers),
            Ok(Slice::Answered) => {}
            Err(failed) => self.fail(id, &failed, buffers),
        }
        true
    }

    fn has_room_for_job(&self) -> Done {
        match self.jobs.len() < MAX_JOBS {
            true => Ok(()),
            false => Err(Failed::new(Code::FAILURE, "too many requests under way")),
        }
    }

    fn begin_job(&mut self, job: Job) -> Done {
        self.has_room_for_job()?;
        self.jobs.push_back(job);
        Ok(())
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
        if failed.code > Code::EOF && self.log.wants(Level::Verbose) {
            let line = format!("sent status {}", failed.code.text());
            self.log.line(Level::Verbose, &line);
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
    /// What the client left open is told in the log.
    fn drop(&mut self) {
        self.handles.close_all(&*self.log);
    }
}

/// A request was answered, or will be; or it failed.
type Done = Result<(), Failed>;

/// What comes of a slice of a job.
enum Slice {
    /// It goes on; so many bytes were moved.
    More(usize),
    /// Everything was sent: OK says so.
    Done,
    /// It has been answered.
    Answered,
}

/// What is told of a file.
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
