//! Directories of an upload: created at the server as they are found, read here while files are
//! sent, and given their mode and times when everything in them is done.

use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use sftp::attributes::mode;
use sftp::message::{Reply, Request, request};
use sftp::{Attributes, ExactTimes, vendor};
use sys::fs::{Directory, FileKind};

use super::file::UploadJob;
use super::{Item, Put};
use crate::engine::{Disk, EngineError, Op, Session, Token};
use crate::file::{FileAnswer, FileWork, Files, failure};
use crate::options::MAX_DEPTH;
use crate::plan::id::{DirId, Subject};
use crate::plan::slab::Slab;
use crate::plan::{joined, shown};
use crate::report::Report;
use crate::source::Source;
use crate::text;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DirStage {
    /// MKDIR is due or was sent.
    Making,
    /// The directory may exist: STAT is due or was sent.
    Looking,
    /// The directory exists; files are copied into it.
    There,
    /// Setting mode and times is due or was sent.
    Settling,
}

/// A directory in progress.
#[derive(Debug)]
pub(super) struct UploadDir {
    from: PathBuf,
    to: Vec<u8>,
    parent: Option<DirId>,
    depth: usize,
    mode: u32,
    times: ExactTimes,
    stage: DirStage,
    /// True if this copy created the directory.
    fresh: bool,
    /// Number of unfinished entries, plus one while the directory itself is read.
    left: usize,
    /// The error of MKDIR.
    refused: String,
}

/// The directory being read.
#[derive(Debug)]
pub(super) struct Listing {
    dir: DirId,
    /// Kept open, since its files are opened by name relative to it.
    entries: Directory,
}

impl UploadDir {
    /// True for the root of a tree.
    pub(super) fn is_root(&self) -> bool {
        self.parent.is_none()
    }

    /// Path at the server.
    pub(super) fn target(&self) -> &[u8] {
        &self.to
    }
}

impl<'r> FileWork for Put<'r> {
    type Report = &'r mut dyn Report;
    type Job = UploadJob;
    const DISK: Option<Disk> = Some(Disk::Source);

    fn files(&self) -> &Files<Self::Report, UploadJob> {
        &self.files
    }

    fn files_mut(&mut self) -> &mut Files<Self::Report, UploadJob> {
        &mut self.files
    }

