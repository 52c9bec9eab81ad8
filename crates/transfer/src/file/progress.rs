//! The files in progress: which of them may send, how many bytes are left, and what becomes of each.

use std::collections::HashSet;
use std::ops::DerefMut;

use bytes::Bytes;
use sftp::message::Reply;

use super::FileCopy;
use crate::engine::{EngineError, Session, Spoiled, Token};
use crate::plan::id::{DirId, FileId, Id, Subject};
use crate::plan::pace::Pace;
use crate::plan::plain;
use crate::plan::ready::Ready;
use crate::plan::slab::Slab;
use crate::report::{FileResult, Report};
use crate::step::{SPREAD_BYTES, Step};

/// Maximum number of outstanding bytes of all files in progress; further files wait.
const MAX_BYTES: u64 = 32 << 20;
/// Maximum number of files in progress.
const MAX_FILES: usize = 2048;

/// An answer other than DATA: its connection, the session there, the request and the answer.
pub(crate) type FileAnswer<'a> = (usize, &'a mut Session, Token, &'a Reply<'a>);

/// The copying of one file, or its comparison.
pub(crate) trait FileJob {
    fn copy(&mut self) -> &mut FileCopy;

    /// Number of bytes still to be sent or requested.
    fn left(&self) -> u64;

    /// True if the file is complete or has failed, and nothing is to be sent or awaited.
    fn is_over(&self) -> bool;

    /// Sends the next request on this connection.
    fn step(&mut self, link: usize, session: &mut Session, pace: &mut Pace) -> Step;

    /// Processes an answer; returns the number of bytes that have reached the other end with it.
    fn reply(&mut self, answer: FileAnswer<'_>) -> u64;

    /// Processes data of an answer, `at` bytes after the first byte of its DATA; returns the number
    /// of bytes received.
    fn data(&mut self, asked: Token, at: u32, bytes: &Bytes) -> u64;

    /// A DATA has been received completely; it had `len` bytes.
    fn data_ends(&mut self, asked: Token, len: u32);

    /// Reading the local file for a WRITE failed or came up short.
    fn spoiled(&mut self, spoiled: &Spoiled) {
        let _ = spoiled;
    }

    /// True if the job reserves memory for the rest of the file while the engine is idle.
    fn takes_memory(&self) -> bool {
        false
    }

    /// True if the job has idle work.
    fn has_idle_work(&self) -> bool {
        false
    }

    /// Does a part of the idle work.
    fn work_idly(&mut self) {}

    /// Stops the copy after an interrupt: it fails, awaits its answers and closes its handles.
    fn stop(&mut self);

    /// The connections are lost.
    fn lose(&mut self, why: &EngineError);

    /// Finishes the local file, if that is the target, and returns the result.
    fn into_result(self) -> FileResult;
}

/// The files in progress. A file is changed only through [`Files::change`], so that the count of
/// outstanding bytes stays exact: bytes counted for a file that is gone would keep every further
/// file from beginning.
pub(crate) struct Files<R, J> {
    jobs: Slab<FileId, J>,
    /// Bytes that these files have left.
    bytes: u64,
    /// Files and directories that have something to send.
    pub(crate) ready: Ready,
    /// Number of connections.
    pub(crate) links: usize,
    pub(crate) pace: Pace,
    pub(crate) report: R,
    /// The connections are lost.
    pub(super) lost: bool,
    /// Number of files and directories that failed.
    pub(crate) failures: usize,
    /// The targets of all files in progress, if two may be equal: with several items.
    targets: Option<HashSet<Vec<u8>>>,
}

impl<R: DerefMut<Target: Report>, J: FileJob> Files<R, J> {
    /// For a copy of `items` items over `links` connections.
    pub(crate) fn new(items: usize, links: usize, limit_bytes: u64, report: R) -> Self {
        Self {
            jobs: Slab::default(),
            bytes: 0,
            ready: Ready::new(links),
            links: links.max(1),
            pace: Pace::new(limit_bytes),
            report,
            lost: false,
            failures: 0,
            targets: (items > 1).then(HashSet::new),
        }
    }

    /// True if another file or directory may begin on this connection.
    pub(crate) fn takes_more(&self, session: &Session) -> bool {
        let takes = self.bytes < MAX_BYTES && self.jobs.len() < MAX_FILES;
        takes && session.takes_handle() && session.is_ready()
    }

    /// True if there are no files.
    pub(crate) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// All files.
    pub(crate) fn jobs(&self) -> impl Iterator<Item = &J> {
        self.jobs.iter()
    }

