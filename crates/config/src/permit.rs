//! Lists of permitted targets and listeners: PermitOpen, PermitListen, PermitRemoteOpen, and
//! `permitopen` and `permitlisten` of authorized_keys.
//!
//! An entry is for TCP, or for UDP if it begins with [`UDP_PREFIX`]: a list that names no UDP entry
//! permits no datagrams.

use wire::permissions::PermitTarget;

use crate::forward::UDP_PREFIX;
use crate::pattern;
use crate::units;

/// The protocol that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortKind {
    /// Connections.
    Tcp,
    /// Datagrams.
    Udp,
}

/// The value of a `Permit*` keyword. The default permits everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PermitList {
    entries: Vec<PermitEntry>,
}

/// A word of a [`PermitList`].
#[derive(Clone, Debug, PartialEq, Eq)]
struct PermitEntry {
    /// The word as the file spells it, which the dump shows.
    written: String,
    permits: Permits,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Permits {
    Everything,
    Nothing,
    Target(PermitTarget),
}

impl PermitList {
    /// The list of a single word: `any` permits everything; any other word, of which `none` is the
    /// proper one, nothing.
    pub(crate) fn of_word(word: &str) -> PermitList {
        let permits = match word {
            "any" => Permits::Everything,
            _ => Permits::Nothing,
        };
        let written = word.to_owned();
        PermitList {
            entries: vec![PermitEntry { written, permits }],
        }
    }

    /// Adds an entry `[udp/]host:port` with a port from 1 to 65535 or `*`; false if the word is not of
    /// the form.
    pub(crate) fn add(&mut self, word: String) -> bool {
        let Some(target) = target(&word) else {
            return false;
        };
        self.entries.push(PermitEntry {
            written: word,
            permits: Permits::Target(target),
        });
        true
    }

    /// The words, as the file spells them.
    pub(crate) fn words(&self) -> Vec<String> {
        let words = self.entries.iter().map(|entry| entry.written.clone());
        words.collect()
    }

    /// True if the list permits everything.
    pub fn is_any(&self) -> bool {
        let is_any = |entry: &PermitEntry| entry.permits == Permits::Everything;
        self.entries.is_empty() || self.entries.iter().any(is_any)
    }

    /// True if the list permits connections or datagrams to `host`, as it was requested, and `port`.
    /// Hosts are compared as text, case-sensitively as in OpenSSH: a name and its address need two
    /// entries.
    pub fn opens(&self, kind: PortKind, host: &str, port: u16) -> bool {
        self.is_any()
            || self
                .targets()
                .any(|target| opens_one(target, kind, host, port))
    }

    /// True if the list permits listening on `address`, as it was requested, and `port`. Entries may
    /// be patterns, compared without case.
    pub fn listens(&self, kind: PortKind, address: &str, port: u16) -> bool {
        self.is_any()
            || self
                .targets()
                .any(|target| listens_one(target, kind, address, port))
    }

    fn targets(&self) -> impl Iterator<Item = &PermitTarget> {
        self.entries
            .iter()
            .filter_map(|entry| match &entry.permits {
                Permits::Target(target) => Some(target),
                Permits::Everything | Permits::Nothing => None,
            })
    }
}

/// Reads `[udp/]host:port`, the host in brackets if it has colons.
fn target(word: &str) -> Option<PermitTarget> {
    let datagrams = word.strip_prefix(UDP_PREFIX);
    let (host, port) = units::split_host_port(datagrams.unwrap_or(word))?;
    let port = match port? {
        "*" => None,
        port => Some(units::parse_port(port)?),
    };
    Some(PermitTarget {
        is_udp: datagrams.is_some(),
        host: host.to_owned(),
        port,
    })
}

/// As [`PermitList::opens`], for the targets of a key's `permitopen`; an empty list permits
/// everything.
pub fn opens(list: &[PermitTarget], kind: PortKind, host: &str, port: u16) -> bool {
    list.is_empty()
        || list
            .iter()
            .any(|target| opens_one(target, kind, host, port))
}

/// As [`PermitList::listens`], for the entries of a key's `permitlisten`; an empty list permits
/// everything.
pub fn listens(list: &[PermitTarget], kind: PortKind, address: &str, port: u16) -> bool {
    list.is_empty()
        || list
            .iter()
            .any(|target| listens_one(target, kind, address, port))
}

fn opens_one(target: &PermitTarget, kind: PortKind, host: &str, port: u16) -> bool {
    is_for(target, kind, port) && (target.host == "*" || target.host == host)
}

fn listens_one(target: &PermitTarget, kind: PortKind, address: &str, port: u16) -> bool {
    is_for(target, kind, port) && pattern::matches(&address.to_ascii_lowercase(), &target.host)
}

fn is_for(target: &PermitTarget, kind: PortKind, port: u16) -> bool {
    target.is_udp == (kind == PortKind::Udp) && target.port.is_none_or(|own| own == port)
}

#[cfg(test)]
mod tests {
    use super::PortKind::{Tcp, Udp};
    use super::*;

