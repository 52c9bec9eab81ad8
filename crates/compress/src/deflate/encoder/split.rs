//! Decides where a block ends: where the following symbols differ from the previous ones so
//! strongly that separate codes are smaller.
//!
//! Every [`SYMBOLS`] symbols, the latest ones are compared with the earlier ones of the block, in
//! ten classes: literals by their three highest bits, short and long matches.

use super::block::Frequencies;
use crate::deflate::symbols::FIRST_LENGTH;

/// Number of symbols between two comparisons.
const SYMBOLS: u32 = 1024;
/// Minimum number of bytes in the block, and of bytes left after it.
const LEAST_BYTES: usize = 4096;
const LITERAL_CLASSES: usize = 8;
const CLASSES: usize = LITERAL_CLASSES + 2;
/// Number of length symbols that count as short: lengths 3 to 8.
const SHORT_SLOTS: usize = 6;
/// Minimum difference that ends a block: twice the share, of 256, of symbols that would have to
/// change their class.
const UNLIKE: u32 = 100;

/// Detects the ends of blocks.
pub(super) struct BlockSplitter {
    /// Symbols of the block at the last comparison, by class.
    before: [u32; CLASSES],
    total: u32,
}

impl BlockSplitter {
    pub(super) fn new() -> Self {
        Self {
            before: [0; CLASSES],
            total: 0,
        }
    }

    /// Number of symbols until the next comparison.
    pub(super) fn next_check(&self) -> u32 {
        SYMBOLS
    }

    /// Returns true if the block, of `bytes` bytes, should end with `left` bytes after it.
    pub(super) fn ends_block(&mut self, now: &Frequencies, bytes: usize, left: usize) -> bool {
        let now = classes(now);
        let total: u32 = now.iter().sum();
        let latest = total.wrapping_sub(self.total);
        let unlike = self.total > 0
            && latest > 0
            && bytes >= LEAST_BYTES
            && left >= LEAST_BYTES
            && self.distance(&now, latest) > UNLIKE;
        self.before = now;
        self.total = total;
        unlike
    }

    /// Difference of the two distributions, from 0 to 512.
    fn distance(&self, now: &[u32; CLASSES], latest: u32) -> u32 {
        let pairs = now.iter().zip(&self.before);
        let apart = pairs.map(|(now, before)| {
            let came = (now - before) * 256 / latest;
            let stood = before * 256 / self.total;
            came.abs_diff(stood)
        });
        apart.sum()
    }
}

fn classes(of: &Frequencies) -> [u32; CLASSES] {
    let mut classes = [0; CLASSES];
    let literals = of.litlen.chunks_exact(256 / LITERAL_CLASSES);
    for (class, symbols) in classes.iter_mut().zip(literals).take(LITERAL_CLASSES) {
        *class = symbols.iter().sum();
    }
    let lengths = &of.litlen[FIRST_LENGTH..];
    let (short, long) = lengths.split_at(SHORT_SLOTS);
    classes[LITERAL_CLASSES] = short.iter().sum();
    classes[LITERAL_CLASSES + 1] = long.iter().sum();
    classes
}
