//! Whether a certificate is valid for somebody now, and what it grants.
//!
//! PROTOCOL.certkeys, "Critical options" and "Extensions". An unknown critical option refuses
//! the certificate, and so does a known option or extension with data that does not belong to
//! it; an unknown extension is passed over; a certificate without principals matches nobody.

use core::fmt;

use crate::address::CidrList;
use crate::algorithm::{KeyType, SignatureAlgorithm};
use crate::certificate::{Certificate, CertificateKind, CertificateOption};
use crate::error::printable;

/// What a certificate is held against.
#[derive(Debug, Clone, Copy)]
pub struct CertificateRules<'a> {
    /// The kind that the place calls for.
    pub kind: CertificateKind,
    /// Names of which one must be among the certificate's principals: the user (or the
    /// principals that the user's configuration admits), or the host.
    pub names: &'a [&'a str],
    /// Seconds since 1970.
    pub now: u64,
    /// Algorithms with which an authority may sign (CASignatureAlgorithms).
    pub authority_algorithms: &'a [SignatureAlgorithm],
    /// Smallest RSA modulus of key and authority, in bits.
    pub min_rsa_bits: usize,
}

/// What a valid user certificate grants and demands. All flags are false for a host's.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CertificateGrants {
    /// `force-command`: run this and nothing else.
    pub force_command: Option<String>,
    /// `source-address`: only from there.
    pub source_address: Option<CidrList>,
    /// `verify-required`: the security key must verify its user.
    pub verify_required: bool,
    /// `no-touch-required`: the security key need not be touched.
    pub no_touch_required: bool,
    /// `permit-X11-forwarding`
    pub permit_x11_forwarding: bool,
    /// `permit-agent-forwarding`
    pub permit_agent_forwarding: bool,
    /// `permit-port-forwarding`
    pub permit_port_forwarding: bool,
    /// `permit-pty`
    pub permit_pty: bool,
    /// `permit-user-rc`
    pub permit_user_rc: bool,
}

/// Why a certificate is not accepted here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CertificateError {
    /// A user's where a host's belongs, or the other way round.
    WrongKind,
    /// Its time has not come.
    NotYetValid,
    /// Its time is over.
    Expired,
    /// It names no principal.
    NoPrincipals,
    /// None of its principals is among the names.
    PrincipalMismatch,
    /// The authority signed with an algorithm that is not allowed.
    AuthorityAlgorithm(SignatureAlgorithm),
    /// An RSA key in it is too small.
    KeyTooSmall,
    /// A critical option that is unknown, or has no meaning for this kind; escaped.
    UnknownCriticalOption(String),
    /// A known option with a content that makes no sense; its name.
    BadOption(&'static str),
}

impl fmt::Display for CertificateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WrongKind => f.write_str("certificate is of the wrong kind (user or host)"),
            Self::NotYetValid => f.write_str("certificate is not yet valid"),
            Self::Expired => f.write_str("certificate has expired"),
            Self::NoPrincipals => f.write_str("certificate names no principal"),
            Self::PrincipalMismatch => f.write_str("certificate does not name this principal"),
            Self::AuthorityAlgorithm(algorithm) => {
                write!(
                    f,
                    "certificate is signed with {algorithm}, which is not allowed"
                )
            }
            Self::KeyTooSmall => f.write_str("an RSA key of the certificate is too small"),
            Self::UnknownCriticalOption(name) => {
                write!(
                    f,
                    "certificate has the unsupported critical option \"{name}\""
                )
            }
            Self::BadOption(name) => write!(f, "certificate's option {name} is malformed"),
        }
    }
}

impl std::error::Error for CertificateError {}

impl Certificate {
    /// Holds the certificate against `rules`.
    ///
    /// # Errors
    /// The first [`CertificateError`] that applies.
    pub fn check(
        &self,
        rules: &CertificateRules<'_>,
    ) -> Result<CertificateGrants, CertificateError> {
        if self.kind() != rules.kind {
            return Err(CertificateError::WrongKind);
        }
        let algorithm = self.signature_algorithm();
        if !rules.authority_algorithms.contains(&algorithm) {
            return Err(CertificateError::AuthorityAlgorithm(algorithm));
        }
        for key in [self.key(), self.authority()] {
            if key.key_type() == KeyType::Rsa && key.bits() < rules.min_rsa_bits {
                return Err(CertificateError::KeyTooSmall);
            }
        }
        if rules.now < self.valid_after() {
            return Err(CertificateError::NotYetValid);
        }
        if rules.now >= self.valid_before() {
            return Err(CertificateError::Expired);
        }
        self.check_principals(rules)?;
        match self.kind() {
            CertificateKind::User => self.user_grants(),
            // No critical option has a meaning for hosts.
            CertificateKind::Host => match self.critical_options().first() {
                Some(option) => Err(unknown(option)),
                None => Ok(CertificateGrants::default()),
            },
        }
    }

    fn check_principals(&self, rules: &CertificateRules<'_>) -> Result<(), CertificateError> {
        if self.principals().is_empty() {
            return Err(CertificateError::NoPrincipals);
        }
        let same = |principal: &str, name: &str| match self.kind() {
            CertificateKind::User => principal == name,
            CertificateKind::Host => principal.eq_ignore_ascii_case(name),
        };
        let named = self.principals().iter().any(|principal| {
            !principal.is_empty() && rules.names.iter().any(|name| same(principal, name))
        });
        if named {
            Ok(())
        } else {
            Err(CertificateError::PrincipalMismatch)
        }
    }

    fn user_grants(&self) -> Result<CertificateGrants, CertificateError> {
        let mut grants = CertificateGrants::default();
        for option in self.critical_options() {
            match option.name.as_str() {
                "force-command" => {
                    let command = option
                        .text()
                        .ok_or(CertificateError::BadOption("force-command"))?;
                    grants.force_command = Some(command.to_owned());
                }
                "source-address" => {
                    let list = option
                        .text()
                        .and_then(|text| CidrList::parse(text).ok())
                        .ok_or(CertificateError::BadOption("source-address"))?;
                    grants.source_address = Some(list);
                }
                "verify-required" => {
                    without_data(option, "verify-required")?;
                    grants.verify_required = true;
                }
                _ => return Err(unknown(option)),
            }
        }
        for extension in self.extensions() {
            let (name, grant): (&'static str, &mut bool) = match extension.name.as_str() {
                "permit-X11-forwarding" => {
                    ("permit-X11-forwarding", &mut grants.permit_x11_forwarding)
                }
                "permit-agent-forwarding" => (
                    "permit-agent-forwarding",
                    &mut grants.permit_agent_forwarding,
                ),
                "permit-port-forwarding" => {
                    ("permit-port-forwarding", &mut grants.permit_port_forwarding)
                }
                "permit-pty" => ("permit-pty", &mut grants.permit_pty),
                "permit-user-rc" => ("permit-user-rc", &mut grants.permit_user_rc),
                "no-touch-required" => ("no-touch-required", &mut grants.no_touch_required),
                _ => continue,
            };
            without_data(extension, name)?;
            *grant = true;
        }
        Ok(grants)
    }
}

/// Refuses data in an option that is a mere flag: what it was meant to limit is not known.
fn without_data(option: &CertificateOption, name: &'static str) -> Result<(), CertificateError> {
    if option.data.is_empty() {
        Ok(())
    } else {
        Err(CertificateError::BadOption(name))
    }
}

fn unknown(option: &CertificateOption) -> CertificateError {
    CertificateError::UnknownCriticalOption(printable(option.name.as_bytes()))
}
