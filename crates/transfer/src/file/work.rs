//! The work that copies or compares files: it lets them send, passes their answers on, and ends them.
//! An upload, a download, a copy between servers and a comparison do this alike; only what begins
//! next and directories differ ([`FileWork`]).

use std::ops::DerefMut;
use std::time::Instant;

use bytes::Bytes;
use sftp::message::Reply;

use super::progress::{FileAnswer, FileJob, Files};
use crate::engine::{Disk, EngineError, Session, Spoiled, Token, Work};
use crate::plan::id::{DirId, FileId, Id, Subject};
use crate::report::{Report, Times};
use crate::step::Step;

/// A work on files, and on directories if it copies trees.
pub(crate) trait FileWork: Sized {
    type Report: DerefMut<Target: Report>;
    type Job: FileJob;
    /// Whether local files are read or written; `None` if nobody asks where the time goes.
    const DISK: Option<Disk>;
    /// True if jobs may have idle work.
    const WORKS_IDLY: bool = false;

    fn files(&self) -> &Files<Self::Report, Self::Job>;

    fn files_mut(&mut self) -> &mut Files<Self::Report, Self::Job>;

    /// Begins another file or directory; returns false if there is none, or if the limits do not
    /// permit it.
    fn begin_next(&mut self, link: usize, session: &mut Session) -> bool;

    /// True if anything but files is in progress, or has not begun.
    fn has_more(&self) -> bool;

    /// Processes an answer about anything but a file; returns false if it is about a file.
    fn other_reply(&mut self, answer: FileAnswer<'_>) -> bool {
        let _ = answer;
        false
    }

    /// Processes data about anything but a file; returns false if it is about a file.
    fn other_data(&mut self, token: Token, bytes: &Bytes) -> bool {
        let _ = (token, bytes);
        false
    }

    /// Stops everything but the files after an interrupt; nothing more begins.
    fn stop_others(&mut self);

    /// Reports what never began and what is in progress besides files: the connections are lost.
    fn lose_others(&mut self, why: &EngineError) {
        let _ = why;
    }

    /// An entry of a directory is finished.
    fn child_done(&mut self, parent: Option<DirId>) {
        let _ = parent;
    }

    /// Sends the next request for a directory; returns false if the limits do not permit it now.
    fn send_directory(&mut self, link: usize, id: DirId, session: &mut Session) -> bool {
        let _ = (link, id, session);
        true
    }

    /// Lets the first ready file or directory that can send a request do so; returns false if none
    /// can.
    fn step_ready(&mut self, link: usize, session: &mut Session) -> bool {
        for _ in 0..self.files_mut().ready.len(link) {
            let Some(subject) = self.files_mut().ready.next(link) else {
                return false;
            };
            let id = match subject {
                Subject::File(id) => id,
                Subject::Dir(id) => {
                    if self.send_directory(link, id, session) {
                        return true;
                    }
                    self.files_mut().wake(link, subject);
                    continue;
                }
                Subject::Look(_) => continue,
            };
            match self.files_mut().step(id, link, session) {
                Some(Step::Sent { more }) => {
                    if more {
                        // At the front, so that a file's data is sent in a row.
                        self.files_mut().ready.keep(link, subject);
                    }
                    return true;
                }
                Some(Step::Full) => self.files_mut().wake(link, subject),
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
    fn change<R>(&mut self, id: FileId, how: impl FnOnce(&mut Self::Job) -> R) -> Option<R> {
        let result = self.files_mut().change(id, how)?;
        self.after(id);
        Some(result)
    }

    /// Passes an answer on to a file with `how`, which returns the number of bytes moved, and
    /// reports them.
    fn answered(&mut self, id: FileId, how: impl FnOnce(&mut Self::Job) -> u64) {
        let files = self.files_mut();
        let told = files.change(id, |job| {
            (how(job), std::mem::take(&mut job.copy().skipped))
        });
        if let Some((moved, skipped)) = told {
            files.report.skipped(id.index(), skipped);
            files.report.moved(id.index(), moved);
        }
        self.after(id);
    }

    /// After a change of a file: wakes its connections, or ends it.
    fn after(&mut self, id: FileId) {
        let files = self.files_mut();
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
        let parent = self.files_mut().end(id);
        self.child_done(parent);
    }

    /// Reports the failure of an item that never was in progress.
    fn fail_item(&mut self, from: &[u8], to: &[u8], parent: Option<DirId>, error: String) {
        self.files_mut().ended(from.to_vec(), to, 0, Some(error));
        self.child_done(parent);
    }

    /// Stops all files after an interrupt.
    fn stop_files(&mut self) {
        for id in self.files_mut().ids() {
            self.files_mut().change(id, FileJob::stop);
            self.after(id);
        }
    }

    /// Ends all files, since the connections are lost.
    fn lose_files(&mut self, why: &EngineError) {
        for id in self.files_mut().ids() {
            self.files_mut().change(id, |job| job.lose(why));
            self.after(id);
        }
    }
}

impl<W: FileWork> Work for W {
    fn poll(&mut self, link: usize, session: &mut Session) -> bool {
        // A job on a connection without a queue could not be woken.
        self.files().ready.has_queue(link)
            && (self.step_ready(link, session) || self.begin_next(link, session))
    }

    fn reply(&mut self, link: usize, session: &mut Session, token: Token, reply: &Reply<'_>) {
        if !self.other_reply((link, &mut *session, token, reply))
            && let Some(id) = Subject::file(token.job)
        {
            self.answered(id, |job| job.reply((link, session, token, reply)));
        }
    }

    fn data(&mut self, _link: usize, token: Token, at: u32, bytes: &Bytes) {
        if !self.other_data(token, bytes)
            && let Some(id) = Subject::file(token.job)
        {
            self.answered(id, |job| job.data(token, at, bytes));
        }
    }

    fn data_ends(&mut self, _link: usize, _session: &mut Session, token: Token, len: u32) {
        if let Some(id) = Subject::file(token.job) {
            self.answered(id, |job| {
                job.data_ends(token, len);
                0
            });
        }
    }

    fn spoiled(&mut self, spoiled: Spoiled) {
        if let Some(id) = Subject::file(spoiled.job) {
            self.change(id, |job| job.spoiled(&spoiled));
        }
    }

    fn is_done(&self) -> bool {
        let files = self.files();
        files.lost || files.is_empty() && !self.has_more()
    }

    fn wakes_at(&self) -> Option<Instant> {
        self.files().pace.wakes_at()
    }

    // For one file at a time, since each may reserve the maximum of memory.
    fn has_idle_work(&self) -> bool {
        let first = || self.files().find(FileJob::takes_memory);
        W::WORKS_IDLY && first().is_some_and(|(_, job)| job.has_idle_work())
    }

    fn work_idly(&mut self) {
        if let Some((id, _)) = self.files().find(FileJob::takes_memory) {
            self.change(id, FileJob::work_idly);
        }
    }

    fn disk(&self) -> Option<Disk> {
        W::DISK
    }

    fn tick(&mut self, times: &Times) {
        self.files_mut().report.tick(times);
    }

    fn stop(&mut self) {
        let files = self.files_mut();
        files.failures = files.failures.max(1);
        self.stop_others();
        self.stop_files();
    }

    fn lost(&mut self, why: &EngineError) {
        self.files_mut().lost = true;
        self.lose_files(why);
        self.lose_others(why);
        let files = self.files_mut();
        files.failures = files.failures.max(1);
    }
}
