//! Diffie-Hellman in prime groups (RFC 4253 §8, RFC 3526, RFC 4419, RFC 8268).
//!
//! Private exponents have 512 bits: at least twice the strength of any group up to 8192 bits. Their
//! fixed length makes the time of the constant-time exponentiation independent of the exponent.
#![forbid(unsafe_code)]

use core::fmt;
use std::sync::Arc;

use zeroize::Zeroizing;

use super::KexAlgorithm;
use crate::awslc::AwsLcFailed;
use crate::awslc::bn::{Bn, BnContext, rfc3526_prime};
use crate::{BadGroup, KexError, random};

/// Length of a private exponent in bytes.
const EXPONENT_LEN: usize = 64;
/// Maximum modulus size in bits for any computation, whatever the policy.
const ABSOLUTE_MAX_BITS: usize = 16384;

/// The prime of Oakley Group 2, of 1024 bits (RFC 2409 §6.2): diffie-hellman-group1-sha1.
const OAKLEY_GROUP_2: [u8; 128] = [
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xc9, 0x0f, 0xda, 0xa2, 0x21, 0x68, 0xc2, 0x34,
    0xc4, 0xc6, 0x62, 0x8b, 0x80, 0xdc, 0x1c, 0xd1, 0x29, 0x02, 0x4e, 0x08, 0x8a, 0x67, 0xcc, 0x74,
    0x02, 0x0b, 0xbe, 0xa6, 0x3b, 0x13, 0x9b, 0x22, 0x51, 0x4a, 0x08, 0x79, 0x8e, 0x34, 0x04, 0xdd,
    0xef, 0x95, 0x19, 0xb3, 0xcd, 0x3a, 0x43, 0x1b, 0x30, 0x2b, 0x0a, 0x6d, 0xf2, 0x5f, 0x14, 0x37,
    0x4f, 0xe1, 0x35, 0x6d, 0x6d, 0x51, 0xc2, 0x45, 0xe4, 0x85, 0xb5, 0x76, 0x62, 0x5e, 0x7e, 0xc6,
    0xf4, 0x4c, 0x42, 0xe9, 0xa6, 0x37, 0xed, 0x6b, 0x0b, 0xff, 0x5c, 0xb6, 0xf4, 0x06, 0xb7, 0xed,
    0xee, 0x38, 0x6b, 0xfb, 0x5a, 0x89, 0x9f, 0xa5, 0xae, 0x9f, 0x24, 0x11, 0x7c, 0x4b, 0x1f, 0xe6,
    0x49, 0x28, 0x66, 0x51, 0xec, 0xe6, 0x53, 0x81, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
];

/// Requirements on a group from another source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DhPolicy {
    /// Minimum size of the prime in bits.
    pub min_bits: usize,
    /// Maximum size of the prime in bits.
    pub max_bits: usize,
    /// Extent of the primality test of the modulus.
    pub primality: Primality,
}

/// Extent of the primality test of the modulus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Primality {
    /// None; for the host's own moduli file, whose groups were tested when it was made.
    Trusted,
    /// Tests that p is prime; for a group that a server sent. p need not be a safe prime: the
    /// exponents are longer than any small subgroup in use, and only the server, which knows the
    /// secret anyway, could benefit from other groups.
    Prime,
    /// Tests that p and (p-1)/2 are prime; for newly generated moduli.
    Safe,
}

impl Default for DhPolicy {
    /// 2048 to 8192 bits (RFC 8270), and [`Primality::Prime`].
    fn default() -> Self {
        Self {
            min_bits: 2048,
            max_bits: 8192,
            primality: Primality::Prime,
        }
    }
}

/// A Diffie-Hellman group: an odd prime p and a generator g. Cloning is cheap.
#[derive(Clone)]
pub struct DhGroup(Arc<Parts>);

struct Parts {
    p: Bn,
    p_minus_1: Bn,
    g: Bn,
}

impl DhGroup {
    /// Creates a group from unsigned big-endian bytes and checks it against `policy`.
    ///
    /// # Errors
    /// The check that failed.
    pub fn new(p: &[u8], g: &[u8], policy: &DhPolicy) -> Result<Self, BadGroup> {
        let (p, g) = (without_leading_zeros(p), without_leading_zeros(g));
        let max_bits = policy.max_bits.min(ABSOLUTE_MAX_BITS);
        if p.len() > max_bits.div_ceil(8) {
            return Err(BadGroup::TooLarge);
        }
        let p = Bn::from_bytes(p).map_err(|_| BadGroup::Internal)?;
        if p.bits() > max_bits {
            return Err(BadGroup::TooLarge);
        }
        if p.bits() < policy.min_bits.max(16) {
            return Err(BadGroup::TooSmall);
        }
        if !p.is_odd() {
            return Err(BadGroup::NotPrime);
        }
        if g.len() > p.bits().div_ceil(8) {
            return Err(BadGroup::BadGenerator);
        }
        let g = Bn::from_bytes(g).map_err(|_| BadGroup::Internal)?;
        let group = Self::from_parts(p, g).map_err(|_| BadGroup::Internal)?;
        group.check_range(&group.0.g).map_err(|e| match e {
            KexError::Internal => BadGroup::Internal,
            _ => BadGroup::BadGenerator,
        })?;
        if group
            .passes(policy.primality)
            .map_err(|_| BadGroup::Internal)?
        {
            Ok(group)
        } else {
            Err(BadGroup::NotPrime)
        }
    }

