//! The caller's own descriptors. Those that epoll does not support, regular files, are always
//! ready.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

use sys::epoll::Interest;

use super::notice::Notice;
use super::poller::{EventTarget, Poller, Registration};

/// A watched descriptor, with the caller's token.
struct WatchedFd {
    token: u64,
    registration: Registration,
}

impl WatchedFd {
    fn is_always_ready(&self) -> bool {
        !self.registration.is_pollable() && self.registration.interest() != Interest::NONE
    }
}

#[derive(Default)]
pub(super) struct Watches {
    by_fd: BTreeMap<RawFd, WatchedFd>,
    /// The descriptors that epoll does not support.
    files: BTreeSet<RawFd>,
}

impl Watches {
    pub(super) fn set(
        &mut self,
        fd: BorrowedFd<'_>,
        token: u64,
        interest: Interest,
        poller: &mut Poller,
    ) -> io::Result<()> {
        let raw = fd.as_raw_fd();
        if let Some(watch) = self.by_fd.get_mut(&raw) {
            watch.token = token;
            return watch.registration.set(poller.epoll(), fd, interest);
        }
        let mut registration = poller.register(fd, EventTarget::Watch(raw))?;
        registration.set(poller.epoll(), fd, interest)?;
        if !registration.is_pollable() {
            self.files.insert(raw);
        }
        self.by_fd.insert(
            raw,
            WatchedFd {
                token,
                registration,
            },
        );
        Ok(())
    }

    pub(super) fn remove(&mut self, fd: BorrowedFd<'_>, poller: &mut Poller) {
        self.files.remove(&fd.as_raw_fd());
        if let Some(watch) = self.by_fd.remove(&fd.as_raw_fd()) {
            poller.forget(fd, watch.registration);
        }
    }

    /// The caller's token of a watched descriptor.
    pub(super) fn token(&self, fd: RawFd) -> Option<u64> {
        Some(self.by_fd.get(&fd)?.token)
    }

    pub(super) fn any_always_ready(&self) -> bool {
        self.watched_files().next().is_some()
    }

    fn watched_files(&self) -> impl Iterator<Item = &WatchedFd> {
        let files = self.files.iter().filter_map(|fd| self.by_fd.get(fd));
        files.filter(|watch| watch.is_always_ready())
    }

    pub(super) fn always_ready(&self) -> impl Iterator<Item = Notice> + '_ {
        self.watched_files().map(|watch| Notice::Ready {
            token: watch.token,
            readable: watch.registration.interest().readable(),
            writable: watch.registration.interest().writable(),
        })
    }
}
