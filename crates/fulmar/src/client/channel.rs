//! A client's channel: a command, shell or subsystem on the server, or a TCP connection that the
//! server makes.

use std::fmt;
use std::io::{self, Read};
use std::sync::Arc;

use proto::Stream;
use proto::channel::Request;

use crate::link::{ChannelCore, channel_data};
use crate::{Error, Exit};

/// A channel, open until its last clone and its last [`Stderr`] are dropped.
///
/// Reading returns the bytes that the command writes to its standard output, and 0 bytes at its
/// end; if the connection breaks, it returns an [`io::Error`]. [`Channel::stderr`] reads the
/// standard error. Both streams share one window: **a stream that nobody reads stops both** once
/// its unread bytes fill the window; read it, or call [`Channel::discard_stderr`].
///
/// Writing sends bytes to the command's standard input. It waits while the server accepts no more,
/// and returns when the bytes are queued, not when they have arrived; there is nothing to flush.
/// Bytes written before the channel is dropped are still sent.
///
/// `&Channel` reads and writes, too, and clones use the same channel, so that one thread can read
/// while another writes.
#[derive(Clone)]
pub struct Channel {
    core: Arc<ChannelCore>,
}

impl Channel {
    pub(super) fn new(core: ChannelCore) -> Self {
        Self {
            core: Arc::new(core),
        }
    }

    /// A reader of the command's standard error.
    #[must_use]
    pub fn stderr(&self) -> Stderr {
        Stderr {
            core: Arc::clone(&self.core),
        }
    }

    /// Discards standard error, both the bytes received so far and all later ones.
    pub fn discard_stderr(&self) {
        if self.core.state.discard_stderr() {
            self.core.report();
        }
    }

    /// Ends the command's standard input (EOF, RFC 4254 §5.3), after the bytes written before; later
    /// writes fail.
    pub fn send_eof(&self) {
        self.core.send_eof();
    }

    /// Waits without limit until the command has ended, and returns its exit (RFC 4254 §6.10);
    /// [`Exit::Unknown`] for a channel that is no command. Read its output before or at the same time: a
    /// command whose output nobody reads may never end.
    ///
    /// # Errors
    /// The cause, if the connection ended before the command did.
    pub fn wait(&self) -> Result<Exit, Error> {
        self.core.state.wait()
    }

    /// Ends standard input, reads standard output and standard error to their ends and waits for
    /// the command.
    ///
    /// # Errors
    /// [`Error::TooMuchOutput`] if both streams together exceed `limit_bytes`; [`Error::TimedOut`] if no
    /// output arrives for the time of [`Channel::set_read_timeout`]; otherwise why the connection
    /// ended.
    pub fn output(self, limit_bytes: usize) -> Result<Output, Error> {
        self.send_eof();
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        loop {
            let (data, more, report) = self.core.state.read_both()?;
            if data.is_empty() && more.is_empty() {
                break;
            }
            if report {
                self.core.report();
            }
            for (pieces, all) in [(data, &mut stdout), (more, &mut stderr)] {
                for piece in pieces {
                    all.extend_from_slice(&piece);
                }
            }
            if stdout.len().saturating_add(stderr.len()) > limit_bytes {
                return Err(Error::TooMuchOutput { limit_bytes });
            }
        }
        Ok(Output {
            exit: self.wait()?,
            stdout,
            stderr,
        })
    }

    /// Reports a new size of the terminal window, in characters and rows, to the command (RFC 4254
    /// §6.7).
    ///
    /// # Errors
    /// [`Error::ChannelClosed`]; [`Error::TimedOut`] after 1,024 requests that the peer has not
    /// read; or why the connection has ended.
    pub fn window_change(&self, columns: u32, rows: u32) -> Result<(), Error> {
        self.core.tell(Request::WindowChange {
            columns,
            rows,
            width_px: 0,
            height_px: 0,
        })
    }

    /// Sends a signal by its name without `SIG`, such as `TERM` (RFC 4254 §6.9). The server does not
    /// report whether it delivers the signal.
    ///
    /// # Errors
    /// As [`Channel::window_change`].
    pub fn signal(&self, name: &str) -> Result<(), Error> {
        self.core.tell(Request::Signal {
            name: name.to_owned(),
        })
    }

    /// Sends any other channel request (RFC 4254 §5.4) and waits without limit for the answer; true if
    /// the server granted it. `fields` are the encoded fields (RFC 4251 §5) after `want reply`.
    ///
    /// # Errors
    /// [`Error::ChannelClosed`], or why the connection ended.
    pub fn request(&self, name: &str, fields: &[u8]) -> Result<bool, Error> {
        self.core.ask(Request::Unknown {
            name: name.to_owned(),
            fields: fields.to_vec(),
        })
    }
}

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Channel")
    }
}

channel_data!(Channel);

/// Reads a command's standard error (RFC 4254 §5.2), and returns 0 bytes at its end. Keeps the channel
/// open until it is dropped. [`Channel::set_read_timeout`] counts for it, too.
#[derive(Clone)]
pub struct Stderr {
    core: Arc<ChannelCore>,
}

impl fmt::Debug for Stderr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stderr")
    }
}

impl Read for Stderr {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.core.read(Stream::Stderr, buf)
    }
}

/// The output and exit of a command that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Output {
    /// How it ended.
    pub exit: Exit,
    /// All of its standard output.
    pub stdout: Vec<u8>,
    /// All of its standard error.
    pub stderr: Vec<u8>,
}
