//! Compares the content of both ends: by hashes if the server supports them, else by reading the
//! server's file back.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use sftp::extension::{self, Extended};
use sftp::message::{Reply, Request};
use sftp::{Code, vendor};

use crate::engine::{Disk, EngineError, Op, Session, Token};
use crate::file::{FileAnswer, FileCopy, FileJob, FileWork, Files, failure};
use crate::plan::pace::Pace;
use crate::plan::shown;
use crate::report::{FileResult, Report};
use crate::source::hash::{self, Hashing};
use crate::step::{SMALL_BYTES, Step};
use crate::text;

/// Maximum number of files in progress: each is hashed on a thread of its own.
const MAX_FILES: usize = 8;

/// A local file and the server's file to compare with it.
#[derive(Debug, Clone)]
pub struct Pair {
    /// Path of the local file.
    pub local: PathBuf,
    /// Path at the server.
    pub remote: Vec<u8>,
}

/// Pairs that differ or could not be compared: one line each.
#[derive(Debug, Default)]
pub(crate) struct Failures(Vec<String>);

impl Report for Failures {
    fn ends(&mut self, result: &FileResult) {
        self.0.extend(result.error.clone());
    }

    fn fails(&mut self, line: &str) {
        self.0.push(line.to_owned());
    }

    fn says(&mut self, _line: &str) {}
}

/// The comparison of one pair.
#[derive(Debug)]
pub(crate) struct CompareJob {
    copy: FileCopy,
    pair: Pair,
    file: Arc<File>,
    len: u64,
    /// Offset of the first byte not requested.
    next: u64,
    hash: Option<Hashing>,
}

impl FileJob for CompareJob {
    fn copy(&mut self) -> &mut FileCopy {
        &mut self.copy
    }

    fn left(&self) -> u64 {
        self.len.saturating_sub(self.next)
    }

    fn is_over(&self) -> bool {
        self.copy.is_idle() && self.copy.handles.are_closed()
    }

    fn step(&mut self, link: usize, session: &mut Session, _pace: &mut Pace) -> Step {
        if self.copy.handles.is_unopened(link) {
            return self.copy.open_to_read(link, session, &self.pair.remote);
        }
        let Some(handle) = self.copy.handles.open(link) else {
            return Step::Nothing;
        };
        if self.next > self.len || self.copy.has_failed() {
            if !self.copy.is_idle() {
                return Step::Nothing;
            }
            self.copy.close_read(link, session);
            return Step::Over;
        }
        if session.server().has(vendor::HASH_RANGE, "1") {
            self.ask_hash(&handle, session);
            return Step::Sent { more: false };
        }
        if !session.takes_read() {
            return Step::Full;
        }
        // One byte more than expected, to detect a longer file.
        let left = self.len + 1 - self.next;
        let len = u32::try_from(left).unwrap_or(u32::MAX);
        let range = (self.next, len.min(session.server().max_read));
        self.copy.read(session, &handle, range);
        self.next += u64::from(range.1);
        Step::Sent { more: true }
    }

    fn reply(&mut self, (link, session, asked, reply): FileAnswer<'_>) -> u64 {
        self.copy.answered();
        match (asked.op, failure(reply)) {
            (Op::Open, _) => {
                if let Err(why) = self.copy.opened(link, session, reply) {
                    self.fail(&why);
                }
            }
            (Op::Hash, _) => self.hashed(reply),
            (Op::Read, Some((Code::EOF, _))) => {
                if asked.offset < self.len {
                    self.fail("the content differs: the file on the server is shorter");
                }
            }
            (Op::Read, Some((_, why))) => self.fail(&why),
            _ => self.fail("an answer of an unexpected type"),
        }
        self.copy.wake_first();
        0
    }

    fn data(&mut self, asked: Token, at: u32, bytes: &Bytes) -> u64 {
        let offset = asked.offset + u64::from(at);
        let mut ours = vec![0; bytes.len()];
        let same = self.file.read_exact_at(&mut ours, offset).is_ok() && ours == **bytes;
        if !same {
            self.fail("the content differs");
        }
        0
    }

    fn data_ends(&mut self, asked: Token, len: u32) {
        self.copy.answered();
        let until = asked.offset + u64::from(len);
        if len < asked.len && until < self.len {
            // After a short answer, request the missing bytes and all that follow again.
            self.next = self.next.min(until);
        }
        self.copy.wake_first();
    }

