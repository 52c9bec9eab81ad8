//! [`CtrMac`]: AES-CTR with a separate MAC, over one packet or over many at once. MACs of different
//! packets are independent, and HMACs are several times faster when computed in parallel lanes
//! (`crypto::mac`).

use crypto::IntegrityFailed;
use crypto::cipher::CtrKey;
use crypto::mac::{MacKey, Tag};

use crate::LENGTH_BYTES;
use crate::position::Stamp;

/// Maximum number of packets that cipher and MAC process together. Sixteen of 32 KiB stay in the
/// cache between the two on most CPUs; 32 leave room to pair packets of unequal length.
pub(crate) const MAX_TOGETHER: usize = 32;

/// A packet in its buffer, split for sealing or opening.
pub(crate) struct RawPacket<'a> {
    pub(crate) stamp: Stamp,
    /// From `packet_length` to the end of the padding.
    pub(crate) packet: &'a mut [u8],
    /// The MAC, which follows the packet.
    pub(crate) tag: &'a mut [u8],
}

impl RawPacket<'_> {
    /// An empty packet, to initialise arrays.
    pub(crate) fn empty() -> Self {
        Self {
            stamp: Stamp::default(),
            packet: &mut [],
            tag: &mut [],
        }
    }
}

/// Cipher key and MAC key of one direction and one epoch.
pub(crate) struct CtrMac {
    cipher: CtrKey,
    mac: MacKey,
}

impl CtrMac {
    pub(crate) fn new(cipher: CtrKey, mac: MacKey) -> Self {
        Self { cipher, mac }
    }

    /// Returns true for encrypt-then-MAC: the MAC covers the ciphertext, and `packet_length` is not
    /// encrypted.
    pub(crate) fn encrypts_first(&self) -> bool {
        self.mac.algorithm().is_etm()
    }

    pub(crate) fn gains_by_many(&self) -> bool {
        self.mac.gains_by_many()
    }

    pub(crate) fn tag_bytes(&self) -> usize {
        self.mac.algorithm().tag_len()
    }

    /// Decrypts the first block of a packet, to read its length.
    pub(crate) fn apply_to_start(&self, stamp: Stamp, block: &mut [u8]) {
        self.cipher.apply(stamp.block, block);
    }

    /// Encrypts or decrypts the whole packet, or all but its length for encrypt-then-MAC.
    fn apply(&self, stamp: Stamp, packet: &mut [u8]) {
        if !self.encrypts_first() {
            self.cipher.apply(stamp.block, packet);
        } else if let Some((_, body)) = packet.split_first_chunk_mut::<LENGTH_BYTES>() {
            self.cipher.apply(stamp.block, body);
        }
    }

    pub(crate) fn seal(&self, raw: &mut RawPacket<'_>) {
        if self.encrypts_first() {
            self.apply(raw.stamp, raw.packet);
            self.write_tag(raw);
        } else {
            self.write_tag(raw);
            self.apply(raw.stamp, raw.packet);
        }
    }

    fn write_tag(&self, raw: &mut RawPacket<'_>) {
        let tag = self.mac.compute(raw.stamp.sequence, raw.packet);
        raw.tag.copy_from_slice(&tag);
    }

    pub(crate) fn open(&self, raw: &mut RawPacket<'_>) -> Result<(), IntegrityFailed> {
        if self.encrypts_first() {
            self.verify(raw)?;
            self.apply(raw.stamp, raw.packet);
            Ok(())
        } else {
            self.apply(raw.stamp, raw.packet);
            self.verify(raw)
        }
    }

    fn verify(&self, raw: &RawPacket<'_>) -> Result<(), IntegrityFailed> {
        self.mac.verify(raw.stamp.sequence, raw.packet, raw.tag)
    }

    /// Seals at most [`MAX_TOGETHER`] packets.
    pub(crate) fn seal_many(&self, raws: &mut [RawPacket<'_>]) {
        if !self.mac.gains_by_many() {
            // Processed one after another, each packet stays in the L1 cache between cipher and
            // MAC.
            raws.iter_mut().for_each(|raw| self.seal(raw));
            return;
        }
        if self.encrypts_first() {
            self.apply_to_each(raws);
        }
        self.write_tags(raws);
        if !self.encrypts_first() {
            self.apply_to_each(raws);
        }
    }

    fn apply_to_each(&self, raws: &mut [RawPacket<'_>]) {
        for raw in raws {
            self.apply(raw.stamp, raw.packet);
        }
    }

    fn write_tags(&self, raws: &mut [RawPacket<'_>]) {
        let mut tags = [Tag::default(); MAX_TOGETHER];
        let tags = &mut tags[..raws.len()];
        let mut packets = [(0, &[][..]); MAX_TOGETHER];
        for (packet, raw) in packets.iter_mut().zip(raws.iter()) {
            *packet = (raw.stamp.sequence, raw.packet);
        }
        self.mac.compute_many(&packets[..raws.len()], tags);
        for (raw, tag) in raws.iter_mut().zip(tags) {
            raw.tag.copy_from_slice(tag);
        }
    }

    /// Opens at most [`MAX_TOGETHER`] packets up to the first with a wrong MAC, and returns the
    /// number before it. The rest have undefined content and must be dropped.
    pub(crate) fn open_many(&self, raws: &mut [RawPacket<'_>]) -> usize {
        if !self.mac.gains_by_many() {
            let wrong = raws.iter_mut().position(|raw| self.open(raw).is_err());
            return wrong.unwrap_or(raws.len());
        }
        if !self.encrypts_first() {
            self.apply_to_each(raws);
        }
        let verified = self.count_verified(raws);
        if self.encrypts_first() {
            self.apply_to_each(&mut raws[..verified]);
        }
        verified
    }

    fn count_verified(&self, raws: &[RawPacket<'_>]) -> usize {
        let mut packets = [(0, &[][..]); MAX_TOGETHER];
        let mut tags = [&[][..]; MAX_TOGETHER];
        for ((packet, tag), raw) in packets.iter_mut().zip(&mut tags).zip(raws) {
            *packet = (raw.stamp.sequence, raw.packet);
            *tag = raw.tag;
        }
        self.mac
            .verify_many(&packets[..raws.len()], &tags[..raws.len()])
    }
}
