//! Runs: payloads of one channel that are compressed together, possibly on another thread than the
//! stream's.
//!
//! A run's output depends only on its payloads, their history and its settings, so runs can be
//! compressed on any thread in any order. Each ends on a byte boundary.

use std::fmt;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::CompressionReport;
use crate::adaptive::Policy;
use crate::deflate::{
    Carry, EncodeOutcome, Engine, Gaps, PayloadSource, Window, append_flush, store,
};
use crate::effort::{cpu_ns, effort_for};
use crate::error::DeflateError;
use crate::form::{Encoded, Form};
use crate::provider::{Flush, Provider, Run, RunEncoder, RunError, RunOutput};

/// Maximum number of windows and of engines kept for reuse; no more threads compress.
const MAX_FREE: usize = 8;

/// Resources shared by all runs of a connection. Memory of finished runs is reused.
pub(crate) struct Engines {
    free_lists: Mutex<FreeLists>,
    provider: Option<Arc<dyn Provider>>,
    /// The provider failed once, or was dismissed.
    disabled: AtomicBool,
}

#[derive(Default)]
struct FreeLists {
    engines: Vec<Engine>,
    windows: Vec<Vec<u8>>,
    failure: Option<RunError>,
    dismissed: Option<String>,
}

impl Engines {
    pub(crate) fn internal() -> Self {
        Self {
            free_lists: Mutex::default(),
            provider: None,
            disabled: AtomicBool::new(false),
        }
    }

    pub(crate) fn of(provider: Arc<dyn Provider>) -> Self {
        Self {
            provider: Some(provider),
            ..Self::internal()
        }
    }

    fn free_lists(&self) -> MutexGuard<'_, FreeLists> {
        // A panic elsewhere leaves the free lists valid.
        self.free_lists
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn window(&self) -> Window {
        Window::reusing(self.free_lists().windows.pop().unwrap_or_default())
    }

    fn give_window(&self, window: Window) {
        let mut free_lists = self.free_lists();
        if free_lists.windows.len() < MAX_FREE {
            free_lists.windows.push(window.into_bytes());
        }
    }

    /// Returns an engine with empty tables: a run must not depend on earlier runs, which may have
    /// been another channel's.
    pub(crate) fn engine(&self) -> Engine {
        let free_lists = self.free_lists().engines.pop();
        match free_lists {
            Some(mut engine) => {
                engine.clear();
                engine
            }
            None => Engine::new(),
        }
    }

    pub(crate) fn give_engine(&self, engine: Engine) {
        let mut free_lists = self.free_lists();
        if free_lists.engines.len() < MAX_FREE {
            free_lists.engines.push(engine);
        }
    }

    /// An encoder of the provider, while it is trusted. To be dropped after each run, because there
    /// may be fewer encoders than compressing threads.
    fn encoder(&self) -> Option<Result<Box<dyn RunEncoder>, RunError>> {
        Some(self.provider()?.encoder())
    }

    fn disable(&self, why: RunError) {
        self.disabled.store(true, Ordering::Relaxed);
        self.free_lists().failure.get_or_insert(why);
    }

    /// Stops using the provider, because a second channel has data and it cannot be verified that a
    /// provider keeps channels apart; the built-in engine does.
    pub(crate) fn dismiss(&self) {
        if let Some(provider) = self.provider() {
            self.free_lists().dismissed = Some(provider.name());
            self.disabled.store(true, Ordering::Relaxed);
        }
    }

    /// The name of the provider that was dismissed.
    pub(crate) fn dismissed(&self) -> Option<String> {
        self.free_lists().dismissed.clone()
    }

    /// Returns the provider's failure, once.
    pub(crate) fn take_failure(&self) -> Option<RunError> {
        self.free_lists().failure.take()
    }

    pub(crate) fn has_provider(&self) -> bool {
        self.provider().is_some()
    }

    /// The provider, while it is trusted.
    pub(crate) fn provider(&self) -> Option<&Arc<dyn Provider>> {
        let disabled = self.disabled.load(Ordering::Relaxed);
        self.provider.as_ref().filter(|_| !disabled)
    }

