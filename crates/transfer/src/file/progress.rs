//! The files that a copy of files and trees has in progress: which of them may send, how many bytes
//! are left, and what becomes of each. An upload and a download do this alike ([`TreeCopy`]).

use std::collections::HashSet;

use super::FileCopy;
use crate::engine::{EngineError, Session};
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

/// The copying of one file.
pub(crate) trait FileJob {
    fn copy(&mut self) -> &mut FileCopy;

    /// Number of bytes still to be sent or requested.
    fn left(&self) -> u64;

    /// True if the file is complete or has failed, and nothing is to be sent or awaited.
    fn is_over(&self) -> bool;

    /// Sends the next request on this connection.
    fn step(&mut self, link: usize, session: &mut Session, pace: &mut Pace) -> Step;

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
pub(crate) struct Files<'r, J> {
    jobs: Slab<FileId, J>,
    /// Bytes that these files have left.
    bytes: u64,
    /// Files and directories that have something to send.
    pub(crate) ready: Ready,
    /// Number of connections.
    pub(crate) links: usize,
    pub(crate) pace: Pace,
    pub(crate) report: &'r mut dyn Report,
    /// Number of files and directories that failed.
    pub(crate) failures: usize,
    /// The targets of all files in progress, if two may be equal: with several items.
    targets: Option<HashSet<Vec<u8>>>,
}

impl<'r, J: FileJob> Files<'r, J> {
    /// For a copy of `items` items over `links` connections.
    pub(crate) fn new(
        items: usize,
        links: usize,
        limit_bytes: u64,
        report: &'r mut dyn Report,
    ) -> Self {
        Self {
            jobs: Slab::default(),
            bytes: 0,
            ready: Ready::new(links),
            links: links.max(1),
            pace: Pace::new(limit_bytes),
            report,
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
    pub(crate) fn change<R>(&mut self, id: FileId, how: impl FnOnce(&mut J) -> R) -> Option<R> {
        let job = self.jobs.get_mut(id)?;
        let before = job.left();
        let result = how(job);
        let after = job.left();
        self.bytes = self.bytes.saturating_sub(before).saturating_add(after);
        Some(result)
    }

    /// Lets a file send on this connection, if it is in progress.
    fn step(&mut self, id: FileId, link: usize, session: &mut Session) -> Option<Step> {
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
    fn end(&mut self, id: FileId) -> Option<DirId> {
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

/// A copy of files and directory trees.
pub(crate) trait TreeCopy<'r> {
    type Job: FileJob;

    fn files(&mut self) -> &mut Files<'r, Self::Job>;

    /// An entry of a directory is finished.
    fn child_done(&mut self, parent: Option<DirId>);

    /// Sends the next request for a directory; returns false if the limits do not permit it now.
    fn send_directory(&mut self, link: usize, id: DirId, session: &mut Session) -> bool;

    /// Lets the first ready file or directory that can send a request do so; returns false if none
    /// can.
    fn step_ready(&mut self, link: usize, session: &mut Session) -> bool {
        for _ in 0..self.files().ready.len(link) {
            let Some(subject) = self.files().ready.next(link) else {
                return false;
            };
            let id = match subject {
                Subject::File(id) => id,
                Subject::Dir(id) => {
                    if self.send_directory(link, id, session) {
                        return true;
                    }
                    self.files().wake(link, subject);
                    continue;
                }
                Subject::Look(_) => continue,
            };
            match self.files().step(id, link, session) {
                Some(Step::Sent { more }) => {
                    if more {
                        // At the front, so that a file's data is sent in a row.
                        self.files().ready.keep(link, subject);
                    }
                    return true;
                }
                Some(Step::Full) => self.files().wake(link, subject),
                Some(Step::Nothing) | None => {}
                Some(Step::Over) => {
                    self.end(id);
                    return true;
                }
            }
        }
        false
    }

    /// Calls `how` with a file and handles the consequences; `None` if the id is not in use.
    fn change<R>(&mut self, id: FileId, how: impl FnOnce(&mut Self::Job) -> R) -> Option<R>
    where
        Self: Sized,
    {
        let result = self.files().change(id, how)?;
        self.after(id);
        Some(result)
    }

    /// After a change of a file: wakes its connections, or ends it.
    fn after(&mut self, id: FileId) {
        let files = self.files();
        let told = files.change(id, |job| (job.is_over(), job.copy().take_wakes()));
        match told {
            Some((true, _)) => self.end(id),
            Some((false, wakes)) => {
                for link in wakes {
                    files.wake(link, Subject::File(id));
                }
            }
            None => {}
        }
    }

    /// Ends a file and reports its result.
    fn end(&mut self, id: FileId) {
        let parent = self.files().end(id);
        self.child_done(parent);
    }

    /// Reports the failure of an item that never was in progress.
    fn fail_item(&mut self, from: &[u8], to: &[u8], parent: Option<DirId>, error: String) {
        self.files().ended(from.to_vec(), to, 0, Some(error));
        self.child_done(parent);
    }

    /// Stops all files after an interrupt.
    fn stop_files(&mut self) {
        for id in self.files().ids() {
            self.files().change(id, FileJob::stop);
            self.after(id);
        }
    }

    /// Ends all files, since the connections are lost.
    fn lose_files(&mut self, why: &EngineError) {
        for id in self.files().ids() {
            self.files().change(id, |job| job.lose(why));
            self.after(id);
        }
    }
}
