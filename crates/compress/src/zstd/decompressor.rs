//! [`ZstdDecompressor`]: frames of zstd back into payloads.

use std::fmt;
use std::ops::Range;

use zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer, ResetDirective};

use super::frame::{self, BLOCKS, FRAME, STORED};
use super::{CONTEXTS, WINDOW_LOG};
use crate::Totals;
use crate::error::InflateError;

/// The first output space for what is inflated, bytes, for each byte of the packet and within
/// limits: a channel's usual data, with its header, of what compresses well. What is more doubles.
const SPACE_TIMES: usize = 4;
const LEAST_SPACE: usize = 1024;
const MOST_SPACE: usize = 33 * 1024;

/// One of the peer's contexts.
#[derive(Default)]
struct Context {
    /// Made for the first frame.
    zstd: Option<DCtx<'static>>,
    /// A frame has begun.
    begun: bool,
}

/// The receiving direction.
pub struct ZstdDecompressor {
    contexts: [Context; CONTEXTS],
    totals: Totals,
}

impl ZstdDecompressor {
    /// Expects a stream's beginning.
    #[must_use]
    pub fn new() -> Self {
        Self {
            contexts: Default::default(),
            totals: Totals::default(),
        }
    }

    /// Appends to `out` what `input`, one packet's payload, inflates to. `out` grows with what
    /// really comes out, never past the limit.
    ///
    /// # Errors
    /// [`InflateError`], at once when more than `limit_bytes` come out; the connection cannot go on
    /// then. `Corrupt` also stands for a packet that is cut, a window that is larger than ours, a
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

    /// The place of the payload in `input`, one packet's, where it is stored there as it is: it is
    /// taken as received then, and nothing has to be copied. None: it is still to be
    /// [decompressed](ZstdDecompressor::decompress).
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
                frame::check_blocks(frame::behind_header(body)?, limit_bytes)?;
                context.begin()?;
                context.inflate(body, out, limit_bytes)
            }
            _ => Err(InflateError::Corrupt),
        }
    }

    /// NEWKEYS was received: a new stream begins.
    pub fn reset(&mut self) {
        for context in &mut self.contexts {
            context.begun = false;
        }
    }

    /// Payload bytes before (compressed) and after (raw).
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Memory that zstd holds, bytes.
    #[cfg(test)]
    pub(crate) fn memory_bytes(&self) -> usize {
        self.contexts
            .iter()
            .filter_map(|one| one.zstd.as_ref())
            .map(DCtx::sizeof)
            .sum()
    }
}

impl Context {
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

    /// `input` is whole blocks, behind a frame's header if it begins one.
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
            // One byte past the limit shows that there is more.
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
                // Space was left, so that the input is at its end.
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
