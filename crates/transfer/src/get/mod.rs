//! Downloads files and directory trees.
//!
//! A tree is received as one `stream` if the server supports that. Otherwise a [`Get`] pipelines:
//! it reads directories while files of others are transferred, opens, reads and closes small files
//! in one flight once their handle has arrived, and requests large ones block by block within the
//! limit of bytes in flight. `file` downloads one file, `tree` handles directories, and
//! [`Source`] looks up and reads a single file in one flight.
//!
//! Invariants: nothing is written outside the target, whatever names the server sends; a file that
//! failed is truncated to the bytes received without a gap; no two files are written to one target
//! at once.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::Instant;

use bytes::Bytes;
use sftp::Attributes;
use sftp::attributes::mode;
use sftp::message::{Reply, Request, request};

use crate::engine::{Disk, EngineError, Op, Session, Token, Work, status_text};
use crate::file::{FileCopy, Files, TreeCopy};
use crate::options::Options;
use crate::plan::id::{DirId, Id, LookId, Subject};
use crate::plan::slab::Slab;
use crate::report::{Report, Times};
use crate::step;
use crate::text;
use crate::watch::Targets;

mod file;
mod source;
mod stream;
mod tree;

pub use source::Source;

use file::DownloadJob;
use source::Reading;
use stream::Stream;
use tree::DownloadDir;

/// Maximum number of entries read and not yet begun; with more, directories wait.
const MAX_FOUND: usize = 8192;

/// A file or directory to download.
#[derive(Debug, Clone)]
pub struct Item {
    /// Path at the server.
    pub from: Vec<u8>,
    /// Local path of the copy itself, not of the directory to put it in.
    pub to: PathBuf,
    /// Attributes as STAT returns them; `None` if they are not known yet.
    pub attributes: Option<Attributes>,
}

/// An item that was found and has not begun.
#[derive(Debug)]
struct Found {
    item: Item,
    parent: Option<DirId>,
    depth: usize,
}

impl Item {
    /// The local path as bytes.
    fn target(&self) -> &[u8] {
        self.to.as_os_str().as_encoded_bytes()
    }
}

/// The work that downloads the items, as the module's documentation describes.
pub struct Get<'r> {
    options: Options,
    files: Files<'r, DownloadJob>,
    found: VecDeque<Found>,
    /// The file that the server already streams, until its job begins.
    ahead: Option<Reading>,
    dirs: Slab<DirId, DownloadDir>,
    /// Items whose STAT is unanswered.
    looks: Slab<LookId, Found>,
    /// Number of directories open or being opened, by link.
    open_dirs: Vec<usize>,
    /// The tree that is received as a stream, and the trees that wait for it.
    stream: Option<Stream>,
    later: VecDeque<Found>,
    /// The server refused a stream.
    without_streams: bool,
    /// Files that wait because another file is being written to their target.
    held: VecDeque<Found>,
    /// The targets that existed before and are being written in place.
    overwritten: Targets,
    /// An interrupt stopped the work: nothing more begins.
    stopped: bool,
    lost: bool,
}

impl<'r> Get<'r> {
    /// Creates a work that downloads `items` over `links` connections.
    pub fn new(
        options: Options,
        items: Vec<Item>,
        links: usize,
        report: &'r mut dyn Report,
    ) -> Self {
        let files = Files::new(items.len(), links, options.limit_bytes, report);
        let found = items.into_iter().map(|item| Found {
            item,
            parent: None,
            depth: 0,
        });
        Self {
            found: found.collect(),
            options,
            files,
            ahead: None,
            dirs: Slab::default(),
            looks: Slab::default(),
            stream: None,
            later: VecDeque::new(),
            without_streams: false,
            held: VecDeque::new(),
            overwritten: Targets::default(),
            open_dirs: vec![0; links.max(1)],
            stopped: false,
            lost: false,
        }
    }

    /// Continues with the file that `source` has opened, for a work with one item over the same
    /// connection.
    #[must_use]
    pub fn with_source(mut self, source: Source) -> Self {
        self.ahead = source.into_reading();
        self
    }

    /// Number of files and directories that failed.
    #[must_use]
    pub fn failures(&self) -> usize {
        self.files.failures
    }

