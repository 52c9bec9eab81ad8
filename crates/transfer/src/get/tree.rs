//! Directories of a download: read at the server, created here, and given their mode and times when
//! everything in them is done.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::PathBuf;

use bytes::Bytes;
use sftp::Attributes;
use sftp::attributes::mode;
use sftp::message::{Reply, Request, request};

use super::file::DownloadJob;
use super::{Found, Get, Item, MAX_FOUND};
use crate::engine::{Disk, EngineError, Op, Session, Token, status_text};
use crate::file::{FileAnswer, FileWork, Files};
use crate::options::MAX_DEPTH;
use crate::plan::id::{DirId, Subject};
use crate::plan::{joined, names, shown};
use crate::report::Report;
use crate::text;

/// Maximum number of unanswered READDIRs of one directory.
const MAX_OPEN_READS: u32 = 2;

/// A directory in progress.
#[derive(Debug)]
pub(super) struct DownloadDir {
    pub(super) from: Vec<u8>,
    pub(super) to: PathBuf,
    parent: Option<DirId>,
    pub(super) depth: usize,
    attributes: Attributes,
    /// True if this copy created the directory.
    fresh: bool,
    asked: bool,
    handle: Option<Vec<u8>>,
    /// Number of unanswered READDIRs.
    reading: u32,
    at_end: bool,
    closing: bool,
    /// Number of unfinished entries, plus one while the directory itself is read.
    pub(super) left: usize,
}

impl DownloadDir {
    fn new(found: Found, attributes: &Attributes, fresh: bool) -> Self {
        Self {
            from: found.item.from,
            to: found.item.to,
            parent: found.parent,
            depth: found.depth,
            attributes: *attributes,
            fresh,
            asked: false,
            handle: None,
            reading: 0,
            at_end: false,
            closing: false,
            left: 1,
        }
    }

    /// A directory of a tree that is received as a stream.
    pub(super) fn told(found: Found, attributes: &Attributes, fresh: bool) -> Self {
        Self {
            asked: true,
            closing: true,
            ..Self::new(found, attributes, fresh)
        }
    }

    /// Path at the server, if the directory is the root of a tree.
    pub(super) fn root(&self) -> Option<&[u8]> {
        self.parent.is_none().then_some(&self.from)
    }

    fn is_closed(&self) -> bool {
        self.closing && self.handle.is_none()
    }
}

impl<'r> FileWork for Get<'r> {
    type Report = &'r mut dyn Report;
    type Job = DownloadJob;
    const DISK: Option<Disk> = Some(Disk::Target);
    const WORKS_IDLY: bool = true;

    fn files(&self) -> &Files<Self::Report, DownloadJob> {
        &self.files
    }

    fn files_mut(&mut self) -> &mut Files<Self::Report, DownloadJob> {
        &mut self.files
    }

    fn begin_next(&mut self, link: usize, session: &mut Session) -> bool {
        self.begin_found(link, session) || self.leave_ahead(link, session)
    }

    fn has_more(&self) -> bool {
        let found = [&self.found, &self.later, &self.held];
        found.iter().any(|found| !found.is_empty())
            || self.stream.is_some()
            || self.ahead.is_some()
            || !self.dirs.is_empty()
            || !self.looks.is_empty()
    }

    fn other_reply(&mut self, (link, session, token, reply): FileAnswer<'_>) -> bool {
        if let (Op::OpenRead, Some(ahead)) = (token.op, &mut self.ahead) {
            ahead.reply(session, reply);
            self.ahead.take_if(|ahead| ahead.is_left());
            return true;
        }
        match Subject::of(token.job) {
            Some(Subject::Dir(id)) => match token.op {
                Op::Walk => self.stream_reply(link, reply),
                // Answers to WALK_ON and CANCEL.
                Op::Plain => {}
                _ => self.directory_reply(link, session, id, token, reply),
            },
            Some(Subject::Look(id)) => self.looked(link, session, id, reply),
            Some(Subject::File(_)) | None => return false,
        }
        true
    }

    fn other_data(&mut self, token: Token, bytes: &Bytes) -> bool {
        let ahead = self.ahead.as_mut().filter(|_| token.op == Op::OpenRead);
        ahead.map(|ahead| ahead.data(bytes)).is_some()
    }

    fn stop_others(&mut self) {
        self.stopped = true;
        self.found.clear();
        self.held.clear();
        self.stop_stream();
        self.stop_directories();
    }

