//! A client's channel: a command, shell or subsystem on the server, or a connection that the
//! server makes for us.

use std::fmt;
use std::io::{self, Read};
use std::sync::Arc;

use proto::Stream;
use proto::channel::Request;

use crate::link::{ChannelCore, channel_data};
use crate::{Error, Exit};

/// A channel, open until its last clone is dropped.
///
/// Reading gives what the command writes to its standard output, 0 bytes at its end; an
/// [`io::Error`] tells a connection that was cut from an end. [`Channel::stderr`] reads the
/// other stream. Both share one window: **a stream that nobody reads stops both** once it
/// has filled the window; read it, or call [`Channel::discard_stderr`].
///
/// Writing goes to the command's standard input. It waits while the server takes no more, and
/// returns when the bytes are on their way, not when they have arrived; there is nothing to
/// flush. Dropping a channel first sends what was written.
///
/// `&Channel` reads and writes, too, and clones stand for the same channel, so that one thread
/// can read while another writes.
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

    /// Throws standard error away, what has come and what will come.
    pub fn discard_stderr(&self) {
        if self.core.state.discard_stderr() {
            self.core.report();
        }
    }

    /// Ends the command's standard input; writing fails from now on.
    pub fn send_eof(&self) {
        self.core.send_eof();
    }

    /// Waits until the command has ended. Read its output before or meanwhile: a command whose
    /// output nobody takes may never end.
    ///
    /// # Errors
    /// Why the connection ended before the command did.
    pub fn wait(&self) -> Result<Exit, Error> {
        self.core.state.wait()
    }

    /// Ends standard input, reads both outputs to their end and waits for the command.
    ///
    /// # Errors
    /// [`Error::TooMuchOutput`] past `limit_bytes` in all, or why the connection ended.
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

    /// Tells the command that the window has another size (RFC 4254 §6.7).
    ///
    /// # Errors
    /// Why the connection has ended.
    pub fn window_change(&self, columns: u32, rows: u32) -> Result<(), Error> {
        self.core.tell(Request::WindowChange {
            columns,
            rows,
            width_px: 0,
            height_px: 0,
        })
    }

    /// Sends a signal by its name without `SIG` (RFC 4254 §6.9). Whether the server delivers
    /// it, it does not say.
    ///
    /// # Errors
    /// Why the connection has ended.
    pub fn signal(&self, name: &str) -> Result<(), Error> {
        self.core.tell(Request::Signal {
            name: name.to_owned(),
        })
    }

    /// Sends any other request and waits for the answer: true when it was granted.
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

/// Reads a command's standard error; keeps the channel open.
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

/// What a command left behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// How it ended.
    pub exit: Exit,
    /// All of its standard output.
    pub stdout: Vec<u8>,
    /// All of its standard error.
    pub stderr: Vec<u8>,
}
