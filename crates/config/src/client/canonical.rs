//! `CanonicalizeHostname`: turns a short name into a full one by trying domains, and follows CNAMEs
//! as the rules permit. An address gets its usual form, whatever `CanonicalizeHostname` says.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use keys::address::parse_address;

use crate::client::types::CnameRule;
use crate::environment::Environment;
use crate::error::ConfigError;
use crate::pattern;
use crate::types::AddressFamily;

/// The configuration of canonical names.
pub(crate) struct Rules<'a> {
    pub(crate) domains: &'a [String],
    pub(crate) max_dots: u32,
    pub(crate) fallback_local: bool,
    pub(crate) permitted_cnames: &'a [CnameRule],
}

/// The canonical name of `host`, or `None` if it stays unchanged.
///
/// # Errors
/// If no domain has the host and `CanonicalizeFallbackLocal` is off.
pub(crate) fn canonicalize(
    host: &str,
    rules: &Rules<'_>,
    environment: &dyn Environment,
) -> Result<Option<String>, ConfigError> {
    if is_address(host) {
        return Ok(None);
    }
    if let Some(absolute) = host.strip_suffix('.').filter(|name| !name.is_empty()) {
        if let Some(end) = environment.canonical_name(host) {
            return Ok(Some(apply(absolute, &end, rules)));
        }
    } else {
        let dots = host.bytes().filter(|b| *b == b'.').count();
        if dots > usize::try_from(rules.max_dots).unwrap_or(usize::MAX) {
            return Ok(None);
        }
        for domain in rules.domains {
            let full = format!("{host}.{}", domain.trim_start_matches('.'));
            // The final dot keeps the resolver from trying its own domains.
            if let Some(end) = environment.canonical_name(&format!("{full}.")) {
                return Ok(Some(apply(&full, &end, rules)));
            }
        }
    }
    if rules.fallback_local {
        Ok(None)
    } else {
        Err(ConfigError::Refused(format!(
            "Could not resolve host \"{host}\""
        )))
    }
}

/// Follows the CNAMEs of a host, if the rules permit, without trying domains; an unknown host stays
/// unchanged.
pub(crate) fn follow(host: String, rules: &Rules<'_>, environment: &dyn Environment) -> String {
    if rules.permitted_cnames.is_empty() || is_address(&host) {
        return host;
    }
    match environment.canonical_name(&host) {
        Some(end) => apply(&host, &end, rules),
        None => host,
    }
}

/// The usual form of an address, as getnameinfo(3) writes it: `127.1`, `0x7f.1` and `2130706433` are
/// `127.0.0.1`, `0:0::1` is `::1`. `None` for a name, for what differs in case only, and for an address that
/// `family` excludes, which OpenSSH takes for a name. A zone (`fe80::1%1`) keeps the form.
pub(crate) fn usual_address(host: &str, family: Option<AddressFamily>) -> Option<String> {
    let text = match parse_address(host)? {
        IpAddr::V4(address) if family != Some(AddressFamily::Inet6) => address.to_string(),
        IpAddr::V6(address) if family != Some(AddressFamily::Inet) => text_of(address),
        _ => return None,
    };
    (!text.eq_ignore_ascii_case(host)).then_some(text)
}

/// The text of an IPv6 address. The C library writes the last half of one that ends in an IPv4 address (RFC 4291
/// §2.5.5.1) as the latter.
fn text_of(address: Ipv6Addr) -> String {
    match address.segments() {
        [0, 0, 0, 0, 0, 0, high, low] if high != 0 => {
            let [[a, b], [c, d]] = [high.to_be_bytes(), low.to_be_bytes()];
            format!("::{}", Ipv4Addr::new(a, b, c, d))
        }
        _ => address.to_string(),
    }
}

/// True for an address.
pub(crate) fn is_address(host: &str) -> bool {
    let bare = host.split('%').next().unwrap_or(host);
    bare.parse::<IpAddr>().is_ok()
}

fn apply(name: &str, end: &str, rules: &Rules<'_>) -> String {
    let end = end.trim_end_matches('.').to_ascii_lowercase();
    let permitted = rules.permitted_cnames.iter().any(|rule| {
        pattern::match_hostname(name, &rule.source).is_yes()
            && pattern::match_hostname(&end, &rule.target).is_yes()
    });
    if permitted && !end.is_empty() && crate::tokens::is_valid_host(&end) {
        end
    } else {
        name.to_ascii_lowercase()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `ssh -G` of OpenSSH 10.6 prints for each; "" for a name that stays.
    #[test]
    fn addresses_get_the_form_that_openssh_gives_them() {
        for (host, expected) in [
            ("127.1", "127.0.0.1"),
            ("2130706433", "127.0.0.1"),
            ("0x7f.1", "127.0.0.1"),
            ("0X7F.1", "127.0.0.1"),
            ("0x0000000000000007f.1", "127.0.0.1"),
            ("0177.1", "127.0.0.1"),
            ("00000000000000000000127.1", "87.0.0.1"),
            ("1", "0.0.0.1"),
            ("0", "0.0.0.0"),
            ("4294967295", "255.255.255.255"),
            ("1.16777215", "1.255.255.255"),
            ("1.2.65535", "1.2.255.255"),
            ("::0001", "::1"),
            ("0:0:0:0:0:0:0:1", "::1"),
            ("FE80:0::1", "fe80::1"),
            ("2001:DB8::0001", "2001:db8::1"),
            ("::FFFF:102:304", "::ffff:1.2.3.4"),
            ("::1:2", "::0.1.0.2"),
            ("64:ff9b::1.2.3.4", "64:ff9b::102:304"),
            ("::ffff:0:1.2.3.4", "::ffff:0:102:304"),
            ("::2:0:0:0:0", "0:0:0:2::"),
            ("1:0:0:2:0:0:0:3", "1:0:0:2::3"),
            ("127.0.0.1", ""),
            ("::1.2.3.4", ""),
            ("::ffff:1.2.3.4", ""),
            ("1:0:2:3:4:5:6:7", ""),
            ("2001:DB8::1", ""),
            ("4294967296", ""),
            ("0x100000000", ""),
            ("0x", ""),
            ("0x.1", ""),
            ("08.1.1.1", ""),
            ("1.16777216", ""),
            ("1.2.65536", ""),
            ("1.2.3.256", ""),
            ("256.1.1.1", ""),
            ("1.2.3.4.5", ""),
            ("127.1.", ""),
            ("1..2", ""),
            (".1", ""),
            ("+1.2.3.4", ""),
            ("[::1]", ""),
            ("1.2.3.4/8", ""),
            ("fe80::1%lo", ""),
            ("localhost", ""),
        ] {
            let found = usual_address(host, None);
            assert_eq!(found.unwrap_or_default(), expected, "{host}");
        }
        let of = |host, family| usual_address(host, Some(family));
        assert_eq!(of("127.1", AddressFamily::Inet6), None);
        assert_eq!(of("0::1", AddressFamily::Inet), None);
        assert_eq!(
            of("127.1", AddressFamily::Inet).as_deref(),
            Some("127.0.0.1")
        );
        assert_eq!(of("0::1", AddressFamily::Inet6).as_deref(), Some("::1"));
    }
}
