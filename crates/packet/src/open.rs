//! [`OpenJob`]: a packet that waits to be verified and decrypted. [`OpenedPacket`]: the proof that
//! it was.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use bytes::{Bytes, BytesMut};
use crypto::cipher::ChainBlock;

use crate::ctr_mac::{MAX_TOGETHER, RawPacket};
use crate::error::PacketError;
use crate::keys::OpenKeys;
use crate::position::Stamp;
use crate::{LENGTH_BYTES, PADDING_LENGTH_BYTES};

/// A received packet, cut from the slab, with its epoch's keys. Jobs can run on any thread and in
/// any order.
#[must_use = "a packet that is not opened is lost"]
pub struct OpenJob {
    pub(crate) packet: BytesMut,
    pub(crate) keys: Arc<OpenKeys>,
    pub(crate) stamp: Stamp,
    pub(crate) copy_on_keep: bool,
}

impl OpenJob {
    /// The packet's sequence number.
    #[must_use]
    pub fn sequence(&self) -> u32 {
        self.stamp.sequence
    }

    /// Length of the packet with its MAC, in bytes.
    #[must_use]
    pub fn wire_bytes(&self) -> usize {
        self.packet.len()
    }

    /// Returns true if [`open_batch`](crate::open_batch) is faster than single runs for jobs with
    /// these keys. Batches of 16 packets of equal length are fastest.
    #[must_use]
    pub fn gains_by_many(&self) -> bool {
        self.keys.gains_by_many()
    }

    /// Verifies the packet, decrypts it in place, and finds its payload.
    ///
    /// # Errors
    /// [`PacketError::IntegrityFailed`] if the MAC or tag is wrong;
    /// [`PacketError::PaddingOutOfRange`] or [`PacketError::EmptyPayload`] if an authentic packet
    /// is malformed. The connection must then end; later packets are dropped unseen.
    pub fn run(mut self) -> Result<OpenedPacket, PacketError> {
        if !self.keys.chains() {
            let (keys, mut raw) = self.parts().ok_or(PacketError::IntegrityFailed)?;
            keys.open(&mut raw)?;
        }
        self.into_opened()
    }

    /// Opens a packet under keys that chain, which is not left to [`Self::run`]. Returns the block
    /// that the next packet is chained to.
    ///
    /// # Errors
    /// [`PacketError::IntegrityFailed`] if the MAC is wrong.
    pub(crate) fn open_chained(
        &mut self,
        chain: Option<&ChainBlock>,
    ) -> Result<Option<ChainBlock>, PacketError> {
        let (keys, mut raw) = self.parts().ok_or(PacketError::IntegrityFailed)?;
        Ok(keys.open_chained(chain, &mut raw)?)
    }

    /// Runs `jobs` in groups with the same keys, up to the first that fails; see
    /// [`open_batch`](crate::open_batch).
    pub(crate) fn run_all(
        jobs: &mut Vec<Self>,
        opened: &mut Vec<Result<OpenedPacket, PacketError>>,
    ) {
        let count = jobs.len();
        let mut verified = 0;
        let epochs = jobs.chunk_by_mut(|a, b| Arc::ptr_eq(&a.keys, &b.keys));
        for group in epochs.flat_map(|epoch| epoch.chunks_mut(MAX_TOGETHER)) {
            let expected = group.len();
            let opened = Self::open_group(group);
            verified += opened;
            if opened < expected {
                break;
            }
        }
        // Dropping the drain drops the jobs after the first failure.
        for job in jobs.drain(..).take(verified) {
            let packet = job.into_opened();
            let failed = packet.is_err();
            opened.push(packet);
            if failed {
                return;
            }
        }
        if verified < count {
            opened.push(Err(PacketError::IntegrityFailed));
        }
    }

    /// Verifies and decrypts jobs with the same keys, at most [`MAX_TOGETHER`], up to the first
    /// that fails. Returns the number that succeeded.
    fn open_group(group: &mut [Self]) -> usize {
        if group.first().is_some_and(|job| job.keys.chains()) {
            return group.len();
        }
        let mut raws = core::array::from_fn::<_, MAX_TOGETHER, _>(|_| RawPacket::empty());
        let mut keys_of_all = None;
        let mut count = 0;
        for (place, parts) in raws.iter_mut().zip(group.iter_mut().map_while(Self::parts)) {
            let (keys, raw) = parts;
            *place = raw;
            keys_of_all = Some(keys);
            count += 1;
        }
        match (keys_of_all, raws.get_mut(..count)) {
            (Some(keys), Some(raws)) => keys.open_many(raws),
            _ => 0,
        }
    }

    /// Returns the keys, the packet and its MAC; `None` if the bytes are shorter than a MAC.
    fn parts(&mut self) -> Option<(&OpenKeys, RawPacket<'_>)> {
        let tag_bytes = self.keys.framing().tag_bytes;
        let packet_bytes = self.packet.len().checked_sub(tag_bytes)?;
        let (packet, tag) = self.packet.split_at_mut(packet_bytes);
        let raw = RawPacket {
            stamp: self.stamp,
            packet,
            tag,
        };
        Some((&self.keys, raw))
    }

    /// Finds the payload of a packet that has been verified and decrypted. Must not be called for
    /// any other packet.
    fn into_opened(self) -> Result<OpenedPacket, PacketError> {
        let framing = self.keys.framing();
        let packet_bytes = self.packet.len().saturating_sub(framing.tag_bytes);
        let packet = self.packet.get(..packet_bytes).unwrap_or_default();
        let payload = payload_range(packet, framing.min_padding())?;
        Ok(OpenedPacket {
            packet: self.packet,
            payload,
            sequence: self.stamp.sequence,
            copy_on_keep: self.copy_on_keep,
        })
    }
}

/// Returns the range of the payload in a decrypted packet.
fn payload_range(packet: &[u8], min_padding: usize) -> Result<Range<usize>, PacketError> {
    const START: usize = LENGTH_BYTES + PADDING_LENGTH_BYTES;
    let padding = packet
        .get(LENGTH_BYTES)
        .map(|&length| usize::from(length))
        .filter(|&length| length >= min_padding)
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

/// A well-formed packet that passed its MAC or tag (or arrived before the first NEWKEYS). Only
/// [`OpenJob::run`] and [`open_batch`](crate::open_batch) make one.
pub struct OpenedPacket {
    packet: BytesMut,
    payload: Range<usize>,
    sequence: u32,
    copy_on_keep: bool,
}

impl OpenedPacket {
    /// The payload; contains at least the message number.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        self.packet.get(self.payload.clone()).unwrap_or_default()
    }

    /// The packet's sequence number, for an UNIMPLEMENTED reply.
    #[must_use]
    pub fn sequence(&self) -> u32 {
        self.sequence
    }

    /// Returns the payload as owned bytes. They share the slab's memory; if kept payloads already
    /// pin the maximum number of slabs, the payload is copied instead.
    #[must_use]
    pub fn into_payload(self) -> Bytes {
        if self.copy_on_keep {
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
