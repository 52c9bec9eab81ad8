//! Public keys and verification.
#![forbid(unsafe_code)]

use core::fmt;
use std::sync::Arc;

use super::composite::{self, CompositePublic};
use super::rsa::RsaPublic;
use super::{KeyKind, SignatureScheme};
use crate::awslc::ec::EcKey;
use crate::awslc::x25519::ed25519_verify;
use crate::{BadKey, BadSignature};

/// A validated public key. Cloning is cheap.
#[derive(Clone)]
pub struct PublicKey(pub(super) Inner);

#[derive(Clone)]
pub(super) enum Inner {
    Ed25519([u8; 32]),
    Ecdsa { key: Arc<EcKey>, point: Arc<[u8]> },
    Rsa(Arc<RsaPublic>),
    Composite(Arc<CompositePublic>),
}

impl PublicKey {
    /// Creates an Ed25519 key from its 32 bytes.
    ///
    /// # Errors
    /// If the length is not 32 bytes.
    pub fn ed25519(bytes: &[u8]) -> Result<Self, BadKey> {
        let bytes = bytes.try_into().map_err(|_| BadKey::WrongLength)?;
        Ok(Self(Inner::Ed25519(bytes)))
    }

    /// Creates an ECDSA key from its uncompressed point (SEC 1 §2.3.3).
    ///
    /// # Errors
    /// If `kind` is not ECDSA, the length is wrong, or the point is compressed,
    /// not on the curve, or at infinity.
    pub fn ecdsa(kind: KeyKind, point: &[u8]) -> Result<Self, BadKey> {
        let curve = kind.curve().ok_or(BadKey::Invalid)?;
        if point.len() != curve.point_len() {
            return Err(BadKey::WrongLength);
        }
        let key = EcKey::public(curve, point).map_err(|_| BadKey::Invalid)?;
        Ok(Self(Inner::Ecdsa {
            key: Arc::new(key),
            point: point.into(),
        }))
    }

    /// Creates an RSA key from exponent and modulus, unsigned big-endian.
    ///
    /// # Errors
    /// If the modulus is even or not 1024 to 16384 bits long, or the exponent is even, less than 3
    /// or longer than 64 bits. Lengths are checked before any arithmetic.
    pub fn rsa(e: &[u8], n: &[u8]) -> Result<Self, BadKey> {
        Ok(Self(Inner::Rsa(Arc::new(RsaPublic::new(e, n)?))))
    }

    /// Creates a key of ML-DSA-44 with Ed25519 from its bytes.
    ///
    /// # Errors
    /// If the length is not [`super::MLDSA44_ED25519_PUBLIC_BYTES`].
    pub fn mldsa44_ed25519(bytes: &[u8]) -> Result<Self, BadKey> {
        let bytes: CompositePublic = bytes.try_into().map_err(|_| BadKey::WrongLength)?;
        Ok(Self(Inner::Composite(Arc::new(bytes))))
    }

    /// The kind of this key.
    #[must_use]
    pub fn kind(&self) -> KeyKind {
        match &self.0 {
            Inner::Ed25519(_) => KeyKind::Ed25519,
            Inner::Ecdsa { key, .. } => KeyKind::of_curve(key.curve()),
            Inner::Rsa(_) => KeyKind::Rsa,
            Inner::Composite(_) => KeyKind::MlDsa44Ed25519,
        }
    }

    /// Key size in bits as shown to users: 256 (Ed25519), 256, 384, 521 (ECDSA), 512 (ML-DSA-44 with
    /// Ed25519), or the size of the RSA modulus.
    #[must_use]
    pub fn bits(&self) -> usize {
        match &self.0 {
            Inner::Ed25519(_) => 256,
            Inner::Composite(_) => 512,
            Inner::Ecdsa { key, .. } => key.curve().bits(),
            Inner::Rsa(key) => key.bits(),
        }
    }

    /// The 32 bytes of an Ed25519 key; `None` for other keys.
    #[must_use]
    pub fn ed25519_bytes(&self) -> Option<&[u8; 32]> {
        match &self.0 {
            Inner::Ed25519(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// The uncompressed point of an ECDSA key; `None` for other keys.
    #[must_use]
    pub fn ecdsa_point(&self) -> Option<&[u8]> {
        match &self.0 {
            Inner::Ecdsa { point, .. } => Some(point),
            _ => None,
        }
    }

    /// The public exponent of an RSA key, without leading zeros; `None` for other keys.
    #[must_use]
    pub fn rsa_exponent(&self) -> Option<&[u8]> {
        match &self.0 {
            Inner::Rsa(key) => Some(key.exponent()),
            _ => None,
        }
    }

    /// The modulus of an RSA key, without leading zeros; `None` for other keys.
    #[must_use]
    pub fn rsa_modulus(&self) -> Option<&[u8]> {
        match &self.0 {
            Inner::Rsa(key) => Some(key.modulus()),
            _ => None,
        }
    }

    /// The bytes of a key of ML-DSA-44 with Ed25519; `None` for other keys.
    #[must_use]
    pub fn mldsa44_ed25519_bytes(&self) -> Option<&[u8; super::MLDSA44_ED25519_PUBLIC_BYTES]> {
        match &self.0 {
            Inner::Composite(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Verifies a signature over `message`.
    ///
    /// An RSA signature may lack leading zeros, because some peers strip them. Any other deviation
    /// from the key's signature length is rejected.
    ///
    /// # Errors
    /// If the signature is invalid, or the scheme does not match the kind of key.
    pub fn verify(
        &self,
        scheme: SignatureScheme,
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), BadSignature> {
        if scheme.key_kind() != self.kind() {
            return Err(BadSignature);
        }
        match &self.0 {
            Inner::Ed25519(public) => {
                let signature = signature.try_into().map_err(|_| BadSignature)?;
                ed25519_verify(public, message, signature).map_err(|_| BadSignature)
            }
            Inner::Ecdsa { key, .. } => {
                let len = key.curve().coordinate_len();
                if signature.len() != 2 * len {
                    return Err(BadSignature);
                }
                let (r, s) = signature.split_at(len);
                let digest = scheme.hash().digest(message);
                key.verify(&digest, r, s).map_err(|_| BadSignature)
            }
            Inner::Rsa(key) => key.verify(scheme.hash(), message, signature),
            Inner::Composite(public) => composite::verify(public, message, signature),
        }
    }
}

impl PartialEq for PublicKey {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Inner::Ed25519(a), Inner::Ed25519(b)) => a == b,
            (Inner::Composite(a), Inner::Composite(b)) => a == b,
            // Points of different curves differ, because each curve has its own point length.
            (Inner::Ecdsa { point: a, .. }, Inner::Ecdsa { point: b, .. }) => a == b,
            (Inner::Rsa(a), Inner::Rsa(b)) => {
                a.modulus() == b.modulus() && a.exponent() == b.exponent()
            }
            _ => false,
        }
    }
}

impl Eq for PublicKey {}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({:?}, {} bits)", self.kind(), self.bits())
    }
}
