//! What is known of files and file systems.

use std::io;

use rustix::fs::{Stat, StatVfs, StatVfsMountFlags, Timespec, Timestamps};
use rustix::io::Errno;

/// A time, to the nanosecond.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Time {
    /// Since 1970.
    pub seconds: i64,
    /// Below a thousand million.
    pub nanoseconds: u32,
}

/// What a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    Regular,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A device, FIFO or socket.
    Other,
}

/// What is known of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Info {
    /// Type and mode bits.
    pub mode: u32,
    /// Bytes.
    pub size: u64,
    /// Bytes that it takes.
    pub allocated: u64,
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Names that it has.
    pub links: u64,
    /// Last access.
    pub accessed: Time,
    /// Last change of the content.
    pub modified: Time,
    /// Device and number of the file, which name it while it is there.
    pub identity: (u64, u64),
}

/// Numbers of C's types, none of them negative in a file that exists.
fn unsigned(number: impl TryInto<u64>) -> u64 {
    number.try_into().unwrap_or(0)
}

impl Info {
    #[allow(clippy::useless_conversion)] // The types differ between architectures.
    pub(super) fn from_stat(stat: &Stat) -> Self {
        let time = |seconds: i64, nanoseconds: u64| Time {
            seconds,
            nanoseconds: u32::try_from(nanoseconds).unwrap_or(0),
        };
        Self {
            mode: stat.st_mode,
            size: unsigned(stat.st_size),
            allocated: unsigned(stat.st_blocks).saturating_mul(512),
            uid: stat.st_uid,
            gid: stat.st_gid,
            links: unsigned(stat.st_nlink),
            accessed: time(stat.st_atime, unsigned(stat.st_atime_nsec)),
            modified: time(stat.st_mtime, unsigned(stat.st_mtime_nsec)),
            identity: (stat.st_dev, stat.st_ino),
        }
    }

    /// What it is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self.mode & 0o170_000 {
            0o100_000 => Kind::Regular,
            0o040_000 => Kind::Directory,
            0o120_000 => Kind::Symlink,
            _ => Kind::Other,
        }
    }
}

/// What is known of a file system, as statvfs(3) tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FileSystem {
    /// Preferred size of a transfer, bytes.
    pub block_size: u64,
    /// Unit of the counts of blocks, bytes.
    pub fragment_size: u64,
    /// Blocks in all.
    pub blocks: u64,
    /// Free.
    pub blocks_free: u64,
    /// Free for ordinary users.
    pub blocks_available: u64,
    /// Files that it can have in all.
    pub files: u64,
    /// That it can have more.
    pub files_free: u64,
    /// That ordinary users can have more.
    pub files_available: u64,
    /// Its number.
    pub id: u64,
    /// Nothing can be changed.
    pub read_only: bool,
    /// Set-user-ID bits do nothing.
    pub no_setuid: bool,
    /// Longest name, bytes.
    pub name_max: u64,
}

impl FileSystem {
    pub(super) fn from_statvfs(found: &StatVfs) -> Self {
        Self {
            block_size: found.f_bsize,
            fragment_size: found.f_frsize,
            blocks: found.f_blocks,
            blocks_free: found.f_bfree,
            blocks_available: found.f_bavail,
            files: found.f_files,
            files_free: found.f_ffree,
            files_available: found.f_favail,
            id: found.f_fsid,
            read_only: found.f_flag.contains(StatVfsMountFlags::RDONLY),
            no_setuid: found.f_flag.contains(StatVfsMountFlags::NOSUID),
            name_max: found.f_namemax,
        }
    }
}

pub(super) fn timestamps(accessed: Time, modified: Time) -> Timestamps {
    let spec = |time: Time| Timespec {
        tv_sec: time.seconds,
        tv_nsec: i64::from(time.nanoseconds),
    };
    Timestamps {
        last_access: spec(accessed),
        last_modification: spec(modified),
    }
}

pub(super) fn is(error: &io::Error, errno: Errno) -> bool {
    error.raw_os_error() == Some(errno.raw_os_error())
}