    pub(crate) fn has_spare(&self) -> bool {
        let free_lists = self.free_lists();
        !(free_lists.engines.is_empty() && free_lists.windows.is_empty())
            || self.provider.as_ref().is_some_and(|it| it.has_spare())
    }

    pub(crate) fn shed(&self) {
        let mut free_lists = self.free_lists();
        free_lists.engines = Vec::new();
        free_lists.windows = Vec::new();
        if let Some(provider) = &self.provider {
            provider.shed();
        }
    }
}

/// Payloads of one channel that are compressed together, on any thread.
pub struct RunJob {
    engines: Arc<Engines>,
    channel: u64,
    /// History and payloads of the channel.
    window: Window,
    /// Positions of other channels' bytes in the stream between those of the history.
    gaps: Gaps,
    history_bytes: usize,
    ends: Vec<usize>,
    start: RunStart,
}

/// State of the stream at the start of a run.
pub(crate) struct RunStart {
    /// Bytes to send before the run's own: the stream's header, if it begins here.
    pub(crate) lead: Vec<u8>,
    pub(crate) carry: Carry,
    pub(crate) level: u8,
    pub(crate) policy: Option<Policy>,
}

/// The results of a run, for [`Compressor::finish_run`](crate::Compressor::finish_run).
#[derive(Debug, Clone)]
#[must_use = "the stream's figures and its policy depend on it"]
pub struct RunDone {
    pub(crate) report: CompressionReport,
    pub(crate) channel: u64,
    pub(crate) policy: Option<Policy>,
}

