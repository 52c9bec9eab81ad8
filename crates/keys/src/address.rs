//! Network addresses in access rules: networks (`source-address` of certificates,
//! `PerSourcePenaltyExemptList`) and the mixed lists of `from=`, `Match Address` and the host
//! part of `AllowUsers` (addresses, networks, wildcards, host names).
//!
//! IPv4-mapped IPv6 addresses are taken for the IPv4 address that they carry. Names are never
//! looked up.

use std::fmt;
use std::net::IpAddr;

use crate::pattern::{self, Case, ListMatch, matches};

/// A network: an address and the length of its mask in bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    network: IpAddr,
    mask_bits: u8,
}

/// Why an entry of a list is not a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CidrError {
    /// Nothing stands between two commas or behind the `!`.
    Empty,
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
            CidrError::Empty => f.write_str("an entry of the list is empty"),
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
    pub fn parse(text: &str) -> Result<Self, CidrError> {
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
                    Ok(bits) if bits <= 128 => {
                        return Err(CidrError::MaskTooLong(text.to_owned()));
                    }
                    // No mask of any family, so no network, as sshd has it.
                    _ => return Err(CidrError::NotANetwork(text.to_owned())),
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
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let (network, mask_bits) = self.canonical();
        if network.is_ipv4() != address.is_ipv4() {
            return false;
        }
        let width = if address.is_ipv4() { 32 } else { 128 };
        let keep = mask(width, mask_bits);
        address_bits(address) & keep == address_bits(network) & keep
    }

    fn canonical(&self) -> (IpAddr, u8) {
        match (self.network, self.network.to_canonical()) {
            (IpAddr::V6(_), network @ IpAddr::V4(_)) if self.mask_bits >= 96 => {
                (network, self.mask_bits - 96)
            }
            _ => (self.network, self.mask_bits),
        }
    }
}

/// Networks parted by commas, no negation, no wildcards: a certificate's `source-address`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CidrList(Vec<Cidr>);

impl CidrList {
    /// Parses the list.
    ///
    /// # Errors
    /// When it is empty or an entry is no address or network.
    pub fn parse(text: &str) -> Result<Self, CidrError> {
        text.split(',')
            .map(Cidr::parse)
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Whether a network of the list contains `address`.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(address))
    }
}

/// Judges `address` as text by a comma-separated list of addresses, networks and wildcard
/// patterns, each negatable with `!`. With no address the list is only checked.
///
/// # Errors
/// When an entry is empty, or is a network that cannot be meant (mask too long, bits set behind
/// it).
pub fn match_list(address: Option<&str>, list: &str) -> Result<ListMatch, CidrError> {
    let parsed = address.and_then(|text| text.parse::<IpAddr>().ok());
    let mut found = ListMatch::No;
    for entry in list.split(',') {
        let (negated, body) = match entry.strip_prefix('!') {
            Some(body) => (true, body),
            None => (false, entry),
        };
        if body.is_empty() {
            return Err(CidrError::Empty);
        }
        let hit = match Cidr::parse(body) {
            Ok(network) => parsed.is_some_and(|address| network.contains(address)),
            Err(CidrError::NotANetwork(_)) => {
                address.is_some_and(|text| matches(text.as_bytes(), body.as_bytes()))
            }
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

/// Judges a peer by a list of host patterns, addresses and networks, as `from=` and the host part
/// of `AllowUsers` do: its name or its address must match and neither may be negated. A list
/// that holds a malformed network refuses everybody.
#[must_use]
pub fn match_host_and_address(host: &str, address: &str, list: &str) -> ListMatch {
    let by_address = match_list(Some(address), list).unwrap_or(ListMatch::Negated);
    if by_address == ListMatch::Negated {
        return ListMatch::Negated;
    }
    match pattern::match_list(host.as_bytes(), list.as_bytes(), Case::Ignored) {
        ListMatch::No => by_address,
        by_host => by_host,
    }
}

/// The list of `from=`: addresses, networks, wildcards and host names, each with an optional `!`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressPatterns {
    list: String,
}

impl AddressPatterns {
    /// Takes the list over.
    ///
    /// # Errors
    /// As [`match_list`], and when an entry has a `/` but is no network: such an entry could be
    /// meant to deny, so it is refused rather than passed over.
    pub fn parse(list: &str) -> Result<Self, CidrError> {
        match_list(None, list)?;
        for entry in list.split(',').filter(|entry| entry.contains('/')) {
            Cidr::parse(entry.strip_prefix('!').unwrap_or(entry))?;
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

    /// Whether a peer with this address and, if one is known, verified host name is let in:
    /// one of both must match and neither may be negated.
    #[must_use]
    pub fn permits(&self, address: IpAddr, host: Option<&str>) -> bool {
        let address = address.to_canonical().to_string();
        match_host_and_address(host.unwrap_or(&address), &address, &self.list).is_yes()
    }
}

/// The address with all but its first `bits4` (IPv4) or `bits6` (IPv6) bits cleared: the group that
/// `PerSourceNetBlockSize` counts together.
#[must_use]
pub fn net_block(address: IpAddr, bits4: u8, bits6: u8) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(v4) => {
            let kept = u128::from(u32::from(v4)) & mask(32, bits4);
            IpAddr::V4(u32::try_from(kept).unwrap_or(0).into())
        }
        IpAddr::V6(v6) => IpAddr::V6((u128::from(v6) & mask(128, bits6)).into()),
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
#[path = "address_tests.rs"]
mod tests;
