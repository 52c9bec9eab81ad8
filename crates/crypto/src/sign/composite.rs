//! ML-DSA-44 with Ed25519 (draft-miller-sshm-mldsa44-ed25519-composite-sigs-00, OpenSSH's
//! `ssh-mldsa44-ed25519`): both sign M′ of draft-ietf-lamps-pq-composite-sigs §3.2 with an empty
//! context, and both signatures must be valid. Keys, seeds and signatures are those of ML-DSA-44
//! followed by those of Ed25519.
#![forbid(unsafe_code)]

use zeroize::Zeroizing;

use crate::awslc::mldsa::{self, SigningKey};
use crate::awslc::x25519::{ed25519_from_seed, ed25519_sign, ed25519_verify};
use crate::hash::HashAlgorithm;
use crate::{BadKey, BadSignature, SignError};

/// Length of a public key of ML-DSA-44 with Ed25519 in bytes.
pub const MLDSA44_ED25519_PUBLIC_BYTES: usize = mldsa::PUBLIC_LEN + 32;
/// Length of a private key of ML-DSA-44 with Ed25519 in bytes: both seeds.
pub const MLDSA44_ED25519_SEED_BYTES: usize = mldsa::SEED_LEN + 32;
/// Length of a signature of ML-DSA-44 with Ed25519 in bytes.
pub const MLDSA44_ED25519_SIGNATURE_BYTES: usize = mldsa::SIGNATURE_LEN + 64;

const PREFIX: &[u8] = b"CompositeAlgorithmSignatures2025";
/// Names the combination; it is also the context of the ML-DSA signature.
const LABEL: &[u8] = b"COMPSIG-MLDSA44-Ed25519-SHA512";

/// Both public keys.
pub(super) type CompositePublic = [u8; MLDSA44_ED25519_PUBLIC_BYTES];

/// Both private keys, expanded; wiped on drop.
pub(super) struct CompositePrivate {
    seeds: Zeroizing<[u8; MLDSA44_ED25519_SEED_BYTES]>,
    mldsa: SigningKey,
    /// Seed ‖ public key.
    ed25519: Zeroizing<[u8; 64]>,
}

impl CompositePrivate {
    pub(super) fn from_seeds(
        seeds: &[u8; MLDSA44_ED25519_SEED_BYTES],
    ) -> Result<(Self, CompositePublic), BadKey> {
        let halves = seeds.split_first_chunk().zip(seeds.last_chunk());
        let ((mldsa_seed, _), ed25519_seed) = halves.ok_or(BadKey::Internal)?;
        let (mldsa, mldsa_public) =
            SigningKey::from_seed(mldsa_seed).map_err(|_| BadKey::Internal)?;
        let mut ed25519 = Zeroizing::new([0; 64]);
        let ed25519_public = ed25519_from_seed(ed25519_seed, &mut ed25519);
        let mut public = [0; MLDSA44_ED25519_PUBLIC_BYTES];
        let (left, right) = public.split_at_mut(mldsa::PUBLIC_LEN);
        left.copy_from_slice(&mldsa_public);
        right.copy_from_slice(&ed25519_public);
        let private = Self {
            seeds: Zeroizing::new(*seeds),
            mldsa,
            ed25519,
        };
        Ok((private, public))
    }

    pub(super) fn seeds(&self) -> &Zeroizing<[u8; MLDSA44_ED25519_SEED_BYTES]> {
        &self.seeds
    }

    pub(super) fn sign(&self, message: &[u8]) -> Result<Vec<u8>, SignError> {
        let prime = m_prime(message);
        let signature = self.mldsa.sign(&prime, LABEL);
        let mldsa = signature.map_err(|_| SignError::Internal)?;
        let ed25519 = ed25519_sign(&self.ed25519, &prime).map_err(|_| SignError::Internal)?;
        Ok([&mldsa[..], &ed25519].concat())
    }
}

/// Verifies both signatures.
pub(super) fn verify(
    public: &CompositePublic,
    message: &[u8],
    signature: &[u8],
) -> Result<(), BadSignature> {
    let (mldsa_public, ed25519_public) = public.split_first_chunk().ok_or(BadSignature)?;
    let ed25519_public = ed25519_public.try_into().map_err(|_| BadSignature)?;
    let (mldsa, ed25519) = signature.split_first_chunk().ok_or(BadSignature)?;
    let ed25519 = ed25519.try_into().map_err(|_| BadSignature)?;
    let prime = m_prime(message);
    mldsa::verify(mldsa_public, &prime, LABEL, mldsa).map_err(|_| BadSignature)?;
    ed25519_verify(ed25519_public, &prime, ed25519).map_err(|_| BadSignature)
}

/// Prefix ‖ label ‖ length of the context, 0 ‖ SHA-512 of the message.
fn m_prime(message: &[u8]) -> Vec<u8> {
    let digest = HashAlgorithm::Sha512.digest(message);
    [PREFIX, LABEL, &[0], &digest].concat()
}
