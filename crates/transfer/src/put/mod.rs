//! Uploads files and directory trees.
//!
//! A [`Put`] pipelines: it creates directories as they are found, begins files while the link
//! accepts data and the server has handles, and sends small files as OPEN, then WRITE and CLOSE in
//! one flight, many files at once. `file` uploads one file, `tree` handles directories.
//!
//! Invariants: the bytes of a large file are sent in ascending order, so that the bytes that
//! arrived before an interruption are a prefix; if the server refuses some, the target is truncated
//! to the bytes before them; no two files are written to one target at once.

use std::collections::{HashSet, VecDeque};
use std::path::PathBuf;
use std::time::Instant;

use bytes::Bytes;
use sftp::message::Reply;

use crate::engine::{Disk, EngineError, Session, Spoiled, Token, Work};
use crate::options::Options;
use crate::plan::id::{DirId, FileId, Id, Subject};
use crate::plan::jobs::Jobs;
use crate::plan::pace::Pace;
use crate::plan::plain;
use crate::plan::ready::Ready;
use crate::plan::slab::Slab;
use crate::report::{FileResult, Report, Times};
use crate::source::Source;
use crate::step::{self, Step};
use crate::text;

mod file;
mod target;
mod tree;

pub use target::Target;

use file::UploadJob;
use target::Known;
use tree::{Listing, UploadDir};

/// A file or directory to upload.
#[derive(Debug, Clone)]
pub struct Item {
    /// The local file or directory.
    pub from: PathBuf,
    /// Path of the copy itself at the server, not of the directory to put it in.
    pub to: Vec<u8>,
    /// True if the target is known not to exist.
    pub fresh: bool,
}

/// The work that uploads the items, as the module's documentation describes.
pub struct Put<'r> {
    options: Options,
    report: &'r mut dyn Report,
    items: VecDeque<Item>,
    /// State of the first item's target.
    known: Option<Known>,
    /// A file that waits because another is being written to its target, with its directory and
    /// depth.
    held: Option<(Item, Option<DirId>, usize)>,
    /// The targets of all jobs, if two may be equal: with several items.
    targets: Option<HashSet<Vec<u8>>>,
    jobs: Jobs<UploadJob>,
    dirs: Slab<DirId, UploadDir>,
    /// The directory being read.
    listing: Option<Listing>,
    /// Directories that exist at the server and are not read yet; the last is next.
    to_list: Vec<DirId>,
    /// Files and directories that have something to send, by link.
    ready: Ready,
    links: usize,
    pace: Pace,
    failures: usize,
    lost: bool,
}

impl<'r> Put<'r> {
    /// Creates a work that uploads `items` over `links` connections.
    pub fn new(
        options: Options,
        items: Vec<Item>,
        links: usize,
        report: &'r mut dyn Report,
    ) -> Self {
        let pace = Pace::new(options.limit_bytes);
        let targets = (items.len() > 1).then(HashSet::new);
        Self {
            options,
            report,
            items: items.into(),
            known: None,
            held: None,
            targets,
            jobs: Jobs::default(),
            dirs: Slab::default(),
            listing: None,
            to_list: Vec::new(),
            ready: Ready::new(links),
            links: links.max(1),
            pace,
            failures: 0,
            lost: false,
        }
    }

    /// Uses the answers that `target` got, for a work with one item, which is a file.
    #[must_use]
    pub fn with_target(mut self, target: Target) -> Self {
        self.known = target.into_known();
        self
    }

    /// Number of files and directories that failed.
    #[must_use]
    pub fn failures(&self) -> usize {
        self.failures
    }

    fn fail(&mut self, line: &str) {
        self.failures += 1;
        self.report.fails(line);
    }

    fn wake(&mut self, link: usize, subject: Subject) {
        self.ready.add(link, subject);
    }

