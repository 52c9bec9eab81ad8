//! [`Histories`]: what each channel has sent, apart from what the others have.
//!
//! A channel's payloads are compared with its own earlier bytes and judged by its own earlier
//! results. Nothing here is shared by two channels: tables that change hands are cleared. Channels
//! beyond [`MAX_HISTORIES`] lose their history, the one that has been idle longest first.

use crate::adaptive::Policy;
use crate::deflate::{Engine, Gaps, Source, Window};
use crate::provider::HISTORY_BYTES;

/// Channels that are remembered. Together they hold at most [`HISTORY_BYTES`] that a match can
/// reach; the windows' memory is what this bounds.
const MAX_HISTORIES: usize = 8;
/// Sets of the matcher's tables (352 KiB each) that are kept: bulk beside a terminal, whose
/// keystrokes have pings between them, does not index its history again for each of these.
const MAX_ENGINES: usize = 3;
/// Foreign bytes within reach from which on it pays to cut off what no match can reach, bytes.
const MUCH_FOREIGN: usize = 2048;

/// One channel's past.
#[derive(Default)]
pub(crate) struct History {
    channel: u64,
    window: Window,
    gaps: Gaps,
    pub(crate) policy: Policy,
    /// Made for the first payload that needs it.
    engine: Option<Box<Engine>>,
    /// The place in the stream after its last byte.
    end: u64,
}

impl History {
    /// Appends `payload`, which begins at `stream` in the stream; returns where it begins in the
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

    /// The matcher does not know of the gaps. Where much stands in them it would choose what is
    /// too far away in the stream.
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

    /// Nothing that was sent so far can be reached any more.
    fn forget(&mut self) {
        self.window.clear();
        self.gaps.clear();
        if let Some(engine) = &mut self.engine {
            engine.change_window();
        }
    }

    /// The tables, if the last payload was [remembered](Histories::remember) with them, and what they
    /// are about.
    pub(crate) fn parts(&mut self) -> (Option<&mut Engine>, Source<'_>, &mut Policy) {
        let source = Source {
            window: &self.window,
            gaps: &self.gaps,
        };
        (self.engine.as_deref_mut(), source, &mut self.policy)
    }

    /// What a run that begins now may refer to, and the gaps in it.
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

    fn is_spread(&self) -> bool {
        let engine = self.engine.as_ref();
        self.window.is_spread() || engine.is_some_and(|engine| engine.is_spread())
    }

    fn shed(&mut self) {
        let cut = self.window.shed();
        self.shift(cut);
        if let Some(engine) = &mut self.engine {
            engine.shed();
        }
    }
}

/// See the module's head.
#[derive(Default)]
pub(crate) struct Histories {
    /// The one that was used last stands last.
    list: Vec<History>,
    /// Bytes of plaintext in the stream so far.
    stream: u64,
}

impl Histories {
    /// A payload goes into the stream that nobody refers to.
    pub(crate) fn pass(&mut self, payload: &[u8]) {
        self.stream = self.stream.saturating_add(payload.len() as u64);
    }

    /// The history of `channel`, which has been used last from now on.
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

    /// What `channel` has shown about what is worth the effort.
    pub(crate) fn policy(&mut self, channel: u64) -> &mut Policy {
        &mut self.of(channel).policy
    }

    /// Replaces that, if the channel is still known.
    pub(crate) fn set_policy(&mut self, channel: u64, policy: Policy) {
        let found = self.list.iter_mut().find(|one| one.channel == channel);
        if let Some(history) = found {
            history.policy = policy;
        }
    }

    /// Appends `payload` to `channel`'s history; returns the history, with tables if `indexed`,
    /// and where the payload begins in its window. `indexed` must not depend on the payload: it may
    /// take tables away from another channel, and that shows.
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

    /// Tables that know nothing: new ones, or the ones of the channel that has been idle longest.
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

    /// What a run of `channel` that begins now may refer to, and the gaps in it.
    pub(crate) fn within_reach(&mut self, channel: u64) -> (&[u8], Gaps) {
        let stream = self.stream;
        self.of(channel).within_reach(stream)
    }

    /// A new stream begins: its peer knows nothing of what was sent before.
    pub(crate) fn restart(&mut self) {
        for history in &mut self.list {
            history.forget();
            history.end = 0;
        }
        self.stream = 0;
    }

    /// Whether [`Histories::shed`] would free anything worth it.
    pub(crate) fn has_spare(&self) -> bool {
        let held = self.list.iter().filter(|one| one.engine.is_some()).count();
        held > 1 || self.list.iter().any(History::is_spread)
    }

    /// Frees what bulk data needed: all but the histories, and the tables of the channel that was
    /// used last.
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
