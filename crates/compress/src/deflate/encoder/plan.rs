//! Levels 8 and 9: what takes the fewest bits, of all ways to write a block with the matches that
//! are known.
//!
//! The matches of every position are found first. Then, from the block's end to its beginning,
//! the cheapest way from each position to the end is found, by what each symbol is expected to
//! take: at first by the symbols of a hasty choice, then by those of the choice before. A match
//! may be taken shorter than it is.
//!
//! The effort for a position is bounded: by the places that are looked at, by the matches that
//! are kept, and by the longest match. What repeats for as long as [`Effort::enough`] is not
//! searched again inside. The memory is bounded, too: for a block of [`MAX_SPAN`] 320 KiB of
//! nodes, 40 KiB of numbers and [`MAX_FOUND`] matches in 512 KiB.

use super::block::{Block, Frequencies};
use super::matcher::{Candidate, Match, Matcher, Search, THREES, View};
use super::parse::{Effort, Worth};
use super::split::Splitter;
use crate::deflate::symbols::{
    DISTANCE_EXTRA, DISTANCE_SYMBOLS, END_OF_BLOCK, FIRST_LENGTH, LENGTH_EXTRA, LENGTH_SLOT,
    MAX_MATCH, MIN_MATCH, distance_slot,
};

/// Bytes of a block, where more than a quarter of it comes behind.
const SPAN: usize = 32 * 1024;
/// The most bytes of a block.
const MAX_SPAN: usize = SPAN + SPAN / 4;
/// The most matches that are known of a block.
const MAX_FOUND: usize = 128 * 1024;
/// Room for those of one position.
const FOUND_MARGIN: usize = 64;
/// Less is not worth a plan, bytes: a code of its own would hardly pay.
const LEAST_SPAN: usize = 512;

/// A match may be taken with each length up to this, and with all of its own.
const EVERY_LENGTH: usize = 20;

/// Parts of a bit.
const BIT: u32 = 32;
/// What a symbol takes at least and at most, bits.
const LEAST_SYMBOL_BITS: f32 = 0.25;
const MAX_SYMBOL_BITS: f32 = 13.0;

/// How the cheapest way to the end begins here, and what it takes.
#[derive(Clone, Copy, Default)]
struct Node {
    cost: u32,
    /// The length in the low nine bits, 1 for a literal; the distance above.
    step: u32,
}

/// What each symbol is expected to take with its extra bits, in parts of a bit.
struct Costs {
    literal: [u32; 256],
    length: [u32; MAX_MATCH + 1],
    distance: [u32; 32],
}

/// Memory for plans, kept from block to block.
#[derive(Default)]
pub(super) struct Planner {
    found: Vec<Candidate>,
    /// How many of them each position has.
    counts: Vec<u8>,
    nodes: Vec<Node>,
}

/// Whether a plan is made for what stands from `start` on.
pub(super) fn is_worth(view: View<'_>, start: usize, effort: &Effort) -> bool {
    effort.passes > 0 && view.end() - start >= LEAST_SPAN
}

