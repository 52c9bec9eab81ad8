//! The caller's end of a channel: the code that client and server channels share.

use std::io::{self, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use proto::channel::Request;
use proto::{ChannelId, Stream};

use super::{ChannelState, Command, Handle, Opened};
use crate::{Error, Exit};

/// Reading, writing and requests; closes the channel when dropped.
pub(crate) struct ChannelCore {
    handle: Arc<Handle>,
    id: ChannelId,
    serial: u64,
    pub(crate) state: Arc<ChannelState>,
    out: UnixStream,
    err: Option<UnixStream>,
    exit: Mutex<Exit>,
}

impl ChannelCore {
    pub(crate) fn new(opened: Opened, handle: Arc<Handle>) -> Self {
        Self {
            handle,
            id: opened.id,
            serial: opened.serial,
            state: opened.state,
            out: opened.out,
            err: opened.err,
            exit: Mutex::new(Exit::Unknown),
        }
    }

    pub(crate) fn read(&self, stream: Stream, buf: &mut [u8]) -> io::Result<usize> {
        let taken = self.state.read(stream, buf)?;
        if taken.report {
            self.report();
        }
        Ok(taken.bytes)
    }

    /// Wakes the connection's thread, so that it grants window for the bytes read.
    pub(crate) fn report(&self) {
        // A connection that has ended grants nothing; the next read reports that.
        let _ = self.handle.wake();
    }

    /// Writes to the channel. Waits while the socket pair is full, which it is while the peer's
    /// window is closed.
    pub(crate) fn write(&self, stream: Stream, buf: &[u8]) -> io::Result<usize> {
        let target = match stream {
            Stream::Data => Some(&self.out),
            Stream::Stderr => self.err.as_ref(),
        };
        let Some(mut target) = target else {
            return Err(Error::Misuse("a client has no stderr to write to").into());
        };
        target.write(buf).map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => {
                self.state.write_failure().into()
            }
            io::ErrorKind::WouldBlock => Error::TimedOut("writing to the channel").into(),
            _ => error,
        })
    }

    /// As [`ChannelCore::read`] without waiting; `WouldBlock` if there are no bytes yet.
    pub(crate) fn try_read(&self, stream: Stream, buf: &mut [u8]) -> io::Result<usize> {
        match self.state.try_read(stream, buf)? {
            Some(taken) => {
                if taken.report {
                    self.report();
                }
                Ok(taken.bytes)
            }
            None => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    /// Writes the bytes that fit now; `WouldBlock` if none do.
    pub(crate) fn try_write(&self, buf: &[u8]) -> io::Result<usize> {
        sys::socket::send_now(&self.out, buf).map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => {
                self.state.write_failure().into()
            }
            _ => error,
        })
    }

    /// A descriptor that is readable while [`ChannelCore::try_read`] has bytes or an end.
    pub(crate) fn read_readiness(&self) -> io::Result<BorrowedFd<'_>> {
        Ok(self.state.readiness()?.as_fd())
    }

    /// A descriptor that is writable while [`ChannelCore::try_write`] accepts bytes.
    pub(crate) fn write_readiness(&self) -> BorrowedFd<'_> {
        self.out.as_fd()
    }

    pub(crate) fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.out.set_write_timeout(timeout)?;
        match &self.err {
            Some(err) => err.set_write_timeout(timeout),
            None => Ok(()),
        }
    }

    /// Ends the outgoing streams; bytes written before are still sent.
    pub(crate) fn send_eof(&self) {
        for stream in [Some(&self.out), self.err.as_ref()].into_iter().flatten() {
            // Fails only if the other end has closed the stream, which has ended then.
            let _ = stream.shutdown(Shutdown::Write);
        }
    }

    /// Sends a request without `want reply`.
    pub(crate) fn tell(&self, request: Request) -> Result<(), Error> {
        self.handle.call(|done| Command::Tell {
            id: self.id,
            serial: self.serial,
            request,
            done,
        })
    }

    /// Sends a request and waits for the answer.
    pub(crate) fn ask(&self, request: Request) -> Result<bool, Error> {
        self.handle.call(|done| Command::Ask {
            id: self.id,
            serial: self.serial,
            request,
            done,
        })
    }

    /// Sets the exit that is sent to the peer when the channel is dropped.
    pub(crate) fn set_exit(&self, exit: Exit) {
        *self.exit.lock().unwrap_or_else(PoisonError::into_inner) = exit;
    }
}

