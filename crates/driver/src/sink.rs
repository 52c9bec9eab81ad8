//! A descriptor that receives a channel's data, written directly from the slabs of the received
//! packets.

use std::io::{self, IoSlice};
use std::os::fd::OwnedFd;

use bytes::Bytes;
use sys::epoll::{Epoll, Interest};

use super::pipe::PipeGrowth;
use super::watch::Registration;
use crate::ChunkQueue;

/// Maximum chunks in one writev.
const MAX_SLICES: usize = 64;

pub(super) enum SinkOutcome {
    Waiting,
    Ended,
    Failed(io::Error),
}

pub(super) struct ChannelSink {
    fd: OwnedFd,
    registration: Registration,
    ready: bool,
    /// The peer sends no more data.
    ended: bool,
    /// The descriptor is a socket whose sending direction ends with the data.
    shuts_down: bool,
    queue: ChunkQueue,
    growth: PipeGrowth,
}

impl ChannelSink {
    pub(super) fn new(fd: OwnedFd, token: u64, epoll: &Epoll) -> io::Result<Self> {
        let registration = Registration::new(epoll, &fd, token)?;
        if registration.is_pollable() {
            sys::io::set_nonblocking(&fd, true)?;
        }
        Ok(Self {
            fd,
            registration,
            ready: true,
            ended: false,
            shuts_down: false,
            queue: ChunkQueue::default(),
            growth: PipeGrowth::default(),
        })
    }

    /// Shuts the socket's sending direction down after the last byte.
    pub(super) fn shutting_down(mut self) -> Self {
        self.shuts_down = true;
        self
    }

    /// Returns the descriptor, which stays non-blocking, and its token.
    pub(super) fn into_parts(mut self, epoll: &Epoll) -> (OwnedFd, u64) {
        // Cannot fail for an open, registered descriptor; the descriptor would be usable even then.
        let _ = self.registration.set(epoll, &self.fd, Interest::NONE);
        let token = self.registration.token;
        (self.fd, token)
    }

    /// Queued bytes.
    pub(super) fn unwritten(&self) -> usize {
        self.queue.len()
    }

    pub(super) fn push(&mut self, data: Bytes) {
        self.queue.push(data);
    }

    pub(super) fn end(&mut self) {
        self.ended = true;
    }

    pub(super) fn set_ready(&mut self) {
        self.ready = true;
    }

    /// Returns true if a write may make progress.
    pub(super) fn is_ready(&self) -> bool {
        self.ready && !self.queue.is_empty()
    }

    /// Writes as much as the descriptor accepts; returns the number of bytes and the state.
    pub(super) fn drain(&mut self) -> (usize, SinkOutcome) {
        let mut written = 0;
        while self.ready && !self.queue.is_empty() {
            let mut slices = [IoSlice::new(&[]); MAX_SLICES];
            let count = self.queue.slices(&mut slices);
            match sys::io::writev(&self.fd, &slices[..count]) {
                Ok(count) => {
                    written += count;
                    self.growth.count(&self.fd, count);
                    self.queue.advance(count);
                }
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => {
                        self.ready = !self.registration.is_pollable();
                        break;
                    }
                    io::ErrorKind::Interrupted => {}
                    _ => return (written, SinkOutcome::Failed(error)),
                },
            }
        }
        let outcome = if self.ended && self.queue.is_empty() {
            if self.shuts_down {
                // Fails if the connection has ended by itself.
                let _ = sys::socket::shutdown(&self.fd, sys::socket::ShutdownDirection::Write);
            }
            SinkOutcome::Ended
        } else {
            SinkOutcome::Waiting
        };
        (written, outcome)
    }

    pub(super) fn update_interest(&mut self, epoll: &Epoll) -> io::Result<()> {
        let interest = Interest::when(false, !self.queue.is_empty() && !self.ready);
        self.registration.set(epoll, &self.fd, interest)
    }
}
