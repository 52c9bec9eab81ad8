//! Keys on the NIST curves: points, ECDH and ECDSA.

use core::ptr::NonNull;

use zeroize::Zeroizing;

use super::bn::Bn;
#[cfg(test)]
use super::bn::bytes_of;
use super::{AwsLcFailed, check, ffi, non_null};
use crate::random;

/// A NIST prime curve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Curve {
    P256,
    P384,
    P521,
}

impl Curve {
    /// Length in bytes of a coordinate, a scalar, and each half of a signature.
    pub(crate) const fn coordinate_len(self) -> usize {
        match self {
            Self::P256 => 32,
            Self::P384 => 48,
            Self::P521 => 66,
        }
    }

    /// Length in bytes of an uncompressed point (SEC 1 §2.3.3).
    pub(crate) const fn point_len(self) -> usize {
        1 + 2 * self.coordinate_len()
    }

    /// Number of bits of the group order.
    pub(crate) const fn bits(self) -> usize {
        match self {
            Self::P256 => 256,
            Self::P384 => 384,
            Self::P521 => 521,
        }
    }

    fn group(self) -> *const ffi::EC_GROUP {
        // SAFETY: no arguments; each returns a static group.
        unsafe {
            match self {
                Self::P256 => ffi::EC_group_p256(),
                Self::P384 => ffi::EC_group_p384(),
                Self::P521 => ffi::EC_group_p521(),
            }
        }
    }
}

/// A point of a curve, freed on drop.
struct Point(NonNull<ffi::EC_POINT>);

impl Point {
    fn new(curve: Curve) -> Result<Self, AwsLcFailed> {
        // SAFETY: the group is static; null is handled.
        non_null(unsafe { ffi::EC_POINT_new(curve.group()) }).map(Self)
    }

    /// Decodes an uncompressed point; checks that it is on the curve and is not the point at
    /// infinity.
    fn decode(curve: Curve, bytes: &[u8]) -> Result<Self, AwsLcFailed> {
        if bytes.len() != curve.point_len() || bytes.first() != Some(&4) {
            return Err(AwsLcFailed);
        }
        let point = Self::new(curve)?;
        // SAFETY: the point is ours and of this group; `bytes` is valid for its
        // length; the function checks the curve equation.
        check(unsafe {
            ffi::EC_POINT_oct2point(
                curve.group(),
                point.0.as_ptr(),
                bytes.as_ptr(),
                bytes.len(),
                core::ptr::null_mut(),
            )
        })?;
        // SAFETY: as above.
        if unsafe { ffi::EC_POINT_is_at_infinity(curve.group(), point.0.as_ptr()) } != 0 {
            return Err(AwsLcFailed);
        }
        Ok(point)
    }

    fn encode(&self, curve: Curve) -> Result<Vec<u8>, AwsLcFailed> {
        let mut out = vec![0; curve.point_len()];
        // SAFETY: the point is ours and of this group; `out` is valid for its
        // length.
        let len = unsafe {
            ffi::EC_POINT_point2oct(
                curve.group(),
                self.0.as_ptr(),
                ffi::point_conversion_form_t::POINT_CONVERSION_UNCOMPRESSED,
                out.as_mut_ptr(),
                out.len(),
                core::ptr::null_mut(),
            )
        };
        if len == out.len() {
            Ok(out)
        } else {
            Err(AwsLcFailed)
        }
    }
}

impl Drop for Point {
    fn drop(&mut self) {
        // SAFETY: the point is ours and not used again.
        unsafe { ffi::EC_POINT_free(self.0.as_ptr()) }
    }
}

/// A public key, or a private key with its public key.
pub(crate) struct EcKey {
    curve: Curve,
    key: NonNull<ffi::EC_KEY>,
}

// SAFETY: an EC_KEY has no thread affinity.
unsafe impl Send for EcKey {}
// SAFETY: after construction every function used here takes the key as const; aws-lc documents
// these as safe to call from several threads.
unsafe impl Sync for EcKey {}