    fn list(words: &[&str]) -> PermitList {
        let mut list = PermitList::default();
        for word in words {
            assert!(list.add((*word).to_owned()), "{word}");
        }
        list
    }

    fn targets(words: &[&str]) -> Vec<PermitTarget> {
        words.iter().map(|word| target(word).unwrap()).collect()
    }

    #[test]
    fn a_list_permits_what_it_names_and_no_list_everything() {
        assert!(PermitList::default().opens(Tcp, "db", 5432));
        assert!(PermitList::of_word("any").opens(Tcp, "db", 5432));
        assert!(!PermitList::of_word("none").opens(Tcp, "db", 5432));
        assert!(!PermitList::of_word("Any").opens(Tcp, "db", 5432));
        let some = list(&["db:5432", "[::1]:80", "*:22", "web:*"]);
        assert!(some.opens(Tcp, "db", 5432));
        assert!(!some.opens(Tcp, "DB", 5432));
        assert!(some.opens(Tcp, "::1", 80));
        assert!(some.opens(Tcp, "anything", 22));
        assert!(some.opens(Tcp, "web", 1));
        assert!(!some.opens(Tcp, "db", 5433));
        assert!(!some.opens(Tcp, "db.evil", 5432));
        assert!(!some.is_any());
        for bad in ["db", "db:99999", "db:0", "db:x", "::1", "db:"] {
            assert!(!PermitList::default().add(bad.to_owned()), "{bad}");
        }
    }

    #[test]
    fn listeners_match_patterns_without_case() {
        let some = list(&["localhost:8080", "10.*:*", "*:9000"]);
        assert!(some.listens(Tcp, "localhost", 8080));
        assert!(some.listens(Tcp, "LocalHost", 8080));
        assert!(!some.listens(Tcp, "", 8080));
        assert!(!some.listens(Tcp, "localhost", 8081));
        assert!(some.listens(Tcp, "10.1.2.3", 1));
        assert!(some.listens(Tcp, "", 9000));
        assert!(!PermitList::of_word("none").listens(Tcp, "", 9000));
        assert!(PermitList::of_word("any").listens(Tcp, "", 9000));
        assert!(!list(&["*:8080"]).listens(Tcp, "localhost", 0));
    }

    #[test]
    fn entries_are_for_connections_or_for_datagrams() {
        let tcp = list(&["db:5432", "*:22"]);
        let udp = list(&["udp/ns:53", "udp/[::1]:*"]);
        let both = list(&["ns:53", "udp/ns:53", "udp/*:123"]);
        assert!(!tcp.opens(Udp, "db", 5432) && !tcp.opens(Udp, "x", 22));
        assert!(udp.opens(Udp, "ns", 53) && udp.opens(Udp, "::1", 9));
        assert!(!udp.opens(Udp, "ns", 54));
        assert!(!udp.opens(Tcp, "ns", 53) && !udp.opens(Tcp, "udp/ns", 53));
        assert!(both.opens(Tcp, "ns", 53) && both.opens(Udp, "ns", 53));
        assert!(both.opens(Udp, "x", 123) && !both.opens(Tcp, "x", 123));
        assert!(PermitList::default().opens(Udp, "ns", 53));
        assert!(PermitList::of_word("any").opens(Udp, "ns", 53));
        assert!(!PermitList::of_word("none").opens(Udp, "ns", 53));
        let some = list(&["*:8080", "udp/local*:53"]);
        assert!(some.listens(Tcp, "localhost", 8080) && !some.listens(Udp, "localhost", 8080));
        assert!(some.listens(Udp, "localhost", 53) && !some.listens(Tcp, "localhost", 53));
        assert!(!some.listens(Tcp, "udp/localhost", 53));
    }

    #[test]
    fn the_targets_of_a_key_permit_as_a_list_does() {
        let some = targets(&["db:5432", "udp/ns:*"]);
        assert!(opens(&some, Tcp, "db", 5432) && !opens(&some, Tcp, "ns", 53));
        assert!(opens(&some, Udp, "ns", 53) && !opens(&some, Udp, "db", 5432));
        assert!(opens(&[], Tcp, "db", 1) && listens(&[], Udp, "", 1));
        let some = targets(&["Local*:80", "*:9000"]);
        assert!(!listens(&some, Tcp, "localhost", 80) && listens(&some, Tcp, "X", 9000));
    }
}
