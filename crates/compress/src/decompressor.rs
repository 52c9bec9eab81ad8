//! [`Decompressor`]: inflates the payloads of one direction, by either method.

use std::fmt;
use std::ops::Range;

use crate::Totals;
use crate::deflate::PacketDecoder;
use crate::error::InflateError;
use crate::zstd::ZstdDecoder;

/// Decompression of the receiving direction.
pub struct Decompressor {
    decoder: Decoder,
    totals: Totals,
}

enum Decoder {
    Zlib(PacketDecoder),
    Zstd(ZstdDecoder),
}

impl Decompressor {
    /// Starts at the beginning of a zlib stream.
    #[must_use]
    pub fn new() -> Self {
        Self {
            decoder: Decoder::Zlib(PacketDecoder::new()),
            totals: Totals::default(),
        }
    }

    /// Starts at the beginning of a stream of zstd frames.
    #[must_use]
    pub fn zstd() -> Self {
        Self {
            decoder: Decoder::Zstd(ZstdDecoder::default()),
            totals: Totals::default(),
        }
    }

    /// Returns true if this inflates zstd frames.
    #[must_use]
    pub fn is_zstd(&self) -> bool {
        matches!(self.decoder, Decoder::Zstd(_))
    }

    /// Appends to `out` the plaintext of `input`, the payload of one packet. `out` grows with the
    /// actual output, never beyond the limit, and is unchanged after an error.
    ///
    /// # Errors
    /// [`InflateError`], as soon as the output exceeds `limit_bytes` (normally
    /// [`MAX_INFLATED_BYTES`](crate::MAX_INFLATED_BYTES)); the connection cannot continue then.
    /// `Corrupt` includes, with zstd, a truncated packet, a window larger than 1 MiB, a dictionary
    /// and a checksum.
    pub fn decompress(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        limit_bytes: usize,
    ) -> Result<(), InflateError> {
        let before = out.len();
        let result = match &mut self.decoder {
            Decoder::Zlib(zlib) => zlib.decode(input, out, limit_bytes),
            Decoder::Zstd(zstd) => zstd.decode(input, out, limit_bytes),
        };
        let produced = out.len() - before;
        let result = match result {
            Ok(()) if produced > limit_bytes => Err(InflateError::TooLong { limit_bytes }),
            Ok(()) if produced == 0 => Err(InflateError::Empty),
            result => result,
        };
        match result {
            Ok(()) => self.totals.count(produced, input.len()),
            Err(_) => out.truncate(before),
        }
        result
    }

    /// Returns the range of the payload in `input`, the payload of one packet, if it is stored
    /// there without compression; it is then recorded as received, and need not be copied. `None`
    /// if `input` must be [decompressed](Decompressor::decompress).
    pub fn stored(&mut self, input: &[u8], limit_bytes: usize) -> Option<Range<usize>> {
        let place = match &mut self.decoder {
            Decoder::Zlib(zlib) => zlib.stored(input, limit_bytes),
            Decoder::Zstd(_) => crate::zstd::stored(input, limit_bytes),
        }?;
        self.totals.count(place.len(), input.len());
        Some(place)
    }

    /// Starts a new stream, to be called when NEWKEYS is received.
    pub fn reset(&mut self) {
        match &mut self.decoder {
            Decoder::Zlib(zlib) => zlib.reset(),
            Decoder::Zstd(zstd) => zstd.reset(),
        }
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
        matches!(&self.decoder, Decoder::Zlib(zlib) if zlib.is_resumable())
    }

    #[cfg(test)]
    pub(crate) fn memory_bytes(&self) -> usize {
        match &self.decoder {
            Decoder::Zlib(zlib) => zlib.memory_bytes(),
            Decoder::Zstd(zstd) => zstd.memory_bytes(),
        }
    }

    /// Returns true if [`Decompressor::shed`] would free considerable memory.
    #[must_use]
    pub fn has_spare(&self) -> bool {
        matches!(&self.decoder, Decoder::Zlib(zlib) if zlib.memory_bytes() > 64 * 1024)
    }

    /// Frees memory that only bulk data needs; keeps the history.
    pub fn shed(&mut self) {
        if let Decoder::Zlib(zlib) = &mut self.decoder {
            zlib.shed();
        }
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
