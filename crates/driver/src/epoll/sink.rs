//! A descriptor that takes a channel's bytes: written from the packets in which they came.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::os::fd::OwnedFd;

use bytes::{Buf, Bytes};
use sys::epoll::{Epoll, Interest};

use super::pipe::PipeGrowth;
use super::watch::Registration;

/// Pieces in one writev.
const MAX_SLICES: usize = 64;
/// Shorter pieces that have to wait are joined: each costs more to keep than to copy.
const CRUMB_BYTES: usize = 512;
/// Size of what they are joined to, bytes.
const JOINED_BYTES: usize = 16 * 1024;

pub(super) enum Outcome {
    Waiting,
    Ended,
    Failed(io::Error),
}

pub(super) struct Sink {
    fd: OwnedFd,
    registration: Registration,
    ready: bool,
    /// No more data will come.
    ended: bool,
    queue: VecDeque<Bytes>,
    /// Crumbs behind the queue, on their way to become a piece of it.
    crumbs: Vec<u8>,
    growth: PipeGrowth,
}

impl Sink {
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
            queue: VecDeque::new(),
            crumbs: Vec::new(),
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

    /// Bytes that it holds.
    pub(super) fn unwritten(&self) -> usize {
        self.queue.iter().map(Bytes::len).sum::<usize>() + self.crumbs.len()
    }

    pub(super) fn push(&mut self, data: Bytes) {
        if self.is_empty() || data.len() >= CRUMB_BYTES {
            self.sweep();
            self.queue.push_back(data);
            return;
        }
        if self.crumbs.len() + data.len() > JOINED_BYTES {
            self.sweep();
        }
        self.crumbs.extend_from_slice(&data);
    }

    fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.crumbs.is_empty()
    }

    /// Makes the crumbs a piece.
    fn sweep(&mut self) {
        if !self.crumbs.is_empty() {
            self.queue
                .push_back(Bytes::from(std::mem::take(&mut self.crumbs)));
        }
    }

    pub(super) fn end(&mut self) {
        self.ended = true;
    }

    pub(super) fn set_ready(&mut self) {
        self.ready = true;
    }

    /// Could be written without waiting.
    pub(super) fn is_ready(&self) -> bool {
        self.ready && !self.is_empty()
    }

    /// Writes what the descriptor takes; gives the number of bytes and what comes of it.
    pub(super) fn drain(&mut self) -> (usize, Outcome) {
        let mut written = 0;
        if self.ready {
            self.sweep();
        }
        while self.ready && !self.queue.is_empty() {
            let slices: Vec<IoSlice<'_>> = self
                .queue
                .iter()
                .take(MAX_SLICES)
                .map(|piece| IoSlice::new(piece))
                .collect();
            match sys::io::writev(&self.fd, &slices) {
                Ok(count) => {
                    written += count;
                    self.growth.count(&self.fd, count);
                    self.advance(count);
                }
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => {
                        self.ready = !self.registration.is_pollable();
                        break;
                    }
                    io::ErrorKind::Interrupted => {}
                    _ => return (written, Outcome::Failed(error)),
                },
            }
        }
        let outcome = if self.ended && self.is_empty() {
            Outcome::Ended
        } else {
            Outcome::Waiting
        };
        (written, outcome)
    }

    fn advance(&mut self, mut count: usize) {
        while count > 0 {
            let Some(first) = self.queue.front_mut() else {
                return;
            };
            if count < first.len() {
                first.advance(count);
                return;
            }
            count -= first.len();
            self.queue.pop_front();
        }
    }

    pub(super) fn update_interest(&mut self, epoll: &Epoll) -> io::Result<()> {
        let interest = Interest::when(false, !self.is_empty() && !self.ready);
        self.registration.set(epoll, &self.fd, interest)
    }
}
