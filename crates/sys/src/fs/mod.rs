//! File operations by path, for a file server. Paths are resolved in a [`PathRoot`]: relative paths
//! start at its start directory, and no path can leave a confined place through `..` or symbolic
//! links.
//!
//! Paths come from peers and are not decoded. No open blocks: FIFOs and devices are opened with
//! `O_NONBLOCK`. Operations on open files are in [`content`].

pub mod content;
mod directory;
mod info;
mod resolve;
#[cfg(test)]
mod tests;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, ResolveFlags, Timestamps};
use rustix::io::Errno;

pub use directory::{Directory, Parent};
pub use info::{FileKind, FileSystem, Info, Time};

/// How often a confined look-up is retried that a concurrent rename disturbed (openat2(2),
/// `EAGAIN`).
const MAX_TRIES: usize = 100;

/// Flags for opening a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(clippy::struct_excessive_bools)] // The flags of open(2).
pub struct How {
    /// Open for reading.
    pub read: bool,
    /// Open for writing.
    pub write: bool,
    /// Append each write to the end.
    pub append: bool,
    /// Create the file if it does not exist.
    pub create: bool,
    /// Truncate the file to length 0.
    pub truncate: bool,
    /// With `create`: fail if the name exists.
    pub exclusive: bool,
    /// Fail with `ELOOP` if the last component is a symbolic link.
    pub no_follow: bool,
}

impl How {
    /// Open for reading only.
    pub const READ: Self = Self {
        read: true,
        write: false,
        append: false,
        create: false,
        truncate: false,
        exclusive: false,
        no_follow: false,
    };

    fn flags(self) -> OFlags {
        let mut flags = OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        flags |= match (self.read, self.write) {
            (true, true) => OFlags::RDWR,
            (false, true) => OFlags::WRONLY,
            _ => OFlags::RDONLY,
        };
        for (wanted, flag) in [
            (self.append, OFlags::APPEND),
            (self.create, OFlags::CREATE),
            (self.truncate, OFlags::TRUNC),
            (self.exclusive, OFlags::EXCL),
            (self.no_follow, OFlags::NOFOLLOW),
        ] {
            if wanted {
                flags |= flag;
            }
        }
        flags
    }
}

/// Whether an operation follows a symbolic link in the last component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LastLink {
    /// Operate on the link's target.
    Follow,
    /// Operate on the link itself.
    Stay,
}

/// The directory tree in which paths are resolved.
#[derive(Debug)]
pub struct PathRoot {
    /// `O_PATH` descriptor of the start directory, or of the root of a confined place.
    directory: OwnedFd,
    /// Absolute path of the start directory as reported to clients; in a confined place relative to
    /// its root.
    start: Vec<u8>,
    confined: bool,
}

