//! AES and triple DES in cipher block chaining mode (RFC 4253 §6.3), for old devices.
//!
//! A packet's first block is chained to the last ciphertext block of the packet before it, so
//! packets of one direction have to be encrypted in order. [`CbcKey`] takes that block as a
//! parameter; `packet` keeps it.
#![forbid(unsafe_code)]

use core::fmt;

use super::{CipherAlgorithm, CipherKind};
use crate::KeyLengthError;
use crate::awslc::AwsLcFailed;
use crate::awslc::aes::AesKey;
use crate::awslc::des::TripleDesKey;

/// The block that the next packet is chained to. Triple DES uses the first 8 bytes.
pub type ChainBlock = [u8; 16];

/// The key of one direction and one epoch.
pub struct CbcKey {
    cipher: BlockCipher,
    block_len: usize,
}

enum BlockCipher {
    Aes {
        encryption: Box<AesKey>,
        decryption: Box<AesKey>,
    },
    TripleDes(Box<TripleDesKey>),
}

impl CbcKey {
    /// Creates a key from 16, 24 or 32 bytes for AES, or 24 bytes for triple DES.
    ///
    /// # Errors
    /// If the length is wrong for `algorithm`, or `algorithm` is not a CBC cipher.
    pub fn new(algorithm: CipherAlgorithm, key: &[u8]) -> Result<Self, KeyLengthError> {
        if algorithm.kind() != CipherKind::Cbc || key.len() != algorithm.key_len() {
            return Err(KeyLengthError);
        }
        let aes = |key: Result<AesKey, AwsLcFailed>| key.map(Box::new).map_err(|_| KeyLengthError);
        let cipher = if algorithm == CipherAlgorithm::TripleDesCbc {
            let key = key.try_into().map_err(|_| KeyLengthError)?;
            BlockCipher::TripleDes(Box::new(TripleDesKey::new(key)))
        } else {
            BlockCipher::Aes {
                encryption: aes(AesKey::for_encryption(key))?,
                decryption: aes(AesKey::for_decryption(key))?,
            }
        };
        Ok(Self {
            cipher,
            block_len: algorithm.block_len(),
        })
    }

    /// Length of a block in bytes: 16, or 8 for triple DES.
    #[must_use]
    pub fn block_len(&self) -> usize {
        self.block_len
    }

    /// Encrypts the whole blocks of `data` in place; the first is chained to `chain`.
    pub fn encrypt(&self, chain: &ChainBlock, data: &mut [u8]) {
        self.apply(chain, data, true);
    }

    /// Decrypts the whole blocks of `data` in place; the first is chained to `chain`.
    pub fn decrypt(&self, chain: &ChainBlock, data: &mut [u8]) {
        self.apply(chain, data, false);
    }

    fn apply(&self, chain: &ChainBlock, data: &mut [u8], encrypts: bool) {
        let whole = data.len() - data.len() % self.block_len;
        let data = data.get_mut(..whole).unwrap_or_default();
        let result = match &self.cipher {
            BlockCipher::Aes { encryption, .. } if encrypts => encryption.cbc(chain, data, true),
            BlockCipher::Aes { decryption, .. } => decryption.cbc(chain, data, false),
            BlockCipher::TripleDes(key) => {
                let [a, b, c, d, e, f, g, h, ..] = *chain;
                key.cbc(&[a, b, c, d, e, f, g, h], data, encrypts)
            }
        };
        debug_assert!(result.is_ok(), "the length is whole blocks");
    }
}

impl fmt::Debug for CbcKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CbcKey(..)")
    }
}
