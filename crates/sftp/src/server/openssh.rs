//! OpenSSH's extensions.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use crate::Code;
use crate::extension::{self, Extended, FileSystem, UserGroupNames};
use sys::fs::{FileKind, LastLink, content};
use wire::{Put, Reader};

use super::status::Failed;
use super::{Buffers, Done, Job, LogLevel, Serve, Slice, shown};

/// Number of bytes copied per slice.
const COPY_BYTES: u64 = 4 << 20;
/// Maximum number of ids in one request.
const MAX_IDS: usize = 65_536;

/// A `copy-data` in progress. Later requests wait for it.
pub(super) struct Copy {
    pub(super) id: u32,
    from: Arc<OwnedFd>,
    from_offset: u64,
    to: Arc<OwnedFd>,
    to_offset: u64,
    /// Number of bytes left; `None` for all up to the end of the file.
    left: Option<u64>,
    /// End of the source at the start: a file that grows meanwhile is not followed.
    end: u64,
    /// The kernel cannot copy between these two files; copy in user space.
    by_hand: bool,
}

impl Copy {
    pub(super) fn slice(&mut self) -> Result<Slice, Failed> {
        let wanted = self.left.unwrap_or(COPY_BYTES).min(COPY_BYTES);
        if wanted == 0 {
            return Ok(Slice::Done);
        }
        let there = self.end.saturating_sub(self.from_offset);
        let copied = match wanted.min(there) {
            0 => Ok(0),
            wanted => self.copy(wanted),
        };
        let count = match copied {
            Ok(0) if self.left.is_none() => return Ok(Slice::Done),
            Ok(0) => return Err(Failed::code(Code::EOF)),
            Ok(count) => count,
            Err(error) => return Err(error.into()),
        };
        self.from_offset = self.from_offset.saturating_add(count);
        self.to_offset = self.to_offset.saturating_add(count);
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(count);
        }
        Ok(Slice::More(usize::try_from(count).unwrap_or(0)))
    }

    fn copy(&mut self, wanted: u64) -> std::io::Result<u64> {
        let len = usize::try_from(wanted).unwrap_or(usize::MAX);
        if !self.by_hand {
            let (from, to) = (&self.from, &self.to);
            match content::copy_range(from, self.from_offset, to, self.to_offset, len) {
                Ok(count) if count > 0 => return Ok(count as u64),
                // Some file systems (/proc) report nothing to copy although there is content.
                Ok(_) | Err(_) => self.by_hand = true,
            }
        }
        let mut buffer = vec![0; len.min(256 * 1024)];
        let count = content::read_at(&self.from, &mut buffer, self.from_offset)?;
        let bytes = buffer.get(..count).unwrap_or_default();
        content::write_all_at(&self.to, bytes, self.to_offset)?;
        Ok(count as u64)
    }
}

impl Serve {
    pub(super) fn openssh(
        &mut self,
        id: u32,
        request: &Extended<'_>,
        buffers: &mut dyn Buffers,
    ) -> Done {
        match request {
            Extended::PosixRename(request) => {
                self.note_two("posix-rename", request.old, request.new);
                self.place.rename(request.old, request.new)?;
            }
            Extended::Hardlink(request) => {
                self.note_two("hardlink", request.old, request.new);
                self.place.hard_link(request.old, request.new)?;
            }
            Extended::Lsetstat(request) => {
                self.set(request.path, &request.attributes, LastLink::Stay)?;
            }
            Extended::Fsync(request) => {
                let file = self.handles.file(request.handle)?;
                content::sync(&*file.fd)?;
            }
            Extended::Statvfs(request) => {
                self.note(LogLevel::Info, "statvfs", request.path);
                let found = self.place.file_system(request.path)?;
                self.answer_extended(id, buffers, |out| told(&found).write(out));
                return Ok(());
            }
            Extended::Fstatvfs(request) => {
                let file = self.handles.file(request.handle)?;
                let found = content::file_system(&*file.fd)?;
                self.answer_extended(id, buffers, |out| told(&found).write(out));
                return Ok(());
            }
            Extended::ExpandPath(request) => {
                let path = self.expand(request.path)?;
                let path = self.place.real_path(&path)?;
                self.answer_path(id, &path, buffers);
                return Ok(());
            }
            Extended::HomeDirectory(request) => {
                let home = home_of(request.user)?;
                self.answer_path(id, &home, buffers);
                return Ok(());
            }
            Extended::UsersGroupsById(request) => {
                return self.names_by_id(id, request, buffers);
            }
            Extended::CopyData(request) => return self.copy_data(id, request),
            _ => return Err(Failed::code(Code::OP_UNSUPPORTED)),
        }
        self.ok(id, buffers);
        Ok(())
    }

