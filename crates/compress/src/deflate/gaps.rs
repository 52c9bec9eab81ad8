//! [`Gaps`]: where payloads of other origins stand in the stream between the bytes of a window.
//!
//! A channel's window holds that channel's bytes alone, one after another. The peer's window holds
//! the whole stream. The gaps translate from the one to the other: a place in the window, and the
//! number of foreign bytes that the stream has there.

use std::collections::VecDeque;

use crate::provider::HISTORY_BYTES;

/// Foreign bytes in the stream directly before the window's byte at `at`.
#[derive(Debug, Clone, Copy)]
struct Gap {
    at: usize,
    /// Foreign bytes up to here, those of this gap included.
    total: u64,
}

/// See the module's head. There is at most one gap for each payload of the last
/// [`HISTORY_BYTES`] bytes of the window.
#[derive(Debug, Clone, Default)]
pub(crate) struct Gaps {
    /// Ascending by `at`.
    list: VecDeque<Gap>,
    /// Foreign bytes before the first gap that is still listed.
    before: u64,
}

impl Gaps {
    /// True if the window's bytes are contiguous in the stream, as far as a match can reach.
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// `bytes` foreign bytes were sent after the window's first `at` bytes, which are all of it.
    pub(crate) fn push(&mut self, at: usize, bytes: u64) {
        let total = self.total().saturating_add(bytes);
        match self.list.back_mut() {
            Some(gap) if gap.at == at => gap.total = total,
            _ => self.list.push_back(Gap { at, total }),
        }
    }

    fn total(&self) -> u64 {
        self.list.back().map_or(self.before, |gap| gap.total)
    }

    /// The number of foreign bytes between the window's byte at `at` and its end, and the place of
    /// the next gap after `at`.
    pub(crate) fn beyond(&self, at: usize) -> (usize, Option<usize>) {
        let index = self.list.partition_point(|gap| gap.at <= at);
        let seen = match index.checked_sub(1) {
            Some(last) => self.list.get(last).map_or(self.before, |gap| gap.total),
            None => self.before,
        };
        let foreign = self.total().saturating_sub(seen);
        let next = self.list.get(index).map(|gap| gap.at);
        (usize::try_from(foreign).unwrap_or(usize::MAX), next)
    }

    /// The place of the last gap: what follows it is contiguous in the stream. 0 without a gap.
    pub(crate) fn last(&self) -> usize {
        self.list.back().map_or(0, |gap| gap.at)
    }

    /// The first of the window's `end` bytes that is no farther from its end than a match reaches,
    /// foreign bytes counted.
    pub(crate) fn reach(&self, end: usize) -> usize {
        let (mut left, mut at) = (HISTORY_BYTES, end);
        for (index, gap) in self.list.iter().enumerate().rev() {
            let own = at.saturating_sub(gap.at);
            if own >= left {
                return at - left;
            }
            (left, at) = (left - own, gap.at);
            let seen = match index.checked_sub(1) {
                Some(earlier) => self.list.get(earlier).map_or(self.before, |gap| gap.total),
                None => self.before,
            };
            match usize::try_from(gap.total.saturating_sub(seen)) {
                Ok(foreign) if foreign < left => left -= foreign,
                _ => return at,
            }
        }
        at.saturating_sub(left)
    }

    /// Forgets the gaps up to `at`, before which no match begins.
    pub(crate) fn prune(&mut self, at: usize) {
        while let Some(gap) = self.list.front()
            && gap.at <= at
        {
            self.before = gap.total;
            self.list.pop_front();
        }
    }

    /// The window lost `cut` bytes at its front.
    pub(crate) fn shift(&mut self, cut: usize) {
        if cut > 0 {
            self.prune(cut);
            for gap in &mut self.list {
                gap.at -= cut;
            }
        }
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}
