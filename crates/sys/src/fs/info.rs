//! Metadata of files and file systems.

use std::io;

use rustix::fs::{Stat, StatVfs, StatVfsMountFlags, Timespec, Timestamps};
use rustix::io::Errno;

/// A timestamp with nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Time {
    /// Seconds since 1970.
    pub seconds: i64,
    /// 0 to 999,999,999.
    pub nanoseconds: u32,
}

/// Type of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    Regular,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A device, FIFO or socket.
    Other,
}

/// Metadata of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Info {
    /// File type and mode bits (`st_mode`).
    pub mode: u32,
    /// Size in bytes.
    pub size: u64,
    /// Allocated disk space in bytes.
    pub allocated: u64,
    /// Owner's user id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
    /// Number of hard links.
    pub links: u64,
    /// Time of the last access.
    pub accessed: Time,
    /// Time of the last change of the content.
    pub modified: Time,
    /// Device and inode number, which identify the file while it exists.
    pub identity: (u64, u64),
}

/// Converts a C integer that is never negative for an existing file.
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

    /// Type of the file, from its mode.
    #[must_use]
    pub fn kind(&self) -> FileKind {
        match self.mode & 0o170_000 {
            0o100_000 => FileKind::Regular,
            0o040_000 => FileKind::Directory,
            0o120_000 => FileKind::Symlink,
            _ => FileKind::Other,
        }
    }
}

/// Statistics of a file system, from statvfs(3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FileSystem {
    /// Preferred transfer size in bytes.
    pub block_size: u64,
    /// Unit of the block counts in bytes.
    pub fragment_size: u64,
    /// Total number of blocks.
    pub blocks: u64,
    /// Free blocks.
    pub blocks_free: u64,
    /// Free blocks available to ordinary users.
    pub blocks_available: u64,
    /// Total number of inodes.
    pub files: u64,
    /// Free inodes.
    pub files_free: u64,
    /// Free inodes available to ordinary users.
    pub files_available: u64,
    /// File system id.
    pub id: u64,
    /// True if mounted read-only.
    pub read_only: bool,
    /// True if set-user-ID bits have no effect.
    pub no_setuid: bool,
    /// Longest file name in bytes.
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
