//! Epoll with the meaning of its tokens, and the registration of one descriptor.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, RawFd};
use std::time::Duration;

use proto::{ChannelId, Stream};
use sys::epoll::{Epoll, Event, Events, Interest};

/// Maximum events returned by one call of epoll.
const MAX_READY: usize = 64;
/// Epoll token by which a worker wakes the loop.
pub(super) const LANES_TOKEN: u64 = 0;

pub(super) type StreamKey = (ChannelId, Stream);

/// Meaning of an epoll token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EventTarget {
    SocketRead,
    SocketWrite,
    Lanes,
    Source(StreamKey),
    Sink(StreamKey),
    Handler(ChannelId),
    Watch(RawFd),
}

pub(super) struct Poller {
    epoll: Epoll,
    events: Events,
    targets: BTreeMap<u64, EventTarget>,
    next_token: u64,
}

impl Poller {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            epoll: Epoll::new()?,
            events: Events::with_capacity(MAX_READY),
            targets: BTreeMap::from([(LANES_TOKEN, EventTarget::Lanes)]),
            next_token: LANES_TOKEN + 1,
        })
    }

    pub(super) fn epoll(&self) -> &Epoll {
        &self.epoll
    }

    /// Gives `fd` a token and determines whether epoll supports it; it refuses regular files
    /// (EPERM, epoll_ctl(2)).
    pub(super) fn register(
        &mut self,
        fd: impl AsFd,
        target: EventTarget,
    ) -> io::Result<Registration> {
        let token = self.next_token;
        let pollable = sys::io::is_pipe_or_socket(&fd) || self.accepts(fd, token)?;
        self.next_token += 1;
        self.targets.insert(token, target);
        Ok(Registration {
            token,
            interest: Interest::NONE,
            pollable,
        })
    }

    fn accepts(&self, fd: impl AsFd, token: u64) -> io::Result<bool> {
        match self.epoll.add(&fd, token, Interest::NONE) {
            Ok(()) => {
                self.epoll.remove(&fd)?;
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Ends a registration.
    pub(super) fn forget(&mut self, fd: impl AsFd, mut registration: Registration) {
        self.targets.remove(&registration.token);
        // Fails only for a closed descriptor, which epoll has removed by itself.
        let _ = registration.set(&self.epoll, fd, Interest::NONE);
    }

    pub(super) fn wait(&mut self, timeout: Option<Duration>) -> io::Result<usize> {
        self.epoll.wait(&mut self.events, timeout)
    }

    /// Events of the last [`Poller::wait`]; those of a token that was forgotten are left out.
    pub(super) fn events(&self) -> impl Iterator<Item = (EventTarget, Event)> + '_ {
        self.events
            .iter()
            .filter_map(|event| Some((*self.targets.get(&event.token)?, event)))
    }
}

/// A descriptor's registration in epoll. A descriptor without interest is not registered at all,
/// because epoll reports a hang-up regardless of interest, and the loop would spin while nobody
/// handles it.
pub(super) struct Registration {
    token: u64,
    interest: Interest,
    pollable: bool,
}

impl Registration {
    pub(super) fn is_pollable(&self) -> bool {
        self.pollable
    }

    pub(super) fn interest(&self) -> Interest {
        self.interest
    }

    pub(super) fn set(
        &mut self,
        epoll: &Epoll,
        fd: impl AsFd,
        interest: Interest,
    ) -> io::Result<()> {
        let before = std::mem::replace(&mut self.interest, interest);
        if !self.pollable || before == interest {
            return Ok(());
        }
        match (before, interest) {
            (_, Interest::NONE) => epoll.remove(fd),
            (Interest::NONE, _) => epoll.add(fd, self.token, interest),
            _ => epoll.modify(fd, self.token, interest),
        }
    }
}
