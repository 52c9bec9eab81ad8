//! Races a host's addresses (Happy Eyeballs, RFC 8305 §4–§5): address families alternate, a new
//! attempt starts every 250 ms or as soon as one fails, and the first to connect wins.
//!
//! [`super`] resolves the names; this module only connects.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use sys::io::PollFd;
use sys::socket::{ConnectFrom, Connecting, connect_finish, connect_start};

use crate::log::debug1;

/// RFC 8305 §5: delay before the next attempt starts while one is in progress.
pub const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// The connection that won the race.
#[derive(Debug)]
pub struct Won {
    /// The socket: non-blocking, `TCP_NODELAY`.
    pub socket: OwnedFd,
    /// The connected address.
    pub address: SocketAddr,
}

/// The failed addresses with their errors, in the order in which they failed.
#[derive(Debug)]
pub struct AllFailed(pub Vec<(SocketAddr, io::Error)>);

/// Orders addresses so that the families alternate, starting with the family of the system's first
/// address (§4).
#[must_use]
pub fn interleave(addresses: &[SocketAddr]) -> Vec<SocketAddr> {
    let first_is_v6 = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let (mut turn, mut other): (VecDeque<_>, VecDeque<_>) = addresses
        .iter()
        .partition(|address| address.is_ipv6() == first_is_v6);
    let mut order = Vec::with_capacity(addresses.len());
    while let Some(next) = turn.pop_front() {
        order.push(next);
        if !other.is_empty() {
            std::mem::swap(&mut turn, &mut other);
        }
    }
    order
}

/// A race in progress.
#[derive(Debug)]
pub struct Race {
    from: ConnectFrom,
    deadline: Option<Instant>,
    waiting: VecDeque<SocketAddr>,
    running: Vec<(SocketAddr, OwnedFd)>,
    failed: Vec<(SocketAddr, io::Error)>,
    next_start: Instant,
    won: Option<Won>,
}

impl Race {
    /// Starts the first attempt. `timeout` limits the whole race.
    #[must_use]
    pub fn start(addresses: &[SocketAddr], from: &ConnectFrom, timeout: Option<Duration>) -> Self {
        let now = Instant::now();
        let mut race = Self {
            from: from.clone(),
            deadline: timeout.and_then(|length| now.checked_add(length)),
            waiting: interleave(addresses).into(),
            running: Vec::new(),
            failed: Vec::new(),
            next_start: now,
            won: None,
        };
        race.start_next(now);
        race
    }

    /// Starts the next attempt if an address is left and its delay is over; true if it did.
    fn start_next(&mut self, now: Instant) -> bool {
        if !self.running.is_empty() && now < self.next_start {
            return false;
        }
        let Some(address) = self.waiting.pop_front() else {
            return false;
        };
        debug1!("Connecting to {} port {}.", address.ip(), address.port());
        self.next_start = now + ATTEMPT_DELAY;
        match connect_start(address, &self.from) {
            Ok(Connecting::Done(socket)) => self.won = Some(Won { socket, address }),
            Ok(Connecting::InProgress(socket)) => self.running.push((address, socket)),
            Err(error) => self.failed.push((address, error)),
        }
        true
    }

    /// Waits for the first connection.
    ///
    /// # Errors
    /// [`AllFailed`] if every address failed or time ran out.
    pub fn run(mut self) -> Result<Won, AllFailed> {
        loop {
            if let Some(won) = self.won.take() {
                return Ok(won);
            }
            let now = Instant::now();
            if self.deadline.is_some_and(|deadline| now >= deadline) {
                let running = self.running.into_iter().map(|(address, _)| address);
                let expired = running.chain(self.waiting);
                let expired = expired.map(|address| (address, io::ErrorKind::TimedOut.into()));
                self.failed.extend(expired);
                return Err(AllFailed(self.failed));
            }
            if self.start_next(now) {
                continue;
            }
            if self.running.is_empty() {
                return Err(AllFailed(self.failed));
            }
            let wake = (!self.waiting.is_empty()).then_some(self.next_start);
            let until = match (wake, self.deadline) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            };
            // After a failed attempt the loop starts the next one at once.
            self.won = wait(&mut self.running, &mut self.failed, until);
        }
    }
}

