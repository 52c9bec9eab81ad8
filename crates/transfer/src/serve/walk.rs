//! `walk` (docs/PROTOCOL.md): a directory and all that is below it, each directory before what is
//! in it. One directory is open at a time; of those on the way only names are kept.

use sftp::extension::Walk as WalkRequest;
use sftp::message::reply::encode_extended;
use sftp::own::{Entry, walk_flag};
use sftp::{Attributes, Code};
use sys::fs::{Directory, Info, Kind, Links, Place};

use super::status::Failed;
use super::{Buffers, Done, Job, Level, Outbox, Serve, Slice, attributes};

/// Bytes of entries in one answer.
const ANSWER_BYTES: usize = 30_000;
/// Directories that may wait to be entered.
const MAX_WAITING: usize = 1 << 20;

/// A directory on the way down.
struct Above {
    /// Length of its path, in [`Walk::path`].
    path_len: usize,
    /// Its subdirectories that are still to be entered, the next one last.
    waiting: Vec<Vec<u8>>,
    identity: (u64, u64),
}

/// A tree that is being told.
pub(super) struct Walk {
    pub(super) id: u32,
    root: Vec<u8>,
    follow: bool,
    /// From the root, of what is being read.
    path: Vec<u8>,
    reading: Option<Directory>,
    above: Vec<Above>,
    waiting: usize,
    /// The root itself, which is told first.
    told_first: Option<Info>,
}

impl Walk {
    pub(super) fn slice(
        &mut self,
        place: &Place,
        exact: bool,
        out: &mut Outbox,
        buffers: &mut dyn Buffers,
    ) -> Result<Slice, Failed> {
        let mut encoded = Vec::new();
        let mut more = true;
        if let Some(info) = self.told_first.take() {
            tell(b"", &info, b"", exact, &mut encoded);
        }
        while more && encoded.len() < ANSWER_BYTES {
            more = if self.reading.is_some() {
                self.read(place, exact, &mut encoded);
                true
            } else {
                self.enter(place, &mut encoded)
            };
        }
        if !encoded.is_empty() {
            let mut message = Vec::with_capacity(encoded.len() + 16);
            encode_extended(self.id, &mut message, |fields| {
                fields.extend_from_slice(&encoded);
            });
            out.put(&message, buffers);
        }
        Ok(if more {
            Slice::More(encoded.len())
        } else {
            Slice::Done
        })
    }

    /// Tells the next entry of the directory that is being read.
    fn read(&mut self, place: &Place, exact: bool, encoded: &mut Vec<u8>) {
        let Some(directory) = &mut self.reading else {
            return;
        };
        let name = match directory.next_name() {
            Ok(Some(name)) => name,
            Ok(None) => {
                self.reading = None;
                return;
            }
            Err(error) => {
                self.reading = None;
                tell_failure(&self.path, &error.into(), encoded);
                return;
            }
        };
        if matches!(name.as_slice(), b"." | b"..") {
            return;
        }
        let path_len = self.path.len();
        if path_len > 0 {
            self.path.push(b'/');
        }
        self.path.extend_from_slice(&name);
        let found = match directory.info(&name) {
            // By its path, as only the place knows what is outside. A link that leads nowhere is
            // told as the link.
            Ok(link) if self.follow && link.kind() == Kind::Symlink => {
                let whole = whole(&self.root, &self.path);
                Ok(place.info(&whole, Links::Follow).unwrap_or(link))
            }
            other => other,
        };
        match found {
            Err(error) => {
                // What has gone meanwhile is not there.
                if error.kind() != std::io::ErrorKind::NotFound {
                    tell_failure(&self.path, &error.into(), encoded);
                }
            }
            Ok(info) => {
                let target = if info.kind() == Kind::Symlink {
                    directory.read_link(&name).unwrap_or_default()
                } else {
                    Vec::new()
                };
                tell(&self.path, &info, &target, exact, encoded);
                if info.kind() == Kind::Directory {
                    self.remember(name, info.identity, encoded);
                }
            }
        }
        self.path.truncate(path_len);
    }

    /// A subdirectory is entered later.
    fn remember(&mut self, name: Vec<u8>, identity: (u64, u64), encoded: &mut Vec<u8>) {
        if self.above.iter().any(|above| above.identity == identity) {
            let failed = Failed::new(Code::FAILURE, "a link leads back up");
            tell_failure(&self.path, &failed, encoded);
        } else if self.waiting >= MAX_WAITING {
            let failed = Failed::new(Code::FAILURE, "too many directories");
            tell_failure(&self.path, &failed, encoded);
        } else if let Some(above) = self.above.last_mut() {
            above.waiting.push(name);
            self.waiting += 1;
        }
    }

    /// Opens the next directory; false when there is none.
    fn enter(&mut self, place: &Place, encoded: &mut Vec<u8>) -> bool {
        while let Some(above) = self.above.last_mut() {
            self.path.truncate(above.path_len);
            let Some(name) = above.waiting.pop() else {
                self.above.pop();
                continue;
            };
            self.waiting -= 1;
            if !self.path.is_empty() {
                self.path.push(b'/');
            }
            self.path.extend_from_slice(&name);
            match self.open(place, &whole(&self.root, &self.path)) {
                Ok(()) => return true,
                Err(failed) => tell_failure(&self.path, &failed, encoded),
            }
        }
        false
    }

    fn open(&mut self, place: &Place, path: &[u8]) -> Result<(), Failed> {
        // Not what has become a link since it was a directory.
        if !self.follow && place.info(path, Links::Stay)?.kind() != Kind::Directory {
            return Err(Failed::new(Code::FAILURE, "no longer a directory"));
        }
        let directory = place.open_directory(path)?;
        let identity = directory.own_info()?.identity;
        self.above.push(Above {
            path_len: self.path.len(),
            waiting: Vec::new(),
            identity,
        });
        self.reading = Some(directory);
        Ok(())
    }
}

fn whole(root: &[u8], path: &[u8]) -> Vec<u8> {
    let mut whole = root.to_vec();
    whole.push(b'/');
    whole.extend_from_slice(path);
    whole
}

fn tell(path: &[u8], info: &Info, text: &[u8], exact: bool, encoded: &mut Vec<u8>) {
    Entry {
        code: Code::OK,
        path,
        attributes: attributes(info, exact),
        allocated: info.allocated,
        text,
    }
    .write(encoded);
}

fn tell_failure(path: &[u8], failed: &Failed, encoded: &mut Vec<u8>) {
    Entry {
        code: failed.code,
        path,
        attributes: Attributes::NONE,
        allocated: 0,
        text: failed.text().as_bytes(),
    }
    .write(encoded);
}

impl Serve {
    pub(super) fn walk(&mut self, id: u32, request: &WalkRequest<'_>) -> Done {
        self.note(Level::Info, "walk", request.path);
        let mut walk = Walk {
            id,
            root: request.path.to_vec(),
            follow: request.flags & walk_flag::FOLLOW != 0,
            path: Vec::new(),
            reading: None,
            above: Vec::new(),
            waiting: 0,
            told_first: None,
        };
        // The root itself may be a link, as it is named.
        let root = self.place.open_directory(request.path)?;
        let info = root.own_info()?;
        walk.above.push(Above {
            path_len: 0,
            waiting: Vec::new(),
            identity: info.identity,
        });
        walk.reading = Some(root);
        walk.told_first = Some(info);
        self.begin_job(Job::Walk(walk))
    }
}
