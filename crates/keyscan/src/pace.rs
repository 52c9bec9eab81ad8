//! How many servers work for the scan at once. Many names may lead to one machine, and its answers
//! must not be late only because it is asked for all of them in the same moment.
//!
//! The window is the number of established connections above which no other is begun. It grows with
//! each key and shrinks with each answer that takes more than a quarter of the time limit. A
//! connection older than half of the time limit no longer counts, so that silent servers stop nobody. What
//! does not even connect never counts.

use std::collections::{HashSet, VecDeque};

/// The window of a scan that knows nothing yet.
const FIRST_WINDOW: usize = 64;
/// The largest window: the connections that a listening sshd keeps before it has accepted them. One
/// more would have to be asked for again, after a second.
const MOST_WINDOW: usize = 128;
/// The smallest window.
const LEAST_WINDOW: usize = 16;

/// The controller of the number of servers that work for the scan.
#[derive(Debug)]
pub(crate) struct Pace {
    window: usize,
    /// Largest window.
    most: usize,
    /// An answer that takes longer is late, milliseconds.
    late_ms: u64,
    /// A connection older than this does not count, milliseconds.
    old_ms: u64,
    /// Connections in the window.
    counted: HashSet<u64>,
    /// The times at which connections leave the window if they have not ended by then, ascending.
    leave_at: VecDeque<(u64, u64)>,
}

impl Pace {
    /// For a time limit of `timeout_ms` and at most `most` connections.
    pub(crate) fn new(timeout_ms: u64, most: usize) -> Self {
        let most = most.min(MOST_WINDOW);
        Self {
            window: FIRST_WINDOW.min(most),
            most,
            late_ms: timeout_ms / 4,
            old_ms: timeout_ms / 2,
            counted: HashSet::new(),
            leave_at: VecDeque::new(),
        }
    }

    /// Number of connections that may begin now.
    pub(crate) fn room(&mut self, now: u64) -> usize {
        while let Some((at, serial)) = self.leave_at.front().copied()
            && at <= now
        {
            self.leave_at.pop_front();
            self.counted.remove(&serial);
        }
        self.window.saturating_sub(self.counted.len())
    }

    /// A server has accepted a connection.
    pub(crate) fn established(&mut self, serial: u64, now: u64) {
        self.counted.insert(serial);
        self.leave_at.push_back((now + self.old_ms, serial));
    }

    /// A server has taken `took_ms` for an answer.
    pub(crate) fn answered(&mut self, took_ms: u64) {
        if took_ms > self.late_ms {
            self.window = (self.window - self.window / 8).max(LEAST_WINDOW.min(self.most));
        }
    }

    /// A connection has ended, with a key or without.
    pub(crate) fn ended(&mut self, serial: u64, with_key: bool) {
        self.counted.remove(&serial);
        if with_key {
            self.window = (self.window + 1).min(self.most);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silent_servers_leave_the_window() {
        let mut pace = Pace::new(1000, 2048);
        for serial in 0..64 {
            pace.established(serial, 10);
        }
        assert_eq!(pace.room(509), 0);
        assert_eq!(pace.room(510), 64);
        // The end of one that has left it changes nothing.
        pace.ended(3, false);
        assert_eq!(pace.room(510), 64);
    }

    #[test]
    fn the_window_follows_the_servers() {
        let mut pace = Pace::new(1000, 100);
        for serial in 0..1000 {
            pace.ended(serial, true);
        }
        assert_eq!(pace.room(0), 100);
        pace.answered(250);
        assert_eq!(pace.room(0), 100);
        pace.answered(251);
        assert_eq!(pace.room(0), 88);
        for _ in 0..100 {
            pace.answered(900);
        }
        assert_eq!(pace.room(0), LEAST_WINDOW);
        assert_eq!(Pace::new(1000, 8).room(0), 8);
    }
}
