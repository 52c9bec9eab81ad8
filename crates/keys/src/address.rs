//! Network addresses in access rules: networks (`source-address` of certificates,
//! `PerSourcePenaltyExemptList`) and the mixed lists of `from=`, `Match Address` and the host part
//! of `AllowUsers` (addresses, networks, wildcards, host names).
//!
//! Addresses are parsed like `getaddrinfo` with `AI_NUMERICHOST`, which OpenSSH uses, including
//! short, octal and hexadecimal forms of IPv4 ([`parse_address`]). A peer with an IPv4-mapped IPv6
//! address is treated as the IPv4 address in it; a mapped address or network in a list is an IPv6
//! one and matches no IPv4 peer, as in OpenSSH. Names are never resolved. Zones (`fe80::1%eth0`)
//! are rejected, because the zone of a peer is not known here.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::pattern::{self, Case, ListMatch, matches};

/// A network: an address and its prefix length in bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    network: IpAddr,
    mask_bits: u8,
}

/// Why an entry of a list is not a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CidrError {
    /// Nothing between two commas or after the `!`.
    Empty,
    /// Neither an address nor `address/bits`.
    NotANetwork(String),
    /// Neither an address, nor a network, nor a wildcard pattern that an address can match.
    MatchesNothing(String),
    /// An address with a zone, for example fe80::1%eth0.
    Zone(String),
    /// The prefix length exceeds the length of the address.
    MaskTooLong(String),
    /// Bits after the prefix are set, for example 192.0.2.1/24.
    HostBitsSet(String),
}

impl fmt::Display for CidrError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CidrError::Empty => f.write_str("an entry of the list is empty"),
            CidrError::NotANetwork(entry) => write!(f, "\"{entry}\" is not an address or network"),
            CidrError::MatchesNothing(entry) => write!(
                f,
                "\"{entry}\" is not an address, network or pattern of addresses, so it matches nobody"
            ),
            CidrError::Zone(entry) => write!(
                f,
                "\"{entry}\" names a zone (\"%\"), which is not supported; leave the zone out"
            ),
            CidrError::MaskTooLong(entry) => write!(f, "mask of \"{entry}\" is too long"),
            CidrError::HostBitsSet(entry) => {
                write!(f, "\"{entry}\" has bits set after its mask")
            }
        }
    }
}

impl std::error::Error for CidrError {}

impl Cidr {
    /// Parses `address` or `address/bits`, with the address as in [`parse_address`] and the prefix
    /// length in decimal; leading zeros are allowed.
    ///
    /// # Errors
    /// If the text is neither, the address has a zone, the prefix is longer than the address, or
    /// bits after the prefix are set.
    pub fn parse(text: &str) -> Result<Self, CidrError> {
        let not_a_network = || CidrError::NotANetwork(text.to_owned());
        let (address_text, mask_text) = match text.split_once('/') {
            Some((address, mask)) => (address, Some(mask)),
            None => (text, None),
        };
        if let Some((before, _)) = address_text.split_once('%')
            && before.parse::<Ipv6Addr>().is_ok()
        {
            return Err(CidrError::Zone(text.to_owned()));
        }
        let address = parse_address(address_text).ok_or_else(not_a_network)?;
        let width: u8 = if address.is_ipv4() { 32 } else { 128 };
        let mask_bits = match mask_text {
            None => width,
            Some(digits) => {
                if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
                    return Err(not_a_network());
                }
                match digits.parse::<u8>() {
                    Ok(bits) if bits <= width => bits,
                    Ok(bits) if bits <= 128 => {
                        return Err(CidrError::MaskTooLong(text.to_owned()));
                    }
                    // No prefix length of any family, so not a network, as in sshd.
                    _ => return Err(not_a_network()),
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

    /// True if `address` is inside this network. Families do not mix: an IPv4-mapped `address` is
    /// treated as IPv4, and a network of mapped addresses contains no IPv4 address.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        if self.network.is_ipv4() != address.is_ipv4() {
            return false;
        }
        let width = if address.is_ipv4() { 32 } else { 128 };
        let keep = mask(width, self.mask_bits);
        address_bits(address) & keep == address_bits(self.network) & keep
    }

    /// All addresses of the network in ascending order, with the first and the last.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> + use<> {
        let network = self.network;
        let width: u8 = if network.is_ipv4() { 32 } else { 128 };
        let first = address_bits(network);
        let last = first | (mask(width, width) & !mask(width, self.mask_bits));
        (first..=last).filter_map(move |bits| match network {
            IpAddr::V4(_) => u32::try_from(bits)
                .ok()
                .map(|bits| Ipv4Addr::from(bits).into()),
            IpAddr::V6(_) => Some(Ipv6Addr::from(bits).into()),
        })
    }
}

/// Parses a numeric address like `getaddrinfo` with `AI_NUMERICHOST`: IPv6 without a zone, and IPv4
/// in the forms of inet_aton(3): one to four parts, each decimal, octal (`0177`) or hexadecimal
/// (`0x7f`); the last part fills the remaining bytes (`10.1` is 10.0.0.1).
#[must_use]
pub fn parse_address(text: &str) -> Option<IpAddr> {
    if text.contains(':') {
        return text.parse::<Ipv6Addr>().ok().map(IpAddr::V6);
    }
    let mut parts = text.split('.');
    let mut last = inet_aton_part(parts.next()?)?;
    let mut value: u32 = 0;
    // Number of bits that the last part fills.
    let mut left: u32 = 32;
    for part in parts {
        left = left.checked_sub(8).filter(|left| *left > 0)?;
        value |= u32::from(u8::try_from(last).ok()?) << left;
        last = inet_aton_part(part)?;
    }
    if u64::from(last) >= 1u64 << left {
        return None;
    }
    Some(IpAddr::V4(Ipv4Addr::from(value | last)))
}

