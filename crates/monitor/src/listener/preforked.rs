//! Pre-forked monitors that wait for a connection (PreauthSpares). The listener starts them while
//! it is idle, each for one connection, together with its auth process in its closed sandbox. A
//! login then saves the time of starting two programs.
//!
//! Invariants: a waiting monitor serves one connection and ends; it has the configuration that it
//! was started with, so none outlives a reload; if one has ended, its connection is served by a new
//! monitor. Their number never exceeds the free MaxStartups slots, and none waits after `IDLE_MS`
//! without a connection.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use privsep::{Message, MonitorConnection};
use sys::Pid;
use sys::process::Child;

use super::launch::Launch;

/// Time without a new connection before the next monitor is started: starting one during a login
/// slows that login by the time that it is to save.
const QUIET_MS: u64 = 100;
/// Time without a start after a waiting monitor has ended by itself or could not be started.
const DISTRUST_MS: u64 = 10_000;
/// Time without a new connection after which the waiting monitors are ended: their memory is worth
/// more than the milliseconds that they save the next client.
const IDLE_MS: u64 = 600_000;

/// The waiting monitors and the times that govern them.
pub(super) struct PreforkedMonitors {
    wanted: usize,
    waiting: VecDeque<PreforkedMonitor>,
    /// Monotonic milliseconds before which no monitor is started.
    not_before_ms: u64,
    /// Monotonic milliseconds of the last connection.
    used_ms: u64,
    /// True after the waiting monitors were ended for idleness, until the next connection.
    rests: bool,
}

struct PreforkedMonitor {
    child: Child,
    socket: OwnedFd,
}

impl PreforkedMonitors {
    /// No monitors yet; at most `wanted` later.
    pub(super) fn new(wanted: usize, now_ms: u64) -> Self {
        Self {
            wanted,
            waiting: VecDeque::new(),
            not_before_ms: now_ms + QUIET_MS,
            used_ms: now_ms,
            rests: false,
        }
    }

    /// Hands a connection to a waiting monitor. Returns the monitor and the socket of its news, or
    /// `None` if no monitor waits; the connection is then unchanged.
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
        while let Some(PreforkedMonitor { child, socket }) = self.waiting.pop_front() {
            let sent = sys::socket::send_with_fds(&socket, &frame, &[network.as_fd()]);
            if sent.is_ok_and(|count| count == frame.len()) {
                return Some((child, socket));
            }
            // This monitor has ended; the listener reaps it like any other child.
        }
        None
    }

    /// Monotonic milliseconds at which the next monitor is due; `None` if there are enough. `room`
    /// is the number of free MaxStartups slots.
    pub(super) fn due_ms(&self, room: usize) -> Option<u64> {
        (!self.rests && self.waiting.len() < self.wanted.min(room)).then_some(self.not_before_ms)
    }

    /// Monotonic milliseconds at which the waiting monitors are ended for idleness; `None` if none
    /// waits.
    pub(super) fn rest_ms(&self) -> Option<u64> {
        (!self.waiting.is_empty()).then_some(self.used_ms.saturating_add(IDLE_MS))
    }

    /// Ends the waiting monitors once they have been idle for `IDLE_MS`. Closing its socket ends a
    /// monitor; the listener reaps it like any other child.
    pub(super) fn rest(&mut self, now_ms: u64) {
        if self.rest_ms().is_some_and(|at| at <= now_ms) {
            self.waiting.clear();
            self.rests = true;
        }
    }

    /// Starts a monitor.
    ///
    /// # Errors
    /// The reason why the monitor could not be started; the next attempt is due after
    /// `DISTRUST_MS`.
    pub(super) fn add(&mut self, launch: &Launch, now_ms: u64) -> io::Result<()> {
        match launch.start_ahead() {
            Ok((child, socket)) => {
                self.waiting.push_back(PreforkedMonitor { child, socket });
                Ok(())
            }
            Err(error) => {
                self.not_before_ms = now_ms + DISTRUST_MS;
                Err(error)
            }
        }
    }

    /// Removes the ended process `pid`; returns true if it was a waiting monitor.
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

    /// A waiting process, and the other end of its socket.
    fn spare() -> (PreforkedMonitor, OwnedFd) {
        let (socket, theirs) = sys::socket::stream_pair().unwrap();
        let mut command = sys::process::ChildCommand::new("/bin/true");
        command.arg("true").inherit_stdio();
        let child = command.spawn().unwrap();
        (PreforkedMonitor { child, socket }, theirs)
    }

    #[test]
    fn those_that_wait_go_when_nobody_comes_and_come_back_with_a_connection() {
        let mut spares = PreforkedMonitors::new(1, 1000);
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
            client: None,
        };
        let given = spares.give(&network, &connection(now_ms), now_ms);
        assert!(given.is_none());
        assert_eq!(spares.due_ms(10), Some(now_ms + QUIET_MS));
        // A monitor started afterwards serves the next connection.
        let (waiting, theirs) = spare();
        spares.waiting.push_back(waiting);
        let given = spares.give(&network, &connection(now_ms), now_ms + 1);
        assert!(given.is_some());
        assert!(sys::io::bytes_available(&theirs).unwrap() > 0);
        assert_eq!(spares.rest_ms(), None);
    }

    #[test]
    fn none_is_started_where_none_is_wanted_or_none_would_be_let_in() {
        assert_eq!(PreforkedMonitors::new(0, 0).due_ms(10), None);
        assert_eq!(PreforkedMonitors::new(3, 0).due_ms(0), None);
    }
}
