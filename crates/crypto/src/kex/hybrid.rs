//! The hybrids of a post-quantum KEM and X25519:
//! draft-ietf-sshm-mlkem-hybrid-kex and draft-ietf-sshm-ntruprime-ssh.
//!
//! C_INIT is the KEM's public key ‖ an X25519 value, S_REPLY the ciphertext ‖ an
//! X25519 value, and K the hash of the KEM's secret ‖ the X25519 secret.
#![forbid(unsafe_code)]

use sntrup::sntrup761;
use zeroize::Zeroizing;

use super::curve25519;
use crate::KexError;
use crate::awslc::kem as mlkem;
use crate::hash::{HashAlgorithm, Hasher};
use crate::random::KernelRng;

/// The post-quantum half.
#[derive(Clone, Copy)]
pub(super) enum Kem {
    MlKem768,
    Sntrup761,
}

impl Kem {
    fn hash(self) -> HashAlgorithm {
        match self {
            Self::MlKem768 => HashAlgorithm::Sha256,
            Self::Sntrup761 => HashAlgorithm::Sha512,
        }
    }
}

/// The client's half.
pub(super) struct Initiator {
    kem: Decapsulation,
    x25519: curve25519::Private,
}

enum Decapsulation {
    MlKem768(mlkem::DecapsulationKey),
    Sntrup761(Box<sntrup761::DecapsulationKey>),
}

impl Initiator {
    /// The half and its C_INIT.
    pub(super) fn new(kem: Kem) -> Result<(Self, Vec<u8>), KexError> {
        let (kem, mut public) = match kem {
            Kem::MlKem768 => {
                let (key, public) =
                    mlkem::DecapsulationKey::generate().map_err(|_| KexError::Internal)?;
                (Decapsulation::MlKem768(key), public)
            }
            Kem::Sntrup761 => {
                let (public, key) = sntrup761::generate_key(&mut KernelRng::new());
                let public = public.as_ref().to_vec();
                (Decapsulation::Sntrup761(Box::new(key)), public)
            }
        };
        let x25519 = curve25519::Private::generate();
        public.extend_from_slice(x25519.public());
        Ok((Self { kem, x25519 }, public))
    }

    /// Takes S_REPLY and computes K.
    pub(super) fn finish(self, reply: &[u8]) -> Result<Zeroizing<Vec<u8>>, KexError> {
        match &self.kem {
            Decapsulation::MlKem768(key) => {
                let (ciphertext, peer) = split::<{ mlkem::CIPHERTEXT_LEN }>(reply)?;
                // The cheap refusal first.
                let classical = self.x25519.agree(peer)?;
                let secret = key
                    .decapsulate(ciphertext)
                    .map_err(|_| KexError::Internal)?;
                Ok(combine(Kem::MlKem768, &*secret, &classical))
            }
            Decapsulation::Sntrup761(key) => {
                let (ciphertext, peer) = split::<{ sntrup761::CIPHERTEXT_SIZE }>(reply)?;
                let classical = self.x25519.agree(peer)?;
                let ciphertext = sntrup761::Ciphertext::try_from(ciphertext.as_slice())
                    .map_err(|_| KexError::WrongLength)?;
                let secret = key.decapsulate(&ciphertext);
                Ok(combine(Kem::Sntrup761, secret.as_ref(), &classical))
            }
        }
    }
}

/// The server's half: takes C_INIT, returns S_REPLY and K.
pub(super) fn respond(kem: Kem, init: &[u8]) -> Result<(Vec<u8>, Zeroizing<Vec<u8>>), KexError> {
    let x25519 = curve25519::Private::generate();
    let (mut reply, secret) = match kem {
        Kem::MlKem768 => {
            let (public, peer) = split::<{ mlkem::PUBLIC_LEN }>(init)?;
            let classical = x25519.agree(peer)?;
            let (ciphertext, secret) =
                mlkem::encapsulate(public).map_err(|_| KexError::InvalidPublicValue)?;
            (ciphertext, combine(kem, &*secret, &classical))
        }
        Kem::Sntrup761 => {
            let (public, peer) = split::<{ sntrup761::PUBLIC_KEY_SIZE }>(init)?;
            let classical = x25519.agree(peer)?;
            let public = sntrup761::EncapsulationKey::try_from(public.as_slice())
                .map_err(|_| KexError::InvalidPublicValue)?;
            let (ciphertext, secret) = public.encapsulate(&mut KernelRng::new());
            let secret = combine(kem, secret.as_ref(), &classical);
            (ciphertext.as_ref().to_vec(), secret)
        }
    };
    reply.extend_from_slice(x25519.public());
    Ok((reply, secret))
}

/// Splits a wire value into the KEM's part and the X25519 value.
fn split<const KEM_LEN: usize>(value: &[u8]) -> Result<(&[u8; KEM_LEN], &[u8]), KexError> {
    match value.split_first_chunk::<KEM_LEN>() {
        Some((kem, rest)) if rest.len() == curve25519::LEN => Ok((kem, rest)),
        _ => Err(KexError::WrongLength),
    }
}

fn combine(kem: Kem, quantum: &[u8], classical: &[u8; curve25519::LEN]) -> Zeroizing<Vec<u8>> {
    let mut hasher = Hasher::new(kem.hash());
    hasher.update(quantum);
    hasher.update(classical);
    Zeroizing::new(hasher.finish().to_vec())
}
