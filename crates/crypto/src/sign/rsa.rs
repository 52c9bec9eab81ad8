//! RSA keys: bounds, consistency checks, and primes in either order.
#![forbid(unsafe_code)]

use core::fmt;

use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use super::rsa_keygen::NewRsaKey;
use super::{MAX_RSA_BITS, MAX_RSA_EXPONENT_BITS, MIN_RSA_BITS};
use crate::awslc::AwsLcFailed;
use crate::awslc::bn::{Bn, BnContext};
use crate::awslc::rsa::{PrivateParts, RsaKey};
use crate::hash::HashAlgorithm;
use crate::{BadKey, BadSignature, SignError};

/// A public key.
pub(super) struct RsaPublic {
    key: RsaKey,
    n: Vec<u8>,
    e: Vec<u8>,
    bits: usize,
}

impl RsaPublic {
    pub(super) fn new(e: &[u8], n: &[u8]) -> Result<Self, BadKey> {
        let (n, e) = checked_public(n, e)?;
        let bits = n.bits();
        let key = RsaKey::public(&n, &e).map_err(|_| BadKey::Invalid)?;
        Ok(Self {
            key,
            n: n.to_bytes().to_vec(),
            e: e.to_bytes().to_vec(),
            bits,
        })
    }

    pub(super) fn bits(&self) -> usize {
        self.bits
    }

    pub(super) fn modulus(&self) -> &[u8] {
        &self.n
    }

    pub(super) fn exponent(&self) -> &[u8] {
        &self.e
    }

    pub(super) fn verify(
        &self,
        hash: HashAlgorithm,
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), BadSignature> {
        let len = self.key.modulus_len();
        let missing = len.checked_sub(signature.len()).ok_or(BadSignature)?;
        let digest = hash.digest(message);
        let result = if missing == 0 {
            self.key.verify(hash, &digest, signature)
        } else {
            let mut padded = vec![0; len];
            if let Some(end) = padded.get_mut(missing..) {
                end.copy_from_slice(signature);
            }
            self.key.verify(hash, &digest, &padded)
        };
        result.map_err(|_| BadSignature)
    }
}

/// The integers from which a caller makes an RSA private key, unsigned big-endian. The primes may be in
/// either order; `iqmp` is the inverse of `q` modulo `p` in that order.
#[derive(Clone, Copy)]
pub struct RsaParts<'a> {
    /// Modulus.
    pub n: &'a [u8],
    /// Public exponent.
    pub e: &'a [u8],
    /// Private exponent.
    pub d: &'a [u8],
    /// Inverse of q modulo p.
    pub iqmp: &'a [u8],
    /// First prime.
    pub p: &'a [u8],
    /// Second prime.
    pub q: &'a [u8],
}

impl fmt::Debug for RsaParts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RsaParts(..)")
    }
}

/// The integers of an RSA private key, unsigned big-endian without leading zeros. Wiped on drop.
#[derive(Zeroize, ZeroizeOnDrop)]
pub struct RsaPrivateParts {
    /// Modulus.
    pub n: Vec<u8>,
    /// Public exponent.
    pub e: Vec<u8>,
    /// Private exponent.
    pub d: Vec<u8>,
    /// Inverse of q modulo p.
    pub iqmp: Vec<u8>,
    /// First prime.
    pub p: Vec<u8>,
    /// Second prime.
    pub q: Vec<u8>,
}

impl RsaPrivateParts {
    /// d mod (p-1), as stored in PEM and PKCS#8 files (RFC 8017 A.1.2).
    #[must_use]
    pub fn dmp1(&self) -> Zeroizing<Vec<u8>> {
        self.crt_exponent(&self.p)
    }

    /// d mod (q-1), as stored in PEM and PKCS#8 files (RFC 8017 A.1.2).
    #[must_use]
    pub fn dmq1(&self) -> Zeroizing<Vec<u8>> {
        self.crt_exponent(&self.q)
    }

    fn crt_exponent(&self, prime: &[u8]) -> Zeroizing<Vec<u8>> {
        let compute = || -> Result<_, AwsLcFailed> {
            let (d, prime) = (Bn::from_bytes(&self.d)?, Bn::from_bytes(prime)?);
            let exponent = d.modulo(&prime.minus_word(1)?, &mut BnContext::new()?)?;
            Ok(exponent.to_bytes())
        };
        // The components have passed the key's checks, so only memory allocation can fail.
        compute().unwrap_or_default()
    }
}

impl RsaPrivateParts {
    fn of(n: &Bn, e: &Bn, d: &Bn, iqmp: &Bn, p: &Bn, q: &Bn) -> Self {
        Self {
            n: n.to_bytes().to_vec(),
            e: e.to_bytes().to_vec(),
            d: d.to_bytes().to_vec(),
            iqmp: iqmp.to_bytes().to_vec(),
            p: p.to_bytes().to_vec(),
            q: q.to_bytes().to_vec(),
        }
    }
}

