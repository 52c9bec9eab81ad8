//! RSA keys: PKCS#1 v1.5 signatures (RFC 8017 §8.2).

use core::ptr::NonNull;

use super::bn::Bn;
use super::{AwsLcFailed, check, ffi, non_null};
use crate::hash::HashAlgorithm;

/// A public or private RSA key.
pub(crate) struct RsaKey(NonNull<ffi::RSA>);

// SAFETY: an RSA has no thread affinity.
unsafe impl Send for RsaKey {}
// SAFETY: signing and verifying may run on one RSA from several threads: a lock inside protects its
// lazily built tables and blindings.
unsafe impl Sync for RsaKey {}

impl RsaKey {
    /// A public key. The caller bounds the size of both integers.
    pub(crate) fn public(n: &Bn, e: &Bn) -> Result<Self, AwsLcFailed> {
        // SAFETY: both integers are copied; null is handled.
        non_null(unsafe { ffi::RSA_new_public_key_large_e(n.as_ptr(), e.as_ptr()) }).map(Self)
    }

    /// A private key from all its parts, checked for consistency by the
    /// library.
    pub(crate) fn private(parts: &PrivateParts<'_>) -> Result<Self, AwsLcFailed> {
        // SAFETY: all integers are copied; null is handled.
        let this = non_null(unsafe {
            ffi::RSA_new_private_key_large_e(
                parts.n.as_ptr(),
                parts.e.as_ptr(),
                parts.d.as_ptr(),
                parts.p.as_ptr(),
                parts.q.as_ptr(),
                parts.dmp1.as_ptr(),
                parts.dmq1.as_ptr(),
                parts.iqmp.as_ptr(),
            )
        })
        .map(Self)?;
        // SAFETY: the key is ours.
        check(unsafe { ffi::RSA_check_key(this.0.as_ptr()) })?;
        Ok(this)
    }

    /// Length of the modulus, and so of a signature, in bytes.
    pub(crate) fn modulus_len(&self) -> usize {
        // SAFETY: the key is ours and has a modulus.
        unsafe { ffi::RSA_size(self.0.as_ptr()) as usize }
    }

    /// Signs a digest.
    pub(crate) fn sign(
        &self,
        algorithm: HashAlgorithm,
        digest: &[u8],
    ) -> Result<Vec<u8>, AwsLcFailed> {
        let mut out = vec![0; self.modulus_len()];
        let mut len = 0;
        // SAFETY: the key is ours; `out` is valid for the `RSA_size` bytes that
        // the function may write; `digest` is valid for its length.
        check(unsafe {
            ffi::RSA_sign(
                nid(algorithm),
                digest.as_ptr(),
                digest.len(),
                out.as_mut_ptr(),
                &raw mut len,
                self.0.as_ptr(),
            )
        })?;
        if len as usize == out.len() {
            Ok(out)
        } else {
            Err(AwsLcFailed)
        }
    }

    /// Verifies a signature of the modulus' length over a digest.
    pub(crate) fn verify(
        &self,
        algorithm: HashAlgorithm,
        digest: &[u8],
        signature: &[u8],
    ) -> Result<(), AwsLcFailed> {
        // SAFETY: the key is ours; both buffers are valid for their lengths.
        check(unsafe {
            ffi::RSA_verify(
                nid(algorithm),
                digest.as_ptr(),
                digest.len(),
                signature.as_ptr(),
                signature.len(),
                self.0.as_ptr(),
            )
        })
    }
}

impl Drop for RsaKey {
    fn drop(&mut self) {
        // SAFETY: the key is ours and not used again; its secrets are wiped.
        unsafe { ffi::RSA_free(self.0.as_ptr()) }
    }
}

/// All integers of a private key (RFC 8017 §3.2), with p > q.
pub(crate) struct PrivateParts<'a> {
    pub(crate) n: &'a Bn,
    pub(crate) e: &'a Bn,
    pub(crate) d: &'a Bn,
    pub(crate) p: &'a Bn,
    pub(crate) q: &'a Bn,
    pub(crate) dmp1: &'a Bn,
    pub(crate) dmq1: &'a Bn,
    pub(crate) iqmp: &'a Bn,
}

fn nid(algorithm: HashAlgorithm) -> core::ffi::c_int {
    match algorithm {
        HashAlgorithm::Md5 => ffi::NID_md5,
        HashAlgorithm::Sha1 => ffi::NID_sha1,
        HashAlgorithm::Sha256 => ffi::NID_sha256,
        HashAlgorithm::Sha384 => ffi::NID_sha384,
        HashAlgorithm::Sha512 => ffi::NID_sha512,
    }
}
