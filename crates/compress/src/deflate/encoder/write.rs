//! Writes the symbols of a block as bits.

use core::ops::Range;

use super::bits::BitWriter;
use super::huffman::{CodeWord, word, word_bits, word_count};
use super::matcher::View;
use crate::deflate::symbols::{
    DISTANCE_BASE, DISTANCE_EXTRA, END_OF_BLOCK, FIRST_LENGTH, LENGTH_BASE, LENGTH_EXTRA,
};

/// Literals and the match after them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sequence {
    /// Number of literals, and in the low nine bits the length of the match.
    literals_and_length: u32,
    distance: u16,
    slot: u16,
}

impl Sequence {
    #[inline(always)]
    pub(super) fn new(literals: usize, length: usize, distance: usize, slot: usize) -> Self {
        Self {
            literals_and_length: (literals << 9 | (length & 511)) as u32,
            // 32768 becomes 0 here, and 32768 again when it is written.
            distance: (distance & 0x7fff) as u16,
            slot: slot as u16,
        }
    }

    #[inline(always)]
    pub(super) fn literals(self) -> usize {
        (self.literals_and_length >> 9) as usize
    }

    #[inline(always)]
    pub(super) fn length(self) -> usize {
        (self.literals_and_length & 511) as usize
    }

    /// The distance; 0 means 32768.
    #[inline(always)]
    pub(super) fn distance(self) -> u16 {
        self.distance
    }

    /// The distance symbol.
    #[inline(always)]
    fn slot(self) -> usize {
        usize::from(self.slot)
    }
}

/// The codes of a block, ready for writing.
pub(super) struct BlockCodes<'a> {
    pub(super) litlen: &'a [CodeWord; 288],
    pub(super) distance: &'a [CodeWord; 32],
}

/// A distance symbol's code, and its base and extra bits.
#[derive(Clone, Copy, Default)]
struct DistanceWord {
    code: u16,
    base: u16,
    code_bits: u8,
    extra_bits: u8,
}

/// Writes `sequences`, the bytes of `plain` after them, and the end of the block.
pub(super) fn symbols(
    sequences: &[Sequence],
    view: View<'_>,
    plain: Range<usize>,
    words: &BlockCodes<'_>,
    out: &mut BitWriter<'_>,
) {
    by_cpu!(
        ["bmi1", "bmi2"],
        symbols_body(
            sequences: &[Sequence],
            view: View<'_>,
            plain: Range<usize>,
            words: &BlockCodes<'_>,
            out: &mut BitWriter<'_>
        )
    );
}

#[inline(always)]
fn symbols_body(
    sequences: &[Sequence],
    view: View<'_>,
    plain: Range<usize>,
    words: &BlockCodes<'_>,
    place: &mut BitWriter<'_>,
) {
    let lengths = length_words(words.litlen);
    let distances = distance_words(words.distance);
    let end = plain.end.min(view.end());
    let mut at = plain.start.min(end);
    // A local copy stays in registers.
    let mut out = place.take();
    for sequence in sequences {
        at = literals(
            view,
            at,
            sequence.literals().min(end - at),
            words.litlen,
            &mut out,
        );
        let length = sequence.length();
        let code = lengths[length & 511];
        let distance = distances[sequence.slot() & 31];
        let extra = u32::from(distance.extra_bits);
        let above = u32::from(sequence.distance().wrapping_sub(distance.base));
        let above = u64::from(above & ((1 << (extra & 31)) - 1));
        let code_bits = u32::from(distance.code_bits);
        let bits = u64::from(distance.code) | above << (code_bits & 63);
        out.add(
            u64::from(word_bits(code)) | bits << (word_count(code) & 63),
            word_count(code) + code_bits + extra,
        );
        out.flush();
        at = (at + length).min(end);
    }
    literals(view, at, end - at, words.litlen, &mut out);
    let code = words.litlen[END_OF_BLOCK];
    out.add(u64::from(word_bits(code)), word_count(code));
    out.flush();
    *place = out;
}

/// Writes `count` bytes from `at`, which must be before the end, as literals; returns the position
/// after them. Leaves fewer than eight bits unwritten.
#[inline(always)]
fn literals(
    view: View<'_>,
    mut at: usize,
    count: usize,
    words: &[CodeWord; 288],
    out: &mut BitWriter<'_>,
) -> usize {
    let end = at + count;
    while end - at >= 4 {
        for byte in view.four(at).to_le_bytes() {
            let code = words[usize::from(byte)];
            out.add(u64::from(word_bits(code)), word_count(code));
        }
        out.flush();
        at += 4;
    }
    // Up to three literals; absent ones are written as zero bits, because a branch on their number
    // would be unpredictable.
    let left = end - at;
    let [first, second, third, _] = view.four(at).to_le_bytes();
    for (index, byte) in [first, second, third].into_iter().enumerate() {
        let is_one = u32::from(index < left);
        let code = words[usize::from(byte)] & 0_u32.wrapping_sub(is_one);
        out.add(u64::from(word_bits(code)), word_count(code));
    }
    out.flush();
    end
}

/// The code and extra bits of each match length.
fn length_words(litlen: &[CodeWord; 288]) -> [CodeWord; 512] {
    let mut words = [0; 512];
    let slots = LENGTH_BASE.iter().zip(&LENGTH_EXTRA).enumerate();
    for (slot, (base, extra)) in slots {
        let code = litlen[FIRST_LENGTH + slot];
        let (bits, count) = (word_bits(code), word_count(code));
        // Slot 27 could hold one length more than it has: 258 has its own slot, which comes later
        // and overwrites it.
        for above in 0..1_u32 << extra {
            let place = usize::from(*base) + above as usize;
            words[place & 511] = word(bits | above << count, count + u32::from(*extra));
        }
    }
    words
}

fn distance_words(codes: &[CodeWord; 32]) -> [DistanceWord; 32] {
    let mut words = [DistanceWord::default(); 32];
    let facts = codes.iter().zip(DISTANCE_BASE.iter().zip(&DISTANCE_EXTRA));
    for (word, (code, (base, extra))) in words.iter_mut().zip(facts) {
        *word = DistanceWord {
            code: word_bits(*code) as u16,
            base: *base,
            code_bits: word_count(*code) as u8,
            extra_bits: *extra,
        };
    }
    words
}
