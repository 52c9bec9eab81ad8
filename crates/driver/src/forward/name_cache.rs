//! Addresses of names that were looked up lately. The C library does not tell how long an answer is
//! valid, so each is kept for [`KEPT_MS`]. Failures are not kept: they may be those of the network.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use proto::Millis;
use sys::socket::Family;

/// Time for which addresses are kept, milliseconds.
const KEPT_MS: Millis = 30_000;
/// Maximum names with addresses.
const MAX_NAMES: usize = 256;
/// Maximum addresses of one name; others are tried only after a lookup of their own.
const MAX_ADDRESSES: usize = 16;

/// A name, and the family of its addresses.
pub(super) type Name = (String, Family);

/// Addresses by name.
#[derive(Default)]
pub(super) struct NameCache {
    /// The addresses, with any port, and the time until which they are kept.
    names: BTreeMap<Name, (Vec<SocketAddr>, Millis)>,
}

impl NameCache {
    /// The addresses of a name, with this port; `None` if they are not known.
    pub(super) fn get(&self, name: &Name, port: u16, now: Millis) -> Option<Vec<SocketAddr>> {
        let (addresses, until) = self.names.get(name)?;
        (now < *until).then(|| with_port(addresses, port))
    }

    /// Keeps the addresses of a name, in place of those that would be dropped next.
    pub(super) fn keep(&mut self, name: Name, addresses: &[SocketAddr], now: Millis) {
        if addresses.is_empty() {
            return;
        }
        if self.names.len() >= MAX_NAMES && !self.names.contains_key(&name) {
            self.names.retain(|_, (_, until)| now < *until);
            let oldest = self.names.iter().min_by_key(|(_, (_, until))| *until);
            if self.names.len() >= MAX_NAMES
                && let Some(oldest) = oldest.map(|(name, _)| name.clone())
            {
                self.names.remove(&oldest);
            }
        }
        let some = addresses.iter().take(MAX_ADDRESSES).copied().collect();
        self.names.insert(name, (some, now.saturating_add(KEPT_MS)));
    }

    /// Forgets a name whose addresses did not answer.
    pub(super) fn forget(&mut self, name: &Name) {
        self.names.remove(name);
    }
}

/// The addresses with this port in place of theirs.
pub(super) fn with_port(addresses: &[SocketAddr], port: u16) -> Vec<SocketAddr> {
    let mut all = addresses.to_vec();
    for address in &mut all {
        address.set_port(port);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        (text.into(), Family::Any)
    }

    fn addresses(text: &str) -> Vec<SocketAddr> {
        vec![text.parse().unwrap()]
    }

    #[test]
    fn addresses_are_kept_for_half_a_minute_with_any_port() {
        let mut cache = NameCache::default();
        cache.keep(name("db"), &addresses("192.0.2.1:1"), 1000);
        let found = cache.get(&name("db"), 80, 30_999);
        assert_eq!(found, Some(addresses("192.0.2.1:80")));
        assert_eq!(cache.get(&name("db"), 80, 31_000), None);
        assert_eq!(cache.get(&("db".into(), Family::V6), 80, 1000), None);
        assert_eq!(cache.get(&name("other"), 80, 1000), None);
        cache.keep(name("empty"), &[], 1000);
        assert_eq!(cache.get(&name("empty"), 80, 1000), None);
    }

    #[test]
    fn a_name_whose_addresses_do_not_answer_is_looked_up_again() {
        let mut cache = NameCache::default();
        cache.keep(name("db"), &addresses("192.0.2.1:1"), 0);
        cache.forget(&name("db"));
        assert_eq!(cache.get(&name("db"), 80, 0), None);
    }

    #[test]
    fn names_and_addresses_are_bounded_and_the_oldest_go_first() {
        let mut cache = NameCache::default();
        let many = vec![addresses("192.0.2.1:1")[0]; 100];
        for number in 0..1000_u64 {
            cache.keep(name(&number.to_string()), &many, number);
        }
        assert_eq!(cache.names.len(), MAX_NAMES);
        assert_eq!(cache.get(&name("743"), 80, 999), None);
        let kept = cache.get(&name("744"), 80, 999).unwrap();
        assert_eq!(kept.len(), MAX_ADDRESSES);
        assert!(cache.get(&name("999"), 80, 999).is_some());
        // Those whose time is over go before any that may be used.
        cache.keep(name("new"), &many, 1_000_000);
        assert_eq!(cache.names.len(), 1);
    }
}
