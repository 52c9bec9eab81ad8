//! [`Window`]: contiguous plaintext: the history, the current payload after it, and [`SLACK_BYTES`]
//! readable bytes after that.

use super::SLACK_BYTES;
use crate::provider::HISTORY_BYTES;

/// Maximum window size before history that is out of reach is cut off. A larger value means fewer
/// moves of 32 KiB, and more memory.
const WINDOW_BYTES: usize = 160 * 1024;

/// A window of plaintext with slack.
#[derive(Debug, Default)]
pub(crate) struct Window {
    /// `end` valid bytes, then slack.
    bytes: Vec<u8>,
    end: usize,
}

impl Window {
    /// An empty window that reuses the memory of `bytes`, without clearing it.
    pub(crate) fn reusing(bytes: Vec<u8>) -> Self {
        Self { bytes, end: 0 }
    }

    /// The memory.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Number of valid bytes.
    pub(crate) fn len(&self) -> usize {
        self.end
    }

    /// The valid bytes and at least [`SLACK_BYTES`] after them.
    pub(crate) fn with_slack(&self) -> &[u8] {
        &self.bytes
    }

    /// The valid bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.end).unwrap_or_default()
    }

    /// The last bytes, as far as a match can reach.
    pub(crate) fn history(&self) -> &[u8] {
        let start = self.end.saturating_sub(HISTORY_BYTES);
        self.bytes.get(start..self.end).unwrap_or_default()
    }

    /// Makes room for `more` bytes; cuts off bytes that no match can reach if the window would
    /// become too long. Returns the number of bytes cut off the front.
    pub(crate) fn make_room(&mut self, more: usize) -> usize {
        let mut cut = 0;
        // The bound holds regardless of the current memory size: a decoder's window grows beyond it
        // for a payload that is longer than estimated, and that must not raise the bound for the
        // next.
        if self.end + more > WINDOW_BYTES && self.end > HISTORY_BYTES {
            cut = self.end - HISTORY_BYTES;
            self.bytes.copy_within(cut..self.end, 0);
            self.end -= cut;
        }
        let needed = self.end + more + SLACK_BYTES;
        if self.bytes.len() < needed {
            // Grows in few steps, because a session may have only small payloads.
            let size = needed.next_power_of_two().min(WINDOW_BYTES + SLACK_BYTES);
            self.bytes.resize(size.max(needed), 0);
        }
        cut
    }

    /// Appends `payload`, for which there must be [room](Window::make_room), and zeros as slack: an
    /// encoder's output must not depend on previous content of the memory.
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

    /// Appends the part of `payload` that a match can reach.
    pub(crate) fn remember(&mut self, payload: &[u8]) {
        let beyond = payload.len().saturating_sub(HISTORY_BYTES);
        if payload.len() >= HISTORY_BYTES {
            self.clear();
        }
        let reached = payload.get(beyond..).unwrap_or_default();
        self.make_room(reached.len());
        self.push(reached);
    }

    /// The whole memory, for a decoder to write to, and the number of valid bytes at its start.
    pub(crate) fn space(&mut self) -> (&mut [u8], usize) {
        (&mut self.bytes, self.end)
    }

    /// Makes space for `more` bytes after the valid ones, without moving anything.
    pub(crate) fn extend_space(&mut self, more: usize) {
        let needed = self.end + more + SLACK_BYTES;
        if self.bytes.len() < needed {
            self.bytes.resize(needed, 0);
        }
    }

    /// Marks `more` bytes after the valid ones as valid.
    pub(crate) fn grew(&mut self, more: usize) {
        self.end = (self.end + more).min(self.bytes.len());
    }

    /// Empties the window; keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.end = 0;
    }

    /// Returns true if [`Window::shed`] would free considerable memory.
    pub(crate) fn has_spare(&self) -> bool {
        self.bytes.len() > 2 * HISTORY_BYTES
    }

    /// Frees all memory beyond the history. Returns the number of bytes cut off the front.
    pub(crate) fn shed(&mut self) -> usize {
        let cut = self.end.saturating_sub(HISTORY_BYTES);
        self.bytes = self.history().to_vec();
        self.end = self.bytes.len();
        self.bytes.resize(self.end + SLACK_BYTES, 0);
        self.bytes.shrink_to_fit();
        cut
    }
}
