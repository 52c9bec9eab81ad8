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
//! searched again inside, and what repeats for much longer is no matter of choice at all: it is
//! written in the longest matches. The memory is bounded, too: for a block of [`MAX_SPAN`] 320 KiB of
//! nodes, 40 KiB of numbers and [`MAX_FOUND`] matches in 512 KiB.

use core::mem;
use core::ops::Range;

use super::block::{Block, Frequencies};
use super::costs::Costs;
use super::matcher::{Candidate, Match, Matcher, Search, THREES, View};
use super::parse::{Effort, RUN_TAIL, Worth};
use super::split::Splitter;
use crate::deflate::symbols::{FIRST_LENGTH, LENGTH_SLOT, MAX_MATCH, MIN_MATCH, distance_slot};

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

/// So many longest matches, one behind the other and from as far away, are a [`Stretch`].
const LEAST_STRETCH: usize = 4;
/// More than any way costs.
const UNREACHABLE: Node = Node {
    cost: u32::MAX >> 2,
    step: 1,
};

/// How the cheapest way to the end begins here, and what it takes.
#[derive(Clone, Copy, Default)]
struct Node {
    cost: u32,
    /// The length in the low nine bits, 1 for a literal; the distance above.
    step: u32,
}

/// What repeats itself for so long that it is written as `matches` of the greatest length.
#[derive(Clone, Copy)]
struct Stretch {
    /// Counted from the block's beginning.
    start: usize,
    matches: usize,
    distance: usize,
}

impl Stretch {
    fn end(self) -> usize {
        self.start + self.matches * MAX_MATCH
    }
}

/// Memory for plans, kept from block to block.
#[derive(Default)]
pub(super) struct Planner {
    found: Vec<Candidate>,
    /// How many of them each position has.
    counts: Vec<u8>,
    /// In their order; at their positions nothing is found.
    stretches: Vec<Stretch>,
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
        self.stretches.clear();
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
            if length == MAX_MATCH
                && at == chosen
                && let Some(stretch) = self.stretch(view, start, at, end)
            {
                self.found.truncate(before);
                at = start + stretch.end();
                chosen = at;
                let times = stretch.matches as u32;
                hasty.litlen[length_symbol(MAX_MATCH)] += times;
                hasty.distance[distance_slot(stretch.distance) & 31] += times;
                let behind = at.min(last_entry);
                matcher.enter::<false, THREES>(view, behind.saturating_sub(RUN_TAIL)..behind);
                self.counts.resize(at - start, 0);
                self.stretches.push(stretch);
                continue;
            }
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
                matcher.enter::<false, THREES>(view, at..behind);
                self.counts.resize(self.counts.len() + behind - at, 0);
                at = behind;
            }
        }
        self.counts.resize(end - start, 0);
        end
    }

    /// The stretch that the last match that was found, at `at`, is the beginning of.
    fn stretch(&self, view: View<'_>, start: usize, at: usize, end: usize) -> Option<Stretch> {
        let distance = self.found.last()?.distance();
        let matches = view.same(at - distance, at, MAX_MATCH, end - at) / MAX_MATCH;
        (matches >= LEAST_STRETCH).then_some(Stretch {
            start: at - start,
            matches,
            distance,
        })
    }

    /// Finds the cheapest way from each position of `plain` to its end.
    fn plan(&mut self, plain: &[u8], costs: &Costs) {
        self.nodes.clear();
        self.nodes.reserve_exact(plain.len() + 1);
        self.nodes.resize(plain.len() + 1, Node::default());
        let mut planned = Planned {
            nodes: &mut self.nodes,
            found: &self.found,
            costs,
        };
        let mut end = plain.len();
        for stretch in self.stretches.iter().rev() {
            let behind = stretch.end().min(end);
            planned.plan(plain, &self.counts, behind..end);
            planned.pass(*stretch, behind);
            end = stretch.start.min(behind);
        }
        planned.plan(plain, &self.counts, 0..end);
    }

    /// Puts what was planned for `plain` into `block`.
    fn take(&self, plain: &[u8], block: &mut Block) {
        let mut stretches = self.stretches.iter().peekable();
        let (mut at, mut literals) = (0, 0);
        while let Some((byte, node)) = plain.get(at).zip(self.nodes.get(at)) {
            let length = (node.step & 511) as usize;
            if let Some(stretch) = stretches.next_if(|stretch| stretch.start == at) {
                for _ in 0..stretch.matches {
                    block.repeat(mem::take(&mut literals), MAX_MATCH, stretch.distance);
                }
                at = stretch.end();
            } else if length < MIN_MATCH {
                block.literal(*byte, 1);
                literals += 1;
                at += 1;
            } else {
                block.repeat(mem::take(&mut literals), length, (node.step >> 9) as usize);
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
            + self.stretches.capacity() * size_of::<Stretch>()
            + self.nodes.capacity() * size_of::<Node>()
    }
}

/// The cheapest ways from a position on, and the matches of those before it.
struct Planned<'p> {
    nodes: &'p mut [Node],
    found: &'p [Candidate],
    costs: &'p Costs,
}

impl Planned<'_> {
    /// Finds the cheapest way from each of `positions` of `plain`, at which so many matches as
    /// `counts` says are known.
    fn plan(&mut self, plain: &[u8], counts: &[u8], positions: Range<usize>) {
        let costs = self.costs;
        let first = positions.start;
        let plain = plain.get(positions.clone()).unwrap_or_default();
        let counts = counts.get(positions).unwrap_or_default();
        for (at, (byte, count)) in plain.iter().zip(counts).enumerate().rev() {
            let (here, behind) = self.nodes.split_at_mut(first + at + 1);
            let Some(node) = here.last_mut() else {
                return;
            };
            let after = behind.first().map_or(0, |node| node.cost);
            let mut best = Node {
                cost: costs.literal[usize::from(*byte)] + after,
                step: 1,
            };
            let candidates;
            (self.found, candidates) = self.found.split_at(self.found.len() - usize::from(*count));
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

    /// What leads into `stretch`, which ends before `behind`, leads to its beginning.
    fn pass(&mut self, stretch: Stretch, behind: usize) {
        let slot = distance_slot(stretch.distance) & 31;
        let cost = self.costs.length[MAX_MATCH] + self.costs.distance[slot];
        let all = self.nodes[behind].cost + cost * stretch.matches as u32;
        let nodes = self.nodes.get_mut(stretch.start..behind);
        let nodes = nodes.unwrap_or_default();
        nodes.fill(UNREACHABLE);
        if let Some(first) = nodes.first_mut() {
            first.cost = all;
        }
    }
}

fn length_symbol(length: usize) -> usize {
    FIRST_LENGTH + (usize::from(LENGTH_SLOT[length & 511]) & 31)
}
