//! Old ciphers and key derivation for private keys in PEM and PKCS#8 files: AES-CBC, triple-DES-CBC
//! (decryption only) and PBKDF2 (RFC 8018).
//!
//! The ciphers of connections are in `cipher`.
#![forbid(unsafe_code)]

use crate::LegacyError;
use crate::awslc::{aes::AesKey, des::TripleDesKey, digest};
use crate::hash::HashAlgorithm;

/// Maximum number of PBKDF2 iterations that a file may specify: about ten seconds of work.
pub const MAX_PBKDF2_ITERATIONS: u32 = 20_000_000;
/// Maximum length of a derived key in bytes.
const MAX_DERIVED_LEN: usize = 1024;

/// Decrypts AES-CBC in place with a key of 16, 24 or 32 bytes. Does not remove padding.
///
/// # Errors
/// [`LegacyError::WrongLength`] if the key or the IV has the wrong length, or the data is not whole
/// blocks.
pub fn aes_cbc_decrypt(key: &[u8], iv: &[u8], data: &mut [u8]) -> Result<(), LegacyError> {
    let iv = iv.try_into().map_err(|_| LegacyError::WrongLength)?;
    AesKey::for_decryption(key)
        .and_then(|key| key.cbc(iv, data, false))
        .map_err(|_| LegacyError::WrongLength)
}

/// Encrypts AES-CBC in place with a key of 16, 24 or 32 bytes. The caller adds padding.
///
/// # Errors
/// [`LegacyError::WrongLength`] if the key or the IV has the wrong length, or the data is not whole
/// blocks.
pub fn aes_cbc_encrypt(key: &[u8], iv: &[u8], data: &mut [u8]) -> Result<(), LegacyError> {
    let iv = iv.try_into().map_err(|_| LegacyError::WrongLength)?;
    AesKey::for_encryption(key)
        .and_then(|key| key.cbc(iv, data, true))
        .map_err(|_| LegacyError::WrongLength)
}

/// Decrypts triple-DES-CBC (three keys, 24 bytes) in place. Does not remove padding.
///
/// # Errors
/// [`LegacyError::WrongLength`] if the key or the IV has the wrong length, or the data is not whole
/// blocks.
pub fn des_ede3_cbc_decrypt(key: &[u8], iv: &[u8], data: &mut [u8]) -> Result<(), LegacyError> {
    let key = key.try_into().map_err(|_| LegacyError::WrongLength)?;
    let iv = iv.try_into().map_err(|_| LegacyError::WrongLength)?;
    TripleDesKey::new(key)
        .cbc(iv, data, false)
        .map_err(|_| LegacyError::WrongLength)
}

/// Fills `out` with a key derived by PBKDF2 with HMAC of `algorithm`.
///
/// # Errors
/// [`LegacyError::BadCount`] if `iterations` is 0 or above [`MAX_PBKDF2_ITERATIONS`];
/// [`LegacyError::WrongLength`] if `out` is empty or longer than 1 KiB.
pub fn pbkdf2_hmac(
    algorithm: HashAlgorithm,
    password: &[u8],
    salt: &[u8],
    iterations: u32,
    out: &mut [u8],
) -> Result<(), LegacyError> {
    if iterations == 0 || iterations > MAX_PBKDF2_ITERATIONS {
        return Err(LegacyError::BadCount);
    }
    if out.is_empty() || out.len() > MAX_DERIVED_LEN {
        return Err(LegacyError::WrongLength);
    }
    digest::pbkdf2(algorithm, password, salt, iterations, out).map_err(|_| LegacyError::Internal)
}

#[cfg(test)]
mod tests;
