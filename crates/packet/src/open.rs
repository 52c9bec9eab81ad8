//! [`OpenJob`]: a packet that waits to be verified and decrypted, and [`OpenedPacket`], the
//! proof that it was.

use alloc::sync::Arc;
use core::fmt;
use core::ops::Range;

use bytes::{Bytes, BytesMut};

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

    /// Verifies, decrypts in place, and finds the payload.
    ///
    /// # Errors
    /// [`PacketError::IntegrityFailed`], and what is wrong with the padding of a packet that the
    /// holder of the keys sent. The connection ends then; later packets are dropped unseen.
    pub fn run(mut self) -> Result<OpenedPacket, PacketError> {
        let tag_bytes = self.keys.framing().tag_bytes;
        let packet_bytes = self
            .packet
            .len()
            .checked_sub(tag_bytes)
            .ok_or(PacketError::IntegrityFailed)?;
        let (packet, tag) = self.packet.split_at_mut(packet_bytes);
        self.keys.open(self.stamp, packet, tag)?;
        let payload = payload_range(packet)?;
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
/// Only [`OpenJob::run`] makes one.
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
