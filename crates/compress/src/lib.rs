//! Compression of packet payloads for `zlib@openssh.com` (RFC 4253 §6.2, RFC 1950, RFC 1951).
//!
//! One [`Compressor`] or [`Decompressor`] serves one direction for one epoch: its history extends
//! across packets, and NEWKEYS of its direction resets it (RFC 4253 §6.2, as in OpenSSH). Every
//! payload ends with a flush, so that the peer can inflate it at once. The input is the whole
//! payload, including the message number, in wire order: compress before the packet is stamped,
//! inflate after it is opened.
//!
//! Each payload has an [`Origin`]. A channel's data are matched only with earlier data of the same
//! channel (`history`), and data of one channel do not influence the encoding of another channel's
//! payloads. Otherwise an attacker who feeds one channel could learn another channel's bytes from
//! packet lengths ("Crossing the Streams", arXiv 2609.07709). `separation_tests` checks this.
//!
//! [`PacketCompressor::compress_around`] compresses a single payload; a [`RunJob`] compresses several
//! payloads of one channel, on any thread. A run may refer to its channel's bytes in the previous
//! 32 KiB of plaintext, which are known when it begins, and ends on a byte boundary, so that runs
//! compressed in parallel concatenate to the stream of a serial sender. `deflate` has the codec,
//! `provider` the interface for other engines, `adaptive` detects incompressible payloads, and
//! `resumable` inflates streams with other packet boundaries.
//!
//! Two Fulmar peers may use `zstd` instead, which shares only `adaptive`.
//!
//! `zlib@openssh.com` starts after authentication. Plain `zlib`, which would inflate data of
//! unauthenticated peers, is not offered. `proto` decides when compression starts; packets are in
//! `packet`.
#![deny(unsafe_code)]

mod adaptive;
mod compressor;
mod decompressor;
#[allow(unsafe_code)]
mod deflate;
mod effort;
mod error;
mod form;
mod history;
mod origin;
mod packet_compressor;
pub mod provider;
mod resumable;
mod run;
mod zstd;

#[cfg(test)]
mod interleaving_tests;
#[cfg(test)]
mod separation_tests;
#[cfg(test)]
mod tests;

pub use compressor::Compressor;
pub use decompressor::Decompressor;
pub use effort::CompressionSettings;
pub use error::{DeflateError, InflateError};
pub use form::{Encoded, Form};
pub use origin::Origin;
pub use packet_compressor::PacketCompressor;
pub use run::{RunDone, RunJob};
pub use zstd::{ZstdCompressor, zstd_level, zstd_version};

/// Maximum size of an inflated payload in bytes: the largest packet, plus overhead that a sender
/// may have added. A packet of 256 KiB could otherwise inflate to 264 MB.
pub const MAX_INFLATED_BYTES: usize = 256 * 1024 + 1024;

/// Default compression level; OpenSSH always uses it.
pub const DEFAULT_LEVEL: u8 = 6;

/// Sizes before and after compression since the connection began; a reset does not clear them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Number of payloads.
    pub packets: u64,
    /// Number of bytes before compression.
    pub raw_bytes: u64,
    /// Number of bytes after compression.
    pub compressed_bytes: u64,
}

impl Totals {
    /// The line that `ssh -v` prints for a direction, in OpenSSH's words: bytes before and after.
    #[must_use]
    pub fn line(&self, direction: &str) -> String {
        format!(
            "compress {direction}: raw data {}, compressed {}, factor {:.2}",
            self.raw_bytes,
            self.compressed_bytes,
            ratio(self.compressed_bytes, self.raw_bytes)
        )
    }

    fn count(&mut self, raw: usize, compressed: usize) {
        self.packets = self.packets.saturating_add(1);
        self.raw_bytes = self.raw_bytes.saturating_add(raw as u64);
        self.compressed_bytes = self.compressed_bytes.saturating_add(compressed as u64);
    }

    fn add(&mut self, other: &Self) {
        self.packets = self.packets.saturating_add(other.packets);
        self.raw_bytes = self.raw_bytes.saturating_add(other.raw_bytes);
        self.compressed_bytes = self.compressed_bytes.saturating_add(other.compressed_bytes);
    }
}

/// Statistics of a sending direction since the connection began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CompressionReport {
    /// Sizes before and after compression.
    pub totals: Totals,
    /// Number of payloads deflated by the built-in engine.
    pub internal: u64,
    /// Number of payloads deflated by a [`Provider`](provider::Provider).
    pub hardware: u64,
    /// Number of payloads compressed by zstd; `None` if zstd is not the engine.
    pub zstd: Option<u64>,
    /// Number of payloads stored without compression.
    pub stored: u64,
    /// Lowest and highest level used; level 0 stores all but small payloads.
    pub levels: Option<(u8, u8)>,
    /// CPU time in engines, nanoseconds.
    pub cpu_ns: u64,
}

impl CompressionReport {
    /// A line of statistics for `ssh -v`.
    #[must_use]
    pub fn line(&self) -> String {
        let level = match self.levels {
            None => "level -".to_owned(),
            Some((least, most)) if least == most => format!("level {most}"),
            Some((least, most)) => format!("level {most}..{least}"),
        };
        let tenths = self.cpu_ns / 100_000_000;
        let engines = match self.zstd {
            Some(zstd) => format!("{zstd} zstd"),
            None => format!("{} internal, {} hardware", self.internal, self.hardware),
        };
        format!(
            "compress outgoing: {} packets: {engines}, {} stored; {level}; {}.{} s CPU",
            self.totals.packets,
            self.stored,
            tenths / 10,
            tenths % 10
        )
    }

    fn note_level(&mut self, level: u8) {
        let (least, most) = self.levels.unwrap_or((level, level));
        self.levels = Some((least.min(level), most.max(level)));
    }

    fn add(&mut self, other: &Self) {
        self.totals.add(&other.totals);
        self.internal = self.internal.saturating_add(other.internal);
        self.hardware = self.hardware.saturating_add(other.hardware);
        self.stored = self.stored.saturating_add(other.stored);
        self.cpu_ns = self.cpu_ns.saturating_add(other.cpu_ns);
        if let Some((least, most)) = other.levels {
            self.note_level(least);
            self.note_level(most);
        }
    }
}

/// `part` divided by `whole`; 0 if `whole` is 0.
#[allow(clippy::cast_precision_loss)] // Shown with two digits.
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64
    }
}
