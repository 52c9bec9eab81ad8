//! authorized_keys and AuthorizedPrincipalsFile (sshd(8), AUTHORIZED_KEYS FILE FORMAT): their
//! lines, and the permissions of a line in [`KeyOptions`].
//!
//! A line that cannot be parsed completely is refused with a reason and has no effect; a line over
//! the limit is skipped entirely. `monitor` opens the files safely and enforces the options.

#[cfg(test)]
mod tests;

pub use crate::key_options::{KeyOptions, LineError, MergeError, TunnelUnit};
pub(crate) use crate::key_options::{OptionItem, split_item};

use crate::algorithm::KeyType;
use crate::base64;
use crate::error::KeyError;
use crate::lines::{is_blank, lines, split_word, trim_start};
use crate::presented::PresentedKey;
use crate::public_key::PublicKey;
use crate::time::LocalClock;

/// A line that permits a key or an authority.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthorizedKey {
    /// Line number, from 1.
    pub line: usize,
    /// Options before the key.
    pub options: KeyOptions,
    /// The key; with `cert-authority`, that of the authority.
    pub key: PublicKey,
    /// Comment after the key.
    pub comment: String,
}

impl AuthorizedKey {
    /// True if the line applies to this key: the same plain key, or for a certificate, its
    /// authority on a `cert-authority` line.
    #[must_use]
    pub fn matches(&self, presented: &PresentedKey) -> bool {
        match presented.certificate() {
            Some(certificate) => {
                self.options.certificate_authority && *certificate.authority() == self.key
            }
            None => !self.options.certificate_authority && *presented.key() == self.key,
        }
    }
}

/// A line that permits a principal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthorizedPrincipal {
    /// Line number, from 1.
    pub line: usize,
    /// Options before the principal.
    pub options: KeyOptions,
    /// Name of the principal.
    pub principal: String,
}

impl AuthorizedPrincipal {
    /// Checks that the options are allowed before a principal.
    ///
    /// # Errors
    /// [`LineError::BadOption`] for `cert-authority` and `principals=`, which belong to keys. The
    /// principal of such a line must not log in, not even by a later line.
    pub fn check_options(&self) -> Result<(), LineError> {
        let misplaced = |name| LineError::BadOption {
            name,
            why: "is not allowed before a principal",
        };
        if self.options.certificate_authority {
            Err(misplaced("cert-authority"))
        } else if self.options.principals.is_some() {
            Err(misplaced("principals"))
        } else {
            Ok(())
        }
    }
}

/// A line that was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedLine {
    /// Line number, from 1.
    pub line: usize,
    /// Reason.
    pub reason: LineError,
}

/// Parses the lines of an authorized_keys file, without comments and blank lines.
pub fn parse<'f>(
    file: &'f [u8],
    local: LocalClock<'f>,
) -> impl Iterator<Item = Result<AuthorizedKey, RefusedLine>> + 'f {
    text_lines(file).map(move |(line, text)| {
        text.and_then(|text| parse_key_line(line, text, local))
            .map_err(|reason| RefusedLine { line, reason })
    })
}

/// Parses the lines of an AuthorizedPrincipalsFile: optional key options and one name per line.
pub fn parse_principals<'f>(
    file: &'f [u8],
    local: LocalClock<'f>,
) -> impl Iterator<Item = Result<AuthorizedPrincipal, RefusedLine>> + 'f {
    text_lines(file).map(move |(line, text)| {
        text.and_then(|text| parse_principal_line(line, text, local))
            .map_err(|reason| RefusedLine { line, reason })
    })
}

fn text_lines(file: &[u8]) -> impl Iterator<Item = (usize, Result<&str, LineError>)> {
    lines(file).filter_map(|line| {
        let Some(text) = line.text else {
            return Some((line.number, Err(LineError::TooLong)));
        };
        let text = trim_start(text);
        if text.is_empty() || text.starts_with(b"#") {
            return None;
        }
        let text = core::str::from_utf8(text).map_err(|_| LineError::NotUtf8);
        Some((line.number, text))
    })
}

