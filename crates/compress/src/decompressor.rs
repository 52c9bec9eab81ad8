//! [`Decompressor`]: inflates one zlib stream to payloads.

use std::fmt;
use std::ops::Range;

use crate::Totals;
use crate::deflate::PacketDecoder;
use crate::error::InflateError;

/// Decompression of the receiving direction.
pub struct Decompressor {
    decoder: PacketDecoder,
    totals: Totals,
}

impl Decompressor {
    /// Starts at the beginning of a stream.
    #[must_use]
    pub fn new() -> Self {
        Self {
            decoder: PacketDecoder::new(),
            totals: Totals::default(),
        }
    }

    /// Appends to `out` the plaintext of `input`, the payload of one packet. `out` grows with the
    /// actual output, never beyond the limit.
    ///
    /// # Errors
    /// [`InflateError`], as soon as the output exceeds `limit_bytes` (normally
    /// [`MAX_INFLATED_BYTES`](crate::MAX_INFLATED_BYTES)); the connection cannot continue then.
    pub fn decompress(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        limit_bytes: usize,
    ) -> Result<(), InflateError> {
        let before = out.len();
        self.decoder.decode(input, out, limit_bytes)?;
        self.totals.count(out.len() - before, input.len());
        Ok(())
    }

    /// Returns the range of the payload in `input`, the payload of one packet, if it is stored
    /// there without compression; it is then recorded as received, and need not be copied. `None`
    /// if `input` must be [decompressed](Decompressor::decompress).
    pub fn stored(&mut self, input: &[u8], limit_bytes: usize) -> Option<Range<usize>> {
        let place = self.decoder.stored(input, limit_bytes)?;
        self.totals.count(place.len(), input.len());
        Some(place)
    }

    /// Starts a new stream, to be called when NEWKEYS is received.
    pub fn reset(&mut self) {
        self.decoder.reset();
    }

    /// Sizes of payloads before (compressed) and after (raw) decompression.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Returns true if the peer's packets do not end at block boundaries, so that the slower
    /// resumable inflate is used.
    #[must_use]
    pub fn is_resumable(&self) -> bool {
        self.decoder.is_resumable()
    }

    #[cfg(test)]
    pub(crate) fn memory_bytes(&self) -> usize {
        self.decoder.memory_bytes()
    }

    /// Returns true if [`Decompressor::shed`] would free considerable memory.
    #[must_use]
    pub fn has_spare(&self) -> bool {
        self.decoder.memory_bytes() > 64 * 1024
    }

    /// Frees memory that only bulk data needs; keeps the history.
    pub fn shed(&mut self) {
        self.decoder.shed();
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
