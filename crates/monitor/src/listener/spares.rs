//! Monitors that wait for a connection (PreauthSpares): started while nothing else is to be done,
//! each for one connection, together with its auth process in its closed sandbox. What a login
//! then need not wait for is two programs being started.
//!
//! Invariants: a waiting monitor serves one connection and ends; it knows the configuration that it
//! was started with, so none outlives a reload; one that is gone costs its connection nothing.
//! There are never more than what MaxStartups leaves.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use privsep::{Message, MonitorConnection};
use sys::Pid;
use sys::process::Child;

use super::launch::Launch;

/// How long no connection must have come before the next monitor is started: what is started
/// beside a login slows it down by what it is to gain.
const QUIET_MS: u64 = 100;
/// How long none is started after one that waited has ended by itself.
const DISTRUST_MS: u64 = 10_000;

/// See the module's head.
pub(super) struct Spares {
    wanted: usize,
    waiting: VecDeque<Spare>,
    /// Monotonic milliseconds before which none is started.
    not_before_ms: u64,
}

struct Spare {
    child: Child,
    socket: OwnedFd,
}

impl Spares {
    /// None yet; `wanted` at most.
    pub(super) fn new(wanted: usize, now_ms: u64) -> Self {
        Self {
            wanted,
            waiting: VecDeque::new(),
            not_before_ms: now_ms + QUIET_MS,
        }
    }

    /// Hands a connection to a monitor that waits; gives that and the socket of its news. None when
    /// there is no such monitor: the connection is as it was.
    pub(super) fn give(&mut self, network: &OwnedFd, accepted_ms: u64) -> Option<(Child, OwnedFd)> {
        self.not_before_ms = self.not_before_ms.max(accepted_ms + QUIET_MS);
        let frame = MonitorConnection { accepted_ms }.encode_frame();
        while let Some(Spare { child, socket }) = self.waiting.pop_front() {
            let sent = sys::socket::send_with_fds(&socket, &frame, &[network.as_fd()]);
            if sent.is_ok_and(|count| count == frame.len()) {
                return Some((child, socket));
            }
            // It is gone, and will be collected like any other.
        }
        None
    }

    /// When another is to be started; none when there are enough. `room`: what MaxStartups leaves.
    pub(super) fn due_ms(&self, room: usize) -> Option<u64> {
        (self.waiting.len() < self.wanted.min(room)).then_some(self.not_before_ms)
    }

    /// Starts one.
    ///
    /// # Errors
    /// Why it could not be started; it is tried again later.
    pub(super) fn add(&mut self, launch: &Launch, now_ms: u64) -> io::Result<()> {
        match launch.start_ahead() {
            Ok((child, socket)) => {
                self.waiting.push_back(Spare { child, socket });
                Ok(())
            }
            Err(error) => {
                self.not_before_ms = now_ms + DISTRUST_MS;
                Err(error)
            }
        }
    }

    /// Whether the process that has ended was one that waited.
    pub(super) fn has_ended(&mut self, pid: Pid, now_ms: u64) -> bool {
        let before = self.waiting.len();
        self.waiting.retain(|spare| spare.child.pid() != pid);
        let ended = self.waiting.len() < before;
        if ended {
            self.not_before_ms = now_ms + DISTRUST_MS;
        }
        ended
    }
}
