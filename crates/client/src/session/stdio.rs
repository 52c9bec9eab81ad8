//! The flags of our standard streams: they belong to open files that a shell shares, so what
//! the driver changes is put back.

use std::os::fd::BorrowedFd;

/// Remembers which standard streams were non-blocking and puts that back when dropped.
#[derive(Debug)]
pub struct StdioFlags {
    nonblocking: [Option<bool>; 3],
}

fn streams() -> [BorrowedFd<'static>; 3] {
    [sys::io::stdin(), sys::io::stdout(), sys::io::stderr()]
}

impl StdioFlags {
    /// Remembers the flags as they are.
    #[must_use]
    pub fn remember() -> Self {
        Self {
            nonblocking: streams().map(|fd| sys::io::is_nonblocking(fd).ok()),
        }
    }

    /// Makes the streams blocking until the guard is dropped, which puts back the flags.
    #[must_use]
    pub fn blocking() -> Self {
        let flags = Self::remember();
        for fd in streams() {
            let _ = sys::io::set_nonblocking(fd, false);
        }
        flags
    }
}

impl Drop for StdioFlags {
    fn drop(&mut self) {
        for (fd, nonblocking) in streams().into_iter().zip(self.nonblocking) {
            if let Some(nonblocking) = nonblocking {
                let _ = sys::io::set_nonblocking(fd, nonblocking);
            }
        }
    }
}
