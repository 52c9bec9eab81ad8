//! ML-KEM-768 (FIPS 203), its randomness from the kernel.

use core::ptr::NonNull;

use aws_lc_sys as ffi;
use zeroize::Zeroizing;

use super::{Failed, check, non_null};
use crate::random;

/// Length of an encapsulation key in bytes.
pub(crate) const PUBLIC_LEN: usize = 1184;
/// Length of a ciphertext in bytes.
pub(crate) const CIPHERTEXT_LEN: usize = 1088;
/// Length of the shared secret in bytes.
pub(crate) const SECRET_LEN: usize = 32;
/// d ‖ z of FIPS 203 §7.1.
const KEYGEN_SEED_LEN: usize = 64;
/// m of FIPS 203 §7.2.
const ENCAPSULATION_SEED_LEN: usize = 32;

/// An EVP_PKEY of our own.
struct Pkey(NonNull<ffi::EVP_PKEY>);

impl Drop for Pkey {
    fn drop(&mut self) {
        // SAFETY: the key is ours and not used again.
        unsafe { ffi::EVP_PKEY_free(self.0.as_ptr()) }
    }
}

/// An operation context of our own.
struct Context(NonNull<ffi::EVP_PKEY_CTX>);

impl Context {
    fn for_key(key: &Pkey) -> Result<Self, Failed> {
        // SAFETY: the context holds a reference of its own to the key.
        non_null(unsafe { ffi::EVP_PKEY_CTX_new(key.0.as_ptr(), core::ptr::null_mut()) }).map(Self)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: the context is ours and not used again.
        unsafe { ffi::EVP_PKEY_CTX_free(self.0.as_ptr()) }
    }
}

/// A decapsulation key.
pub(crate) struct DecapsulationKey(Pkey);

// SAFETY: an EVP_PKEY has no thread affinity (and this one is used by one
// thread at a time: it is not Sync).
unsafe impl Send for DecapsulationKey {}

impl DecapsulationKey {
    /// A fresh key pair.
    pub(crate) fn generate() -> Result<(Self, Vec<u8>), Failed> {
        let seed: Zeroizing<[u8; KEYGEN_SEED_LEN]> = Zeroizing::new(random::bytes());
        Self::from_seed(&seed)
    }

    /// The key pair of a seed, d ‖ z of FIPS 203 §7.1.
    pub(crate) fn from_seed(seed: &[u8; KEYGEN_SEED_LEN]) -> Result<(Self, Vec<u8>), Failed> {
        let mut seed_len = KEYGEN_SEED_LEN;
        let mut pointer = core::ptr::null_mut();
        // SAFETY: the context is ours; the seed is valid for its length; the
        // key comes back through `pointer` and is ours.
        let key = unsafe {
            let context = Context(non_null(ffi::EVP_PKEY_CTX_new_id(
                ffi::EVP_PKEY_KEM,
                core::ptr::null_mut(),
            ))?);
            let raw = context.0.as_ptr();
            check(ffi::EVP_PKEY_CTX_kem_set_params(raw, ffi::NID_MLKEM768))?;
            check(ffi::EVP_PKEY_keygen_init(raw))?;
            check(ffi::EVP_PKEY_keygen_deterministic(
                raw,
                &raw mut pointer,
                seed.as_ptr(),
                &raw mut seed_len,
            ))?;
            Pkey(non_null(pointer)?)
        };
        let mut public = vec![0; PUBLIC_LEN];
        let mut len = PUBLIC_LEN;
        // SAFETY: the key is ours; `public` is valid for `len` bytes.
        check(unsafe {
            ffi::EVP_PKEY_get_raw_public_key(key.0.as_ptr(), public.as_mut_ptr(), &raw mut len)
        })?;
        if len != PUBLIC_LEN {
            return Err(Failed);
        }
        Ok((Self(key), public))
    }

    /// The secret in a ciphertext; a forged one gives an unpredictable secret
    /// (implicit rejection), not an error.
    pub(crate) fn decapsulate(
        &self,
        ciphertext: &[u8; CIPHERTEXT_LEN],
    ) -> Result<Zeroizing<[u8; SECRET_LEN]>, Failed> {
        let mut secret = Zeroizing::new([0; SECRET_LEN]);
        let mut len = SECRET_LEN;
        let context = Context::for_key(&self.0)?;
        // SAFETY: the context is ours; both buffers are valid for the lengths
        // given with them.
        check(unsafe {
            ffi::EVP_PKEY_decapsulate(
                context.0.as_ptr(),
                secret.as_mut_ptr(),
                &raw mut len,
                ciphertext.as_ptr(),
                ciphertext.len(),
            )
        })?;
        if len == SECRET_LEN {
            Ok(secret)
        } else {
            Err(Failed)
        }
    }
}

/// Encapsulates to a peer's key; fails when the key does not pass FIPS 203's
/// modulus check.
pub(crate) fn encapsulate(
    public: &[u8; PUBLIC_LEN],
) -> Result<(Vec<u8>, Zeroizing<[u8; SECRET_LEN]>), Failed> {
    let seed: Zeroizing<[u8; ENCAPSULATION_SEED_LEN]> = Zeroizing::new(random::bytes());
    encapsulate_seed(public, &seed)
}

/// The same of a seed, m of FIPS 203 §7.2.
pub(crate) fn encapsulate_seed(
    public: &[u8; PUBLIC_LEN],
    seed: &[u8; ENCAPSULATION_SEED_LEN],
) -> Result<(Vec<u8>, Zeroizing<[u8; SECRET_LEN]>), Failed> {
    let mut seed_len = ENCAPSULATION_SEED_LEN;
    let mut ciphertext = vec![0; CIPHERTEXT_LEN];
    let mut ciphertext_len = CIPHERTEXT_LEN;
    let mut secret = Zeroizing::new([0; SECRET_LEN]);
    let mut secret_len = SECRET_LEN;
    // SAFETY: key and context are ours; every buffer is valid for the length
    // given with it.
    unsafe {
        let key = Pkey(non_null(ffi::EVP_PKEY_kem_new_raw_public_key(
            ffi::NID_MLKEM768,
            public.as_ptr(),
            public.len(),
        ))?);
        let context = Context::for_key(&key)?;
        check(ffi::EVP_PKEY_encapsulate_deterministic(
            context.0.as_ptr(),
            ciphertext.as_mut_ptr(),
            &raw mut ciphertext_len,
            secret.as_mut_ptr(),
            &raw mut secret_len,
            seed.as_ptr(),
            &raw mut seed_len,
        ))?;
    }
    if ciphertext_len == CIPHERTEXT_LEN && secret_len == SECRET_LEN {
        Ok((ciphertext, secret))
    } else {
        Err(Failed)
    }
}
