//! zstd by packets (RFC 8878), between two of us: [`ZstdCompressor`] and [`ZstdDecompressor`], one
//! direction each. The name on the wire and what it promises are in docs/PROTOCOL.md.
//!
//! The first byte of a packet says what it holds: a payload as it is, which no history knows;
//! blocks of the frame at hand; or a new frame and its first blocks; and of which of
//! [`CONTEXTS`] contexts. No frame ends: each payload ends with a flush, so that the peer can
//! inflate all of it, and a new frame begins where the level changes, behind NEWKEYS, where the
//! sender has given its memory back, and where a context is given to another channel.
//!
//! Each context serves one channel at a time, so that no payload is compared with another
//! channel's. What is no channel's data is sent as it is.
//!
//! What can be judged of a packet without inflating it is in `frame`, in safe code; the zstd
//! library sees whole blocks only, of a size that was counted.

mod compressor;
mod decompressor;
mod frame;

#[cfg(test)]
mod tests;

pub use compressor::ZstdCompressor;
pub use decompressor::ZstdDecompressor;

/// log2 of the window, bytes: what both sides keep, and the most that a peer may ask for.
const WINDOW_LOG: u8 = 20;

/// Histories that both sides keep: channels that can send by turns without beginning a frame each
/// time. Each costs the receiver up to 1.5 MiB.
pub(crate) const CONTEXTS: usize = 4;

/// zstd's own level for each `CompressionLevel` from 1 to 9. Those that the level falls to where the
/// line is faster, 6, 3 and 1, are about one and a half times and twice as fast as the one before.
/// Behind 8 the sender's tables double for a thousandth of the ratio.
const LEVELS: [i8; 9] = [-1, 1, 1, 2, 2, 3, 5, 6, 8];

/// zstd's own level for a `CompressionLevel`, which is brought inside 1 to 9.
#[must_use]
pub fn zstd_level(level: u8) -> i32 {
    let index = usize::from(level.clamp(1, 9) - 1);
    LEVELS.get(index).copied().map_or(3, i32::from)
}

/// The library's version.
#[must_use]
pub fn zstd_version() -> &'static str {
    zstd_safe::version_string()
}
