//! [`ZstdCompressor`]: one direction's payloads into frames of zstd.

use std::fmt;

use zstd_safe::zstd_sys::ZSTD_EndDirective;
use zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer, ResetDirective};

use super::frame::{self, BLOCKS, FRAME, STORED};
use super::{CONTEXTS, WINDOW_LOG, zstd_level};
use crate::Report;
use crate::adaptive::Policy;
use crate::compressor::{Settings, cpu_ns, effort_for};
use crate::error::DeflateError;
use crate::form::Form;
use crate::origin::Origin;

/// What has gone into a frame from which on it is worth it to give its memory back, bytes.
const SHED_BYTES: u64 = 256 * 1024;
/// Shorter payloads are sent as they are, bytes: a block's header alone takes more than what they
/// repeat. So a keystroke is as long as the ping that stands for one.
const LEAST_BYTES: usize = 16;
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

/// What one channel has sent, and what it has shown about what is worth the effort.
struct Context {
    channel: u64,
    /// The packet that used it last, by its number.
    used: u64,
    /// Made for the first payload that needs it, at [`zstd_level`].
    zstd: Option<CCtx<'static>>,
    /// None when the next payload begins one.
    frame: Option<Frame>,
    policy: Policy,
}

impl Context {
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

    /// The next payload begins a frame at zstd's `level`.
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

/// The sending direction.
pub struct ZstdCompressor {
    settings: Settings,
    /// The effort for what comes next, as `CompressionLevel` counts it; 0 stores.
    level: u8,
    /// At most [`CONTEXTS`], by their numbers.
    contexts: Vec<Context>,
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
            contexts: Vec::new(),
            report: Report {
                zstd: Some(0),
                ..Report::default()
            },
        }
    }

    /// As [`ZstdCompressor::compress_around`] and [`Form::complete`], for a stream that carries the
    /// data of one channel and nothing else.
    ///
    /// # Errors
    /// [`DeflateError`]; the stream cannot go on then.
    pub fn compress(&mut self, payload: &[u8], out: &mut Vec<u8>) -> Result<(), DeflateError> {
        let form = self.compress_around(Origin::Channel(0), payload, out)?;
        form.complete(payload, out);
        Ok(())
    }

    /// Appends to `out` what stands for `payload`, flushed so that the peer can inflate all of it.
    /// A payload that is stored is not copied: the form says that it follows `out`.
    ///
    /// Data of a channel may refer to that channel's earlier data; everything else is stored.
    ///
    /// # Errors
    /// [`DeflateError`]; the stream cannot go on then.
    pub fn compress_around(
        &mut self,
        origin: Origin,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Form, DeflateError> {
        let start = out.len();
        let context = match origin {
            Origin::Channel(channel) if payload.len() >= LEAST_BYTES => {
                self.worthwhile(channel, payload)
            }
            Origin::Channel(_) | Origin::Opening | Origin::Ping | Origin::Other => None,
        };
        let form = match context {
            None => {
                out.push(STORED);
                self.report.stored += 1;
                if self.level == 0 && origin.is_data() {
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

    /// The number of `channel`'s context: its own, a free one, or the one that has been idle
    /// longest, of which nothing is kept.
    fn context_of(&mut self, channel: u64) -> usize {
        let its_own = self.contexts.iter().position(|one| one.channel == channel);
        let number = match its_own {
            Some(number) => number,
            None if self.contexts.len() < CONTEXTS => {
                self.contexts.push(Context::new(channel));
                self.contexts.len() - 1
            }
            None => {
                let idle = self.contexts.iter().enumerate();
                let idle = idle.min_by_key(|(_, one)| one.used);
                let number = idle.map_or(0, |(number, _)| number);
                if let Some(place) = self.contexts.get_mut(number) {
                    *place = Context::new(channel);
                }
                number
            }
        };
        if let Some(context) = self.contexts.get_mut(number) {
            context.used = self.report.totals.packets;
        }
        number
    }

    /// The number of the context that compresses `payload`; `None` if it is to be stored.
    fn worthwhile(&mut self, channel: u64, payload: &[u8]) -> Option<usize> {
        let number = self.context_of(channel);
        let context = self.contexts.get_mut(number)?;
        // An attempt is a payload like any other: zstd itself soon gives up on what is random.
        let policy = self.settings.adaptive.then_some(&mut context.policy);
        effort_for(policy, self.level, payload).map(|_| number)
    }

    fn encode(
        &mut self,
        number: usize,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), DeflateError> {
        let start = out.len();
        let context = self.contexts.get_mut(number).ok_or(DeflateError)?;
        let level = match (self.level, context.frame) {
            // What is small while the rest is stored.
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
                Frame { level, bytes: 0 }
            }
        };
        context.frame = Some(Frame {
            bytes: frame.bytes.saturating_add(payload.len() as u64),
            ..frame
        });
        let zstd = context.zstd.as_mut().ok_or(DeflateError)?;
        flush(zstd, payload, out)?;
        context.policy.note(payload.len(), Some(out.len() - start));
        Ok(())
    }

    /// NEWKEYS was sent: a new stream begins.
    pub fn reset(&mut self) {
        for context in &mut self.contexts {
            context.frame = None;
        }
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
        self.contexts.iter().any(Context::has_spare)
    }

    /// Frees what bulk data needed, the history with it: what comes next begins a frame.
    pub fn shed(&mut self) {
        for context in &mut self.contexts {
            if context.has_spare() {
                context.zstd = None;
                context.frame = None;
            }
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
