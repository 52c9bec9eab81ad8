//! Open directories, and operations in them on single names: the kernel resolves only this name,
//! and no name leads out of the directory.

use std::fs::File;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::content;
use super::info::{FileKind, Info};

/// An open directory, for reading its entries.
pub struct Directory {
    entries: rustix::fs::Dir,
}

impl std::fmt::Debug for Directory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Directory").finish_non_exhaustive()
    }
}

impl Directory {
    /// Opens the directory at `path`; symbolic links are followed.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn of_path(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        Self::new(rustix::fs::open(path, flags, Mode::empty())?)
    }

    pub(super) fn new(fd: OwnedFd) -> io::Result<Self> {
        let entries = rustix::fs::Dir::new(fd)?;
        Ok(Self { entries })
    }

    fn fd(&self) -> io::Result<BorrowedFd<'_>> {
        Ok(self.entries.fd()?)
    }

    /// Returns the next name, including `.` and `..`; `None` at the end.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn next_name(&mut self) -> io::Result<Option<Vec<u8>>> {
        match self.entries.read() {
            None => Ok(None),
            Some(entry) => Ok(Some(entry?.file_name().to_bytes().to_vec())),
        }
    }

    /// Appends the next name, except `.` and `..`, to `name` and returns the entry's type if the
    /// directory states it (inner `None` if not). Outer `None` at the end.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn next_entry(&mut self, name: &mut Vec<u8>) -> io::Result<Option<Option<FileKind>>> {
        while let Some(entry) = self.entries.read() {
            let entry = entry?;
            let bytes = entry.file_name().to_bytes();
            if matches!(bytes, b"." | b"..") {
                continue;
            }
            name.extend_from_slice(bytes);
            return Ok(Some(match entry.file_type() {
                FileType::RegularFile => Some(FileKind::Regular),
                FileType::Directory => Some(FileKind::Directory),
                FileType::Symlink => Some(FileKind::Symlink),
                FileType::Unknown => None,
                _ => Some(FileKind::Other),
            }));
        }
        Ok(None)
    }

    /// Metadata of an entry. Symbolic links are not followed, because they may lead outside.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn info(&self, name: &[u8]) -> io::Result<Info> {
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        Ok(Info::from_stat(&rustix::fs::statat(
            self.fd()?,
            name,
            flags,
        )?))
    }

    /// Metadata of the directory itself.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn own_info(&self) -> io::Result<Info> {
        content::info(self.fd()?)
    }

    /// Target of an entry that is a symbolic link.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn read_link(&self, name: &[u8]) -> io::Result<Vec<u8>> {
        Ok(rustix::fs::readlinkat(self.fd()?, single_component(name)?, Vec::new())?.into_bytes())
    }

    /// Opens a subdirectory; fails for a symbolic link.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn open_directory(&self, name: &[u8]) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NONBLOCK;
        Self::new(self.open(name, flags)?)
    }

    /// Opens a file in the directory for reading, without blocking on a FIFO; fails for a symbolic
    /// link.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn open_file(&self, name: &[u8]) -> io::Result<OwnedFd> {
        self.open(name, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)
    }

    fn open(&self, name: &[u8], flags: OFlags) -> io::Result<OwnedFd> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(
            self.fd()?,
            single_component(name)?,
            flags,
            Mode::empty(),
        )?)
    }
}

/// A directory that is kept open to create entries in it.
#[derive(Debug)]
pub struct Parent(OwnedFd);

const PARENT: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

impl Parent {
    /// Opens the directory at `path`; symbolic links are followed.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(rustix::fs::open(path, PARENT, Mode::empty())?))
    }

    /// Opens a subdirectory; a symbolic link to a directory is followed.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn below(&self, name: &[u8]) -> io::Result<Self> {
        let name = single_component(name)?;
        Ok(Self(rustix::fs::openat(
            &self.0,
            name,
            PARENT,
            Mode::empty(),
        )?))
    }

    /// Creates a directory with `mode`, reduced by the umask.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn make_directory(&self, name: &[u8], mode: u32) -> io::Result<()> {
        let mode = Mode::from_raw_mode(mode & 0o7777);
        Ok(rustix::fs::mkdirat(&self.0, single_component(name)?, mode)?)
    }

    /// Creates a file for writing, with `mode` reduced by the umask. Fails if the name exists, also
    /// as a symbolic link.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn make_file(&self, name: &[u8], mode: u32) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(mode & 0o7777);
        Ok(File::from(rustix::fs::openat(
            &self.0,
            single_component(name)?,
            flags,
            mode,
        )?))
    }
}

/// Checks that a name is a single component and neither `.` nor `..`.
fn single_component(name: &[u8]) -> io::Result<&[u8]> {
    match name {
        b"" | b"." | b".." => Err(Errno::INVAL.into()),
        name if name.contains(&b'/') => Err(Errno::INVAL.into()),
        name => Ok(name),
    }
}
