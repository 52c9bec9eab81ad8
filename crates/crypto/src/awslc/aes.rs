//! AES: expanded keys, single blocks, CTR and CBC.

use super::{AwsLcFailed, ffi};

/// An expanded AES key, wiped on drop.
pub(crate) struct AesKey {
    schedule: ffi::AES_KEY,
}

impl AesKey {
    /// Expands an encryption key of 16, 24 or 32 bytes.
    pub(crate) fn for_encryption(key: &[u8]) -> Result<Self, AwsLcFailed> {
        Self::expand(key, ffi::AES_set_encrypt_key)
    }

    /// Expands a decryption key of 16, 24 or 32 bytes (CBC only).
    pub(crate) fn for_decryption(key: &[u8]) -> Result<Self, AwsLcFailed> {
        Self::expand(key, ffi::AES_set_decrypt_key)
    }

    fn expand(
        key: &[u8],
        set: unsafe extern "C" fn(
            *const u8,
            core::ffi::c_uint,
            *mut ffi::AES_KEY,
        ) -> core::ffi::c_int,
    ) -> Result<Self, AwsLcFailed> {
        let bits = match key.len() {
            16 => 128,
            24 => 192,
            32 => 256,
            _ => return Err(AwsLcFailed),
        };
        let mut this = Self {
            schedule: ffi::AES_KEY {
                rd_key: [0; 60],
                rounds: 0,
            },
        };
        // SAFETY: `key` is valid for `bits` bits; the schedule is ours. The
        // function returns 0 for success.
        match unsafe { set(key.as_ptr(), bits, &raw mut this.schedule) } {
            0 => Ok(this),
            _ => Err(AwsLcFailed),
        }
    }

    /// Encrypts one block, for UMAC's key derivation and pad.
    pub(crate) fn encrypt_block(&self, block: &mut [u8; 16]) {
        let block = block.as_mut_ptr();
        // SAFETY: in and out may be the same 16 bytes; the schedule was
        // expanded for encryption.
        unsafe { ffi::AES_encrypt(block, block, &raw const self.schedule) }
    }

    /// XORs the key stream that starts at `counter` (big-endian, 128-bit carry)
    /// into `data`.
    pub(crate) fn ctr(&self, counter: u128, data: &mut [u8]) {
        let mut counter = counter.to_be_bytes();
        let mut unused = [0u8; 16];
        let mut offset = 0;
        let pointer = data.as_mut_ptr();
        // SAFETY: in and out may be the same buffer, valid for its length; the
        // counter, the left-over key stream and its offset are ours.
        unsafe {
            ffi::AES_ctr128_encrypt(
                pointer,
                pointer,
                data.len(),
                &raw const self.schedule,
                counter.as_mut_ptr(),
                unused.as_mut_ptr(),
                &raw mut offset,
            );
            ffi::OPENSSL_cleanse(unused.as_mut_ptr().cast(), unused.len());
        }
    }

    /// Applies CBC in place; `encrypt` must match the direction that the key was expanded for.
    /// `data` must be whole blocks.
    pub(crate) fn cbc(
        &self,
        iv: &[u8; 16],
        data: &mut [u8],
        encrypt: bool,
    ) -> Result<(), AwsLcFailed> {
        if !data.len().is_multiple_of(16) {
            return Err(AwsLcFailed);
        }
        let mut iv = *iv;
        let pointer = data.as_mut_ptr();
        let direction = if encrypt {
            ffi::AES_ENCRYPT
        } else {
            ffi::AES_DECRYPT
        };
        // SAFETY: in and out may be the same buffer of whole blocks; the IV is
        // a copy of ours.
        unsafe {
            ffi::AES_cbc_encrypt(
                pointer,
                pointer,
                data.len(),
                &raw const self.schedule,
                iv.as_mut_ptr(),
                direction,
            );
        }
        Ok(())
    }
}

impl Drop for AesKey {
    fn drop(&mut self) {
        // SAFETY: the schedule is plain old data of its own size, and all-zero
        // is a valid value of it.
        unsafe {
            ffi::OPENSSL_cleanse((&raw mut self.schedule).cast(), size_of::<ffi::AES_KEY>());
        }
    }
}
