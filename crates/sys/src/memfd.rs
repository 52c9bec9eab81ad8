//! Sealed memory files, in which roles pass configuration to each other.
//!
//! A reader checks the seals before it reads, so that the sender cannot change or shrink the file
//! meanwhile (no torn reads, no SIGBUS).

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{MemfdFlags, SealFlags};

/// The seals that fix the file's size, its content and the set of seals.
fn required_seals() -> SealFlags {
    SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE | SealFlags::SEAL
}

/// Writes `bytes` to a new memory file (`name` shows in /proc only), seals it and returns it,
/// close-on-exec, with its position at the start.
///
/// # Errors
/// The kernel's error. `RLIMIT_FSIZE` applies to memory files too.
pub fn sealed(name: &str, bytes: &[u8]) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // Newer kernels expect a flag that the file will not be executed; older kernels reject it.
    let fd = rustix::fs::memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL)
        .or_else(|_| rustix::fs::memfd_create(name, flags))?;
    let mut rest = bytes;
    let mut offset = 0_u64;
    while !rest.is_empty() {
        let count = rustix::io::pwrite(&fd, rest, offset)?;
        if count == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        rest = rest.get(count..).unwrap_or_default();
        offset = offset.saturating_add(count as u64);
    }
    rustix::fs::fcntl_add_seals(&fd, required_seals())?;
    Ok(fd)
}

/// Reads a file that [`sealed`] made, from its start, independent of its position.
///
/// # Errors
/// `InvalidData` if a seal is missing or the file is longer than `max_len`; else the kernel's error
/// (`EINVAL` for a file that does not support seals).
pub fn read_sealed(fd: impl AsFd, max_len: usize) -> io::Result<Vec<u8>> {
    let fd = fd.as_fd();
    let seals = rustix::fs::fcntl_get_seals(fd)?;
    if !seals.contains(required_seals()) {
        return Err(invalid("memory file is not sealed"));
    }
    let len = usize::try_from(rustix::fs::fstat(fd)?.st_size)
        .map_err(|_| invalid("memory file has an invalid length"))?;
    if len > max_len {
        return Err(invalid("memory file is too long"));
    }
    let mut out = vec![0_u8; len];
    let mut filled = 0;
    while filled < len {
        let target = out.get_mut(filled..).unwrap_or_default();
        let count = rustix::io::pread(fd, target, filled as u64)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        filled += count;
    }
    Ok(out)
}

fn invalid(text: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sealed_bytes_come_back_and_cannot_change() {
        let bytes: Vec<u8> = (0..100_000_u32).map(|n| n.to_le_bytes()[0]).collect();
        let fd = sealed("test", &bytes).unwrap();
        assert_eq!(read_sealed(&fd, 100_000).unwrap(), bytes);
        assert!(rustix::io::pwrite(&fd, b"x", 0).is_err());
        assert!(rustix::fs::ftruncate(&fd, 1).is_err());
    }

    #[test]
    fn an_unsealed_or_too_long_file_is_refused() {
        let open = rustix::fs::memfd_create("open", MemfdFlags::ALLOW_SEALING).unwrap();
        assert!(read_sealed(&open, 10).is_err());
        let fd = sealed("test", b"12345").unwrap();
        assert!(read_sealed(&fd, 4).is_err());
        assert!(read_sealed(crate::io::null().unwrap(), 4).is_err());
    }
}
