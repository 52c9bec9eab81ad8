//! ML-DSA-44 (FIPS 204), hedged with randomness from the kernel.
//!
//! Calls aws-lc's internal functions for the method, for the reason that [`super::kem`] states. The
//! library computes in constant time in all that is secret (the number of attempts of a signature
//! depends on values that reveal nothing of the key, FIPS 204 §3.6.3) and wipes its buffers.

use zeroize::Zeroizing;

use super::{AwsLcFailed, check};
use crate::random;

/// Length of a public key in bytes.
pub(crate) const PUBLIC_LEN: usize = 1312;
/// Length of a signature in bytes.
pub(crate) const SIGNATURE_LEN: usize = 2420;
/// Length of the seed of a key pair, ξ of FIPS 204 §5.1, in bytes.
pub(crate) const SEED_LEN: usize = 32;
/// Length of an expanded private key in bytes.
const PRIVATE_LEN: usize = 2560;
/// Length of the randomness of a signature, rnd of FIPS 204 §5.2, in bytes.
const RANDOM_LEN: usize = 32;
/// Longest context string in bytes (FIPS 204 §5.2).
const MAX_CONTEXT_LEN: usize = 255;

// Declared as in crypto/fipsmodule/ml_dsa/ml_dsa.h of the version that the workspace pins. The
// library's build puts the version before each name, so another version fails to link. All
// functions return 1 for success.
unsafe extern "C" {
    #[link_name = "aws_lc_0_47_0_ml_dsa_44_keypair_internal"]
    fn keypair(public: *mut u8, private: *mut u8, seed: *const u8) -> core::ffi::c_int;
    #[link_name = "aws_lc_0_47_0_ml_dsa_44_sign_internal"]
    fn sign_with(
        private: *const u8,
        signature: *mut u8,
        signature_len: *mut usize,
        message: *const u8,
        message_len: usize,
        prefix: *const u8,
        prefix_len: usize,
        random: *const u8,
    ) -> core::ffi::c_int;
    #[link_name = "aws_lc_0_47_0_ml_dsa_44_verify"]
    fn verify_with(
        public: *const u8,
        signature: *const u8,
        signature_len: usize,
        message: *const u8,
        message_len: usize,
        context: *const u8,
        context_len: usize,
    ) -> core::ffi::c_int;
}

/// An expanded private key, wiped on drop.
pub(crate) struct SigningKey(Box<Zeroizing<[u8; PRIVATE_LEN]>>);

impl SigningKey {
    /// Derives the key pair of a seed.
    pub(crate) fn from_seed(
        seed: &[u8; SEED_LEN],
    ) -> Result<(Self, [u8; PUBLIC_LEN]), AwsLcFailed> {
        let mut public = [0; PUBLIC_LEN];
        let mut private = Box::new(Zeroizing::new([0_u8; PRIVATE_LEN]));
        // SAFETY: all three are arrays of the lengths that the method has.
        check(unsafe { keypair(public.as_mut_ptr(), private.as_mut_ptr(), seed.as_ptr()) })?;
        Ok((Self(private), public))
    }

    /// Signs `message` under a context string of at most 255 bytes.
    pub(crate) fn sign(
        &self,
        message: &[u8],
        context: &[u8],
    ) -> Result<[u8; SIGNATURE_LEN], AwsLcFailed> {
        let random: Zeroizing<[u8; RANDOM_LEN]> = Zeroizing::new(random::bytes());
        self.sign_hedged(message, context, &random)
    }

    /// Like [`Self::sign`], with given randomness.
    pub(crate) fn sign_hedged(
        &self,
        message: &[u8],
        context: &[u8],
        random: &[u8; RANDOM_LEN],
    ) -> Result<[u8; SIGNATURE_LEN], AwsLcFailed> {
        // What precedes the message in FIPS 204 §5.2, algorithm 2: 0 for a message that is not
        // hashed, the context's length, the context.
        let context_len = u8::try_from(context.len()).map_err(|_| AwsLcFailed)?;
        let mut prefix = Vec::with_capacity(2 + MAX_CONTEXT_LEN);
        prefix.extend_from_slice(&[0, context_len]);
        prefix.extend_from_slice(context);
        self.sign_prefixed(message, &prefix, random)
    }

    /// FIPS 204 §6.2: signs the prefix followed by the message.
    fn sign_prefixed(
        &self,
        message: &[u8],
        prefix: &[u8],
        random: &[u8; RANDOM_LEN],
    ) -> Result<[u8; SIGNATURE_LEN], AwsLcFailed> {
        let mut signature = [0; SIGNATURE_LEN];
        let mut len = 0;
        // SAFETY: message and prefix are valid for the lengths given with them; key, signature and
        // randomness are arrays of the lengths that the method has.
        check(unsafe {
            sign_with(
                self.0.as_ptr(),
                signature.as_mut_ptr(),
                &raw mut len,
                message.as_ptr(),
                message.len(),
                prefix.as_ptr(),
                prefix.len(),
                random.as_ptr(),
            )
        })?;
        match len {
            SIGNATURE_LEN => Ok(signature),
            _ => Err(AwsLcFailed),
        }
    }
}

/// Verifies a signature over `message` under a context string of at most 255 bytes.
pub(crate) fn verify(
    public: &[u8; PUBLIC_LEN],
    message: &[u8],
    context: &[u8],
    signature: &[u8; SIGNATURE_LEN],
) -> Result<(), AwsLcFailed> {
    // SAFETY: message and context are valid for the lengths given with them; key and signature are
    // arrays of the lengths that the method has.
    check(unsafe {
        verify_with(
            public.as_ptr(),
            signature.as_ptr(),
            signature.len(),
            message.as_ptr(),
            message.len(),
            context.as_ptr(),
            context.len(),
        )
    })
}

#[cfg(test)]
#[path = "mldsa_tests.rs"]
mod tests;
