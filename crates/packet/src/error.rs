//! Why a packet could not be stamped or opened.

use core::fmt;

use crate::MAX_PACKET_BYTES;

/// Why a received packet ends the connection. The first one poisons the [`Splitter`], which
/// returns it again and again.
///
/// [`Splitter`]: crate::Splitter
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PacketError {
    /// `packet_length`, which came in the clear, is less than one byte of payload with least
    /// padding takes, or more than [`MAX_PACKET_BYTES`].
    LengthOutOfRange {
        /// The length that the peer claims, in bytes.
        length_bytes: u32,
    },
    /// The packet, whose length came in the clear, is not whole blocks of the cipher (8 bytes
    /// without one).
    NotBlockAligned,
    /// Padding of less than 4 bytes, or longer than the packet.
    PaddingOutOfRange,
    /// The packet has no payload, so not even a message number.
    EmptyPayload,
    /// The MAC or tag does not match, or a length that came encrypted cannot be one. There is
    /// no detail on purpose.
    IntegrityFailed,
    /// The peer sent 2³² packets under one set of keys: a nonce would come again.
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

/// Why our own packet was not stamped. The buffer is dropped and no state changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StampError {
    /// 2³² packets went out under these keys; another would use a nonce again. Reached only
    /// when [`Sequencer::must_rekey`] was ignored for three quarters of them.
    ///
    /// [`Sequencer::must_rekey`]: crate::Sequencer::must_rekey
    SequenceExhausted,
    /// The packet would exceed [`MAX_PACKET_BYTES`]; nobody accepts it.
    PayloadTooLong,
    /// There is no payload, so not even a message number.
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
