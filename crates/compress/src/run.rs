//! Runs: payloads that are compressed together, away from the stream that they belong to.
//!
//! A run's output depends on its payloads, their history and its settings alone, so that runs can
//! be made on any thread in any order. Each ends on a byte.

use std::fmt;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::Report;
use crate::adaptive::Policy;
use crate::compressor::{cpu_ns, effort_for};
use crate::deflate::{Carry, Engine, Gaps, Piece, Source, Window, flush_behind, store};
use crate::error::DeflateError;
use crate::form::{Encoded, Form};
use crate::provider::{Flush, Provider, Run, RunEncoder, RunError};

/// Windows and engines that are kept for the next runs: no more threads compress.
const MAX_KEPT: usize = 8;

/// What a run needs beside its bytes, shared by all runs of a connection. Memory of runs that are
/// done serves the next.
pub(crate) struct Engines {
    kept: Mutex<Kept>,
    provider: Option<Arc<dyn Provider>>,
    /// The provider failed once, or was dismissed.
    fallen: AtomicBool,
}

#[derive(Default)]
struct Kept {
    engines: Vec<Engine>,
    windows: Vec<Vec<u8>>,
    failure: Option<RunError>,
    dismissed: Option<String>,
}

impl Engines {
    pub(crate) fn internal() -> Self {
        Self {
            kept: Mutex::default(),
            provider: None,
            fallen: AtomicBool::new(false),
        }
    }

    pub(crate) fn of(provider: Arc<dyn Provider>) -> Self {
        Self {
            provider: Some(provider),
            ..Self::internal()
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        // A panic elsewhere leaves lists of memory as they are.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn window(&self) -> Window {
        Window::reusing(self.kept().windows.pop().unwrap_or_default())
    }

    fn give_window(&self, window: Window) {
        let mut kept = self.kept();
        if kept.windows.len() < MAX_KEPT {
            kept.windows.push(window.into_bytes());
        }
    }

    /// An engine that knows nothing: a run must not depend on what ran before it, which may have
    /// been another channel's.
    pub(crate) fn engine(&self) -> Engine {
        let kept = self.kept().engines.pop();
        match kept {
            Some(mut engine) => {
                engine.clear();
                engine
            }
            None => Engine::new(),
        }
    }

    pub(crate) fn give_engine(&self, engine: Engine) {
        let mut kept = self.kept();
        if kept.engines.len() < MAX_KEPT {
            kept.engines.push(engine);
        }
    }

    /// The provider's encoder, while it is trusted: for one run each, as there may be fewer than
    /// threads that compress, and who keeps one lets the others wait.
    fn encoder(&self) -> Option<Result<Box<dyn RunEncoder>, RunError>> {
        Some(self.provider()?.encoder())
    }

    fn fall(&self, why: RunError) {
        self.fallen.store(true, Ordering::Relaxed);
        self.kept().failure.get_or_insert(why);
    }

    /// A second channel has data, and nobody can see whether a provider keeps them apart: our own
    /// engine does.
    pub(crate) fn dismiss(&self) {
        if let Some(provider) = self.provider() {
            self.kept().dismissed = Some(provider.name());
            self.fallen.store(true, Ordering::Relaxed);
        }
    }

    /// The name of the provider that was dismissed.
    pub(crate) fn dismissed(&self) -> Option<String> {
        self.kept().dismissed.clone()
    }

    /// Why the provider is not used any more, said once.
    pub(crate) fn take_failure(&self) -> Option<RunError> {
        self.kept().failure.take()
    }

    pub(crate) fn has_provider(&self) -> bool {
        self.provider().is_some()
    }

    /// The provider, while it is trusted.
    pub(crate) fn provider(&self) -> Option<&Arc<dyn Provider>> {
        let fallen = self.fallen.load(Ordering::Relaxed);
        self.provider.as_ref().filter(|_| !fallen)
    }

    pub(crate) fn has_spare(&self) -> bool {
        let kept = self.kept();
        !(kept.engines.is_empty() && kept.windows.is_empty())
            || self.provider.as_ref().is_some_and(|it| it.has_spare())
    }

    pub(crate) fn shed(&self) {
        let mut kept = self.kept();
        kept.engines = Vec::new();
        kept.windows = Vec::new();
        if let Some(provider) = &self.provider {
            provider.shed();
        }
    }
}

/// Payloads that are compressed together. See the module's head.
pub struct RunJob {
    engines: Arc<Engines>,
    channel: u64,
    /// History and payloads, all of one channel.
    window: Window,
    /// Where other bytes stand in the stream between those of the history.
    gaps: Gaps,
    history_bytes: usize,
    ends: Vec<usize>,
    start: Start,
}

/// How the stream stands where a run begins.
pub(crate) struct Start {
    /// What precedes the run's own bytes: the stream's header, where it begins.
    pub(crate) lead: Vec<u8>,
    pub(crate) carry: Carry,
    pub(crate) level: u8,
    pub(crate) policy: Option<Policy>,
}

/// What a run has come to, for [`Compressor::finish_run`](crate::Compressor::finish_run).
#[derive(Debug, Clone)]
#[must_use = "the stream's figures and its policy depend on it"]
pub struct RunDone {
    pub(crate) report: Report,
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
        start: Start,
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

