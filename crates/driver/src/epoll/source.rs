//! A descriptor whose bytes go out on a channel: read straight behind the headroom of the
//! packets that carry them.

use std::io;
use std::os::fd::OwnedFd;

use proto::{ChannelId, Connection, Stream};
use sys::epoll::{Epoll, Interest};

use super::DriverError;
use super::pipe::PipeGrowth;
use super::watch::Registration;

/// Packets from one source in one turn, so that several sources share a connection.
const MAX_PACKETS: usize = 16;
/// A read that brings less has emptied the descriptor, most likely: epoll will say if not, and a
/// keystroke costs one system call less. Below what a terminal gives at once.
const SHORT_READ_BYTES: usize = 1024;
/// Room for reads until one has filled it: a source that never has more to say takes no buffer for
/// bulk data, 64 KiB that are cleared first. What a small buffer of the pool holds.
const FIRST_READS_BYTES: usize = 1024;

pub(super) enum Outcome {
    Waiting,
    Ended,
    Failed(io::Error),
}

pub(super) struct Source {
    fd: OwnedFd,
    registration: Registration,
    ready: bool,
    has_space: bool,
    /// A read has filled [`FIRST_READS_BYTES`].
    has_bulk: bool,
    growth: PipeGrowth,
}

impl Source {
    pub(super) fn new(fd: OwnedFd, token: u64, epoll: &Epoll) -> io::Result<Self> {
        let registration = Registration::new(epoll, &fd, token)?;
        if registration.is_pollable() {
            sys::io::set_nonblocking(&fd, true)?;
        }
        Ok(Self {
            fd,
            registration,
            ready: true,
            has_space: false,
            has_bulk: false,
            growth: PipeGrowth::default(),
        })
    }

    /// The descriptor, which stays non-blocking, and its token.
    pub(super) fn into_parts(mut self, epoll: &Epoll) -> (OwnedFd, u64) {
        // Cannot fail for a descriptor that was registered and is open; if it did, the
        // descriptor would still be good.
        let _ = self.registration.set(epoll, &self.fd, Interest::NONE);
        let token = self.registration.token;
        (self.fd, token)
    }

    pub(super) fn set_ready(&mut self) {
        self.ready = true;
    }

    /// Asks the kernel whether it could be read without waiting; if so, that is done next.
    pub(super) fn look(&mut self) -> io::Result<bool> {
        let readable = sys::io::wait_readable(&self.fd, Some(std::time::Duration::ZERO))?;
        self.ready |= readable;
        Ok(readable)
    }

    /// Could be read without waiting.
    pub(super) fn is_ready(&self) -> bool {
        self.ready && self.has_space
    }

    /// Sends what can be read and sent now; says whether that was anything, and what comes of it.
    pub(super) fn fill(
        &mut self,
        connection: &mut Connection,
        channel: ChannelId,
        stream: Stream,
    ) -> Result<(bool, Outcome), DriverError> {
        let mut sent = false;
        for _ in 0..MAX_PACKETS {
            if !self.ready {
                break;
            }
            let space = connection.channel_send_space(channel);
            self.has_space = space > 0;
            if space == 0 {
                break;
            }
            let room = if self.has_bulk {
                space
            } else {
                space.min(FIRST_READS_BYTES)
            };
            let mut buf = connection.take_buffer(room);
            match buf.fill_with(room, |room| sys::io::read(&self.fd, room)) {
                Ok(0) => {
                    connection.recycle(buf);
                    return Ok((sent, Outcome::Ended));
                }
                Ok(count) => {
                    connection.channel_send(channel, stream, buf)?;
                    sent = true;
                    self.has_bulk |= count >= FIRST_READS_BYTES;
                    self.growth.count(&self.fd, count);
                    if count < SHORT_READ_BYTES.min(room) {
                        self.ready = !self.registration.is_pollable();
                        break;
                    }
                }
                Err(error) => {
                    connection.recycle(buf);
                    match error.kind() {
                        io::ErrorKind::WouldBlock => self.ready = !self.registration.is_pollable(),
                        io::ErrorKind::Interrupted => {}
                        _ => return Ok((sent, Outcome::Failed(error))),
                    }
                    break;
                }
            }
        }
        Ok((sent, Outcome::Waiting))
    }

    /// Asks for readability only while the peer takes what is read. Not only while our own queue
    /// does, which bulk beside it fills again before epoll is asked: it must be known by then
    /// that this source wants its turn.
    pub(super) fn update_interest(
        &mut self,
        epoll: &Epoll,
        has_space: bool,
        has_window: bool,
    ) -> io::Result<()> {
        self.has_space = has_space;
        let interest = Interest::when(has_window && !self.ready, false);
        self.registration.set(epoll, &self.fd, interest)
    }
}
