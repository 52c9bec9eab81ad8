//! Private key files: OpenSSH's own format, and the PEM formats PKCS#1, SEC1 and PKCS#8, plain
//! and under a passphrase.
//!
//! Reading takes bytes; opening files with safe permissions, and asking for passphrases, is
//! the caller's part. Work that a file can ask for (key derivation rounds) is bounded.

mod asn1;
mod encryption;
mod openssh;

#[cfg(test)]
mod tests;

use core::fmt;
use std::io::Read;
use std::path::Path;

use zeroize::Zeroizing;

use crate::error::KeyError;
use crate::pem;
use crate::private_key::PrivateKey;
use crate::public_key::PublicKey;

pub(crate) use asn1::{curve_from_oid, curve_oid};
pub use encryption::FileCipher;
pub use openssh::{
    DEFAULT_KDF_ROUNDS, MANY_KDF_ROUNDS, MAX_KDF_ROUNDS, OpensshProtection, write_openssh_with,
};

/// Largest private key file that is read, in bytes.
pub const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// A key and what its file calls it.
#[derive(Debug, Clone)]
pub struct PrivateKeyFile {
    /// The key.
    pub key: PrivateKey,
    /// The comment; empty in formats that have none.
    pub comment: String,
    /// True when the file was under a passphrase.
    pub encrypted: bool,
}

/// Why a file gives no key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PrivateFileError {
    /// None of the formats.
    NotAPrivateKey,
    /// It is under a passphrase, and none was given.
    NeedsPassphrase,
    /// It does not open with the passphrase that was given.
    WrongPassphrase,
    /// The format, cipher or key derivation is not supported.
    Unsupported(String),
    /// The key derivation asks for more work than is allowed.
    TooMuchWork,
    /// The file is damaged.
    Malformed,
    /// The key inside.
    Key(KeyError),
    /// The key cannot be written in the format that was asked for.
    NotInThisFormat,
}

impl fmt::Display for PrivateFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAPrivateKey => f.write_str("not a private key file"),
            Self::NeedsPassphrase => f.write_str("the key needs a passphrase"),
            Self::WrongPassphrase => {
                f.write_str("incorrect passphrase supplied to decrypt private key")
            }
            Self::Unsupported(what) => write!(f, "private key file uses unsupported {what}"),
            Self::TooMuchWork => write!(
                f,
                "private key file asks for more work than is done (bcrypt: {MAX_KDF_ROUNDS} rounds)"
            ),
            Self::Malformed => f.write_str("private key file is damaged"),
            Self::Key(error) => write!(f, "{error}"),
            Self::NotInThisFormat => f.write_str("this type of key has no such format"),
        }
    }
}

impl std::error::Error for PrivateFileError {}

impl From<KeyError> for PrivateFileError {
    fn from(error: KeyError) -> Self {
        Self::Key(error)
    }
}

impl From<wire::DecodeError> for PrivateFileError {
    fn from(_: wire::DecodeError) -> Self {
        Self::Malformed
    }
}

impl From<crate::der::BadDer> for PrivateFileError {
    fn from(_: crate::der::BadDer) -> Self {
        Self::Malformed
    }
}

/// Reads a file's bytes, wiped when dropped.
///
/// # Errors
/// Those of the file system; [`std::io::ErrorKind::FileTooLarge`] past [`MAX_FILE_BYTES`].
pub fn load(path: &Path) -> std::io::Result<Zeroizing<Vec<u8>>> {
    let file = std::fs::File::open(path)?;
    let size = file.metadata()?.len();
    if size > MAX_FILE_BYTES {
        return Err(std::io::ErrorKind::FileTooLarge.into());
    }
    // Room for all of it at once: growing would leave copies behind.
    let room = usize::try_from(size).unwrap_or(0) + 1;
    let mut bytes = Zeroizing::new(Vec::with_capacity(room));
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).is_ok_and(|len| len > MAX_FILE_BYTES) {
        return Err(std::io::ErrorKind::FileTooLarge.into());
    }
    Ok(bytes)
}