    /// Plaintext of all payloads, bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.window.len() - self.history_bytes
    }

    /// Compresses, and gives `take` what stands for each payload, in order.
    ///
    /// # Errors
    /// [`DeflateError`]: the stream cannot go on then.
    pub fn run(mut self, mut take: impl FnMut(Encoded<'_>)) -> Result<RunDone, DeflateError> {
        let mut report = Report::default();
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
        report: &mut Report,
    ) -> Result<(), DeflateError> {
        let mut engine: Option<Engine> = None;
        let source = Source {
            window,
            gaps: &self.gaps,
        };
        let begins = &mut self.start;
        let mut out = mem::take(&mut begins.lead);
        let mut start = self.history_bytes;
        for end in mem::take(&mut self.ends) {
            let payload = window.bytes().get(start..end).ok_or(DeflateError)?;
            let mut piece = Piece::Stored;
            if let Some(effort) = effort_for(begins.policy.as_mut(), begins.level, payload) {
                let engines = &self.engines;
                let engine = engine.get_or_insert_with(|| engines.engine());
                let level = effort.level(begins.level, || engine.gains(source, start, end));
                if let Some(level) = level {
                    let (carry, out) = (&mut begins.carry, &mut out);
                    piece =
                        engine.encode_span(source, start, end, level, Flush::Sync, carry, out)?;
                    report.note_level(level);
                }
                if let Some(policy) = &mut begins.policy {
                    let deflated = (piece == Piece::Deflated).then_some(out.len());
                    policy.note(payload.len(), deflated);
                }
            }
            let form = match piece {
                Piece::Deflated => {
                    report.internal += 1;
                    Form::Compressed
                }
                Piece::Stored => {
                    report.stored += 1;
                    store(payload, &mut begins.carry, &mut out)
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

    /// False when the run is still to be done: nothing has been taken then.
    fn run_by_provider(
        &mut self,
        window: &Window,
        take: &mut impl FnMut(Encoded<'_>),
        report: &mut Report,
    ) -> bool {
        let mut encoder = match self.engines.encoder() {
            None => return false,
            Some(Ok(encoder)) => encoder,
            Some(Err(why)) => {
                self.engines.fall(why);
                return false;
            }
        };
        // A dictionary stands in the stream directly before the run: what is before a gap is left out.
        let contiguous = self.gaps.last().min(self.history_bytes);
        let run_ends: Vec<usize> = self.ends.iter().map(|end| end - contiguous).collect();
        let run = Run {
            window: window.bytes().get(contiguous..).unwrap_or_default(),
            history_bytes: self.history_bytes - contiguous,
            ends: &run_ends,
            level: self.start.level.max(1),
            flush: Flush::Sync,
        };
        let (mut out, mut ends) = (Vec::new(), Vec::new());
        let result = encoder
            .encode_run(&run, &mut out, &mut ends)
            .and_then(|()| check(&run, &out, &ends));
        if let Err(why) = result {
            self.engines.fall(why);
            return false;
        }
        drop(encoder);
        let mut start = 0;
        let mut lead = mem::take(&mut self.start.lead);
        for (payload, end) in run.payloads().zip(ends) {
            let bytes = out.get(start..end).unwrap_or_default();
            start = end;
            if !self.start.carry.is_empty() {
                flush_behind(Flush::Sync, &mut self.start.carry, &mut lead);
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

/// What can be seen of a run without inflating it: a piece for each payload, none empty, and
/// none longer than a peer takes.
fn check(run: &Run<'_>, out: &[u8], ends: &[usize]) -> Result<(), RunError> {
    if ends.len() != run.ends.len() || ends.last() != Some(&out.len()) {
        return Err(RunError("bytes are missing in its output".into()));
    }
    let mut start = 0;
    for (payload, end) in run.payloads().zip(ends) {
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
