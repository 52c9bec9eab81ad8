//! Chooses matches: the first one found, or a better one at the next or second next position (lazy
//! matching).

use super::block::{DeflateBlock, MAX_BLOCK_BYTES};
use super::matcher::{FIVES, FOURS, Match, Matcher, Search, THREES, View};
use super::split::BlockSplitter;
use super::{IndexConfig, IndexKind};
use crate::deflate::symbols::{MAX_MATCH, MIN_MATCH};

/// Estimated cost of a match without the bits of its distance, in eighths of a bit: its length
/// symbol, and the part of its distance symbol beyond the distance's own bits.
const MATCH_BITS: usize = 8 * 10;
/// Matches of a length are searched if they pay at this distance, as a binary logarithm.
const WORTH_SEARCH: usize = 9;
/// If literals cost less than this, in eighths of a bit, matches of four bytes are not searched:
/// they would not pay at the distance of [`WORTH_SEARCH`].
const FIVES_FROM_BITS: usize = 38;
/// Literals must cost at least this to end that.
const FIVES_TO_BITS: usize = 42;
/// Matches of at least this length always pay.
const LONG_MATCH: usize = 8;
/// Number of positions at the end of a long run that are indexed; earlier ones are equivalent.
pub(super) const RUN_TAIL: usize = 16;

/// Maximum number of positions that are skipped after a long stretch without matches.
const MOST_LEFT_OUT: usize = 7;

/// Search parameters of a level.
#[derive(Debug, Clone, Copy)]
pub(super) struct SearchParams {
    /// Number of following positions that are examined before a match is taken: 0 to 2.
    pub(super) lazy_positions: u8,
    /// Maximum number of positions to examine.
    pub(super) depth: u32,
    /// Maximum number of positions to examine at a following position, where only a longer match
    /// counts.
    pub(super) lazy_depth: u32,
    /// A match of this length is taken at once.
    pub(super) nice_length: usize,
    /// Number of passes of [`plan`](super::plan) over a block; 0 takes matches immediately.
    pub(super) passes: u8,
    /// Binary logarithm of the number of consecutive literals after which one more position is
    /// skipped each time, up to [`MOST_LEFT_OUT`].
    pub(super) skip_shift: u8,
}

/// The highest level that uses [`rows`](super::rows).
pub(super) const MOST_BY_ROWS: u8 = 6;

/// The parameters of a level, 2 to 9; [`quick`](super::quick) is level 1.
pub(super) fn search_params(level: u8) -> SearchParams {
    let (lazy_positions, depth, lazy_depth, nice_length, passes) = match level {
        ..=2 => (0, 6, 0, 16, 0),
        3 => (0, 12, 0, 24, 0),
        4 => (1, 8, 3, 24, 0),
        5 => (1, 16, 6, 34, 0),
        6 => (1, 32, 8, 64, 0),
        7 => (1, 60, 30, 130, 0),
        8 => (2, 24, 12, 64, 1),
        _ => (2, 250, 125, 258, 3),
    };
    SearchParams {
        lazy_positions,
        depth,
        lazy_depth,
        nice_length,
        passes,
        skip_shift: if level <= MOST_BY_ROWS { 9 } else { 16 },
    }
}

/// Returns true if only matches of at least five bytes pay, for literals that cost `literal_bits`
/// eighths of a bit. `before` is the last result: a change requires indexing the history again, so
/// there is hysteresis.
pub(super) fn only_fives_pay(literal_bits: usize, before: bool) -> bool {
    literal_bits
        < if before {
            FIVES_TO_BITS
        } else {
            FIVES_FROM_BITS
        }
}

/// Maximum distance at which a match of each length pays, for a given cost of literals.
pub(super) struct MatchThresholds {
    farthest: [usize; LONG_MATCH],
    /// Shorter matches are not searched.
    least: usize,
}

impl MatchThresholds {
    /// `literal_bits` is in eighths of a bit.
    pub(super) fn new(literal_bits: usize) -> Self {
        let mut farthest = [0; LONG_MATCH];
        let mut least = LONG_MATCH;
        for length in (MIN_MATCH..LONG_MATCH).rev() {
            let left = (length * literal_bits).saturating_sub(MATCH_BITS) / 8;
            farthest[length] = 1 << left.min(15);
            if left >= WORTH_SEARCH {
                least = length;
            }
        }
        Self { farthest, least }
    }

