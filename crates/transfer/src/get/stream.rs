//! A tree received as one stream (`walk`, docs/PROTOCOL.md): the server sends directories, files
//! and the content of small files one after another, and each is created as its entry arrives.
//! Files without content are queued and downloaded like any other item.
//!
//! Invariants: a path in the stream is one name in a directory that was sent before and not yet
//! left; it is created by that name relative to that directory, so that it cannot lie elsewhere.
//! The server may send only the bytes granted to it, and nothing is granted while many files are
//! queued.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use sftp::attributes::mode;
use sftp::extension::{Cancel, Extended, Walk, WalkOn};
use sftp::message::{Reply, Request};
use sftp::{Attributes, vendor};
use sys::fs::Parent;

use super::file::{kept, open_sink};
use super::tree::{DownloadDir, why};
use super::{Found, Get, Item, MAX_FOUND};
use crate::engine::{Op, Session, status_text};
use crate::file::FileWork;
use crate::options::{MAX_DEPTH, Options, Resume};
use crate::plan::id::{DirId, Subject};
use crate::plan::{joined, names, shown};
use crate::sink::Sink;
use crate::step::SMALL_BYTES;
use crate::text;
use crate::watch::Targets;

/// Window of the stream, bytes. Data in flight counts, so the window limits the speed over a long
/// path.
const WINDOW_BYTES: u64 = 32 << 20;
/// The number under which files with content are reported: each ends before the next begins.
const TOLD: usize = usize::MAX;
/// Number of bytes granted at a time.
const GRANT_BYTES: u64 = WINDOW_BYTES / 4;

/// The tree being received, as the module's documentation describes.
#[derive(Debug)]
pub(super) struct Stream {
    /// Id of the request.
    id: u32,
    /// The root directory, in [`Get::dirs`].
    pub(super) root: DirId,
    from: Vec<u8>,
    depth: usize,
    /// The directories above the last entry, the root first.
    levels: Vec<Level>,
    /// An entry has arrived.
    has_begun: bool,
    /// Number of bytes the server may still send; negative if an answer exceeded the window.
    left: i64,
    /// Number of bytes received and not granted again.
    owed: u64,
    /// The stream is to be cancelled.
    unwanted: bool,
    cancelled: bool,
}

/// A directory that was sent and not yet left.
#[derive(Debug)]
struct Level {
    /// Path relative to the root.
    path: Vec<u8>,
    /// `None` if the directory could not be created: its contents are skipped.
    here: Option<Here>,
}

#[derive(Debug)]
struct Here {
    /// Id in [`Get::dirs`].
    dir: DirId,
    to: PathBuf,
    parent: Parent,
}

/// Splits a path into its directory and its last name.
fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(at) => (
            path.get(..at).unwrap_or_default(),
            path.get(at + 1..).unwrap_or_default(),
        ),
        None => (b"", path),
    }
}

