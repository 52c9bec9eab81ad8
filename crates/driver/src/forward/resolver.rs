//! Name lookups that do not block the loop: each has its own short-lived thread.

use std::collections::VecDeque;
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

/// The serial of a connection, its host and port, and the family of the addresses.
type Lookup = (u64, String, u16, Family);

/// The serial of a lookup, and its addresses or the resolver's words.
type LookupAnswer = (u64, Result<Vec<SocketAddr>, String>);

#[derive(Default)]
pub(super) struct Resolver {
    started: Option<Started>,
    under_way: usize,
    /// At most one for each forwarded connection.
    waiting: VecDeque<Lookup>,
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
        if self.under_way >= MAX_LOOKUPS {
            self.waiting.push_back(lookup);
            return Ok(());
        }
        self.spawn(lookup);
        Ok(())
    }

    /// Starts a lookup. If there can be no thread, that is its answer.
    fn spawn(&mut self, (serial, host, port, family): Lookup) {
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
        if let Some(lookup) = self.waiting.pop_front() {
            self.spawn(lookup);
        }
        Some(answer)
    }
}
