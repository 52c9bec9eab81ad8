//! Addresses of names for forwarded connections. Connections to one name share a lookup, and its
//! answer is kept for a while ([`NameCache`]); the lookups themselves are [`sys::socket::Lookups`].

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;

use proto::Millis;
use sys::socket::{Lookup, Lookups};

use super::name_cache::{Name, NameCache, with_port};
use crate::Driver;

/// Addresses, or the resolver's words.
type Found = Result<Vec<SocketAddr>, String>;

/// The serial of a connection, and what was found for it.
pub(super) type ConnectionAnswer = (u64, Found);

/// The connections that wait for a name.
struct NameLookup {
    /// The number of the lookup.
    lookup: u64,
    /// Serial and port of each connection.
    connections: Vec<(u64, u16)>,
}

#[derive(Default)]
pub(super) struct Resolver {
    lookups: Option<Lookups>,
    /// The number of the newest lookup.
    newest: u64,
    /// The lookups in progress and those that wait, at most one for each connection.
    names: BTreeMap<Name, NameLookup>,
    /// Their names.
    by_lookup: BTreeMap<u64, Name>,
    /// Answers that were not taken.
    answers: VecDeque<ConnectionAnswer>,
    cache: NameCache,
}

impl Resolver {
    /// Returns the addresses of `name` if they are known. Otherwise looks them up for the connection
    /// `serial`, or queues that if too many lookups are in progress; `token` reports answers.
    ///
    /// # Errors
    /// The kernel's, before the first lookup.
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
        let lookups = match &mut self.lookups {
            Some(lookups) => lookups,
            none => {
                let lookups = Lookups::new()?;
                driver.watch(lookups.as_fd(), token, true, false)?;
                none.insert(lookups)
            }
        };
        if let Some(waiting) = self.names.get_mut(&name) {
            waiting.connections.push((serial, port));
            return Ok(None);
        }
        self.newest += 1;
        lookups.start(Lookup {
            serial: self.newest,
            host: name.0.clone(),
            port: 0,
            family: name.1,
        });
        self.by_lookup.insert(self.newest, name.clone());
        self.names.insert(
            name,
            NameLookup {
                lookup: self.newest,
                connections: vec![(serial, port)],
            },
        );
        Ok(None)
    }

    /// Returns an answer for a connection.
    pub(super) fn next_answer(&mut self, now: Millis) -> Option<ConnectionAnswer> {
        while self.answers.is_empty() {
            let (lookup, found) = self.lookups.as_mut()?.next_answer()?;
            // Others wait after an answer that nobody needs.
            let name = self.by_lookup.remove(&lookup);
            let Some((name, waiting)) = name.and_then(|name| self.names.remove_entry(&name)) else {
                continue;
            };
            for (serial, port) in waiting.connections {
                let found = found.as_ref().map_err(String::clone);
                let found = found.map(|addresses| with_port(addresses, port));
                self.answers.push_back((serial, found));
            }
            if let Ok(addresses) = &found {
                self.cache.keep(name, addresses, now);
            }
        }
        self.answers.pop_front()
    }

    /// Drops the lookup of a connection that is gone. Otherwise a peer that gives up connections to
    /// dead names fills the memory, and later lookups wait until theirs have ended.
    pub(super) fn cancel(&mut self, serial: u64) {
        let found = self
            .names
            .iter_mut()
            .find(|(_, waiting)| waiting.connections.iter().any(|(one, _)| *one == serial));
        let Some((name, waiting)) = found else {
            return;
        };
        waiting.connections.retain(|(one, _)| *one != serial);
        // A lookup in progress still has an answer, which is kept.
        if waiting.connections.is_empty()
            && let Some(lookups) = &mut self.lookups
            && lookups.forget(waiting.lookup)
        {
            self.by_lookup.remove(&waiting.lookup);
            let name = name.clone();
            self.names.remove(&name);
        }
    }

    /// Forgets the addresses of a name, since they did not answer.
    pub(super) fn forget(&mut self, name: &Name) {
        self.cache.forget(name);
    }
}

#[cfg(test)]
#[path = "resolver_tests.rs"]
mod tests;