    /// Lets the first ready job that can send a request do so; returns false if none can.
    fn step_ready(&mut self, link: usize, session: &mut Session) -> bool {
        for _ in 0..self.ready.len(link) {
            let Some(subject) = self.ready.next(link) else {
                return false;
            };
            let id = match subject {
                Subject::File(id) => id,
                Subject::Dir(_) if !session.takes_request() => {
                    self.wake(link, subject);
                    return false;
                }
                Subject::Dir(id) => {
                    self.send_directory(id, session);
                    return true;
                }
                Subject::Look(_) => continue,
            };
            let pace = &mut self.pace;
            let step = self.jobs.change(id, |job| {
                let step = job.step(link, session, pace);
                (step, job.take_wakes())
            });
            let Some((step, wakes)) = step else {
                continue;
            };
            for link in wakes {
                self.wake(link, subject);
            }
            match step {
                Step::Sent { more } => {
                    if more {
                        // At the front, so that a file's data is sent in a row.
                        self.ready.keep(link, subject);
                    }
                    return true;
                }
                Step::Full => self.wake(link, subject),
                Step::Nothing => {}
                Step::Over => {
                    self.end(id);
                    return true;
                }
            }
        }
        false
    }

    /// Begins another file or directory; returns false if there is none, or if the limits do not
    /// permit it.
    fn begin_next(&mut self, link: usize, session: &mut Session) -> bool {
        if !self.jobs.takes_more() || !session.takes_handle() || !session.is_ready() {
            return false;
        }
        if let Some((item, parent, depth)) = self.held.take() {
            self.begin(link, item, parent, depth);
            return self.held.is_none();
        }
        if let Some(found) = self.next_in_tree(link) {
            return found;
        }
        let Some(item) = self.items.pop_front() else {
            return false;
        };
        self.begin(link, item, None, 0);
        true
    }

    /// True if a file that its directory lists as regular is opened as soon as it is found, which
    /// also returns its attributes. A file that has to wait before it is read must not be open
    /// meanwhile.
    fn opens_early(&self) -> bool {
        self.targets.is_none() && !self.options.atomic
    }

    fn begin(&mut self, link: usize, item: Item, parent: Option<DirId>, depth: usize) {
        let follow = parent.is_none() || self.options.follow_links;
        let metadata = match follow {
            true => std::fs::metadata(&item.from),
            false => std::fs::symlink_metadata(&item.from),
        };
        let shown = crate::plan::shown(&item.from);
        let metadata = match metadata {
            Ok(metadata) => metadata,
            Err(error) => {
                let why = crate::text::reason(&error);
                self.fail_item(&item, parent, format!("local stat \"{shown}\": {why}"));
                return;
            }
        };
        if metadata.is_dir() {
            if self.options.recursive {
                self.begin_directory(link, item, &metadata, parent, depth);
            } else {
                let line = format!("local \"{shown}\" is not a regular file");
                self.fail_item(&item, parent, line);
            }
            return;
        }
        if !metadata.is_file() {
            if parent.is_some() {
                self.report.says(&format!("{shown}: not a regular file"));
                self.child_done(parent);
            } else {
                let line = format!("local \"{shown}\" is not a regular file");
                self.fail_item(&item, parent, line);
            }
            return;
        }
        if let Some(targets) = &mut self.targets
            && !targets.insert(plain(&item.to))
        {
            self.held = Some((item, parent, depth));
            return;
        }
        self.begin_job(link, item, parent, metadata.len(), None);
    }

    fn begin_job(
        &mut self,
        link: usize,
        item: Item,
        parent: Option<DirId>,
        len: u64,
        source: Option<Source>,
    ) {
        let name = item.from.clone();
        let spread = self.links > 1 && len >= step::SPREAD_BYTES;
        let links = match spread {
            // The first link opens and thereby creates the file.
            true => std::iter::once(link)
                .chain((0..self.links).filter(|other| *other != link))
                .collect(),
            false => vec![link],
        };
        let source = source.filter(|_| !spread);
        let known = self.known.take();
        let known = known.filter(|known| known.place.path == item.to);
        let options = &self.options;
        let id = self.jobs.insert(|id| {
            UploadJob::new(id, item, parent, len, links, options)
                .with_source(source)
                .with_known(known)
        });
        self.report
            .begins(id.index(), name.as_os_str().as_encoded_bytes(), Some(len));
        self.wake(link, Subject::File(id));
    }

    /// Reports the failure of an item that never became a job.
    fn fail_item(&mut self, item: &Item, parent: Option<DirId>, error: String) {
        self.failures += 1;
        self.report.ends(&FileResult {
            from: item.from.as_os_str().as_encoded_bytes().to_vec(),
            to: item.to.clone(),
            bytes: 0,
            resumed_bytes: 0,
            verified: None,
            error: Some(error),
        });
        self.child_done(parent);
    }

