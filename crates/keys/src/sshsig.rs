//! Signatures over files (OpenSSH PROTOCOL.sshsig): the armor, the blob in it, the signed message,
//! and verification. [`crate::allowed_signers`] decides who may sign.
//!
//! The caller hashes the file; the functions here take its digest. A signature contains a namespace
//! and is never accepted for another one.

use core::fmt;

use crypto::hash::HashAlgorithm;
use wire::{DecodeError, Put, Reader};

use crate::algorithm::{KeyType, SignatureAlgorithm};
use crate::base64;
use crate::error::{KeyError, VerifyError};
use crate::presented::PresentedKey;
use crate::signature::{Signature, VerifyPolicy};

/// Longest armored signature that is read, in bytes: enough for the largest key and signature in
/// base64.
pub const MAX_FILE_BYTES: u64 = 256 * 1024;

const MAGIC: &[u8] = b"SSHSIG";
const VERSION: u32 = 1;
const BEGIN: &[u8] = b"-----BEGIN SSH SIGNATURE-----\n";
const END: &[u8] = b"-----END SSH SIGNATURE-----";
/// Width of the base64 lines, as in ssh-keygen.
const LINE_WIDTH: usize = 70;
/// Smallest RSA modulus for file signatures in bits, as in ssh-keygen.
const MIN_RSA_BITS: usize = 1024;

/// Why a signature cannot be parsed, or is not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SshsigError {
    /// The file does not start with the armor's header.
    NoHeader,
    /// The armor has no footer.
    NoFooter,
    /// The armor's content is not base64.
    NotBase64,
    /// The armor's content is not a file signature.
    NoSignature,
    /// The format version is not supported.
    Version(u32),
    /// The encoding is malformed.
    Malformed(DecodeError),
    /// The key in it is invalid.
    Key(KeyError),
    /// The name of the hash algorithm is not permitted; escaped.
    Hash(String),
    /// It was made for another namespace.
    Namespace,
    /// It was not made by the key, or not over this file.
    Signature(VerifyError),
}

impl fmt::Display for SshsigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoHeader => f.write_str("Couldn't parse signature: missing header"),
            Self::NoFooter => f.write_str("Couldn't parse signature: missing footer"),
            Self::NotBase64 => f.write_str("Couldn't parse signature: not base64"),
            Self::NoSignature => f.write_str("Couldn't verify signature: invalid format"),
            Self::Version(number) => write!(
                f,
                "Signature version {number} is larger than supported version {VERSION}"
            ),
            Self::Malformed(DecodeError::TrailingBytes) => {
                f.write_str("Signature contains trailing data")
            }
            Self::Malformed(error) => write!(f, "Couldn't parse signature: {error}"),
            Self::Key(error) => write!(f, "Couldn't parse signature: {error}"),
            Self::Hash(name) => write!(f, "unsupported hash algorithm \"{name}\""),
            Self::Namespace => f.write_str("Couldn't verify signature: namespace does not match"),
            Self::Signature(VerifyError::BadSignature) => {
                f.write_str("Signature verification failed: incorrect signature")
            }
            Self::Signature(error) => write!(f, "Signature verification failed: {error}"),
        }
    }
}

impl std::error::Error for SshsigError {}

impl From<DecodeError> for SshsigError {
    fn from(error: DecodeError) -> Self {
        Self::Malformed(error)
    }
}

impl From<VerifyError> for SshsigError {
    fn from(error: VerifyError) -> Self {
        Self::Signature(error)
    }
}

/// Looks up a permitted hash algorithm by name.
///
/// # Errors
/// [`SshsigError::Hash`]
pub fn hash_from_name(name: &[u8]) -> Result<HashAlgorithm, SshsigError> {
    match name {
        b"sha256" => Ok(HashAlgorithm::Sha256),
        b"sha512" => Ok(HashAlgorithm::Sha512),
        _ => Err(SshsigError::Hash(crate::error::printable(name))),
    }
}

fn hash_name(hash: HashAlgorithm) -> &'static str {
    match hash {
        HashAlgorithm::Sha256 => "sha256",
        _ => "sha512",
    }
}

