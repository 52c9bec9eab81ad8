//! [`ZstdCompressor`]: compresses the payloads of one direction into zstd frames.

use std::fmt;

use zstd_safe::zstd_sys::ZSTD_EndDirective;
use zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer, ResetDirective};

use super::frame::{self, BLOCKS, FRAME, STORED};
use super::{CONTEXTS, WINDOW_LOG, zstd_level};
use crate::CompressionReport;
use crate::adaptive::Policy;
use crate::effort::{CompressionSettings, StreamLevel, cpu_ns, effort_for};
use crate::error::DeflateError;
use crate::form::Form;
use crate::origin::Origin;
use crate::packet_compressor::PacketCompressor;

/// Number of bytes in a frame from which on freeing its memory is worthwhile.
const SHED_BYTES: u64 = 256 * 1024;
/// Shorter payloads, in bytes, are stored: a block's header alone takes more than compression could
/// save. A keystroke therefore has the same length as a ping that imitates one.
const LEAST_BYTES: usize = 16;
/// Bytes that a packet may need beyond zstd's bound: its first byte and a frame's header.
const LEAD_BYTES: usize = 64;

/// The current frame.
#[derive(Debug, Clone, Copy)]
struct ZstdFrame {
    /// zstd's level.
    level: i32,
    /// Number of plaintext bytes in the frame.
    bytes: u64,
}

/// State of the channel that uses this context.
struct SendContext {
    channel: u64,
    /// Number of the packet that used it last.
    used: u64,
    /// Created for the first payload that needs it, at [`zstd_level`].
    zstd: Option<CCtx<'static>>,
    /// `None` if the next payload starts a frame.
    frame: Option<ZstdFrame>,
    policy: Policy,
}

impl SendContext {
    fn new(channel: u64) -> Self {
        Self {
            channel,
            used: 0,
            zstd: None,
            frame: None,
            policy: Policy::default(),
        }
    }

    fn has_spare(&self) -> bool {
        let small = self.frame.is_some_and(|frame| frame.bytes <= SHED_BYTES);
        self.zstd.is_some() && !small
    }

    /// Starts a new frame at zstd's `level` with the next payload.
    fn begin(&mut self, level: i32) -> Result<(), DeflateError> {
        let context = match &mut self.zstd {
            Some(context) => context,
            none => none.insert(compressing()?),
        };
        context
            .reset(ResetDirective::SessionOnly)
            .and_then(|_| context.set_parameter(CParameter::CompressionLevel(level)))
            .map_err(|_| DeflateError)?;
        Ok(())
    }
}

/// Compression of the sending direction with zstd.
pub struct ZstdCompressor {
    level: StreamLevel,
    /// The contexts by number, at most [`CONTEXTS`].
    contexts: Vec<SendContext>,
    report: CompressionReport,
}

impl ZstdCompressor {
    /// Starts a new stream.
    #[must_use]
    pub fn new(settings: CompressionSettings) -> Self {
        Self {
            level: StreamLevel::new(settings),
            contexts: Vec::new(),
            report: CompressionReport {
                zstd: Some(0),
                ..CompressionReport::default()
            },
        }
    }

    /// Returns the number of a context for `channel`: its own, a new one, or the one that has been
    /// idle longest, without its history.
    fn context_of(&mut self, channel: u64) -> usize {
        let its_own = self.contexts.iter().position(|one| one.channel == channel);
        let number = match its_own {
            Some(number) => number,
            None if self.contexts.len() < CONTEXTS => {
                self.contexts.push(SendContext::new(channel));
                self.contexts.len() - 1
            }
            None => {
                let idle = self.contexts.iter().enumerate();
                let idle = idle.min_by_key(|(_, one)| one.used);
                let number = idle.map_or(0, |(number, _)| number);
                if let Some(place) = self.contexts.get_mut(number) {
                    *place = SendContext::new(channel);
                }
                number
            }
        };
        if let Some(context) = self.contexts.get_mut(number) {
            context.used = self.report.totals.packets;
        }
        number
    }

    /// Returns the number of the context that compresses `payload`; `None` if the payload is to be
    /// stored.
    fn context_for(&mut self, channel: u64, payload: &[u8]) -> Option<usize> {
        let number = self.context_of(channel);
        let context = self.contexts.get_mut(number)?;
        // A test needs no special treatment: zstd itself soon gives up on random data.
        let policy = self.level.settings.adaptive.then_some(&mut context.policy);
        effort_for(policy, self.level.now, payload).map(|_| number)
    }

