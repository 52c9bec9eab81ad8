//! Allowed signers files (ssh-keygen(1), ALLOWED SIGNERS): one line per key, with its principals,
//! its options, and the key.
//!
//! A line that cannot be parsed completely is an error and permits nothing; lines that do not name
//! the requested principal are skipped without being parsed further.

use core::fmt;

use crate::algorithm::SignatureAlgorithm;
use crate::authorized_keys::{LineError, OptionItem, end_of_options, split_item};
use crate::certificate::{Certificate, CertificateError, CertificateKind, CertificateRules};
use crate::error::KeyError;
use crate::lines::{lines, split_word, trim_start};
use crate::pattern::{self, Case};
use crate::presented::PresentedKey;
use crate::public_file;
use crate::time::{LocalClock, parse_absolute};

/// Longest file that is read, in bytes.
pub const MAX_FILE_BYTES: u64 = 64 * 1024 * 1024;
/// Smallest RSA modulus of a certificate for signing files, in bits, as in ssh-keygen.
const MIN_RSA_BITS: usize = 1024;

/// A line of an allowed signers file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedSigner {
    /// Line number, from 1.
    pub line: usize,
    /// Comma-separated patterns of principals, without enclosing quotes.
    pub principals: Vec<u8>,
    /// `cert-authority`: the key signs certificates of signers.
    pub authority: bool,
    /// `namespaces=`: comma-separated patterns.
    pub namespaces: Option<String>,
    /// `valid-after=`, in seconds since 1970.
    pub valid_after: Option<u64>,
    /// `valid-before=`, in seconds since 1970, inclusive.
    pub valid_before: Option<u64>,
    /// The key, or the certificate if the line has one.
    pub key: PresentedKey,
}

/// A line that cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadLine {
    /// Line number, from 1.
    pub line: usize,
    /// Reason.
    pub reason: BadLineReason,
}

/// Why a line cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BadLineReason {
    /// The line exceeds the limit, which leaves room for any key with options.
    TooLong,
    /// Unbalanced quotes in principals or options.
    Quotes,
    /// The line has no key.
    NoKey,
    /// The key is invalid.
    Key(KeyError),
    /// The options are invalid.
    Options(LineError),
}

impl fmt::Display for BadLineReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => f.write_str("line is too long"),
            Self::Quotes => f.write_str("invalid options"),
            Self::NoKey => f.write_str("missing key"),
            Self::Key(error) => write!(f, "{error}"),
            Self::Options(error) => write!(f, "bad options: {error}"),
        }
    }
}

/// Why the key of a matching line may not make a signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotPermitted {
    /// The certificate is not valid for the principal.
    Certificate(CertificateError),
    /// The certificate is not valid for any principal of the line.
    NoPrincipals,
    /// The namespace does not match the line's namespaces.
    Namespace,
    /// Before `valid-after=`, in seconds since 1970.
    NotYetValid(u64),
    /// After `valid-before=`, in seconds since 1970.
    Expired(u64),
}

/// Parses the lines of `file`, without blank lines and comments; with `principal` only lines that
/// name it.
pub fn signers<'f>(
    file: &'f [u8],
    principal: Option<&'f [u8]>,
    local: LocalClock<'f>,
) -> impl Iterator<Item = Result<AllowedSigner, BadLine>> + 'f {
    lines(file).filter_map(move |line| {
        let number = line.number;
        let bad = move |reason| BadLine {
            line: number,
            reason,
        };
        let Some(text) = line.text.map(trim_start) else {
            return Some(Err(bad(BadLineReason::TooLong)));
        };
        if text.is_empty() || text.starts_with(b"#") {
            return None;
        }
        let Some((principals, rest)) = split_principals(text) else {
            return Some(Err(bad(BadLineReason::Quotes)));
        };
        let is_requested = |name| pattern::match_list(name, principals, Case::Sensitive).is_yes();
        principal
            .is_none_or(is_requested)
            .then(|| signer(number, principals, rest, local).map_err(bad))
    })
}

/// Splits off the first word, which may be quoted.
fn split_principals(text: &[u8]) -> Option<(&[u8], &[u8])> {
    match text.strip_prefix(b"\"") {
        None => Some(split_word(text)),
        Some(quoted) => {
            let end = quoted.iter().position(|byte| *byte == b'"')?;
            let (name, rest) = quoted.split_at_checked(end)?;
            Some((name, trim_start(rest.strip_prefix(b"\"")?)))
        }
    }
}

fn signer(
    line: usize,
    principals: &[u8],
    rest: &[u8],
    local: LocalClock<'_>,
) -> Result<AllowedSigner, BadLineReason> {
    let plain = |key| AllowedSigner {
        line,
        principals: principals.to_vec(),
        authority: false,
        namespaces: None,
        valid_after: None,
        valid_before: None,
        key,
    };
    if let Ok(file) = public_file::parse_line(rest) {
        return Ok(plain(file.key));
    }
    // A line that does not parse as a key starts with options; a comment after the key need not be
    // UTF-8.
    let end = end_of_options(rest).ok_or(BadLineReason::Quotes)?;
    let (options, coded) = rest.split_at_checked(end).unwrap_or_default();
    if coded.is_empty() {
        return Err(BadLineReason::NoKey);
    }
    let file = public_file::parse_line(coded).map_err(BadLineReason::Key)?;
    let mut signer = plain(file.key);
    signer
        .read_options(options, local)
        .map_err(BadLineReason::Options)?;
    Ok(signer)
}

