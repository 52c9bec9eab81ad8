//! The local streams of a session, and the flags of the standard streams. The flags belong to open
//! files that the shell shares, so the driver's changes are undone at the end.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

/// The local descriptors of a session, blocking or not: the driver makes them non-blocking.
#[derive(Debug, Default)]
pub struct Streams {
    /// Source of the remote command's input; without it the server gets EOF at once.
    pub input: Option<OwnedFd>,
    /// Destination of the command's output; without it the bytes are dropped.
    pub output: Option<OwnedFd>,
    /// Destination of the command's error output; without it the bytes are dropped.
    pub errors: Option<OwnedFd>,
}

impl Streams {
    /// Duplicates of the process's standard streams.
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

/// Remembers which standard streams were non-blocking and restores that when dropped, even if the
/// descriptors 0, 1 and 2 name other files by then.
#[derive(Debug)]
pub struct StdioFlags {
    streams: Vec<(OwnedFd, bool)>,
}

fn streams() -> [BorrowedFd<'static>; 3] {
    [sys::io::stdin(), sys::io::stdout(), sys::io::stderr()]
}

impl StdioFlags {
    /// Remembers the current flags.
    #[must_use]
    pub fn remember() -> Self {
        let flags = |fd| Some((sys::io::dup(fd).ok()?, sys::io::is_nonblocking(fd).ok()?));
        Self {
            streams: streams().into_iter().filter_map(flags).collect(),
        }
    }

    /// Makes the streams blocking until the guard is dropped, which restores the flags.
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
