//! [`CtrMac`]: AES-CTR with a MAC of its own, over one packet or over many at once. MACs of
//! different packets do not depend on each other, and HMACs are several times faster side by
//! side (`crypto::mac`).

use crypto::IntegrityFailed;
use crypto::cipher::CtrKey;
use crypto::mac::{MacKey, Tag};

use crate::LENGTH_BYTES;
use crate::position::Stamp;

/// Packets that go through cipher and MAC together. Sixteen of 32 KiB stay in the cache between
/// the two on most CPUs, and twice as many leave room to pair unequal ones.
pub(crate) const MAX_TOGETHER: usize = 32;

/// A packet in place: what it takes to seal or open it.
pub(crate) struct Piece<'a> {
    pub(crate) stamp: Stamp,
    /// `packet_length` to padding.
    pub(crate) packet: &'a mut [u8],
    /// The MAC behind it.
    pub(crate) tag: &'a mut [u8],
}

impl Piece<'_> {
    /// A place for a piece.
    pub(crate) fn none() -> Self {
        Self {
            stamp: Stamp::default(),
            packet: &mut [],
            tag: &mut [],
        }
    }
}

/// Both keys of one direction and one epoch.
pub(crate) struct CtrMac {
    cipher: CtrKey,
    mac: MacKey,
}

impl CtrMac {
    pub(crate) fn new(cipher: CtrKey, mac: MacKey) -> Self {
        Self { cipher, mac }
    }

    /// Whether the MAC covers the ciphertext, and `packet_length` stays in the clear.
    pub(crate) fn encrypts_first(&self) -> bool {
        self.mac.algorithm().is_etm()
    }

    pub(crate) fn gains_by_many(&self) -> bool {
        self.mac.gains_by_many()
    }

    pub(crate) fn tag_bytes(&self) -> usize {
        self.mac.algorithm().tag_len()
    }

    /// The beginning of a packet in the clear, for its length.
    pub(crate) fn apply_to_start(&self, stamp: Stamp, block: &mut [u8]) {
        self.cipher.apply(stamp.block, block);
    }

    /// Encrypts and decrypts alike: all of the packet, or all but its length.
    fn apply(&self, stamp: Stamp, packet: &mut [u8]) {
        if !self.encrypts_first() {
            self.cipher.apply(stamp.block, packet);
        } else if let Some((_, body)) = packet.split_first_chunk_mut::<LENGTH_BYTES>() {
            self.cipher.apply(stamp.block, body);
        }
    }

    pub(crate) fn seal(&self, piece: &mut Piece<'_>) {
        if self.encrypts_first() {
            self.apply(piece.stamp, piece.packet);
            self.write_tag(piece);
        } else {
            self.write_tag(piece);
            self.apply(piece.stamp, piece.packet);
        }
    }

    fn write_tag(&self, piece: &mut Piece<'_>) {
        let tag = self.mac.compute(piece.stamp.sequence, piece.packet);
        piece.tag.copy_from_slice(&tag);
    }

    pub(crate) fn open(&self, piece: &mut Piece<'_>) -> Result<(), IntegrityFailed> {
        if self.encrypts_first() {
            self.verify(piece)?;
            self.apply(piece.stamp, piece.packet);
            Ok(())
        } else {
            self.apply(piece.stamp, piece.packet);
            self.verify(piece)
        }
    }

    fn verify(&self, piece: &Piece<'_>) -> Result<(), IntegrityFailed> {
        self.mac
            .verify(piece.stamp.sequence, piece.packet, piece.tag)
    }

    /// Seals at most [`MAX_TOGETHER`] packets.
    pub(crate) fn seal_many(&self, pieces: &mut [Piece<'_>]) {
        if !self.mac.gains_by_many() {
            // One after the other each packet stays in the nearest cache.
            pieces.iter_mut().for_each(|piece| self.seal(piece));
            return;
        }
        if self.encrypts_first() {
            self.apply_to_each(pieces);
        }
        self.write_tags(pieces);
        if !self.encrypts_first() {
            self.apply_to_each(pieces);
        }
    }

    fn apply_to_each(&self, pieces: &mut [Piece<'_>]) {
        for piece in pieces {
            self.apply(piece.stamp, piece.packet);
        }
    }

    fn write_tags(&self, pieces: &mut [Piece<'_>]) {
        let mut tags = [Tag::default(); MAX_TOGETHER];
        let tags = &mut tags[..pieces.len()];
        let mut packets = [(0, &[][..]); MAX_TOGETHER];
        for (packet, piece) in packets.iter_mut().zip(pieces.iter()) {
            *packet = (piece.stamp.sequence, piece.packet);
        }
        self.mac.compute_many(&packets[..pieces.len()], tags);
        for (piece, tag) in pieces.iter_mut().zip(tags) {
            piece.tag.copy_from_slice(tag);
        }
    }

    /// Opens at most [`MAX_TOGETHER`] packets up to the first whose MAC is wrong, and returns
    /// how many that is. What follows is meaningless and must be dropped.
    pub(crate) fn open_many(&self, pieces: &mut [Piece<'_>]) -> usize {
        if !self.mac.gains_by_many() {
            let wrong = pieces
                .iter_mut()
                .position(|piece| self.open(piece).is_err());
            return wrong.unwrap_or(pieces.len());
        }
        if !self.encrypts_first() {
            self.apply_to_each(pieces);
        }
        let right = self.count_right(pieces);
        if self.encrypts_first() {
            self.apply_to_each(&mut pieces[..right]);
        }
        right
    }

    fn count_right(&self, pieces: &[Piece<'_>]) -> usize {
        let mut packets = [(0, &[][..]); MAX_TOGETHER];
        let mut tags = [&[][..]; MAX_TOGETHER];
        for ((packet, tag), piece) in packets.iter_mut().zip(&mut tags).zip(pieces) {
            *packet = (piece.stamp.sequence, piece.packet);
            *tag = piece.tag;
        }
        self.mac
            .verify_many(&packets[..pieces.len()], &tags[..pieces.len()])
    }
}
