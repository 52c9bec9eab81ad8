//! A server's channel, over which the handler serves a command, shell or subsystem.

use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use proto::Stream;

use crate::link::{ChannelCore, Happening, channel_data};
use crate::{Exit, Pty};

/// The standard streams of the client's command. Reading returns the bytes that the client sends,
/// and 0 bytes after its EOF; writing goes to the client's standard output, and [`Channel::stderr`]
/// to its standard error.
///
/// Writing waits while the client accepts no more. `&Channel` reads and writes, too, so that scoped
/// threads can do both at once.
pub struct Channel {
    core: Arc<ChannelCore>,
    pty: Option<Pty>,
    env: Vec<(String, String)>,
}

impl Channel {
    pub(super) fn new(core: ChannelCore, pty: Option<Pty>, env: Vec<(String, String)>) -> Self {
        Self {
            core: Arc::new(core),
            pty,
            env,
        }
    }

    /// The terminal that the client requested, if any.
    #[must_use]
    pub fn pty(&self) -> Option<&Pty> {
        self.pty.as_ref()
    }

    /// Environment variables that the client sent (RFC 4254 §6.4), at most 64, each with at most 4,096
    /// bytes of name and value together; others were refused. They are untrusted: use only those that you
    /// know.
    #[must_use]
    pub fn env(&self) -> &[(String, String)] {
        &self.env
    }

    /// A writer of the client's standard error.
    #[must_use]
    pub fn stderr(&self) -> StderrWriter {
        StderrWriter {
            core: Arc::clone(&self.core),
        }
    }

    /// Waits for the next change of the window's size, signal or break; `None` if the channel has
    /// ended or `timeout` is over; a `timeout` of `None` waits without limit. At most 64 unread ones are
    /// kept, the latest.
    #[must_use]
    pub fn next_happening(&self, timeout: Option<Duration>) -> Option<Happening> {
        self.core.state.next_happening(timeout)
    }

    pub(super) fn set_exit(&self, exit: Exit) {
        self.core.set_exit(exit);
    }
}

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Channel")
            .field("pty", &self.pty)
            .finish_non_exhaustive()
    }
}

channel_data!(Channel);

/// Writes to the client's standard error. The channel is closed after the handler has returned and
/// the last writer is dropped.
#[derive(Clone)]
pub struct StderrWriter {
    core: Arc<ChannelCore>,
}

impl fmt::Debug for StderrWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StderrWriter")
    }
}

impl Write for StderrWriter {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.core.write(Stream::Stderr, buf)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
