//! IP addresses and CIDR lists as sshd_config(5) `Match Address`, `from=` and `PerSource…` use them.
//!
//! IPv4-mapped IPv6 addresses are taken for the IPv4 address that they carry. Names are never looked up.

use std::fmt;
use std::net::IpAddr;

use crate::pattern::{self, ListMatch};

/// A network: an address and the length of its mask in bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    network: IpAddr,
    mask_bits: u8,
}

/// Why an entry of a list is not a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CidrError {
    /// Neither an address nor `address/bits`.
    NotANetwork(String),
    /// More mask bits than the address has.
    MaskTooLong(String),
    /// Bits are set behind the mask, for example 192.0.2.1/24.
    HostBitsSet(String),
}

impl fmt::Display for CidrError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CidrError::NotANetwork(entry) => write!(f, "\"{entry}\" is not an address or network"),
            CidrError::MaskTooLong(entry) => write!(f, "mask of \"{entry}\" is too long"),
            CidrError::HostBitsSet(entry) => {
                write!(f, "\"{entry}\" has bits set behind its mask")
            }
        }
    }
}

impl std::error::Error for CidrError {}

impl Cidr {
    /// Reads `address` or `address/bits`.
    ///
    /// # Errors
    /// When it is neither, the mask is longer than the address, or host bits are set.
    pub fn parse(text: &str) -> Result<Cidr, CidrError> {
        let (address_text, mask_text) = match text.split_once('/') {
            Some((address, mask)) => (address, Some(mask)),
            None => (text, None),
        };
        let address: IpAddr = address_text
            .parse()
            .map_err(|_| CidrError::NotANetwork(text.to_owned()))?;
        let width: u8 = if address.is_ipv4() { 32 } else { 128 };
        let mask_bits = match mask_text {
            None => width,
            Some(digits) => {
                if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
                    return Err(CidrError::NotANetwork(text.to_owned()));
                }
                match digits.parse::<u8>() {
                    Ok(bits) if bits <= width => bits,
                    _ => return Err(CidrError::MaskTooLong(text.to_owned())),
                }
            }
        };
        if address_bits(address) & !mask(width, mask_bits) & mask(width, width) != 0 {
            return Err(CidrError::HostBitsSet(text.to_owned()));
        }
        Ok(Cidr {
            network: address,
            mask_bits,
        })
    }

    /// Is `address` inside this network? Families do not mix, save for IPv4-mapped addresses.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = normalise(address);
        let network = normalise_network(self.network, self.mask_bits);
        let (network, mask_bits) = network;
        if network.is_ipv4() != address.is_ipv4() {
            return false;
        }
        let width = if address.is_ipv4() { 32 } else { 128 };
        let keep = mask(width, mask_bits);
        address_bits(address) & keep == address_bits(network) & keep
    }
}

/// An IPv4-mapped IPv6 address as the IPv4 address, anything else unchanged.
pub fn normalise(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(address, IpAddr::V4),
        IpAddr::V4(_) => address,
    }
}

/// The address with all but its first `bits4` (IPv4) or `bits6` (IPv6) bits cleared: the group that
/// `PerSourceNetBlockSize` counts together.
pub fn net_block(address: IpAddr, bits4: u8, bits6: u8) -> IpAddr {
    match normalise(address) {
        IpAddr::V4(v4) => {
            let kept = u128::from(u32::from(v4)) & mask(32, bits4);
            IpAddr::V4(u32::try_from(kept).unwrap_or(0).into())
        }
        IpAddr::V6(v6) => IpAddr::V6((u128::from(v6) & mask(128, bits6)).into()),
    }
}

/// Evaluates a comma-separated list of addresses, CIDR networks and wildcard patterns, each negatable with
/// `!`, against `address` as text. With no address the list is only checked.
///
/// # Errors
/// When an entry looks like a network (has a `/`) but is none.
pub fn match_list(address: Option<&str>, list: &str) -> Result<ListMatch, CidrError> {
    let parsed = address.and_then(|text| text.parse::<IpAddr>().ok());
    let mut found = ListMatch::No;
    for entry in list.split(',') {
        let (negated, body) = match entry.strip_prefix('!') {
            Some(body) => (true, body),
            None => (false, entry),
        };
        let hit = match Cidr::parse(body) {
            Ok(network) => parsed.is_some_and(|a| network.contains(a)),
            Err(CidrError::NotANetwork(_)) => address
                .is_some_and(|text| pattern::matches_case(text, body, pattern::Case::Ignored)),
            Err(error) => return Err(error),
        };
        if hit && negated {
            found = ListMatch::Negated;
        } else if hit && found == ListMatch::No {
            found = ListMatch::Yes;
        }
    }
    Ok(found)
}