    fn stop(&mut self) {
        self.copy.fail(EngineError::Interrupted.to_string());
        self.copy.handles.refuse_unopened();
        self.copy.wake_first();
    }

    fn lose(&mut self, why: &EngineError) {
        self.fail(&why.to_string());
        self.copy.abandon();
    }

    fn into_result(self) -> FileResult {
        let local = self.pair.local.into_os_string().into_encoded_bytes();
        self.copy.into_result(local, self.pair.remote)
    }
}

impl CompareJob {
    fn fail(&mut self, why: &str) {
        let remote = text::name(&self.pair.remote);
        self.copy.fail(format!("verify \"{remote}\": {why}"));
    }

    fn ask_hash(&mut self, handle: &[u8], session: &mut Session) {
        self.next = self.len + 1;
        let request = Extended::HashRange(extension::HashRange {
            handle,
            offset: 0,
            // One byte more than expected: the answer's length then shows a longer file.
            len: self.len + 1,
            block_len: 0,
        });
        self.copy
            .send(session, Op::Hash, &Request::Extended(request));
        self.hash = Some(hash::begin(self.file.clone(), self.len, 0));
    }

    fn hashed(&mut self, reply: &Reply<'_>) {
        let ours = self.hash.take().and_then(|hashing| hashing.join().ok());
        let theirs = match reply {
            Reply::Extended(fields) => vendor::Hashes::decode(fields).ok(),
            _ => None,
        };
        match (ours, theirs) {
            (Some(ours), Some(theirs)) if theirs.len == self.len && theirs.hashes == ours => {}
            (Some(_), Some(_)) => self.fail("the content differs"),
            _ => self.fail("no hash is available"),
        }
    }
}

/// Compares the pairs.
pub struct Compare {
    pairs: VecDeque<Pair>,
    files: Files<Box<Failures>, CompareJob>,
    by_hash: bool,
}

impl Compare {
    /// Creates a work that compares `pairs`.
    #[must_use]
    pub fn new(pairs: Vec<Pair>) -> Self {
        Self {
            pairs: pairs.into(),
            files: Files::new(1, 1, 0, Box::default()),
            by_hash: false,
        }
    }

    /// Returns the pairs that differ or could not be compared: one line each.
    #[must_use]
    pub fn failures(&self) -> &[String] {
        &self.files.report.0
    }

    /// Returns the method of comparison, for the user.
    #[must_use]
    pub fn how(&self) -> &'static str {
        match self.by_hash {
            true => "BLAKE3 at both ends",
            false => "read back",
        }
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

impl FileWork for Compare {
    type Report = Box<Failures>;
    type Job = CompareJob;
    const DISK: Option<Disk> = None;

    fn files(&self) -> &Files<Self::Report, CompareJob> {
        &self.files
    }

    fn files_mut(&mut self) -> &mut Files<Self::Report, CompareJob> {
        &mut self.files
    }

    fn begin_next(&mut self, link: usize, session: &mut Session) -> bool {
        if self.files.jobs().count() >= MAX_FILES || !self.files.takes_more(session) {
            return false;
        }
        let Some(pair) = self.pairs.pop_front() else {
            return false;
        };
        self.by_hash = session.server().has(vendor::HASH_RANGE, "1");
        match File::open(&pair.local).and_then(|file| Ok((length(&file)?, file))) {
            Ok((len, file)) => {
                let name = pair.remote.clone();
                self.files.begin(link, (&name, Some(len)), |id| CompareJob {
                    copy: FileCopy::new(id, None, vec![link]),
                    pair,
                    file: Arc::new(file),
                    len,
                    next: 0,
                    hash: None,
                });
            }
            Err(error) => {
                let (local, why) = (shown(&pair.local), text::reason(&error));
                self.files.fail(&format!("verify \"{local}\": {why}"));
            }
        }
        true
    }

    fn has_more(&self) -> bool {
        !self.pairs.is_empty()
    }

    fn stop_others(&mut self) {
        self.pairs.clear();
    }

    fn lose_others(&mut self, why: &EngineError) {
        self.files.fail(&format!("verify: {why}"));
    }
}