impl EcKey {
    fn empty(curve: Curve) -> Result<Self, AwsLcFailed> {
        let nid = match curve {
            Curve::P256 => ffi::NID_X9_62_prime256v1,
            Curve::P384 => ffi::NID_secp384r1,
            Curve::P521 => ffi::NID_secp521r1,
        };
        // SAFETY: null is handled.
        let key = non_null(unsafe { ffi::EC_KEY_new_by_curve_name(nid) })?;
        Ok(Self { curve, key })
    }

    /// A public key from an uncompressed point.
    pub(crate) fn public(curve: Curve, point: &[u8]) -> Result<Self, AwsLcFailed> {
        let point = Point::decode(curve, point)?;
        let this = Self::empty(curve)?;
        // SAFETY: key and point are ours and of one group; the point is copied.
        check(unsafe { ffi::EC_KEY_set_public_key(this.key.as_ptr(), point.0.as_ptr()) })?;
        Ok(this)
    }

    /// Creates a private key from a scalar in 1..order; computes its public key.
    pub(crate) fn private(curve: Curve, scalar: &[u8]) -> Result<Self, AwsLcFailed> {
        if scalar.len() > curve.coordinate_len() {
            return Err(AwsLcFailed);
        }
        let scalar = Bn::from_bytes(scalar)?;
        if scalar.is_zero() {
            return Err(AwsLcFailed);
        }
        let this = Self::empty(curve)?;
        let point = Point::new(curve)?;
        // SAFETY: all objects are ours and of one group; the key copies the scalar (and rejects one
        // not below the order) and the point.
        unsafe {
            check(ffi::EC_KEY_set_private_key(
                this.key.as_ptr(),
                scalar.as_ptr(),
            ))?;
            check(ffi::EC_POINT_mul(
                curve.group(),
                point.0.as_ptr(),
                scalar.as_ptr(),
                core::ptr::null(),
                core::ptr::null(),
                core::ptr::null_mut(),
            ))?;
            check(ffi::EC_KEY_set_public_key(
                this.key.as_ptr(),
                point.0.as_ptr(),
            ))?;
        }
        Ok(this)
    }

    /// Generates a private key; the scalar is drawn from the kernel by rejection sampling.
    pub(crate) fn generate(curve: Curve) -> Result<Self, AwsLcFailed> {
        let mut scalar = Zeroizing::new(vec![0u8; curve.coordinate_len()]);
        let excess_bits = 8 * curve.coordinate_len() - curve.bits();
        // A draw is out of range with a probability below 2^-32 (P-256) and far less on the other
        // curves: a hundred in a row do not occur.
        for _ in 0..100 {
            random::fill(&mut scalar);
            if let Some(first) = scalar.first_mut() {
                *first &= 0xff >> excess_bits;
            }
            if let Ok(key) = Self::private(curve, &scalar) {
                return Ok(key);
            }
        }
        Err(AwsLcFailed)
    }

    pub(crate) fn curve(&self) -> Curve {
        self.curve
    }

    /// The public key as an uncompressed point.
    pub(crate) fn public_point(&self) -> Result<Vec<u8>, AwsLcFailed> {
        // SAFETY: the key is ours and always has a public point, which is copied.
        let point = unsafe {
            let point = ffi::EC_KEY_get0_public_key(self.key.as_ptr());
            non_null(ffi::EC_POINT_dup(point, self.curve.group()))?
        };
        Point(point).encode(self.curve)
    }

    /// The private scalar, padded to the coordinate's length.
    pub(crate) fn scalar(&self) -> Result<Zeroizing<Vec<u8>>, AwsLcFailed> {
        let len = self.curve.coordinate_len();
        let mut out = Zeroizing::new(vec![0; len]);
        // SAFETY: the key is ours; the scalar lives as long as the key, and null is handled.
        unsafe {
            let scalar = ffi::EC_KEY_get0_private_key(self.key.as_ptr());
            if scalar.is_null() {
                return Err(AwsLcFailed);
            }
            check(ffi::BN_bn2bin_padded(out.as_mut_ptr(), len, scalar))?;
        }
        Ok(out)
    }