    /// Ids of all files.
    pub(crate) fn ids(&self) -> Vec<FileId> {
        self.jobs.ids().collect()
    }

    /// Returns the first file for which `is_it` returns true, with its id.
    pub(crate) fn find(&self, is_it: impl Fn(&J) -> bool) -> Option<(FileId, &J)> {
        let mut jobs = self
            .jobs
            .ids()
            .filter_map(|id| Some((id, self.jobs.get(id)?)));
        jobs.find(|(_, job)| is_it(job))
    }

    /// Returns true if several items are copied, so that two may have one target.
    pub(crate) fn may_meet(&self) -> bool {
        self.targets.is_some()
    }

    /// Returns true if another file is being written to this target.
    pub(crate) fn is_written(&self, target: &[u8]) -> bool {
        let targets = self.targets.as_ref();
        targets.is_some_and(|targets| targets.contains(&plain(target)))
    }

    /// The connections over which a file of `len` bytes is copied that begins on `link`: that one
    /// first, which opens and thereby creates it, and all others if it is large.
    pub(crate) fn links_for(&self, link: usize, len: u64) -> Vec<usize> {
        match self.links > 1 && len >= SPREAD_BYTES {
            true => std::iter::once(link)
                .chain((0..self.links).filter(|other| *other != link))
                .collect(),
            false => vec![link],
        }
    }

    /// No other file may be written to this target until the file ends that writes it.
    pub(crate) fn take_target(&mut self, target: &[u8]) {
        if let Some(targets) = &mut self.targets {
            targets.insert(plain(target));
        }
    }

    /// Begins the file that `make` returns for its id: `name` and `size` are reported.
    pub(crate) fn begin(
        &mut self,
        link: usize,
        (name, size): (&[u8], Option<u64>),
        make: impl FnOnce(FileId) -> J,
    ) -> FileId {
        let bytes = &mut self.bytes;
        let id = self.jobs.insert_with(|id| {
            let job = make(id);
            *bytes = bytes.saturating_add(job.left());
            job
        });
        self.report.begins(id.index(), name, size);
        self.wake(link, Subject::File(id));
        id
    }

    /// Calls `how` with a file and updates the count of outstanding bytes; `None` if the id is not
    /// in use.
    pub(crate) fn change<T>(&mut self, id: FileId, how: impl FnOnce(&mut J) -> T) -> Option<T> {
        let job = self.jobs.get_mut(id)?;
        let before = job.left();
        let result = how(job);
        let after = job.left();
        self.bytes = self.bytes.saturating_sub(before).saturating_add(after);
        Some(result)
    }

    /// Lets a file send on this connection, if it is in progress.
    pub(super) fn step(&mut self, id: FileId, link: usize, session: &mut Session) -> Option<Step> {
        let job = self.jobs.get_mut(id)?;
        let before = job.left();
        let step = job.step(link, session, &mut self.pace);
        let after = job.left();
        let wakes = job.copy().take_wakes();
        self.bytes = self.bytes.saturating_sub(before).saturating_add(after);
        for link in wakes {
            self.wake(link, Subject::File(id));
        }
        Some(step)
    }

    /// Removes a file and reports its result; returns its directory.
    pub(super) fn end(&mut self, id: FileId) -> Option<DirId> {
        let mut job = self.jobs.remove(id)?;
        self.bytes = self.bytes.saturating_sub(job.left());
        self.report.leaves(id.index());
        let parent = job.copy().parent();
        let result = job.into_result();
        if let Some(targets) = &mut self.targets {
            targets.remove(&plain(&result.to));
        }
        self.failures += usize::from(result.error.is_some());
        self.report.ends(&result);
        parent
    }

    /// The file or directory may send on this connection.
    pub(crate) fn wake(&mut self, link: usize, subject: Subject) {
        self.ready.add(link, subject);
    }

    /// Reports the failure of anything but a file.
    pub(crate) fn fail(&mut self, line: &str) {
        self.failures += 1;
        self.report.fails(line);
    }

    /// Reports a file that never was in progress as complete or failed.
    pub(crate) fn ended(&mut self, from: Vec<u8>, to: &[u8], bytes: u64, error: Option<String>) {
        self.failures += usize::from(error.is_some());
        self.report.ends(&FileResult {
            from,
            to: to.to_vec(),
            bytes,
            resumed_bytes: 0,
            verified: None,
            error,
        });
    }
}