    /// Expands a leading `~` to the starting directory and `~user` to that user's home.
    fn expand(&self, path: &[u8]) -> Result<Vec<u8>, Failed> {
        let Some(rest) = path.strip_prefix(b"~") else {
            return Ok(path.to_vec());
        };
        let slash = rest.iter().position(|byte| *byte == b'/');
        let (user, rest) = rest.split_at(slash.unwrap_or(rest.len()));
        let mut home = if user.is_empty() {
            self.place.start().to_vec()
        } else {
            home_of(user)?
        };
        home.extend_from_slice(rest);
        Ok(home)
    }

    fn names_by_id(
        &mut self,
        id: u32,
        request: &extension::UsersGroupsById<'_>,
        buffers: &mut dyn Buffers,
    ) -> Done {
        let mut lists = [Vec::new(), Vec::new()];
        for (list, (numbers, is_user)) in lists
            .iter_mut()
            .zip([(request.uids, true), (request.gids, false)])
        {
            let mut reader = Reader::new(numbers);
            for _ in 0..MAX_IDS {
                let Ok(number) = reader.u32() else {
                    break;
                };
                let name = if is_user {
                    self.names.user(number)
                } else {
                    self.names.group(number)
                };
                // An id without a name gets an empty string.
                let name = if name == number.to_string() { "" } else { name };
                list.put_string(name.as_bytes());
            }
        }
        let [users, groups] = &lists;
        if users.len() + groups.len() > crate::MAX_MESSAGE_BYTES - 64 {
            return Err(Failed::new(Code::FAILURE, "too many names in one answer"));
        }
        self.answer_extended(id, buffers, |out| {
            UserGroupNames { users, groups }.write(out);
        });
        Ok(())
    }

    fn copy_data(&mut self, id: u32, request: &extension::CopyData<'_>) -> Done {
        let from = self.handles.file(request.from)?;
        let (from_path, from) = (shown(&from.path), from.fd.clone());
        let to = self.handles.file(request.to)?;
        let (to_path, to_fd) = (shown(&to.path), to.fd.clone());
        let source = content::info(&*from)?;
        if source.kind() != FileKind::Regular {
            return Err(Failed::new(Code::FAILURE, "not a regular file"));
        }
        if source.identity == content::info(&*to_fd)?.identity {
            // Within one file, through any handles, source and target ranges must not overlap.
            let reach = |from: u64| from.saturating_add(request.len);
            let apart = request.len != 0
                && (reach(request.from_offset) <= request.to_offset
                    || reach(request.to_offset) <= request.from_offset);
            if !apart {
                return Err(Failed::new(
                    Code::FAILURE,
                    "source and target of the copy overlap",
                ));
            }
        }
        // The watch cannot tell the bytes that copy-data writes from those of another process.
        self.handles.file(request.to)?.watch = None;
        // Files in /proc have size 0, but an end.
        let end = match source.size {
            0 => u64::MAX,
            size => size,
        };
        self.log.line(
            LogLevel::Info,
            &format!(
                "copy-data from \"{from_path}\" off {} len {} to \"{to_path}\" off {}",
                request.from_offset, request.len, request.to_offset
            ),
        );
        // At the front: later requests wait for it.
        self.jobs.push_front(Job::Copy(Copy {
            id,
            from,
            from_offset: request.from_offset,
            to: to_fd,
            to_offset: request.to_offset,
            left: (request.len != 0).then_some(request.len),
            end,
            by_hand: false,
        }));
        Ok(())
    }
}

fn home_of(user: &[u8]) -> Result<Vec<u8>, Failed> {
    use std::os::unix::ffi::OsStrExt;
    let found = if user.is_empty() {
        sys::users::by_uid(sys::process::effective_uid())
    } else {
        std::str::from_utf8(user).map_or(Ok(None), sys::users::by_name)
    };
    let found = found.map_err(Failed::from)?;
    let found = found.ok_or_else(|| Failed::new(Code::NO_SUCH_FILE, "no such user"))?;
    Ok(found.home.as_os_str().as_bytes().to_vec())
}

fn told(found: &sys::fs::FileSystem) -> FileSystem {
    let flag = |set: bool, flag: u64| if set { flag } else { 0 };
    FileSystem {
        block_size: found.block_size,
        fragment_size: found.fragment_size,
        blocks: found.blocks,
        blocks_free: found.blocks_free,
        blocks_available: found.blocks_available,
        files: found.files,
        files_free: found.files_free,
        files_available: found.files_available,
        id: found.id,
        flags: flag(found.read_only, extension::file_system_flag::READ_ONLY)
            | flag(found.no_setuid, extension::file_system_flag::NO_SETUID),
        name_max: found.name_max,
    }
}
