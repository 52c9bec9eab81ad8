//! `CanonicalizeHostname`: turns a short name into a full one by trying domains, and follows CNAMEs
//! as the rules permit.

use std::net::IpAddr;

use crate::client::types::CnameRule;
use crate::environment::Environment;
use crate::error::ConfigError;
use crate::pattern;

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
