//! IP addresses and lists of networks for `Match Address` and `PerSource…` of sshd_config(5).
//! [`keys::address`] parses and matches them.

use std::fmt;
use std::net::IpAddr;

pub use keys::address::{
    Cidr, CidrError, check_address_list, check_host_list, match_list, net_block,
};

/// Evaluates a comma-separated list of addresses and CIDR networks (no wildcards, no negation), as
/// `PerSourcePenaltyExemptList` needs it. Without an address the list is only checked, and the
/// result is false.
///
/// # Errors
/// [`CidrError`] if an entry is neither an address nor a network.
pub fn match_cidr_list(address: Option<IpAddr>, list: &str) -> Result<bool, CidrError> {
    let networks = keys::address::CidrList::parse(list)?;
    Ok(address.is_some_and(|address| networks.contains(address)))
}

/// One line of `ListenAddress`, before `Port` supplies missing ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenEntry {
    /// Host name or address, without brackets.
    pub host: String,
    /// Port, if given; never 0.
    pub port: Option<u16>,
    /// Routing domain: the name of a network device, if given.
    pub rdomain: Option<String>,
}

/// As `ListenAddress` spells it, an address of several colons in brackets.
impl fmt::Display for ListenEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.host.contains(':'), self.port) {
            (true, Some(port)) => write!(f, "[{}]:{port}", self.host)?,
            (false, Some(port)) => write!(f, "{}:{port}", self.host)?,
            (_, None) => f.write_str(&self.host)?,
        }
        match &self.rdomain {
            Some(rdomain) => write!(f, " rdomain {rdomain}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::ListMatch;

    #[test]
    fn lists_match() {
        let yes = Ok(ListMatch::Yes);
        assert_eq!(match_list(Some("192.0.2.9"), "192.0.2.0/24"), yes);
        assert_eq!(match_list(Some("::ffff:192.0.2.9"), "192.0.2.0/24"), yes);
        assert_eq!(
            match_list(Some("192.0.2.9"), "::ffff:192.0.2.0/120"),
            Ok(ListMatch::No)
        );
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
}
