//! Name lookups that do not block the loop: each has its own short-lived thread. Connections to one
//! name share a lookup, and its answer is kept for a while ([`NameCache`]).

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;

use sys::epoll::EventFd;
use sys::socket::Family;

use super::name_cache::{Name, NameCache, with_port};
use super::words;
use crate::Driver;

/// Maximum concurrent lookups; each costs a thread. Others wait.
const MAX_LOOKUPS: usize = 64;
/// Stack of a resolver thread, bytes: NSS modules are its only deep callees.
const STACK_BYTES: usize = 512 * 1024;

/// Addresses, or the resolver's words.
type Found = Result<Vec<SocketAddr>, String>;

/// The serial of a connection, and what was found for it.
pub(super) type LookupAnswer = (u64, Found);

/// A function that looks a name up.
type LookUp = fn(&str, Family) -> Found;

pub(super) struct Resolver {
    look_up: LookUp,
    started: Option<Started>,
    under_way: usize,
    /// Serial and port of the connections that wait for a name. At most one for each forwarded
    /// connection.
    waiting: BTreeMap<Name, Vec<(u64, u16)>>,
    /// Names of `waiting` whose lookup has not begun.
    queued: VecDeque<Name>,
    /// Answers that were not taken.
    answers: VecDeque<LookupAnswer>,
    cache: NameCache,
}

struct Started {
    wake: Arc<EventFd>,
    sender: mpsc::Sender<(Name, Found)>,
    receiver: mpsc::Receiver<(Name, Found)>,
}

impl Default for Resolver {
    fn default() -> Self {
        Self::new(|host, family| {
            let found = sys::socket::resolve(host, 0, family, false);
            let addresses = found.map(|found| found.addresses);
            addresses.map_err(|error| error.to_string())
        })
    }
}

impl Resolver {
    fn new(look_up: LookUp) -> Self {
        Self {
            look_up,
            started: None,
            under_way: 0,
            waiting: BTreeMap::new(),
            queued: VecDeque::new(),
            answers: VecDeque::new(),
            cache: NameCache::default(),
        }
    }

    /// Returns the addresses of `name` if they are known. Otherwise looks them up for the connection
    /// `serial`, or queues that if `MAX_LOOKUPS` are in progress; `token` reports answers.
    pub(super) fn look_up(
        &mut self,
        serial: u64,
        (name, port): (Name, u16),
        token: u64,
        driver: &mut Driver,
    ) -> io::Result<Option<Vec<SocketAddr>>> {
        if let Some(addresses) = self.cache.get(&name, port, driver.now()) {
            return Ok(Some(addresses));
        }
        if self.started.is_none() {
            let started = Started::new()?;
            driver.watch(started.wake.as_fd(), token, true, false)?;
            self.started = Some(started);
        }
        let waiting = self.waiting.entry(name.clone()).or_default();
        waiting.push((serial, port));
        if waiting.len() == 1 {
            self.queued.push_back(name);
            self.spawn();
        }
        Ok(None)
    }

    /// Starts the lookups that may be started.
    fn spawn(&mut self) {
        let Some(started) = &self.started else {
            return;
        };
        while self.under_way < MAX_LOOKUPS
            && let Some(name) = self.queued.pop_front()
        {
            self.under_way += 1;
            started.spawn(name, self.look_up);
        }
    }

    /// Returns a finished lookup.
    pub(super) fn next_answer(&mut self, now: proto::Millis) -> Option<LookupAnswer> {
        if let Some(answer) = self.answers.pop_front() {
            return Some(answer);
        }
        let started = self.started.as_ref()?;
        let _ = started.wake.drain();
        let (name, found) = started.receiver.try_recv().ok()?;
        self.under_way = self.under_way.saturating_sub(1);
        self.spawn();
        let waiting = self.waiting.remove(&name).unwrap_or_default();
        self.answers
            .extend(waiting.into_iter().map(|(serial, port)| {
                let found = found.as_ref().map_err(String::clone);
                (serial, found.map(|addresses| with_port(addresses, port)))
            }));
        if let Ok(addresses) = &found {
            self.cache.keep(name, addresses, now);
        }
        self.answers.pop_front()
    }

    /// Forgets the addresses of a name, since they did not answer.
    pub(super) fn forget(&mut self, name: &Name) {
        self.cache.forget(name);
    }
}

impl Started {
    fn new() -> io::Result<Self> {
        let (sender, receiver) = mpsc::channel();
        Ok(Self {
            wake: Arc::new(EventFd::new()?),
            sender,
            receiver,
        })
    }

    /// Starts a lookup. If there can be no thread, that is its answer.
    fn spawn(&self, name: Name, look_up: LookUp) {
        let (wake, sender) = (Arc::clone(&self.wake), self.sender.clone());
        let looked_up = name.clone();
        let begun = thread::Builder::new()
            .name("resolver".into())
            .stack_size(STACK_BYTES)
            .spawn(move || {
                let found = look_up(&looked_up.0, looked_up.1);
                // A failed send means that the process is ending.
                let _ = sender.send((looked_up, found));
                let _ = wake.signal();
            });
        if let Err(error) = begun {
            let _ = self.sender.send((name, Err(words(&error))));
            let _ = self.wake.signal();
        }
    }
}

#[cfg(test)]
#[path = "resolver_tests.rs"]
mod tests;
