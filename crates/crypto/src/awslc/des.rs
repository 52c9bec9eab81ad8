//! Triple DES in CBC mode, for private keys in old PEM files and for old devices.

use super::{AwsLcFailed, ffi};

/// Three expanded DES keys (EDE), wiped on drop.
pub(crate) struct TripleDesKey {
    schedules: [ffi::DES_key_schedule; 3],
}

impl TripleDesKey {
    /// Expands three keys of 8 bytes. Their parity bits are ignored.
    pub(crate) fn new(key: &[u8; 24]) -> Self {
        // SAFETY: DES_key_schedule is a C struct of integers; all-zero is valid.
        let mut schedules: [ffi::DES_key_schedule; 3] = unsafe { core::mem::zeroed() };
        for (schedule, part) in schedules.iter_mut().zip(key.chunks_exact(8)) {
            let mut block = ffi::DES_cblock { bytes: [0; 8] };
            block.bytes.copy_from_slice(part);
            // SAFETY: both pointers are to objects of ours of the right type.
            unsafe {
                ffi::DES_set_key_unchecked(&raw const block, schedule);
                ffi::OPENSSL_cleanse(block.bytes.as_mut_ptr().cast(), 8);
            }
        }
        Self { schedules }
    }

    /// Encrypts or decrypts whole blocks of 8 bytes in place.
    pub(crate) fn cbc(
        &self,
        iv: &[u8; 8],
        data: &mut [u8],
        encrypts: bool,
    ) -> Result<(), AwsLcFailed> {
        if !data.len().is_multiple_of(8) {
            return Err(AwsLcFailed);
        }
        let mut iv = ffi::DES_cblock { bytes: *iv };
        let [first, second, third] = &self.schedules;
        let pointer = data.as_mut_ptr();
        let direction = if encrypts {
            ffi::DES_ENCRYPT
        } else {
            ffi::DES_DECRYPT
        };
        // SAFETY: in and out may be the same buffer of whole blocks; the schedules are initialised
        // and only read; the IV is a copy of ours.
        unsafe {
            ffi::DES_ede3_cbc_encrypt(
                pointer,
                pointer,
                data.len(),
                first,
                second,
                third,
                &raw mut iv,
                direction,
            );
        }
        Ok(())
    }
}

impl Drop for TripleDesKey {
    fn drop(&mut self) {
        // SAFETY: the schedules are plain old data of their own size, and all-zero is a valid value
        // of them.
        unsafe {
            ffi::OPENSSL_cleanse(
                (&raw mut self.schedules).cast(),
                size_of_val(&self.schedules),
            );
        }
    }
}
