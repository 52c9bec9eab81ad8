//! `walk` (docs/PROTOCOL.md): lists a directory tree in depth-first order, with the content of
//! small files, or a single file. The directories on the path to the current entry are open; each was opened by its
//! own name relative to its parent.
//!
//! The server sends no more than the client has granted, so that the client bounds its own memory;
//! the bytes waiting for the channel are bounded as for every answer.

use std::os::fd::{AsFd, OwnedFd};

use crate::extension::{Walk as WalkRequest, WalkOn};
use crate::message::reply::encode_extended;
use crate::vendor::{ENTRY_CHARGE_BYTES, WALK_DEPTH, WalkEntry, walk_flag};
use crate::{Attributes, Code};
use sys::fs::{Directory, FileKind, How, Info, LastLink, PathRoot, content};

use super::status::Failed;
use super::{Buffers, Done, Job, Log, LogLevel, Outbox, Serve, Slice, attributes, shown};

/// Number of bytes before the fields of an EXTENDED_REPLY.
const HEAD_BYTES: usize = 9;
/// Minimum and maximum number of bytes of entries per answer, approximately; between them, as many
/// as a packet holds.
const MIN_ANSWER_BYTES: usize = 4 * 1024;
const MAX_ANSWER_BYTES: usize = 64 * 1024;
/// Maximum length of a file's content in its entry, bytes: an answer must fit in a message.
const MAX_CONTENT_BYTES: u32 = 128 * 1024;

/// An open directory above the current entry.
struct Above {
    /// Length of its path, in [`Walk::path`].
    path_len: usize,
    directory: Directory,
    identity: (u64, u64),
}

/// The parts of the server that a walk uses in a slice.
pub(super) struct Around<'s> {
    pub(super) place: &'s PathRoot,
    pub(super) log: &'s dyn Log,
    /// Attributes are sent with nanoseconds.
    pub(super) exact: bool,
    /// Maximum number of open directories of this walk, within the client's handles.
    pub(super) room: usize,
}

/// A walk in progress.
pub(super) struct Walk {
    pub(super) id: u32,
    root: Vec<u8>,
    follow: bool,
    content: bool,
    max_len: u32,
    /// Number of bytes that may still be sent; negative if the last answer exceeded the window.
    window: i64,
    /// Path of the current entry, relative to the root.
    path: Vec<u8>,
    above: Vec<Above>,
    /// The root itself, which is sent first.
    told_first: Option<Info>,
    /// Encoded entries not sent yet, after room for the head of the answer.
    encoded: Vec<u8>,
    /// Offset of the last encoded entry; the number of encoded entries without content; and whether
    /// the last is one of them.
    last_at: usize,
    bare: u64,
    last_is_bare: bool,
}

impl Walk {
    /// True if nothing can be sent until the client grants more.
    pub(super) fn is_held(&self) -> bool {
        self.window <= 0
    }

    /// Number of open directories.
    pub(super) fn open(&self) -> usize {
        self.above.len()
    }

    pub(super) fn slice(
        &mut self,
        around: &Around<'_>,
        out: &mut Outbox,
        buffers: &mut dyn Buffers,
    ) -> Slice {
        let fits = buffers.max_bytes().saturating_sub(HEAD_BYTES);
        let limit = fits.clamp(MIN_ANSWER_BYTES, MAX_ANSWER_BYTES);
        if let Some(info) = self.told_first.take() {
            self.tell(&info, b"", None, around.exact);
        }
        let mut more = true;
        while more && self.encoded.len() <= limit {
            more = self.next(around);
        }
        let sent = self.send(limit, more, out, buffers);
        if more || !self.encoded.is_empty() {
            Slice::More(sent)
        } else {
            Slice::Done
        }
    }

    /// Sends the collected entries; those beyond the limit wait for the next answer.
    fn send(
        &mut self,
        limit: usize,
        more: bool,
        out: &mut Outbox,
        buffers: &mut dyn Buffers,
    ) -> usize {
        let over = self.encoded.len() > limit;
        let (cut, bare) = match over && self.last_at > 0 {
            true => (self.last_at, self.bare - u64::from(self.last_is_bare)),
            false => (self.encoded.len(), self.bare),
        };
        if cut == 0 || (more && !over) {
            return 0;
        }
        let fields = self.encoded.get(..cut).unwrap_or_default();
        let mut message = Vec::with_capacity(cut + HEAD_BYTES);
        encode_extended(self.id, &mut message, |out| out.extend_from_slice(fields));
        out.put(&message, buffers);
        let charge = cut as u64 + bare * ENTRY_CHARGE_BYTES;
        self.window = self.window.saturating_sub_unsigned(charge);
        self.encoded.drain(..cut);
        (self.last_at, self.bare) = (0, self.bare - bare);
        cut
    }

