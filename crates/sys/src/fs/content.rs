//! Content and metadata of an open file.

use std::io::{self, IoSlice};
use std::os::fd::AsFd;

use rustix::fs::{FallocateFlags, Mode, SeekFrom};
use rustix::io::Errno;

use super::info::{self, FileSystem, Info, Time};
use crate::ffi::retry;

/// Metadata of the file.
///
/// # Errors
/// The kernel's error.
pub fn info(fd: impl AsFd) -> io::Result<Info> {
    Ok(Info::from_stat(&rustix::fs::fstat(fd)?))
}

/// Reads at `offset`; returns 0 at the end of the file.
///
/// # Errors
/// The kernel's error.
pub fn read_at(fd: impl AsFd, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let fd = fd.as_fd();
    retry(|| rustix::io::pread(fd, &mut *buffer, offset))
}

/// Writes at `offset` and returns the number of bytes written, which may be less than
/// `bytes.len()`.
///
/// # Errors
/// The kernel's error.
pub fn write_at(fd: impl AsFd, bytes: &[u8], offset: u64) -> io::Result<usize> {
    let fd = fd.as_fd();
    retry(|| rustix::io::pwrite(fd, bytes, offset))
}

/// Writes all of `bytes` at `offset`.
///
/// # Errors
/// The kernel's error; then it is unknown how many bytes were written.
pub fn write_all_at(fd: impl AsFd, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    let fd = fd.as_fd();
    while !bytes.is_empty() {
        let count = write_at(fd, bytes, offset)?;
        if count == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        bytes = bytes.get(count..).unwrap_or_default();
        offset = offset.saturating_add(count as u64);
    }
    Ok(())
}

/// Writes `pieces` at `offset`, at most [`crate::io::IOV_MAX`] of them; returns the number of bytes
/// written.
///
/// # Errors
/// The kernel's error.
pub fn write_pieces_at(fd: impl AsFd, pieces: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
    let fd = fd.as_fd();
    let pieces = pieces.get(..crate::io::IOV_MAX).unwrap_or(pieces);
    retry(|| rustix::io::pwritev(fd, pieces, offset))
}

/// Truncates or extends the file.
///
/// # Errors
/// The kernel's error.
pub fn set_len(fd: impl AsFd, len: u64) -> io::Result<()> {
    let fd = fd.as_fd();
    retry(|| rustix::fs::ftruncate(fd, len))
}

/// Sets the mode bits (`07777`).
///
/// # Errors
/// The kernel's error.
pub fn set_mode(fd: impl AsFd, mode: u32) -> io::Result<()> {
    let fd = fd.as_fd();
    retry(|| rustix::fs::fchmod(fd, Mode::from_raw_mode(mode & 0o7777)))
}

/// Sets owner and group.
///
/// # Errors
/// The kernel's error.
pub fn set_owner(fd: impl AsFd, uid: u32, gid: u32) -> io::Result<()> {
    let fd = fd.as_fd();
    let uid = rustix::fs::Uid::from_raw(uid);
    let gid = rustix::fs::Gid::from_raw(gid);
    retry(|| rustix::fs::fchown(fd, Some(uid), Some(gid)))
}

/// Sets access and modification time.
///
/// # Errors
/// The kernel's error.
pub fn set_times(fd: impl AsFd, accessed: Time, modified: Time) -> io::Result<()> {
    let fd = fd.as_fd();
    let times = info::timestamps(accessed, modified);
    retry(|| rustix::fs::futimens(fd, &times))
}

/// Waits until all written data and the metadata are on the disk (fsync(2)).
///
/// # Errors
/// The kernel's error.
pub fn sync(fd: impl AsFd) -> io::Result<()> {
    let fd = fd.as_fd();
    retry(|| rustix::fs::fsync(fd))
}

/// Statistics of the file system that holds the file.
///
/// # Errors
/// The kernel's error.
pub fn file_system(fd: impl AsFd) -> io::Result<FileSystem> {
    Ok(FileSystem::from_statvfs(&rustix::fs::fstatvfs(fd)?))
}