    /// Begins another file or directory; returns false if there is none, or if the limits do not
    /// permit it.
    fn begin_next(&mut self, link: usize, session: &mut Session) -> bool {
        if !self.files.takes_more(session) {
            return false;
        }
        if let Some(found) = self.held.front() {
            if self.files.is_written(found.item.target()) {
                return false;
            }
            let mut held = std::mem::take(&mut self.held);
            if let Some(found) = held.pop_front() {
                self.begin(link, session, found);
            }
            self.held.append(&mut held);
            return true;
        }
        let Some(found) = self.found.pop_front() else {
            return false;
        };
        self.begin(link, session, found);
        true
    }

    /// Ends the stream of a file that no item needs; returns false if there is nothing to send for
    /// it.
    fn leave_ahead(&mut self, link: usize, session: &mut Session) -> bool {
        let Some(ahead) = self.ahead.as_mut() else {
            return false;
        };
        if self.found.is_empty() {
            // No item is the streamed file.
            ahead.give_up();
        }
        let left = link == 0 && ahead.leave(session);
        self.ahead.take_if(|ahead| ahead.is_left());
        left
    }

    fn begin(&mut self, link: usize, session: &mut Session, found: Found) {
        let Some(attributes) = found.item.attributes else {
            let path = found.item.from.clone();
            let id = self.looks.insert(found);
            let token = Subject::Look(id).token(Op::Stat);
            session.send(token, &Request::Stat(request::Stat { path: &path }));
            return;
        };
        let shown = text::name(&found.item.from);
        if attributes.is(mode::DIRECTORY) {
            if self.options.recursive {
                self.begin_directory(link, session, found, &attributes);
            } else {
                self.fail_item(&found, format!("download \"{shown}\": not a regular file"));
            }
            return;
        }
        if attributes.is(mode::SYMLINK) && self.options.follow_links {
            let item = Item {
                attributes: None,
                ..found.item
            };
            self.found.push_front(Found { item, ..found });
            return;
        }
        let regular = attributes.permissions.is_none_or(|permissions| {
            // Some servers send no file type.
            matches!(permissions & mode::TYPE, mode::REGULAR | 0)
        });
        if !regular {
            if found.parent.is_some() {
                self.files
                    .report
                    .says(&format!("download \"{shown}\": not a regular file"));
                self.child_done(found.parent);
            } else {
                self.fail_item(&found, format!("download \"{shown}\": not a regular file"));
            }
            return;
        }
        if let Some(error) = step::impossible_size(&attributes) {
            self.fail_item(&found, format!("read remote \"{shown}\": {error}"));
            return;
        }
        if !self.held.is_empty() || self.files.is_written(found.item.target()) {
            self.held.push_back(found);
            return;
        }
        let links = self.files.links_for(link, attributes.size.unwrap_or(0));
        let first = links.len() == 1 && self.files.is_empty();
        let reading = self
            .ahead
            .take_if(|ahead| first && ahead.is_wanted() && ahead.path == found.item.from);
        let mut moved = 0;
        let Found { item, parent, .. } = found;
        self.files.take_target(item.target());
        let name = item.from.clone();
        let (options, overwritten) = (&self.options, &self.overwritten);
        let shown = (name.as_slice(), attributes.size);
        let id = self.files.begin(link, shown, |id| {
            let copy = FileCopy::new(id, parent, links);
            let mut job = DownloadJob::new(copy, item, attributes, options, overwritten);
            if let Some(reading) = reading {
                moved = job.adopt(reading);
            }
            job
        });
        self.files.report.moved(id.index(), moved);
    }

    fn fail_item(&mut self, found: &Found, error: String) {
        let Found { item, parent, .. } = found;
        TreeCopy::fail_item(self, &item.from, item.target(), *parent, error);
    }

    /// Processes the answer to a STAT.
    fn looked(&mut self, link: usize, session: &mut Session, id: LookId, reply: &Reply<'_>) {
        let Some(mut found) = self.looks.remove(id).filter(|_| !self.stopped) else {
            return;
        };
        match reply {
            Reply::Attrs(attributes) => {
                found.item.attributes = Some(*attributes);
                // STAT follows links, so a link here is an error; without this check, the file
                // might be looked up forever.
                let is_link = attributes.is(mode::SYMLINK);
                if is_link {
                    let shown = text::name(&found.item.from);
                    self.fail_item(&found, format!("download \"{shown}\": not a regular file"));
                } else {
                    self.begin(link, session, found);
                }
            }
            Reply::Status(status) => {
                let shown = text::name(&found.item.from);
                let why = status_text(status.code, status.message);
                self.fail_item(&found, format!("stat remote \"{shown}\": {why}"));
            }
            _ => {
                let shown = text::name(&found.item.from);
                self.fail_item(
                    &found,
                    format!("stat remote \"{shown}\": the answer has no attributes"),
                );
            }
        }
    }
}