    /// The group of a method with a fixed group.
    ///
    /// # Errors
    /// [`KexError::Misuse`] for any other method.
    pub fn fixed(algorithm: KexAlgorithm) -> Result<Self, KexError> {
        let bits = match algorithm {
            KexAlgorithm::DhGroup1Sha1 => {
                return Bn::from_bytes(&OAKLEY_GROUP_2)
                    .and_then(|p| Self::from_parts(p, Bn::from_u64(2)?))
                    .map_err(|_| KexError::Internal);
            }
            KexAlgorithm::DhGroup14Sha256
            | KexAlgorithm::DhGroup14Sha1
            | KexAlgorithm::GssGroup14Sha256 => 2048,
            KexAlgorithm::DhGroup16Sha512 | KexAlgorithm::GssGroup16Sha512 => 4096,
            KexAlgorithm::DhGroup18Sha512 => 8192,
            _ => return Err(KexError::Misuse),
        };
        rfc3526_prime(bits)
            .and_then(|p| Self::from_parts(p, Bn::from_u64(2)?))
            .map_err(|_| KexError::Internal)
    }

    fn from_parts(p: Bn, g: Bn) -> Result<Self, AwsLcFailed> {
        let p_minus_1 = p.minus_word(1)?;
        Ok(Self(Arc::new(Parts { p, p_minus_1, g })))
    }

    /// p, big-endian without leading zeros.
    #[must_use]
    pub fn p(&self) -> Vec<u8> {
        self.0.p.to_bytes().to_vec()
    }

    /// g, big-endian without leading zeros.
    #[must_use]
    pub fn g(&self) -> Vec<u8> {
        self.0.g.to_bytes().to_vec()
    }

    /// Number of bits of p.
    #[must_use]
    pub fn bits(&self) -> usize {
        self.0.p.bits()
    }

    /// Returns true if the modulus passes the primality test.
    ///
    /// A round costs as much as an exchange with a full exponent (7 ms at 3072 bits, 150 ms at
    /// 8192), so the number of rounds is small: a composite modulus that was not constructed to
    /// pass fails the first round, and a server that constructs one has simpler ways to reveal the
    /// secret.
    fn passes(&self, primality: Primality) -> Result<bool, AwsLcFailed> {
        let rounds = match self.bits() {
            ..=3072 => 3,
            3073..=4096 => 2,
            _ => 1,
        };
        let mut context = BnContext::new()?;
        match primality {
            Primality::Trusted => Ok(true),
            Primality::Prime => self.0.p.is_prime(rounds, &mut context),
            Primality::Safe => {
                // If q is prime, 2^(p-1) = 1 modulo p proves that p = 2q + 1 is prime
                // (Pocklington), because 3 does not divide p.
                let (two, three) = (Bn::from_u64(2)?, Bn::from_u64(3)?);
                let one = Bn::from_u64(1)?;
                let parts = &self.0;
                Ok(!parts.p.modulo(&three, &mut context)?.is_zero()
                    && two.power(&parts.p_minus_1, &parts.p, &mut context)? == one
                    && parts.p.halved()?.is_prime(rounds, &mut context)?)
            }
        }
    }

    /// Checks that a peer's public value is in range: 1 < value < p-1 (RFC 8268 §4).
    pub(super) fn check_public(&self, value: &[u8]) -> Result<Bn, KexError> {
        let value = without_leading_zeros(value);
        if value.len() > self.bits().div_ceil(8) {
            return Err(KexError::InvalidPublicValue);
        }
        let value = Bn::from_bytes(value).map_err(|_| KexError::Internal)?;
        self.check_range(&value)?;
        Ok(value)
    }

    fn check_range(&self, value: &Bn) -> Result<(), KexError> {
        if value.bits() > 1 && *value < self.0.p_minus_1 {
            Ok(())
        } else {
            Err(KexError::InvalidPublicValue)
        }
    }
}

impl fmt::Debug for DhGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DhGroup({} bits)", self.bits())
    }
}

/// A private exponent in a group.
pub(super) struct Private {
    group: DhGroup,
    exponent: Bn,
}

impl Private {
    /// Returns the private exponent and its public value (e or f).
    pub(super) fn generate(group: &DhGroup) -> Result<(Self, Vec<u8>), KexError> {
        let mut bytes: Zeroizing<[u8; EXPONENT_LEN]> = Zeroizing::new(random::bytes());
        // The exponent has a fixed length (see above), and is never 0 in a small test group.
        bytes[0] |= 0x80;
        let exponent = Bn::from_bytes(&*bytes).map_err(|_| KexError::Internal)?;
        let public = BnContext::new()
            .and_then(|mut context| {
                let parts = &group.0;
                parts.g.power(&exponent, &parts.p, &mut context)
            })
            .map_err(|_| KexError::Internal)?;
        let private = Self {
            group: group.clone(),
            exponent,
        };
        Ok((private, public.to_bytes().to_vec()))
    }

    /// Computes K from the peer's public value.
    pub(super) fn agree(&self, peer: &[u8]) -> Result<Zeroizing<Vec<u8>>, KexError> {
        let peer = self.group.check_public(peer)?;
        let modulus = &self.group.0.p;
        let secret = BnContext::new()
            .and_then(|mut context| peer.power(&self.exponent, modulus, &mut context))
            .map_err(|_| KexError::Internal)?;
        // In a group without a safe prime, the peer's value may have small order.
        if secret.bits() <= 1 {
            return Err(KexError::InvalidPublicValue);
        }
        Ok(secret.to_bytes())
    }
}

fn without_leading_zeros(bytes: &[u8]) -> &[u8] {
    let start = bytes.iter().position(|b| *b != 0).unwrap_or(bytes.len());
    bytes.get(start..).unwrap_or_default()
}
