//! [`Decompressor`]: one zlib stream back into payloads.

use std::fmt;
use std::ops::Range;

use crate::Totals;
use crate::deflate::PacketDecoder;
use crate::error::InflateError;

/// The receiving direction's decompression.
pub struct Decompressor {
    decoder: PacketDecoder,
    totals: Totals,
}

impl Decompressor {
    /// Expects a stream's beginning.
    #[must_use]
    pub fn new() -> Self {
        Self {
            decoder: PacketDecoder::new(),
            totals: Totals::default(),
        }
    }

    /// Appends to `out` what `input`, one packet's payload, inflates to. `out` grows with what
    /// really comes out, never past the limit.
    ///
    /// # Errors
    /// [`InflateError`], at once when more than `limit_bytes` (normally
    /// [`MAX_INFLATED_BYTES`](crate::MAX_INFLATED_BYTES)) come out; the connection cannot go on
    /// then.
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

    /// The place of the payload in `input`, one packet's, where it is stored there as it is: it is
    /// taken as received then, and nothing has to be copied. None: it is still to be
    /// [decompressed](Decompressor::decompress).
    pub fn stored(&mut self, input: &[u8], limit_bytes: usize) -> Option<Range<usize>> {
        let place = self.decoder.stored(input, limit_bytes)?;
        self.totals.count(place.len(), input.len());
        Some(place)
    }

    /// NEWKEYS was received: a new stream begins.
    pub fn reset(&mut self) {
        self.decoder.reset();
    }

    /// Payload bytes before (compressed) and after (raw).
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Whether the peer's packets end elsewhere than its blocks do, so that a slower inflate has
    /// taken over.
    #[must_use]
    pub fn is_resumable(&self) -> bool {
        self.decoder.is_resumable()
    }

    #[cfg(test)]
    pub(crate) fn memory_bytes(&self) -> usize {
        self.decoder.memory_bytes()
    }

    /// Whether [`Decompressor::shed`] would free anything worth it.
    #[must_use]
    pub fn has_spare(&self) -> bool {
        self.decoder.memory_bytes() > 64 * 1024
    }

    /// Frees what bulk data needed; the history stays.
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
