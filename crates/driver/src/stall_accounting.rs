//! Accounts what a connection's loop waits for, only if requested.
//!
//! The loop's time consists of work, the network, the peer, and waits for a socket that cannot tell
//! network and peer apart; the rest is idle. For TCP the kernel reports how long the peer's receive
//! window was full; the remaining time with a full socket counts as the network's.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sys::socket::TcpInfo;

/// Maximum length of one wait for the socket or the window before it is accounted.
pub(super) const LOOK: Duration = Duration::from_millis(100);
/// Minimum time between two reads of the kernel's figures, microseconds.
const LOOK_US: u64 = 50_000;

/// Accounts of a connection's loop time, readable from other threads.
#[derive(Debug, Default)]
pub struct LoopTimes {
    work_us: AtomicU64,
    network_us: AtomicU64,
    peer_us: AtomicU64,
    socket_us: AtomicU64,
}

impl LoopTimes {
    /// Time spent working or waiting for workers.
    #[must_use]
    pub fn work(&self) -> Duration {
        read(&self.work_us)
    }

    /// Time spent waiting for the network to accept more.
    #[must_use]
    pub fn network(&self) -> Duration {
        read(&self.network_us)
    }

    /// Time spent waiting for the peer to accept more, because of a shut channel window or TCP
    /// window.
    #[must_use]
    pub fn peer(&self) -> Duration {
        read(&self.peer_us)
    }

    /// Time spent waiting for a socket or pipe that cannot tell network and peer apart.
    #[must_use]
    pub fn socket(&self) -> Duration {
        read(&self.socket_us)
    }
}

fn read(counter: &AtomicU64) -> Duration {
    Duration::from_micros(counter.load(Ordering::Relaxed))
}

fn add(counter: &AtomicU64, us: u64) {
    counter.fetch_add(us, Ordering::Relaxed);
}

/// Reason why the loop sleeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StallCause {
    /// Workers have unfinished batches.
    Workers,
    /// The socket is full.
    Socket,
    /// There is something to send, and the channel's window is shut.
    Window,
    /// There is nothing to do.
    Idle,
}

/// Updates [`LoopTimes`].
#[derive(Debug)]
pub(super) struct StallAccounting {
    times: Arc<LoopTimes>,
    /// Time at which the loop woke or went to sleep, microseconds.
    since_us: u64,
    asked_us: u64,
    /// Time with a full socket, and time with a shut window, since the kernel's figures were read.
    full_us: u64,
    shut_us: u64,
    /// The kernel's total receiver-limited time at that read, microseconds.
    limited_us: u64,
}

impl StallAccounting {
    pub(super) fn new(times: Arc<LoopTimes>, now_us: u64) -> Self {
        Self {
            times,
            since_us: now_us,
            asked_us: now_us,
            full_us: 0,
            shut_us: 0,
            limited_us: 0,
        }
    }

    pub(super) fn begins(&mut self, now_us: u64) {
        let worked = now_us.saturating_sub(self.since_us);
        add(&self.times.work_us, worked);
        self.since_us = now_us;
    }

    pub(super) fn ends(&mut self, why: StallCause, now_us: u64, socket: BorrowedFd<'_>) {
        let slept = now_us.saturating_sub(self.since_us);
        self.since_us = now_us;
        match why {
            StallCause::Workers => add(&self.times.work_us, slept),
            StallCause::Socket => self.full_us += slept,
            StallCause::Window => self.shut_us += slept,
            StallCause::Idle => {}
        }
        let waited = self.full_us + self.shut_us > 0;
        if waited && now_us.saturating_sub(self.asked_us) >= LOOK_US {
            self.asked_us = now_us;
            self.settle(sys::socket::tcp_info(socket).ok());
        }
    }

    /// Distributes the waiting time since the last read.
    fn settle(&mut self, info: Option<TcpInfo>) {
        let full = std::mem::take(&mut self.full_us);
        let shut = std::mem::take(&mut self.shut_us);
        let Some(info) = info else {
            add(&self.times.socket_us, full);
            add(&self.times.peer_us, shut);
            return;
        };
        let limited = info.receiver_limited_us.saturating_sub(self.limited_us);
        self.limited_us = info.receiver_limited_us;
        // If the socket still has unsent bytes while the window is shut, the network is the
        // bottleneck.
        let (outward, shut) = match info.notsent_bytes {
            0 => (full, shut),
            _ => (full + shut, 0),
        };
        let by_peer = outward.min(limited);
        add(&self.times.peer_us, by_peer + shut);
        add(&self.times.network_us, outward - by_peer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled(full_us: u64, shut_us: u64, info: Option<TcpInfo>) -> [u128; 3] {
        let times = Arc::new(LoopTimes::default());
        let mut waits = StallAccounting::new(Arc::clone(&times), 0);
        (waits.full_us, waits.shut_us, waits.limited_us) = (full_us, shut_us, 1_000_000);
        waits.settle(info);
        assert_eq!((waits.full_us, waits.shut_us), (0, 0));
        [times.network(), times.peer(), times.socket()].map(|time| time.as_micros())
    }

    #[test]
    fn the_kernel_tells_the_peer_from_the_network() {
        let info = |limited_us: u64, notsent_bytes| {
            Some(TcpInfo {
                receiver_limited_us: 1_000_000 + limited_us,
                notsent_bytes,
                ..TcpInfo::default()
            })
        };
        assert_eq!(settled(70, 0, info(0, 9)), [70, 0, 0]);
        assert_eq!(settled(70, 0, info(50, 9)), [20, 50, 0]);
        assert_eq!(settled(70, 0, info(900, 9)), [0, 70, 0]);
        // The window is shut, and the socket has no unsent bytes, or some.
        assert_eq!(settled(0, 70, info(0, 0)), [0, 70, 0]);
        assert_eq!(settled(0, 70, info(0, 9)), [70, 0, 0]);
        // A pipe has no such figures.
        assert_eq!(settled(70, 5, None), [0, 5, 70]);
    }

    #[test]
    fn work_is_what_is_no_wait_and_idle_counts_nowhere() {
        let times = Arc::new(LoopTimes::default());
        let (read, _write) = sys::io::pipe().unwrap();
        let read = std::os::fd::AsFd::as_fd(&read);
        let mut waits = StallAccounting::new(Arc::clone(&times), 1000);
        waits.begins(1500);
        waits.ends(StallCause::Idle, 9500, read);
        waits.begins(9600);
        waits.ends(StallCause::Workers, 9900, read);
        waits.begins(10_000);
        waits.ends(StallCause::Socket, 80_000, read);
        let us = |time: Duration| time.as_micros();
        assert_eq!((us(times.work()), us(times.socket())), (1000, 70_000));
        // Too early to read the kernel's figures again.
        waits.begins(80_000);
        waits.ends(StallCause::Window, 90_000, read);
        assert_eq!(us(times.peer()), 0);
        waits.begins(90_000);
        waits.ends(StallCause::Window, 190_000, read);
        assert_eq!(us(times.peer()), 110_000);
    }
}