impl Planner {
    /// As [`parse`](super::parse::parse), with more effort.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn parse(
        &mut self,
        matcher: &mut Matcher,
        view: View<'_>,
        start: usize,
        entered: &mut usize,
        effort: &Effort,
        literal_bits: usize,
        block: &mut Block,
    ) -> usize {
        let worth = Worth::new(literal_bits);
        let end = self.find(matcher, view, start, effort, &worth, &mut block.frequencies);
        *entered = end.min(view.end().saturating_sub(3));
        for _ in 0..effort.passes {
            let costs = Costs::new(&block.frequencies);
            self.plan(view.span(start, end), &costs);
            block.clear();
            self.take(view.span(start, end), block);
        }
        end
    }

    /// Finds the matches from `start` to where the block should end, which is returned, and counts
    /// in `hasty` the symbols of taking the longest match at once.
    fn find(
        &mut self,
        matcher: &mut Matcher,
        view: View<'_>,
        start: usize,
        effort: &Effort,
        worth: &Worth,
        hasty: &mut Frequencies,
    ) -> usize {
        self.found.clear();
        self.counts.clear();
        let left = view.end() - start;
        let end = start + if left <= MAX_SPAN { left } else { SPAN };
        self.counts.reserve_exact(end - start);
        let last_entry = view.end().saturating_sub(3).min(end);
        let mut splitter = Splitter::new();
        let mut symbols = splitter.next_check();
        let mut at = start;
        // Up to here the hasty choice has come.
        let mut chosen = start;
        while at < last_entry {
            if at >= chosen {
                chosen = at;
                if symbols == 0 {
                    if splitter.ends_block(hasty, at - start, view.end() - at) {
                        return at;
                    }
                    symbols = splitter.next_check();
                }
                symbols -= 1;
            }
            if self.found.len() + FOUND_MARGIN > MAX_FOUND {
                return at;
            }
            let most = (view.end() - at).min(MAX_MATCH);
            let search = Search {
                longer_than: 0,
                most,
                enough: effort.enough.min(most),
                depth: effort.depth,
            };
            let before = self.found.len();
            let length = matcher.find_all(view, at, search, &mut self.found);
            self.counts.push((self.found.len() - before) as u8);
            if at == chosen {
                chosen += match self.found.last() {
                    Some(found)
                        if length >= MIN_MATCH
                            && worth.pays(Match {
                                length,
                                distance: found.distance(),
                            }) =>
                    {
                        hasty.litlen[length_symbol(length)] += 1;
                        hasty.distance[distance_slot(found.distance()) & 31] += 1;
                        length
                    }
                    _ => {
                        hasty.litlen[usize::from(view.byte(at))] += 1;
                        1
                    }
                };
            }
            at += 1;
            if length >= search.enough && length > MIN_MATCH {
                // Nothing inside will be better than going on.
                let behind = (at + length - 1).min(last_entry);
                matcher.enter::<THREES>(view, at..behind);
                self.counts.resize(self.counts.len() + behind - at, 0);
                at = behind;
            }
        }
        self.counts.resize(end - start, 0);
        end
    }

    /// Finds the cheapest way from each position of `plain` to its end.
    fn plan(&mut self, plain: &[u8], costs: &Costs) {
        self.nodes.clear();
        self.nodes.reserve_exact(plain.len() + 1);
        self.nodes.resize(plain.len() + 1, Node::default());
        let mut found = self.found.as_slice();
        let positions = plain.iter().zip(&self.counts).enumerate().rev();
        for (at, (byte, count)) in positions {
            let (here, behind) = self.nodes.split_at_mut(at + 1);
            let Some(node) = here.last_mut() else {
                return;
            };
            let after = behind.first().map_or(0, |node| node.cost);
            let mut best = Node {
                cost: costs.literal[usize::from(*byte)] + after,
                step: 1,
            };
            let candidates;
            (found, candidates) = found.split_at(found.len() - usize::from(*count));
            let mut shortest = MIN_MATCH;
            for candidate in candidates {
                let distance = candidate.distance();
                let base = costs.distance[distance_slot(distance) & 31];
                let longest = candidate.length().min(behind.len());
                let mut consider = |length: usize, end: &Node, of_length: u32| {
                    let cost = end.cost + base + of_length;
                    if cost < best.cost {
                        let step = (distance << 9 | length) as u32;
                        best = Node { cost, step };
                    }
                };
                let every = longest.min(EVERY_LENGTH);
                let ends = behind.get(shortest - 1..every).unwrap_or_default();
                let lengths = costs.length.get(shortest..=every).unwrap_or_default();
                for (more, (end, of_length)) in ends.iter().zip(lengths).enumerate() {
                    consider(shortest + more, end, *of_length);
                }
                if longest > every {
                    consider(longest, &behind[longest - 1], costs.length[longest]);
                }
                shortest = shortest.max(every + 1);
            }
            *node = best;
        }
    }

    /// Puts what was planned for `plain` into `block`.
    fn take(&self, plain: &[u8], block: &mut Block) {
        let (mut at, mut literals) = (0, 0);
        while let Some((byte, node)) = plain.get(at).zip(self.nodes.get(at)) {
            let length = (node.step & 511) as usize;
            if length < MIN_MATCH {
                block.literal(*byte, 1);
                literals += 1;
                at += 1;
            } else {
                block.repeat(literals, length, (node.step >> 9) as usize);
                literals = 0;
                at += length;
            }
        }
    }

    /// Frees the memory.
    pub(super) fn shed(&mut self) {
        *self = Self::default();
    }

    pub(super) fn is_spread(&self) -> bool {
        self.nodes.capacity() > 0
    }

    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.found.capacity() * size_of::<Candidate>()
            + self.counts.capacity()
            + self.nodes.capacity() * size_of::<Node>()
    }
}

fn length_symbol(length: usize) -> usize {
    FIRST_LENGTH + (usize::from(LENGTH_SLOT[length & 511]) & 31)
}

impl Costs {
    /// What symbols take that are as frequent as these.
    fn new(of: &Frequencies) -> Self {
        let litlen = symbol_costs(&of.litlen);
        let distances = symbol_costs(&of.distance);
        let mut costs = Self {
            literal: [0; 256],
            length: [0; MAX_MATCH + 1],
            distance: [0; 32],
        };
        let (literals, _) = litlen.split_at(END_OF_BLOCK);
        costs.literal.copy_from_slice(literals);
        for (length, cost) in costs.length.iter_mut().enumerate().skip(MIN_MATCH) {
            let slot = usize::from(LENGTH_SLOT[length]);
            *cost = litlen[FIRST_LENGTH + slot] + u32::from(LENGTH_EXTRA[slot]) * BIT;
        }
        for slot in 0..DISTANCE_SYMBOLS {
            costs.distance[slot] = distances[slot] + u32::from(DISTANCE_EXTRA[slot]) * BIT;
        }
        costs
    }
}

/// Symbols that did not occur are taken for half as frequent as those that did once.
#[allow(clippy::cast_precision_loss, clippy::cast_sign_loss)]
fn symbol_costs<const N: usize>(frequencies: &[u32; N]) -> [u32; N] {
    let bits_of_all = log2(frequencies.iter().sum::<u32>().max(1));
    frequencies.map(|frequency| {
        let rarity = if frequency == 0 {
            bits_of_all + 1.0
        } else {
            bits_of_all - log2(frequency)
        };
        (rarity.clamp(LEAST_SYMBOL_BITS, MAX_SYMBOL_BITS) * BIT as f32) as u32
    })
}

/// Logarithm of `number`, at least 1, to base 2, to within a hundredth. The standard library's would
/// bind the binary to another library than the C library.
#[allow(clippy::cast_precision_loss)]
fn log2(number: u32) -> f32 {
    let whole = number.ilog2();
    let above = number as f32 / (1_u64 << whole) as f32 - 1.0;
    whole as f32 + above * (1.346_6 - 0.346_6 * above)
}