    /// Encodes the next entry; returns false if there is none left.
    fn next(&mut self, around: &Around<'_>) -> bool {
        let Some(above) = self.above.last_mut() else {
            return false;
        };
        self.path.truncate(above.path_len);
        if above.path_len > 0 {
            self.path.push(b'/');
        }
        let name_at = self.path.len();
        match above.directory.next_entry(&mut self.path) {
            Ok(Some(kind)) => {
                let told = kind.is_some_and(|kind| self.by_kind(kind, name_at, around));
                if !told {
                    self.anything(kind, name_at, around);
                }
            }
            Ok(None) => drop(self.above.pop()),
            Err(error) => {
                self.path.truncate(above.path_len);
                self.above.pop();
                self.tell_failure(&error.into());
            }
        }
        true
    }

    /// Encodes an entry that can be opened by its kind; returns false if it is, or must be treated
    /// as, something else.
    fn by_kind(&mut self, kind: FileKind, name_at: usize, around: &Around<'_>) -> bool {
        match kind {
            FileKind::Regular if self.content => self.file(name_at, around),
            FileKind::Directory => self.directory(name_at, around),
            _ => false,
        }
    }

    fn name(&self, name_at: usize) -> &[u8] {
        self.path.get(name_at..).unwrap_or_default()
    }

    /// Encodes a regular file with its content, opened by its name in the current directory.
    /// Returns false if it cannot be opened or is no longer a regular file.
    fn file(&mut self, name_at: usize, around: &Around<'_>) -> bool {
        let name = self.name(name_at);
        let opened = self
            .above
            .last()
            .map(|above| above.directory.open_file(name));
        let Some(Ok(fd)) = opened else { return false };
        match content::info(&fd) {
            Ok(info) if info.kind() == FileKind::Regular => {
                self.tell_file(fd, &info, around);
                true
            }
            _ => false,
        }
    }

    /// Encodes an open file; with its content if the file is small and its length does not change.
    fn tell_file(&mut self, fd: impl AsFd, info: &Info, around: &Around<'_>) {
        let len = u32::try_from(info.size).unwrap_or(u32::MAX);
        if len > self.max_len {
            return self.tell(info, b"", None, around.exact);
        }
        self.note(around, "open", " flags READ mode 0666");
        // The content is read in place, after its length. Reading one byte more detects a file that
        // has grown.
        let room = usize::try_from(len).unwrap_or(0);
        self.tell(info, b"", Some(b""), around.exact);
        let content_at = self.encoded.len();
        if let Some(field) = self.encoded.get_mut(content_at - 4..) {
            field.copy_from_slice(&len.to_be_bytes());
        }
        self.encoded.resize(content_at + room + 1, 0);
        let mut done = 0;
        let whole = loop {
            let left = self.encoded.get_mut(content_at + done..);
            let Some(left) = left.filter(|left| !left.is_empty()) else {
                break false;
            };
            match content::read_at(fd.as_fd(), left, done as u64) {
                Ok(0) => break done == room,
                Ok(count) => {
                    done += count;
                    // A short read at the known length has reached the end. (Files in /proc report
                    // size 0.)
                    if done == room && room > 0 {
                        break true;
                    }
                }
                Err(_) => break false,
            }
        };
        self.encoded.pop();
        if !whole {
            // A separate request for the file reports the error.
            self.encoded.truncate(self.last_at);
            self.bare -= u64::from(self.last_is_bare);
            self.tell(info, b"", None, around.exact);
        }
        self.note(around, "close", &format!(" bytes read {done} written 0"));
    }

    fn note(&self, around: &Around<'_>, what: &str, more: &str) {
        if around.log.wants(LogLevel::Info) {
            let name = shown(&whole(&self.root, &self.path));
            around
                .log
                .line(LogLevel::Info, &format!("{what} \"{name}\"{more}"));
        }
    }

    /// Enters a directory by its name in the current one. Returns false if it cannot be opened.
    fn directory(&mut self, name_at: usize, around: &Around<'_>) -> bool {
        if !self.may_enter(around) {
            return false;
        }
        let name = self.name(name_at);
        let opened = self
            .above
            .last()
            .map(|above| above.directory.open_directory(name));
        let Some(Ok(directory)) = opened else {
            return false;
        };
        let Ok(info) = directory.own_info() else {
            return false;
        };
        self.tell(&info, b"", None, around.exact);
        self.enter(directory, &info);
        true
    }

