//! Hybrids of a post-quantum KEM and an exchange on a curve: draft-ietf-sshm-mlkem-hybrid-kex and
//! draft-ietf-sshm-ntruprime-ssh.
//!
//! C_INIT is the KEM's public key ‖ the curve's public value, S_REPLY the
//! ciphertext ‖ the curve's public value, and K the hash of the KEM's secret ‖
//! the curve's secret. On P-256 a public value is an uncompressed point, and
//! the secret its x coordinate with leading zeros.
#![forbid(unsafe_code)]

use sntrup::sntrup761;
use zeroize::Zeroizing;

use super::curve25519;
use crate::KexError;
use crate::awslc::ec::{Curve, EcKey};
use crate::awslc::kem as mlkem;
use crate::hash::{HashAlgorithm, Hasher};
use crate::random::KernelRng;

/// The KEM and the curve of a hybrid.
#[derive(Clone, Copy)]
pub(super) enum Hybrid {
    MlKem768X25519,
    MlKem768P256,
    Sntrup761X25519,
}

impl Hybrid {
    fn hash(self) -> HashAlgorithm {
        match self {
            Self::MlKem768X25519 | Self::MlKem768P256 => HashAlgorithm::Sha256,
            Self::Sntrup761X25519 => HashAlgorithm::Sha512,
        }
    }
}

/// The client's half.
pub(super) struct Initiator {
    hybrid: Hybrid,
    kem: Decapsulation,
    classical: CurveKey,
}

enum Decapsulation {
    MlKem768(mlkem::DecapsulationKey),
    Sntrup761(Box<sntrup761::DecapsulationKey>),
}

/// A private value on the hybrid's curve.
enum CurveKey {
    X25519(curve25519::Private),
    P256(EcKey),
}

impl CurveKey {
    fn generate(hybrid: Hybrid) -> Result<Self, KexError> {
        Ok(match hybrid {
            Hybrid::MlKem768X25519 | Hybrid::Sntrup761X25519 => {
                Self::X25519(curve25519::Private::generate())
            }
            Hybrid::MlKem768P256 => {
                Self::P256(EcKey::generate(Curve::P256).map_err(|_| KexError::Internal)?)
            }
        })
    }

    fn public_len(&self) -> usize {
        match self {
            Self::X25519(_) => curve25519::LEN,
            Self::P256(key) => key.curve().point_len(),
        }
    }

    fn put_public(&self, out: &mut Vec<u8>) -> Result<(), KexError> {
        match self {
            Self::X25519(private) => out.extend_from_slice(private.public()),
            Self::P256(key) => {
                out.extend_from_slice(&key.public_point().map_err(|_| KexError::Internal)?);
            }
        }
        Ok(())
    }

    fn agree(&self, peer: &[u8]) -> Result<Zeroizing<Vec<u8>>, KexError> {
        match self {
            Self::X25519(private) => {
                let secret = private.agree(peer)?;
                Ok(Zeroizing::new(secret.to_vec()))
            }
            Self::P256(key) => key.agree(peer).map_err(|_| KexError::InvalidPublicValue),
        }
    }

    /// Splits a wire value into the KEM's and the curve's part.
    fn split<'v, const KEM_LEN: usize>(
        &self,
        value: &'v [u8],
    ) -> Result<(&'v [u8; KEM_LEN], &'v [u8]), KexError> {
        match value.split_first_chunk::<KEM_LEN>() {
            Some((kem, rest)) if rest.len() == self.public_len() => Ok((kem, rest)),
            _ => Err(KexError::WrongLength),
        }
    }
}

impl Initiator {
    /// Returns the half and its C_INIT.
    pub(super) fn new(hybrid: Hybrid) -> Result<(Self, Vec<u8>), KexError> {
        let (kem, mut public) = match hybrid {
            Hybrid::MlKem768X25519 | Hybrid::MlKem768P256 => {
                let (key, public) =
                    mlkem::DecapsulationKey::generate().map_err(|_| KexError::Internal)?;
                (Decapsulation::MlKem768(key), public)
            }
            Hybrid::Sntrup761X25519 => {
                let (public, key) = sntrup761::generate_key(&mut KernelRng::new());
                let public = public.as_ref().to_vec();
                (Decapsulation::Sntrup761(Box::new(key)), public)
            }
        };
        let classical = CurveKey::generate(hybrid)?;
        classical.put_public(&mut public)?;
        let half = Self {
            hybrid,
            kem,
            classical,
        };
        Ok((half, public))
    }

    /// Computes K from S_REPLY.
    pub(super) fn finish(self, reply: &[u8]) -> Result<Zeroizing<Vec<u8>>, KexError> {
        match &self.kem {
            Decapsulation::MlKem768(key) => {
                let (ciphertext, peer) =
                    self.classical.split::<{ mlkem::CIPHERTEXT_LEN }>(reply)?;
                // The curve rejects invalid values at less cost, so it goes first.
                let classical = self.classical.agree(peer)?;
                let secret = key
                    .decapsulate(ciphertext)
                    .map_err(|_| KexError::Internal)?;
                Ok(combine(self.hybrid, &*secret, &classical))
            }
            Decapsulation::Sntrup761(key) => {
                let (ciphertext, peer) = self
                    .classical
                    .split::<{ sntrup761::CIPHERTEXT_SIZE }>(reply)?;
                let classical = self.classical.agree(peer)?;
                let ciphertext = sntrup761::Ciphertext::try_from(ciphertext.as_slice())
                    .map_err(|_| KexError::WrongLength)?;
                let secret = key.decapsulate(&ciphertext);
                Ok(combine(self.hybrid, secret.as_ref(), &classical))
            }
        }
    }
}

/// The server's half: returns S_REPLY and K for C_INIT.
pub(super) fn respond(
    hybrid: Hybrid,
    init: &[u8],
) -> Result<(Vec<u8>, Zeroizing<Vec<u8>>), KexError> {
    let ours = CurveKey::generate(hybrid)?;
    let (mut reply, secret) = match hybrid {
        Hybrid::MlKem768X25519 | Hybrid::MlKem768P256 => {
            let (public, peer) = ours.split::<{ mlkem::PUBLIC_LEN }>(init)?;
            let classical = ours.agree(peer)?;
            let (ciphertext, secret) =
                mlkem::encapsulate(public).map_err(|_| KexError::InvalidPublicValue)?;
            (ciphertext, combine(hybrid, &*secret, &classical))
        }
        Hybrid::Sntrup761X25519 => {
            let (public, peer) = ours.split::<{ sntrup761::PUBLIC_KEY_SIZE }>(init)?;
            let classical = ours.agree(peer)?;
            let public = sntrup761::EncapsulationKey::try_from(public.as_slice())
                .map_err(|_| KexError::InvalidPublicValue)?;
            let (ciphertext, secret) = public.encapsulate(&mut KernelRng::new());
            let secret = combine(hybrid, secret.as_ref(), &classical);
            (ciphertext.as_ref().to_vec(), secret)
        }
    };
    ours.put_public(&mut reply)?;
    Ok((reply, secret))
}

fn combine(hybrid: Hybrid, quantum: &[u8], classical: &[u8]) -> Zeroizing<Vec<u8>> {
    let mut hasher = Hasher::new(hybrid.hash());
    hasher.update(quantum);
    hasher.update(classical);
    Zeroizing::new(hasher.finish().to_vec())
}