    fn encode(
        &mut self,
        number: usize,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), DeflateError> {
        let start = out.len();
        let context = self.contexts.get_mut(number).ok_or(DeflateError)?;
        let level = match (self.level.now, context.frame) {
            // Small payloads are compressed even if larger ones are stored.
            (0, Some(frame)) => frame.level,
            (level, _) => {
                self.report.note_level(level.max(1));
                zstd_level(level)
            }
        };
        let goes_on = context.frame.filter(|frame| frame.level == level);
        let frame = match goes_on {
            Some(frame) => {
                out.push(frame::lead(BLOCKS, number));
                frame
            }
            None => {
                context.begin(level)?;
                out.push(frame::lead(FRAME, number));
                ZstdFrame { level, bytes: 0 }
            }
        };
        context.frame = Some(ZstdFrame {
            bytes: frame.bytes.saturating_add(payload.len() as u64),
            ..frame
        });
        let zstd = context.zstd.as_mut().ok_or(DeflateError)?;
        flush(zstd, payload, out)?;
        context.policy.note(payload.len(), Some(out.len() - start));
        Ok(())
    }

    /// Size of zstd's memory in bytes.
    #[cfg(test)]
    pub(crate) fn memory_bytes(&self) -> usize {
        self.contexts
            .iter()
            .filter_map(|one| one.zstd.as_ref())
            .map(CCtx::sizeof)
            .sum()
    }
}

fn flush(
    context: &mut CCtx<'static>,
    payload: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), DeflateError> {
    let mut input = InBuffer::around(payload);
    loop {
        // Usually enough space for all output.
        out.reserve(zstd_safe::compress_bound(payload.len()) + LEAD_BYTES);
        let at = out.len();
        let mut output = OutBuffer::around_pos(out, at);
        let flush = ZSTD_EndDirective::ZSTD_e_flush;
        let left = context
            .compress_stream2(&mut output, &mut input, flush)
            .map_err(|_| DeflateError)?;
        if left == 0 && input.pos() == payload.len() {
            return Ok(());
        }
    }
}

fn compressing() -> Result<CCtx<'static>, DeflateError> {
    let mut context = CCtx::try_create().ok_or(DeflateError)?;
    for parameter in [
        CParameter::WindowLog(u32::from(WINDOW_LOG)),
        // The packet's MAC replaces the checksum, and the content size of a frame is unknown.
        CParameter::ChecksumFlag(false),
        CParameter::ContentSizeFlag(false),
    ] {
        context.set_parameter(parameter).map_err(|_| DeflateError)?;
    }
    Ok(context)
}

impl PacketCompressor for ZstdCompressor {
    fn compress_around(
        &mut self,
        origin: Origin,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Form, DeflateError> {
        let start = out.len();
        let context = match origin {
            Origin::Channel(channel) if payload.len() >= LEAST_BYTES => {
                self.context_for(channel, payload)
            }
            Origin::Channel(_) | Origin::Opening | Origin::Ping | Origin::Other => None,
        };
        let form = match context {
            None => {
                out.push(STORED);
                self.report.stored += 1;
                if self.level.now == 0 && origin.is_data() {
                    self.report.note_level(0);
                }
                Form::Stored
            }
            Some(number) => {
                let begun = cpu_ns();
                self.encode(number, payload, out)?;
                self.report.cpu_ns += cpu_ns().saturating_sub(begun);
                self.report.zstd = self.report.zstd.map(|packets| packets + 1);
                Form::Compressed
            }
        };
        let whole = form.whole_bytes(out.len() - start, payload.len());
        self.report.totals.count(payload.len(), whole);
        Ok(form)
    }

    fn reset(&mut self) {
        for context in &mut self.contexts {
            context.frame = None;
        }
    }

    fn level(&self) -> u8 {
        self.level.now
    }

    fn set_level(&mut self, level: u8) {
        self.level.set(level);
    }

    fn has_spare(&self) -> bool {
        self.contexts.iter().any(SendContext::has_spare)
    }

    fn shed(&mut self) {
        for context in &mut self.contexts {
            if context.has_spare() {
                context.zstd = None;
                context.frame = None;
            }
        }
    }

    fn report(&self) -> CompressionReport {
        self.report
    }
}

impl fmt::Debug for ZstdCompressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZstdCompressor")
            .field("level", &self.level)
            .field("report", &self.report)
            .finish_non_exhaustive()
    }
}
