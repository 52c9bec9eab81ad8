//! [`Histories`]: the recent plaintext of each channel, kept separately.
//!
//! A channel's payloads are matched with its own earlier bytes and judged by its own earlier
//! results. Channels share nothing: tables that pass from one to another are cleared. If there are
//! more than [`MAX_HISTORIES`] channels, the one that has been idle longest loses its history.

use crate::adaptive::Policy;
use crate::deflate::{Engine, Gaps, PayloadSource, Window};
use crate::provider::HISTORY_BYTES;

/// Maximum number of channels with a history. At most [`HISTORY_BYTES`] of all histories can be
/// reached by matches; this constant bounds the memory of the windows.
const MAX_HISTORIES: usize = 8;
/// Maximum number of sets of matcher tables (352 KiB each): enough for bulk data besides a terminal
/// with pings between its keystrokes, so that no channel has to index its history again for each
/// payload.
const MAX_ENGINES: usize = 3;
/// Minimum number of foreign bytes within reach for which unreachable bytes are worth cutting off.
const MUCH_FOREIGN: usize = 2048;

/// The history of one channel.
#[derive(Default)]
pub(crate) struct History {
    channel: u64,
    window: Window,
    gaps: Gaps,
    pub(crate) policy: Policy,
    /// Created for the first payload that needs it.
    engine: Option<Box<Engine>>,
    /// Position in the stream after its last byte.
    end: u64,
}

impl History {
    /// Appends `payload`, which begins at position `stream` of the stream; returns its start in the
    /// window.
    fn remember(&mut self, payload: &[u8], stream: u64) -> usize {
        let foreign = stream.saturating_sub(self.end);
        if foreign >= HISTORY_BYTES as u64 {
            self.forget();
        } else if foreign > 0 && self.window.len() > 0 {
            self.gaps.push(self.window.len(), foreign);
        }
        self.cut_unreachable();
        let cut = self.window.make_room(payload.len());
        self.shift(cut);
        let start = self.window.len();
        self.gaps.prune(start.saturating_sub(HISTORY_BYTES));
        self.window.push(payload);
        self.end = stream.saturating_add(payload.len() as u64);
        start
    }

    /// The matcher ignores gaps. If gaps contain many bytes, it would choose matches that are too
    /// far away in the stream.
    fn cut_unreachable(&mut self) {
        if self.gaps.is_empty() {
            return;
        }
        let end = self.window.len();
        let first = self.gaps.reach(end);
        if first + HISTORY_BYTES >= end + MUCH_FOREIGN && first > 0 {
            self.window.cut_front(first);
            self.shift(first);
        }
    }

    fn shift(&mut self, cut: usize) {
        self.gaps.shift(cut);
        if let Some(engine) = &mut self.engine {
            engine.shift(cut);
        }
    }

    /// Forgets all bytes, because matches cannot reach them any more.
    fn forget(&mut self) {
        self.window.clear();
        self.gaps.clear();
        if let Some(engine) = &mut self.engine {
            engine.change_window();
        }
    }

    /// The tables, if the last payload was [remembered](Histories::remember) with them, the window
    /// and gaps that they index, and the policy.
    pub(crate) fn parts(&mut self) -> (Option<&mut Engine>, PayloadSource<'_>, &mut Policy) {
        let source = PayloadSource {
            window: &self.window,
            gaps: &self.gaps,
        };
        (self.engine.as_deref_mut(), source, &mut self.policy)
    }

    /// The bytes that a run that begins now may refer to, and the gaps in them.
    fn within_reach(&self, stream: u64) -> (&[u8], Gaps) {
        let foreign = stream.saturating_sub(self.end);
        if foreign >= HISTORY_BYTES as u64 || self.window.len() == 0 {
            return (&[], Gaps::default());
        }
        let mut gaps = self.gaps.clone();
        let end = self.window.len();
        if foreign > 0 {
            gaps.push(end, foreign);
        }
        let first = gaps.reach(end);
        gaps.prune(first);
        gaps.shift(first);
        (self.window.bytes().get(first..).unwrap_or_default(), gaps)
    }