    fn lose_others(&mut self, why: &EngineError) {
        self.ahead = None;
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
    }

    /// Counts a finished entry; the last one sets the directory's mode and times, and finishes it
    /// in its parent.
    fn child_done(&mut self, parent: Option<DirId>) {
        let mut parent = parent.filter(|_| !self.stopped);
        while let Some(id) = parent {
            let Some(dir) = self.dirs.get_mut(id) else {
                return;
            };
            dir.left = dir.left.saturating_sub(1);
            if dir.left > 0 {
                return;
            }
            let Some(dir) = self.dirs.remove(id) else {
                return;
            };
            self.settle(&dir);
            parent = dir.parent;
        }
    }

    fn send_directory(&mut self, link: usize, id: DirId, session: &mut Session) -> bool {
        if self.stream.as_ref().is_some_and(|stream| stream.root == id) {
            return self.send_stream(session);
        }
        let crowded = self.found.len() >= MAX_FOUND;
        let mut none = 0;
        let open = self.open_dirs.get_mut(link).unwrap_or(&mut none);
        let Some(dir) = self.dirs.get_mut(id) else {
            return true;
        };
        let token = |op| Subject::Dir(id).token(op);
        if !dir.asked {
            // The other half of the handles is for files: directories wait for files when many are
            // found.
            let room = *open < (session.server().max_handles / 2).max(1);
            if !room || !session.takes_handle() {
                return false;
            }
            dir.asked = true;
            *open += 1;
            session.handle_begins();
            let request = Request::Opendir(request::Opendir { path: &dir.from });
            session.send(token(Op::Opendir), &request);
            return true;
        }
        let Some(handle) = &dir.handle else {
            return true;
        };
        if dir.at_end {
            if dir.reading == 0 && !dir.closing {
                dir.closing = true;
                session.send(token(Op::Close), &Request::Close(request::Close { handle }));
            }
            return true;
        }
        if crowded || !session.takes_request() {
            return false;
        }
        while dir.reading < MAX_OPEN_READS {
            dir.reading += 1;
            let request = Request::Readdir(request::Readdir { handle });
            session.send(token(Op::Readdir), &request);
        }
        true
    }
}

