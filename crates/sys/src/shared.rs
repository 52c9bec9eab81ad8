//! Memory shared by two processes: a memory file of fixed size, mapped in each.
//!
//! The other process may write any bytes at any time, so this type lends out no references: bytes
//! are copied in and out, and only copies are checked. The size is sealed before the file is passed
//! on; otherwise a process that shrinks it would kill the others.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

use rustix::fs::{MemfdFlags, SealFlags};

/// Memory shared with another process.
#[derive(Debug)]
pub struct SharedMemory {
    fd: OwnedFd,
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread.
unsafe impl Send for SharedMemory {}

fn size_seals() -> SealFlags {
    SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL
}

impl SharedMemory {
    /// Creates memory of `len` zero bytes (`name` shows in /proc only). The kernel allocates pages
    /// on first access.
    ///
    /// # Errors
    /// The kernel's error; `InvalidInput` if `len` is 0.
    pub fn new(name: &str, len: usize) -> io::Result<Self> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        // Older kernels reject the flag.
        let fd = rustix::fs::memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL)
            .or_else(|_| rustix::fs::memfd_create(name, flags))?;
        rustix::fs::ftruncate(&fd, len as u64)?;
        rustix::fs::fcntl_add_seals(&fd, size_seals())?;
        Self::map(fd, len)
    }

    /// Maps memory that the other process created with [`SharedMemory::new`].
    ///
    /// # Errors
    /// `InvalidData` if its size is not `len` or not sealed; else the kernel's error.
    pub fn from_fd(fd: OwnedFd, len: usize) -> io::Result<Self> {
        let sealed = rustix::fs::fcntl_get_seals(&fd)?.contains(size_seals());
        let size = rustix::fs::fstat(&fd)?.st_size;
        if !sealed || usize::try_from(size) != Ok(len) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "shared memory has an unexpected size or no sealed one",
            ));
        }
        Self::map(fd, len)
    }

    fn map(fd: OwnedFd, len: usize) -> io::Result<Self> {
        // SAFETY: a new mapping at an address chosen by the kernel affects no existing memory.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                fd.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Self { fd, start, len })
    }

    /// Copies `bytes` to `offset`.
    ///
    /// # Errors
    /// `InvalidInput` if the range exceeds the memory.
    pub fn write(&mut self, offset: usize, bytes: &[u8]) -> io::Result<()> {
        let to = self.at(offset, bytes.len())?;
        // SAFETY: the range lies in the mapping, and `bytes` does not overlap it, because no
        // reference to it is lent out. If the other process writes there too, the bytes are mixed.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        Ok(())
    }

    /// Appends `len` bytes from `offset` to `out`.
    ///
    /// # Errors
    /// `InvalidInput` if the range exceeds the memory.
    pub fn read_into(&self, offset: usize, len: usize, out: &mut Vec<u8>) -> io::Result<()> {
        let from = self.at(offset, len)?;
        out.reserve(len);
        // SAFETY: the range lies in the mapping; `reserve` made room for `len` more bytes, which
        // the copy initialises before the length includes them.
        unsafe {
            std::ptr::copy_nonoverlapping(from, out.as_mut_ptr().add(out.len()), len);
            out.set_len(out.len() + len);
        }
        Ok(())
    }

    fn at(&self, offset: usize, len: usize) -> io::Result<*mut u8> {
        if offset.checked_add(len).is_none_or(|end| end > self.len) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // SAFETY: `offset` is at most the mapping's length.
        Ok(unsafe { self.start.as_ptr().add(offset) })
    }

    /// Frees the allocated pages, for both processes; they read as zeros afterwards.
    pub fn discard(&self) {
        // SAFETY: the range is a mapping of this process, to which no reference exists.
        let _ = unsafe { libc::madvise(self.start.as_ptr().cast(), self.len, libc::MADV_REMOVE) };
    }
}

impl AsFd for SharedMemory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: a mapping of this process; no reference to it was lent out.
        let _ = unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_writes_the_other_reads_and_nothing_lies_outside() {
        let mut ours = SharedMemory::new("test", 100_000).unwrap();
        let theirs = SharedMemory::from_fd(crate::io::dup(&ours).unwrap(), 100_000).unwrap();
        ours.write(99_995, b"tail!").unwrap();
        let mut out = b"x".to_vec();
        theirs.read_into(99_995, 5, &mut out).unwrap();
        assert_eq!(out, b"xtail!");
        assert!(ours.write(99_996, b"tail!").is_err());
        assert!(theirs.read_into(usize::MAX, 2, &mut out).is_err());
        ours.discard();
        out.clear();
        theirs.read_into(99_995, 5, &mut out).unwrap();
        assert_eq!(out, [0; 5]);
    }

    #[test]
    fn the_size_is_fixed_for_both() {
        let ours = SharedMemory::new("test", 4096).unwrap();
        assert!(rustix::fs::ftruncate(&ours, 0).is_err());
        assert!(SharedMemory::from_fd(crate::io::dup(&ours).unwrap(), 8192).is_err());
        let open = rustix::fs::memfd_create("open", MemfdFlags::ALLOW_SEALING).unwrap();
        rustix::fs::ftruncate(&open, 4096).unwrap();
        assert!(SharedMemory::from_fd(open, 4096).is_err());
    }
}