    /// ECDH: the x coordinate of the shared point, padded to its full length.
    pub(crate) fn agree(&self, peer: &[u8]) -> Result<Zeroizing<Vec<u8>>, AwsLcFailed> {
        let peer = Point::decode(self.curve, peer)?;
        let len = self.curve.coordinate_len();
        let mut out = Zeroizing::new(vec![0; len]);
        // SAFETY: key and point are ours and of one group; `out` is valid for
        // `len` bytes; without a KDF the raw x coordinate is written.
        let written = unsafe {
            ffi::ECDH_compute_key(
                out.as_mut_ptr().cast(),
                len,
                peer.0.as_ptr(),
                self.key.as_ptr(),
                None,
            )
        };
        match usize::try_from(written) {
            Ok(written) if written == len => Ok(out),
            _ => check(0).map(|()| out),
        }
    }

    /// Signs a digest with ECDSA; returns r ‖ s, each padded to the coordinate length. The nonce is
    /// hedged: drawn at random and mixed with key and digest.
    pub(crate) fn sign(&self, digest: &[u8]) -> Result<Vec<u8>, AwsLcFailed> {
        let len = self.curve.coordinate_len();
        let mut out = vec![0; 2 * len];
        // SAFETY: the key is ours; `digest` is valid for its length; the
        // signature is freed below, r and s live as long as it.
        unsafe {
            let signature = non_null(ffi::ECDSA_do_sign(
                digest.as_ptr(),
                digest.len(),
                self.key.as_ptr(),
            ))?;
            let (mut r, mut s) = (core::ptr::null(), core::ptr::null());
            ffi::ECDSA_SIG_get0(signature.as_ptr(), &raw mut r, &raw mut s);
            let (first, second) = out.split_at_mut(len);
            let written = check(ffi::BN_bn2bin_padded(first.as_mut_ptr(), len, r))
                .and_then(|()| check(ffi::BN_bn2bin_padded(second.as_mut_ptr(), len, s)));
            ffi::ECDSA_SIG_free(signature.as_ptr());
            written?;
        }
        Ok(out)
    }

    /// Verifies r and s (unsigned big-endian) over a digest.
    pub(crate) fn verify(&self, digest: &[u8], r: &[u8], s: &[u8]) -> Result<(), AwsLcFailed> {
        let len = self.curve.coordinate_len();
        if r.len() > len || s.len() > len {
            return Err(AwsLcFailed);
        }
        let (r, s) = (Bn::from_bytes(r)?, Bn::from_bytes(s)?);
        // SAFETY: the signature is ours and freed below; `set0` takes ownership of r and s if it
        // succeeds, and it fails only for null pointers.
        unsafe {
            let signature = non_null(ffi::ECDSA_SIG_new())?;
            let set = ffi::ECDSA_SIG_set0(signature.as_ptr(), r.into_raw(), s.into_raw());
            let verified = if set == 1 {
                ffi::ECDSA_do_verify(
                    digest.as_ptr(),
                    digest.len(),
                    signature.as_ptr(),
                    self.key.as_ptr(),
                )
            } else {
                0
            };
            ffi::ECDSA_SIG_free(signature.as_ptr());
            check(verified)
        }
    }

    /// The group order, for tests of the nonces.
    #[cfg(test)]
    pub(crate) fn order(&self) -> Zeroizing<Vec<u8>> {
        // SAFETY: the group and its order are static.
        unsafe { bytes_of(ffi::EC_GROUP_get0_order(self.curve.group())) }
    }
}

impl Drop for EcKey {
    fn drop(&mut self) {
        // SAFETY: the key is ours and not used again; its scalar is wiped.
        unsafe { ffi::EC_KEY_free(self.key.as_ptr()) }
    }
}
