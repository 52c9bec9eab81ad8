//! AES-GCM contexts.

use core::mem::MaybeUninit;

use super::{AwsLcFailed, check, ffi};

/// Length of every GCM tag that SSH uses, in bytes.
pub(crate) const TAG_LEN: usize = 16;

/// An AES-GCM key with its tables, freed and wiped on drop.
pub(crate) struct GcmContext {
    /// Boxed, so that the 600 bytes never move.
    context: Box<MaybeUninit<ffi::EVP_AEAD_CTX>>,
}

// SAFETY: after initialisation aws-lc only reads the context when sealing and
// opening with AES-GCM (the nonce comes with each call).
unsafe impl Send for GcmContext {}
// SAFETY: as above.
unsafe impl Sync for GcmContext {}

impl GcmContext {
    /// A context for a key of 16 or 32 bytes.
    pub(crate) fn new(key: &[u8]) -> Result<Self, AwsLcFailed> {
        let mut context = Box::new(MaybeUninit::<ffi::EVP_AEAD_CTX>::zeroed());
        // SAFETY: the EVP_aead_* functions return static tables; the context is
        // ours; `key` is valid for its length.
        check(unsafe {
            let aead = match key.len() {
                16 => ffi::EVP_aead_aes_128_gcm(),
                32 => ffi::EVP_aead_aes_256_gcm(),
                _ => return Err(AwsLcFailed),
            };
            ffi::EVP_AEAD_CTX_init(
                context.as_mut_ptr(),
                aead,
                key.as_ptr(),
                key.len(),
                TAG_LEN,
                core::ptr::null_mut(),
            )
        })?;
        Ok(Self { context })
    }

    /// Encrypts `data` in place and returns the tag.
    pub(crate) fn seal(
        &self,
        nonce: &[u8; 12],
        aad: &[u8],
        data: &mut [u8],
    ) -> Result<[u8; TAG_LEN], AwsLcFailed> {
        let mut tag = [0; TAG_LEN];
        let mut tag_len = 0;
        let pointer = data.as_mut_ptr();
        // SAFETY: the context was initialised in `new`; in and out may be the
        // same buffer; every pointer is valid for the length given with it.
        check(unsafe {
            ffi::EVP_AEAD_CTX_seal_scatter(
                self.context.as_ptr(),
                pointer,
                tag.as_mut_ptr(),
                &raw mut tag_len,
                TAG_LEN,
                nonce.as_ptr(),
                nonce.len(),
                pointer,
                data.len(),
                core::ptr::null(),
                0,
                aad.as_ptr(),
                aad.len(),
            )
        })?;
        if tag_len == TAG_LEN {
            Ok(tag)
        } else {
            Err(AwsLcFailed)
        }
    }

    /// Verifies the tag and decrypts `data` in place. On failure the content of
    /// `data` is unspecified.
    pub(crate) fn open(
        &self,
        nonce: &[u8; 12],
        aad: &[u8],
        data: &mut [u8],
        tag: &[u8; TAG_LEN],
    ) -> Result<(), AwsLcFailed> {
        let pointer = data.as_mut_ptr();
        // SAFETY: as in `seal`.
        check(unsafe {
            ffi::EVP_AEAD_CTX_open_gather(
                self.context.as_ptr(),
                pointer,
                nonce.as_ptr(),
                nonce.len(),
                pointer,
                data.len(),
                tag.as_ptr(),
                TAG_LEN,
                aad.as_ptr(),
                aad.len(),
            )
        })
    }
}

impl Drop for GcmContext {
    fn drop(&mut self) {
        // SAFETY: the context was initialised in `new` and is not used again.
        // `cleanup` leaves the key tables in place, so they are wiped after it.
        unsafe {
            ffi::EVP_AEAD_CTX_cleanup(self.context.as_mut_ptr());
            ffi::OPENSSL_cleanse(
                self.context.as_mut_ptr().cast(),
                size_of::<ffi::EVP_AEAD_CTX>(),
            );
        }
    }
}
