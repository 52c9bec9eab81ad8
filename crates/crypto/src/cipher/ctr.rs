//! AES in counter mode (RFC 4344 §4).
#![forbid(unsafe_code)]

use core::fmt;

use super::{CipherAlgorithm, CipherKind};
use crate::KeyLengthError;
use crate::arch::ctr::CtrKernel;
use crate::arch::{self, CpuFeatures};

/// The key and IV of one direction and one epoch.
pub struct CtrKey {
    kernel: CtrKernel,
    /// The IV, which is the first 128-bit counter.
    initial_counter: u128,
}

impl CtrKey {
    /// Creates a key from 16, 24 or 32 bytes of key and 16 bytes of IV.
    ///
    /// # Errors
    /// If a length is wrong for `algorithm`, or `algorithm` is not AES-CTR.
    pub fn new(algorithm: CipherAlgorithm, key: &[u8], iv: &[u8]) -> Result<Self, KeyLengthError> {
        Self::with_features(algorithm, key, iv, arch::detect())
    }

    /// Like [`Self::new`], with the best kernel for `features`, for tests and benchmarks.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn with_features(
        algorithm: CipherAlgorithm,
        key: &[u8],
        iv: &[u8],
        features: &CpuFeatures,
    ) -> Result<Self, KeyLengthError> {
        if algorithm.kind() != CipherKind::Ctr || key.len() != algorithm.key_len() {
            return Err(KeyLengthError);
        }
        let iv = iv.try_into().map_err(|_| KeyLengthError)?;
        Ok(Self {
            kernel: CtrKernel::with_features(key, features).map_err(|_| KeyLengthError)?,
            initial_counter: u128::from_be_bytes(iv),
        })
    }

    /// The kernel's name, for benchmark tables.
    #[must_use]
    pub fn kernel(&self) -> &'static str {
        self.kernel.name()
    }

    /// XORs `data` with the key stream that begins `block_offset` 16-byte blocks after the epoch's
    /// start, which both encrypts and decrypts. The last block of `data` may be partial.
    pub fn apply(&self, block_offset: u64, data: &mut [u8]) {
        let counter = self.initial_counter.wrapping_add(u128::from(block_offset));
        self.kernel.apply(counter, data);
    }
}

impl fmt::Debug for CtrKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CtrKey(..)")
    }
}
