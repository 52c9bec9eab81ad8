//! Validity of a certificate for a name and a time, and the permissions that it grants.
//!
//! PROTOCOL.certkeys, "Critical options" and "Extensions". An unknown critical option invalidates
//! the certificate, and so does a known option or extension with unexpected data; an unknown
//! extension is ignored; a certificate without principals is valid for no name.

use core::fmt;

use crate::address::CidrList;
use crate::algorithm::{KeyType, SignatureAlgorithm};
use crate::certificate::{Certificate, CertificateKind, CertificateOption};
use crate::error::printable;
use crate::key_options::KeyOptions;
use wire::permissions::Permission;

/// The critical option that forces a command.
pub const FORCE_COMMAND: &str = "force-command";
/// The critical option that lists the networks from which the key may be used.
pub const SOURCE_ADDRESS: &str = "source-address";
/// The critical option that requires a security key to verify its user.
pub const VERIFY_REQUIRED: &str = "verify-required";
/// The critical options of user certificates; any other refuses the certificate.
pub const CRITICAL_OPTIONS: [&str; 3] = [FORCE_COMMAND, SOURCE_ADDRESS, VERIFY_REQUIRED];
/// The extension with which a security key need not be touched. The other extensions are those of
/// [`Permission`].
pub const NO_TOUCH_REQUIRED: &str = "no-touch-required";

/// The conditions that a certificate is checked against.
#[derive(Debug, Clone, Copy)]
pub struct CertificateRules<'a> {
    /// Required kind of certificate.
    pub kind: CertificateKind,
    /// Names of which the certificate must list one as a principal: the user (or the principals
    /// that the user's configuration permits), or the host.
    pub names: &'a [&'a str],
    /// Current time in seconds since 1970.
    pub now: u64,
    /// Algorithms with which an authority may sign (CASignatureAlgorithms).
    pub authority_algorithms: &'a [SignatureAlgorithm],
    /// Smallest RSA modulus of key and authority, in bits.
    pub min_rsa_bits: usize,
}

/// Why a certificate is not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CertificateError {
    /// A user certificate where a host certificate is required, or the reverse.
    WrongKind,
    /// Its validity has not begun.
    NotYetValid,
    /// Its validity has ended.
    Expired,
    /// It lists no principal.
    NoPrincipals,
    /// None of the names is among its principals.
    PrincipalMismatch,
    /// The authority signed with an algorithm that is not allowed.
    AuthorityAlgorithm(SignatureAlgorithm),
    /// An RSA key in it is too small.
    KeyTooSmall,
    /// A critical option that is unknown, or not defined for this kind; the name is escaped.
    UnknownCriticalOption(String),
    /// A known option with malformed data; its name.
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
    /// Checks the certificate against `rules` and returns its permissions: for a host certificate
    /// [`KeyOptions::nothing`].
    ///
    /// # Errors
    /// The first [`CertificateError`] that applies.
    pub fn check(&self, rules: &CertificateRules<'_>) -> Result<KeyOptions, CertificateError> {
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
            // No critical option is defined for hosts.
            CertificateKind::Host => match self.critical_options().first() {
                Some(option) => Err(unknown(option)),
                None => Ok(KeyOptions::nothing()),
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

    fn user_grants(&self) -> Result<KeyOptions, CertificateError> {
        let mut grants = KeyOptions::nothing();
        for option in self.critical_options() {
            match option.name.as_str() {
                FORCE_COMMAND => {
                    let command = option
                        .text()
                        .ok_or(CertificateError::BadOption(FORCE_COMMAND))?;
                    grants.force_command = Some(command.to_owned());
                }
                SOURCE_ADDRESS => {
                    let list = option
                        .text()
                        .and_then(|text| CidrList::parse(text).ok())
                        .ok_or(CertificateError::BadOption(SOURCE_ADDRESS))?;
                    grants.source_address = Some(list);
                }
                VERIFY_REQUIRED => {
                    without_data(option, VERIFY_REQUIRED)?;
                    grants.verify_required = true;
                }
                _ => return Err(unknown(option)),
            }
        }
        for extension in self.extensions() {
            if let Some(permission) = Permission::of_extension(&extension.name) {
                without_data(extension, permission.extension())?;
                grants.permissions.set(permission, true);
            } else if extension.name == NO_TOUCH_REQUIRED {
                without_data(extension, NO_TOUCH_REQUIRED)?;
                grants.no_touch_required = true;
            }
        }
        grants.restricted = !grants.permissions.permits(Permission::PortForwarding);
        Ok(grants)
    }
}

/// Rejects data in an option without a value: the intended restriction is unknown.
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
