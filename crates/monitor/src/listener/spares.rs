//! Monitors that wait for a connection (PreauthSpares): started while nothing else is to be done,
//! each for one connection, together with its auth process in its closed sandbox. What a login
//! then need not wait for is two programs being started.
//!
//! Invariants: a waiting monitor serves one connection and ends; it knows the configuration that it
//! was started with, so none outlives a reload; one that is gone costs its connection nothing.
//! There are never more than what MaxStartups leaves, and none where nobody has come for long.

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
/// How long no connection must have come before those that wait are let go: their memory is worth
/// more than the milliseconds that they save whoever comes next.
const IDLE_MS: u64 = 600_000;

/// See the module's head.
pub(super) struct Spares {
    wanted: usize,
    waiting: VecDeque<Spare>,
    /// Monotonic milliseconds before which none is started.
    not_before_ms: u64,
    /// When the last connection came, monotonic milliseconds.
    used_ms: u64,
    /// Those that waited were let go; the next connection changes that.
    rests: bool,
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
            used_ms: now_ms,
            rests: false,
        }
    }

    /// Hands a connection to a monitor that waits; gives that and the socket of its news. None when
    /// there is no such monitor: the connection is as it was.
    pub(super) fn give(
        &mut self,
        network: &OwnedFd,
        connection: &MonitorConnection,
        now_ms: u64,
    ) -> Option<(Child, OwnedFd)> {
        self.not_before_ms = self.not_before_ms.max(now_ms + QUIET_MS);
        self.used_ms = now_ms;
        self.rests = false;
        let frame = connection.encode_frame();
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
        (!self.rests && self.waiting.len() < self.wanted.min(room)).then_some(self.not_before_ms)
    }

    /// When those that wait have waited long enough; none when none waits.
    pub(super) fn rest_ms(&self) -> Option<u64> {
        (!self.waiting.is_empty()).then_some(self.used_ms.saturating_add(IDLE_MS))
    }

    /// Lets those go that have waited long enough. Without their socket they end, and are collected
    /// like any other.
    pub(super) fn rest(&mut self, now_ms: u64) {
        if self.rest_ms().is_some_and(|at| at <= now_ms) {
            self.waiting.clear();
            self.rests = true;
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What waits, and its end of the socket.
    fn spare() -> (Spare, OwnedFd) {
        let (socket, theirs) = sys::socket::stream_pair().unwrap();
        let mut command = sys::process::Command::new("/bin/true");
        command.arg("true").inherit_stdio();
        let child = command.spawn().unwrap();
        (Spare { child, socket }, theirs)
    }

    #[test]
    fn those_that_wait_go_when_nobody_comes_and_come_back_with_a_connection() {
        let mut spares = Spares::new(1, 1000);
        assert_eq!(spares.due_ms(10), Some(1000 + QUIET_MS));
        assert_eq!(spares.rest_ms(), None);
        let (waiting, theirs) = spare();
        spares.waiting.push_back(waiting);
        assert_eq!(spares.due_ms(10), None);
        assert_eq!(spares.rest_ms(), Some(1000 + IDLE_MS));
        spares.rest(999 + IDLE_MS);
        assert_eq!(spares.waiting.len(), 1);
        spares.rest(1000 + IDLE_MS);
        assert_eq!(sys::io::read(&theirs, &mut [0]).unwrap(), 0);
        assert_eq!((spares.due_ms(10), spares.rest_ms()), (None, None));

        let now_ms = 5000 + IDLE_MS;
        let network = sys::io::null().unwrap();
        let connection = |accepted_ms| MonitorConnection {
            accepted_ms,
            greeted: Some(vec![0; 16]),
        };
        let given = spares.give(&network, &connection(now_ms), now_ms);
        assert!(given.is_none());
        assert_eq!(spares.due_ms(10), Some(now_ms + QUIET_MS));
        // And serve the next.
        let (waiting, theirs) = spare();
        spares.waiting.push_back(waiting);
        let given = spares.give(&network, &connection(now_ms), now_ms + 1);
        assert!(given.is_some());
        assert!(sys::io::bytes_available(&theirs).unwrap() > 0);
        assert_eq!(spares.rest_ms(), None);
    }

    #[test]
    fn none_is_started_where_none_is_wanted_or_none_would_be_let_in() {
        assert_eq!(Spares::new(0, 0).due_ms(10), None);
        assert_eq!(Spares::new(3, 0).due_ms(0), None);
    }
}
