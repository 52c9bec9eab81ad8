//! Errors of compression and decompression.

use std::fmt;

/// The compression engine failed: out of memory, or a bug. Never caused by the payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeflateError;

impl fmt::Display for DeflateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("compression failed")
    }
}

impl std::error::Error for DeflateError {}

/// Error of inflating a received payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InflateError {
    /// The payload inflates to more than the limit.
    TooLong {
        /// The limit in bytes.
        limit_bytes: usize,
    },
    /// The bytes are not a valid deflate stream, or require a dictionary, which SSH does not have.
    Corrupt,
    /// The peer ended the stream (BFINAL); in SSH it must continue until NEWKEYS.
    StreamEnded,
    /// The packet inflates to nothing: it has no payload or is truncated.
    Empty,
    /// Out of memory.
    OutOfMemory,
}

impl fmt::Display for InflateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { limit_bytes } => {
                write!(f, "packet inflates to more than {limit_bytes} bytes")
            }
            Self::Corrupt => f.write_str("compressed packet is corrupt"),
            Self::StreamEnded => f.write_str("peer ended the compressed stream"),
            Self::Empty => f.write_str("compressed packet holds nothing"),
            Self::OutOfMemory => f.write_str("no memory to decompress"),
        }
    }
}

impl std::error::Error for InflateError {}
