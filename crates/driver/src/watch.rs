//! The caller's own descriptors, and those that epoll does not support: regular files, which are
//! always ready.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, RawFd};

use sys::epoll::{Epoll, Interest};

use super::Notice;

/// A descriptor's registration in epoll. A descriptor without interest is not registered at all,
/// because epoll reports a hang-up regardless of interest, and the loop would spin while nobody
/// handles it.
pub(super) struct Registration {
    pub(super) token: u64,
    interest: Interest,
    pollable: bool,
}

impl Registration {
    /// Determines whether epoll supports `fd`; it refuses regular files (EPERM, epoll_ctl(2)).
    pub(super) fn new(epoll: &Epoll, fd: impl AsFd, token: u64) -> io::Result<Self> {
        let pollable = sys::io::is_pipe_or_socket(&fd) || Self::is_taken(epoll, fd, token)?;
        Ok(Self {
            token,
            interest: Interest::NONE,
            pollable,
        })
    }

    fn is_taken(epoll: &Epoll, fd: impl AsFd, token: u64) -> io::Result<bool> {
        match epoll.add(&fd, token, Interest::NONE) {
            Ok(()) => {
                epoll.remove(&fd)?;
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub(super) fn is_pollable(&self) -> bool {
        self.pollable
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

/// A descriptor given to [`Driver::watch`](super::Driver::watch), with the caller's token.
pub(super) struct Registered {
    pub(super) token: u64,
    pub(super) registration: Registration,
}

impl Registered {
    fn is_always_ready(&self) -> bool {
        !self.registration.pollable && self.registration.interest != Interest::NONE
    }
}

#[derive(Default)]
pub(super) struct Watches(BTreeMap<RawFd, Registered>);

impl Watches {
    pub(super) fn get_mut(&mut self, fd: RawFd) -> Option<&mut Registered> {
        self.0.get_mut(&fd)
    }

    pub(super) fn insert(&mut self, fd: RawFd, registered: Registered) {
        self.0.insert(fd, registered);
    }

    pub(super) fn remove(&mut self, fd: RawFd) -> Option<Registered> {
        self.0.remove(&fd)
    }

    pub(super) fn any_always_ready(&self) -> bool {
        self.0.values().any(Registered::is_always_ready)
    }

    pub(super) fn always_ready(&self) -> impl Iterator<Item = Notice> + '_ {
        self.0
            .values()
            .filter(|watch| watch.is_always_ready())
            .map(|watch| Notice::Ready {
                token: watch.token,
                readable: watch.registration.interest.readable(),
                writable: watch.registration.interest.writable(),
            })
    }
}
