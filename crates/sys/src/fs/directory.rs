//! Open directories, and what is done in them by one name: the kernel looks up nothing else, and
//! no name leads out of them.

use std::fs::File;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::content;
use super::info::{Info, Kind};

/// An open directory, read entry by entry.
pub struct Directory {
    entries: rustix::fs::Dir,
}

impl std::fmt::Debug for Directory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Directory").finish_non_exhaustive()
    }
}

impl Directory {
    /// The directory of this path; links are followed.
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

    /// The next name, `.` and `..` among them; none at the end.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn next_name(&mut self) -> io::Result<Option<Vec<u8>>> {
        match self.entries.read() {
            None => Ok(None),
            Some(entry) => Ok(Some(entry?.file_name().to_bytes().to_vec())),
        }
    }

    /// Puts the next name, but for `.` and `..`, behind what is in `name`; gives what it is, as far
    /// as the directory itself says so. None at the end.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn next_entry(&mut self, name: &mut Vec<u8>) -> io::Result<Option<Option<Kind>>> {
        while let Some(entry) = self.entries.read() {
            let entry = entry?;
            let bytes = entry.file_name().to_bytes();
            if matches!(bytes, b"." | b"..") {
                continue;
            }
            name.extend_from_slice(bytes);
            return Ok(Some(match entry.file_type() {
                FileType::RegularFile => Some(Kind::Regular),
                FileType::Directory => Some(Kind::Directory),
                FileType::Symlink => Some(Kind::Symlink),
                FileType::Unknown => None,
                _ => Some(Kind::Other),
            }));
        }
        Ok(None)
    }

    /// What is known of an entry; of a link, the link itself: where it leads may be outside the
    /// place.
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

    /// What is known of the directory.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn own_info(&self) -> io::Result<Info> {
        content::info(self.fd()?)
    }

    /// What an entry that is a link says.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn read_link(&self, name: &[u8]) -> io::Result<Vec<u8>> {
        Ok(rustix::fs::readlinkat(self.fd()?, one(name)?, Vec::new())?.into_bytes())
    }

    /// Opens a directory in it; a link is refused.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn open_directory(&self, name: &[u8]) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NONBLOCK;
        Self::new(self.open(name, flags)?)
    }

    /// Opens a file in it for reading; a link is refused, and a FIFO not waited for.
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
            one(name)?,
            flags,
            Mode::empty(),
        )?)
    }
}

/// A directory that is kept open for what is made in it.
#[derive(Debug)]
pub struct Parent(OwnedFd);

const PARENT: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

impl Parent {
    /// The directory of this path; links are followed.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(rustix::fs::open(path, PARENT, Mode::empty())?))
    }

    /// A directory in it; a link to one is followed.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn below(&self, name: &[u8]) -> io::Result<Self> {
        let name = one(name)?;
        Ok(Self(rustix::fs::openat(
            &self.0,
            name,
            PARENT,
            Mode::empty(),
        )?))
    }

    /// Makes a directory with `mode`, as far as the umask lets it.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn make_directory(&self, name: &[u8], mode: u32) -> io::Result<()> {
        let mode = Mode::from_raw_mode(mode & 0o7777);
        Ok(rustix::fs::mkdirat(&self.0, one(name)?, mode)?)
    }

    /// Makes a file to be written, with `mode` as far as the umask lets it. There must be nothing
    /// of this name, no link either.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn make_file(&self, name: &[u8], mode: u32) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(mode & 0o7777);
        Ok(File::from(rustix::fs::openat(
            &self.0,
            one(name)?,
            flags,
            mode,
        )?))
    }
}

/// A name that is one component and leads nowhere else.
fn one(name: &[u8]) -> io::Result<&[u8]> {
    match name {
        b"" | b"." | b".." => Err(Errno::INVAL.into()),
        name if name.contains(&b'/') => Err(Errno::INVAL.into()),
        name => Ok(name),
    }
}