    /// The distances indexed by the low four bits of the length; longer matches than 15 do not
    /// occur here.
    pub(super) fn by_length(&self) -> [usize; 16] {
        let mut farthest = [usize::MAX; 16];
        farthest[..LONG_MATCH].copy_from_slice(&self.farthest);
        farthest
    }

    #[inline(always)]
    pub(super) fn pays(&self, found: Match) -> bool {
        let farthest = self.farthest.get(found.length);
        found.distance > 0 && farthest.is_none_or(|farthest| found.distance <= *farthest)
    }
}

/// Chooses the symbols for the bytes from `start` to the position where the block should end, which
/// it returns. The bytes before `entered` are in the matcher's tables; advances `entered`.
/// `literal_bits` is the expected cost of a literal in eighths of a bit. `lists` must not be pairs.
#[allow(clippy::too_many_arguments)]
pub(super) fn parse(
    matcher: &mut Matcher,
    view: View<'_>,
    start: usize,
    entered: &mut usize,
    search_params: &SearchParams,
    lists: IndexConfig,
    literal_bits: usize,
    block: &mut DeflateBlock,
) -> usize {
    let worth = MatchThresholds::new(literal_bits);
    let threes = worth.least == MIN_MATCH;
    let mut parser = Parser {
        matcher,
        view,
        start,
        search_params,
        worth,
        block,
        splitter: BlockSplitter::new(),
        literals_from: start,
    };
    let end = choose(&mut parser, lists, threes);
    *entered = end.min(parser.last_entry());
    end
}

fn choose(parser: &mut Parser<'_, '_>, lists: IndexConfig, threes: bool) -> usize {
    by_cpu!(
        ["bmi1", "bmi2", "lzcnt"],
        choose_body(parser: &mut Parser<'_, '_>, lists: IndexConfig, threes: bool) -> usize
    )
}

#[inline(always)]
fn choose_body(parser: &mut Parser<'_, '_>, lists: IndexConfig, threes: bool) -> usize {
    match (parser.search_params.lazy_positions, lists.kind) {
        (0, _) => parser.run_by::<0, true>(lists.fives, threes),
        (1, IndexKind::Rows) => parser.run_by::<1, true>(lists.fives, threes),
        (1, _) => parser.run_by::<1, false>(lists.fives, threes),
        _ => parser.run_by::<2, false>(lists.fives, threes),
    }
}

struct Parser<'a, 'v> {
    matcher: &'a mut Matcher,
    view: View<'v>,
    start: usize,
    search_params: &'a SearchParams,
    worth: MatchThresholds,
    block: &'a mut DeflateBlock,
    splitter: BlockSplitter,
    /// The bytes from here to the next match are literals.
    literals_from: usize,
}

impl Parser<'_, '_> {
    /// Positions from here have fewer than four bytes before the end: they are indexed when the
    /// following bytes are known.
    fn last_entry(&self) -> usize {
        self.view.end().saturating_sub(3)
    }

    #[inline(always)]
    fn search(&self, at: usize, longer_than: usize, depth: u32) -> Search {
        let most = (self.view.end() - at).min(MAX_MATCH);
        Search {
            longer_than,
            most,
            nice_length: self.search_params.nice_length.min(most),
            depth,
        }
    }

    #[inline(always)]
    fn run_by<const LAZY: u8, const ROWS: bool>(&mut self, fives: bool, threes: bool) -> usize {
        match (fives, threes) {
            (true, _) => self.run::<LAZY, ROWS, FIVES>(),
            (_, true) => self.run::<LAZY, ROWS, THREES>(),
            _ => self.run::<LAZY, ROWS, FOURS>(),
        }
    }

    #[inline(always)]
    fn find<const ROWS: bool, const LISTS: u8>(&mut self, at: usize, search: Search) -> Match {
        if ROWS {
            self.matcher.find_in_row::<LISTS>(self.view, at, search)
        } else {
            self.matcher.find::<LISTS>(self.view, at, search)
        }
    }

