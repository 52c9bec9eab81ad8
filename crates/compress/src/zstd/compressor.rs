//! [`ZstdCompressor`]: one direction's payloads into frames of zstd.

use std::fmt;

use zstd_safe::zstd_sys::ZSTD_EndDirective;
use zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer, ResetDirective};

use super::frame::{BLOCKS, FRAME, STORED};
use super::{WINDOW_LOG, zstd_level};
use crate::Report;
use crate::adaptive::Policy;
use crate::compressor::{Settings, cpu_ns, effort_for};
use crate::error::DeflateError;
use crate::form::Form;

/// What has gone into a frame from which on it is worth it to give its memory back, bytes.
const SHED_BYTES: u64 = 256 * 1024;
/// What a packet may need beyond zstd's bound: its first byte and a frame's header.
const LEAD_BYTES: usize = 64;

/// The frame that the peer has the beginning of.
#[derive(Debug, Clone, Copy)]
struct Frame {
    /// zstd's own.
    level: i32,
    /// Plaintext that went into it.
    bytes: u64,
}

/// The sending direction.
pub struct ZstdCompressor {
    settings: Settings,
    /// The effort for what comes next, as `CompressionLevel` counts it; 0 stores.
    level: u8,
    /// Made for the first payload that needs it, at [`zstd_level`].
    context: Option<CCtx<'static>>,
    /// None when the next payload begins one.
    frame: Option<Frame>,
    policy: Policy,
    report: Report,
}

impl ZstdCompressor {
    /// Starts a stream.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let settings = Settings {
            level: settings.level.clamp(1, 9),
            ..settings
        };
        Self {
            settings,
            level: settings.level,
            context: None,
            frame: None,
            policy: Policy::default(),
            report: Report {
                zstd: Some(0),
                ..Report::default()
            },
        }
    }

    /// Appends `payload`'s compressed form to `out`, flushed so that the peer can inflate all of
    /// it.
    ///
    /// # Errors
    /// [`DeflateError`]; the stream cannot go on then.
    pub fn compress(&mut self, payload: &[u8], out: &mut Vec<u8>) -> Result<(), DeflateError> {
        self.compress_around(payload, out)?.complete(payload, out);
        Ok(())
    }

    /// The same without copying a payload that is stored: it says in which form it leaves.
    ///
    /// # Errors
    /// [`DeflateError`]; the stream cannot go on then.
    pub fn compress_around(
        &mut self,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Form, DeflateError> {
        let start = out.len();
        let form = if self.stores(payload) {
            out.push(STORED);
            self.report.stored += 1;
            if self.level == 0 {
                self.report.note_level(0);
            }
            Form::Stored
        } else {
            let begun = cpu_ns();
            self.encode(payload, out)?;
            self.report.cpu_ns += cpu_ns().saturating_sub(begun);
            self.report.zstd = self.report.zstd.map(|packets| packets + 1);
            self.policy.note(payload.len(), Some(out.len() - start));
            Form::Compressed
        };
        let whole = form.whole_bytes(out.len() - start, payload.len());
        self.report.totals.count(payload.len(), whole);
        Ok(form)
    }

    fn stores(&mut self, payload: &[u8]) -> bool {
        // An attempt is a payload like any other: zstd itself soon gives up on what is random.
        let policy = self.settings.adaptive.then_some(&mut self.policy);
        effort_for(policy, self.level, payload).is_none()
    }

    fn encode(&mut self, payload: &[u8], out: &mut Vec<u8>) -> Result<(), DeflateError> {
        let level = match (self.level, self.frame) {
            // What is small while the rest is stored.
            (0, Some(frame)) => frame.level,
            (level, _) => {
                self.report.note_level(level.max(1));
                zstd_level(level)
            }
        };
        let goes_on = self.frame.filter(|frame| frame.level == level);
        let frame = match goes_on {
            Some(frame) => {
                out.push(BLOCKS);
                frame
            }
            None => {
                self.begin(level)?;
                out.push(FRAME);
                Frame { level, bytes: 0 }
            }
        };
        self.frame = Some(Frame {
            bytes: frame.bytes.saturating_add(payload.len() as u64),
            ..frame
        });
        let context = self.context.as_mut().ok_or(DeflateError)?;
        flush(context, payload, out)
    }

    /// The next payload begins a frame at zstd's `level`.
    fn begin(&mut self, level: i32) -> Result<(), DeflateError> {
        let context = match &mut self.context {
            Some(context) => context,
            none => none.insert(compressing()?),
        };
        context
            .reset(ResetDirective::SessionOnly)
            .and_then(|_| context.set_parameter(CParameter::CompressionLevel(level)))
            .map_err(|_| DeflateError)?;
        Ok(())
    }

    /// NEWKEYS was sent: a new stream begins.
    pub fn reset(&mut self) {
        self.frame = None;
    }

    /// The effort for what comes next, as `CompressionLevel` counts it.
    #[must_use]
    pub fn level(&self) -> u8 {
        self.level
    }

    /// Sets the effort for what comes next, 0 to 9 and never above the level asked for; 0 stores.
    /// Only an adaptive stream takes it. Another level of zstd's begins another frame, without
    /// what was sent before as history.
    pub fn set_level(&mut self, level: u8) {
        if self.settings.adaptive {
            self.level = level.min(self.settings.level);
        }
    }

    /// Whether [`ZstdCompressor::shed`] would free anything worth it.
    #[must_use]
    pub fn has_spare(&self) -> bool {
        self.context.is_some() && self.frame.is_none_or(|frame| frame.bytes > SHED_BYTES)
    }

    /// Frees what bulk data needed, the history with it: what comes next begins a frame.
    pub fn shed(&mut self) {
        if self.has_spare() {
            self.context = None;
            self.frame = None;
        }
    }

    /// What was done since the connection began.
    #[must_use]
    pub fn report(&self) -> Report {
        self.report
    }

    /// Memory that zstd holds, bytes.
    #[cfg(test)]
    pub(crate) fn memory_bytes(&self) -> usize {
        self.context.as_ref().map_or(0, CCtx::sizeof)
    }
}

fn flush(
    context: &mut CCtx<'static>,
    payload: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), DeflateError> {
    let mut input = InBuffer::around(payload);
    loop {
        // Enough at once, as a rule.
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
        // The packet's MAC is better than a checksum, and no frame knows its end.
        CParameter::ChecksumFlag(false),
        CParameter::ContentSizeFlag(false),
    ] {
        context.set_parameter(parameter).map_err(|_| DeflateError)?;
    }
    Ok(context)
}

impl fmt::Debug for ZstdCompressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZstdCompressor")
            .field("settings", &self.settings)
            .field("report", &self.report)
            .finish_non_exhaustive()
    }
}