/// Parses a part of an IPv4 address in the integer notation of C.
fn inet_aton_part(text: &str) -> Option<u32> {
    let (digits, radix) = match text.strip_prefix("0x").or(text.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None if text.len() > 1 && text.starts_with('0') => (text, 8),
        None => (text, 10),
    };
    // `from_str_radix` would accept a sign.
    if !digits.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return None;
    }
    u32::from_str_radix(digits, radix).ok()
}

/// Comma-separated networks without negation or wildcards: a certificate's `source-address`. As in
/// OpenSSH, only hexadecimal digits and `.:/` are allowed in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CidrList(Vec<Cidr>);

impl CidrList {
    /// Parses the list.
    ///
    /// # Errors
    /// If the list is empty or an entry is not an address or network.
    pub fn parse(text: &str) -> Result<Self, CidrError> {
        let permitted = |byte: u8| byte.is_ascii_hexdigit() || matches!(byte, b'.' | b':' | b'/');
        text.split(',')
            .map(|entry| {
                if entry.bytes().all(permitted) {
                    Cidr::parse(entry)
                } else {
                    Err(CidrError::NotANetwork(entry.to_owned()))
                }
            })
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// True if a network of the list contains `address`.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(address))
    }
}

/// Matches `address`, given as text, against a comma-separated list of addresses, networks and
/// wildcard patterns, each negatable with `!`. With `None` it only checks the list.
///
/// # Errors
/// If an entry is empty, has a zone, or is an invalid network (prefix too long, bits set after it).
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

/// Checks a list of `Match Address` or `Match LocalAddress`, which is matched against addresses
/// only: an entry is an address, a network, or a wildcard pattern that the text of an address can
/// match. Names of hosts match no address. They are accepted beside an entry that can match, as in
/// OpenSSH, and returned, so that the caller warns of them.
///
/// # Errors
/// As [`match_list`], and [`CidrError::MatchesNothing`] for any other entry that no address can
/// match: an address or network with a typing error, a negated name, or a name in a list in which
/// nothing can match, whose block would never apply.
pub fn check_address_list(list: &str) -> Result<Vec<&str>, CidrError> {
    match_list(None, list)?;
    let mut names = Vec::new();
    let mut some_can_match = false;
    for entry in list.split(',') {
        let negated = entry.strip_prefix('!');
        let body = negated.unwrap_or(entry);
        let wild = |byte: u8| matches!(byte, b'*' | b'?');
        let in_addresses = |byte: u8| byte.is_ascii_hexdigit() || matches!(byte, b'.' | b':');
        let can_match = Cidr::parse(body).is_ok()
            || (body.bytes().any(wild)
                && body.bytes().all(|byte| wild(byte) || in_addresses(byte)));
        if can_match {
            some_can_match |= negated.is_none();
        } else if negated.is_none() && is_host_name(body) {
            names.push(body);
        } else {
            return Err(CidrError::MatchesNothing(entry.to_owned()));
        }
    }
    match names.first() {
        Some(name) if !some_can_match => Err(CidrError::MatchesNothing((*name).to_owned())),
        _ => Ok(names),
    }
}

/// True if the entry can only be meant as the name of a host: its last label has a letter, and no
/// label is a number, as in an address with a typing error (`10.0.0.x`).
fn is_host_name(entry: &str) -> bool {
    let last = entry.rsplit('.').next().unwrap_or_default();
    let is_number = |label: &str| {
        inet_aton_part(label).is_some() || label.bytes().all(|byte| byte.is_ascii_digit())
    };
    last.bytes().any(|byte| byte.is_ascii_alphabetic())
        && entry.split('.').all(|label| {
            !is_number(label)
                && label
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        })
}

/// Checks a list that is also matched against host names: `from=` and the host part of
/// `AllowUsers`.
///
/// # Errors
/// As [`match_list`], and if an entry contains a `/` but is not a network: neither a name nor an
/// address can match it, and it may have been meant to deny access.
pub fn check_host_list(list: &str) -> Result<(), CidrError> {
    match_list(None, list)?;
    for entry in list.split(',').filter(|entry| entry.contains('/')) {
        Cidr::parse(entry.strip_prefix('!').unwrap_or(entry))?;
    }
    Ok(())
}

/// Matches a peer against a list of host patterns, addresses and networks, as `from=` and the host
/// part of `AllowUsers` do: its name or its address must match and neither may match a negated
/// entry. A list with a malformed network matches no peer.
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

/// The list of a `from=` option: addresses, networks, wildcards and host names, each with an
/// optional `!`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressPatterns {
    list: String,
}

impl AddressPatterns {
    /// Checks and stores the list.
    ///
    /// # Errors
    /// As [`check_host_list`].
    pub fn parse(list: &str) -> Result<Self, CidrError> {
        check_host_list(list)?;
        Ok(Self {
            list: list.to_owned(),
        })
    }

    /// The original text of the list.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.list
    }

    /// True if a peer with this address and verified host name (if known) may log in: either must
    /// match and neither may match a negated entry.
    #[must_use]
    pub fn permits(&self, address: IpAddr, host: Option<&str>) -> bool {
        let address = address.to_canonical().to_string();
        match_host_and_address(host.unwrap_or(&address), &address, &self.list).is_yes()
    }
}

/// Clears all but the first `bits4` (IPv4) or `bits6` (IPv6) bits of the address: the block that
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

/// A number of `width` bits whose top `bits` bits are set.
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