impl Work for Get<'_> {
    fn poll(&mut self, link: usize, session: &mut Session) -> bool {
        self.step_ready(link, session)
            || self.begin_next(link, session)
            || self.leave_ahead(link, session)
    }

    fn reply(&mut self, link: usize, session: &mut Session, token: Token, reply: &Reply<'_>) {
        if let (Op::OpenRead, Some(ahead)) = (token.op, &mut self.ahead) {
            ahead.reply(session, reply);
            self.ahead.take_if(|ahead| ahead.is_left());
            return;
        }
        match Subject::of(token.job) {
            Some(Subject::Dir(id)) => match token.op {
                Op::Walk => self.stream_reply(link, reply),
                // Answers to WALK_ON and CANCEL.
                Op::Plain => {}
                _ => self.directory_reply(link, session, id, token, reply),
            },
            Some(Subject::Look(id)) => self.looked(link, session, id, reply),
            Some(Subject::File(id)) => {
                let told = self.files.change(id, |job| {
                    let moved = job.reply(link, session, token, reply);
                    (moved, job.take_skipped())
                });
                if let Some((moved, skipped)) = told {
                    self.files.report.skipped(id.index(), skipped);
                    self.files.report.moved(id.index(), moved);
                }
                self.after(id);
            }
            None => {}
        }
    }

    fn data(&mut self, link: usize, token: Token, at: u32, bytes: &Bytes) {
        if let (Op::OpenRead, Some(ahead)) = (token.op, &mut self.ahead) {
            ahead.data(bytes);
            return;
        }
        let Some(id) = Subject::file(token.job) else {
            return;
        };
        let ends = self.change(id, |job| {
            let ended = job.ends_reading();
            job.data(token, at, bytes);
            !ended && job.ends_reading()
        });
        let Some(ends) = ends else { return };
        if ends {
            self.files.wake(link, Subject::File(id));
        }
        let moved = u64::try_from(bytes.len()).unwrap_or_default();
        self.files.report.moved(id.index(), moved);
    }

    fn data_ends(&mut self, _link: usize, _session: &mut Session, token: Token, len: u32) {
        let Some(id) = Subject::file(token.job) else {
            return;
        };
        let skipped = self.files.change(id, |job| {
            job.data_ends(token, len);
            job.take_skipped()
        });
        self.files.report.skipped(id.index(), skipped.unwrap_or(0));
        self.after(id);
    }

    fn is_done(&self) -> bool {
        self.lost
            || (self.found.is_empty()
                && self.stream.is_none()
                && self.later.is_empty()
                && self.held.is_empty()
                && self.ahead.is_none()
                && self.files.is_empty()
                && self.dirs.is_empty()
                && self.looks.is_empty())
    }

    fn wakes_at(&self) -> Option<Instant> {
        self.files.pace.wakes_at()
    }

    // For one file at a time, since each may reserve the maximum of memory.
    fn has_idle_work(&self) -> bool {
        let first = self.files.find(DownloadJob::takes_memory);
        first.is_some_and(|(_, job)| job.has_idle_work())
    }

    fn work_idly(&mut self) {
        if let Some((id, _)) = self.files.find(DownloadJob::takes_memory) {
            self.change(id, DownloadJob::work_idly);
        }
    }

    fn disk(&self) -> Option<Disk> {
        Some(Disk::Target)
    }

    fn tick(&mut self, times: &Times) {
        self.files.report.tick(times);
    }

    fn stop(&mut self) {
        self.stopped = true;
        self.files.failures = self.files.failures.max(1);
        self.found.clear();
        self.held.clear();
        self.stop_stream();
        self.stop_directories();
        self.stop_files();
    }

    fn lost(&mut self, why: &EngineError) {
        self.lost = true;
        self.ahead = None;
        self.lose_files(why);
        // Report the roots of unfinished trees and the items that never began.
        let trees = self.dirs.iter().filter_map(DownloadDir::root);
        let mut left: Vec<Vec<u8>> = trees.map(<[u8]>::to_vec).collect();
        let found = self.found.iter().chain(&self.later).chain(&self.held);
        let roots = found
            .chain(self.looks.iter())
            .filter(|found| found.parent.is_none());
        left.extend(roots.map(|found| found.item.from.clone()));
        for from in left {
            let from = text::name(&from);
            self.files.fail(&format!("read remote \"{from}\": {why}"));
        }
        self.files.failures = self.files.failures.max(1);
    }
}
