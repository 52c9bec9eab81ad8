//! Parser for level 1: takes the better of the last two positions with the same four bytes.
//!
//! An unpredictable branch costs as much as examining two positions, so there are few: per position
//! whether a match is taken, per match whether it is longer than eight bytes. After a long stretch
//! without matches, positions are skipped.

use super::block::{DeflateBlock, MAX_BLOCK_BYTES};
use super::matcher::{Matcher, View};
use super::pairs::{COMPARED, Pairs, Seen};
use super::parse::{MatchThresholds, RUN_TAIL, repeat};
use super::split::BlockSplitter;
use crate::deflate::symbols::{MAX_MATCH, MIN_MATCH};

/// A match of this length ends the search for a better one.
const ENOUGH: usize = 128;
/// By how much the [`gain`] of a match at the next position must be larger, to pay for the literal
/// before it.
const ONE_MORE: i32 = 3;
/// Binary logarithm of the number of positions without a match after which one more position is
/// skipped each time.
const PATIENCE_BITS: u32 = 8;

/// Like [`parse`](super::parse::parse), with less effort.
pub(super) fn parse(
    matcher: &mut Matcher,
    view: View<'_>,
    start: usize,
    entered: &mut usize,
    fives: bool,
    literal_bits: usize,
    block: &mut DeflateBlock,
) -> usize {
    let worth = MatchThresholds::new(literal_bits);
    let end = if fives {
        choose::<true>(Pairs::new(matcher, view), view, start, &worth, block)
    } else {
        choose::<false>(Pairs::new(matcher, view), view, start, &worth, block)
    };
    *entered = end.min(view.end().saturating_sub(3));
    end
}

fn choose<const FIVES: bool>(
    pairs: Pairs<'_, '_, FIVES>,
    view: View<'_>,
    start: usize,
    worth: &MatchThresholds,
    block: &mut DeflateBlock,
) -> usize {
    by_cpu!(
        ["bmi1", "bmi2", "lzcnt"],
        choose_body [const FIVES: bool] (
            pairs: Pairs<'_, '_, FIVES>,
            view: View<'_>,
            start: usize,
            worth: &MatchThresholds,
            block: &mut DeflateBlock
        ) -> usize
    )
}

#[inline(always)]
fn choose_body<const FIVES: bool>(
    mut pairs: Pairs<'_, '_, FIVES>,
    view: View<'_>,
    start: usize,
    worth: &MatchThresholds,
    block: &mut DeflateBlock,
) -> usize {
    let end = view.end().min(start + MAX_BLOCK_BYTES);
    let last_entry = view.end().saturating_sub(3).min(end);
    let farthest = worth.by_length();
    let mut splitter = BlockSplitter::new();
    let mut symbols = 0;
    let mut at = start;
    // Everything before this position is in the block.
    let mut literals_from = start;
    while at < last_entry {
        let mut seen = pairs.look(at);
        if !pays(&farthest, seen) {
            let step = 1 + ((at - literals_from) >> PATIENCE_BITS);
            if step == 1 {
                block.literal(view.byte(at), 1);
                at += 1;
            } else {
                let next = (at + step).min(end);
                block.literals(view.span(at, next));
                at = next;
            }
            continue;
        }
        let mut entered = at + 1;
        if seen.length < COMPARED && entered < last_entry {
            let next = pairs.look(entered);
            entered += 1;
            let better = next.length > MIN_MATCH && gain(next) > gain(seen) + ONE_MORE;
            block.literal(view.byte(at), u32::from(better));
            at += usize::from(better);
            seen = if better { next } else { seen };
        }
        let (length, distance) = lengthen(view, at, end, seen);
        if length < MIN_MATCH {
            break;
        }
        let literals = at - literals_from;
        block.repeat(literals, length, distance);
        at += length;
        if length == MAX_MATCH {
            at = repeat(view, at, end, distance, block);
            let index_end = at.min(last_entry);
            entered = entered.max(index_end.saturating_sub(RUN_TAIL));
        }
        pairs.enter_all(entered..at.min(last_entry));
        literals_from = at;
        symbols += 1 + literals;
        if symbols >= splitter.next_check() as usize {
            symbols = 0;
            let (bytes, left) = (at - start, end - at);
            if block.is_full() || splitter.ends_block(&block.frequencies, bytes, left) {
                return at;
            }
        }
    }
    block.literals(view.span(at, end));
    end
}

#[inline(always)]
fn pays(farthest: &[usize; 16], seen: Seen) -> bool {
    seen.distance.wrapping_sub(1) < farthest[seen.length & 15]
}

/// Estimated number of bits that a match saves: four per byte, less the bits of its distance.
#[inline(always)]
fn gain(seen: Seen) -> i32 {
    4 * seen.length as i32 - (seen.distance | 1).ilog2() as i32
}

/// Extends the match; returns its length and distance. The match ends before `end`.
#[inline(always)]
fn lengthen(view: View<'_>, at: usize, end: usize, seen: Seen) -> (usize, usize) {
    let most = (end - at).min(MAX_MATCH);
    if seen.length < COMPARED {
        return (seen.length.min(most), seen.distance);
    }
    let length = view.same(at - seen.distance, at, COMPARED, most);
    if seen.other > 0 && length < ENOUGH.min(most) {
        let other = view.same(at - seen.other, at, COMPARED, most);
        if other > length {
            return (other, seen.other);
        }
    }
    (length, seen.distance)
}
