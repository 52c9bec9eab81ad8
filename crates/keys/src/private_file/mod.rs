//! Private key files: OpenSSH's own format, and the PEM formats PKCS#1, SEC1 and PKCS#8,
//! unencrypted and encrypted with a passphrase.
//!
//! The parsers take bytes; the caller opens files with safe permissions and asks for passphrases.
//! The work that a file can request (key derivation rounds) is limited.

mod agent_form;
mod asn1;
mod encryption;
mod openssh;
mod ssh_com;

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

pub use agent_form::HeldKey;
pub use encryption::FileCipher;
pub use openssh::{
    DEFAULT_KDF_ROUNDS, MANY_KDF_ROUNDS, MAX_KDF_ROUNDS, OpensshProtection, write_openssh_with,
};

pub use ssh_com::{is_ssh_com, parse_ssh_com};

/// Largest private key file that is read, in bytes.
pub const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// A key and its file's comment.
#[derive(Debug, Clone)]
pub struct PrivateKeyFile {
    /// The key.
    pub key: PrivateKey,
    /// The comment; empty in formats without comments.
    pub comment: String,
    /// True if the file was encrypted.
    pub encrypted: bool,
}

/// Why a file could not be read or written as a private key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PrivateFileError {
    /// The file has none of the formats.
    NotAPrivateKey,
    /// The file is encrypted, and no passphrase was given.
    NeedsPassphrase,
    /// The passphrase is wrong.
    WrongPassphrase,
    /// The format, cipher or key derivation is not supported.
    Unsupported(String),
    /// The key derivation requests more work than is allowed.
    TooMuchWork,
    /// The file is damaged.
    Malformed,
    /// The key in the file is invalid.
    Key(KeyError),
    /// The requested format cannot represent the key.
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
                "private key file requests more work than is allowed (bcrypt: {MAX_KDF_ROUNDS} rounds)"
            ),
            Self::Malformed => f.write_str("private key file is damaged"),
            Self::Key(error) => write!(f, "{error}"),
            Self::NotInThisFormat => f.write_str("this key type cannot be written in this format"),
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

/// Reads a file's bytes, which are wiped on drop.
///
/// # Errors
/// Errors of the file system; [`std::io::ErrorKind::FileTooLarge`] above [`MAX_FILE_BYTES`].
pub fn load(path: &Path) -> std::io::Result<Zeroizing<Vec<u8>>> {
    let file = std::fs::File::open(path)?;
    let size = file.metadata()?.len();
    if size > MAX_FILE_BYTES {
        return Err(std::io::ErrorKind::FileTooLarge.into());
    }
    // Full capacity at once: reallocation would leave copies in freed memory.
    let room = usize::try_from(size).unwrap_or(0) + 1;
    let mut bytes = Zeroizing::new(Vec::with_capacity(room));
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).is_ok_and(|len| len > MAX_FILE_BYTES) {
        return Err(std::io::ErrorKind::FileTooLarge.into());
    }
    Ok(bytes)
}

/// Parses a private key file in any of the formats.
///
/// # Errors
/// [`PrivateFileError::NeedsPassphrase`] if the file is encrypted and `passphrase` is `None`;
/// otherwise the reason.
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

/// Returns the public key if that needs no passphrase: OpenSSH's format always contains it
/// unencrypted, the other formats if the file is not encrypted.
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

/// The warning about a private key file that others may read, in OpenSSH's lines; `path` is escaped.
#[must_use]
pub fn unprotected_warning(path: &str, mode: u32) -> String {
    let rule = "@".repeat(59);
    format!(
        "{rule}\n@         WARNING: UNPROTECTED PRIVATE KEY FILE!          @\n{rule}\n\
         Permissions {mode:04o} for '{path}' are too open.\n\
         It is required that your private key files are NOT accessible by others.\n\
         This private key will be ignored."
    )
}

/// Returns a warning to show before [`parse`] is called with a passphrase, if the file requests
/// more than [`MANY_KDF_ROUNDS`] rounds of bcrypt, which takes long. `None` for fewer rounds, for
/// other formats and for a file that [`parse`] refuses.
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

/// True if the file contains a private key of any format.
#[must_use]
pub fn is_private_key(file: &[u8]) -> bool {
    find_block(file).is_ok()
}

fn find_block(file: &[u8]) -> Result<pem::PemBlock<'_>, PrivateFileError> {
    pem::find(file, |label| label.ends_with("PRIVATE KEY")).ok_or(PrivateFileError::NotAPrivateKey)
}

/// Encodes a key in OpenSSH's format; with a non-empty passphrase it is encrypted with aes256-ctr
/// and [`DEFAULT_KDF_ROUNDS`].
///
/// # Errors
/// [`PrivateFileError::Key`] if the crypto library fails.
pub fn write_openssh(
    key: &PrivateKey,
    comment: &str,
    passphrase: Option<&[u8]>,
) -> Result<Zeroizing<String>, PrivateFileError> {
    write_openssh_with(key, comment, passphrase, &OpensshProtection::default())
}

/// Encodes a key as PKCS#1 (RSA) or SEC1 (ECDSA) PEM; with a passphrase it is encrypted with
/// AES-128-CBC as in OpenSSL's traditional format.
///
/// # Errors
/// [`PrivateFileError::NotInThisFormat`] for other key types.
pub fn write_pem(
    key: &PrivateKey,
    passphrase: Option<&[u8]>,
) -> Result<Zeroizing<String>, PrivateFileError> {
    asn1::write_traditional(key, passphrase.filter(|passphrase| !passphrase.is_empty()))
}

/// Encodes a key as PKCS#8 PEM; with a passphrase it is encrypted with PBES2 (AES-256-CBC,
/// PBKDF2-HMAC-SHA-256).
///
/// # Errors
/// [`PrivateFileError::NotInThisFormat`] for security keys.
pub fn write_pkcs8(
    key: &PrivateKey,
    passphrase: Option<&[u8]>,
) -> Result<Zeroizing<String>, PrivateFileError> {
    asn1::write_pkcs8(key, passphrase.filter(|passphrase| !passphrase.is_empty()))
}