impl PathRoot {
    /// The whole file system as this process sees it; relative paths start at the absolute path
    /// `start`.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn everywhere(start: &[u8]) -> io::Result<Self> {
        Ok(Self {
            directory: open_place(start)?,
            start: start.to_vec(),
            confined: false,
        })
    }

    /// The directory tree below `root`, as a root directory: absolute paths start there, and
    /// neither `..` nor symbolic links lead out. Relative paths start at `start`, a path within the
    /// tree.
    ///
    /// # Errors
    /// `Unsupported` if the kernel has no openat2(2) (Linux 5.6), else the kernel's error.
    pub fn confined(root: &[u8], start: &[u8]) -> io::Result<Self> {
        let place = Self {
            directory: open_place(root)?,
            start: start.to_vec(),
            confined: true,
        };
        match place.open_as(b"/", OFlags::PATH | OFlags::DIRECTORY, Mode::empty()) {
            Err(error) if error.raw_os_error() == Some(Errno::NOSYS.raw_os_error()) => {
                Err(io::Error::new(
                    io::ErrorKind::Unsupported,
                    "a root that cannot be left needs openat2 (Linux 5.6)",
                ))
            }
            Err(error) => Err(error),
            Ok(_) => Ok(place),
        }
    }

    /// The `O_PATH` descriptor of the place, for sandbox rules.
    #[must_use]
    pub fn directory(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    /// Path at which relative paths start.
    #[must_use]
    pub fn start(&self) -> &[u8] {
        &self.start
    }

    /// Makes `path` absolute by prepending the start directory to a relative path.
    #[must_use]
    pub fn absolute(&self, path: &[u8]) -> Vec<u8> {
        if path.first() == Some(&b'/') {
            return path.to_vec();
        }
        let mut whole = self.start.clone();
        if whole.last() != Some(&b'/') {
            whole.push(b'/');
        }
        whole.extend_from_slice(path);
        whole
    }

    fn open_as(&self, path: &[u8], flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
        let flags = flags | OFlags::CLOEXEC;
        if !self.confined {
            return Ok(rustix::fs::openat(&self.directory, path, flags, mode)?);
        }
        if path.is_empty() {
            return Err(Errno::NOENT.into());
        }
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        let path = self.absolute(path);
        for _ in 0..MAX_TRIES {
            match rustix::fs::openat2(&self.directory, path.as_slice(), flags, mode, resolve) {
                Err(Errno::AGAIN | Errno::INTR) => {}
                other => return Ok(other?),
            }
        }
        Err(Errno::AGAIN.into())
    }

    /// Calls `act` with the directory of `path`, resolved within the place, and the last component.
    /// A symbolic link in the last component is not resolved.
    fn at<T>(
        &self,
        path: &[u8],
        act: impl FnOnce(BorrowedFd<'_>, &[u8]) -> rustix::io::Result<T>,
    ) -> io::Result<T> {
        if !self.confined {
            return Ok(act(self.directory.as_fd(), path)?);
        }
        let (parent, name) = resolve::split(path)?;
        let parent = self.open_as(parent, OFlags::PATH | OFlags::DIRECTORY, Mode::empty())?;
        Ok(act(parent.as_fd(), name)?)
    }

    /// An `O_PATH` descriptor of the file at `path`, of any type.
    fn handle(&self, path: &[u8], links: LastLink) -> io::Result<OwnedFd> {
        let mut flags = OFlags::PATH;
        if links == LastLink::Stay {
            flags |= OFlags::NOFOLLOW;
        }
        self.open_as(path, flags, Mode::empty())
    }

    /// Opens a file; a new file gets `mode`, reduced by the umask.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn open(&self, path: &[u8], how: How, mode: u32) -> io::Result<OwnedFd> {
        // openat2 accepts a mode only if a file may be created.
        let mode = if how.create { mode & 0o7777 } else { 0 };
        self.open_as(path, how.flags(), Mode::from_raw_mode(mode))
    }

    /// Opens a directory for reading.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn open_directory(&self, path: &[u8]) -> io::Result<Directory> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NONBLOCK;
        let fd = self.open_as(path, flags, Mode::empty())?;
        Directory::new(fd)
    }

    /// Metadata of a file.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn info(&self, path: &[u8], links: LastLink) -> io::Result<Info> {
        if self.confined {
            return content::info(self.handle(path, links)?);
        }
        let flags = match links {
            LastLink::Follow => AtFlags::empty(),
            LastLink::Stay => AtFlags::SYMLINK_NOFOLLOW,
        };
        Ok(Info::from_stat(&rustix::fs::statat(
            &self.directory,
            path,
            flags,
        )?))
    }

    /// Sets mode bits (`07777`). Fails with `EOPNOTSUPP` for a symbolic link itself.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn set_mode(&self, path: &[u8], mode: u32, links: LastLink) -> io::Result<()> {
        let mode = Mode::from_raw_mode(mode & 0o7777);
        if !self.confined && links == LastLink::Follow {
            let done = rustix::fs::chmodat(&self.directory, path, mode, AtFlags::empty());
            return Ok(done?);
        }
        let handle = self.handle(path, links)?;
        if content::info(&handle)?.kind() == FileKind::Symlink {
            return Err(Errno::OPNOTSUPP.into());
        }
        match rustix::fs::chmod(resolve::proc_path(&handle), mode) {
            // Without /proc, only files that can be opened can be changed.
            Err(Errno::NOENT | Errno::NOTDIR) => {
                let how = How {
                    no_follow: links == LastLink::Stay,
                    ..How::READ
                };
                Ok(rustix::fs::fchmod(self.open(path, how, 0)?, mode)?)
            }
            other => Ok(other?),
        }
    }

    /// Sets owner and group.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn set_owner(&self, path: &[u8], uid: u32, gid: u32, links: LastLink) -> io::Result<()> {
        let uid = rustix::fs::Uid::from_raw(uid);
        let gid = rustix::fs::Gid::from_raw(gid);
        if self.confined {
            let handle = self.handle(path, links)?;
            let flags = AtFlags::EMPTY_PATH;
            return Ok(rustix::fs::chownat(
                handle,
                "",
                Some(uid),
                Some(gid),
                flags,
            )?);
        }
        let flags = match links {
            LastLink::Follow => AtFlags::empty(),
            LastLink::Stay => AtFlags::SYMLINK_NOFOLLOW,
        };
        Ok(rustix::fs::chownat(
            &self.directory,
            path,
            Some(uid),
            Some(gid),
            flags,
        )?)
    }

    /// Sets access and modification time.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn set_times(
        &self,
        path: &[u8],
        accessed: Time,
        modified: Time,
        links: LastLink,
    ) -> io::Result<()> {
        let times = info::timestamps(accessed, modified);
        if self.confined && links == LastLink::Follow {
            let handle = self.handle(path, links)?;
            return set_times_of(&handle, &times);
        }
        let flags = match links {
            LastLink::Follow => AtFlags::empty(),
            LastLink::Stay => AtFlags::SYMLINK_NOFOLLOW,
        };
        self.at(path, |directory, name| {
            rustix::fs::utimensat(directory, name, &times, flags)
        })
    }

    /// Truncates or extends a file.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn set_len(&self, path: &[u8], len: u64) -> io::Result<()> {
        let how = How {
            read: false,
            write: true,
            ..How::READ
        };
        content::set_len(self.open(path, how, 0)?, len)
    }

    /// Removes a file that is not a directory.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn remove_file(&self, path: &[u8]) -> io::Result<()> {
        self.at(path, |directory, name| {
            rustix::fs::unlinkat(directory, name, AtFlags::empty())
        })
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn remove_directory(&self, path: &[u8]) -> io::Result<()> {
        self.at(path, |directory, name| {
            rustix::fs::unlinkat(directory, name, AtFlags::REMOVEDIR)
        })
    }

    /// Creates a directory with `mode`, reduced by the umask.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn make_directory(&self, path: &[u8], mode: u32) -> io::Result<()> {
        self.at(path, |directory, name| {
            rustix::fs::mkdirat(directory, name, Mode::from_raw_mode(mode & 0o7777))
        })
    }

    /// Renames a file; an existing file at `new` is replaced (rename(2)).
    ///
    /// # Errors
    /// The kernel's error.
    pub fn rename(&self, old: &[u8], new: &[u8]) -> io::Result<()> {
        self.rename_as(old, new, RenameFlags::empty())
    }

    /// Renames a file; fails if `new` exists.
    ///
    /// # Errors
    /// `EEXIST`, else the kernel's error.
    pub fn rename_new(&self, old: &[u8], new: &[u8]) -> io::Result<()> {
        match self.rename_as(old, new, RenameFlags::NOREPLACE) {
            // The file system does not support the flag.
            Err(error) if info::is(&error, Errno::INVAL) || info::is(&error, Errno::NOSYS) => {
                match self.info(new, LastLink::Stay) {
                    Ok(_) => Err(Errno::EXIST.into()),
                    Err(missing) if info::is(&missing, Errno::NOENT) => self.rename(old, new),
                    Err(other) => Err(other),
                }
            }
            other => other,
        }
    }

    fn rename_as(&self, old: &[u8], new: &[u8], flags: RenameFlags) -> io::Result<()> {
        self.at(old, |from, old| {
            self.at(new, |to, new| {
                rustix::fs::renameat_with(from, old, to, new, flags)
            })
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
        })
    }

    /// Creates a hard link. Of a symbolic link it links the link itself.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn hard_link(&self, old: &[u8], new: &[u8]) -> io::Result<()> {
        self.at(old, |from, old| {
            self.at(new, |to, new| {
                rustix::fs::linkat(from, old, to, new, AtFlags::empty())
            })
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
        })
    }

    /// Creates a symbolic link with the unchanged `target`.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn symlink(&self, target: &[u8], link: &[u8]) -> io::Result<()> {
        self.at(link, |directory, name| {
            rustix::fs::symlinkat(target, directory, name)
        })
    }

    /// Target of a symbolic link.
    ///
    /// # Errors
    /// `EINVAL` if the file is not a symbolic link, else the kernel's error.
    pub fn read_link(&self, path: &[u8]) -> io::Result<Vec<u8>> {
        let target = self.at(path, |directory, name| {
            rustix::fs::readlinkat(directory, name, Vec::new())
        })?;
        Ok(target.into_bytes())
    }

    /// Statistics of the file system that holds `path`.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn file_system(&self, path: &[u8]) -> io::Result<FileSystem> {
        content::file_system(self.handle(path, LastLink::Follow)?)
    }

    /// Makes `path` absolute and resolves `.`, `..` and symbolic links. The last component need not
    /// exist, unless the path ends in a slash.
    ///
    /// # Errors
    /// The kernel's error; `ELOOP` for too many links.
    pub fn real_path(&self, path: &[u8]) -> io::Result<Vec<u8>> {
        resolve::real_path(self, path)
    }
}

fn set_times_of(handle: &OwnedFd, times: &Timestamps) -> io::Result<()> {
    match rustix::fs::utimensat(handle, "", times, AtFlags::EMPTY_PATH) {
        // Kernels before 5.8 do not accept an empty path here.
        Err(Errno::INVAL | Errno::NOENT) => {
            let path = resolve::proc_path(handle);
            let done = rustix::fs::utimensat(rustix::fs::CWD, path, times, AtFlags::empty());
            Ok(done?)
        }
        other => Ok(other?),
    }
}

fn open_place(path: &[u8]) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}
