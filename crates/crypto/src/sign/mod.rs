//! Signature keys: Ed25519 (RFC 8032), ECDSA on the NIST curves (FIPS 186), RSA PKCS#1 v1.5 (RFC
//! 8017), and ML-DSA-44 (FIPS 204) with Ed25519, as integers and byte strings.
//!
//! SSH blobs, key files and certificates are in `keys`. Signature formats in this module: Ed25519,
//! 64 bytes; ECDSA, r ‖ s, each padded to the curve's coordinate length ([`EcdsaSignature`]
//! converts); RSA, as long as the modulus; ML-DSA-44 with Ed25519, 2,484 bytes.
#![forbid(unsafe_code)]

mod composite;
mod ecdsa;
mod private;
mod public;
mod rsa;
mod rsa_keygen;

use crate::awslc::ec::Curve;
use crate::hash::HashAlgorithm;

pub use composite::{
    MLDSA44_ED25519_PUBLIC_BYTES, MLDSA44_ED25519_SEED_BYTES, MLDSA44_ED25519_SIGNATURE_BYTES,
};
pub use ecdsa::EcdsaSignature;
pub use private::PrivateKey;
pub use public::PublicKey;
pub use rsa::{RsaParts, RsaPrivateParts};

/// Minimum size of an RSA modulus in bits; programs may require more (RequiredRSASize).
pub const MIN_RSA_BITS: usize = 1024;
/// Maximum size of an RSA modulus in bits; limits the work that a peer's key can cause.
pub const MAX_RSA_BITS: usize = 16384;
/// Maximum size of an RSA public exponent in bits; limits the work that a peer's key can cause.
pub const MAX_RSA_EXPONENT_BITS: usize = 64;

/// Kind of a key.
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
    /// ML-DSA-44 with Ed25519.
    MlDsa44Ed25519,
}

impl KeyKind {
    pub(crate) fn curve(self) -> Option<Curve> {
        match self {
            Self::EcdsaP256 => Some(Curve::P256),
            Self::EcdsaP384 => Some(Curve::P384),
            Self::EcdsaP521 => Some(Curve::P521),
            Self::Ed25519 | Self::Rsa | Self::MlDsa44Ed25519 => None,
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

/// A signature scheme. SHA-1 schemes are not supported.
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
    /// ssh-rsa (RFC 4253 §6.6), for old devices.
    RsaPkcs1Sha1,
    /// rsa-sha2-256 (RFC 8332).
    RsaPkcs1Sha256,
    /// rsa-sha2-512 (RFC 8332).
    RsaPkcs1Sha512,
    /// ssh-mldsa44-ed25519 (draft-miller-sshm-mldsa44-ed25519-composite-sigs-00).
    MlDsa44Ed25519,
}

impl SignatureScheme {
    /// The kind of key for this scheme.
    #[must_use]
    pub const fn key_kind(self) -> KeyKind {
        match self {
            Self::Ed25519 => KeyKind::Ed25519,
            Self::EcdsaP256Sha256 => KeyKind::EcdsaP256,
            Self::EcdsaP384Sha384 => KeyKind::EcdsaP384,
            Self::EcdsaP521Sha512 => KeyKind::EcdsaP521,
            Self::RsaPkcs1Sha1 | Self::RsaPkcs1Sha256 | Self::RsaPkcs1Sha512 => KeyKind::Rsa,
            Self::MlDsa44Ed25519 => KeyKind::MlDsa44Ed25519,
        }
    }

    /// The hash of the message; Ed25519 and ML-DSA-44 with Ed25519 apply SHA-512 themselves.
    #[must_use]
    pub const fn hash(self) -> HashAlgorithm {
        match self {
            Self::RsaPkcs1Sha1 => HashAlgorithm::Sha1,
            Self::EcdsaP256Sha256 | Self::RsaPkcs1Sha256 => HashAlgorithm::Sha256,
            Self::EcdsaP384Sha384 => HashAlgorithm::Sha384,
            Self::Ed25519 | Self::EcdsaP521Sha512 | Self::RsaPkcs1Sha512 | Self::MlDsa44Ed25519 => {
                HashAlgorithm::Sha512
            }
        }
    }
}

#[cfg(test)]
mod tests;