    fn has_spare(&self) -> bool {
        let engine = self.engine.as_ref();
        self.window.has_spare() || engine.is_some_and(|engine| engine.has_spare())
    }

    fn shed(&mut self) {
        let cut = self.window.shed();
        self.shift(cut);
        if let Some(engine) = &mut self.engine {
            engine.shed();
        }
    }
}

/// The histories of all channels of a connection.
#[derive(Default)]
pub(crate) struct Histories {
    /// Ordered by last use, the most recent last.
    list: Vec<History>,
    /// Number of plaintext bytes in the stream so far.
    stream: u64,
}

impl Histories {
    /// Counts a payload that is sent without a history.
    pub(crate) fn pass(&mut self, payload: &[u8]) {
        self.stream = self.stream.saturating_add(payload.len() as u64);
    }

    /// Returns the history of `channel` and marks it as used last.
    fn of(&mut self, channel: u64) -> &mut History {
        let found = self.list.iter().rposition(|one| one.channel == channel);
        let history = match found {
            Some(index) if index + 1 == self.list.len() => None,
            Some(index) => Some(self.list.remove(index)),
            None => {
                if self.list.len() >= MAX_HISTORIES {
                    self.list.remove(0);
                }
                Some(History {
                    channel,
                    end: self.stream,
                    ..History::default()
                })
            }
        };
        self.list.extend(history);
        let last = self.list.len().saturating_sub(1);
        &mut self.list[last]
    }

    /// The compression policy of `channel`.
    pub(crate) fn policy(&mut self, channel: u64) -> &mut Policy {
        &mut self.of(channel).policy
    }

    /// Replaces the policy of `channel`, if the channel still has a history.
    pub(crate) fn set_policy(&mut self, channel: u64, policy: Policy) {
        let found = self.list.iter_mut().find(|one| one.channel == channel);
        if let Some(history) = found {
            history.policy = policy;
        }
    }

    /// Appends `payload` to the history of `channel`; returns the history, with tables if
    /// `indexed`, and the start of the payload in its window. `indexed` must not depend on the
    /// payload, because taking tables away from another channel has an observable effect.
    pub(crate) fn remember(
        &mut self,
        channel: u64,
        payload: &[u8],
        indexed: bool,
    ) -> (&mut History, usize) {
        let stream = self.stream;
        self.pass(payload);
        let lacks = indexed && self.of(channel).engine.is_none();
        let engine = lacks.then(|| self.free_engine());
        let history = self.of(channel);
        if engine.is_some() {
            history.engine = engine;
        }
        let start = history.remember(payload, stream);
        (history, start)
    }

    /// Returns empty tables: new ones, or those of the channel that has been idle longest.
    pub(crate) fn free_engine(&mut self) -> Box<Engine> {
        let held = self.list.iter().filter(|one| one.engine.is_some()).count();
        let idle = self.list.iter_mut().find(|one| one.engine.is_some());
        match idle
            .filter(|_| held >= MAX_ENGINES)
            .and_then(|one| one.engine.take())
        {
            Some(mut engine) => {
                engine.clear();
                engine
            }
            None => Box::new(Engine::new()),
        }
    }

    /// The bytes that a run of `channel` that begins now may refer to, and the gaps in them.
    pub(crate) fn within_reach(&mut self, channel: u64) -> (&[u8], Gaps) {
        let stream = self.stream;
        self.of(channel).within_reach(stream)
    }

    /// Starts a new stream, in which nothing sent before can be referred to.
    pub(crate) fn restart(&mut self) {
        for history in &mut self.list {
            history.forget();
            history.end = 0;
        }
        self.stream = 0;
    }

    /// Returns true if [`Histories::shed`] would free considerable memory.
    pub(crate) fn has_spare(&self) -> bool {
        let held = self.list.iter().filter(|one| one.engine.is_some()).count();
        held > 1 || self.list.iter().any(History::has_spare)
    }

    /// Frees memory that only bulk data needs: all except the histories, and the tables of the
    /// channel that was used last.
    pub(crate) fn shed(&mut self) {
        let mut held = false;
        for history in self.list.iter_mut().rev() {
            if held {
                history.engine = None;
            }
            held |= history.engine.is_some();
            history.shed();
        }
    }
}