/// The message to sign for a file with this digest by `hash`, which is SHA-256 or SHA-512.
#[must_use]
pub fn message(namespace: &[u8], hash: HashAlgorithm, digest: &[u8]) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.put_string(namespace);
    out.put_string(b"");
    out.put_string(hash_name(hash).as_bytes());
    out.put_string(digest);
    out
}

/// The algorithm with which a key of this type signs files; for RSA the one with SHA-512.
#[must_use]
pub fn algorithm(key_type: KeyType) -> Option<SignatureAlgorithm> {
    key_type.algorithms().first().copied()
}

/// As [`algorithm`], for a file's digest by `hash`, which an RSA key signs by the same hash.
#[must_use]
pub fn algorithm_with(key_type: KeyType, hash: HashAlgorithm) -> Option<SignatureAlgorithm> {
    match (key_type, hash) {
        (KeyType::Rsa, HashAlgorithm::Sha256) => Some(SignatureAlgorithm::RsaSha256),
        _ => algorithm(key_type),
    }
}

/// A signature over a file, with the key that claims to have made it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSignature {
    /// The key or certificate; whether it may sign has not been checked.
    pub key: PresentedKey,
    /// The purpose of the signature.
    pub namespace: Vec<u8>,
    /// Hash algorithm of the file's digest, SHA-256 or SHA-512.
    pub hash: HashAlgorithm,
    /// Signature blob over [`message`].
    pub signature: Vec<u8>,
}

impl FileSignature {
    /// Parses a file with an armored signature; ignores text after the armor.
    ///
    /// # Errors
    /// [`SshsigError`]
    pub fn from_armored(file: &[u8]) -> Result<Self, SshsigError> {
        let coded = file.strip_prefix(BEGIN).ok_or(SshsigError::NoHeader)?;
        let end = coded
            .windows(END.len() + 1)
            .position(|window| window.strip_prefix(b"\n") == Some(END))
            .ok_or(SshsigError::NoFooter)?;
        let blob = base64::decode(coded.get(..end).unwrap_or_default());
        Self::from_blob(&blob.ok_or(SshsigError::NotBase64)?)
    }

    fn from_blob(blob: &[u8]) -> Result<Self, SshsigError> {
        let fields = blob.strip_prefix(MAGIC).ok_or(SshsigError::NoSignature)?;
        let mut reader = Reader::new(fields);
        let version = reader.u32()?;
        if version > VERSION {
            return Err(SshsigError::Version(version));
        }
        let key = reader.string()?;
        let namespace = reader.string()?.to_vec();
        let _reserved = reader.string()?;
        let hash = hash_from_name(reader.string()?)?;
        let signature = reader.string()?.to_vec();
        reader.finish()?;
        Ok(Self {
            key: PresentedKey::from_blob(key).map_err(SshsigError::Key)?,
            namespace,
            hash,
            signature,
        })
    }

    /// Encodes the signature with armor.
    #[must_use]
    pub fn to_armored(&self) -> String {
        let mut blob = MAGIC.to_vec();
        blob.put_u32(VERSION);
        blob.put_string(&self.key.blob());
        blob.put_string(&self.namespace);
        blob.put_string(b"");
        blob.put_string(hash_name(self.hash).as_bytes());
        blob.put_string(&self.signature);
        format!(
            "{}{}{}\n",
            String::from_utf8_lossy(BEGIN),
            *base64::encode_lines(&blob, LINE_WIDTH),
            String::from_utf8_lossy(END)
        )
    }

    /// Verifies that the key made the signature, for `namespace`, over the file with this digest by
    /// [`Self::hash`]. A security key need not have been touched: its owner decided that when
    /// signing.
    ///
    /// # Errors
    /// [`SshsigError::Namespace`], [`SshsigError::Signature`]
    pub fn verify(&self, namespace: &[u8], digest: &[u8]) -> Result<(), SshsigError> {
        if self.namespace != namespace {
            return Err(SshsigError::Namespace);
        }
        let algorithm =
            Signature::from_blob_if(&self.signature, |named| !named.is_sha1())?.algorithm;
        let policy = VerifyPolicy {
            min_rsa_bits: MIN_RSA_BITS,
            require_user_presence: false,
            require_user_verification: false,
        };
        let message = message(namespace, self.hash, digest);
        self.key
            .key()
            .verify(algorithm, &message, &self.signature, &policy)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