impl RunJob {
    pub(crate) fn new<'p>(
        engines: Arc<Engines>,
        channel: u64,
        history: &[u8],
        gaps: Gaps,
        payloads: impl Iterator<Item = &'p [u8]> + Clone,
        start: RunStart,
    ) -> Self {
        let mut window = engines.window();
        let bytes: usize = payloads.clone().map(<[u8]>::len).sum();
        window.make_room(history.len() + bytes);
        window.push(history);
        let ends = payloads
            .map(|payload| {
                window.push(payload);
                window.len()
            })
            .collect();
        Self {
            history_bytes: history.len(),
            engines,
            channel,
            window,
            gaps,
            ends,
            start,
        }
    }

    /// Number of plaintext bytes of all payloads.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.window.len() - self.history_bytes
    }

    /// Compresses the payloads and passes the encoding of each to `take`, in order.
    ///
    /// # Errors
    /// [`DeflateError`]; the stream cannot continue then.
    pub fn run(mut self, mut take: impl FnMut(Encoded<'_>)) -> Result<RunDone, DeflateError> {
        let mut report = CompressionReport::default();
        let begun = cpu_ns();
        let window = mem::take(&mut self.window);
        let by_provider = self.run_by_provider(&window, &mut take, &mut report);
        if !by_provider {
            self.run_internal(&window, &mut take, &mut report)?;
        }
        self.engines.give_window(window);
        report.cpu_ns = cpu_ns().saturating_sub(begun);
        Ok(RunDone {
            report,
            channel: self.channel,
            policy: self.start.policy,
        })
    }

    fn run_internal(
        &mut self,
        window: &Window,
        take: &mut impl FnMut(Encoded<'_>),
        report: &mut CompressionReport,
    ) -> Result<(), DeflateError> {
        let mut engine: Option<Engine> = None;
        let source = PayloadSource {
            window,
            gaps: &self.gaps,
        };
        let run_start = &mut self.start;
        let mut out = mem::take(&mut run_start.lead);
        let mut start = self.history_bytes;
        for end in mem::take(&mut self.ends) {
            let payload = window.bytes().get(start..end).ok_or(DeflateError)?;
            let mut outcome = EncodeOutcome::Stored;
            if let Some(effort) = effort_for(run_start.policy.as_mut(), run_start.level, payload) {
                let engines = &self.engines;
                let engine = engine.get_or_insert_with(|| engines.engine());
                let level = effort.level(run_start.level, || engine.gains(source, start, end));
                if let Some(level) = level {
                    let (carry, out) = (&mut run_start.carry, &mut out);
                    outcome =
                        engine.encode_span(source, start, end, level, Flush::Sync, carry, out)?;
                    report.note_level(level);
                }
                if let Some(policy) = &mut run_start.policy {
                    let deflated = (outcome == EncodeOutcome::Deflated).then_some(out.len());
                    policy.note(payload.len(), deflated);
                }
            }
            let form = match outcome {
                EncodeOutcome::Deflated => {
                    report.internal += 1;
                    Form::Compressed
                }
                EncodeOutcome::Stored => {
                    report.stored += 1;
                    store(payload, &mut run_start.carry, &mut out)
                }
            };
            let whole = form.whole_bytes(out.len(), payload.len());
            report.totals.count(payload.len(), whole);
            take(form.encoded(&out));
            out.clear();
            start = end;
        }
        if let Some(engine) = engine {
            self.engines.give_engine(engine);
        }
        Ok(())
    }

    /// Returns false if the run must still be compressed; nothing has been passed to `take` then.
    fn run_by_provider(
        &mut self,
        window: &Window,
        take: &mut impl FnMut(Encoded<'_>),
        report: &mut CompressionReport,
    ) -> bool {
        let mut encoder = match self.engines.encoder() {
            None => return false,
            Some(Ok(encoder)) => encoder,
            Some(Err(why)) => {
                self.engines.disable(why);
                return false;
            }
        };
        // A dictionary must directly precede the run in the stream, so bytes before the last gap
        // are left out.
        let contiguous = self.gaps.last().min(self.history_bytes);
        let run_ends: Vec<usize> = self.ends.iter().map(|end| end - contiguous).collect();
        let run = Run {
            window: window.bytes().get(contiguous..).unwrap_or_default(),
            history_bytes: self.history_bytes - contiguous,
            ends: &run_ends,
            level: self.start.level.max(1),
            flush: Flush::Sync,
        };
        let mut out = RunOutput::default();
        let result = encoder
            .encode_run(&run, &mut out)
            .and_then(|()| check(&run, &out));
        if let Err(why) = result {
            self.engines.disable(why);
            return false;
        }
        drop(encoder);
        let mut start = 0;
        let mut lead = mem::take(&mut self.start.lead);
        for (payload, end) in run.payloads().zip(out.ends) {
            let bytes = out.bytes.get(start..end).unwrap_or_default();
            start = end;
            if !self.start.carry.is_empty() {
                append_flush(Flush::Sync, &mut self.start.carry, &mut lead);
            }
            if lead.is_empty() {
                take(Encoded::Deflated(bytes));
                report.totals.count(payload.len(), bytes.len());
            } else {
                lead.extend_from_slice(bytes);
                report.totals.count(payload.len(), lead.len());
                take(Encoded::Deflated(&lead));
                lead.clear();
            }
            report.hardware += 1;
        }
        report.note_level(run.level);
        true
    }
}

/// Checks a provider's output without inflating it: there is a piece for each payload, none is
/// empty, and none is longer than a peer accepts.
fn check(run: &Run<'_>, out: &RunOutput) -> Result<(), RunError> {
    if out.ends.len() != run.ends.len() || out.ends.last() != Some(&out.bytes.len()) {
        return Err(RunError("bytes are missing in its output".into()));
    }
    let mut start = 0;
    for (payload, end) in run.payloads().zip(&out.ends) {
        let length = end.checked_sub(start).filter(|length| *length > 0);
        let most = payload.len() + crate::provider::MAX_GROWTH_BYTES;
        if length.is_none_or(|length| length > most) {
            return Err(RunError("its output is too long, or none".into()));
        }
        start = *end;
    }
    Ok(())
}

impl fmt::Debug for RunJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunJob")
            .field("payloads", &self.ends.len())
            .field("bytes", &self.bytes())
            .finish_non_exhaustive()
    }
}
