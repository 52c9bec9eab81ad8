//! The ciphers of private key files.

use crypto::cipher::{CIPHERS, CipherAlgorithm, CipherKind, CtrKey};
use crypto::{keyfile, legacy};
use zeroize::Zeroizing;

use super::PrivateFileError;
use crate::error::KeyError;

/// A cipher of OpenSSH's private key format: any packet cipher but 3des-cbc.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileCipher(CipherAlgorithm);

const TAG_LEN: usize = 16;

impl Default for FileCipher {
    /// aes256-ctr
    fn default() -> Self {
        Self(CipherAlgorithm::Aes256Ctr)
    }
}

impl FileCipher {
    /// Every cipher.
    pub fn all() -> impl Iterator<Item = Self> {
        let algorithms = CIPHERS.iter().map(|spec| spec.algorithm);
        algorithms.filter_map(Self::new)
    }

    fn new(algorithm: CipherAlgorithm) -> Option<Self> {
        (algorithm != CipherAlgorithm::TripleDesCbc).then_some(Self(algorithm))
    }

    /// The cipher's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.0.name()
    }

    /// The cipher with this name.
    #[must_use]
    pub fn from_name(name: &[u8]) -> Option<Self> {
        let name = std::str::from_utf8(name).ok()?;
        CipherAlgorithm::from_name(name).and_then(Self::new)
    }

    pub(super) fn key_len(self) -> usize {
        self.0.key_len()
    }

    pub(super) fn iv_len(self) -> usize {
        self.0.iv_len()
    }

    pub(super) fn block_len(self) -> usize {
        self.0.block_len()
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
        let kind = self.0.kind();
        let tag: Option<&[u8; TAG_LEN]> = match kind {
            CipherKind::Ctr | CipherKind::Cbc if tag.is_empty() => None,
            CipherKind::Gcm | CipherKind::ChaChaPoly => {
                Some(tag.try_into().map_err(|_| PrivateFileError::Malformed)?)
            }
            CipherKind::Ctr | CipherKind::Cbc => return Err(PrivateFileError::Malformed),
        };
        let internal = |_| PrivateFileError::Key(KeyError::Internal);
        match (kind, tag) {
            (CipherKind::Ctr, _) => CtrKey::new(self.0, key, iv)
                .map_err(internal)?
                .apply(0, &mut data),
            (CipherKind::Cbc, _) => legacy::aes_cbc_decrypt(key, iv, &mut data)
                .map_err(|_| PrivateFileError::Malformed)?,
            (CipherKind::Gcm, Some(tag)) => keyfile::gcm_open(key, iv, &mut data, tag)
                .map_err(|_| PrivateFileError::WrongPassphrase)?,
            (CipherKind::ChaChaPoly, Some(tag)) => {
                keyfile::chacha_poly_open(key, &mut data, tag)
                    .map_err(|_| PrivateFileError::WrongPassphrase)?
            }
            (CipherKind::Gcm | CipherKind::ChaChaPoly, None) => {
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
        Ok(match self.0.kind() {
            CipherKind::Ctr => {
                CtrKey::new(self.0, key, iv)
                    .map_err(internal)?
                    .apply(0, data);
                None
            }
            CipherKind::Cbc => {
                legacy::aes_cbc_encrypt(key, iv, data)
                    .map_err(|_| PrivateFileError::Key(KeyError::Internal))?;
                None
            }
            CipherKind::Gcm => Some(keyfile::gcm_seal(key, iv, data).map_err(internal)?),
            CipherKind::ChaChaPoly => Some(keyfile::chacha_poly_seal(key, data).map_err(internal)?),
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