impl Get<'_> {
    pub(super) fn begin_directory(
        &mut self,
        link: usize,
        session: &mut Session,
        found: Found,
        attributes: &Attributes,
    ) {
        let streams = self.streams(session);
        if streams && self.stream.is_some() {
            self.later.push_back(found);
            return;
        }
        let shown_from = text::name(&found.item.from);
        if found.depth >= MAX_DEPTH {
            self.files.fail(&format!(
                "Maximum directory depth exceeded: {MAX_DEPTH} levels: \"{shown_from}\""
            ));
            self.child_done(found.parent);
            return;
        }
        let mode = attributes.permissions.unwrap_or(0o777) & mode::KEPT_OF_DIRECTORY;
        let made = std::fs::DirBuilder::new()
            .mode(mode | 0o700)
            .create(&found.item.to);
        let fresh = made.is_ok();
        if let Err(error) = made {
            let there = error.kind() == io::ErrorKind::AlreadyExists && found.item.to.is_dir();
            if !there {
                let to = shown(&found.item.to);
                self.files
                    .fail(&format!("mkdir {to}: {}", text::reason(&error)));
                self.child_done(found.parent);
                return;
            }
        }
        self.files.report.enters(&found.item.from);
        let id = self.dirs.insert(DownloadDir::new(found, attributes, fresh));
        match streams {
            true => self.begin_stream(id, session),
            false => self.files.wake(link, Subject::Dir(id)),
        }
    }

    pub(super) fn directory_reply(
        &mut self,
        link: usize,
        session: &mut Session,
        id: DirId,
        token: Token,
        reply: &Reply<'_>,
    ) {
        let Some(dir) = self.dirs.get_mut(id) else {
            return;
        };
        let from = text::name(&dir.from);
        match (token.op, reply) {
            (Op::Opendir, Reply::Handle(handle)) => dir.handle = Some(handle.handle.to_vec()),
            (Op::Opendir, reply) => {
                session.handle_ends();
                directory_ends(&mut self.open_dirs, link);
                let why = why(reply);
                self.files
                    .fail(&format!("remote readdir(\"{from}\"): {why}"));
                self.directory_read(id);
                return;
            }
            (Op::Readdir, Reply::Names(entries)) => {
                dir.reading = dir.reading.saturating_sub(1);
                // An empty NAME counts as the end, so that a server cannot send empty ones forever.
                dir.at_end |= entries.count() == 0;
                let entries = *entries;
                self.entries(id, &entries);
            }
            (Op::Readdir, reply) => {
                dir.reading = dir.reading.saturating_sub(1);
                let first = !dir.at_end;
                dir.at_end = true;
                let ended = matches!(reply, Reply::Status(status)
                    if status.code == sftp::Code::EOF);
                if !ended && first {
                    let why = why(reply);
                    self.files
                        .fail(&format!("remote readdir(\"{from}\"): {why}"));
                }
            }
            (Op::Close, _) => {
                dir.handle = None;
                session.handle_ends();
                directory_ends(&mut self.open_dirs, link);
                self.directory_read(id);
                return;
            }
            _ => {}
        }
        self.files.wake(link, Subject::Dir(id));
    }

    fn entries(&mut self, id: DirId, entries: &sftp::message::reply::Names<'_>) {
        let Some(dir) = self.dirs.get_mut(id).filter(|_| !self.stopped) else {
            return;
        };
        let (from, to, depth) = (dir.from.clone(), dir.to.clone(), dir.depth + 1);
        let mut suspect = Vec::new();
        let mut broken = false;
        for entry in entries.iter() {
            let Ok(entry) = entry else {
                broken = true;
                break;
            };
            if matches!(entry.name, b"." | b"..") {
                continue;
            }
            if !names::is_plain(entry.name) {
                suspect.push(entry.name.to_vec());
                continue;
            }
            dir.left += 1;
            self.found.push_back(Found {
                item: Item {
                    from: joined(&from, entry.name),
                    to: to.join(std::ffi::OsStr::from_bytes(entry.name)),
                    // Some servers send no attributes in listings.
                    attributes: entry.attributes.permissions.map(|_| entry.attributes),
                },
                parent: Some(id),
                depth,
            });
        }
        let shown_from = text::name(&from);
        for name in suspect {
            let name = text::name(&name);
            self.files.fail(&format!(
                "Server sent suspect path \"{name}\" during readdir of \"{shown_from}\""
            ));
        }
        if broken {
            if let Some(dir) = self.dirs.get_mut(id) {
                dir.at_end = true;
            }
            self.files.fail(&format!(
                "remote readdir(\"{shown_from}\"): a malformed answer"
            ));
        }
    }

    /// After an interrupt: closes open directories and leaves the others as they are.
    pub(super) fn stop_directories(&mut self) {
        let all: Vec<DirId> = self.dirs.ids().collect();
        for id in all {
            match self.dirs.get_mut(id) {
                Some(dir) if dir.asked && !dir.is_closed() => dir.at_end = true,
                _ => drop(self.dirs.remove(id)),
            }
        }
    }

    /// The directory has been read.
    fn directory_read(&mut self, id: DirId) {
        match self.stopped {
            // After an interrupt, do not wait for its entries.
            true => drop(self.dirs.remove(id)),
            false => self.child_done(Some(id)),
        }
    }

    fn settle(&mut self, dir: &DownloadDir) {
        let mode = dir.attributes.permissions;
        let mode = mode.map(|mode| mode & mode::KEPT_OF_DIRECTORY);
        let closed_to_owner = dir.fresh && mode.is_some_and(|mode| mode & 0o700 != 0o700);
        if !self.options.preserve && !closed_to_owner {
            return;
        }
        let to = shown(&dir.to);
        if self.options.preserve
            && let Some(times) = dir.attributes.best_times()
            && let Err(error) =
                File::open(&dir.to).and_then(|file| crate::sink::set_times(&file, &times))
        {
            self.files.fail(&format!(
                "local set times on \"{to}\": {}",
                text::reason(&error)
            ));
        }
        if let Some(mode) = mode
            && let Err(error) = std::fs::set_permissions(&dir.to, Permissions::from_mode(mode))
        {
            self.files.fail(&format!(
                "local set mode on \"{to}\": {}",
                text::reason(&error)
            ));
        }
    }
}

fn directory_ends(open: &mut [usize], link: usize) {
    if let Some(open) = open.get_mut(link) {
        *open = open.saturating_sub(1);
    }
}

pub(super) fn why(reply: &Reply<'_>) -> String {
    match reply {
        Reply::Status(status) => status_text(status.code, status.message),
        _ => "an answer of an unexpected type".to_owned(),
    }
}
