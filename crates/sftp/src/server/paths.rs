//! Requests on files by name, and the attributes of open ones.

use std::os::fd::OwnedFd;

use crate::message::Request;
use crate::message::reply::Names;
use crate::{Attributes, Code};
use sys::fs::{LastLink, Time, content};
use sys::time::LocalTime;

use super::status::Failed;
use super::{Buffers, Done, LogLevel, Serve, shown};
use crate::watch::Watch;

impl Serve {
    pub(super) fn by_path(
        &mut self,
        id: u32,
        request: &Request<'_>,
        buffers: &mut dyn Buffers,
    ) -> Done {
        match request {
            Request::Stat(request) => {
                self.note(LogLevel::Debug3, "stat name", request.path);
                let info = self.place.info(request.path, LastLink::Follow)?;
                self.answer_attributes(id, &info, buffers);
                return Ok(());
            }
            Request::Lstat(request) => {
                self.note(LogLevel::Debug3, "lstat name", request.path);
                let info = self.place.info(request.path, LastLink::Stay)?;
                self.answer_attributes(id, &info, buffers);
                return Ok(());
            }
            Request::Fstat(request) => {
                let info = content::info(&self.handles.file(request.handle)?.fd)?;
                self.answer_attributes(id, &info, buffers);
                return Ok(());
            }
            Request::Realpath(request) => {
                self.note(LogLevel::Verbose, "realpath", request.path);
                let path = self.place.real_path(request.path)?;
                self.answer_path(id, &path, buffers);
                return Ok(());
            }
            Request::Readlink(request) => {
                self.note(LogLevel::Verbose, "readlink", request.path);
                let target = self.place.read_link(request.path)?;
                self.answer_path(id, &target, buffers);
                return Ok(());
            }
            Request::Setstat(request) => {
                self.set(request.path, &request.attributes, LastLink::Follow)?;
            }
            Request::Fsetstat(request) => self.set_open(request.handle, &request.attributes)?,
            Request::Remove(request) => {
                self.note(LogLevel::Info, "remove name", request.path);
                self.place.remove_file(request.path)?;
            }
            Request::Mkdir(request) => {
                let mode = request.attributes.permissions.unwrap_or(0o777) & 0o7777;
                let name = shown(request.path);
                self.log.line(
                    LogLevel::Info,
                    &format!("mkdir name \"{name}\" mode 0{mode:o}"),
                );
                self.place.make_directory(request.path, mode)?;
            }
            Request::Rmdir(request) => {
                self.note(LogLevel::Info, "rmdir name", request.path);
                self.place.remove_directory(request.path)?;
            }
            Request::Rename(request) => {
                self.note_two("rename", request.old, request.new);
                self.place.rename_new(request.old, request.new)?;
            }
            Request::Symlink(request) => {
                let (target, link) = if self.links_by_draft {
                    (request.link, request.target)
                } else {
                    (request.target, request.link)
                };
                self.note_two("symlink", target, link);
                self.place.symlink(target, link)?;
            }
            _ => return Err(Failed::code(Code::OP_UNSUPPORTED)),
        }
        self.ok(id, buffers);
        Ok(())
    }

    /// Logs a request about a name.
    pub(super) fn note(&self, level: LogLevel, what: &str, name: &[u8]) {
        if self.log.wants(level) {
            self.log.line(level, &format!("{what} \"{}\"", shown(name)));
        }
    }

    pub(super) fn note_two(&self, what: &str, old: &[u8], new: &[u8]) {
        if self.log.wants(LogLevel::Info) {
            let line = format!("{what} old \"{}\" new \"{}\"", shown(old), shown(new));
            self.log.line(LogLevel::Info, &line);
        }
    }

    /// Answers with a NAME of one path.
    pub(super) fn answer_path(&mut self, id: u32, path: &[u8], buffers: &mut dyn Buffers) {
        self.answer(buffers, |out| Names::encode_path_into(id, path, out));
    }

