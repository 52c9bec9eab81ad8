//! Lists of permitted targets and listeners: PermitOpen, PermitListen, PermitRemoteOpen, and
//! `permitopen` and `permitlisten` of authorized_keys.
//!
//! An entry is for TCP, or for UDP if it begins with [`UDP_PREFIX`]: a list that names no UDP entry
//! permits no datagrams.

use crate::forward::UDP_PREFIX;
use crate::pattern;

/// The protocol that an entry of a list is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortKind {
    /// Connections.
    Tcp,
    /// Datagrams.
    Udp,
}

/// True if the list permits everything: it is empty or has `any`.
pub fn is_any(list: &[String]) -> bool {
    list.is_empty() || list.iter().any(|entry| entry == "any")
}

/// True if the list permits connections or datagrams to `host`, as it was requested, and `port`.
/// Hosts are compared as text, case-sensitively as in OpenSSH: a name and its address need two
/// entries.
pub fn opens(list: &[String], kind: PortKind, host: &str, port: u16) -> bool {
    let is_host = |entry: &str| entry == "*" || entry == host;
    is_any(list) || permits(list, (kind, port), is_host)
}

/// True if the list permits listening on `address`, as it was requested, and `port`. Entries may be
/// patterns, compared without case.
pub fn listens(list: &[String], kind: PortKind, address: &str, port: u16) -> bool {
    let address = address.to_ascii_lowercase();
    let is_host = |entry: &str| pattern::matches(&address, entry);
    is_any(list) || permits(list, (kind, port), is_host)
}

fn permits(list: &[String], (kind, port): (PortKind, u16), is_host: impl Fn(&str) -> bool) -> bool {
    list.iter().any(|entry| {
        let (entry_kind, place) = match entry.strip_prefix(UDP_PREFIX) {
            Some(place) => (PortKind::Udp, place),
            None => (PortKind::Tcp, entry.as_str()),
        };
        let Some((host, entry_port)) = place.rsplit_once(':') else {
            return false;
        };
        let bracketed = host
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'));
        let is_port = entry_port == "*" || entry_port.parse() == Ok(port);
        entry_kind == kind && is_port && is_host(bracketed.unwrap_or(host))
    })
}

#[cfg(test)]
mod tests {
    use super::PortKind::{Tcp, Udp};
    use super::*;

    fn list(entries: &[&str]) -> Vec<String> {
        entries.iter().map(|entry| (*entry).to_owned()).collect()
    }

    #[test]
    fn a_list_permits_what_it_names_and_no_list_everything() {
        assert!(opens(&[], Tcp, "db", 5432));
        assert!(opens(&list(&["any"]), Tcp, "db", 5432));
        assert!(!opens(&list(&["none"]), Tcp, "db", 5432));
        let some = list(&["db:5432", "[::1]:80", "*:22", "web:*"]);
        assert!(opens(&some, Tcp, "db", 5432));
        assert!(!opens(&some, Tcp, "DB", 5432));
        assert!(opens(&some, Tcp, "::1", 80));
        assert!(opens(&some, Tcp, "anything", 22));
        assert!(opens(&some, Tcp, "web", 1));
        assert!(!opens(&some, Tcp, "db", 5433));
        assert!(!opens(&some, Tcp, "db.evil", 5432));
        assert!(!opens(&list(&["db"]), Tcp, "db", 5432));
        assert!(!opens(&list(&["db:99999"]), Tcp, "db", 34463));
        assert!(!is_any(&some));
    }

    #[test]
    fn listeners_match_patterns_without_case() {
        let some = list(&["localhost:8080", "10.*:*", "*:9000"]);
        assert!(listens(&some, Tcp, "localhost", 8080));
        assert!(listens(&some, Tcp, "LocalHost", 8080));
        assert!(!listens(&some, Tcp, "", 8080));
        assert!(!listens(&some, Tcp, "localhost", 8081));
        assert!(listens(&some, Tcp, "10.1.2.3", 1));
        assert!(listens(&some, Tcp, "", 9000));
        assert!(!listens(&list(&["none"]), Tcp, "", 9000));
        assert!(listens(&list(&["any"]), Tcp, "", 9000));
        assert!(!listens(&list(&["*:8080"]), Tcp, "localhost", 0));
    }

    #[test]
    fn entries_are_for_connections_or_for_datagrams() {
        let tcp = list(&["db:5432", "*:22"]);
        let udp = list(&["udp/ns:53", "udp/[::1]:*"]);
        let both = list(&["ns:53", "udp/ns:53", "udp/*:123"]);
        assert!(!opens(&tcp, Udp, "db", 5432) && !opens(&tcp, Udp, "x", 22));
        assert!(opens(&udp, Udp, "ns", 53) && opens(&udp, Udp, "::1", 9));
        assert!(!opens(&udp, Udp, "ns", 54));
        assert!(!opens(&udp, Tcp, "ns", 53) && !opens(&udp, Tcp, "udp/ns", 53));
        assert!(opens(&both, Tcp, "ns", 53) && opens(&both, Udp, "ns", 53));
        assert!(opens(&both, Udp, "x", 123) && !opens(&both, Tcp, "x", 123));
        assert!(opens(&[], Udp, "ns", 53) && opens(&list(&["any"]), Udp, "ns", 53));
        assert!(!opens(&list(&["none"]), Udp, "ns", 53));
        let some = list(&["*:8080", "udp/local*:53"]);
        assert!(listens(&some, Tcp, "localhost", 8080) && !listens(&some, Udp, "localhost", 8080));
        assert!(listens(&some, Udp, "localhost", 53) && !listens(&some, Tcp, "localhost", 53));
        assert!(!listens(&some, Tcp, "udp/localhost", 53));
    }
}
