//! Why a key that was found lets nobody in, and the lines of the log about it. The client learns
//! nothing: to it the key is one that was not found.

use keys::candidate::CandidateKey;
use keys::certificate::CertificateError;
use privsep::LogLevel;

use super::{Lookup, hash_of};

/// A limit of a key or a certificate that this login does not keep.
pub(super) enum KeyLimit {
    /// `expiry-time` has passed.
    Expired,
    /// The client's host is not among those of `from`, which is the value.
    Host(String),
    /// The client's address is not among a certificate's source addresses.
    SourceAddress,
}

/// Why a line, or the certificate of an authority, lets nobody in.
pub(super) struct Refusal {
    /// The limit, which has a line of its own.
    limit: Option<KeyLimit>,
    /// In OpenSSH's words, where it has some.
    reason: String,
    of_certificate: bool,
}

impl Refusal {
    /// The options of a line, not those of a certificate, refuse.
    pub(super) fn by_options(limit: KeyLimit, reason: &str) -> Self {
        Self {
            limit: Some(limit),
            reason: reason.to_owned(),
            of_certificate: false,
        }
    }

    /// A certificate is refused for `reason`.
    pub(super) fn of_certificate(reason: impl Into<String>) -> Self {
        Self {
            limit: None,
            reason: reason.into(),
            of_certificate: true,
        }
    }

    /// A certificate is refused because it, or the line of its principal, has a limit.
    pub(super) fn limits_certificate(limit: KeyLimit, reason: &str) -> Self {
        Self {
            limit: Some(limit),
            ..Self::of_certificate(reason)
        }
    }
}

impl From<CertificateError> for Refusal {
    fn from(error: CertificateError) -> Self {
        Self::of_certificate(match error {
            CertificateError::WrongKind => "Certificate invalid: not a user certificate".to_owned(),
            CertificateError::NotYetValid => "Certificate invalid: not yet valid".to_owned(),
            CertificateError::Expired => "Certificate invalid: expired".to_owned(),
            CertificateError::NoPrincipals => "Certificate lacks principal list".to_owned(),
            CertificateError::PrincipalMismatch => {
                "Certificate invalid: name is not a listed principal".to_owned()
            }
            other => other.to_string(),
        })
    }
}

impl Lookup<'_> {
    /// Logs why the line at `place` lets nobody in, for a user who may log in.
    pub(super) fn log_refusal(&self, refusal: &Refusal, place: &str, candidate: &CandidateKey) {
        self.log_limit(refusal, place);
        let reason = &refusal.reason;
        if refusal.of_certificate {
            self.log_refused_certificate(&format!(" via {place}: {reason}"), candidate);
        } else if self.valid {
            self.log.error(&format!("{reason} at {place}"));
        }
    }

    /// Logs why a certificate of an authority in TrustedUserCAKeys lets nobody in. `place` is what
    /// has a limit: the certificate, or a line of principals.
    pub(super) fn log_refusal_of_trusted(
        &self,
        refusal: &Refusal,
        place: &str,
        candidate: &CandidateKey,
    ) {
        self.log_limit(refusal, place);
        self.log_refused_certificate(&format!(": {}", refusal.reason), candidate);
    }

    fn log_limit(&self, refusal: &Refusal, place: &str) {
        let (Some(limit), true) = (&refusal.limit, self.valid) else {
            return;
        };
        let (user, peer) = (&self.account.name, self.peer);
        let (level, text) = match limit {
            KeyLimit::Expired => (LogLevel::Debug1, "entry expired".to_owned()),
            KeyLimit::Host(required) => (
                LogLevel::Info,
                format!(
                    "Authentication tried for {user} with correct key but not from a permitted \
                     host (host={}, ip={}, required={required}).",
                    peer.host, peer.address
                ),
            ),
            KeyLimit::SourceAddress => (
                LogLevel::Info,
                format!(
                    "Authentication tried for {user} with valid certificate but not from a \
                     permitted source address ({}).",
                    peer.address
                ),
            ),
        };
        self.log.line(level, &format!("{place}: {text}"));
    }

    fn log_refused_certificate(&self, why: &str, candidate: &CandidateKey) {
        let (Some(certificate), true) = (candidate.key().certificate(), self.valid) else {
            return;
        };
        let authority = certificate.authority();
        let hash = hash_of(&self.options.logging);
        self.log.error(&format!(
            "Refusing certificate ID \"{}\" serial={} signed by {} CA {}{why}",
            String::from_utf8_lossy(certificate.key_id()),
            certificate.serial(),
            authority.key_type().label(),
            keys::fingerprint::of_blob(&authority.blob(), hash),
        ));
    }
}