    fn may_enter(&self, around: &Around<'_>) -> bool {
        self.above.len() < WALK_DEPTH && self.above.len() < around.room
    }

    fn enter(&mut self, directory: Directory, info: &Info) {
        if self
            .above
            .iter()
            .any(|above| above.identity == info.identity)
        {
            let failed = Failed::new(Code::FAILURE, "a link leads to a directory above it");
            return self.tell_failure(&failed);
        }
        self.above.push(Above {
            path_len: self.path.len(),
            directory,
            identity: info.identity,
        });
    }

    /// Encodes the entry of a name, of any kind; `known` is the kind that the directory reported.
    fn anything(&mut self, known: Option<FileKind>, name_at: usize, around: &Around<'_>) {
        let Some(above) = self.above.last() else {
            return;
        };
        let info = match above.directory.info(self.name(name_at)) {
            Ok(info) => info,
            Err(error) => {
                // A file removed meanwhile is skipped, unless content was requested, which promises
                // an entry.
                if self.content || error.kind() != std::io::ErrorKind::NotFound {
                    self.tell_failure(&error.into());
                }
                return;
            }
        };
        if known != Some(info.kind()) && self.by_kind(info.kind(), name_at, around) {
            return;
        }
        let whole = whole(&self.root, &self.path);
        if info.kind() == FileKind::Symlink && self.follow {
            // By its path, since only the place knows what lies outside. A link whose target does
            // not exist is sent as a link.
            if let Ok(info) = around.place.info(&whole, LastLink::Follow) {
                return self.followed(&whole, &info, around);
            }
        }
        let target = match (info.kind(), self.above.last()) {
            (FileKind::Symlink, Some(above)) => above.directory.read_link(self.name(name_at)).ok(),
            _ => None,
        };
        self.tell(&info, &target.unwrap_or_default(), None, around.exact);
        if info.kind() == FileKind::Directory {
            self.why_not_entered(&whole, LastLink::Stay, around);
        }
    }

    /// Encodes the target of a link, by the link's path.
    fn followed(&mut self, whole: &[u8], info: &Info, around: &Around<'_>) {
        match info.kind() {
            FileKind::Regular if self.content => {
                if let Ok(fd) = around.place.open(whole, How::READ, 0)
                    && let Ok(info) = content::info(&fd)
                    && info.kind() == FileKind::Regular
                {
                    return self.tell_file(fd, &info, around);
                }
                self.tell(info, b"", None, around.exact);
            }
            FileKind::Directory => {
                self.tell(info, b"", None, around.exact);
                if self.may_enter(around)
                    && let Ok(directory) = around.place.open_directory(whole)
                    && let Ok(info) = directory.own_info()
                {
                    return self.enter(directory, &info);
                }
                self.why_not_entered(whole, LastLink::Follow, around);
            }
            _ => self.tell(info, b"", None, around.exact),
        }
    }

    /// Adds an error entry for a directory that was sent and cannot be entered.
    fn why_not_entered(&mut self, whole: &[u8], links: LastLink, around: &Around<'_>) {
        if self.above.len() >= WALK_DEPTH {
            // The client counts the depth, too.
            return;
        }
        let failed = if self.above.len() >= around.room {
            Failed::new(Code::FAILURE, "too many open handles")
        } else {
            let opened = around
                .place
                .info(whole, links)
                .and_then(|info| match info.kind() {
                    FileKind::Directory => around.place.open_directory(whole).map(drop),
                    _ => Ok(()),
                });
            match opened {
                Err(error) => error.into(),
                Ok(()) => Failed::new(Code::FAILURE, "it changed while it was read"),
            }
        };
        self.tell_failure(&failed);
    }

    /// Writes an entry; its content, if any, ends it.
    fn tell(&mut self, info: &Info, text: &[u8], content: Option<&[u8]>, exact: bool) {
        self.begins(content.is_none());
        WalkEntry {
            code: Code::OK,
            path: &self.path,
            attributes: attributes(info, exact),
            allocated: info.allocated,
            text,
            content,
        }
        .write(&mut self.encoded);
    }

