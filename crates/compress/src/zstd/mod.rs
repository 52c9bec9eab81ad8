//! zstd for packets (RFC 8878), between two Fulmar peers: [`ZstdCompressor`] and
//! [`ZstdDecoder`], one for each direction. The name on the wire and the format are in
//! docs/PROTOCOL.md.
//!
//! The first byte of a packet defines its content: a stored payload, which is not added to any
//! history; blocks of the current frame; or a new frame with its first blocks; and it names one of
//! [`CONTEXTS`] contexts. Frames never end: each payload ends with a flush, so that the peer can
//! inflate all of it. A new frame begins when the level changes, after NEWKEYS, when the sender has
//! freed its memory, and when a context is assigned to another channel.
//!
//! Each context serves one channel at a time, so that no payload is matched with another channel's.
//! Messages other than channel data are stored.
//!
//! `frame` checks all that can be checked without inflating, in safe code; the zstd library
//! receives only whole blocks of a verified size.

mod compressor;
mod decompressor;
mod frame;

#[cfg(test)]
mod tests;

pub use compressor::ZstdCompressor;
pub(crate) use decompressor::{ZstdDecoder, stored};

/// log2 of the window in bytes, which both sides keep; the maximum that a peer may request.
const WINDOW_LOG: u8 = 20;

/// Number of histories on both sides: as many channels can send in turn without starting a new
/// frame each time. Each costs the receiver up to 1.5 MiB.
pub(crate) const CONTEXTS: usize = 4;

/// zstd's level for each `CompressionLevel` from 1 to 9. The levels 6, 3 and 1, to which the sender
/// falls back on faster links, are about one and a half times and twice as fast as the previous
/// one. Beyond zstd's level 8 the sender's tables double in size for a thousandth of the ratio.
const LEVELS: [i8; 9] = [-1, 1, 1, 2, 2, 3, 5, 6, 8];

/// zstd's level for a `CompressionLevel`, which is clamped to 1 to 9.
#[must_use]
pub fn zstd_level(level: u8) -> i32 {
    let index = usize::from(level.clamp(1, 9) - 1);
    LEVELS.get(index).copied().map_or(3, i32::from)
}

/// Version of the zstd library.
#[must_use]
pub fn zstd_version() -> &'static str {
    zstd_safe::version_string()
}
