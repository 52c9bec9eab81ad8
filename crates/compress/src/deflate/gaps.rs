//! [`Gaps`]: positions of other origins' payloads in the stream between the bytes of a window.
//!
//! A channel's window holds only that channel's bytes, contiguously; the peer's window holds the
//! whole stream. Gaps translate between the two: each is a position in the window, and the number
//! of foreign bytes that the stream has there.

use std::collections::VecDeque;

use crate::provider::HISTORY_BYTES;

/// Foreign bytes in the stream directly before the window's byte at `at`.
#[derive(Debug, Clone, Copy)]
struct Gap {
    at: usize,
    /// Number of foreign bytes up to here, including those of this gap.
    total: u64,
}

/// The gaps of a window: at most one for each payload of the last [`HISTORY_BYTES`] bytes of the
/// window.
#[derive(Debug, Clone, Default)]
pub(crate) struct Gaps {
    /// Ascending by `at`.
    list: VecDeque<Gap>,
    /// Number of foreign bytes before the first listed gap.
    before: u64,
}

impl Gaps {
    /// Returns true if the window's bytes are contiguous in the stream, as far as a match can
    /// reach.
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Records that `bytes` foreign bytes were sent after the window's `at` bytes.
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

    /// Returns the number of foreign bytes between the window's byte at `at` and its end, and the
    /// position of the next gap after `at`.
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

    /// Position of the last gap, after which the window is contiguous in the stream; 0 without a
    /// gap.
    pub(crate) fn last(&self) -> usize {
        self.list.back().map_or(0, |gap| gap.at)
    }

    /// Position of the first of the window's `end` bytes that a match at the end can reach,
    /// counting foreign bytes.
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

    /// Removes the gaps up to `at`, before which no match begins.
    pub(crate) fn prune(&mut self, at: usize) {
        while let Some(gap) = self.list.front()
            && gap.at <= at
        {
            self.before = gap.total;
            self.list.pop_front();
        }
    }

    /// Adjusts the positions after `cut` bytes were removed from the window's front.
    pub(crate) fn shift(&mut self, cut: usize) {
        if cut > 0 {
            self.prune(cut);
            for gap in &mut self.list {
                gap.at -= cut;
            }
        }
    }

    /// Removes all gaps.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}
