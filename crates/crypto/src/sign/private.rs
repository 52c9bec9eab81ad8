//! Private keys and signing.
#![forbid(unsafe_code)]

use core::fmt;
use std::sync::Arc;

use zeroize::Zeroizing;

use super::composite::{CompositePrivate, MLDSA44_ED25519_SEED_BYTES};
use super::public::Inner as PublicInner;
use super::rsa::{RsaParts, RsaPrivate, RsaPrivateParts};
use super::{KeyKind, PublicKey, SignatureScheme};
use crate::awslc::ec::EcKey;
use crate::awslc::x25519::{ed25519_from_seed, ed25519_sign};
use crate::{BadKey, SignError, random};

/// A private key with its public key. Secrets are wiped on drop; cloning is cheap.
#[derive(Clone)]
pub struct PrivateKey {
    secret: KeySecret,
    public: PublicKey,
}

#[derive(Clone)]
enum KeySecret {
    /// Seed ‖ public key.
    Ed25519(Arc<Zeroizing<[u8; 64]>>),
    Ecdsa(Arc<EcKey>),
    Rsa(Arc<RsaPrivate>),
    Composite(Arc<CompositePrivate>),
}

impl PrivateKey {
    /// Generates a key. `rsa_bits` is used only for RSA, whose public exponent is 65537.
    ///
    /// # Errors
    /// If `rsa_bits` is outside 1024..=16384 for RSA, or memory allocation fails.
    pub fn generate(kind: KeyKind, rsa_bits: usize) -> Result<Self, BadKey> {
        match kind {
            KeyKind::Ed25519 => {
                let seed: Zeroizing<[u8; 32]> = Zeroizing::new(random::bytes());
                Ok(Self::ed25519_from_seed(&seed))
            }
            KeyKind::Rsa => RsaPrivate::generate(rsa_bits).and_then(Self::from_rsa),
            KeyKind::MlDsa44Ed25519 => {
                let seeds: Zeroizing<[u8; MLDSA44_ED25519_SEED_BYTES]> =
                    Zeroizing::new(random::bytes());
                Self::mldsa44_ed25519_from_seeds(&seeds)
            }
            KeyKind::EcdsaP256 | KeyKind::EcdsaP384 | KeyKind::EcdsaP521 => {
                let curve = kind.curve().ok_or(BadKey::Invalid)?;
                let key = EcKey::generate(curve).map_err(|_| BadKey::Internal)?;
                Self::from_ec(key)
            }
        }
    }

    /// Creates an Ed25519 key from its seed (RFC 8032 §5.1.5).
    #[must_use]
    pub fn ed25519_from_seed(seed: &[u8; 32]) -> Self {
        let mut private = Zeroizing::new([0; 64]);
        let public = ed25519_from_seed(seed, &mut private);
        Self {
            secret: KeySecret::Ed25519(Arc::new(private)),
            public: PublicKey(PublicInner::Ed25519(public)),
        }
    }

    /// Creates a key of ML-DSA-44 with Ed25519 from the seeds of both (FIPS 204 §5.1, RFC 8032
    /// §5.1.5).
    ///
    /// # Errors
    /// If the library fails.
    pub fn mldsa44_ed25519_from_seeds(
        seeds: &[u8; MLDSA44_ED25519_SEED_BYTES],
    ) -> Result<Self, BadKey> {
        let (private, public) = CompositePrivate::from_seeds(seeds)?;
        Ok(Self {
            secret: KeySecret::Composite(Arc::new(private)),
            public: PublicKey(PublicInner::Composite(Arc::new(public))),
        })
    }

    /// Creates an ECDSA key from its scalar (unsigned big-endian) and public point.
    ///
    /// # Errors
    /// If the scalar is not in 1..order, or the point does not belong to it.
    pub fn ecdsa_from_parts(kind: KeyKind, scalar: &[u8], point: &[u8]) -> Result<Self, BadKey> {
        let key = Self::ecdsa_from_scalar(kind, scalar)?;
        if key.public.ecdsa_point() == Some(point) {
            Ok(key)
        } else {
            Err(BadKey::Inconsistent)
        }
    }

    /// Creates an ECDSA key from its scalar alone (PKCS#8 files may lack the point).
    ///
    /// # Errors
    /// If the scalar is not in 1..order.
    pub fn ecdsa_from_scalar(kind: KeyKind, scalar: &[u8]) -> Result<Self, BadKey> {
        let curve = kind.curve().ok_or(BadKey::Invalid)?;
        let zeros = scalar.iter().take_while(|b| **b == 0).count();
        let scalar = scalar.get(zeros..).unwrap_or_default();
        if scalar.len() > curve.coordinate_len() {
            return Err(BadKey::WrongLength);
        }
        Self::from_ec(EcKey::private(curve, scalar).map_err(|_| BadKey::Invalid)?)
    }

    /// Creates an RSA key from its components.
    ///
    /// # Errors
    /// If a component is out of bounds or the components are inconsistent.
    pub fn rsa_from_parts(parts: &RsaParts<'_>) -> Result<Self, BadKey> {
        RsaPrivate::from_parts(parts).and_then(Self::from_rsa)
    }

    fn from_ec(key: EcKey) -> Result<Self, BadKey> {
        let kind = KeyKind::of_curve(key.curve());
        let point = key.public_point().map_err(|_| BadKey::Internal)?;
        Ok(Self {
            secret: KeySecret::Ecdsa(Arc::new(key)),
            public: PublicKey::ecdsa(kind, &point)?,
        })
    }

