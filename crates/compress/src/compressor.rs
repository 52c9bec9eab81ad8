//! [`Compressor`]: one direction's payloads into one zlib stream, in place or by runs.

use std::fmt;
use std::sync::Arc;

use crate::adaptive::{Choice, Policy};
use crate::deflate::{Carry, Engine, Piece, Window, store};
use crate::error::DeflateError;
use crate::form::Form;
use crate::provider::{Flush, Provider};
use crate::run::{Engines, RunDone, RunJob};
use crate::{DEFAULT_LEVEL, Report};

/// Payloads below this end with a partial flush: it is 3.6 bytes shorter on average, and may
/// leave bits to the next payload, which bulk must not.
const PARTIAL_BELOW_BYTES: usize = 1024;
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

/// The sending direction's compression.
pub struct Compressor {
    settings: Settings,
    /// The effort for what comes next; 0 stores.
    level: u8,
    /// What was sent last, in plain.
    window: Window,
    /// Made for the first payload that needs it.
    engine: Option<Box<Engine>>,
    carry: Carry,
    /// The stream's header has been sent.
    begun: bool,
    policy: Policy,
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
            window: Window::default(),
            engine: None,
            carry: Carry::default(),
            begun: false,
            policy: Policy::default(),
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

    /// Lets `provider` encode what is bulk, until it fails.
    pub fn set_provider(&mut self, provider: Arc<dyn Provider>) {
        self.engines = Arc::new(Engines::of(provider));
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
        let before = out.len();
        self.begin_stream(out);
        let start = self.remember(payload);
        let flush = if payload.len() < PARTIAL_BELOW_BYTES {
            Flush::Partial
        } else {
            Flush::Sync
        };
        let policy = self.settings.adaptive.then_some(&mut self.policy);
        let chosen = effort_for(policy, self.level, payload);
        let mut piece = Piece::Stored;
        if let Some(effort) = chosen {
            let begun = cpu_ns();
            // What a new one has not seen is entered when it is needed.
            let engine = self.engine.get_or_insert_with(|| Box::new(Engine::new()));
            let end = self.window.len();
            let gains = || engine.gains(&self.window, start, end);
            let level = effort.level(self.level, gains);
            if let Some(level) = level {
                let carry = &mut self.carry;
                piece = engine.encode(&self.window, start, level, flush, carry, out)?;
                self.report.note_level(level);
            }
            self.report.cpu_ns += cpu_ns().saturating_sub(begun);
            let deflated = (piece == Piece::Deflated).then_some(out.len() - before);
            self.policy.note(payload.len(), deflated);
        } else if self.level == 0 {
            self.report.note_level(0);
        }
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

    /// Takes payloads as one run, to be compressed by [`RunJob::run`] anywhere and handed back
    /// to [`Compressor::finish_run`]; runs may be finished in any order, their bytes belong into
    /// the order of this call. At most [`MAX_RUN_PAYLOADS`](crate::provider::MAX_RUN_PAYLOADS).
    pub fn begin_run<'p>(&mut self, payloads: impl Iterator<Item = &'p [u8]> + Clone) -> RunJob {
        let mut lead = Vec::new();
        self.begin_stream(&mut lead);
        let job = RunJob::new(
            Arc::clone(&self.engines),
            self.window.history(),
            payloads.clone(),
            lead,
            std::mem::take(&mut self.carry),
            self.level,
            self.settings.adaptive.then_some(self.policy),
        );
        for payload in payloads {
            self.remember(payload);
        }
        job
    }

    /// Takes note of what a run has come to.
    pub fn finish_run(&mut self, done: &RunDone) {
        self.report.add(&done.report);
        if let Some(policy) = done.policy {
            self.policy = policy;
        }
    }

    fn begin_stream(&mut self, out: &mut Vec<u8>) {
        if !std::mem::replace(&mut self.begun, true) {
            out.extend_from_slice(&ZLIB_HEADER);
        }
    }

    /// Appends `payload` to the window; returns where it begins there.
    fn remember(&mut self, payload: &[u8]) -> usize {
        let cut = self.window.make_room(payload.len());
        if let Some(engine) = &mut self.engine {
            engine.shift(cut);
        }
        let start = self.window.len();
        self.window.push(payload);
        start
    }

    /// NEWKEYS was sent: a new stream begins.
    pub fn reset(&mut self) {
        self.window.clear();
        if let Some(engine) = &mut self.engine {
            engine.change_window();
        }
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
        let engine = self.engine.as_ref();
        self.window.is_spread()
            || self.engines.has_spare()
            || engine.is_some_and(|engine| engine.is_spread())
    }

    /// Frees what bulk data needed: all but the history, and the tables of small payloads
    /// (352 KiB).
    pub fn shed(&mut self) {
        self.engines.shed();
        let cut = self.window.shed();
        if let Some(engine) = &mut self.engine {
            engine.shift(cut);
            engine.shed();
        }
    }

    /// Why the provider is not used any more; said once.
    pub fn take_failure(&mut self) -> Option<crate::provider::RunError> {
        self.engines.take_failure()
    }

    /// Who encodes bulk: `internal`, or the provider's name.
    #[must_use]
    pub fn engine(&self) -> String {
        let provider = self.engines.provider();
        provider.map_or_else(|| "internal".to_owned(), |provider| provider.name())
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
