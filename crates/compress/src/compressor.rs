//! [`Compressor`]: one direction's payloads into one zlib stream, in place or by runs.

use std::fmt;
use std::sync::Arc;

use crate::adaptive::{Choice, Policy};
use crate::deflate::{Carry, Piece, flush_behind, store};
use crate::error::DeflateError;
use crate::form::Form;
use crate::history::Histories;
use crate::origin::Origin;
use crate::provider::{Flush, Provider};
use crate::run::{Engines, RunDone, RunJob, Start};
use crate::{DEFAULT_LEVEL, Report};

/// Payloads below this end with a partial flush where the stream has one channel: it is 3.6 bytes
/// shorter on average, and may leave bits to the next payload, which bulk must not, and which
/// would tell another channel's packets the length of these in bits.
const PARTIAL_BELOW_BYTES: usize = 1024;
/// Stands for the channel of pings and their answers. No channel has this number.
const PINGS: u64 = u64::MAX;
/// What RFC 1950 §2.2 puts before a stream: deflate, a window of 32 KiB, level 6.
const ZLIB_HEADER: [u8; 2] = [0x78, 0x9c];

/// How to compress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Effort, 1 to 9; what is outside is brought inside.
    pub level: u8,
    /// What does not look worth it is stored, and the level may be
    /// [lowered](Compressor::set_level).
    pub adaptive: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            level: DEFAULT_LEVEL,
            adaptive: true,
        }
    }
}

/// Whether the connection has one channel's data only. Once it has had two channels it counts as
/// shared for good.
#[derive(Debug, Default)]
struct Sharing {
    /// A channel was opened or confirmed.
    opened: bool,
    /// A second one was.
    opened_another: bool,
    /// The first channel that sent data.
    first: Option<u64>,
    /// Another one has sent data.
    several: bool,
}

impl Sharing {
    fn note_opening(&mut self) {
        self.opened_another |= std::mem::replace(&mut self.opened, true);
    }

    /// Takes note of data of `channel`; true if it is the first of a second channel.
    fn note_data(&mut self, channel: u64) -> bool {
        let another = *self.first.get_or_insert(channel) != channel;
        another && !std::mem::replace(&mut self.several, true)
    }

    /// Data of another channel may follow.
    fn is_shared(&self) -> bool {
        self.opened_another || self.several
    }
}

/// The sending direction's compression.
pub struct Compressor {
    settings: Settings,
    /// The effort for what comes next; 0 stores.
    level: u8,
    /// What was sent last, in plain, by channels.
    histories: Histories,
    carry: Carry,
    /// The stream's header has been sent.
    begun: bool,
    sharing: Sharing,
    engines: Arc<Engines>,
    report: Report,
}