/// Reads a key out of a file in any of the formats.
///
/// # Errors
/// [`PrivateFileError::NeedsPassphrase`] when `passphrase` is `None` and one is needed;
/// otherwise what is wrong.
pub fn parse(file: &[u8], passphrase: Option<&[u8]>) -> Result<PrivateKeyFile, PrivateFileError> {
    let block = find_block(file)?;
    match block.label {
        openssh::LABEL => openssh::read(&block.body, passphrase),
        "RSA PRIVATE KEY" | "EC PRIVATE KEY" => asn1::read_traditional(&block, passphrase),
        "PRIVATE KEY" => asn1::read_pkcs8(&block.body, false),
        "ENCRYPTED PRIVATE KEY" => asn1::read_encrypted_pkcs8(&block.body, passphrase),
        other => Err(PrivateFileError::Unsupported(format!(
            "format \"{}\"",
            crate::error::printable(other.as_bytes())
        ))),
    }
}

/// The public half, where it can be had without a passphrase: OpenSSH's format always holds it
/// in the clear, the others when they are not encrypted.
///
/// # Errors
/// As [`parse`].
pub fn parse_public(file: &[u8]) -> Result<PublicKey, PrivateFileError> {
    let block = find_block(file)?;
    if block.label == openssh::LABEL {
        return openssh::read_public(&block.body);
    }
    parse(file, None).map(|file| file.key.public().clone())
}

/// Returns the warning to show before [`parse`] is called with a passphrase, if the file asks for more
/// than [`MANY_KDF_ROUNDS`] rounds of bcrypt, which takes long. `None` for fewer rounds, for other
/// formats and for a file that [`parse`] refuses.
#[must_use]
pub fn slow_warning(file: &[u8]) -> Option<String> {
    let block = find_block(file).ok()?;
    if block.label != openssh::LABEL {
        return None;
    }
    let rounds = openssh::kdf_rounds(&block.body)?;
    (MANY_KDF_ROUNDS < rounds && rounds <= MAX_KDF_ROUNDS).then(|| {
        format!(
            "the key file asks for {rounds} KDF rounds, which takes long; \
             ssh-keygen -p -a {DEFAULT_KDF_ROUNDS} writes it with fewer"
        )
    })
}

/// Whether the file holds a private key at all, of whatever kind.
#[must_use]
pub fn is_private_key(file: &[u8]) -> bool {
    find_block(file).is_ok()
}

fn find_block(file: &[u8]) -> Result<pem::Block<'_>, PrivateFileError> {
    pem::find(file, |label| label.ends_with("PRIVATE KEY")).ok_or(PrivateFileError::NotAPrivateKey)
}

/// The key in OpenSSH's format; under a passphrase, unless it is empty, with aes256-ctr and
/// [`DEFAULT_KDF_ROUNDS`].
///
/// # Errors
/// [`PrivateFileError::Key`] if the library fails.
pub fn write_openssh(
    key: &PrivateKey,
    comment: &str,
    passphrase: Option<&[u8]>,
) -> Result<Zeroizing<String>, PrivateFileError> {
    write_openssh_with(key, comment, passphrase, &OpensshProtection::default())
}

/// The key as PKCS#1 (RSA) or SEC1 (ECDSA) PEM; under a passphrase with AES-128-CBC, as
/// OpenSSL's traditional format has it.
///
/// # Errors
/// [`PrivateFileError::NotInThisFormat`] for other types.
pub fn write_pem(
    key: &PrivateKey,
    passphrase: Option<&[u8]>,
) -> Result<Zeroizing<String>, PrivateFileError> {
    asn1::write_traditional(key, passphrase.filter(|passphrase| !passphrase.is_empty()))
}

/// The key as PKCS#8 PEM; under a passphrase with PBES2 (AES-256-CBC, PBKDF2-HMAC-SHA-256).
///
/// # Errors
/// [`PrivateFileError::NotInThisFormat`] for security keys.
pub fn write_pkcs8(
    key: &PrivateKey,
    passphrase: Option<&[u8]>,
) -> Result<Zeroizing<String>, PrivateFileError> {
    asn1::write_pkcs8(key, passphrase.filter(|passphrase| !passphrase.is_empty()))
}
