//! [`ZstdDecoder`]: inflates zstd frames to payloads.

use std::ops::Range;

use zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer, ResetDirective};

use super::frame::{self, BLOCKS, FRAME, STORED};
use super::{CONTEXTS, WINDOW_LOG};
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

/// Decodes one direction's zstd frames, packet by packet.
#[derive(Default)]
pub(crate) struct ZstdDecoder {
    contexts: [ReceiveContext; CONTEXTS],
}

/// Returns the range of the payload in `input`, if it is stored there and has at most
/// `limit_bytes`.
pub(crate) fn stored(input: &[u8], limit_bytes: usize) -> Option<Range<usize>> {
    let (kind, body) = input.split_first()?;
    (*kind == STORED && !body.is_empty() && body.len() <= limit_bytes).then_some(1..input.len())
}

impl ZstdDecoder {
    /// Appends the plaintext of `input` to `out`; after an error `out` may have grown.
    pub(crate) fn decode(
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
    pub(crate) fn reset(&mut self) {
        for context in &mut self.contexts {
            context.begun = false;
        }
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