    /// SETSTAT and lsetstat: tries all attributes and reports the last failure, as OpenSSH does.
    pub(super) fn set(&self, path: &[u8], wanted: &Attributes, links: LastLink) -> Done {
        self.note_set(path, wanted);
        let place = &self.place;
        let mut last = None;
        if let Some(size) = wanted.size.filter(|_| links == LastLink::Follow) {
            last = place.set_len(path, size).err();
        }
        if let Some(mode) = wanted.permissions {
            last = place.set_mode(path, mode, links).err().or(last);
        }
        if let Some((accessed, modified)) = times(wanted) {
            last = place
                .set_times(path, accessed, modified, links)
                .err()
                .or(last);
        }
        if let Some(owner) = wanted.owner {
            let set = place.set_owner(path, owner.uid, owner.gid, links);
            last = set.err().or(last);
        }
        last.map_or(Ok(()), |error| Err(error.into()))
    }

    fn set_open(&mut self, handle: &[u8], wanted: &Attributes) -> Done {
        let path = self.handles.file(handle)?.path.clone();
        self.note_set(&path, wanted);
        let file = self.handles.file(handle)?;
        match &mut file.watch {
            Some(watch) => set_watched(watch, &file.fd, wanted),
            None => set_attributes(&*file.fd, wanted),
        }
    }

    fn note_set(&self, path: &[u8], wanted: &Attributes) {
        if !self.log.wants(LogLevel::Info) {
            return;
        }
        let name = shown(path);
        let line = |text: String| {
            self.log
                .line(LogLevel::Info, &format!("set \"{name}\" {text}"))
        };
        if let Some(size) = wanted.size {
            line(format!("size {size}"));
        }
        if let Some(mode) = wanted.permissions {
            line(format!("mode {:04o}", mode & 0o7777));
        }
        if let Some((_, modified)) = times(wanted) {
            let at = LocalTime::from_seconds(modified.seconds);
            line(format!(
                "modtime {}{:02}{:02}-{:02}:{:02}:{:02}",
                at.year, at.month, at.day, at.hour, at.minute, at.second
            ));
        }
        if let Some(owner) = wanted.owner {
            line(format!("owner {} group {}", owner.uid, owner.gid));
        }
    }
}

/// Returns the access and modification time to set.
pub(super) fn times(wanted: &Attributes) -> Option<(Time, Time)> {
    let times = wanted.best_times()?;
    let time = |at: crate::Timestamp| Time {
        seconds: at.seconds,
        nanoseconds: at.nanoseconds,
    };
    Some((time(times.accessed), time(times.modified)))
}

/// FSETSTAT of a file with a sole writer.
fn set_watched(watch: &mut Watch, fd: &OwnedFd, wanted: &Attributes) -> Done {
    watch.check(fd)?;
    let set = set_attributes(fd, wanted);
    match (&set, wanted.size) {
        (Ok(()), Some(size)) => watch.cut(fd, size)?,
        (Ok(()), None) => watch.changed(fd)?,
        (Err(_), _) => watch.restart(fd)?,
    }
    set
}

/// FSETSTAT: tries all attributes and reports the last failure, as OpenSSH does.
pub(super) fn set_attributes(fd: impl std::os::fd::AsFd, wanted: &Attributes) -> Done {
    let fd = fd.as_fd();
    let mut last = None;
    if let Some(size) = wanted.size {
        last = content::set_len(fd, size).err();
    }
    if let Some(mode) = wanted.permissions {
        last = content::set_mode(fd, mode).err().or(last);
    }
    // Before the times: a change of owner may change the file's times.
    if let Some(owner) = wanted.owner {
        last = content::set_owner(fd, owner.uid, owner.gid).err().or(last);
    }
    if let Some((accessed, modified)) = times(wanted) {
        last = content::set_times(fd, accessed, modified).err().or(last);
    }
    last.map_or(Ok(()), |error| Err(error.into()))
}
