//! An open file's content and what is known of it.

use std::io::{self, IoSlice};
use std::os::fd::AsFd;

use rustix::fs::{FallocateFlags, Mode, SeekFrom};
use rustix::io::Errno;

use super::info::{self, FileSystem, Info, Time};
use crate::ffi::retry;

/// What is known of it.
///
/// # Errors
/// The kernel's error.
pub fn info(fd: impl AsFd) -> io::Result<Info> {
    Ok(Info::from_stat(&rustix::fs::fstat(fd)?))
}

/// Reads at `offset`; 0 is the end of the file.
///
/// # Errors
/// The kernel's error.
pub fn read_at(fd: impl AsFd, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let fd = fd.as_fd();
    retry(|| rustix::io::pread(fd, &mut *buffer, offset))
}

/// Writes at `offset` what the file takes.
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
/// The kernel's error; how much was written before is not known.
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

/// Writes several pieces at `offset`, what the file takes of them.
///
/// # Errors
/// The kernel's error.
pub fn write_pieces_at(fd: impl AsFd, pieces: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
    let fd = fd.as_fd();
    let pieces = pieces.get(..crate::io::IOV_MAX).unwrap_or(pieces);
    retry(|| rustix::io::pwritev(fd, pieces, offset))
}

/// Cuts or extends it.
///
/// # Errors
/// The kernel's error.
pub fn set_len(fd: impl AsFd, len: u64) -> io::Result<()> {
    let fd = fd.as_fd();
    retry(|| rustix::fs::ftruncate(fd, len))
}

/// Sets mode bits.
///
/// # Errors
/// The kernel's error.
pub fn set_mode(fd: impl AsFd, mode: u32) -> io::Result<()> {
    let fd = fd.as_fd();
    retry(|| rustix::fs::fchmod(fd, Mode::from_raw_mode(mode & 0o7777)))
}

/// Sets user and group.
///
/// # Errors
/// The kernel's error.
pub fn set_owner(fd: impl AsFd, uid: u32, gid: u32) -> io::Result<()> {
    let fd = fd.as_fd();
    let uid = rustix::fs::Uid::from_raw(uid);
    let gid = rustix::fs::Gid::from_raw(gid);
    retry(|| rustix::fs::fchown(fd, Some(uid), Some(gid)))
}

/// Sets the times of access and modification.
///
/// # Errors
/// The kernel's error.
pub fn set_times(fd: impl AsFd, accessed: Time, modified: Time) -> io::Result<()> {
    let fd = fd.as_fd();
    let times = info::timestamps(accessed, modified);
    retry(|| rustix::fs::futimens(fd, &times))
}

/// What was written is on the disk.
///
/// # Errors
/// The kernel's error.
pub fn sync(fd: impl AsFd) -> io::Result<()> {
    let fd = fd.as_fd();
    retry(|| rustix::fs::fsync(fd))
}

/// The file system that it is on.
///
/// # Errors
/// The kernel's error.
pub fn file_system(fd: impl AsFd) -> io::Result<FileSystem> {
    Ok(FileSystem::from_statvfs(&rustix::fs::fstatvfs(fd)?))
}

/// Copies `len` bytes at most between two files within the kernel; gives the number, 0 at the
/// end of the source.
///
/// # Errors
/// `CrossesDevices`, `InvalidInput` or `Unsupported` where the kernel cannot, else its error.
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

/// The first byte at or behind `offset` that is not in a hole; none where only a hole is left.
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

/// The beginning of the first hole at or behind `offset`; the end of the file is one.
///
/// # Errors
/// The kernel's error.
pub fn next_hole(fd: impl AsFd, offset: u64) -> io::Result<u64> {
    Ok(rustix::fs::seek(fd, SeekFrom::Hole(offset))?)
}

/// What a file system does with room that is [set aside](set_aside) for what is not written yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeping {
    /// It notes extents: many gibibytes cost next to nothing, and writing into them costs less.
    Extents,
    /// It takes pages of memory: half of what writing costs is done then, and not later.
    Pages,
    /// Something else, or nobody knows.
    Other,
}

/// What the file's system does with room that is set aside.
///
/// # Errors
/// The kernel's error.
pub fn keeping(fd: impl AsFd) -> io::Result<Keeping> {
    // statfs(2); ext2 and ext3 have ext4's, and say that they cannot.
    const EXT4: u32 = 0xEF53;
    const XFS: u32 = 0x5846_5342;
    const TMPFS: u32 = 0x0102_1994;
    let kind = rustix::fs::fstatfs(fd)?.f_type;
    // Its width is the machine's.
    Ok(match u32::try_from(kind) {
        Ok(EXT4 | XFS) => Keeping::Extents,
        Ok(TMPFS) => Keeping::Pages,
        _ => Keeping::Other,
    })
}

/// Sets room aside for `len` bytes at `offset`, where nothing was written; the file's length stays,
/// and whoever reads it sees none of it. Cutting the file, to its own length too, gives it back.
///
/// # Errors
/// The kernel's error: `Unsupported` where the file system cannot, `StorageFull`.
pub fn set_aside(fd: impl AsFd, offset: u64, len: u64) -> io::Result<()> {
    let fd = fd.as_fd();
    retry(|| rustix::fs::fallocate(fd, FallocateFlags::KEEP_SIZE, offset, len))
}
