//! Directories of an upload: created at the server as they are found, read here while files are
//! sent, and given their mode and times when everything in them is done.

use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use sftp::attributes::mode;
use sftp::message::{Reply, Request, request};
use sftp::{Attributes, ExactTimes, own};
use sys::fs::{Directory, Kind};

use super::{Item, Put, dir_number};
use crate::engine::{Op, Session, Token, status_text};
use crate::options::MAX_DEPTH;
use crate::plan::{joined, shown};
use crate::source::Source;
use crate::text;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
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
pub(super) struct Dir {
    from: PathBuf,
    to: Vec<u8>,
    parent: Option<usize>,
    depth: usize,
    mode: u32,
    times: ExactTimes,
    stage: Stage,
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
    dir: usize,
    /// Kept open, since its files are opened by name relative to it.
    entries: Directory,
}

impl Dir {
    /// True for the root of a tree.
    pub(super) fn is_root(&self) -> bool {
        self.parent.is_none()
    }

    /// Path at the server.
    pub(super) fn target(&self) -> &[u8] {
        &self.to
    }
}

impl Put<'_> {
    pub(super) fn begin_directory(
        &mut self,
        link: usize,
        item: Item,
        metadata: &Metadata,
        parent: Option<usize>,
        depth: usize,
    ) {
        if depth >= MAX_DEPTH {
            self.fail(&format!(
                "Maximum directory depth exceeded: {MAX_DEPTH} levels: \"{}\"",
                shown(&item.from)
            ));
            self.child_done(parent);
            return;
        }
        let index = self.dirs.insert(Dir {
            from: item.from,
            to: item.to,
            parent,
            depth,
            mode: metadata.mode(),
            times: crate::source::times_of(metadata),
            stage: Stage::Making,
            fresh: false,
            left: 1,
            refused: String::new(),
        });
        self.wake(link, dir_number(index));
    }

    /// Sends the next request for a directory.
    pub(super) fn send_directory(&mut self, index: usize, session: &mut Session) {
        let Some(dir) = self.dirs.get(index) else {
            return;
        };
        let token = |op| Token::new(dir_number(index), op);
        match dir.stage {
            Stage::Making => {
                // The owner must be able to write into it.
                let attributes =
                    Attributes::with_permissions(dir.mode & mode::KEPT_OF_DIRECTORY | 0o700);
                let path = &dir.to;
                let request = Request::Mkdir(request::Mkdir { path, attributes });
                session.send(token(Op::Mkdir), &request);
            }
            Stage::Looking => {
                let request = Request::Stat(request::Stat { path: &dir.to });
                session.send(token(Op::Stat), &request);
            }
            Stage::Settling => {
                let mut attributes =
                    Attributes::with_permissions(dir.mode & mode::KEPT_OF_DIRECTORY);
                if self.options.preserve {
                    attributes.times = Some(dir.times.into());
                    let exact = session.server().has(own::EXACT_TIMES, "1");
                    attributes.exact_times = exact.then_some(dir.times);
                }
                let path = &dir.to;
                let request = Request::Setstat(request::Setstat { path, attributes });
                session.send(token(Op::Attributes), &request);
            }
            Stage::There => {}
        }
    }

    pub(super) fn directory_reply(
        &mut self,
        link: usize,
        index: usize,
        token: Token,
        reply: &Reply<'_>,
    ) {
        let Some(dir) = self.dirs.get_mut(index) else {
            return;
        };
        let failed = match reply {
            Reply::Status(status) if !status.code.is_ok() => {
                Some(status_text(status.code, status.message))
            }
            _ => None,
        };
        let to = text::name(&dir.to);
        match (token.op, failed, reply) {
            (Op::Mkdir, None, _) => {
                dir.fresh = true;
                dir.stage = Stage::There;
                self.to_list.push(index);
            }
            // Version 3 has no status code for "already exists".
            (Op::Mkdir, Some(why), _) => {
                dir.refused = why;
                dir.stage = Stage::Looking;
                self.wake(link, dir_number(index));
            }
            (Op::Stat, None, Reply::Attrs(there)) if there.is(mode::DIRECTORY) => {
                dir.stage = Stage::There;
                self.to_list.push(index);
            }
            (Op::Stat, None, _) => {
                self.fail(&format!("remote \"{to}\" exists but is not a directory"));
                self.drop_directory(index);
            }
            (Op::Stat, Some(_), _) => {
                let line = format!("remote mkdir \"{to}\": {}", dir.refused);
                self.fail(&line);
                self.drop_directory(index);
            }
            (Op::Attributes, failed, _) => {
                if let Some(why) = failed {
                    self.fail(&format!("remote setstat \"{to}\": {why}"));
                }
                self.drop_directory(index);
            }
            _ => {}
        }
    }

    fn drop_directory(&mut self, index: usize) {
        if let Some(dir) = self.dirs.remove(index) {
            self.child_done(dir.parent);
        }
    }

    /// Counts a finished entry; the last one sets the directory's mode and times.
    pub(super) fn child_done(&mut self, parent: Option<usize>) {
        let Some(index) = parent else { return };
        let preserve = self.options.preserve;
        let Some(dir) = self.dirs.get_mut(index) else {
            return;
        };
        dir.left = dir.left.saturating_sub(1);
        if dir.left > 0 {
            return;
        }
        let closed_to_owner = dir.fresh && dir.mode & 0o700 != 0o700;
        if preserve || closed_to_owner {
            dir.stage = Stage::Settling;
            self.wake(0, dir_number(index));
        } else {
            self.drop_directory(index);
        }
    }

    /// Begins the next entry of the directory being read, or opens the next directory; `None` if
    /// there is no directory to read now.
    pub(super) fn next_in_tree(&mut self, link: usize) -> Option<bool> {
        if self.listing.is_none() {
            let index = self.to_list.pop()?;
            let from = self.dirs.get(index)?.from.clone();
            match Directory::of_path(&from) {
                Ok(entries) => {
                    self.listing = Some(Listing {
                        dir: index,
                        entries,
                    });
                }
                Err(error) => {
                    let why = text::reason(&error);
                    self.fail(&format!("opendir local \"{}\": {why}", shown(&from)));
                    self.child_done(Some(index));
                    return Some(true);
                }
            }
        }
        let listing = self.listing.as_mut()?;
        let index = listing.dir;
        let mut name = Vec::new();
        match listing.entries.next_entry(&mut name) {
            Ok(Some(kind)) => {
                let dir = self.dirs.get_mut(index)?;
                dir.left += 1;
                let item = Item {
                    from: dir.from.join(OsStr::from_bytes(&name)),
                    to: joined(&dir.to, &name),
                    fresh: dir.fresh,
                };
                let depth = dir.depth + 1;
                let early = kind == Some(Kind::Regular) && self.opens_early();
                let listing = self.listing.as_ref().filter(|_| early);
                let source = listing.map(|listing| Source::open_in(&listing.entries, &name));
                match source {
                    Some(Ok(source)) => {
                        self.begin_job(link, item, Some(index), source.len, Some(source));
                    }
                    // `begin` looks at it again and reports the error.
                    _ => self.begin(link, item, Some(index), depth),
                }
            }
            Err(error) => {
                let from = self.dirs.get(index).map(|dir| shown(&dir.from));
                let why = text::reason(&error);
                self.fail(&format!(
                    "readdir local \"{}\": {why}",
                    from.unwrap_or_default()
                ));
                self.listing = None;
                self.child_done(Some(index));
            }
            Ok(None) => {
                self.listing = None;
                self.child_done(Some(index));
            }
        }
        Some(true)
    }
}
