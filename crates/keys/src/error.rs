//! Errors of keys, certificates and signatures. No variant contains secret bytes.

use core::fmt;

use wire::DecodeError;

/// Why bytes are not a usable key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyError {
    /// The encoding is malformed.
    Malformed(DecodeError),
    /// The key type is not supported; its name, escaped.
    UnknownType(String),
    /// A certificate where a plain key is required, or the reverse.
    WrongKind(&'static str),
    /// A number or point is outside the range of the key type.
    Invalid(&'static str),
    /// The secret is in a security key or an agent, so this key cannot sign by itself.
    NoSecret,
    /// The signature algorithm does not fit the key.
    WrongAlgorithm,
    /// The authority of a certificate signed with an algorithm that is not permitted, or no
    /// permitted algorithm exists for its key type.
    AuthorityAlgorithm,
    /// The cryptographic library failed.
    Internal,
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(error) => write!(f, "malformed key: {error}"),
            Self::UnknownType(name) => write!(f, "unsupported key type \"{name}\""),
            Self::WrongKind(what) => f.write_str(what),
            Self::Invalid(what) => write!(f, "invalid key: {what}"),
            Self::NoSecret => f.write_str(
                "the secret part of this key is in a security key: add it to an agent to sign",
            ),
            Self::WrongAlgorithm => f.write_str("signature algorithm does not fit the key"),
            Self::AuthorityAlgorithm => {
                f.write_str("certificate is signed with an algorithm that is not permitted")
            }
            Self::Internal => f.write_str("the cryptographic library failed"),
        }
    }
}

impl std::error::Error for KeyError {}

impl From<DecodeError> for KeyError {
    fn from(error: DecodeError) -> Self {
        Self::Malformed(error)
    }
}

impl From<crypto::BadKey> for KeyError {
    fn from(error: crypto::BadKey) -> Self {
        match error {
            crypto::BadKey::WrongLength => Self::Invalid("wrong length"),
            crypto::BadKey::Invalid => Self::Invalid("not a valid key of its type"),
            crypto::BadKey::OutOfBounds => Self::Invalid("RSA key is too small or too large"),
            crypto::BadKey::Inconsistent => Self::Invalid("its parts are inconsistent"),
            crypto::BadKey::Internal => Self::Internal,
        }
    }
}

/// Why a signature was not accepted. Every variant means that authentication failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VerifyError {
    /// The signature blob is malformed.
    Malformed(DecodeError),
    /// The algorithm named in the signature is not the negotiated one.
    WrongAlgorithm,
    /// The algorithm does not fit the type of the key.
    WrongKeyType,
    /// The RSA key is smaller than the policy's minimum.
    KeyTooSmall {
        /// The key's size in bits.
        bits: usize,
        /// The policy's minimum in bits.
        minimum: usize,
    },
    /// A security key signed without a touch, which the policy requires.
    NoUserPresence,
    /// A security key signed without verifying its user, which the policy requires.
    NoUserVerification,
    /// The signature is not valid for this key and message.
    BadSignature,
}

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(error) => write!(f, "malformed signature: {error}"),
            Self::WrongAlgorithm => {
                f.write_str("signature algorithm differs from the negotiated one")
            }
            Self::WrongKeyType => f.write_str("signature algorithm does not fit the key"),
            Self::KeyTooSmall { bits, minimum } => {
                write!(f, "RSA key of {bits} bits is smaller than {minimum}")
            }
            Self::NoUserPresence => f.write_str("security key was not touched"),
            Self::NoUserVerification => f.write_str("security key did not verify its user"),
            Self::BadSignature => f.write_str("signature does not verify"),
        }
    }
}

impl std::error::Error for VerifyError {}

impl From<DecodeError> for VerifyError {
    fn from(error: DecodeError) -> Self {
        Self::Malformed(error)
    }
}

/// Escapes a foreign name for a message, as one line of ASCII, cut at 64 characters.
pub(crate) fn printable(name: &[u8]) -> String {
    escape::escape_at_most(name, escape::Style::Ascii, 64)
}
