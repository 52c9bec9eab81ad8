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
use crate::deflate::{Carry, Engine, Piece, Window, flush_behind, store};
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
    /// The provider failed once.
    fallen: AtomicBool,
}

#[derive(Default)]
struct Kept {
    engines: Vec<Engine>,
    windows: Vec<Vec<u8>>,
    failure: Option<RunError>,
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

    fn engine(&self) -> Engine {
        let kept = self.kept().engines.pop();
        kept.unwrap_or_else(Engine::new)
    }

    fn give_engine(&self, engine: Engine) {
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
    /// History and payloads.
    window: Window,
    history_bytes: usize,
    ends: Vec<usize>,
    /// The stream's header, where it begins.
    lead: Vec<u8>,
    carry: Carry,
    level: u8,
    policy: Option<Policy>,
}

/// What a run has come to, for [`Compressor::finish_run`](crate::Compressor::finish_run).
#[derive(Debug, Clone)]
#[must_use = "the stream's figures and its policy depend on it"]
pub struct RunDone {
    pub(crate) report: Report,
    pub(crate) policy: Option<Policy>,
}

impl RunJob {
    pub(crate) fn new<'p>(
        engines: Arc<Engines>,
        history: &[u8],
        payloads: impl Iterator<Item = &'p [u8]> + Clone,
        lead: Vec<u8>,
        carry: Carry,
        level: u8,
        policy: Option<Policy>,
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
            window,
            ends,
            lead,
            carry,
            level,
            policy,
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
            policy: self.policy,
        })
    }

    fn run_internal(
        &mut self,
        window: &Window,
        take: &mut impl FnMut(Encoded<'_>),
        report: &mut Report,
    ) -> Result<(), DeflateError> {
        let mut engine: Option<Engine> = None;
        let mut out = mem::take(&mut self.lead);
        let mut start = self.history_bytes;
        for end in mem::take(&mut self.ends) {
            let payload = window.bytes().get(start..end).ok_or(DeflateError)?;
            let mut piece = Piece::Stored;
            if let Some(effort) = effort_for(self.policy.as_mut(), self.level, payload) {
                let engines = &self.engines;
                let engine = engine.get_or_insert_with(|| {
                    let mut engine = engines.engine();
                    engine.change_window();
                    engine
                });
                let level = effort.level(self.level, || engine.gains(window, start, end));
                if let Some(level) = level {
                    let (carry, out) = (&mut self.carry, &mut out);
                    piece =
                        engine.encode_span(window, start, end, level, Flush::Sync, carry, out)?;
                    report.note_level(level);
                }
                if let Some(policy) = &mut self.policy {
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
                    store(payload, &mut self.carry, &mut out)
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
        let run = Run {
            window: window.bytes(),
            history_bytes: self.history_bytes,
            ends: &self.ends,
            level: self.level.max(1),
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
        let mut lead = mem::take(&mut self.lead);
        for (payload, end) in run.payloads().zip(ends) {
            let bytes = out.get(start..end).unwrap_or_default();
            start = end;
            if !self.carry.is_empty() {
                flush_behind(Flush::Sync, &mut self.carry, &mut lead);
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