impl Drop for ChannelCore {
    fn drop(&mut self) {
        self.send_eof();
        let exit = self.exit.get_mut().unwrap_or_else(PoisonError::into_inner);
        // If the connection has ended, its channels are gone.
        let _ = self.handle.send(Command::Release {
            id: self.id,
            serial: self.serial,
            exit: std::mem::replace(exit, Exit::Unknown),
        });
    }
}

/// Implements for a public channel type with a field `core: Arc<ChannelCore>`: timeouts, and `Read`
/// and `Write` for the type and for a reference to it. Coherence forbids one generic impl.
macro_rules! channel_data {
    ($channel:ty) => {
        impl $channel {
            /// Sets the time limit of each read; `None`, the default, waits without limit, and zero
            /// does not wait. A read that exceeds it fails with [`std::io::ErrorKind::TimedOut`], and may
            /// be repeated. The limit counts for everything that reads this channel.
            pub fn set_read_timeout(&self, timeout: Option<std::time::Duration>) {
                self.core.state.set_read_timeout(timeout);
            }

            /// Sets the time limit of each write; `None`, the default, waits without limit. A write
            /// that exceeds it fails with [`std::io::ErrorKind::TimedOut`], and has written nothing.
            /// The limit counts for everything that writes to this channel.
            ///
            /// # Errors
            /// [`std::io::ErrorKind::InvalidInput`] for a timeout of zero.
            pub fn set_write_timeout(
                &self,
                timeout: Option<std::time::Duration>,
            ) -> std::io::Result<()> {
                self.core.set_write_timeout(timeout)
            }

            /// Reads the bytes that have arrived, without waiting; 0 bytes at the end.
            ///
            /// # Errors
            /// [`std::io::ErrorKind::WouldBlock`] if none have arrived; otherwise why the
            /// connection ended.
            pub fn try_read(&self, buf: &mut [u8]) -> std::io::Result<usize> {
                self.core.try_read(proto::Stream::Data, buf)
            }

            /// Writes the bytes that the channel accepts now, without waiting, and returns their
            /// number.
            ///
            /// # Errors
            /// [`std::io::ErrorKind::WouldBlock`] if it accepts none; otherwise why the connection
            /// or the channel ended.
            pub fn try_write(&self, buf: &[u8]) -> std::io::Result<usize> {
                self.core.try_write(buf)
            }

            /// A descriptor for an event loop (`poll`, epoll, tokio's `AsyncFd`): readable while
            /// `try_read` has bytes or the end of the stream. Read from it through `try_read` only.
            ///
            /// # Errors
            /// The system's error, if it has no descriptors left; the first call makes one.
            pub fn read_readiness(&self) -> std::io::Result<std::os::fd::BorrowedFd<'_>> {
                self.core.read_readiness()
            }

            /// A descriptor for an event loop: writable while `try_write` accepts bytes. Write to
            /// it through `try_write` only.
            #[must_use]
            pub fn write_readiness(&self) -> std::os::fd::BorrowedFd<'_> {
                self.core.write_readiness()
            }
        }
        $crate::link::channel_data!(@streams $channel);
        $crate::link::channel_data!(@streams &$channel);
    };
    (@streams $stream:ty) => {
        impl std::io::Read for $stream {
            fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
                self.core.read(proto::Stream::Data, buf)
            }
        }

        impl std::io::Write for $stream {
            fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
                self.core.write(proto::Stream::Data, buf)
            }

            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
    };
}
pub(crate) use channel_data;
