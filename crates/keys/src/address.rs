//! Network addresses in access rules: CIDR blocks (`source-address` of certificates) and the
//! mixed lists of `from=` (addresses, CIDR blocks, wildcards, host names).

use std::net::IpAddr;

use crate::pattern::{ListMatch, match_items, matches, matches_ignoring_case};

/// An address with a prefix length; without one, the whole address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CidrBlock {
    address: IpAddr,
    prefix_bits: u8,
}

/// Why a text is no list of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadAddressList;

impl core::fmt::Display for BadAddressList {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("not a list of addresses or address/prefix blocks")
    }
}

impl std::error::Error for BadAddressList {}

impl CidrBlock {
    /// Parses `address` or `address/bits`. Bits set behind the prefix make it `None`, because
    /// the writer meant something else than what stands there.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let width = if address.is_ipv4() { 32 } else { 128 };
        let prefix_bits = match bits {
            None => width,
            Some(bits) if bits.bytes().all(|byte| byte.is_ascii_digit()) => {
                bits.parse::<u8>().ok().filter(|bits| *bits <= width)?
            }
            Some(_) => return None,
        };
        let block = Self {
            address,
            prefix_bits,
        };
        (block.host_bits(address) == 0).then_some(block)
    }

    /// Whether `address` lies in the block. An IPv4 address mapped into IPv6 counts as IPv4.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        match (self.address, address) {
            (IpAddr::V4(ours), IpAddr::V4(theirs)) => {
                let mask = u32::MAX
                    .checked_shl(32 - u32::from(self.prefix_bits))
                    .unwrap_or(0);
                u32::from(ours) & mask == u32::from(theirs) & mask
            }
            (IpAddr::V6(ours), IpAddr::V6(theirs)) => {
                let mask = u128::MAX
                    .checked_shl(128 - u32::from(self.prefix_bits))
                    .unwrap_or(0);
                u128::from(ours) & mask == u128::from(theirs) & mask
            }
            _ => false,
        }
    }

    fn host_bits(&self, address: IpAddr) -> u128 {
        match address {
            IpAddr::V4(address) => u128::from(
                u32::from(address)
                    & !u32::MAX
                        .checked_shl(32 - u32::from(self.prefix_bits))
                        .unwrap_or(0),
            ),
            IpAddr::V6(address) => {
                u128::from(address)
                    & !u128::MAX
                        .checked_shl(128 - u32::from(self.prefix_bits))
                        .unwrap_or(0)
            }
        }
    }
}

/// A certificate's `source-address`: blocks parted by commas, no negation, no wildcards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CidrList(Vec<CidrBlock>);

impl CidrList {
    /// Parses the list.
    ///
    /// # Errors
    /// [`BadAddressList`] when it is empty or an item is no address or block.
    pub fn parse(text: &str) -> Result<Self, BadAddressList> {
        text.split(',')
            .map(CidrBlock::parse)
            .collect::<Option<Vec<_>>>()
            .map(Self)
            .ok_or(BadAddressList)
    }

    /// Whether a block of the list contains `address`.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.iter().any(|block| block.contains(address))
    }
}

/// The list of `from=` and of `Match Address`: addresses, blocks, wildcards and host names,
/// each with an optional `!`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressPatterns {
    list: String,
}

impl AddressPatterns {
    /// Takes the list over.
    ///
    /// # Errors
    /// [`BadAddressList`] when an item has a `/` but is no block: such an item could be
    /// meant to deny, so it is refused rather than passed over.
    pub fn parse(list: &str) -> Result<Self, BadAddressList> {
        for item in list.split(',') {
            let item = item.strip_prefix('!').unwrap_or(item);
            if item.contains('/') && CidrBlock::parse(item).is_none() {
                return Err(BadAddressList);
            }
        }
        Ok(Self {
            list: list.to_owned(),
        })
    }

    /// The list as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.list
    }

    /// Judges a peer by its address alone.
    #[must_use]
    pub fn match_address(&self, address: IpAddr) -> ListMatch {
        let address = address.to_canonical();
        let text = address.to_string();
        match_items(self.items(), |item| {
            let item_text = core::str::from_utf8(item).unwrap_or_default();
            match CidrBlock::parse(item_text) {
                Some(block) => block.contains(address),
                None => matches(text.as_bytes(), item),
            }
        })
    }

    /// Whether a peer with this address and, if one is known, verified host name is let in:
    /// one of both must match and neither may be negated.
    #[must_use]
    pub fn permits(&self, address: IpAddr, host: Option<&str>) -> bool {
        let by_host = host.map_or(ListMatch::Unmatched, |host| {
            match_items(self.items(), |item| {
                matches_ignoring_case(host.as_bytes(), item)
            })
        });
        match (self.match_address(address), by_host) {
            (ListMatch::Negated, _) | (_, ListMatch::Negated) => false,
            (first, second) => first == ListMatch::Matched || second == ListMatch::Matched,
        }
    }

    fn items(&self) -> impl Iterator<Item = &[u8]> {
        self.list.split(',').map(str::as_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn blocks_contain_their_addresses() {
        let list = CidrList::parse("10.0.0.0/8,192.0.2.7,2001:db8::/32").unwrap();
        for inside in [
            "10.255.0.1",
            "192.0.2.7",
            "2001:db8:1::1",
            "::ffff:10.1.2.3",
        ] {
            assert!(list.contains(ip(inside)), "{inside}");
        }
        for outside in ["11.0.0.1", "192.0.2.8", "2001:db9::1"] {
            assert!(!list.contains(ip(outside)), "{outside}");
        }
        assert!(
            CidrList::parse("0.0.0.0/0")
                .unwrap()
                .contains(ip("8.8.8.8"))
        );
    }

    #[test]
    fn what_is_no_block_is_refused() {
        for bad in [
            "",
            "10.0.0.0/33",
            "10.0.0.1/8",
            "10.0.0.0/",
            "10.0.0.0/+8",
            "host",
            "1.2.3.4,",
        ] {
            assert!(CidrList::parse(bad).is_err(), "{bad}");
        }
        assert!(AddressPatterns::parse("host,10.0.0.0/99").is_err());
    }

    #[test]
    fn from_lists_judge_address_and_name_together() {
        let list = AddressPatterns::parse(
            "192.0.2.*,!192.0.2.9,*.example.com,!bad.example.com,10.0.0.0/8",
        )
        .unwrap();
        assert!(list.permits(ip("192.0.2.1"), None));
        assert!(!list.permits(ip("192.0.2.9"), Some("a.example.com")));
        assert!(list.permits(ip("203.0.113.1"), Some("A.Example.com")));
        assert!(!list.permits(ip("10.1.1.1"), Some("bad.example.com")));
        assert!(!list.permits(ip("203.0.113.1"), None));
    }
}