    fn begin_next(&mut self, link: usize, session: &mut Session) -> bool {
        if !self.files.takes_more(session) {
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

    fn has_more(&self) -> bool {
        !self.items.is_empty()
            || self.held.is_some()
            || !self.dirs.is_empty()
            || self.listing.is_some()
    }

    fn other_reply(&mut self, (link, _, token, reply): FileAnswer<'_>) -> bool {
        let Some(Subject::Dir(id)) = Subject::of(token.job) else {
            return false;
        };
        self.directory_reply(link, id, token, reply);
        true
    }

    fn stop_others(&mut self) {
        self.items.clear();
        (self.held, self.listing) = (None, None);
        self.to_list.clear();
        // Directories have no handles, and the answers to their requests may be dropped.
        self.dirs = Slab::default();
    }

    fn lose_others(&mut self, why: &EngineError) {
        let trees = self.dirs.iter().filter(|dir| dir.is_root());
        let trees: Vec<String> = trees.map(|dir| text::name(dir.target())).collect();
        for to in trees {
            self.files.fail(&format!("write remote \"{to}\": {why}"));
        }
        let held = self.held.take().map(|(item, ..)| item);
        let left = std::mem::take(&mut self.items);
        for item in held.into_iter().chain(left) {
            let to = text::name(&item.to);
            self.fail_item(&item, None, format!("write remote \"{to}\": {why}"));
        }
    }

    /// Counts a finished entry; the last one sets the directory's mode and times.
    fn child_done(&mut self, parent: Option<DirId>) {
        let Some(id) = parent else { return };
        let preserve = self.options.preserve;
        let Some(dir) = self.dirs.get_mut(id) else {
            return;
        };
        dir.left = dir.left.saturating_sub(1);
        if dir.left > 0 {
            return;
        }
        let closed_to_owner = dir.fresh && dir.mode & 0o700 != 0o700;
        if preserve || closed_to_owner {
            dir.stage = DirStage::Settling;
            self.files.wake(0, Subject::Dir(id));
        } else {
            self.drop_directory(id);
        }
    }

    fn send_directory(&mut self, _link: usize, id: DirId, session: &mut Session) -> bool {
        if !session.takes_request() {
            return false;
        }
        let Some(dir) = self.dirs.get(id) else {
            return true;
        };
        let token = |op| Subject::Dir(id).token(op);
        match dir.stage {
            DirStage::Making => {
                // The owner must be able to write into it.
                let attributes =
                    Attributes::with_permissions(dir.mode & mode::KEPT_OF_DIRECTORY | 0o700);
                let path = &dir.to;
                let request = Request::Mkdir(request::Mkdir { path, attributes });
                session.send(token(Op::Mkdir), &request);
            }
            DirStage::Looking => {
                let request = Request::Stat(request::Stat { path: &dir.to });
                session.send(token(Op::Stat), &request);
            }
            DirStage::Settling => {
                let mut attributes =
                    Attributes::with_permissions(dir.mode & mode::KEPT_OF_DIRECTORY);
                if self.options.preserve {
                    attributes.times = Some(dir.times.into());
                    let exact = session.server().has(vendor::EXACT_TIMES, "1");
                    attributes.exact_times = exact.then_some(dir.times);
                }
                let path = &dir.to;
                let request = Request::Setstat(request::Setstat { path, attributes });
                session.send(token(Op::Attributes), &request);
            }
            DirStage::There => {}
        }
        true
    }
}

impl Put<'_> {
    pub(super) fn begin_directory(
        &mut self,
        link: usize,
        item: Item,
        metadata: &Metadata,
        parent: Option<DirId>,
        depth: usize,
    ) {
        if depth >= MAX_DEPTH {
            self.files.fail(&format!(
                "Maximum directory depth exceeded: {MAX_DEPTH} levels: \"{}\"",
                shown(&item.from)
            ));
            self.child_done(parent);
            return;
        }
        let id = self.dirs.insert(UploadDir {
            from: item.from,
            to: item.to,
            parent,
            depth,
            mode: metadata.mode(),
            times: crate::source::times_of(metadata),
            stage: DirStage::Making,
            fresh: false,
            left: 1,
            refused: String::new(),
        });
        self.files.wake(link, Subject::Dir(id));
    }

    pub(super) fn directory_reply(
        &mut self,
        link: usize,
        id: DirId,
        token: Token,
        reply: &Reply<'_>,
    ) {
        let Some(dir) = self.dirs.get_mut(id) else {
            return;
        };
        let failed = failure(reply).map(|(_, why)| why);
        let to = text::name(&dir.to);
        match (token.op, failed, reply) {
            (Op::Mkdir, None, _) => {
                dir.fresh = true;
                dir.stage = DirStage::There;
                self.to_list.push(id);
            }
            // Version 3 has no status code for "already exists".
            (Op::Mkdir, Some(why), _) => {
                dir.refused = why;
                dir.stage = DirStage::Looking;
                self.files.wake(link, Subject::Dir(id));
            }
            (Op::Stat, None, Reply::Attrs(there)) if there.is(mode::DIRECTORY) => {
                dir.stage = DirStage::There;
                self.to_list.push(id);
            }
            (Op::Stat, None, _) => {
                self.files
                    .fail(&format!("remote \"{to}\" exists but is not a directory"));
                self.drop_directory(id);
            }
            (Op::Stat, Some(_), _) => {
                let line = format!("remote mkdir \"{to}\": {}", dir.refused);
                self.files.fail(&line);
                self.drop_directory(id);
            }
            (Op::Attributes, failed, _) => {
                if let Some(why) = failed {
                    self.files.fail(&format!("remote setstat \"{to}\": {why}"));
                }
                self.drop_directory(id);
            }
            _ => {}
        }
    }

    fn drop_directory(&mut self, id: DirId) {
        if let Some(dir) = self.dirs.remove(id) {
            self.child_done(dir.parent);
        }
    }

    /// Begins the next entry of the directory being read, or opens the next directory; `None` if
    /// there is no directory to read now.
    pub(super) fn next_in_tree(&mut self, link: usize) -> Option<bool> {
        if self.listing.is_none() {
            let id = self.to_list.pop()?;
            let from = self.dirs.get(id)?.from.clone();
            match Directory::of_path(&from) {
                Ok(entries) => {
                    self.files.report.enters(from.as_os_str().as_bytes());
                    self.listing = Some(Listing { dir: id, entries });
                }
                Err(error) => {
                    let why = text::reason(&error);
                    self.files
                        .fail(&format!("opendir local \"{}\": {why}", shown(&from)));
                    self.child_done(Some(id));
                    return Some(true);
                }
            }
        }
        let listing = self.listing.as_mut()?;
        let id = listing.dir;
        let mut name = Vec::new();
        match listing.entries.next_entry(&mut name) {
            Ok(Some(kind)) => {
                let dir = self.dirs.get_mut(id)?;
                dir.left += 1;
                let item = Item {
                    from: dir.from.join(OsStr::from_bytes(&name)),
                    to: joined(&dir.to, &name),
                    fresh: dir.fresh,
                };
                let depth = dir.depth + 1;
                let early = kind == Some(FileKind::Regular) && self.opens_early();
                let listing = self.listing.as_ref().filter(|_| early);
                let source = listing.map(|listing| Source::open_in(&listing.entries, &name));
                match source {
                    Some(Ok(source)) => {
                        self.begin_job(link, item, Some(id), source.len, Some(source));
                    }
                    // `begin` looks at it again and reports the error.
                    _ => self.begin(link, item, Some(id), depth),
                }
            }
            Err(error) => {
                let from = self.dirs.get(id).map(|dir| shown(&dir.from));
                let why = text::reason(&error);
                self.files.fail(&format!(
                    "readdir local \"{}\": {why}",
                    from.unwrap_or_default()
                ));
                self.listing = None;
                self.child_done(Some(id));
            }
            Ok(None) => {
                self.listing = None;
                self.child_done(Some(id));
            }
        }
        Some(true)
    }
}
