//! ML-KEM-768 (FIPS 203), with randomness from the kernel.
//!
//! Calls aws-lc's internal functions for the method: `EVP_PKEY` would link every kind of key and
//! the table of all object identifiers into the program, 40 KB that the loader would relocate in
//! each process.

use zeroize::Zeroizing;

use super::AwsLcFailed;
use crate::random;

/// Length of an encapsulation key in bytes.
pub(crate) const PUBLIC_LEN: usize = 1184;
/// Length of a ciphertext in bytes.
pub(crate) const CIPHERTEXT_LEN: usize = 1088;
/// Length of the shared secret in bytes.
pub(crate) const SECRET_LEN: usize = 32;
/// Length of a decapsulation key in bytes.
const DECAPSULATION_KEY_LEN: usize = 2400;
/// d ‖ z of FIPS 203 §7.1.
const KEYGEN_SEED_LEN: usize = 64;
/// m of FIPS 203 §7.2.
const ENCAPSULATION_SEED_LEN: usize = 32;

// Declared as in crypto/fipsmodule/ml_kem/ml_kem.h of the version that the workspace pins. The
// library's build puts the version before each name, so another version fails to link. All
// functions return 0 for success.
unsafe extern "C" {
    #[link_name = "aws_lc_0_47_0_ml_kem_768_keypair_deterministic"]
    fn keypair(
        public: *mut u8,
        public_len: *mut usize,
        secret: *mut u8,
        secret_len: *mut usize,
        seed: *const u8,
    ) -> core::ffi::c_int;
    #[link_name = "aws_lc_0_47_0_ml_kem_768_encapsulate_deterministic"]
    fn encapsulate_to(
        ciphertext: *mut u8,
        ciphertext_len: *mut usize,
        shared: *mut u8,
        shared_len: *mut usize,
        public: *const u8,
        seed: *const u8,
    ) -> core::ffi::c_int;
    #[link_name = "aws_lc_0_47_0_ml_kem_768_decapsulate"]
    fn decapsulate_with(
        shared: *mut u8,
        shared_len: *mut usize,
        ciphertext: *const u8,
        secret: *const u8,
    ) -> core::ffi::c_int;
}

/// Checks the result and that each output has its required length.
fn check(result: core::ffi::c_int, lengths: &[(usize, usize)]) -> Result<(), AwsLcFailed> {
    if result == 0 && lengths.iter().all(|(have, want)| have == want) {
        Ok(())
    } else {
        Err(AwsLcFailed)
    }
}

/// A decapsulation key.
pub(crate) struct DecapsulationKey(Box<Zeroizing<[u8; DECAPSULATION_KEY_LEN]>>);

impl DecapsulationKey {
    /// Generates a key pair.
    pub(crate) fn generate() -> Result<(Self, Vec<u8>), AwsLcFailed> {
        let seed: Zeroizing<[u8; KEYGEN_SEED_LEN]> = Zeroizing::new(random::bytes());
        Self::from_seed(&seed)
    }

    /// Derives the key pair of a seed, d ‖ z of FIPS 203 §7.1.
    pub(crate) fn from_seed(seed: &[u8; KEYGEN_SEED_LEN]) -> Result<(Self, Vec<u8>), AwsLcFailed> {
        let mut public = vec![0; PUBLIC_LEN];
        let mut key = Box::new(Zeroizing::new([0_u8; DECAPSULATION_KEY_LEN]));
        let (mut public_len, mut key_len) = (public.len(), key.len());
        // SAFETY: both buffers are valid for the lengths given with them, the seed for its own.
        let result = unsafe {
            keypair(
                public.as_mut_ptr(),
                &raw mut public_len,
                key.as_mut_ptr(),
                &raw mut key_len,
                seed.as_ptr(),
            )
        };
        let lengths = [(public_len, PUBLIC_LEN), (key_len, DECAPSULATION_KEY_LEN)];
        check(result, &lengths)?;
        Ok((Self(key), public))
    }

    /// Returns the secret in a ciphertext; for a forged ciphertext an unpredictable secret
    /// (implicit rejection), not an error.
    pub(crate) fn decapsulate(
        &self,
        ciphertext: &[u8; CIPHERTEXT_LEN],
    ) -> Result<Zeroizing<[u8; SECRET_LEN]>, AwsLcFailed> {
        let mut secret = Zeroizing::new([0; SECRET_LEN]);
        let mut len = secret.len();
        // SAFETY: the secret's buffer is valid for `len` bytes; ciphertext and key are arrays
        // of the lengths that the method has.
        let result = unsafe {
            decapsulate_with(
                secret.as_mut_ptr(),
                &raw mut len,
                ciphertext.as_ptr(),
                self.0.as_ptr(),
            )
        };
        check(result, &[(len, SECRET_LEN)])?;
        Ok(secret)
    }
}

/// Encapsulates a secret to a peer's key. Fails if the key does not pass FIPS 203's modulus check.
pub(crate) fn encapsulate(
    public: &[u8; PUBLIC_LEN],
) -> Result<(Vec<u8>, Zeroizing<[u8; SECRET_LEN]>), AwsLcFailed> {
    let seed: Zeroizing<[u8; ENCAPSULATION_SEED_LEN]> = Zeroizing::new(random::bytes());
    encapsulate_seed(public, &seed)
}

/// Like [`encapsulate`], with a given seed, m of FIPS 203 §7.2.
pub(crate) fn encapsulate_seed(
    public: &[u8; PUBLIC_LEN],
    seed: &[u8; ENCAPSULATION_SEED_LEN],
) -> Result<(Vec<u8>, Zeroizing<[u8; SECRET_LEN]>), AwsLcFailed> {
    let mut ciphertext = vec![0; CIPHERTEXT_LEN];
    let mut secret = Zeroizing::new([0; SECRET_LEN]);
    let (mut ciphertext_len, mut secret_len) = (ciphertext.len(), secret.len());
    // SAFETY: both buffers are valid for the lengths given with them; key and seed are arrays
    // of the lengths that the method has.
    let result = unsafe {
        encapsulate_to(
            ciphertext.as_mut_ptr(),
            &raw mut ciphertext_len,
            secret.as_mut_ptr(),
            &raw mut secret_len,
            public.as_ptr(),
            seed.as_ptr(),
        )
    };
    let lengths = [(ciphertext_len, CIPHERTEXT_LEN), (secret_len, SECRET_LEN)];
    check(result, &lengths)?;
    Ok((ciphertext, secret))
}
