//! AES-GCM as SSH uses it (RFC 5647 with OpenSSH's negotiation).
#![forbid(unsafe_code)]

use core::fmt;

use super::{CipherAlgorithm, CipherKind};
use crate::awslc::aead::GcmContext;
use crate::{IntegrityFailed, KeyLengthError};

/// The key and IV of one direction and one epoch.
pub struct GcmKey {
    context: GcmContext,
    fixed: [u8; 4],
    counter: u64,
}

impl GcmKey {
    /// Creates a key from 16 or 32 bytes of key and 12 bytes of IV: 4 fixed bytes, then the initial
    /// 64-bit invocation counter (RFC 5647 §7.1).
    ///
    /// # Errors
    /// If a length is wrong for `algorithm`, or `algorithm` is not AES-GCM.
    pub fn new(algorithm: CipherAlgorithm, key: &[u8], iv: &[u8]) -> Result<Self, KeyLengthError> {
        if algorithm.kind() != CipherKind::Gcm || key.len() != algorithm.key_len() {
            return Err(KeyLengthError);
        }
        let (fixed, counter) = iv.split_first_chunk().ok_or(KeyLengthError)?;
        let counter = counter.try_into().map_err(|_| KeyLengthError)?;
        Ok(Self {
            context: GcmContext::new(key).map_err(|_| KeyLengthError)?,
            fixed: *fixed,
            counter: u64::from_be_bytes(counter),
        })
    }

    /// Encrypts `data` in place and returns the tag; `aad` is the packet's unencrypted length
    /// field. `invocation` counts the packets of the epoch from 0 and must never repeat under one
    /// key.
    ///
    /// # Panics
    /// If `data` is longer than GCM's limit of 64 GiB.
    #[must_use]
    pub fn seal(&self, invocation: u64, aad: [u8; 4], data: &mut [u8]) -> [u8; 16] {
        match self.context.seal(&self.nonce(invocation), &aad, data) {
            Ok(tag) => tag,
            Err(_) => panic!("AES-GCM seals any packet"),
        }
    }

    /// Verifies the tag and decrypts `data` in place.
    ///
    /// # Errors
    /// If the tag does not match; the content of `data` is then undefined and must not be used.
    pub fn open(
        &self,
        invocation: u64,
        aad: [u8; 4],
        data: &mut [u8],
        tag: &[u8; 16],
    ) -> Result<(), IntegrityFailed> {
        self.context
            .open(&self.nonce(invocation), &aad, data, tag)
            .map_err(|_| IntegrityFailed)
    }

    fn nonce(&self, invocation: u64) -> [u8; 12] {
        let mut nonce = [0; 12];
        let (fixed, counter) = nonce.split_at_mut(4);
        fixed.copy_from_slice(&self.fixed);
        counter.copy_from_slice(&self.counter.wrapping_add(invocation).to_be_bytes());
        nonce
    }
}

impl fmt::Debug for GcmKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GcmKey(..)")
    }
}
