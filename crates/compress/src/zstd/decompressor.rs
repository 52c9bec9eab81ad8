//! [`ZstdDecompressor`]: inflates zstd frames to payloads.

use std::fmt;
use std::ops::Range;

use zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer, ResetDirective};

use super::frame::{self, BLOCKS, FRAME, STORED};
use super::{CONTEXTS, WINDOW_LOG};
use crate::Totals;
use crate::error::InflateError;

/// Initial output space: this many bytes for each byte of the packet, within the limits below;
/// enough for a channel's usual packet with well-compressible data. The space then doubles.
const SPACE_TIMES: usize = 4;
const LEAST_SPACE: usize = 1024;
const MOST_SPACE: usize = 33 * 1024;

/// One of the peer's contexts.
#[derive(Default)]
struct ReceiveContext {
    /// Created for the first frame.
    zstd: Option<DCtx<'static>>,
    /// A frame has begun.
    begun: bool,
}

/// Decompression of the receiving direction with zstd.
pub struct ZstdDecompressor {
    contexts: [ReceiveContext; CONTEXTS],
    totals: Totals,
}

impl ZstdDecompressor {
    /// Starts at the beginning of a stream.
    #[must_use]
    pub fn new() -> Self {
        Self {
            contexts: Default::default(),
            totals: Totals::default(),
        }
    }

    /// Appends to `out` the plaintext of `input`, the payload of one packet. `out` grows with the
    /// actual output, never beyond the limit.
    ///
    /// # Errors
    /// [`InflateError`], as soon as the output exceeds `limit_bytes`; the connection cannot
    /// continue then. `Corrupt` includes a truncated packet, a window larger than 1 MiB, a
    /// dictionary and a checksum.
    pub fn decompress(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        limit_bytes: usize,
    ) -> Result<(), InflateError> {
        let before = out.len();
        let result = self.take(input, out, limit_bytes);
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
    /// if `input` must be [decompressed](ZstdDecompressor::decompress).
    pub fn stored(&mut self, input: &[u8], limit_bytes: usize) -> Option<Range<usize>> {
        let (kind, body) = input.split_first()?;
        if *kind != STORED || body.is_empty() || body.len() > limit_bytes {
            return None;
        }
        self.totals.count(body.len(), input.len());
        Some(1..input.len())
    }

    fn take(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        limit_bytes: usize,
    ) -> Result<(), InflateError> {
        let (lead, body) = input.split_first().ok_or(InflateError::Empty)?;
        if *lead == STORED {
            if body.len() > limit_bytes {
                return Err(InflateError::TooLong { limit_bytes });
            }
            out.extend_from_slice(body);
            return Ok(());
        }
        let (kind, number) = frame::read_lead(*lead);
        let context = self.contexts.get_mut(number).ok_or(InflateError::Corrupt)?;
        match kind {
            BLOCKS if context.begun => {
                frame::check_blocks(body, limit_bytes)?;
                context.inflate(body, out, limit_bytes)
            }
            FRAME => {
                frame::check_blocks(frame::after_header(body)?, limit_bytes)?;
                context.begin()?;
                context.inflate(body, out, limit_bytes)
            }
            _ => Err(InflateError::Corrupt),
        }
    }

    /// Starts a new stream, to be called when NEWKEYS is received.
    pub fn reset(&mut self) {
        for context in &mut self.contexts {
            context.begun = false;
        }
    }

    /// Sizes of payloads before (compressed) and after (raw) decompression.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Size of zstd's memory in bytes.
    #[cfg(test)]
    pub(crate) fn memory_bytes(&self) -> usize {
        self.contexts
            .iter()
            .filter_map(|one| one.zstd.as_ref())
            .map(DCtx::sizeof)
            .sum()
    }
}

impl ReceiveContext {
    fn begin(&mut self) -> Result<(), InflateError> {
        match &mut self.zstd {
            Some(context) => context
                .reset(ResetDirective::SessionOnly)
                .map(drop)
                .map_err(|_| InflateError::OutOfMemory)?,
            none => *none = Some(decompressing()?),
        }
        self.begun = true;
        Ok(())
    }

    /// Inflates `input`, which is whole blocks, after a frame's header if it begins one.
    fn inflate(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        limit_bytes: usize,
    ) -> Result<(), InflateError> {
        let context = self.zstd.as_mut().ok_or(InflateError::Corrupt)?;
        let start = out.len();
        let mut taken = InBuffer::around(input);
        let mut space = input
            .len()
            .saturating_mul(SPACE_TIMES)
            .clamp(LEAST_SPACE, MOST_SPACE);
        loop {
            let at = out.len();
            // One byte past the limit reveals excess output.
            let most = (limit_bytes - (at - start)).saturating_add(1);
            out.reserve(space.min(most));
            let mut output = OutBuffer::around_pos(out, at);
            let wanted = context
                .decompress_stream(&mut output, &mut taken)
                .map_err(|_| InflateError::Corrupt)?;
            let produced = out.len() - start;
            if produced > limit_bytes {
                return Err(InflateError::TooLong { limit_bytes });
            }
            if wanted == 0 {
                return Err(InflateError::StreamEnded);
            }
            if out.len() < out.capacity() {
                // Output space is left, so all input is consumed.
                break;
            }
            space = produced;
        }
        if taken.pos() < input.len() {
            return Err(InflateError::Corrupt);
        }
        Ok(())
    }
}

fn decompressing() -> Result<DCtx<'static>, InflateError> {
    let mut context = DCtx::try_create().ok_or(InflateError::OutOfMemory)?;
    context
        .set_parameter(DParameter::WindowLogMax(u32::from(WINDOW_LOG)))
        .map_err(|_| InflateError::OutOfMemory)?;
    Ok(context)
}

impl Default for ZstdDecompressor {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for ZstdDecompressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZstdDecompressor")
            .field("totals", &self.totals)
            .finish_non_exhaustive()
    }
}
