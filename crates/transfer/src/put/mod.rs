//! Uploads files and directory trees.
//!
//! A [`Put`] pipelines: it creates directories as they are found, begins files while the link
//! accepts data and the server has handles, and sends small files as OPEN, then WRITE and CLOSE in
//! one flight, many files at once. `file` uploads one file, `tree` handles directories.
//!
//! Invariants: the bytes of a large file are sent in ascending order, so that the bytes that
//! arrived before an interruption are a prefix; if the server refuses some, the target is truncated
//! to the bytes before them; no two files are written to one target at once.

use std::collections::VecDeque;
use std::path::PathBuf;

use crate::file::{FileCopy, FileWork, Files};
use crate::options::Options;
use crate::plan::id::DirId;
use crate::plan::slab::Slab;
use crate::report::Report;
use crate::source::Source;

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
    files: Files<&'r mut dyn Report, UploadJob>,
    items: VecDeque<Item>,
    /// State of the first item's target.
    known: Option<Known>,
    /// A file that waits because another is being written to its target, with its directory and
    /// depth.
    held: Option<(Item, Option<DirId>, usize)>,
    dirs: Slab<DirId, UploadDir>,
    /// The directory being read.
    listing: Option<Listing>,
    /// Directories that exist at the server and are not read yet; the last is next.
    to_list: Vec<DirId>,
}

impl<'r> Put<'r> {
    /// Creates a work that uploads `items` over `links` connections.
    pub fn new(
        options: Options,
        items: Vec<Item>,
        links: usize,
        report: &'r mut dyn Report,
    ) -> Self {
        Self {
            files: Files::new(items.len(), links, options.limit_bytes, report),
            options,
            items: items.into(),
            known: None,
            held: None,
            dirs: Slab::default(),
            listing: None,
            to_list: Vec::new(),
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
        self.files.failures
    }

    /// True if a file that its directory lists as regular is opened as soon as it is found, which
    /// also returns its attributes. A file that has to wait before it is read must not be open
    /// meanwhile.
    fn opens_early(&self) -> bool {
        !self.files.may_meet() && !self.options.atomic
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
                self.files
                    .report
                    .says(&format!("{shown}: not a regular file"));
                self.child_done(parent);
            } else {
                let line = format!("local \"{shown}\" is not a regular file");
                self.fail_item(&item, parent, line);
            }
            return;
        }
        if self.files.is_written(&item.to) {
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
        let links = self.files.links_for(link, len);
        let source = source.filter(|_| links.len() == 1);
        let known = self.known.take();
        let known = known.filter(|known| known.place.path == item.to);
        self.files.take_target(&item.to);
        let options = &self.options;
        let shown = (name.as_os_str().as_encoded_bytes(), Some(len));
        self.files.begin(link, shown, |id| {
            let copy = FileCopy::new(id, parent, links);
            UploadJob::new(copy, item, len, source, known, options)
        });
    }

    fn fail_item(&mut self, item: &Item, parent: Option<DirId>, error: String) {
        let from = item.from.as_os_str().as_encoded_bytes();
        FileWork::fail_item(self, from, &item.to, parent, error);
    }
}