/// Copies at most `len` bytes between two files within the kernel; returns the number of bytes
/// copied, 0 at the end of the source.
///
/// # Errors
/// `CrossesDevices`, `InvalidInput` or `Unsupported` if the kernel cannot copy between these files,
/// else the kernel's error.
pub fn copy_range(
    from: impl AsFd,
    mut from_offset: u64,
    to: impl AsFd,
    mut to_offset: u64,
    len: usize,
) -> io::Result<usize> {
    let copied =
        rustix::fs::copy_file_range(from, Some(&mut from_offset), to, Some(&mut to_offset), len);
    Ok(copied?)
}

/// Offset of the first byte at or after `offset` that is not in a hole; `None` if only a hole is
/// left.
///
/// # Errors
/// The kernel's error.
pub fn next_data(fd: impl AsFd, offset: u64) -> io::Result<Option<u64>> {
    match rustix::fs::seek(fd, SeekFrom::Data(offset)) {
        Ok(at) => Ok(Some(at)),
        Err(Errno::NXIO) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Offset of the first hole at or after `offset`; the end of the file counts as a hole.
///
/// # Errors
/// The kernel's error.
pub fn next_hole(fd: impl AsFd, offset: u64) -> io::Result<u64> {
    Ok(rustix::fs::seek(fd, SeekFrom::Hole(offset))?)
}

/// How a file system implements [preallocation](set_aside).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeping {
    /// As unwritten extents: many gibibytes cost next to nothing, and later writes into them become
    /// cheaper.
    Extents,
    /// As pages of memory: half of the cost of writing is spent at preallocation instead of later.
    Pages,
    /// In another or an unknown way.
    Other,
}

/// Returns how the file's file system implements preallocation.
///
/// # Errors
/// The kernel's error.
pub fn keeping(fd: impl AsFd) -> io::Result<Keeping> {
    Ok(match magic(fd)? {
        Some(EXT4 | XFS) => Keeping::Extents,
        Some(TMPFS) => Keeping::Pages,
        _ => Keeping::Other,
    })
}

// From statfs(2); ext2 and ext3 have the same number as ext4, and fail preallocation with an
// error.
const EXT4: u32 = 0xEF53;
const XFS: u32 = 0x5846_5342;
const TMPFS: u32 = 0x0102_1994;
const BTRFS: u32 = 0x9123_683E;
const OVERLAY: u32 = 0x794C_7630;
const F2FS: u32 = 0xF2F5_2010;
const BCACHEFS: u32 = 0xCA45_1A4E;
const ZFS: u32 = 0x2FC1_2FC1;

fn magic(fd: impl AsFd) -> io::Result<Option<u32>> {
    // The width and the sign of `f_type` depend on the architecture.
    let kind = i128::from(rustix::fs::fstatfs(fd)?.f_type);
    Ok(u32::try_from(kind & 0xFFFF_FFFF).ok())
}

/// Returns true if the file lies on a local file system (disk or memory), where operations on a
/// file change its size and times immediately. Unknown file systems count as remote.
///
/// # Errors
/// The kernel's error.
pub fn is_local(fd: impl AsFd) -> io::Result<bool> {
    let known = [EXT4, XFS, TMPFS, BTRFS, OVERLAY, F2FS, BCACHEFS, ZFS];
    Ok(magic(fd)?.is_some_and(|magic| known.contains(&magic)))
}

/// Preallocates `len` bytes at `offset`, where the file has no data. The file's length does not
/// change, so readers see nothing of it. Truncating the file, also to its current length, frees the
/// preallocation.
///
/// # Errors
/// The kernel's error: `Unsupported` if the file system does not support preallocation,
/// `StorageFull`.
pub fn set_aside(fd: impl AsFd, offset: u64, len: u64) -> io::Result<()> {
    let fd = fd.as_fd();
    retry(|| rustix::fs::fallocate(fd, FallocateFlags::KEEP_SIZE, offset, len))
}
