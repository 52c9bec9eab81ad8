//! Compression of packet payloads for `zlib@openssh.com` (RFC 4253 §6.2, RFC 1950, RFC 1951).
//!
//! One [`Compressor`] or [`Decompressor`] serves one direction for one epoch: its history
//! passes from packet to packet, and NEWKEYS of its direction resets it (RFC 4253 §6.2; OpenSSH
//! does the same). Every payload ends with a flush, so that the peer can inflate it at once.
//! What enters is the whole payload, message number included, in wire order: compress before
//! the packet is stamped, inflate after it was opened.
//!
//! The engine behind the two is chosen here and is `zlib` (zlib-rs) alone for now. Another one
//! takes its place by implementing [`Encoder`] or [`Decoder`] in a folder beside it.
//!
//! `zlib@openssh.com` starts after authentication; plain `zlib`, which inflates what strangers
//! send, is not offered. When it starts is `proto`'s business; packets are in `packet`.
#![forbid(unsafe_code)]

mod error;
pub mod provider;
mod zlib;

#[cfg(test)]
mod tests;

use std::fmt;

pub use error::{DeflateError, InflateError};

/// The most that one packet's payload may inflate to, in bytes: the largest packet, and what a
/// sender may have put around it. A packet of 256 KiB could otherwise claim 264 MB.
pub const MAX_INFLATED_BYTES: usize = 256 * 1024 + 1024;

/// The effort that OpenSSH fixes, and the default.
pub const DEFAULT_LEVEL: u8 = 6;

/// What turns one direction's payloads into one zlib stream.
pub trait Encoder: Send {
    /// Appends `payload`, compressed and flushed, to `out`. On failure `out` is as before and
    /// the stream is broken.
    ///
    /// # Errors
    /// [`DeflateError`] if the engine fails.
    fn encode(&mut self, payload: &[u8], out: &mut Vec<u8>) -> Result<(), DeflateError>;

    /// Begins a new stream with empty history.
    fn reset(&mut self);
}

/// What turns one zlib stream back into payloads.
pub trait Decoder: Send {
    /// Appends what `input`, one packet's payload, inflates to. On failure `out` is as before and
    /// the stream is broken.
    ///
    /// # Errors
    /// [`InflateError`]; [`InflateError::TooLong`] as soon as more than `limit_bytes` come out.
    fn decode(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        limit_bytes: usize,
    ) -> Result<(), InflateError>;

    /// Expects a new stream with empty history.
    fn reset(&mut self);
}

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
    fn count(&mut self, raw: usize, compressed: usize) {
        self.packets = self.packets.saturating_add(1);
        self.raw_bytes = self.raw_bytes.saturating_add(raw as u64);
        self.compressed_bytes = self.compressed_bytes.saturating_add(compressed as u64);
    }
}

/// The sending direction's compression.
pub struct Compressor {
    engine: Box<dyn Encoder>,
    totals: Totals,
}

impl Compressor {
    /// Starts a stream with effort `level`, 1 to 9; what is outside is brought inside.
    #[must_use]
    pub fn new(level: u8) -> Self {
        Self {
            engine: Box::new(zlib::ZlibEncoder::new(level)),
            totals: Totals::default(),
        }
    }

    /// Appends `payload`'s compressed form to `out`, flushed so that the peer can inflate all of
    /// it.
    ///
    /// # Errors
    /// [`DeflateError`]; the stream cannot go on then.
    pub fn compress(&mut self, payload: &[u8], out: &mut Vec<u8>) -> Result<(), DeflateError> {
        let before = out.len();
        self.engine.encode(payload, out)?;
        self.totals.count(payload.len(), out.len() - before);
        Ok(())
    }

    /// NEWKEYS was sent: a new stream begins.
    pub fn reset(&mut self) {
        self.engine.reset();
    }

    /// Payload bytes before and after.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.totals
    }
}

impl fmt::Debug for Compressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compressor")
            .field("totals", &self.totals)
            .finish_non_exhaustive()
    }
}

/// The receiving direction's decompression.
pub struct Decompressor {
    engine: Box<dyn Decoder>,
    totals: Totals,
}

impl Decompressor {
    /// Expects a stream's beginning.
    #[must_use]
    pub fn new() -> Self {
        Self {
            engine: Box::new(zlib::ZlibDecoder::new()),
            totals: Totals::default(),
        }
    }

    /// Appends to `out` what `input`, one packet's payload, inflates to. `out` grows with what
    /// really comes out, never past the limit.
    ///
    /// # Errors
    /// [`InflateError`], at once when more than `limit_bytes` (normally [`MAX_INFLATED_BYTES`])
    /// come out; the connection cannot go on then.
    pub fn decompress(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        limit_bytes: usize,
    ) -> Result<(), InflateError> {
        let before = out.len();
        self.engine.decode(input, out, limit_bytes)?;
        self.totals.count(out.len() - before, input.len());
        Ok(())
    }

    /// NEWKEYS was received: a new stream begins.
    pub fn reset(&mut self) {
        self.engine.reset();
    }

    /// Payload bytes before (compressed) and after (raw).
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.totals
    }
}

impl Default for Decompressor {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Decompressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decompressor")
            .field("totals", &self.totals)
            .finish_non_exhaustive()
    }
}
