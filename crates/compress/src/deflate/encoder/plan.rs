//! Optimal parsing for levels 8 and 9: the cheapest encoding of a block with the known matches.
//!
//! First the matches of every position are found. Then, from the block's end to its beginning, the
//! cheapest path from each position to the end is computed from estimated symbol costs: at first
//! those of a greedy choice, then those of the previous pass. A match may be shortened.
//!
//! The effort per position is bounded by the number of positions examined, of matches kept, and by
//! the maximum match length. Inside a match of [`SearchParams::nice_length`] bytes nothing is
//! searched, and repetitions that are much longer are written as matches of maximum length without
//! a choice. Memory is bounded too: for a block of [`MAX_SPAN`] bytes 320 KiB of nodes, 40 KiB of
//! counts and [`MAX_FOUND`] matches in 512 KiB.

use core::mem;
use core::ops::Range;

use super::block::{DeflateBlock, Frequencies};
use super::costs::Costs;
use super::matcher::{Match, MatchCandidate, Matcher, Search, THREES, View};
use super::parse::{MatchThresholds, RUN_TAIL, SearchParams};
use super::split::BlockSplitter;
use crate::deflate::symbols::{FIRST_LENGTH, LENGTH_SLOT, MAX_MATCH, MIN_MATCH, distance_slot};

/// Size of a block in bytes, if more than [`MAX_SPAN`] bytes are left.
const SPAN: usize = 32 * 1024;
/// Maximum size of a block in bytes.
const MAX_SPAN: usize = SPAN + SPAN / 4;
/// Maximum number of matches kept for a block.
const MAX_FOUND: usize = 128 * 1024;
/// Room for the matches of one position.
const FOUND_MARGIN: usize = 64;
/// Minimum size in bytes for optimal parsing: below it, dynamic codes rarely pay.
const LEAST_SPAN: usize = 512;

/// A match may be shortened to each length up to this one.
const EVERY_LENGTH: usize = 20;

/// Number of consecutive matches of maximum length, at the same distance, that make a [`LongRun`].
const MIN_LONG_RUN: usize = 4;
/// A cost above that of any path.
const UNREACHABLE: Node = Node {
    cost: u32::MAX >> 2,
    step: 1,
};

/// First step of the cheapest path to the end, and the cost of the path.
#[derive(Clone, Copy, Default)]
struct Node {
    cost: u32,
    /// The length in the low nine bits, 1 for a literal; the distance above.
    step: u32,
}

/// A repetition so long that it is written as `matches` matches of maximum length.
#[derive(Clone, Copy)]
struct LongRun {
    /// Position relative to the block's start.
    start: usize,
    matches: usize,
    distance: usize,
}

impl LongRun {
    fn end(self) -> usize {
        self.start + self.matches * MAX_MATCH
    }
}

/// The optimal parser, with memory reused between blocks.
#[derive(Default)]
pub(super) struct Planner {
    found: Vec<MatchCandidate>,
    /// Number of matches of each position.
    counts: Vec<u8>,
    /// In order; positions inside have no matches.
    long_runs: Vec<LongRun>,
    nodes: Vec<Node>,
}

/// Returns true if the bytes from `start` are to be parsed optimally.
pub(super) fn is_worth(view: View<'_>, start: usize, search_params: &SearchParams) -> bool {
    search_params.passes > 0 && view.end() - start >= LEAST_SPAN
}

