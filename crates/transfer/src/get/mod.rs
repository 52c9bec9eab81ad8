//! Downloads files and directory trees.
//!
//! A tree is received as one `stream` if the server supports that. Otherwise a [`Get`] pipelines:
//! it reads directories while files of others are transferred, opens, reads and closes small files
//! in one flight once their handle has arrived, and requests large ones block by block within the
//! limit of bytes in flight. `file` downloads one file, `tree` handles directories, and
//! [`DownloadSource`] looks up and reads a single file in one flight.
//!
//! Invariants: nothing is written outside the target, whatever names the server sends; a file that
//! failed is truncated to the bytes received without a gap; no two files are written to one target
//! at once.

use std::collections::VecDeque;
use std::path::PathBuf;

use sftp::Attributes;
use sftp::attributes::mode;
use sftp::message::{Reply, Request, request};

use crate::engine::{Op, Session, status_text};
use crate::file::{FileCopy, FileWork, Files};
use crate::options::Options;
use crate::plan::id::{DirId, Id, LookId, Subject};
use crate::plan::slab::Slab;
use crate::report::Report;
use crate::step;
use crate::text;
use crate::watch::Targets;

mod file;
mod source;
mod stream;
mod tree;

pub use source::DownloadSource;

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
    files: Files<&'r mut dyn Report, DownloadJob>,
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
        }
    }

    /// Continues with the file that `source` has opened, for a work with one item over the same
    /// connection.
    #[must_use]
    pub fn with_source(mut self, source: DownloadSource) -> Self {
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
    fn begin_found(&mut self, link: usize, session: &mut Session) -> bool {
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
        FileWork::fail_item(self, &item.from, item.target(), *parent, error);
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
