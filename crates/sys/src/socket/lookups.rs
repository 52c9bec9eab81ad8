//! Name lookups beside an epoll loop: each has its own short-lived thread, and an eventfd reports
//! the answers.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;

use super::{Family, resolve};
use crate::epoll::EventFd;

/// Maximum concurrent lookups; each costs a thread. Others wait.
const MAX_LOOKUPS: usize = 64;
/// Stack of a lookup's thread, bytes: NSS modules are its only deep callees.
const STACK_BYTES: usize = 512 * 1024;

/// A name to look up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lookup {
    /// The caller's number, returned with the answer; of lookups that wait, the lowest goes first.
    pub serial: u64,
    /// A name or an address.
    pub host: String,
    /// The port of the answer's addresses.
    pub port: u16,
    /// The family of the answer's addresses.
    pub family: Family,
}

/// The serial of a lookup, and its addresses or the reason in the resolver's words.
pub type LookupAnswer = (u64, Result<Vec<SocketAddr>, String>);

/// A function that finds the addresses of a name.
type LookUp = fn(&Lookup) -> Result<Vec<SocketAddr>, String>;

/// Lookups in progress. Its descriptor is readable when [`Lookups::next_answer`] may have one.
#[derive(Debug)]
pub struct Lookups {
    look_up: LookUp,
    wake: Arc<EventFd>,
    sender: mpsc::Sender<LookupAnswer>,
    receiver: mpsc::Receiver<LookupAnswer>,
    under_way: usize,
    /// By their serials; bounded by the caller.
    waiting: BTreeMap<u64, Lookup>,
}

impl Lookups {
    /// Starts nothing yet.
    ///
    /// # Errors
    /// The kernel's error of an eventfd.
    pub fn new() -> io::Result<Self> {
        Self::with(|lookup| {
            let found = resolve(&lookup.host, lookup.port, lookup.family, false);
            let addresses = found.map(|found| found.addresses);
            addresses.map_err(|error| error.to_string())
        })
    }

    /// The same with a function in place of the system's resolver, for tests.
    ///
    /// # Errors
    /// The kernel's error of an eventfd.
    pub fn with(look_up: LookUp) -> io::Result<Self> {
        let (sender, receiver) = mpsc::channel();
        Ok(Self {
            look_up,
            wake: Arc::new(EventFd::new()?),
            sender,
            receiver,
            under_way: 0,
            waiting: BTreeMap::new(),
        })
    }

    /// Starts a lookup, or queues it if 64 are in progress. If there can be no thread, that is its
    /// answer.
    pub fn start(&mut self, lookup: Lookup) {
        if self.under_way >= MAX_LOOKUPS {
            self.waiting.insert(lookup.serial, lookup);
            return;
        }
        self.under_way += 1;
        let (wake, sender) = (Arc::clone(&self.wake), self.sender.clone());
        let (serial, look_up) = (lookup.serial, self.look_up);
        // Signals belong to the thread with the loop, which may have to remove files first.
        let blocked = crate::signals::Blocked::all().ok();
        let begun = thread::Builder::new()
            .name("resolver".into())
            .stack_size(STACK_BYTES)
            .spawn(move || {
                // A failed send means that the process is ending.
                let _ = sender.send((serial, look_up(&lookup)));
                let _ = wake.signal();
            });
        drop(blocked);
        if let Err(error) = begun {
            let why = escape::system_words(&error.to_string()).into_owned();
            let _ = self.sender.send((serial, Err(why)));
            let _ = self.wake.signal();
        }
    }

    /// Drops a lookup that waits, because nobody needs its answer; false if it does not wait.
    pub fn forget(&mut self, serial: u64) -> bool {
        self.waiting.remove(&serial).is_some()
    }

    /// Returns a finished lookup. To be called until it returns `None`.
    pub fn next_answer(&mut self) -> Option<LookupAnswer> {
        let _ = self.wake.drain();
        let answer = self.receiver.try_recv().ok()?;
        self.under_way = self.under_way.saturating_sub(1);
        if let Some((_, lookup)) = self.waiting.pop_first() {
            self.start(lookup);
        }
        Some(answer)
    }
}

impl AsFd for Lookups {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Otherwise the system may give it the signal that ends the process, whose files then stay.
    #[test]
    fn the_threads_take_no_signals() {
        let blocked = |_: &Lookup| {
            let status = std::fs::read_to_string("/proc/thread-self/status");
            let status = status.map_err(|error| error.to_string())?;
            let mask = status.lines().find_map(|line| line.strip_prefix("SigBlk:"));
            Err(mask.unwrap_or_default().trim().to_owned())
        };
        let mut lookups = Lookups::with(blocked).unwrap();
        lookups.start(Lookup {
            serial: 1,
            host: "h".into(),
            port: 0,
            family: Family::Any,
        });
        let (_, mask) = std::iter::repeat_with(|| {
            std::thread::yield_now();
            lookups.next_answer()
        })
        .flatten()
        .next()
        .unwrap();
        let mask = u64::from_str_radix(&mask.unwrap_err(), 16).unwrap();
        for signal in [libc::SIGTERM, libc::SIGHUP, libc::SIGINT] {
            assert_ne!(mask & (1 << (signal - 1)), 0, "{signal}: {mask:x}");
        }
    }

    /// Otherwise a peer that opens and gives up connections to dead names fills the memory, and every
    /// later lookup waits until theirs have ended.
    #[test]
    fn lookups_that_nobody_needs_do_not_wait() {
        let mut lookups = Lookups::new().unwrap();
        lookups.under_way = MAX_LOOKUPS;
        for serial in 0..10 {
            lookups.start(Lookup {
                serial,
                host: "127.0.0.1".into(),
                port: 1,
                family: Family::Any,
            });
        }
        assert!((0..9).all(|serial| lookups.forget(serial)));
        assert_eq!(lookups.waiting.len(), 1);
        lookups.sender.send((20, Ok(Vec::new()))).unwrap();
        assert_eq!(lookups.next_answer().map(|(serial, _)| serial), Some(20));
        assert_eq!(lookups.receiver.recv().unwrap().0, 9);
    }
}