impl Planner {
    /// Like [`parse`](super::parse::parse), with more effort.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn parse(
        &mut self,
        matcher: &mut Matcher,
        view: View<'_>,
        start: usize,
        entered: &mut usize,
        search_params: &SearchParams,
        literal_bits: usize,
        block: &mut DeflateBlock,
    ) -> usize {
        let worth = MatchThresholds::new(literal_bits);
        let end = self.find(
            matcher,
            view,
            start,
            search_params,
            &worth,
            &mut block.frequencies,
        );
        *entered = end.min(view.end().saturating_sub(3));
        for _ in 0..search_params.passes {
            let costs = Costs::new(&block.frequencies);
            self.plan(view.span(start, end), &costs);
            block.clear();
            self.take(view.span(start, end), block);
        }
        end
    }

    /// Finds the matches from `start` to the position where the block should end, which it returns,
    /// and counts in `greedy` the symbols of a greedy choice.
    fn find(
        &mut self,
        matcher: &mut Matcher,
        view: View<'_>,
        start: usize,
        search_params: &SearchParams,
        worth: &MatchThresholds,
        greedy: &mut Frequencies,
    ) -> usize {
        self.found.clear();
        self.counts.clear();
        self.long_runs.clear();
        let left = view.end() - start;
        let end = start + if left <= MAX_SPAN { left } else { SPAN };
        self.counts.reserve_exact(end - start);
        let last_entry = view.end().saturating_sub(3).min(end);
        let mut splitter = BlockSplitter::new();
        let mut symbols = splitter.next_check();
        let mut at = start;
        // The greedy choice has reached this position.
        let mut chosen = start;
        while at < last_entry {
            if at >= chosen {
                chosen = at;
                if symbols == 0 {
                    if splitter.ends_block(greedy, at - start, view.end() - at) {
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
                nice_length: search_params.nice_length.min(most),
                depth: search_params.depth,
            };
            let before = self.found.len();
            let length = matcher.find_all(view, at, search, &mut self.found);
            if length == MAX_MATCH
                && at == chosen
                && let Some(long_run) = self.long_run(view, start, at, end)
            {
                self.found.truncate(before);
                at = start + long_run.end();
                chosen = at;
                let times = long_run.matches as u32;
                greedy.litlen[length_symbol(MAX_MATCH)] += times;
                greedy.distance[distance_slot(long_run.distance) & 31] += times;
                let index_end = at.min(last_entry);
                matcher.enter::<false, THREES>(view, index_end.saturating_sub(RUN_TAIL)..index_end);
                self.counts.resize(at - start, 0);
                self.long_runs.push(long_run);
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
                        greedy.litlen[length_symbol(length)] += 1;
                        greedy.distance[distance_slot(found.distance()) & 31] += 1;
                        length
                    }
                    _ => {
                        greedy.litlen[usize::from(view.byte(at))] += 1;
                        1
                    }
                };
            }
            at += 1;
            if length >= search.nice_length && length > MIN_MATCH {
                // No match inside is better than continuing.
                let index_end = (at + length - 1).min(last_entry);
                matcher.enter::<false, THREES>(view, at..index_end);
                self.counts.resize(self.counts.len() + index_end - at, 0);
                at = index_end;
            }
        }
        self.counts.resize(end - start, 0);
        end
    }

    /// The long run that begins with the last match found, at `at`.
    fn long_run(&self, view: View<'_>, start: usize, at: usize, end: usize) -> Option<LongRun> {
        let distance = self.found.last()?.distance();
        let matches = view.same(at - distance, at, MAX_MATCH, end - at) / MAX_MATCH;
        (matches >= MIN_LONG_RUN).then_some(LongRun {
            start: at - start,
            matches,
            distance,
        })
    }

    /// Computes the cheapest path from each position of `plain` to its end.
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
        for long_run in self.long_runs.iter().rev() {
            let long_run_end = long_run.end().min(end);
            planned.plan(plain, &self.counts, long_run_end..end);
            planned.pass(*long_run, long_run_end);
            end = long_run.start.min(long_run_end);
        }
        planned.plan(plain, &self.counts, 0..end);
    }

    /// Adds the cheapest path through `plain` to `block`.
    fn take(&self, plain: &[u8], block: &mut DeflateBlock) {
        let mut long_runs = self.long_runs.iter().peekable();
        let (mut at, mut literals) = (0, 0);
        while let Some((byte, node)) = plain.get(at).zip(self.nodes.get(at)) {
            let length = (node.step & 511) as usize;
            if let Some(long_run) = long_runs.next_if(|long_run| long_run.start == at) {
                for _ in 0..long_run.matches {
                    block.repeat(mem::take(&mut literals), MAX_MATCH, long_run.distance);
                }
                at = long_run.end();
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

    pub(super) fn has_spare(&self) -> bool {
        self.nodes.capacity() > 0
    }

    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.found.capacity() * size_of::<MatchCandidate>()
            + self.counts.capacity()
            + self.long_runs.capacity() * size_of::<LongRun>()
            + self.nodes.capacity() * size_of::<Node>()
    }
}

/// The cheapest paths from a position, and the matches of the positions before it.
struct Planned<'p> {
    nodes: &'p mut [Node],
    found: &'p [MatchCandidate],
    costs: &'p Costs,
}

impl Planned<'_> {
    /// Computes the cheapest path from each of `positions` of `plain`; `counts` gives the number of
    /// matches at each.
    fn plan(&mut self, plain: &[u8], counts: &[u8], positions: Range<usize>) {
        let costs = self.costs;
        let first = positions.start;
        let plain = plain.get(positions.clone()).unwrap_or_default();
        let counts = counts.get(positions).unwrap_or_default();
        for (at, (byte, count)) in plain.iter().zip(counts).enumerate().rev() {
            let (here, following) = self.nodes.split_at_mut(first + at + 1);
            let Some(node) = here.last_mut() else {
                return;
            };
            let after = following.first().map_or(0, |node| node.cost);
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
                let longest = candidate.length().min(following.len());
                let mut consider = |length: usize, end: &Node, of_length: u32| {
                    let cost = end.cost + base + of_length;
                    if cost < best.cost {
                        let step = (distance << 9 | length) as u32;
                        best = Node { cost, step };
                    }
                };
                let every = longest.min(EVERY_LENGTH);
                let ends = following.get(shortest - 1..every).unwrap_or_default();
                let lengths = costs.length.get(shortest..=every).unwrap_or_default();
                for (more, (end, of_length)) in ends.iter().zip(lengths).enumerate() {
                    consider(shortest + more, end, *of_length);
                }
                if longest > every {
                    consider(longest, &following[longest - 1], costs.length[longest]);
                }
                shortest = shortest.max(every + 1);
            }
            *node = best;
        }
    }

    /// Lets paths use only the start of `long_run`, which ends before `long_run_end`.
    fn pass(&mut self, long_run: LongRun, long_run_end: usize) {
        let slot = distance_slot(long_run.distance) & 31;
        let cost = self.costs.length[MAX_MATCH] + self.costs.distance[slot];
        let all = self.nodes[long_run_end].cost + cost * long_run.matches as u32;
        let nodes = self.nodes.get_mut(long_run.start..long_run_end);
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
