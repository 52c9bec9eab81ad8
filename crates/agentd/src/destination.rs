//! Destination constraints (OpenSSH PROTOCOL.agent §2): each hop of a connection's path must be
//! permitted by one of a key's constraints.

use agent::constraint::{DestinationConstraint, Hop};
use keys::certificate::CertificateRules;
use keys::{CertificateKind, PresentedKey, SignatureAlgorithm, pattern};

use crate::bindings::Bindings;

/// Smallest modulus of an authority's key.
const MIN_RSA_BITS: usize = 1024;

/// Why a key cannot be used over a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotPermitted {
    /// An attempt to bind the connection has failed.
    FailedBinding,
    /// The last hop is a forwarding, and no login was bound.
    SignsOnForwarding,
    /// A login is bound before the last hop.
    ForwardsAfterLogin,
    /// No constraint permits a hop, or the user there.
    Hop,
    /// The key may log in to the last host, and not be used from there.
    NotBeyond,
}

impl std::fmt::Display for NotPermitted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::FailedBinding => "the connection could not be bound to its session",
            Self::SignsOnForwarding => "no login is bound after the forwarding",
            Self::ForwardsAfterLogin => "a login is bound before a forwarding",
            Self::Hop => "its constraints do not permit this destination",
            Self::NotBeyond => "its constraints do not permit its use from this host",
        })
    }
}

/// Checks whether a key with these constraints may be seen, or with a `user` also sign for a login
/// as that user, over a connection with these bindings. `now` is the time in seconds since 1970.
/// A key without constraints is permitted everywhere, and any key on a connection that was never
/// bound, as far as this check goes: a signature needs a binding.
pub(crate) fn check(
    constraints: &[DestinationConstraint],
    bindings: &Bindings,
    user: Option<&[u8]>,
    now: u64,
) -> Result<(), NotPermitted> {
    if constraints.is_empty() {
        return Ok(());
    }
    if bindings.has_failed() {
        return Err(NotPermitted::FailedBinding);
    }
    let Some((last, earlier)) = bindings.hops().split_last() else {
        return Ok(());
    };
    let mut from = None;
    for hop in earlier {
        if !hop.is_forwarding {
            return Err(NotPermitted::ForwardsAfterLogin);
        }
        if !is_permitted(constraints, from, Some(&hop.host), None, now) {
            return Err(NotPermitted::Hop);
        }
        from = Some(&hop.host);
    }
    if last.is_forwarding && user.is_some() {
        return Err(NotPermitted::SignsOnForwarding);
    }
    if !is_permitted(constraints, from, Some(&last.host), user, now) {
        return Err(NotPermitted::Hop);
    }
    // A key that may only log in to the last host is of no use there, and is not shown.
    if last.is_forwarding && !is_permitted(constraints, Some(&last.host), None, None, now) {
        return Err(NotPermitted::NotBeyond);
    }
    Ok(())
}

fn is_permitted(
    constraints: &[DestinationConstraint],
    from: Option<&PresentedKey>,
    to: Option<&PresentedKey>,
    user: Option<&[u8]>,
    now: u64,
) -> bool {
    constraints.iter().any(|constraint| {
        let begins = match from {
            None => constraint.from.host.is_empty() && constraint.from.keys.is_empty(),
            Some(host) => is_host(host, &constraint.from, now),
        };
        let ends = to.is_none_or(|host| is_host(host, &constraint.to, now));
        let pattern = constraint.to.user.as_bytes();
        let may_be_user =
            pattern.is_empty() || user.is_none_or(|user| pattern::matches(user, pattern));
        begins && ends && may_be_user
    })
}

/// True if a host key, or a certificate for the hop's host, is among the hop's keys.
fn is_host(host: &PresentedKey, hop: &Hop, now: u64) -> bool {
    let (blob, is_authority) = match host.certificate() {
        None => (host.blob(), false),
        Some(certificate) => (certificate.authority().blob(), true),
    };
    let is_listed = hop
        .keys
        .iter()
        .any(|key| key.is_authority == is_authority && key.blob == blob);
    is_listed
        && host.certificate().is_none_or(|certificate| {
            let rules = CertificateRules {
                kind: CertificateKind::Host,
                names: &[&hop.host],
                now,
                authority_algorithms: SignatureAlgorithm::WITHOUT_SHA1,
                min_rsa_bits: MIN_RSA_BITS,
            };
            certificate.check(&rules).is_ok()
        })
}