impl Get<'_> {
    /// True if trees are received as streams: the copy does not resume, has no rate limit and uses
    /// one connection, and the server supports them.
    pub(super) fn streams(&self, session: &Session) -> bool {
        self.files.links == 1
            && !self.without_streams
            && self.options.resume == Resume::Never
            && self.options.limit_bytes == 0
            && session.server().has(vendor::WALK, "2")
    }

    /// Requests the tree of a directory that exists locally by now.
    pub(super) fn begin_stream(&mut self, root: DirId, session: &mut Session) {
        let Some(dir) = self.dirs.get(root) else {
            return;
        };
        let parent = match Parent::open(&dir.to) {
            Ok(parent) => parent,
            Err(error) => {
                let line = format!(
                    "open local \"{}\": {}",
                    shown(&dir.to),
                    text::reason(&error)
                );
                self.files.fail(&line);
                self.child_done(Some(root));
                return;
            }
        };
        let follow = match self.options.follow_links {
            true => vendor::walk_flag::FOLLOW,
            false => 0,
        };
        let request = Extended::Walk(Walk {
            path: &dir.from,
            flags: follow | vendor::walk_flag::CONTENT,
            max_len: u32::try_from(SMALL_BYTES).unwrap_or(u32::MAX),
            window: WINDOW_BYTES,
        });
        let token = Subject::Dir(root).token(Op::Walk);
        let id = session.send(token, &Request::Extended(request));
        let level = Level {
            path: Vec::new(),
            here: Some(Here {
                dir: root,
                to: dir.to.clone(),
                parent,
            }),
        };
        self.stream = Some(Stream {
            id,
            root,
            from: dir.from.clone(),
            depth: dir.depth,
            levels: vec![level],
            has_begun: false,
            left: 0_i64.saturating_add_unsigned(WINDOW_BYTES),
            owed: 0,
            unwanted: false,
            cancelled: false,
        });
    }

    /// Grants more of the window, or cancels the stream; returns false if the limits do not permit
    /// it now.
    pub(super) fn send_stream(&mut self, session: &mut Session) -> bool {
        let crowded = self.found.len() >= MAX_FOUND;
        let Some(stream) = &mut self.stream else {
            return true;
        };
        let token = Subject::Dir(stream.root).token(Op::Plain);
        if stream.unwanted {
            if stream.cancelled {
                return true;
            }
            if !session.takes_request() {
                return false;
            }
            stream.cancelled = true;
            let request = Extended::Cancel(Cancel { request: stream.id });
            session.send(token, &Request::Extended(request));
            return true;
        }
        if stream.owed < GRANT_BYTES {
            return true;
        }
        if crowded || !session.takes_request() {
            return false;
        }
        let more = std::mem::take(&mut stream.owed);
        stream.left = stream.left.saturating_add_unsigned(more);
        let request = Extended::WalkOn(WalkOn {
            request: stream.id,
            more,
        });
        session.send(token, &Request::Extended(request));
        true
    }

    /// After an interrupt: cancels the stream.
    pub(super) fn stop_stream(&mut self) {
        self.later.clear();
        if let Some(stream) = &mut self.stream {
            stream.unwanted = true;
            let root = stream.root;
            self.files.wake(0, Subject::Dir(root));
        }
    }

    pub(super) fn stream_reply(&mut self, link: usize, reply: &Reply<'_>) {
        match reply {
            Reply::Extended(fields) => self.told(link, fields),
            Reply::Status(status) if status.code.is_ok() => self.stream_ends(),
            reply => {
                let Some(stream) = &self.stream else { return };
                if !stream.has_begun && !self.stopped {
                    // The server refuses: read directory by directory, which reports the error if
                    // that fails too.
                    let root = stream.root;
                    self.stream = None;
                    self.without_streams = true;
                    self.files.wake(link, Subject::Dir(root));
                    self.go_on_with_later();
                    return;
                }
                let from = text::name(&stream.from);
                if !stream.unwanted {
                    self.files
                        .fail(&format!("remote readdir(\"{from}\"): {}", why(reply)));
                }
                self.stream_ends();
            }
        }
    }

    /// The stream is complete: leaves the open directories.
    fn stream_ends(&mut self) {
        let Some(stream) = self.stream.take() else {
            return;
        };
        for level in stream.levels.into_iter().rev() {
            self.child_done(level.here.map(|here| here.dir));
        }
        self.go_on_with_later();
    }

    fn go_on_with_later(&mut self) {
        for found in std::mem::take(&mut self.later).into_iter().rev() {
            self.found.push_front(found);
        }
    }

    fn told(&mut self, link: usize, fields: &[u8]) {
        if let Some(stream) = self.stream.as_mut().filter(|stream| !stream.unwanted)
            && stream.left <= 0
        {
            // Otherwise the memory for entries would be unbounded.
            let (root, from) = (stream.root, text::name(&stream.from));
            stream.unwanted = true;
            self.files.fail(&format!(
                "remote readdir(\"{from}\"): the server sent more than it may"
            ));
            self.files.wake(link, Subject::Dir(root));
            return;
        }
        let mut charge = u64::try_from(fields.len()).unwrap_or(u64::MAX);
        for entry in vendor::entries(fields) {
            let Some(stream) = self.stream.as_mut().filter(|stream| !stream.unwanted) else {
                return;
            };
            stream.has_begun = true;
            let Ok(entry) = entry else {
                stream.unwanted = true;
                let from = text::name(&stream.from);
                self.files
                    .fail(&format!("remote readdir(\"{from}\"): a malformed answer"));
                break;
            };
            if entry.content.is_none() {
                charge = charge.saturating_add(vendor::ENTRY_CHARGE_BYTES);
            }
            self.entry(&entry);
        }
        let Some(stream) = &mut self.stream else {
            return;
        };
        stream.owed = stream.owed.saturating_add(charge);
        stream.left = stream.left.saturating_sub_unsigned(charge);
        if stream.unwanted || stream.owed >= GRANT_BYTES {
            let root = stream.root;
            self.files.wake(link, Subject::Dir(root));
        }
    }

    /// Processes an entry.
    fn entry(&mut self, entry: &vendor::WalkEntry<'_>) {
        let Some(stream) = &mut self.stream else {
            return;
        };
        if entry.path.is_empty() {
            // The root, which has begun.
            if !entry.code.is_ok() {
                let from = text::name(&stream.from);
                let why = status_text(entry.code, entry.text);
                self.files
                    .fail(&format!("remote readdir(\"{from}\"): {why}"));
            }
            return;
        }
        let (parent, name) = split(entry.path);
        let at = stream.levels.iter().rposition(|level| level.path == parent);
        let Some(at) = at.filter(|_| names::is_plain(name)) else {
            let (path, from) = (text::name(entry.path), text::name(&stream.from));
            self.files.fail(&format!(
                "Server sent suspect path \"{path}\" during readdir of \"{from}\""
            ));
            return;
        };
        // Leave the deeper directories.
        let mut was_entered = false;
        while self
            .stream
            .as_ref()
            .is_some_and(|stream| stream.levels.len() > at + 1)
        {
            let left = self.stream.as_mut().and_then(|stream| stream.levels.pop());
            if let Some(level) = left {
                was_entered |= level.path == entry.path;
                self.child_done(level.here.map(|here| here.dir));
            }
        }
        let Some(stream) = &self.stream else { return };
        let Some(level) = stream.levels.get(at) else {
            return;
        };
        let is_directory = entry.code.is_ok() && entry.attributes.is(mode::DIRECTORY);
        let Some(here) = &level.here else {
            if is_directory {
                self.passed_over(entry.path);
            }
            return;
        };
        let from = joined(&stream.from, entry.path);
        if !entry.code.is_ok() && was_entered {
            let (from, why) = (text::name(&from), status_text(entry.code, entry.text));
            self.files
                .fail(&format!("remote readdir(\"{from}\"): {why}"));
            return;
        }
        let to = here.to.join(OsStr::from_bytes(name));
        if !entry.code.is_ok() {
            let why = status_text(entry.code, entry.text);
            let error = format!("remote open \"{}\": {why}", text::name(&from));
            self.files
                .ended(from, to.as_os_str().as_encoded_bytes(), 0, Some(error));
        } else if is_directory {
            self.directory_told(entry, from, to, at);
        } else {
            self.file_told(entry, from, to, at);
        }
    }

    fn passed_over(&mut self, path: &[u8]) {
        // A server does not enter deeper directories.
        if let Some(stream) = &mut self.stream
            && stream.levels.len() <= vendor::WALK_DEPTH
        {
            stream.levels.push(Level {
                path: path.to_vec(),
                here: None,
            });
        }
    }

    /// Processes a directory in the one of level `at`: creates it.
    fn directory_told(
        &mut self,
        entry: &vendor::WalkEntry<'_>,
        from: Vec<u8>,
        to: PathBuf,
        at: usize,
    ) {
        let Some(stream) = &self.stream else { return };
        let depth = stream.depth + at + 1;
        if depth >= MAX_DEPTH {
            self.files.fail(&format!(
                "Maximum directory depth exceeded: {MAX_DEPTH} levels: \"{}\"",
                text::name(&from)
            ));
            return self.passed_over(entry.path);
        }
        let Some(above) = stream.levels.get(at).and_then(|level| level.here.as_ref()) else {
            return;
        };
        let parent = above.dir;
        let made = made(&above.parent, entry);
        let (opened, fresh) = match made {
            Ok(made) => made,
            Err(error) => {
                let line = format!("mkdir {}: {}", shown(&to), text::reason(&error));
                self.files.fail(&line);
                return self.passed_over(entry.path);
            }
        };
        if let Some(dir) = self.dirs.get_mut(parent) {
            dir.left += 1;
        }
        self.files.report.enters(&from);
        let found = Found {
            item: Item {
                from,
                to: to.clone(),
                attributes: None,
            },
            parent: Some(parent),
            depth,
        };
        let dir = DownloadDir::told(found, &entry.attributes, fresh);
        let dir = self.dirs.insert(dir);
        if let Some(stream) = &mut self.stream {
            stream.levels.push(Level {
                path: entry.path.to_vec(),
                here: Some(Here {
                    dir,
                    to,
                    parent: opened,
                }),
            });
        }
    }

    /// Processes anything but a directory, in the directory of level `at`.
    fn file_told(&mut self, entry: &vendor::WalkEntry<'_>, from: Vec<u8>, to: PathBuf, at: usize) {
        let Some(stream) = &self.stream else { return };
        let depth = stream.depth + at + 1;
        let Some(here) = stream.levels.get(at).and_then(|level| level.here.as_ref()) else {
            return;
        };
        let parent = here.dir;
        let item = Item {
            from,
            to,
            // Some servers send no attributes.
            attributes: entry.attributes.permissions.map(|_| entry.attributes),
        };
        let content = entry.content.filter(|_| {
            let regular = entry.attributes.is(mode::REGULAR);
            regular && self.held.is_empty() && !self.files.is_written(item.target())
        });
        let Some(content) = content else {
            if let Some(dir) = self.dirs.get_mut(parent) {
                dir.left += 1;
            }
            self.found.push_back(Found {
                item,
                parent: Some(parent),
                depth,
            });
            return;
        };
        let len = u64::try_from(content.len()).unwrap_or(u64::MAX);
        self.files.report.begins(TOLD, &item.from, Some(len));
        let attributes = Attributes {
            size: Some(len),
            ..entry.attributes
        };
        let written = write(
            &here.parent,
            &item,
            &attributes,
            content,
            &self.options,
            &self.overwritten,
        );
        let moved = match written {
            Ok(()) => len,
            Err(_) => 0,
        };
        self.files.report.moved(TOLD, moved);
        self.files.report.leaves(TOLD);
        let to = item.to.as_os_str().as_encoded_bytes();
        self.files.ended(item.from, to, moved, written.err());
    }
}

