//! Name lookups that do not block the loop: each has its own short-lived thread.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;

use sys::epoll::EventFd;
use sys::socket::Family;

use super::words;
use crate::Driver;

/// Maximum concurrent lookups; each costs a thread. Others wait.
const MAX_LOOKUPS: usize = 64;
/// Stack of a resolver thread, bytes: NSS modules are its only deep callees.
const STACK_BYTES: usize = 512 * 1024;

/// A host and port, and the family of the addresses.
type Lookup = (String, u16, Family);

/// The serial of a lookup, and its addresses or the resolver's words.
type LookupAnswer = (u64, Result<Vec<SocketAddr>, String>);

#[derive(Default)]
pub(super) struct Resolver {
    started: Option<Started>,
    under_way: usize,
    /// By the serials of their connections, at most one for each that exists; the oldest is first.
    waiting: BTreeMap<u64, Lookup>,
}

struct Started {
    wake: Arc<EventFd>,
    sender: mpsc::Sender<LookupAnswer>,
    receiver: mpsc::Receiver<LookupAnswer>,
}

impl Resolver {
    /// Starts a lookup, or queues it if `MAX_LOOKUPS` are in progress. `token` reports answers.
    pub(super) fn look_up(
        &mut self,
        serial: u64,
        lookup: Lookup,
        token: u64,
        driver: &mut Driver,
    ) -> io::Result<()> {
        if self.started.is_none() {
            let (sender, receiver) = mpsc::channel();
            let wake = Arc::new(EventFd::new()?);
            driver.watch(wake.as_fd(), token, true, false)?;
            self.started = Some(Started {
                wake,
                sender,
                receiver,
            });
        }
        self.begin(serial, lookup);
        Ok(())
    }

    fn begin(&mut self, serial: u64, lookup: Lookup) {
        if self.under_way >= MAX_LOOKUPS {
            self.waiting.insert(serial, lookup);
            return;
        }
        self.spawn(serial, lookup);
    }

    /// Drops a lookup that waits: its connection is gone.
    pub(super) fn forget(&mut self, serial: u64) {
        self.waiting.remove(&serial);
    }

    /// Starts a lookup. If there can be no thread, that is its answer.
    fn spawn(&mut self, serial: u64, (host, port, family): Lookup) {
        let Some(started) = &self.started else {
            return;
        };
        self.under_way += 1;
        let (wake, sender) = (Arc::clone(&started.wake), started.sender.clone());
        let begun = thread::Builder::new()
            .name("resolver".into())
            .stack_size(STACK_BYTES)
            .spawn(move || {
                let found = sys::socket::resolve(&host, port, family, false);
                let addresses = found.map(|found| found.addresses);
                // A failed send means that the process is ending.
                let _ = sender.send((serial, addresses.map_err(|error| error.to_string())));
                let _ = wake.signal();
            });
        if let Err(error) = begun {
            let _ = started.sender.send((serial, Err(words(&error))));
            let _ = started.wake.signal();
        }
    }

    /// Returns a finished lookup.
    pub(super) fn next_answer(&mut self) -> Option<LookupAnswer> {
        let started = self.started.as_ref()?;
        let _ = started.wake.drain();
        let answer = started.receiver.try_recv().ok()?;
        self.under_way = self.under_way.saturating_sub(1);
        if let Some((serial, lookup)) = self.waiting.pop_first() {
            self.spawn(serial, lookup);
        }
        Some(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Otherwise a peer that opens and gives up connections to dead names fills the memory, and every
    /// later lookup waits until theirs have ended.
    #[test]
    fn lookups_of_connections_that_are_gone_do_not_wait() {
        let mut resolver = Resolver {
            under_way: MAX_LOOKUPS,
            ..Resolver::default()
        };
        let lookup = |host: &str| (host.to_owned(), 1, Family::Any);
        (0..10).for_each(|serial| resolver.begin(serial, lookup("127.0.0.1")));
        (0..9).for_each(|serial| resolver.forget(serial));
        assert_eq!(resolver.waiting.len(), 1);
        let (sender, receiver) = mpsc::channel();
        sender.send((20, Ok(Vec::new()))).unwrap();
        resolver.started = Some(Started {
            wake: Arc::new(EventFd::new().unwrap()),
            sender,
            receiver,
        });
        assert_eq!(resolver.next_answer().map(|(serial, _)| serial), Some(20));
        let next = resolver.started.as_ref().unwrap().receiver.recv().unwrap();
        assert_eq!(next.0, 9);
    }
}