impl Compressor {
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
            histories: Histories::default(),
            carry: Carry::default(),
            begun: false,
            sharing: Sharing::default(),
            engines: Arc::new(Engines::internal()),
            report: Report::default(),
        }
    }

    /// Starts a stream with effort `level`, 1 to 9, whatever comes of it.
    #[must_use]
    pub fn with_level(level: u8) -> Self {
        Self::new(Settings {
            level,
            adaptive: false,
        })
    }

    /// Lets `provider` encode what is bulk, until it fails or a second channel sends data: nobody
    /// can see whether a library keeps two channels' bytes apart, so it is given those of one.
    pub fn set_provider(&mut self, provider: Arc<dyn Provider>) {
        self.engines = Arc::new(Engines::of(provider));
        if self.sharing.several {
            self.engines.dismiss();
        }
    }

    /// As [`Compressor::compress_around`] and [`Form::complete`], for a stream that carries the data
    /// of one channel and nothing else.
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
        let before = out.len();
        self.begin_stream(out);
        let piece = match origin {
            Origin::Channel(channel) => {
                self.admit(channel, out);
                self.deflate(channel, payload, out)?
            }
            Origin::Ping => self.deflate(PINGS, payload, out)?,
            Origin::Opening => {
                self.sharing.note_opening();
                self.histories.pass(payload);
                Piece::Stored
            }
            Origin::Other => {
                self.histories.pass(payload);
                Piece::Stored
            }
        };
        let form = match piece {
            Piece::Deflated => {
                self.report.internal += 1;
                Form::Compressed
            }
            Piece::Stored => {
                self.report.stored += 1;
                store(payload, &mut self.carry, out)
            }
        };
        let whole = form.whole_bytes(out.len() - before, payload.len());
        self.report.totals.count(payload.len(), whole);
        Ok(form)
    }

    /// Data of `channel` come next. With the first data of a second channel the provider goes, and
    /// nothing of the first channel's bits is carried over.
    fn admit(&mut self, channel: u64, out: &mut Vec<u8>) {
        if self.sharing.note_data(channel) {
            self.engines.dismiss();
            if !self.carry.is_empty() {
                flush_behind(Flush::Sync, &mut self.carry, out);
            }
        }
    }

    /// Appends `payload`'s deflated form to `out`, if that is to be sent.
    fn deflate(
        &mut self,
        channel: u64,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Piece, DeflateError> {
        let before = out.len();
        let flush = if payload.len() < PARTIAL_BELOW_BYTES && !self.sharing.is_shared() {
            Flush::Partial
        } else {
            Flush::Sync
        };
        let adaptive = self.settings.adaptive;
        let policy = adaptive.then(|| self.histories.policy(channel));
        let chosen = effort_for(policy, self.level, payload);
        let (history, start) = self.histories.remember(channel, payload, true);
        let mut piece = Piece::Stored;
        if let Some(effort) = chosen {
            let begun = cpu_ns();
            let (engine, source, policy) = history.parts();
            let engine = engine.ok_or(DeflateError)?;
            let end = source.window.len();
            let level = effort.level(self.level, || engine.gains(source, start, end));
            if let Some(level) = level {
                let carry = &mut self.carry;
                piece = engine.encode(source, start, level, flush, carry, out)?;
                self.report.note_level(level);
            }
            self.report.cpu_ns += cpu_ns().saturating_sub(begun);
            let deflated = (piece == Piece::Deflated).then_some(out.len() - before);
            policy.note(payload.len(), deflated);
        } else if self.level == 0 {
            self.report.note_level(0);
        }
        Ok(piece)
    }

    /// Takes payloads of `channel` as one run, to be compressed by [`RunJob::run`] anywhere and
    /// handed back to [`Compressor::finish_run`]; runs may be finished in any order, their bytes
    /// belong into the order of this call. At most
    /// [`MAX_RUN_PAYLOADS`](crate::provider::MAX_RUN_PAYLOADS).
    pub fn begin_run<'p>(
        &mut self,
        channel: u64,
        payloads: impl Iterator<Item = &'p [u8]> + Clone,
    ) -> RunJob {
        let mut lead = Vec::new();
        self.begin_stream(&mut lead);
        self.admit(channel, &mut lead);
        let policy = *self.histories.policy(channel);
        let (history, gaps) = self.histories.within_reach(channel);
        let job = RunJob::new(
            Arc::clone(&self.engines),
            channel,
            history,
            gaps,
            payloads.clone(),
            Start {
                lead,
                carry: std::mem::take(&mut self.carry),
                level: self.level,
                policy: self.settings.adaptive.then_some(policy),
            },
        );
        for payload in payloads {
            self.histories.remember(channel, payload, false);
        }
        job
    }

    /// Takes note of what a run has come to.
    pub fn finish_run(&mut self, done: &RunDone) {
        self.report.add(&done.report);
        if let Some(policy) = done.policy {
            self.histories.set_policy(done.channel, policy);
        }
    }

    fn begin_stream(&mut self, out: &mut Vec<u8>) {
        if !std::mem::replace(&mut self.begun, true) {
            out.extend_from_slice(&ZLIB_HEADER);
        }
    }

    /// NEWKEYS was sent: a new stream begins.
    pub fn reset(&mut self) {
        self.histories.restart();
        self.carry = Carry::default();
        self.begun = false;
    }

    /// The effort for what comes next.
    #[must_use]
    pub fn level(&self) -> u8 {
        self.level
    }

    /// Sets the effort for what comes next, 0 to 9 and never above the level asked for; 0 stores.
    /// Only an adaptive stream takes it.
    pub fn set_level(&mut self, level: u8) {
        if self.settings.adaptive {
            self.level = level.min(self.settings.level);
        }
    }

    /// Whether [`Compressor::shed`] would free anything worth it.
    #[must_use]
    pub fn has_spare(&self) -> bool {
        self.histories.has_spare() || self.engines.has_spare()
    }

    /// Frees what bulk data needed: all but the histories, and the tables of one channel's small
    /// payloads (352 KiB).
    pub fn shed(&mut self) {
        self.engines.shed();
        self.histories.shed();
    }

    /// Why the provider is not used any more; said once.
    pub fn take_failure(&mut self) -> Option<crate::provider::RunError> {
        self.engines.take_failure()
    }

    /// Who encodes bulk: `internal`, or the provider's name; and which provider was given up
    /// because a second channel has sent data.
    #[must_use]
    pub fn engine(&self) -> String {
        match (self.engines.provider(), self.engines.dismissed()) {
            (Some(provider), _) => provider.name(),
            (None, None) => "internal".to_owned(),
            (None, Some(name)) => {
                format!("internal (several channels have data, which {name} may not keep apart)")
            }
        }
    }

    /// The name of the provider that was given up because a second channel has sent data.
    #[must_use]
    pub fn dismissed(&self) -> Option<String> {
        self.engines.dismissed()
    }

    /// Whether bulk is encoded by a provider.
    #[must_use]
    pub fn has_provider(&self) -> bool {
        self.engines.has_provider()
    }

    /// All that is known of what was done.
    #[must_use]
    pub fn report(&self) -> Report {
        self.report
    }
}

/// What a payload is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effort {
    /// To be deflated.
    Level(u8),
    /// To be deflated if its beginning gains.
    Attempt,
}

impl Effort {
    /// The level to deflate with, at the stream's own and with what an attempt finds; `None` stores.
    pub(crate) fn level(self, level: u8, gains: impl FnOnce() -> bool) -> Option<u8> {
        match self {
            Self::Level(level) => Some(level),
            Self::Attempt => gains().then_some(level.max(1)),
        }
    }
}

/// The effort for `payload` by what the last ones have shown, where there is a policy; `None`
/// stores it.
pub(crate) fn effort_for(policy: Option<&mut Policy>, level: u8, payload: &[u8]) -> Option<Effort> {
    let Some(policy) = policy else {
        return Some(Effort::Level(level.max(1)));
    };
    if level == 0 {
        return (payload.len() < PARTIAL_BELOW_BYTES).then_some(Effort::Level(1));
    }
    match policy.choose(payload) {
        Choice::Store => None,
        Choice::Attempt => Some(Effort::Attempt),
        Choice::Deflate => Some(Effort::Level(level)),
    }
}

/// Time that this thread has worked, nanoseconds.
pub(crate) fn cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or_default()
}

impl fmt::Debug for Compressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compressor")
            .field("settings", &self.settings)
            .field("report", &self.report)
            .finish_non_exhaustive()
    }
}
