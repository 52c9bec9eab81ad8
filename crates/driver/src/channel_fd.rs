//! A descriptor attached to a channel's stream: its registration, its readiness, and the growth of
//! its pipe.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use sys::epoll::{Epoll, Interest};

use super::pipe::PipeGrowth;
use super::poller::{EventTarget, Poller, Registration};

/// State of a source or a sink after a turn.
pub(super) enum StreamOutcome {
    Waiting,
    Ended,
    Failed(io::Error),
}

/// A stream socket with a descriptor for each direction, because epoll watches a descriptor once.
#[derive(Debug)]
pub struct SocketPair {
    pub(crate) read: OwnedFd,
    pub(crate) write: OwnedFd,
}

impl SocketPair {
    /// Duplicates the socket's descriptor.
    ///
    /// # Errors
    /// That of dup.
    pub fn new(socket: OwnedFd) -> io::Result<Self> {
        Ok(Self {
            write: sys::io::dup(&socket)?,
            read: socket,
        })
    }
}

pub(super) struct ChannelFd {
    fd: OwnedFd,
    registration: Registration,
    ready: bool,
    growth: PipeGrowth,
}

impl ChannelFd {
    /// Makes `fd` non-blocking, if epoll supports it.
    pub(super) fn new(fd: OwnedFd, target: EventTarget, poller: &mut Poller) -> io::Result<Self> {
        let registration = poller.register(&fd, target)?;
        if registration.is_pollable() {
            sys::io::set_nonblocking(&fd, true)?;
        }
        Ok(Self {
            fd,
            registration,
            ready: true,
            growth: PipeGrowth::default(),
        })
    }

    /// Returns the descriptor, which stays non-blocking.
    pub(super) fn detach(self, poller: &mut Poller) -> OwnedFd {
        poller.forget(&self.fd, self.registration);
        self.fd
    }

    /// Returns true if a call may make progress.
    pub(super) fn is_ready(&self) -> bool {
        self.ready
    }

    pub(super) fn set_ready(&mut self) {
        self.ready = true;
    }

    /// Records that a call would block. A descriptor that epoll does not support stays ready.
    pub(super) fn would_block(&mut self) {
        self.ready = !self.registration.is_pollable();
    }

    /// Records that `count` bytes went through the descriptor.
    pub(super) fn count(&mut self, count: usize) {
        self.growth.count(&self.fd, count);
    }

    pub(super) fn set_interest(&mut self, epoll: &Epoll, interest: Interest) -> io::Result<()> {
        self.registration.set(epoll, &self.fd, interest)
    }
}

impl AsFd for ChannelFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