/// Waits until an attempt ends, or until `until`; moves failed attempts to `failed`.
fn wait(
    running: &mut Vec<(SocketAddr, OwnedFd)>,
    failed: &mut Vec<(SocketAddr, io::Error)>,
    until: Option<Instant>,
) -> Option<Won> {
    let timeout = until.map(|at| at.saturating_duration_since(Instant::now()));
    let mut fds: Vec<PollFd<'_>> = running
        .iter()
        .map(|(_, socket)| PollFd::new(socket.as_fd(), false, true))
        .collect();
    let polled = sys::io::poll(&mut fds, timeout);
    let ready: Vec<bool> = fds.iter().map(PollFd::is_writable).collect();
    drop(fds);
    if let Err(error) = polled {
        failed.extend(
            running
                .drain(..)
                .map(|(address, _)| (address, io::Error::from(error.kind()))),
        );
        return None;
    }
    let mut still = Vec::with_capacity(running.len());
    let mut won = None;
    for ((address, socket), ready) in running.drain(..).zip(ready) {
        if !ready || won.is_some() {
            still.push((address, socket));
            continue;
        }
        match connect_finish(&socket) {
            Ok(()) => won = Some(Won { socket, address }),
            Err(error) => {
                debug1!(
                    "connect to address {} port {}: {error}",
                    address.ip(),
                    address.port()
                );
                failed.push((address, error));
            }
        }
    }
    *running = still;
    won
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn race(
        addresses: &[SocketAddr],
        from: &ConnectFrom,
        timeout: Option<Duration>,
    ) -> Result<Won, AllFailed> {
        Race::start(addresses, from, timeout).run()
    }

    fn addresses(list: &[&str]) -> Vec<SocketAddr> {
        list.iter().map(|text| text.parse().unwrap()).collect()
    }

    /// A loopback port without listener, at an address that no other test uses.
    fn closed_port() -> SocketAddr {
        TcpListener::bind("127.0.0.2:0")
            .unwrap()
            .local_addr()
            .unwrap()
    }

    #[test]
    fn families_take_turns_beginning_with_the_systems_choice() {
        let given = addresses(&["[::1]:1", "[::2]:1", "[::3]:1", "1.1.1.1:1", "1.1.1.2:1"]);
        let want = addresses(&["[::1]:1", "1.1.1.1:1", "[::2]:1", "1.1.1.2:1", "[::3]:1"]);
        assert_eq!(interleave(&given), want);
        let v4_first = addresses(&["1.1.1.1:1", "[::1]:1", "[::2]:1"]);
        assert_eq!(interleave(&v4_first), v4_first);
        assert_eq!(interleave(&[]), []);
    }

    #[test]
    fn a_refusal_hands_the_turn_to_the_next_address() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let good = listener.local_addr().unwrap();
        let won = race(&[closed_port(), good], &ConnectFrom::default(), None).unwrap();
        assert_eq!(won.address, good);
        assert_eq!(sys::socket::peer_address(&won.socket).unwrap(), good);
    }

    #[test]
    fn every_failure_is_named_when_all_fail() {
        let (one, two) = (closed_port(), closed_port());
        let AllFailed(reasons) = race(&[one, two], &ConnectFrom::default(), None).unwrap_err();
        let named: Vec<SocketAddr> = reasons.iter().map(|(address, _)| *address).collect();
        assert!(named.contains(&one) && named.contains(&two));
        assert!(
            reasons
                .iter()
                .all(|(_, error)| error.kind() == io::ErrorKind::ConnectionRefused)
        );
    }

    #[test]
    fn a_silent_address_does_not_hold_the_next_one_up() {
        // A listener that never accepts and whose queue is full drops further SYNs.
        let silent = sys::socket::listen("127.0.0.1:0".parse().unwrap(), 0, false, false).unwrap();
        let silent_address = sys::socket::local_address(&silent).unwrap();
        let mut fill = Vec::new();
        while let Ok(won) = race(
            &[silent_address],
            &ConnectFrom::default(),
            Some(Duration::from_millis(100)),
        ) {
            fill.push(won);
        }
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let good = listener.local_addr().unwrap();
        // The listener's queue may still have had space if a connection took longer than that.
        let won = loop {
            let won = race(&[silent_address, good], &ConnectFrom::default(), None).unwrap();
            if won.address == good {
                break won;
            }
            fill.push(won);
            assert!(fill.len() < 1000, "a queue without an end");
        };
        assert_eq!(sys::socket::peer_address(&won.socket).unwrap(), good);
    }
}
