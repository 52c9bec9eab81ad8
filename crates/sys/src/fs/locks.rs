//! Locks of ranges of bytes that belong to an open file (fcntl(2), "Open file description locks"):
//! they go with its last descriptor, and hold nobody back who does not ask for them. They may lie far
//! behind the file's end.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Locks `len` bytes from `begin` on for this open file alone; false where another has one of them.
/// What it holds already stays. The file must be open for writing.
///
/// # Errors
/// The kernel's error, where the file system has no locks.
pub fn lock(fd: impl AsFd, begin: u64, len: u64) -> io::Result<bool> {
    let mut range = range(libc::F_WRLCK, begin, len)?;
    match control(fd, libc::F_OFD_SETLK, &mut range) {
        Ok(()) => Ok(true),
        Err(error) => match error.raw_os_error() {
            Some(libc::EAGAIN | libc::EACCES) => Ok(false),
            _ => Err(error),
        },
    }
}

/// Gives up what this open file holds of these bytes.
///
/// # Errors
/// The kernel's error.
pub fn unlock(fd: impl AsFd, begin: u64, len: u64) -> io::Result<()> {
    let mut range = range(libc::F_UNLCK, begin, len)?;
    control(fd, libc::F_OFD_SETLK, &mut range)
}

/// Begin and length of a lock that another open file has on some of these bytes.
///
/// # Errors
/// The kernel's error.
pub fn others(fd: impl AsFd, begin: u64, len: u64) -> io::Result<Option<(u64, u64)>> {
    let mut range = range(libc::F_WRLCK, begin, len)?;
    control(fd, libc::F_OFD_GETLK, &mut range)?;
    let is_free = i32::from(range.l_type) == libc::F_UNLCK;
    let unsigned = |offset: libc::off_t| u64::try_from(offset).unwrap_or(0);
    Ok((!is_free).then(|| (unsigned(range.l_start), unsigned(range.l_len))))
}

fn range(kind: libc::c_int, begin: u64, len: u64) -> io::Result<libc::flock> {
    let offset = |bytes: u64| {
        libc::off_t::try_from(bytes).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))
    };
    // SAFETY: flock is a plain C struct: all zeroes is valid.
    let mut range: libc::flock = unsafe { std::mem::zeroed() };
    range.l_type = libc::c_short::try_from(kind).unwrap_or_default();
    range.l_whence = libc::c_short::try_from(libc::SEEK_SET).unwrap_or_default();
    (range.l_start, range.l_len) = (offset(begin)?, offset(len)?);
    Ok(range)
}

fn control(fd: impl AsFd, command: libc::c_int, range: &mut libc::flock) -> io::Result<()> {
    let fd = fd.as_fd();
    // SAFETY: an open descriptor, and a live local that these commands read and write.
    let done = unsafe { libc::fcntl(fd.as_raw_fd(), command, std::ptr::from_mut(range)) };
    crate::ffi::check(done).map(drop)
}
