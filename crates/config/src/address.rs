//! IP addresses and lists of networks for `Match Address` and `PerSource…` of sshd_config(5).
//! [`keys::address`] parses and matches them.

use std::fmt;
use std::net::IpAddr;

pub use keys::address::{
    Cidr, CidrError, CidrList, check_address_list, check_host_list, match_list, net_block,
};

/// `PerSourcePenaltyExemptList`: addresses and CIDR networks, without wildcards and negation. The
/// default has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExemptList {
    networks: Option<CidrList>,
    /// The list as the file spells it, which the dump shows.
    written: String,
}

impl ExemptList {
    /// Reads a comma-separated list.
    ///
    /// # Errors
    /// [`CidrError`] if an entry is neither an address nor a network.
    pub(crate) fn parse(list: &str) -> Result<ExemptList, CidrError> {
        Ok(ExemptList {
            networks: Some(CidrList::parse(list)?),
            written: list.to_owned(),
        })
    }

    /// True if a network of the list contains `address`.
    pub fn contains(&self, address: IpAddr) -> bool {
        let networks = self.networks.as_ref();
        networks.is_some_and(|networks| networks.contains(address))
    }
}

/// As the keyword spells it; `none` for an empty list.
impl fmt::Display for ExemptList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.networks {
            Some(_) => &self.written,
            None => "none",
        })
    }
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
        let exempt = ExemptList::parse("192.0.2.1,10.0.0.0/8").unwrap();
        assert!(exempt.contains("10.1.2.3".parse().unwrap()));
        assert!(!exempt.contains("192.0.2.2".parse().unwrap()));
        assert!(!ExemptList::default().contains("192.0.2.2".parse().unwrap()));
        assert!(ExemptList::parse("10.0.0.*").is_err());
    }
}