    /// Calls `how` with a job and handles the consequences.
    fn change<R>(&mut self, id: FileId, how: impl FnOnce(&mut UploadJob) -> R) -> Option<R> {
        let result = self.jobs.change(id, how);
        self.after(id);
        result
    }

    /// After a change of a job: wakes its links, or ends it.
    fn after(&mut self, id: FileId) {
        let told = |job: &mut UploadJob| (job.is_over(), job.take_wakes());
        match self.jobs.change(id, told) {
            Some((true, _)) => self.end(id),
            Some((false, wakes)) => {
                for link in wakes {
                    self.wake(link, Subject::File(id));
                }
            }
            None => {}
        }
    }

    /// Ends a job and reports its result.
    fn end(&mut self, id: FileId) {
        let Some(job) = self.jobs.remove(id) else {
            return;
        };
        self.report.leaves(id.index());
        let parent = job.parent();
        let result = job.into_result();
        if let Some(targets) = &mut self.targets {
            targets.remove(&plain(&result.to));
        }
        self.failures += usize::from(result.error.is_some());
        self.report.ends(&result);
        self.child_done(parent);
    }
}

impl Work for Put<'_> {
    fn poll(&mut self, link: usize, session: &mut Session) -> bool {
        self.step_ready(link, session) || self.begin_next(link, session)
    }

    fn reply(&mut self, link: usize, session: &mut Session, token: Token, reply: &Reply<'_>) {
        let id = match Subject::of(token.job) {
            Some(Subject::File(id)) => id,
            Some(Subject::Dir(id)) => {
                self.directory_reply(link, id, token, reply);
                return;
            }
            Some(Subject::Look(_)) | None => return,
        };
        let told = self.jobs.change(id, |job| {
            let moved = job.reply(link, session, token, reply);
            (moved, job.take_skipped(moved))
        });
        if let Some((moved, skipped)) = told.filter(|(moved, _)| *moved > 0) {
            self.report.skipped(id.index(), skipped);
            self.report.moved(id.index(), moved);
        }
        self.after(id);
    }

    fn data(&mut self, _link: usize, token: Token, _at: u32, bytes: &Bytes) {
        if let Some(id) = Subject::file(token.job) {
            self.change(id, |job| job.data(bytes));
        }
    }

    fn data_ends(&mut self, _link: usize, _session: &mut Session, token: Token, _len: u32) {
        if let Some(id) = Subject::file(token.job) {
            self.change(id, |job| job.data_ends(token));
        }
    }

    fn spoiled(&mut self, spoiled: Spoiled) {
        if let Some(id) = Subject::file(spoiled.job) {
            self.change(id, |job| job.spoiled(&spoiled));
        }
    }

    fn is_done(&self) -> bool {
        self.lost
            || (self.items.is_empty()
                && self.held.is_none()
                && self.jobs.is_empty()
                && self.dirs.is_empty()
                && self.listing.is_none())
    }

    fn wakes_at(&self) -> Option<Instant> {
        self.pace.wakes_at()
    }

    fn disk(&self) -> Option<Disk> {
        Some(Disk::Source)
    }

    fn tick(&mut self, times: &Times) {
        self.report.tick(times);
    }

    fn stop(&mut self) {
        self.failures = self.failures.max(1);
        self.items.clear();
        (self.held, self.listing) = (None, None);
        self.to_list.clear();
        // Directories have no handles, and the answers to their requests may be dropped.
        self.dirs = Slab::default();
        for id in self.jobs.ids() {
            self.change(id, UploadJob::stop);
        }
    }

    fn lost(&mut self, why: &EngineError) {
        self.lost = true;
        for id in self.jobs.ids() {
            self.change(id, |job| job.lose(why));
        }
        // Report the roots of unfinished trees and the items that never began.
        let trees = self.dirs.iter().filter(|dir| dir.is_root());
        let trees: Vec<String> = trees.map(|dir| text::name(dir.target())).collect();
        for to in trees {
            self.fail(&format!("write remote \"{to}\": {why}"));
        }
        let held = self.held.take().map(|(item, ..)| item);
        let left = std::mem::take(&mut self.items);
        for item in held.into_iter().chain(left) {
            let to = text::name(&item.to);
            self.fail_item(&item, None, format!("write remote \"{to}\": {why}"));
        }
        self.failures = self.failures.max(1);
    }
}
