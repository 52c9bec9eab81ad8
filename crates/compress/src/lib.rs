//! Compression of packet payloads for `zlib@openssh.com` (RFC 4253 §6.2, RFC 1950, RFC 1951).
//!
//! One [`Compressor`] or [`Decompressor`] serves one direction for one epoch: its history
//! passes from packet to packet, and NEWKEYS of its direction resets it (RFC 4253 §6.2; OpenSSH
//! does the same). Every payload ends with a flush, so that the peer can inflate it at once.
//! What enters is the whole payload, message number included, in wire order: compress before
//! the packet is stamped, inflate after it was opened.
//!
//! Each payload has an [`Origin`]. A channel's data are matched with that channel's earlier data
//! alone (`history`), and nothing that one channel has sent has an influence on what stands for
//! another one's payloads: else whoever feeds one channel could find out another's bytes from the
//! lengths of packets ("Crossing the Streams", arXiv 2609.07709). The tests for that are in
//! `separation_tests`.
//!
//! A payload is compressed in place by [`Compressor::compress_around`], or several of one channel as
//! a [`RunJob`] on any thread: a run refers to its channel's bytes in the 32 KiB of plaintext before
//! it, which are known when it is begun, and ends on a byte, so that runs made side by side
//! concatenate to the stream that a serial sender would have made. The codec is in `deflate`, other
//! engines plug into `provider`, what is not worth it is found by `adaptive`, and `zlib` reads
//! streams that go another way.
//!
//! Between two of us `zstd` may take its place, which shares only `adaptive`.
//!
//! `zlib@openssh.com` starts after authentication; plain `zlib`, which inflates what strangers
//! send, is not offered. When it starts is `proto`'s business; packets are in `packet`.
#![deny(unsafe_code)]

mod adaptive;
mod compressor;
mod decompressor;
#[allow(unsafe_code)]
mod deflate;
mod error;
mod form;
mod history;
mod origin;
pub mod provider;
mod run;
mod zlib;
mod zstd;

#[cfg(test)]
mod interleaving_tests;
#[cfg(test)]
mod separation_tests;
#[cfg(test)]
mod tests;

pub use compressor::{Compressor, Settings};
pub use decompressor::Decompressor;
pub use error::{DeflateError, InflateError};
pub use form::{Encoded, Form};
pub use origin::Origin;
pub use run::{RunDone, RunJob};
pub use zstd::{ZstdCompressor, ZstdDecompressor, zstd_level, zstd_version};

/// The most that one packet's payload may inflate to, in bytes: the largest packet, and what a
/// sender may have put around it. A packet of 256 KiB could otherwise claim 264 MB.
pub const MAX_INFLATED_BYTES: usize = 256 * 1024 + 1024;

/// The effort that OpenSSH fixes, and the default.
pub const DEFAULT_LEVEL: u8 = 6;

/// Bytes before and after compression since the connection began (a reset does not touch it).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Payloads.
    pub packets: u64,
    /// Bytes of the payloads themselves.
    pub raw_bytes: u64,
    /// Bytes of their compressed form.
    pub compressed_bytes: u64,
}

impl Totals {
    /// What `ssh -v` says of a direction, as OpenSSH words it: bytes before and after.
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

/// What a sending direction has done since the connection began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Report {
    /// Bytes before and after.
    pub totals: Totals,
    /// Payloads deflated by our own engine.
    pub internal: u64,
    /// Payloads deflated by a [`Provider`](provider::Provider).
    pub hardware: u64,
    /// Payloads compressed by zstd; none where it is not the engine.
    pub zstd: Option<u64>,
    /// Payloads stored as they were.
    pub stored: u64,
    /// The least and the highest level that there were; 0 stores what is not small.
    pub levels: Option<(u8, u8)>,
    /// CPU time in engines, nanoseconds.
    pub cpu_ns: u64,
}

impl Report {
    /// Who compressed what was sent, for `ssh -v`.
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

/// `part` of `whole`, 0 of nothing.
#[allow(clippy::cast_precision_loss)] // Shown with two digits.
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64
    }
}