/// Evaluates a comma-separated list of plain addresses and CIDR networks (no wildcards, no negation), as
/// the certificate option `source-address` and `PerSourcePenaltyExemptList` need it. With no address the
/// list is only checked.
///
/// # Errors
/// When an entry is not an address or network.
pub fn match_cidr_list(address: Option<IpAddr>, list: &str) -> Result<bool, CidrError> {
    let mut found = false;
    for entry in list.split(',') {
        let network = Cidr::parse(entry)?;
        found |= address.is_some_and(|a| network.contains(a));
    }
    Ok(found)
}

fn normalise_network(network: IpAddr, mask_bits: u8) -> (IpAddr, u8) {
    match (network, normalise(network)) {
        (IpAddr::V6(_), IpAddr::V4(v4)) if mask_bits >= 96 => (IpAddr::V4(v4), mask_bits - 96),
        _ => (network, mask_bits),
    }
}

fn address_bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(u32::from(v4)),
        IpAddr::V6(v6) => u128::from(v6),
    }
}

/// `bits` ones at the top of a number of `width` bits.
fn mask(width: u8, bits: u8) -> u128 {
    let all = if width >= 128 {
        u128::MAX
    } else {
        (1u128 << width) - 1
    };
    let low = width.saturating_sub(bits);
    if low >= 128 { 0 } else { (all >> low) << low }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_checked() {
        assert!(Cidr::parse("192.0.2.0/24").is_ok());
        assert!(Cidr::parse("2001:db8::/32").is_ok());
        assert!(Cidr::parse("0.0.0.0/0").is_ok());
        assert!(Cidr::parse("::/0").is_ok());
        assert!(matches!(
            Cidr::parse("192.0.2.0/33"),
            Err(CidrError::MaskTooLong(_))
        ));
        assert!(matches!(
            Cidr::parse("192.0.2.0/8"),
            Err(CidrError::HostBitsSet(_))
        ));
        assert!(matches!(
            Cidr::parse("192.0.2.0/+8"),
            Err(CidrError::NotANetwork(_))
        ));
        assert!(matches!(
            Cidr::parse("192.0.2/24"),
            Err(CidrError::NotANetwork(_))
        ));
        assert!(matches!(Cidr::parse(""), Err(CidrError::NotANetwork(_))));
    }

    #[test]
    fn lists_match() {
        let yes = Ok(ListMatch::Yes);
        assert_eq!(match_list(Some("192.0.2.9"), "192.0.2.0/24"), yes);
        assert_eq!(match_list(Some("::ffff:192.0.2.9"), "192.0.2.0/24"), yes);
        assert_eq!(match_list(Some("192.0.2.9"), "::ffff:192.0.2.0/120"), yes);
        assert_eq!(match_list(Some("192.0.2.9"), "192.0.2.?"), yes);
        assert_eq!(
            match_list(Some("192.0.2.9"), "*,!192.0.2.0/28"),
            Ok(ListMatch::Negated)
        );
        assert_eq!(match_list(Some("2001:db8::1"), "2001:db8::/32"), yes);
        assert_eq!(
            match_list(Some("2001:db8::1"), "0.0.0.0/0"),
            Ok(ListMatch::No)
        );
        assert!(match_list(Some("192.0.2.9"), "*,192.0.2.1/24").is_err());
        assert_eq!(match_list(None, "10.0.0.0/8"), Ok(ListMatch::No));
        assert_eq!(
            match_cidr_list("10.1.2.3".parse().ok(), "192.0.2.1,10.0.0.0/8"),
            Ok(true)
        );
        assert!(match_cidr_list(None, "10.0.0.*").is_err());
    }

    #[test]
    fn blocks_group_sources() {
        let block = |a: &str, b4, b6| net_block(a.parse().unwrap(), b4, b6).to_string();
        assert_eq!(block("192.0.2.9", 24, 64), "192.0.2.0");
        assert_eq!(block("192.0.2.9", 32, 64), "192.0.2.9");
        assert_eq!(block("192.0.2.9", 0, 64), "0.0.0.0");
        assert_eq!(block("2001:db8:1:2:3::4", 24, 64), "2001:db8:1:2::");
        assert_eq!(block("2001:db8::4", 24, 0), "::");
    }
}
