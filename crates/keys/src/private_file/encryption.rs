//! The ciphers of private key files.

use crypto::cipher::{CipherAlgorithm, CtrKey};
use crypto::{keyfile, legacy};
use zeroize::Zeroizing;

use super::PrivateFileError;
use crate::error::KeyError;

/// A cipher of OpenSSH's private key format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileCipher {
    /// aes128-ctr
    Aes128Ctr,
    /// aes192-ctr
    Aes192Ctr,
    /// aes256-ctr, the default
    Aes256Ctr,
    /// aes128-cbc
    Aes128Cbc,
    /// aes192-cbc
    Aes192Cbc,
    /// aes256-cbc
    Aes256Cbc,
    /// aes128-gcm@openssh.com
    Aes128Gcm,
    /// aes256-gcm@openssh.com
    Aes256Gcm,
    /// chacha20-poly1305@openssh.com
    ChaCha20Poly1305,
}

enum CipherMode {
    Ctr(CipherAlgorithm),
    Cbc,
    Gcm,
    ChaChaPoly,
}

const TAG_LEN: usize = 16;

impl FileCipher {
    /// Every cipher.
    pub const ALL: [Self; 9] = [
        Self::Aes128Ctr,
        Self::Aes192Ctr,
        Self::Aes256Ctr,
        Self::Aes128Cbc,
        Self::Aes192Cbc,
        Self::Aes256Cbc,
        Self::Aes128Gcm,
        Self::Aes256Gcm,
        Self::ChaCha20Poly1305,
    ];

    fn row(self) -> (&'static str, usize, CipherMode) {
        match self {
            Self::Aes128Ctr => (
                "aes128-ctr",
                16,
                CipherMode::Ctr(CipherAlgorithm::Aes128Ctr),
            ),
            Self::Aes192Ctr => (
                "aes192-ctr",
                24,
                CipherMode::Ctr(CipherAlgorithm::Aes192Ctr),
            ),
            Self::Aes256Ctr => (
                "aes256-ctr",
                32,
                CipherMode::Ctr(CipherAlgorithm::Aes256Ctr),
            ),
            Self::Aes128Cbc => ("aes128-cbc", 16, CipherMode::Cbc),
            Self::Aes192Cbc => ("aes192-cbc", 24, CipherMode::Cbc),
            Self::Aes256Cbc => ("aes256-cbc", 32, CipherMode::Cbc),
            Self::Aes128Gcm => ("aes128-gcm@openssh.com", 16, CipherMode::Gcm),
            Self::Aes256Gcm => ("aes256-gcm@openssh.com", 32, CipherMode::Gcm),
            Self::ChaCha20Poly1305 => ("chacha20-poly1305@openssh.com", 64, CipherMode::ChaChaPoly),
        }
    }

