//! Signature keys: Ed25519 (RFC 8032), ECDSA on the NIST curves (FIPS 186) and
//! RSA PKCS#1 v1.5 (RFC 8017), as numbers and byte strings.
//!
//! SSH blobs, key files and certificates are in `keys`. Signatures at this layer
//! are: Ed25519, 64 bytes; ECDSA, r ‖ s, each padded to the curve's coordinate
//! length ([`EcdsaSignature`] converts); RSA, as long as the modulus.
#![forbid(unsafe_code)]

mod ecdsa;
mod private;
mod public;
mod rsa;
mod rsa_fresh;

use crate::awslc::ec::Curve;
use crate::hash::HashAlgorithm;

pub use ecdsa::EcdsaSignature;
pub use private::PrivateKey;
pub use public::PublicKey;
pub use rsa::RsaPrivateParts;

/// Fewest bits of an RSA modulus that any key may have; programs ask for more
/// (RequiredRSASize).
pub const MIN_RSA_BITS: usize = 1024;
/// Most bits of an RSA modulus: bounds the work that a peer's key can cause.
pub const MAX_RSA_BITS: usize = 16384;
/// Most bits of an RSA public exponent, for the same reason.
pub const MAX_RSA_EXPONENT_BITS: usize = 64;

/// What kind of key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeyKind {
    /// Ed25519.
    Ed25519,
    /// ECDSA on nistp256.
    EcdsaP256,
    /// ECDSA on nistp384.
    EcdsaP384,
    /// ECDSA on nistp521.
    EcdsaP521,
    /// RSA.
    Rsa,
}

impl KeyKind {
    pub(crate) fn curve(self) -> Option<Curve> {
        match self {
            Self::EcdsaP256 => Some(Curve::P256),
            Self::EcdsaP384 => Some(Curve::P384),
            Self::EcdsaP521 => Some(Curve::P521),
            Self::Ed25519 | Self::Rsa => None,
        }
    }

    pub(crate) fn of_curve(curve: Curve) -> Self {
        match curve {
            Curve::P256 => Self::EcdsaP256,
            Curve::P384 => Self::EcdsaP384,
            Curve::P521 => Self::EcdsaP521,
        }
    }
}

/// A way to sign. There is none with SHA-1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SignatureScheme {
    /// ssh-ed25519 (RFC 8709).
    Ed25519,
    /// ecdsa-sha2-nistp256 (RFC 5656).
    EcdsaP256Sha256,
    /// ecdsa-sha2-nistp384 (RFC 5656).
    EcdsaP384Sha384,
    /// ecdsa-sha2-nistp521 (RFC 5656).
    EcdsaP521Sha512,
    /// rsa-sha2-256 (RFC 8332).
    RsaPkcs1Sha256,
    /// rsa-sha2-512 (RFC 8332).
    RsaPkcs1Sha512,
}

impl SignatureScheme {
    /// The kind of key that it signs with.
    #[must_use]
    pub const fn key_kind(self) -> KeyKind {
        match self {
            Self::Ed25519 => KeyKind::Ed25519,
            Self::EcdsaP256Sha256 => KeyKind::EcdsaP256,
            Self::EcdsaP384Sha384 => KeyKind::EcdsaP384,
            Self::EcdsaP521Sha512 => KeyKind::EcdsaP521,
            Self::RsaPkcs1Sha256 | Self::RsaPkcs1Sha512 => KeyKind::Rsa,
        }
    }

    /// The hash of the message; Ed25519 hashes for itself (with SHA-512).
    #[must_use]
    pub const fn hash(self) -> HashAlgorithm {
        match self {
            Self::EcdsaP256Sha256 | Self::RsaPkcs1Sha256 => HashAlgorithm::Sha256,
            Self::EcdsaP384Sha384 => HashAlgorithm::Sha384,
            Self::Ed25519 | Self::EcdsaP521Sha512 | Self::RsaPkcs1Sha512 => HashAlgorithm::Sha512,
        }
    }
}

#[cfg(test)]
mod tests;
