//! chacha20-poly1305@openssh.com (OpenSSH's PROTOCOL.chacha20poly1305).
#![forbid(unsafe_code)]

use core::fmt;

use aws_lc_rs::aead::chacha20_poly1305_openssh::{OpeningKey, SealingKey};
use zeroize::Zeroizing;

use crate::{IntegrityFailed, KeyLengthError};

/// The two ChaCha20 keys of one direction and one epoch. The nonce is the
/// packet's sequence number.
pub struct ChaChaPolyKey {
    sealing: SealingKey,
    opening: OpeningKey,
}

impl ChaChaPolyKey {
    /// Takes 64 bytes: the key for the content, then the one for the length.
    ///
    /// # Errors
    /// If `key` is not 64 bytes.
    pub fn new(key: &[u8]) -> Result<Self, KeyLengthError> {
        let key: Zeroizing<[u8; 64]> = Zeroizing::new(key.try_into().map_err(|_| KeyLengthError)?);
        Ok(Self {
            sealing: SealingKey::new(&key),
            opening: OpeningKey::new(&key),
        })
    }

    /// Encrypts `packet`, the 4-byte length and the body, in place, and returns
    /// the tag.
    ///
    /// # Panics
    /// If `packet` is shorter than its length field.
    #[must_use]
    pub fn seal(&self, sequence_number: u32, packet: &mut [u8]) -> [u8; 16] {
        assert!(packet.len() >= 4, "a packet begins with its length field");
        let mut tag = [0; 16];
        self.sealing
            .seal_in_place(sequence_number, packet, &mut tag);
        tag
    }

    /// The length field in the clear. It is not authenticated until
    /// [`Self::open`] has succeeded.
    #[must_use]
    pub fn length(&self, sequence_number: u32, encrypted: [u8; 4]) -> u32 {
        u32::from_be_bytes(
            self.opening
                .decrypt_packet_length(sequence_number, encrypted),
        )
    }

    /// Verifies the tag over `packet` (encrypted length and body), then
    /// decrypts the body in place; the first 4 bytes stay encrypted.
    ///
    /// # Errors
    /// If the tag does not match, or `packet` is shorter than its length field;
    /// nothing has been decrypted then.
    pub fn open(
        &self,
        sequence_number: u32,
        packet: &mut [u8],
        tag: &[u8; 16],
    ) -> Result<(), IntegrityFailed> {
        if packet.len() < 4 {
            return Err(IntegrityFailed);
        }
        self.opening
            .open_in_place(sequence_number, packet, tag)
            .map(|_| ())
            .map_err(|_| IntegrityFailed)
    }
}

impl fmt::Debug for ChaChaPolyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ChaChaPolyKey(..)")
    }
}