impl fmt::Debug for RsaPrivateParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RsaPrivateParts(..)")
    }
}

/// A private key.
pub(super) struct RsaPrivate {
    key: RsaKey,
    parts: RsaPrivateParts,
}

impl RsaPrivate {
    pub(super) fn generate(bits: usize) -> Result<Self, BadKey> {
        if !(MIN_RSA_BITS..=MAX_RSA_BITS).contains(&bits) {
            return Err(BadKey::OutOfBounds);
        }
        let NewRsaKey {
            n,
            e,
            d,
            p,
            q,
            iqmp,
        } = NewRsaKey::with_bits(bits).map_err(|_| BadKey::Internal)?;
        let key = assemble(&n, &e, &d, &iqmp, &p, &q).map_err(|_| BadKey::Internal)?;
        Ok(Self {
            key,
            parts: RsaPrivateParts::of(&n, &e, &d, &iqmp, &p, &q),
        })
    }

    pub(super) fn from_parts(parts: &RsaParts<'_>) -> Result<Self, BadKey> {
        let (n, e) = checked_public(parts.n, parts.e)?;
        let secret =
            [parts.d, parts.iqmp, parts.p, parts.q].map(|part| bounded(part, MAX_RSA_BITS));
        let [d, iqmp, p, q] = secret;
        let (d, iqmp, p, q) = (d?, iqmp?, p?, q?);
        // Also bounds the arithmetic below.
        if !p.is_odd() || !q.is_odd() || p.bits() < 2 || q.bits() < 2 || p == q || d.is_zero() {
            return Err(BadKey::Inconsistent);
        }
        let key = assemble(&n, &e, &d, &iqmp, &p, &q).map_err(|_| BadKey::Inconsistent)?;
        let parts = RsaPrivateParts::of(&n, &e, &d, &iqmp, &p, &q);
        Ok(Self { key, parts })
    }

    pub(super) fn parts(&self) -> &RsaPrivateParts {
        &self.parts
    }

    pub(super) fn sign(&self, hash: HashAlgorithm, message: &[u8]) -> Result<Vec<u8>, SignError> {
        self.key
            .sign(hash, &hash.digest(message))
            .map_err(|_| SignError::Internal)
    }
}

/// Builds the library's key, which requires p > q, and checks that all components are consistent.
fn assemble(n: &Bn, e: &Bn, d: &Bn, iqmp: &Bn, p: &Bn, q: &Bn) -> Result<RsaKey, AwsLcFailed> {
    let mut context = BnContext::new()?;
    if p.times(q, &mut context)? != *n || iqmp >= p {
        return Err(AwsLcFailed);
    }
    let one = Bn::from_u64(1)?;
    if q.times(iqmp, &mut context)?.modulo(p, &mut context)? != one {
        return Err(AwsLcFailed);
    }
    let swapped;
    let (p, q, iqmp) = if p > q {
        (p, q, iqmp)
    } else {
        // The inverse of the smaller prime modulo the larger one, by Fermat, x^(m-2) mod m, because
        // that runs in constant time.
        swapped = p
            .modulo(q, &mut context)?
            .power(&q.minus_word(2)?, q, &mut context)?;
        (q, p, &swapped)
    };
    let dmp1 = d.modulo(&p.minus_word(1)?, &mut context)?;
    let dmq1 = d.modulo(&q.minus_word(1)?, &mut context)?;
    RsaKey::private(&PrivateParts {
        n,
        e,
        d,
        p,
        q,
        dmp1: &dmp1,
        dmq1: &dmq1,
        iqmp,
    })
}

/// Checks the bounds of modulus and exponent. Lengths are checked before any arithmetic, so that a
/// huge number costs nothing.
fn checked_public(n: &[u8], e: &[u8]) -> Result<(Bn, Bn), BadKey> {
    let n = bounded(n, MAX_RSA_BITS)?;
    let e = bounded(e, MAX_RSA_EXPONENT_BITS)?;
    if n.bits() < MIN_RSA_BITS {
        return Err(BadKey::OutOfBounds);
    }
    if !n.is_odd() || !e.is_odd() || e.bits() < 2 {
        return Err(BadKey::Invalid);
    }
    Ok((n, e))
}

/// Decodes an integer of at most `max_bits` bits.
fn bounded(bytes: &[u8], max_bits: usize) -> Result<Bn, BadKey> {
    let zeros = bytes.iter().take_while(|b| **b == 0).count();
    let bytes = bytes.get(zeros..).unwrap_or_default();
    if bytes.len() > max_bits / 8 {
        return Err(BadKey::OutOfBounds);
    }
    Bn::from_bytes(bytes).map_err(|_| BadKey::Internal)
}
