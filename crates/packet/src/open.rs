//! [`OpenJob`]: a packet that waits to be verified and decrypted, and [`OpenedPacket`], the
//! proof that it was.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use bytes::{Bytes, BytesMut};

use crate::ctr_mac::{MAX_TOGETHER, Piece};
use crate::error::PacketError;
use crate::keys::OpenKeys;
use crate::position::Stamp;
use crate::{LENGTH_BYTES, MIN_PADDING_BYTES, PADDING_LENGTH_BYTES};

/// A received packet, cut from the slab, with its epoch's keys. Runs anywhere, in any order,
/// once.
#[must_use = "a packet that is not opened is lost"]
pub struct OpenJob {
    pub(crate) packet: BytesMut,
    pub(crate) keys: Arc<OpenKeys>,
    pub(crate) stamp: Stamp,
    pub(crate) detach: bool,
}

impl OpenJob {
    /// The packet's sequence number.
    #[must_use]
    pub fn sequence(&self) -> u32 {
        self.stamp.sequence
    }

    /// Length of the packet with its MAC, in bytes: what a batch is measured by.
    #[must_use]
    pub fn wire_bytes(&self) -> usize {
        self.packet.len()
    }

    /// Whether many jobs like this one are done faster together than one by one; 16 of equal
    /// length are best.
    #[must_use]
    pub fn gains_by_many(&self) -> bool {
        self.keys.gains_by_many()
    }

    /// Verifies, decrypts in place, and finds the payload.
    ///
    /// # Errors
    /// [`PacketError::IntegrityFailed`], and what is wrong with the padding of a packet that the
    /// holder of the keys sent. The connection ends then; later packets are dropped unseen.
    pub fn run(mut self) -> Result<OpenedPacket, PacketError> {
        let (keys, mut piece) = self.parts().ok_or(PacketError::IntegrityFailed)?;
        keys.open(&mut piece)?;
        self.into_opened()
    }

    /// Runs all of `jobs`, those with the same keys together, up to the first that fails; see
    /// [`open_batch`](crate::open_batch).
    pub(crate) fn run_all(
        jobs: &mut Vec<Self>,
        opened: &mut Vec<Result<OpenedPacket, PacketError>>,
    ) {
        let count = jobs.len();
        let mut right = 0;
        let epochs = jobs.chunk_by_mut(|a, b| Arc::ptr_eq(&a.keys, &b.keys));
        for group in epochs.flat_map(|epoch| epoch.chunks_mut(MAX_TOGETHER)) {
            let expected = group.len();
            let opened = Self::open_group(group);
            right += opened;
            if opened < expected {
                break;
            }
        }
        // What is behind the first failure is dropped with the drained rest.
        for job in jobs.drain(..).take(right) {
            let packet = job.into_opened();
            let failed = packet.is_err();
            opened.push(packet);
            if failed {
                return;
            }
        }
        if right < count {
            opened.push(Err(PacketError::IntegrityFailed));
        }
    }

    /// Verifies and decrypts jobs with the same keys, at most [`MAX_TOGETHER`], up to the first
    /// that fails; returns how many that is.
    fn open_group(group: &mut [Self]) -> usize {
        let mut pieces = core::array::from_fn::<_, MAX_TOGETHER, _>(|_| Piece::none());
        let mut keys_of_all = None;
        let mut count = 0;
        for (place, parts) in pieces
            .iter_mut()
            .zip(group.iter_mut().map_while(Self::parts))
        {
            let (keys, piece) = parts;
            *place = piece;
            keys_of_all = Some(keys);
            count += 1;
        }
        match (keys_of_all, pieces.get_mut(..count)) {
            (Some(keys), Some(pieces)) => keys.open_many(pieces),
            _ => 0,
        }
    }

    /// The keys, the packet and its MAC; `None` if it is shorter than a MAC.
    fn parts(&mut self) -> Option<(&OpenKeys, Piece<'_>)> {
        let tag_bytes = self.keys.framing().tag_bytes;
        let packet_bytes = self.packet.len().checked_sub(tag_bytes)?;
        let (packet, tag) = self.packet.split_at_mut(packet_bytes);
        let piece = Piece {
            stamp: self.stamp,
            packet,
            tag,
        };
        Some((&self.keys, piece))
    }

    /// Finds the payload of a packet that has been verified and decrypted: call it for no other.
    fn into_opened(self) -> Result<OpenedPacket, PacketError> {
        let tag_bytes = self.keys.framing().tag_bytes;
        let packet_bytes = self.packet.len().saturating_sub(tag_bytes);
        let payload = payload_range(self.packet.get(..packet_bytes).unwrap_or_default())?;
        Ok(OpenedPacket {
            packet: self.packet,
            payload,
            sequence: self.stamp.sequence,
            detach: self.detach,
        })
    }
}

/// Where the payload of a packet in the clear lies.
fn payload_range(packet: &[u8]) -> Result<Range<usize>, PacketError> {
    const START: usize = LENGTH_BYTES + PADDING_LENGTH_BYTES;
    let padding = packet
        .get(LENGTH_BYTES)
        .map(|&length| usize::from(length))
        .filter(|&length| length >= MIN_PADDING_BYTES)
        .ok_or(PacketError::PaddingOutOfRange)?;
    match packet.len().checked_sub(padding) {
        Some(end) if end > START => Ok(START..end),
        Some(START) => Err(PacketError::EmptyPayload),
        _ => Err(PacketError::PaddingOutOfRange),
    }
}

impl fmt::Debug for OpenJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenJob")
            .field("sequence", &self.stamp.sequence)
            .field("wire_bytes", &self.packet.len())
            .finish_non_exhaustive()
    }
}

/// A packet that passed its MAC or tag (or came before the first NEWKEYS) and is well formed.
/// Only [`OpenJob::run`] and [`open_batch`](crate::open_batch) make one.
pub struct OpenedPacket {
    packet: BytesMut,
    payload: Range<usize>,
    sequence: u32,
    detach: bool,
}

impl OpenedPacket {
    /// The payload: at least the message number.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        self.packet.get(self.payload.clone()).unwrap_or_default()
    }

    /// The packet's sequence number, for UNIMPLEMENTED.
    #[must_use]
    pub fn sequence(&self) -> u32 {
        self.sequence
    }

    /// The payload, to be kept: without a copy, unless so many slabs are pinned by payloads
    /// kept before that this one must not pin another.
    #[must_use]
    pub fn into_payload(self) -> Bytes {
        if self.detach {
            return Bytes::copy_from_slice(self.payload());
        }
        let mut packet = self.packet.freeze();
        packet.truncate(self.payload.end);
        packet.split_off(self.payload.start)
    }
}

impl fmt::Debug for OpenedPacket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenedPacket")
            .field("sequence", &self.sequence)
            .field("payload_bytes", &self.payload.len())
            .finish_non_exhaustive()
    }
}
