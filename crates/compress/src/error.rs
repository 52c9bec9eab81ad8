//! Why a payload was not compressed or inflated.

use std::fmt;

/// The compression engine failed: out of memory, or a defect. Never the payload's fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeflateError;

impl fmt::Display for DeflateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("compression failed")
    }
}

impl std::error::Error for DeflateError {}

/// Why a received payload did not inflate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InflateError {
    /// More came out than a packet may hold.
    TooLong {
        /// The limit.
        limit_bytes: usize,
    },
    /// The bytes are no deflate stream, or ask for a dictionary that SSH does not have.
    Corrupt,
    /// The peer ended the stream (BFINAL), which in SSH goes on until NEWKEYS.
    StreamEnded,
    /// Nothing came out: a packet without payload, or cut in the middle.
    Empty,
    /// The engine failed: out of memory.
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
