//! Errors of stamping and opening packets.

use core::fmt;

use crate::MAX_PACKET_BYTES;

/// An error in a received packet, which ends the connection. After the first error of
/// [`Splitter::next`], every later call returns the same error.
///
/// [`Splitter::next`]: crate::Splitter::next
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PacketError {
    /// The unencrypted `packet_length` is less than one payload byte with minimum padding needs, or
    /// more than [`MAX_PACKET_BYTES`].
    LengthOutOfRange {
        /// The claimed length, in bytes.
        length_bytes: u32,
    },
    /// The packet's length, sent unencrypted, is not a multiple of the cipher's block size (8 bytes
    /// without a cipher).
    NotBlockAligned,
    /// The padding is shorter than 4 bytes or longer than the packet.
    PaddingOutOfRange,
    /// The packet has no payload and therefore no message number.
    EmptyPayload,
    /// The MAC or tag does not match, or an encrypted length is out of range or not block-aligned.
    /// The error deliberately carries no detail.
    IntegrityFailed,
    /// The peer sent 2³² packets under one set of keys; the next would reuse a nonce.
    SequenceExhausted,
}

impl fmt::Display for PacketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LengthOutOfRange { length_bytes } => write!(
                f,
                "bad packet length {length_bytes} (limit {MAX_PACKET_BYTES})"
            ),
            Self::NotBlockAligned => f.write_str("packet is not whole cipher blocks"),
            Self::PaddingOutOfRange => f.write_str("bad padding length"),
            Self::EmptyPayload => f.write_str("packet without payload"),
            Self::IntegrityFailed => f.write_str("corrupted MAC on input"),
            Self::SequenceExhausted => f.write_str("peer did not rekey in 2^32 packets"),
        }
    }
}

impl core::error::Error for PacketError {}

impl From<crypto::IntegrityFailed> for PacketError {
    fn from(_: crypto::IntegrityFailed) -> Self {
        Self::IntegrityFailed
    }
}

/// An error in an outgoing packet. The buffer is dropped and the sequencer's state does not change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StampError {
    /// 2³² packets were stamped under these keys; the next would reuse a nonce. Occurs only if the
    /// caller ignored [`Sequencer::must_rekey`] for three quarters of these packets.
    ///
    /// [`Sequencer::must_rekey`]: crate::Sequencer::must_rekey
    SequenceExhausted,
    /// The packet would exceed [`MAX_PACKET_BYTES`].
    PayloadTooLong,
    /// The payload is empty and therefore has no message number.
    EmptyPayload,
}

impl fmt::Display for StampError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SequenceExhausted => "no key exchange in 2^32 packets",
            Self::PayloadTooLong => "payload exceeds the largest packet",
            Self::EmptyPayload => "packet without payload",
        })
    }
}

impl core::error::Error for StampError {}
