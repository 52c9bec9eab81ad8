//! The local streams of a session, and the flags of the standard streams. The flags belong to open
//! files that the shell shares, so the driver's changes are undone at the end.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::plan::{Plan, What};

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
    /// Duplicates of the standard streams that the plan's channel uses. Others are not kept open: in
    /// the background (`-f`), a program that reads this one's output would wait for their end.
    ///
    /// # Errors
    /// Those of the system.
    pub fn standard(plan: &Plan) -> io::Result<Self> {
        if plan.what == What::Nothing {
            return Ok(Self::default());
        }
        let input = (!plan.stdin_null).then(|| sys::io::dup(sys::io::stdin()));
        Ok(Self {
            input: input.transpose()?,
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

impl StdioFlags {
    /// Remembers the current flags of the session's streams.
    #[must_use]
    pub fn remember(streams: &Streams) -> Self {
        let used = [&streams.input, &streams.output, &streams.errors];
        Self::of(used.into_iter().flatten().map(AsFd::as_fd))
    }

    /// Remembers the current flags of these descriptors.
    pub(crate) fn of<'a>(streams: impl Iterator<Item = BorrowedFd<'a>>) -> Self {
        let flags = |fd| Some((sys::io::dup(fd).ok()?, sys::io::is_nonblocking(fd).ok()?));
        Self {
            streams: streams.filter_map(flags).collect(),
        }
    }

    /// Makes the standard streams blocking until the guard is dropped, which restores the flags.
    #[must_use]
    pub fn blocking() -> Self {
        let streams = [sys::io::stdin(), sys::io::stdout(), sys::io::stderr()];
        let flags = Self::of(streams.into_iter());
        for fd in streams {
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