impl AllowedSigner {
    fn read_options(&mut self, options: &[u8], local: LocalClock<'_>) -> Result<(), LineError> {
        let mut rest = core::str::from_utf8(options).map_err(|_| LineError::NotUtf8)?;
        while !rest.is_empty() {
            let (item, after) = split_item(rest)?;
            self.apply(&item, local)?;
            rest = match after.strip_prefix(',') {
                Some("") => return Err(LineError::Syntax),
                Some(next) => next,
                None => after,
            };
        }
        match (self.valid_after, self.valid_before) {
            (Some(after), Some(before)) if before <= after => Err(LineError::BadOption {
                name: "valid-before",
                why: "is not after valid-after",
            }),
            _ => Ok(()),
        }
    }

    fn apply(&mut self, item: &OptionItem<'_>, local: LocalClock<'_>) -> Result<(), LineError> {
        let time = |name| {
            let why = "is not a time";
            parse_absolute(&item.value(name)?, local)
                .filter(|seconds| *seconds != 0)
                .ok_or(LineError::BadOption { name, why })
        };
        let once = |name, is_first| match is_first {
            true => Ok(()),
            false => Err(LineError::BadOption {
                name,
                why: "is given twice",
            }),
        };
        match item.name.to_ascii_lowercase().as_str() {
            "cert-authority" => {
                item.no_value("cert-authority")?;
                self.authority = true;
            }
            "namespaces" => {
                once("namespaces", self.namespaces.is_none())?;
                self.namespaces = Some(item.value("namespaces")?);
            }
            "valid-after" => {
                once("valid-after", self.valid_after.is_none())?;
                self.valid_after = Some(time("valid-after")?);
            }
            "valid-before" => {
                once("valid-before", self.valid_before.is_none())?;
                self.valid_before = Some(time("valid-before")?);
            }
            _ => {
                let name = crate::error::printable(item.name.as_bytes());
                return Err(LineError::UnknownOption(name));
            }
        }
        Ok(())
    }

    /// Returns the principals for which `key` may sign at `time` (seconds since 1970) by this line:
    /// `principal`; or without one, the certificate's principals that the line names, or the line's
    /// patterns. `None` if the line is about another key. Without `namespace` any namespace is
    /// accepted.
    ///
    /// # Errors
    /// [`NotPermitted`]
    pub fn permits(
        &self,
        key: &PresentedKey,
        principal: Option<&str>,
        namespace: Option<&[u8]>,
        time: u64,
    ) -> Result<Option<Vec<String>>, NotPermitted> {
        let names = match key.certificate() {
            _ if !self.authority && self.key == *key => self
                .principals
                .split(|byte| *byte == b',')
                .map(|name| String::from_utf8_lossy(name).into_owned())
                .collect(),
            Some(certificate) if self.authority && certificate.authority() == self.key.key() => {
                self.certified_principals(certificate, principal, time)?
            }
            _ => return Ok(None),
        };
        if let (Some(list), Some(namespace)) = (&self.namespaces, namespace)
            && !pattern::match_list(namespace, list.as_bytes(), Case::Sensitive).is_yes()
        {
            return Err(NotPermitted::Namespace);
        }
        match (self.valid_after, self.valid_before) {
            (Some(after), _) if time < after => Err(NotPermitted::NotYetValid(after)),
            (_, Some(before)) if time > before => Err(NotPermitted::Expired(before)),
            _ => Ok(Some(names)),
        }
    }

    fn certified_principals(
        &self,
        certificate: &Certificate,
        principal: Option<&str>,
        time: u64,
    ) -> Result<Vec<String>, NotPermitted> {
        let check = |name: &str| {
            certificate.check(&CertificateRules {
                kind: CertificateKind::User,
                names: &[name],
                now: time,
                authority_algorithms: SignatureAlgorithm::WITHOUT_SHA1,
                min_rsa_bits: MIN_RSA_BITS,
            })
        };
        if let Some(principal) = principal {
            check(principal).map_err(NotPermitted::Certificate)?;
            return Ok(vec![principal.to_owned()]);
        }
        let matches_line = |name: &str| {
            let mut patterns = self.principals.split(|byte| *byte == b',');
            patterns.any(|pattern| pattern::matches(name.as_bytes(), pattern))
        };
        let names = certificate.principals().iter();
        let names = names.filter(|name| matches_line(name) && check(name).is_ok());
        let names: Vec<String> = names.cloned().collect();
        if names.is_empty() {
            return Err(NotPermitted::NoPrincipals);
        }
        Ok(names)
    }
}

#[cfg(test)]
mod tests;
