//! The input, output and tables from which the symbols of a block are decoded.

use super::tables::{DISTANCE_ENTRIES, DecodeEntry, LITLEN_ENTRIES};

/// Decoding tables of a block.
pub(super) struct Tables {
    pub(super) litlen: [DecodeEntry; LITLEN_ENTRIES],
    pub(super) distance: [DecodeEntry; DISTANCE_ENTRIES],
}

/// The bit buffer, with the next bit lowest, and the input after it.
#[derive(Clone, Copy)]
pub(super) struct Input<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
    pub(super) bits: u64,
    pub(super) count: u32,
}

/// The window from which matches are copied, and where the next symbol goes.
pub(super) struct Output<'a> {
    pub(super) window: &'a mut [u8],
    pub(super) at: usize,
    /// End of the space for this payload; up to [`SLACK_BYTES`](crate::deflate::SLACK_BYTES) after
    /// it may be overwritten.
    pub(super) end: usize,
}

/// Why decoding stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    EndOfBlock,
    /// The input ends within a symbol, of which nothing was consumed.
    InputEnded,
    /// The next symbol does not fit into the output; nothing of it was consumed.
    OutputFull,
    Corrupt,
}

impl Input<'_> {
    /// Number of unused bits in total.
    pub(super) fn left(&self) -> usize {
        self.count as usize + (self.bytes.len() - self.at) * 8
    }

    /// Reads bytes until the buffer has 56 to 63 bits, or the input ends.
    #[inline(always)]
    pub(super) fn refill_carefully(&mut self) {
        while self.count < 56
            && let Some(byte) = self.bytes.get(self.at)
        {
            self.bits |= u64::from(*byte) << self.count;
            self.count += 8;
            self.at += 1;
        }
    }

    /// Returns the next bits without consuming them.
    #[inline(always)]
    pub(super) fn peek(&self, count: u32) -> u32 {
        (self.bits & ((1 << count) - 1)) as u32
    }

    #[inline(always)]
    pub(super) fn skip(&mut self, count: u32) {
        self.bits >>= count;
        self.count -= count;
    }
}
