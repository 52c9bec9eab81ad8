//! [`CbcMac`]: a block cipher in CBC mode with a separate MAC, for old devices.
//!
//! Each packet's first block is chained to the last ciphertext block of the packet before it.

use crypto::cipher::{CbcKey, ChainBlock, CipherAlgorithm};
use crypto::mac::MacKey;
use crypto::{IntegrityFailed, KeyLengthError};

use crate::LENGTH_BYTES;
use crate::ctr_mac::RawPacket;

/// Cipher key, IV and MAC key of one direction and one epoch.
pub(crate) struct CbcMac {
    cipher: CbcKey,
    iv: ChainBlock,
    mac: MacKey,
}

impl CbcMac {
    /// Sets up the key and the IV of a CBC cipher.
    ///
    /// # Errors
    /// If the key or the IV has the wrong length.
    pub(crate) fn new(
        cipher: CipherAlgorithm,
        key: &[u8],
        iv: &[u8],
        mac: MacKey,
    ) -> Result<Self, KeyLengthError> {
        if iv.len() != cipher.iv_len() {
            return Err(KeyLengthError);
        }
        Ok(Self {
            cipher: CbcKey::new(cipher, key)?,
            iv: front(iv),
            mac,
        })
    }

    /// Returns true for encrypt-then-MAC: the MAC covers the ciphertext, and `packet_length` is not
    /// encrypted.
    pub(crate) fn encrypts_first(&self) -> bool {
        self.mac.algorithm().is_etm()
    }

    pub(crate) fn tag_bytes(&self) -> usize {
        self.mac.algorithm().tag_len()
    }

    pub(crate) fn block_bytes(&self) -> usize {
        self.cipher.block_len()
    }

    /// Returns the last block of a packet's ciphertext.
    pub(crate) fn last_block(&self, packet: &[u8]) -> ChainBlock {
        let start = packet.len().saturating_sub(self.block_bytes());
        front(packet.get(start..).unwrap_or_default())
    }

    /// Decrypts the first block of a packet and returns its length field; `None` if the block has
    /// not arrived. `chain` is the last block of the packet before, or `None` for the first one.
    pub(crate) fn length(&self, chain: Option<&ChainBlock>, start: &[u8]) -> Option<u32> {
        let mut block = start.get(..self.block_bytes()).map(front)?;
        let first = block.get_mut(..self.block_bytes())?;
        self.cipher.decrypt(chain.unwrap_or(&self.iv), first);
        let [a, b, c, d, ..] = block;
        Some(u32::from_be_bytes([a, b, c, d]))
    }

    /// The encrypted part of a packet: all of it, or all but its length for encrypt-then-MAC.
    fn encrypted<'a>(&self, packet: &'a mut [u8]) -> &'a mut [u8] {
        let start = if self.encrypts_first() {
            LENGTH_BYTES
        } else {
            0
        };
        packet.get_mut(start..).unwrap_or_default()
    }

    /// Encrypts a packet in place and writes its MAC; `chain` as for [`Self::length`].
    pub(crate) fn seal(&self, chain: Option<&ChainBlock>, raw: &mut RawPacket<'_>) {
        let chain = chain.unwrap_or(&self.iv);
        if self.encrypts_first() {
            self.cipher.encrypt(chain, self.encrypted(raw.packet));
            self.write_tag(raw);
        } else {
            self.write_tag(raw);
            self.cipher.encrypt(chain, self.encrypted(raw.packet));
        }
    }

    fn write_tag(&self, raw: &mut RawPacket<'_>) {
        let tag = self.mac.compute(raw.stamp.sequence, raw.packet);
        raw.tag.copy_from_slice(&tag);
    }

    /// Verifies and decrypts a packet in place; `chain` as for [`Self::length`].
    pub(crate) fn open(
        &self,
        chain: Option<&ChainBlock>,
        raw: &mut RawPacket<'_>,
    ) -> Result<(), IntegrityFailed> {
        let chain = chain.unwrap_or(&self.iv);
        if self.encrypts_first() {
            self.verify(raw)?;
            self.cipher.decrypt(chain, self.encrypted(raw.packet));
            Ok(())
        } else {
            self.cipher.decrypt(chain, self.encrypted(raw.packet));
            self.verify(raw)
        }
    }

    fn verify(&self, raw: &RawPacket<'_>) -> Result<(), IntegrityFailed> {
        self.mac.verify(raw.stamp.sequence, raw.packet, raw.tag)
    }
}

/// A block that begins with `bytes`, of which there are at most 16.
fn front(bytes: &[u8]) -> ChainBlock {
    let mut block = ChainBlock::default();
    for (to, from) in block.iter_mut().zip(bytes) {
        *to = *from;
    }
    block
}
