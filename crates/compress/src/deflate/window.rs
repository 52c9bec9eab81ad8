//! [`Window`]: plaintext in one piece, the payload at hand behind the history that it may refer
//! to, and [`SLACK_BYTES`] behind it that may be read.

use super::SLACK_BYTES;
use crate::provider::HISTORY_BYTES;

/// Bytes up to which a window grows before what lies behind the history's reach is cut off.
/// Longer means fewer moves of 32 KiB, and more memory.
const WINDOW_BYTES: usize = 160 * 1024;

/// See the module's head.
#[derive(Debug, Default)]
pub(crate) struct Window {
    /// `end` bytes that count, then slack.
    bytes: Vec<u8>,
    end: usize,
}

impl Window {
    /// An empty one with room for `bytes`, which may hold another stream's: nothing is cleared.
    pub(crate) fn reusing(bytes: Vec<u8>) -> Self {
        Self { bytes, end: 0 }
    }

    /// The memory.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Bytes that count.
    pub(crate) fn len(&self) -> usize {
        self.end
    }

    /// All bytes that count and at least [`SLACK_BYTES`] behind them.
    pub(crate) fn with_slack(&self) -> &[u8] {
        &self.bytes
    }

    /// Bytes that count.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.end).unwrap_or_default()
    }

    /// The last bytes, as far as a match can reach back.
    pub(crate) fn history(&self) -> &[u8] {
        let start = self.end.saturating_sub(HISTORY_BYTES);
        self.bytes.get(start..self.end).unwrap_or_default()
    }

    /// Makes room for `more` bytes: what no match can reach is cut off where it would get long.
    /// Says how many bytes were cut off the front.
    pub(crate) fn make_room(&mut self, more: usize) -> usize {
        let mut cut = 0;
        // Whatever its length has become: a decoder's grows past this for a payload that is
        // longer than it seemed, and that must not raise the bound for the next.
        if self.end + more > WINDOW_BYTES && self.end > HISTORY_BYTES {
            cut = self.end - HISTORY_BYTES;
            self.bytes.copy_within(cut..self.end, 0);
            self.end -= cut;
        }
        let needed = self.end + more + SLACK_BYTES;
        if self.bytes.len() < needed {
            // In few steps, as a session may stay with small payloads.
            let size = needed.next_power_of_two().min(WINDOW_BYTES + SLACK_BYTES);
            self.bytes.resize(size.max(needed), 0);
        }
        cut
    }

    /// Appends `payload`, for which there is [room](Window::make_room), and zeros as slack: what an
    /// encoder reads there must not depend on what the memory held before.
    pub(crate) fn push(&mut self, payload: &[u8]) {
        let end = self.end + payload.len();
        self.bytes[self.end..end].copy_from_slice(payload);
        if let Some(slack) = self.bytes.get_mut(end..end + SLACK_BYTES) {
            slack.fill(0);
        }
        self.end = end;
    }

    /// Removes the first `cut` bytes.
    pub(crate) fn cut_front(&mut self, cut: usize) {
        let cut = cut.min(self.end);
        self.bytes.copy_within(cut..self.end, 0);
        self.end -= cut;
    }

    /// Appends `payload`, of which no more than a match can reach is needed.
    pub(crate) fn remember(&mut self, payload: &[u8]) {
        let beyond = payload.len().saturating_sub(HISTORY_BYTES);
        if payload.len() >= HISTORY_BYTES {
            self.clear();
        }
        let reached = payload.get(beyond..).unwrap_or_default();
        self.make_room(reached.len());
        self.push(reached);
    }

    /// The space behind what counts, for a decoder to write to, with what counts before it.
    pub(crate) fn space(&mut self) -> (&mut [u8], usize) {
        (&mut self.bytes, self.end)
    }

    /// Makes space for `more` bytes behind what counts, without moving anything.
    pub(crate) fn extend_space(&mut self, more: usize) {
        let needed = self.end + more + SLACK_BYTES;
        if self.bytes.len() < needed {
            self.bytes.resize(needed, 0);
        }
    }

    /// `more` bytes have been written behind what counted.
    pub(crate) fn grew(&mut self, more: usize) {
        self.end = (self.end + more).min(self.bytes.len());
    }

    /// Forgets everything; the memory stays.
    pub(crate) fn clear(&mut self) {
        self.end = 0;
    }

    /// Whether [`Window::shed`] would free anything worth it.
    pub(crate) fn is_spread(&self) -> bool {
        self.bytes.len() > 2 * HISTORY_BYTES
    }

    /// Keeps the history and frees what is beyond it.
    pub(crate) fn shed(&mut self) -> usize {
        let cut = self.end.saturating_sub(HISTORY_BYTES);
        self.bytes = self.history().to_vec();
        self.end = self.bytes.len();
        self.bytes.resize(self.end + SLACK_BYTES, 0);
        self.bytes.shrink_to_fit();
        cut
    }
}