    fn tell_failure(&mut self, failed: &Failed) {
        self.begins(true);
        WalkEntry {
            code: failed.code,
            path: &self.path,
            attributes: Attributes::NONE,
            allocated: 0,
            text: failed.text().as_bytes(),
            content: None,
        }
        .write(&mut self.encoded);
    }

    fn begins(&mut self, is_bare: bool) {
        self.last_at = self.encoded.len();
        self.last_is_bare = is_bare;
        self.bare += u64::from(is_bare);
    }
}

fn whole(root: &[u8], path: &[u8]) -> Vec<u8> {
    let mut whole = root.to_vec();
    whole.push(b'/');
    whole.extend_from_slice(path);
    whole
}

impl Serve {
    pub(super) fn walk(
        &mut self,
        id: u32,
        request: &WalkRequest<'_>,
        buffers: &mut dyn Buffers,
    ) -> Done {
        let has = |flag: u32| request.flags & flag != 0;
        if request.flags & !(walk_flag::FOLLOW | walk_flag::CONTENT | walk_flag::FILE) != 0 {
            return Err(Failed::new(Code::OP_UNSUPPORTED, "unknown flags"));
        }
        if has(walk_flag::FILE) {
            return self.walk_file(id, request, buffers);
        }
        self.note(LogLevel::Info, "walk", request.path);
        // The root itself may be a link.
        let root = self.place.open_directory(request.path)?;
        let info = root.own_info()?;
        let above = Above {
            path_len: 0,
            directory: root,
            identity: info.identity,
        };
        self.begin_job(Job::Walk(Box::new(Walk {
            id,
            root: request.path.to_vec(),
            follow: has(walk_flag::FOLLOW),
            content: has(walk_flag::CONTENT),
            max_len: request.max_len.min(MAX_CONTENT_BYTES),
            window: 0_i64.saturating_add_unsigned(request.window),
            path: Vec::new(),
            above: vec![above],
            told_first: Some(info),
            encoded: Vec::new(),
            last_at: 0,
            bare: 0,
            last_is_bare: false,
        })))
    }

    /// Answers for a file in place of a directory: opens, reads and closes it.
    fn walk_file(&mut self, id: u32, request: &WalkRequest<'_>, buffers: &mut dyn Buffers) -> Done {
        if self.log.wants(LogLevel::Info) {
            let name = shown(request.path);
            let line = format!("open \"{name}\" flags READ mode 0666");
            self.log.line(LogLevel::Info, &line);
        }
        let fd = self.place.open(request.path, How::READ, 0)?;
        let info = content::info(&fd)?;
        let limit = request.max_len.min(MAX_CONTENT_BYTES);
        let mut content = Vec::new();
        let is_whole = info.kind() == FileKind::Regular
            && info.size <= u64::from(limit)
            && read_whole(&fd, info.size, limit, &mut content)?;
        let mut known = attributes(&info, self.exact_times);
        if is_whole {
            // Report the length sent, even if the file has just changed.
            known.size = Some(content.len() as u64);
        }
        self.moved += content.len();
        self.note_closed(request.path, content.len(), 0);
        self.answer_extended(id, buffers, |out| {
            WalkEntry {
                code: Code::OK,
                path: b"",
                attributes: known,
                allocated: info.allocated,
                text: b"",
                content: is_whole.then_some(&content),
            }
            .write(out);
        });
        self.ok(id, buffers);
        Ok(())
    }

    pub(super) fn walk_on(&mut self, id: u32, request: &WalkOn, buffers: &mut dyn Buffers) {
        for job in &mut self.jobs {
            if let Job::Walk(walk) = job
                && walk.id == request.request
            {
                walk.window = walk.window.saturating_add_unsigned(request.more);
            }
        }
        self.ok(id, buffers);
    }
}

/// Reads up to `size` bytes of a file, at most `limit`. A file that has shrunk or grown meanwhile
/// counts as whole.
fn read_whole(fd: &OwnedFd, size: u64, limit: u32, content: &mut Vec<u8>) -> Result<bool, Failed> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let size = usize::try_from(size).map_err(|_| Failed::code(Code::FAILURE))?;
    content.resize(size.min(limit), 0);
    let mut done = 0;
    while let Some(room) = content.get_mut(done..).filter(|room| !room.is_empty()) {
        match content::read_at(fd, room, done as u64)? {
            0 => break,
            count => done += count,
        }
    }
    let shrank = done < content.len();
    content.truncate(done);
    // Of a file that grew, the content up to the size at opening is as good as any.
    Ok(shrank || done <= limit)
}
