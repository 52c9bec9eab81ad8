//! The local ends of a session, and the flags of our standard streams: these belong to open
//! files that a shell shares, so what the driver changes is put back.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

/// The local descriptors that a session is joined with. They may block or not: the driver
/// makes them non-blocking.
#[derive(Debug, Default)]
pub struct Streams {
    /// What is sent; without it the other side sees the end of its input at once.
    pub input: Option<OwnedFd>,
    /// What takes the command's output; without it the bytes are dropped.
    pub output: Option<OwnedFd>,
    /// What takes its errors.
    pub errors: Option<OwnedFd>,
}

impl Streams {
    /// Duplicates of our standard streams.
    ///
    /// # Errors
    /// Those of the system.
    pub fn standard() -> io::Result<Self> {
        Ok(Self {
            input: Some(sys::io::dup(sys::io::stdin())?),
            output: Some(sys::io::dup(sys::io::stdout())?),
            errors: Some(sys::io::dup(sys::io::stderr())?),
        })
    }
}

/// Remembers which standard streams were non-blocking and puts that back when dropped, also
/// when the descriptors 0, 1 and 2 name other files by then.
#[derive(Debug)]
pub struct StdioFlags {
    streams: Vec<(OwnedFd, bool)>,
}

fn streams() -> [BorrowedFd<'static>; 3] {
    [sys::io::stdin(), sys::io::stdout(), sys::io::stderr()]
}

impl StdioFlags {
    /// Remembers the flags as they are.
    #[must_use]
    pub fn remember() -> Self {
        let flags = |fd| Some((sys::io::dup(fd).ok()?, sys::io::is_nonblocking(fd).ok()?));
        Self {
            streams: streams().into_iter().filter_map(flags).collect(),
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
        for (fd, nonblocking) in &self.streams {
            let _ = sys::io::set_nonblocking(fd, *nonblocking);
        }
    }
}
