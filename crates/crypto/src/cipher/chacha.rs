//! chacha20-poly1305@openssh.com (OpenSSH's PROTOCOL.chacha20poly1305).
#![forbid(unsafe_code)]

use core::fmt;

use crate::arch::CpuFeatures;
use crate::arch::chacha::ChaChaPolyKernel;
use crate::{IntegrityFailed, KeyLengthError};

/// The two ChaCha20 keys of one direction and one epoch. The nonce is the
/// packet's sequence number.
pub struct ChaChaPolyKey {
    kernel: ChaChaPolyKernel,
}

impl ChaChaPolyKey {
    /// Creates a key from 64 bytes: the key for the content, then the key for the length.
    ///
    /// # Errors
    /// If `key` is not 64 bytes.
    pub fn new(key: &[u8]) -> Result<Self, KeyLengthError> {
        Self::with_features(key, crate::arch::detect())
    }

    /// Like [`Self::new`], with the best kernels for `features`, for tests and benchmarks.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn with_features(key: &[u8], features: &CpuFeatures) -> Result<Self, KeyLengthError> {
        let key = key.try_into().map_err(|_| KeyLengthError)?;
        Ok(Self {
            kernel: ChaChaPolyKernel::with_features(key, features),
        })
    }

    /// The kernels' name, for benchmark tables.
    #[must_use]
    pub fn kernel(&self) -> &'static str {
        self.kernel.name()
    }

    /// Encrypts `packet` (4-byte length and body) in place and returns the tag.
    ///
    /// # Panics
    /// If `packet` is shorter than 4 bytes.
    #[must_use]
    pub fn seal(&self, sequence_number: u32, packet: &mut [u8]) -> [u8; 16] {
        match self.kernel.seal(sequence_number, packet) {
            Ok(tag) => tag,
            Err(_) => panic!("a packet begins with its length field"),
        }
    }

    /// Decrypts the length field. The length is not authenticated until [`Self::open`] succeeds.
    #[must_use]
    pub fn length(&self, sequence_number: u32, encrypted: [u8; 4]) -> u32 {
        u32::from_be_bytes(self.kernel.length(sequence_number, encrypted))
    }

    /// Verifies the tag over `packet` (encrypted length and body), then
    /// decrypts the body in place; the first 4 bytes stay encrypted.
    ///
    /// # Errors
    /// If the tag does not match, or `packet` is shorter than 4 bytes; nothing is decrypted then.
    pub fn open(
        &self,
        sequence_number: u32,
        packet: &mut [u8],
        tag: &[u8; 16],
    ) -> Result<(), IntegrityFailed> {
        self.kernel.open(sequence_number, packet, tag)
    }
}

impl fmt::Debug for ChaChaPolyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ChaChaPolyKey(..)")
    }
}