    #[inline(always)]
    fn run<const LAZY: u8, const ROWS: bool, const LISTS: u8>(&mut self) -> usize {
        let end = self.view.end().min(self.start + MAX_BLOCK_BYTES);
        let last_entry = self.last_entry().min(end);
        let mut at = self.start;
        let least = self.worth.least;
        let mut symbols = self.splitter.next_check();
        while at < last_entry {
            if symbols == 0 {
                if self.block.is_full()
                    || self
                        .splitter
                        .ends_block(&self.block.frequencies, at - self.start, end - at)
                {
                    return at;
                }
                symbols = self.splitter.next_check();
            }
            symbols -= 1;
            let search = self.search(at, least - 1, self.search_params.depth);
            let mut found = self.find::<ROWS, LISTS>(at, search);
            if !self.worth.pays(found) {
                let more =
                    ((at - self.literals_from) >> self.search_params.skip_shift).min(MOST_LEFT_OUT);
                if more == 0 {
                    self.block.literal(self.view.byte(at), 1);
                    at += 1;
                } else {
                    let next = (at + 1 + more).min(end);
                    self.block.literals(self.view.span(at, next));
                    at = next;
                }
                continue;
            }
            let mut entered = at + 1;
            if LAZY > 0 {
                (at, found, entered) = self.try_lazy::<LAZY, ROWS, LISTS>(at, found, last_entry);
            }
            // A match must not exceed the block.
            let length = found.length.min(end - at);
            if length < MIN_MATCH {
                break;
            }
            let literals = at - self.literals_from;
            self.block.repeat(literals, length, found.distance);
            at += length;
            let index_end = at.min(last_entry);
            if ROWS {
                self.matcher.touch_row::<LISTS>(self.view, index_end);
            }
            if entered < index_end {
                let matcher = &mut self.matcher;
                matcher.enter::<ROWS, LISTS>(self.view, entered..index_end);
            }
            if length == MAX_MATCH {
                at = self.repeat_on::<ROWS, LISTS>(at, found.distance, end);
            }
            self.literals_from = at;
        }
        if at >= last_entry {
            // Too few bytes for a match.
            self.block.literals(self.view.span(at, end));
            return end;
        }
        at
    }

    /// Checks whether a match at the next or second next position is good enough to pay for the
    /// literals before it. Returns the position and match to take, and the end of the indexed
    /// positions.
    #[inline(always)]
    fn try_lazy<const LAZY: u8, const ROWS: bool, const LISTS: u8>(
        &mut self,
        mut at: usize,
        mut found: Match,
        last_entry: usize,
    ) -> (usize, Match, usize) {
        let mut entered = at + 1;
        while found.length < self.search_params.nice_length && at + 2 < last_entry {
            let search = self.search(at + 1, found.length - 1, self.search_params.lazy_depth);
            let next = self.find::<ROWS, LISTS>(at + 1, search);
            entered = at + 2;
            if next.distance > 0 && next.length >= found.length && gain(next, found) > 2 {
                self.block.literal(self.view.byte(at), 1);
                at += 1;
                found = next;
                continue;
            }
            if LAZY < 2 || at + 3 >= last_entry {
                break;
            }
            let search = self.search(at + 2, found.length - 1, self.search_params.lazy_depth / 2);
            let next = self.find::<ROWS, LISTS>(at + 2, search);
            entered = at + 3;
            if next.distance > 0 && next.length >= found.length && gain(next, found) > 6 {
                self.block.literal(self.view.byte(at), 1);
                self.block.literal(self.view.byte(at + 1), 1);
                at += 2;
                found = next;
                continue;
            }
            break;
        }
        (at, found, entered)
    }

    /// After a match of maximum length: continues at the same distance as long as the bytes repeat,
    /// without searching or indexing equivalent positions.
    #[inline(always)]
    fn repeat_on<const ROWS: bool, const LISTS: u8>(
        &mut self,
        start: usize,
        distance: usize,
        end: usize,
    ) -> usize {
        let at = repeat(self.view, start, end, distance, self.block);
        let index_end = at.min(self.last_entry());
        let tail = index_end.saturating_sub(RUN_TAIL).max(start.min(index_end));
        let matcher = &mut self.matcher;
        matcher.enter::<ROWS, LISTS>(self.view, tail..index_end);
        at
    }
}

/// After a match of maximum length: adds matches at the same distance to `block`, at most up to
/// `end`; returns the position after them.
#[cold]
pub(super) fn repeat(
    view: View<'_>,
    start: usize,
    end: usize,
    distance: usize,
    block: &mut DeflateBlock,
) -> usize {
    let mut left = view.same(start - distance, start, 0, end - start);
    let mut at = start;
    while left >= MIN_MATCH && !block.is_full() {
        let length = left.min(MAX_MATCH);
        block.repeat(0, length, distance);
        at += length;
        left -= length;
    }
    at
}

/// Estimated number of bits that `next` saves compared with `now`: four per additional byte, and
/// the difference of the distances' bits.
#[inline(always)]
fn gain(next: Match, now: Match) -> i32 {
    let longer = next.length as i32 - now.length as i32;
    4 * longer + now.distance.ilog2() as i32 - next.distance.ilog2() as i32
}
