//! Where a block ends: where what comes is so unlike what came that a code of its own pays.
//!
//! Every some hundred symbols the latest are compared with those of the block before them, in
//! ten classes: literals by their three highest bits, short and long matches.

use super::block::Frequencies;
use crate::deflate::symbols::FIRST_LENGTH;

/// Symbols between two looks.
const SYMBOLS: u32 = 1024;
/// Bytes that a block must have, and that must be left behind it.
const LEAST_BYTES: usize = 4096;
const LITERAL_CLASSES: usize = 8;
const CLASSES: usize = LITERAL_CLASSES + 2;
/// Lengths' symbols that count as short: 3 to 8.
const SHORT_SLOTS: usize = 6;
/// How unlike ends a block: of 256, the share of symbols that would have to change their class,
/// twice.
const UNLIKE: u32 = 100;

/// See the module's head.
pub(super) struct Splitter {
    /// What the block had at the last look.
    before: [u32; CLASSES],
    total: u32,
}

impl Splitter {
    pub(super) fn new() -> Self {
        Self {
            before: [0; CLASSES],
            total: 0,
        }
    }

    /// After so many symbols it wants to look.
    pub(super) fn next_check(&self) -> u32 {
        SYMBOLS
    }

    /// Whether the block, of `bytes` bytes, should end with `left` bytes behind it.
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

    /// How far apart the two distributions are, 0 to 512.
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