fn parse_key_line(
    line: usize,
    text: &str,
    local: LocalClock<'_>,
) -> Result<AuthorizedKey, LineError> {
    // A line without options begins with a key type, which is not the name of an option.
    let (options, rest) = if KeyType::from_blob_name(first_word(text).as_bytes()).is_some() {
        (KeyOptions::default(), text)
    } else {
        let (options, rest) = split_options(text)?;
        // A line with only an unknown first word is more likely a key of an unknown type than an
        // option.
        if first_word(rest).is_empty() {
            return Err(LineError::NoKey);
        }
        (KeyOptions::parse(options, local)?, rest)
    };
    // Such a line is meant for a certificate; the bare key must not be permitted.
    if options.principals.is_some() && !options.certificate_authority {
        return Err(LineError::BadOption {
            name: "principals",
            why: "is only for lines with cert-authority",
        });
    }
    let (key, comment) = parse_key(rest)?;
    Ok(AuthorizedKey {
        line,
        options,
        key,
        comment: comment.to_owned(),
    })
}

/// `type base64 comment`
fn parse_key(text: &str) -> Result<(PublicKey, &str), LineError> {
    let (name, rest) = split_word(text.as_bytes());
    let (coded, comment) = split_word(rest);
    if coded.is_empty() {
        return Err(LineError::NoKey);
    }
    let blob = base64::decode(coded).ok_or(LineError::NoKey)?;
    let key = PublicKey::from_blob(&blob).map_err(LineError::Key)?;
    if key.key_type().name().as_bytes() != name {
        return Err(LineError::Key(KeyError::Invalid(
            "its type differs from the one written before it",
        )));
    }
    // The text was split at ASCII blanks, so the parts are still UTF-8.
    Ok((key, core::str::from_utf8(comment).unwrap_or_default()))
}

fn parse_principal_line(
    line: usize,
    text: &str,
    local: LocalClock<'_>,
) -> Result<AuthorizedPrincipal, LineError> {
    let text = text.split('#').next().unwrap_or_default();
    let text = text.trim_end_matches([' ', '\t']);
    let (options, principal) = match text.rsplit_once([' ', '\t']) {
        Some((options, principal)) => {
            let (options, rest) = split_options(options)?;
            if !rest.is_empty() {
                return Err(LineError::Syntax);
            }
            (KeyOptions::parse(options, local)?, principal)
        }
        None => (KeyOptions::default(), text),
    };
    if principal.is_empty() {
        return Err(LineError::Syntax);
    }
    Ok(AuthorizedPrincipal {
        line,
        options,
        principal: principal.to_owned(),
    })
}

fn first_word(text: &str) -> &str {
    core::str::from_utf8(split_word(text.as_bytes()).0).unwrap_or_default()
}

/// Splits the options from the rest of the line; they end at the first blank outside quotes.
fn split_options(text: &str) -> Result<(&str, &str), LineError> {
    let end = end_of_options(text.as_bytes()).ok_or(LineError::Syntax)?;
    let (options, rest) = text.split_at_checked(end).ok_or(LineError::Syntax)?;
    Ok((options, rest.trim_start_matches([' ', '\t'])))
}

/// Position at which the options at the start of `text` end: at the first blank outside quotes, or
/// at the end of the line. `None` if a quote is not closed.
pub(crate) fn end_of_options(text: &[u8]) -> Option<usize> {
    let mut quoted = false;
    let mut escaped = false;
    for (at, byte) in text.iter().enumerate() {
        match byte {
            b'"' if !escaped => quoted = !quoted,
            byte if !quoted && is_blank(*byte) => return Some(at),
            _ => {}
        }
        // Only `\"` is an escape; other backslashes are literal.
        escaped = *byte == b'\\' && quoted;
    }
    (!quoted).then_some(text.len())
}
