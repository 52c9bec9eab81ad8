//! One outgoing connection of a forwarding: the addresses of its target are tried one after another,
//! the next one after [`NEXT_ATTEMPT_MS`] or at once if one fails; the first to answer wins
//! (RFC 8305).

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use proto::Millis;
use sys::socket::{ConnectFrom, Connecting};

use crate::Driver;

/// Delay before the next address is tried beside those that have not answered, milliseconds.
const NEXT_ATTEMPT_MS: Millis = 250;
/// Delay before a Unix socket is tried again whose queue of connections is full, milliseconds: nothing
/// reports that it has space.
const FULL_QUEUE_MS: Millis = 20;
/// Maximum attempts at a time.
const MAX_ATTEMPTS: usize = 4;

/// The state of the attempts.
pub(super) struct Dial {
    attempts: Vec<OwnedFd>,
    /// Addresses that were not tried, the next one last.
    others: Vec<SocketAddr>,
    /// The Unix socket whose queue is full.
    full: Option<PathBuf>,
    error: Option<io::Error>,
}

/// What an event led to.
pub(super) enum DialStep {
    /// An attempt is in progress. The delay after which another is to be made beside it, milliseconds;
    /// `None` if nothing is left to try.
    Waiting(Option<Millis>),
    Connected(OwnedFd),
    Failed(io::Error),
}

impl Dial {
    /// Starts with the first address. `token` reports progress; pass it to every call.
    pub(super) fn start(
        mut addresses: Vec<SocketAddr>,
        token: u64,
        driver: &mut Driver,
    ) -> (Self, DialStep) {
        addresses.reverse();
        let mut dial = Self {
            attempts: Vec::new(),
            others: addresses,
            full: None,
            error: None,
        };
        let step = dial.next(token, driver);
        (dial, step)
    }

    /// Connects to a Unix socket.
    pub(super) fn start_unix(path: &Path, token: u64, driver: &mut Driver) -> (Self, DialStep) {
        let mut dial = Self {
            attempts: Vec::new(),
            others: Vec::new(),
            full: Some(path.to_owned()),
            error: None,
        };
        let step = dial.next(token, driver);
        (dial, step)
    }

    /// Tries the next address, and others as long as attempts fail at once.
    pub(super) fn next(&mut self, token: u64, driver: &mut Driver) -> DialStep {
        if let Some(path) = self.full.take() {
            match sys::socket::connect_unix(&path) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.full = Some(path),
                started => {
                    if let Some(socket) = self.take(started, token, driver) {
                        return DialStep::Connected(socket);
                    }
                }
            }
        }
        let before = self.attempts.len();
        while self.attempts.len() == before && before < MAX_ATTEMPTS {
            let Some(address) = self.others.pop() else {
                break;
            };
            let started = sys::socket::connect_start(address, &ConnectFrom::default());
            if let Some(socket) = self.take(started, token, driver) {
                self.abandon(driver);
                return DialStep::Connected(socket);
            }
        }
        self.state()
    }

    /// Keeps an attempt that is in progress; returns the socket of one that is established.
    fn take(
        &mut self,
        started: io::Result<Connecting>,
        token: u64,
        driver: &mut Driver,
    ) -> Option<OwnedFd> {
        let watched = match started {
            Ok(Connecting::Done(socket)) => return Some(socket),
            Ok(Connecting::InProgress(socket)) => driver
                .watch(socket.as_fd(), token, false, true)
                .map(|()| socket),
            Err(error) => Err(error),
        };
        match watched {
            Ok(socket) => self.attempts.push(socket),
            Err(error) => self.error = Some(error),
        }
        None
    }

    fn state(&mut self) -> DialStep {
        if self.full.is_some() {
            return DialStep::Waiting(Some(FULL_QUEUE_MS));
        }
        if self.attempts.is_empty() {
            let error = self.error.take();
            let none = || io::Error::from(io::ErrorKind::AddrNotAvailable);
            return DialStep::Failed(error.unwrap_or_else(none));
        }
        DialStep::Waiting((!self.others.is_empty()).then_some(NEXT_ATTEMPT_MS))
    }

    /// An attempt is established or has failed.
    pub(super) fn ready(&mut self, token: u64, driver: &mut Driver) -> DialStep {
        for socket in std::mem::take(&mut self.attempts) {
            match sys::socket::connect_finish(&socket) {
                Ok(()) => {
                    driver.unwatch(socket.as_fd());
                    self.abandon(driver);
                    return DialStep::Connected(socket);
                }
                Err(error) if error.kind() == io::ErrorKind::NotConnected => {
                    self.attempts.push(socket);
                }
                Err(error) => {
                    driver.unwatch(socket.as_fd());
                    self.error = Some(error);
                }
            }
        }
        if self.attempts.is_empty() {
            return self.next(token, driver);
        }
        self.state()
    }

    /// Ends all attempts.
    pub(super) fn abandon(&mut self, driver: &mut Driver) {
        for socket in self.attempts.drain(..) {
            driver.unwatch(socket.as_fd());
        }
        self.others.clear();
        self.full = None;
    }
}
