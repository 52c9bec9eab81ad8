//! Public key files: the one-line format of `.pub` files, RFC 4716, and PEM (PKCS#8
//! SubjectPublicKeyInfo, and PKCS#1 for RSA).
//!
//! [`crate::authorized_keys`] parses lines with options.

use std::io::Read;
use std::path::Path;

use crate::base64;
use crate::der::{self, BadDer, DerReader, oid};
use crate::error::KeyError;
use crate::lines::{lines, split_word, trim_start};
use crate::pem;
use crate::presented::PresentedKey;
use crate::public_key::{EcCurve, PublicKey, check_point, check_rsa};
use crate::rfc4716::armored;

/// Largest public key file that is read, in bytes.
pub const MAX_FILE_BYTES: u64 = 1024 * 1024;

const RFC4716_BEGIN: &str = "---- BEGIN SSH2 PUBLIC KEY ----";
const RFC4716_END: &str = "---- END SSH2 PUBLIC KEY ----";
/// RFC 4716 §3.1 allows 72 characters per line; ssh-keygen writes 70.
const RFC4716_WIDTH: usize = 70;
const PEM_WIDTH: usize = 64;
const LABEL_PKCS8: &str = "PUBLIC KEY";
const LABEL_PKCS1: &str = "RSA PUBLIC KEY";

/// A public key or certificate, and its file's comment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicKeyFile {
    /// The key.
    pub key: PresentedKey,
    /// The comment; empty if there is none.
    pub comment: String,
}

/// Reads a file's bytes.
///
/// # Errors
/// Errors of the file system; [`std::io::ErrorKind::FileTooLarge`] above [`MAX_FILE_BYTES`].
pub fn load(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)?
        .take(MAX_FILE_BYTES + 1)
        .read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).is_ok_and(|len| len > MAX_FILE_BYTES) {
        return Err(std::io::ErrorKind::FileTooLarge.into());
    }
    Ok(bytes)
}