/// Creates a directory or opens the existing one; returns whether it was created.
fn made(above: &Parent, entry: &vendor::WalkEntry<'_>) -> io::Result<(Parent, bool)> {
    let (_, name) = split(entry.path);
    // The owner must be able to write into it.
    let mode = entry.attributes.permissions.unwrap_or(0o777) & mode::KEPT_OF_DIRECTORY | 0o700;
    match above.make_directory(name, mode) {
        Ok(()) => Ok((above.below(name)?, true)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => match above.below(name) {
            Ok(there) => Ok((there, false)),
            Err(_) => Err(error),
        },
        Err(error) => Err(error),
    }
}

/// Writes a small file completely.
fn write(
    above: &Parent,
    item: &Item,
    attributes: &Attributes,
    content: &[u8],
    options: &Options,
    overwritten: &Targets,
) -> Result<(), String> {
    let to = item.to.as_path();
    let name = to.file_name().unwrap_or_default();
    let mode = attributes.permissions.unwrap_or(0o666) & 0o777 | 0o200;
    let fresh = match options.atomic {
        true => None,
        // Most files do not exist yet.
        false => above.make_file(name.as_bytes(), mode).ok(),
    };
    let mut sink = match fresh {
        Some(file) => Sink::made(file, to.to_path_buf(), options.sparse),
        // An existing file is checked first, and errors are reported.
        None => {
            open_sink(
                &item.from,
                to,
                attributes,
                options,
                options.atomic,
                overwritten,
            )?
            .0
        }
    };
    if !content.is_empty()
        && let Err(error) = sink.write_whole(content)
    {
        sink.give_up(false);
        return Err(format!(
            "write local \"{}\": {}",
            shown(to),
            text::reason(&error)
        ));
    }
    sink.finish(kept(attributes, options), options.sync)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_a_name_in_a_directory() {
        for (path, parent, name) in [
            ("a", "", "a"),
            ("a/b", "a", "b"),
            ("a/b/c", "a/b", "c"),
            ("/a", "", "a"),
            ("a/", "a", ""),
        ] {
            let (parent, name) = (parent.as_bytes(), name.as_bytes());
            assert_eq!(split(path.as_bytes()), (parent, name), "{path}");
        }
    }
}