    /// The cipher's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().0
    }

    /// The cipher with this name.
    #[must_use]
    pub fn from_name(name: &[u8]) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|cipher| cipher.name().as_bytes() == name)
    }

    pub(super) fn key_len(self) -> usize {
        self.row().1
    }

    pub(super) fn iv_len(self) -> usize {
        match self.row().2 {
            CipherMode::Ctr(_) | CipherMode::Cbc => 16,
            CipherMode::Gcm => 12,
            CipherMode::ChaChaPoly => 0,
        }
    }

    pub(super) fn block_len(self) -> usize {
        match self.row().2 {
            CipherMode::ChaChaPoly => 8,
            _ => 16,
        }
    }

    /// Decrypts `section`. `material` is key and IV; `tag` the bytes after the section.
    pub(super) fn open(
        self,
        material: &[u8],
        section: &[u8],
        tag: &[u8],
    ) -> Result<Zeroizing<Vec<u8>>, PrivateFileError> {
        let (key, iv) = self.split(material)?;
        if section.is_empty() || !section.len().is_multiple_of(self.block_len()) {
            return Err(PrivateFileError::Malformed);
        }
        let mut data = Zeroizing::new(section.to_vec());
        let mode = self.row().2;
        let tag: Option<&[u8; TAG_LEN]> = match mode {
            CipherMode::Ctr(_) | CipherMode::Cbc if tag.is_empty() => None,
            CipherMode::Gcm | CipherMode::ChaChaPoly => {
                Some(tag.try_into().map_err(|_| PrivateFileError::Malformed)?)
            }
            CipherMode::Ctr(_) | CipherMode::Cbc => return Err(PrivateFileError::Malformed),
        };
        let internal = |_| PrivateFileError::Key(KeyError::Internal);
        match (mode, tag) {
            (CipherMode::Ctr(algorithm), _) => CtrKey::new(algorithm, key, iv)
                .map_err(internal)?
                .apply(0, &mut data),
            (CipherMode::Cbc, _) => legacy::aes_cbc_decrypt(key, iv, &mut data)
                .map_err(|_| PrivateFileError::Malformed)?,
            (CipherMode::Gcm, Some(tag)) => keyfile::gcm_open(key, iv, &mut data, tag)
                .map_err(|_| PrivateFileError::WrongPassphrase)?,
            (CipherMode::ChaChaPoly, Some(tag)) => {
                keyfile::chacha_poly_open(key, &mut data, tag)
                    .map_err(|_| PrivateFileError::WrongPassphrase)?
            }
            (CipherMode::Gcm | CipherMode::ChaChaPoly, None) => {
                return Err(PrivateFileError::Malformed);
            }
        }
        Ok(data)
    }

    /// Encrypts whole blocks in place; returns the tag if the cipher makes one.
    pub(super) fn seal(
        self,
        material: &[u8],
        data: &mut [u8],
    ) -> Result<Option<[u8; TAG_LEN]>, PrivateFileError> {
        let (key, iv) = self.split(material)?;
        let internal = |_| PrivateFileError::Key(KeyError::Internal);
        Ok(match self.row().2 {
            CipherMode::Ctr(algorithm) => {
                CtrKey::new(algorithm, key, iv)
                    .map_err(internal)?
                    .apply(0, data);
                None
            }
            CipherMode::Cbc => {
                legacy::aes_cbc_encrypt(key, iv, data)
                    .map_err(|_| PrivateFileError::Key(KeyError::Internal))?;
                None
            }
            CipherMode::Gcm => Some(keyfile::gcm_seal(key, iv, data).map_err(internal)?),
            CipherMode::ChaChaPoly => Some(keyfile::chacha_poly_seal(key, data).map_err(internal)?),
        })
    }

    fn split(self, material: &[u8]) -> Result<(&[u8], &[u8]), PrivateFileError> {
        material
            .split_at_checked(self.key_len())
            .ok_or(PrivateFileError::Key(KeyError::Internal))
    }
}

/// Removes PKCS#7 padding (RFC 5652 §6.3) from decrypted data; most wrong passphrases show up as
/// wrong padding.
pub(super) fn unpad(data: &[u8], block: u8) -> Result<&[u8], PrivateFileError> {
    let wrong = PrivateFileError::WrongPassphrase;
    let count = *data.last().ok_or(wrong.clone())?;
    if count == 0 || count > block {
        return Err(wrong);
    }
    let at = data
        .len()
        .checked_sub(usize::from(count))
        .ok_or(wrong.clone())?;
    let (plain, padding) = data.split_at_checked(at).ok_or(wrong.clone())?;
    if padding.iter().any(|byte| *byte != count) {
        return Err(wrong);
    }
    Ok(plain)
}

/// Adds PKCS#7 padding for blocks of 16 bytes.
pub(super) fn pad(data: &[u8]) -> Zeroizing<Vec<u8>> {
    let count = 16 - data.len() % 16;
    let mut out = Zeroizing::new(Vec::with_capacity(data.len() + count));
    out.extend_from_slice(data);
    out.resize(data.len() + count, u8::try_from(count).unwrap_or(16));
    out
}