/// Parses a file in the one-line format and returns the first line that is a key, as OpenSSH does.
///
/// # Errors
/// If no line is a key, the [`KeyError`] of the first line that is not a comment.
pub fn parse(file: &[u8]) -> Result<PublicKeyFile, KeyError> {
    let mut first_error = None;
    let texts = lines(file).filter_map(|line| line.text.map(trim_start));
    for text in texts.filter(|text| !text.is_empty() && !text.starts_with(b"#")) {
        match parse_line(text) {
            Ok(key) => return Ok(key),
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    Err(first_error.unwrap_or(KeyError::Invalid("file holds no key")))
}

/// Parses `type base64 comment`.
///
/// # Errors
/// [`KeyError`]; the type must be that of the blob.
pub fn parse_line(text: &[u8]) -> Result<PublicKeyFile, KeyError> {
    let (name, rest) = split_word(trim_start(text));
    let (coded, comment) = split_word(rest);
    if coded.is_empty() {
        return Err(KeyError::Invalid("line holds no key"));
    }
    let blob = base64::decode(coded).ok_or(KeyError::Invalid("key is not base64"))?;
    if wire::Reader::new(&blob).string()? != name {
        return Err(KeyError::Invalid(
            "its type differs from the one written before it",
        ));
    }
    Ok(PublicKeyFile {
        key: PresentedKey::from_blob(&blob)?,
        comment: String::from_utf8_lossy(comment).trim_end().to_owned(),
    })
}

/// Formats `type base64 comment` without line end. The comment is escaped ([`escape::one_line`]): a
/// newline in it would start a second line, which authorized_keys would accept as another key.
#[must_use]
pub fn to_line(key: &PresentedKey, comment: &str) -> String {
    let mut line = format!("{} {}", key.blob_name(), base64::encode(&key.blob()));
    if !comment.is_empty() {
        line.push(' ');
        line.push_str(&escape::one_line(comment));
    }
    line
}

/// Encodes as RFC 4716, with the comment in quotes and cut to the line limit.
#[must_use]
pub fn to_rfc4716(key: &PresentedKey, comment: &str) -> String {
    let room = RFC4716_WIDTH - "Comment: \"\"".len();
    let whole = escape::escape(comment, escape::Style::Quoted);
    let comment = match whole.len() <= room {
        true => whole,
        false => escape::escape_at_most(comment, escape::Style::Quoted, room - "...".len()),
    };
    format!(
        "{RFC4716_BEGIN}\nComment: \"{comment}\"\n{}{RFC4716_END}\n",
        *base64::encode_lines(&key.blob(), RFC4716_WIDTH)
    )
}

/// Parses RFC 4716. Headers other than the comment are ignored.
///
/// # Errors
/// [`KeyError`].
pub fn parse_rfc4716(file: &[u8]) -> Result<PublicKeyFile, KeyError> {
    let (blob, comment) = armored(file, RFC4716_BEGIN, RFC4716_END)?;
    Ok(PublicKeyFile {
        key: PresentedKey::from_blob(&blob)?,
        comment,
    })
}

/// Encodes as PEM of SubjectPublicKeyInfo (RFC 5280 §4.1.2.7); `None` for security keys
/// and ML-DSA-44 with Ed25519, for which OpenSSH has no such form.
#[must_use]
pub fn to_pkcs8(key: &PublicKey) -> Option<String> {
    let identifier = |oid: &[u8]| der::element(der::OBJECT_IDENTIFIER, &[oid]);
    let (algorithm, bits) = match key {
        PublicKey::Ed25519 { point } => (
            der::element(der::SEQUENCE, &[&identifier(oid::ED25519)]),
            der::bit_string(point),
        ),
        PublicKey::Ecdsa { curve, point } => {
            let parts: [&[u8]; 2] = [&identifier(oid::EC_PUBLIC_KEY), &identifier(curve.oid())];
            (der::element(der::SEQUENCE, &parts), der::bit_string(point))
        }
        PublicKey::Rsa { exponent, modulus } => {
            let parts: [&[u8]; 2] = [
                &identifier(oid::RSA_ENCRYPTION),
                &der::element(der::NULL, &[]),
            ];
            (
                der::element(der::SEQUENCE, &parts),
                der::bit_string(&pkcs1(exponent, modulus)),
            )
        }
        PublicKey::SkEd25519 { .. }
        | PublicKey::SkEcdsaP256 { .. }
        | PublicKey::MlDsa44Ed25519 { .. } => return None,
    };
    let whole = der::element(der::SEQUENCE, &[&algorithm, &bits]);
    Some(pem::write(LABEL_PKCS8, &[], &whole, PEM_WIDTH).to_string())
}

/// Encodes as PEM like `ssh-keygen -e -m PEM`: PKCS#1 for RSA, else [`to_pkcs8`].
#[must_use]
pub fn to_pem(key: &PublicKey) -> Option<String> {
    match key {
        PublicKey::Rsa { exponent, modulus } => {
            let body = pkcs1(exponent, modulus);
            Some(pem::write(LABEL_PKCS1, &[], &body, PEM_WIDTH).to_string())
        }
        _ => to_pkcs8(key),
    }
}

fn pkcs1(exponent: &[u8], modulus: &[u8]) -> zeroize::Zeroizing<Vec<u8>> {
    der::element(
        der::SEQUENCE,
        &[&der::integer(modulus), &der::integer(exponent)],
    )
}

/// Parses either PEM format.
///
/// # Errors
/// [`KeyError`].
pub fn parse_pem(file: &[u8]) -> Result<PublicKey, KeyError> {
    let block = pem::find(file, |label| matches!(label, LABEL_PKCS8 | LABEL_PKCS1))
        .ok_or(KeyError::Invalid("file holds no PEM public key"))?;
    let malformed = |BadDer| KeyError::Invalid("damaged PEM public key");
    let key = if block.label == LABEL_PKCS1 {
        read_pkcs1(&block.body).map_err(malformed)?
    } else {
        read_spki(&block.body).map_err(malformed)?
    };
    match &key {
        PublicKey::Rsa { exponent, modulus } => check_rsa(exponent, modulus)?,
        PublicKey::Ecdsa { curve, point } => check_point(*curve, point)?,
        _ => {}
    }
    Ok(key)
}

fn read_pkcs1(body: &[u8]) -> Result<PublicKey, BadDer> {
    let mut outer = DerReader::new(body);
    let mut fields = outer.sequence()?;
    outer.finish()?;
    let (modulus, exponent) = (fields.integer()?, fields.integer()?);
    fields.finish()?;
    Ok(PublicKey::Rsa {
        exponent: exponent.to_vec(),
        modulus: modulus.to_vec(),
    })
}

fn read_spki(body: &[u8]) -> Result<PublicKey, BadDer> {
    let mut outer = DerReader::new(body);
    let mut fields = outer.sequence()?;
    outer.finish()?;
    let mut algorithm = fields.sequence()?;
    let bits = fields.bit_string()?;
    fields.finish()?;
    match algorithm.element(der::OBJECT_IDENTIFIER)? {
        oid::RSA_ENCRYPTION => read_pkcs1(bits),
        oid::EC_PUBLIC_KEY => {
            let curve = algorithm.element(der::OBJECT_IDENTIFIER)?;
            Ok(PublicKey::Ecdsa {
                curve: EcCurve::from_oid(curve).ok_or(BadDer)?,
                point: bits.to_vec(),
            })
        }
        oid::ED25519 => Ok(PublicKey::Ed25519 {
            point: bits.try_into().map_err(|_| BadDer)?,
        }),
        _ => Err(BadDer),
    }
}

#[cfg(test)]
mod tests;
