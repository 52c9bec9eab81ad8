//! Compares a presented host key with the recorded ones: the one decision that `ssh`, `scp`, `sftp`
//! and the library share. What follows from it (questions, warnings, a refusal) is the caller's.

use keys::certificate::CertificateRules;
use keys::known_hosts::{HostKeyStatus, KnownKey, KnownTypes, Location};
use keys::{Certificate, CertificateKind, KeyError, KeyType, PresentedKey, SignatureAlgorithm};

use crate::log::{debug1, error};
use crate::text::one_line;

/// What the records say about a presented key.
#[derive(Debug)]
pub enum Finding {
    /// An authority that is trusted for the host signed the certificate, which is valid.
    Authority {
        /// The line with the authority.
        at: Location,
    },
    /// The plain key is recorded for the host.
    Known {
        /// The line with the key.
        at: Location,
    },
    /// The key, or the authority of its certificate, is revoked.
    Revoked {
        /// The revoking line.
        at: Location,
    },
    /// A trusted authority signed the certificate, which is not valid here, and no plain key of its
    /// type is permitted; holds the reason.
    BadCertificate(String),
    /// No trusted authority signed the certificate, and no plain key of its type is permitted.
    NoAuthority,
    /// The host is recorded with other keys of this type.
    Changed(Vec<KnownKey>),
    /// The host is recorded with keys of other types only.
    OtherTypes(Vec<KnownKey>),
    /// The host is not recorded.
    Unknown,
}

/// The rules by which a host key is judged.
#[derive(Debug)]
pub struct HostKeyRules {
    /// The permitted host key algorithms, in the order of preference.
    pub host_key_algorithms: Vec<String>,
    /// The algorithms by which an authority may sign.
    pub authority_algorithms: Vec<SignatureAlgorithm>,
    /// Smallest RSA modulus, bits.
    pub min_rsa_bits: usize,
}

impl HostKeyRules {
    /// Parses the key or certificate that a server presented for an algorithm. Of a certificate that
    /// is not signed with one of `authority_algorithms` it returns the plain key, if the host key
    /// algorithms include one for keys of its type.
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn parse(&self, algorithm: &str, blob: &[u8]) -> Result<PresentedKey, KeyError> {
        let algorithm = SignatureAlgorithm::from_name(algorithm).ok_or(KeyError::WrongAlgorithm)?;
        match PresentedKey::from_blob_permitted(algorithm, blob, &self.authority_algorithms) {
            Err(KeyError::AuthorityAlgorithm) if self.permits_plain(algorithm.key_type()) => {
                error!(
                    "The host certificate is signed with an algorithm that CASignatureAlgorithms \
                     does not permit; its plain key is checked"
                );
                Certificate::certified_key(blob).map(PresentedKey::Plain)
            }
            parsed => parsed,
        }
    }

    /// True if the algorithms include one for plain keys of this type.
    #[must_use]
    pub fn permits_plain(&self, key_type: KeyType) -> bool {
        let mut algorithms = key_type.algorithms().iter();
        algorithms.any(|algorithm| {
            let mut names = self.host_key_algorithms.iter();
            names.any(|name| name == algorithm.name())
        })
    }
}

/// Compares `presented` with the records that `lookup` searches. A certificate must name
/// `principal`, a host in lower case, in the same case and be valid; if it is not, or no authority is known for the host, its plain key
/// decides as if there were no certificate (OpenSSH's check_host_key).
#[must_use]
pub fn assess(
    presented: &PresentedKey,
    principal: &str,
    rules: &HostKeyRules,
    lookup: impl Fn(&PresentedKey) -> HostKeyStatus,
) -> Finding {
    if let Some(finding) = assess_certificate(presented, principal, rules, &lookup) {
        return finding;
    }
    match lookup(&PresentedKey::Plain(presented.key().clone())) {
        HostKeyStatus::Found { at, .. } => Finding::Known { at },
        HostKeyStatus::Revoked { at } => Finding::Revoked { at },
        HostKeyStatus::Changed { known } => Finding::Changed(known),
        HostKeyStatus::OtherTypes { known } => Finding::OtherTypes(known),
        HostKeyStatus::Unknown => Finding::Unknown,
    }
}

/// `None` for a plain key, and for a certificate whose plain key decides.
fn assess_certificate(
    presented: &PresentedKey,
    principal: &str,
    rules: &HostKeyRules,
    lookup: impl Fn(&PresentedKey) -> HostKeyStatus,
) -> Option<Finding> {
    let certificate = presented.certificate()?;
    match lookup(presented) {
        HostKeyStatus::Found {
            at,
            by_authority: true,
        } => {
            // The principals of a host certificate may be patterns; those that match the host, which is
            // in lower case, count.
            let fitting: Vec<&str> = certificate
                .principals()
                .iter()
                .map(String::as_str)
                .filter(|pattern| keys::pattern::matches(principal.as_bytes(), pattern.as_bytes()))
                .collect();
            let outcome = certificate.check(&CertificateRules {
                kind: CertificateKind::Host,
                names: &fitting,
                now: sys::time::realtime_seconds(),
                authority_algorithms: &rules.authority_algorithms,
                min_rsa_bits: rules.min_rsa_bits,
            });
            match outcome {
                Ok(_) => Some(Finding::Authority { at }),
                Err(reason) if rules.permits_plain(presented.key().key_type()) => {
                    let reason = one_line(&reason.to_string());
                    error!(
                        "The host certificate of '{}' is not valid here: {reason}; its plain key is checked",
                        one_line(principal)
                    );
                    None
                }
                Err(reason) => Some(Finding::BadCertificate(reason.to_string())),
            }
        }
        HostKeyStatus::Revoked { at } => Some(Finding::Revoked { at }),
        _ if !rules.permits_plain(presented.key().key_type()) => Some(Finding::NoAuthority),
        _ => {
            debug1!("No known authority signed the host certificate: its plain key is checked");
            None
        }
    }
}

/// The host key algorithms to offer, in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostKeyOffer {
    /// The algorithms' names.
    pub names: Vec<String>,
    /// Number of names at the front that may be reordered and still lead to a known key.
    pub expected: usize,
}

/// Moves the algorithms that lead to a recorded key to the front, so that a known host is
/// recognised.
#[must_use]
pub fn prefer_known(algorithms: &[String], known: &KnownTypes) -> HostKeyOffer {
    let is_known = |name: &String| {
        SignatureAlgorithm::from_name(name).is_some_and(|algorithm| {
            (algorithm.is_certificate() && known.authority)
                || known.plain.contains(&algorithm.key_type())
        })
    };
    let (mut names, rest): (Vec<String>, Vec<String>) =
        algorithms.iter().cloned().partition(is_known);
    let expected = names.len();
    names.extend(rest);
    HostKeyOffer { names, expected }
}