    fn from_rsa(key: RsaPrivate) -> Result<Self, BadKey> {
        let public = PublicKey::rsa(&key.parts().e, &key.parts().n)?;
        Ok(Self {
            secret: KeySecret::Rsa(Arc::new(key)),
            public,
        })
    }

    /// The public key.
    #[must_use]
    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    /// The kind of this key.
    #[must_use]
    pub fn kind(&self) -> KeyKind {
        self.public.kind()
    }

    /// The seed of an Ed25519 key; `None` for other keys.
    #[must_use]
    pub fn ed25519_seed(&self) -> Option<Zeroizing<[u8; 32]>> {
        match &self.secret {
            KeySecret::Ed25519(private) => private.first_chunk::<32>().copied().map(Zeroizing::new),
            _ => None,
        }
    }

    /// The seeds of a key of ML-DSA-44 with Ed25519; `None` for other keys.
    #[must_use]
    pub fn mldsa44_ed25519_seeds(&self) -> Option<&Zeroizing<[u8; MLDSA44_ED25519_SEED_BYTES]>> {
        match &self.secret {
            KeySecret::Composite(key) => Some(key.seeds()),
            _ => None,
        }
    }

    /// The scalar of an ECDSA key, padded to the coordinate length; `None` for other keys.
    #[must_use]
    pub fn ecdsa_scalar(&self) -> Option<Zeroizing<Vec<u8>>> {
        match &self.secret {
            KeySecret::Ecdsa(key) => key.scalar().ok(),
            _ => None,
        }
    }

    /// The components of an RSA key; `None` for other keys.
    #[must_use]
    pub fn rsa_parts(&self) -> Option<&RsaPrivateParts> {
        match &self.secret {
            KeySecret::Rsa(key) => Some(key.parts()),
            _ => None,
        }
    }

    /// Signs `message` and checks the signature before returning it, so that a fault in the
    /// computation does not reveal the key.
    ///
    /// # Errors
    /// If the scheme does not match the kind of key, or the library fails.
    pub fn sign(&self, scheme: SignatureScheme, message: &[u8]) -> Result<Vec<u8>, SignError> {
        if scheme.key_kind() != self.kind() {
            return Err(SignError::WrongScheme);
        }
        let signature = match &self.secret {
            KeySecret::Ed25519(private) => return self.ed25519_signature(private, message),
            KeySecret::Ecdsa(key) => key
                .sign(&scheme.hash().digest(message))
                .map_err(|_| SignError::Internal)?,
            KeySecret::Rsa(key) => key.sign(scheme.hash(), message)?,
            KeySecret::Composite(key) => key.sign(message)?,
        };
        // A faulty signature can reveal the key: an RSA key its primes (Boneh, DeMillo and Lipton).
        // For RSA the library verifies at the end of its private operation.
        if !matches!(self.secret, KeySecret::Rsa(_)) {
            self.public
                .verify(scheme, message, &signature)
                .map_err(|_| SignError::Internal)?;
        }
        Ok(signature)
    }

    /// Signs twice and compares. Two signatures of one message have the same nonce, so that a faulty one
    /// beside a correct one reveals the scalar. A lasting fault of the stored public key is found
    /// by its other copy, and a message that changes between the two hashes of a signature by the second
    /// signature. A verification takes four times as long as a signature; it would also find a
    /// lasting fault of the code or its constants, and not that of the message.
    fn ed25519_signature(&self, private: &[u8; 64], message: &[u8]) -> Result<Vec<u8>, SignError> {
        let sign = || ed25519_sign(private, message).map_err(|_| SignError::Internal);
        let signatures = [sign()?, sign()?];
        let PublicInner::Ed25519(public) = &self.public.0 else {
            return Err(SignError::Internal);
        };
        let is_equal = signatures[0] == signatures[1];
        match is_equal && private.ends_with(public) {
            true => Ok(signatures[0].to_vec()),
            false => Err(SignError::Internal),
        }
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PrivateKey({:?}, ..)", self.kind())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates a fault in the computation: a signature that is not this key's.
    #[test]
    fn a_wrong_signature_does_not_leave() {
        for (kind, scheme) in [
            (KeyKind::Ed25519, SignatureScheme::Ed25519),
            (KeyKind::EcdsaP256, SignatureScheme::EcdsaP256Sha256),
            (KeyKind::EcdsaP384, SignatureScheme::EcdsaP384Sha384),
            (KeyKind::EcdsaP521, SignatureScheme::EcdsaP521Sha512),
            (KeyKind::MlDsa44Ed25519, SignatureScheme::MlDsa44Ed25519),
        ] {
            let [right, wrong] = [0, 1].map(|_| PrivateKey::generate(kind, 0).expect("a key"));
            assert!(right.sign(scheme, b"m").is_ok());
            let faulty = PrivateKey {
                secret: wrong.secret.clone(),
                public: right.public.clone(),
            };
            assert_eq!(faulty.sign(scheme, b"m"), Err(SignError::Internal));
        }
        // Changes the public key in an Ed25519 secret: a known attack.
        let key = PrivateKey::ed25519_from_seed(&[7; 32]);
        let KeySecret::Ed25519(private) = &key.secret else {
            unreachable!("made of a seed");
        };
        let mut private = private.clone();
        Arc::make_mut(&mut private)[63] ^= 1;
        let faulty = PrivateKey {
            secret: KeySecret::Ed25519(private),
            public: key.public.clone(),
        };
        let signed = faulty.sign(SignatureScheme::Ed25519, b"m");
        assert_eq!(signed, Err(SignError::Internal));
    }
}
