//! Which matches are taken: the first that is found, or one that a position or two further is
//! better.

use super::block::{Block, MAX_BLOCK_BYTES};
use super::matcher::{FIVES, FOURS, Match, Matcher, Search, THREES, View};
use super::split::Splitter;
use super::{Kind, Lists};
use crate::deflate::symbols::{MAX_MATCH, MIN_MATCH};

/// What a match takes beside the bits of its distance, in eighths of a bit: its length's symbol,
/// and its distance's without what is as much as the distance's own bits.
const MATCH_BITS: usize = 8 * 10;
/// A length is looked for if it pays from as far away as this, as the logarithm to base 2.
const WORTH_SEARCH: usize = 9;
/// Literals that take less, eighths of a bit, make matches of four bytes not worth searching, from
/// as far away as [`WORTH_SEARCH`].
const FIVES_FROM_BITS: usize = 38;
/// What they must take for that to end.
const FIVES_TO_BITS: usize = 42;
/// Matches of this length always pay.
const LONG_MATCH: usize = 8;
/// Positions at the end of a long run that are entered; those before them are like these.
pub(super) const RUN_TAIL: usize = 16;

/// The most positions that are left out where nothing has repeated for long.
const MOST_LEFT_OUT: usize = 7;

/// What a level does.
#[derive(Debug, Clone, Copy)]
pub(super) struct Effort {
    /// Positions further on that are looked at before a match is taken: 0 to 2.
    pub(super) patience: u8,
    /// Places that are looked at.
    pub(super) depth: u32,
    /// The same at the position behind a match, where only a longer one counts.
    pub(super) later_depth: u32,
    /// A match of so many bytes is taken at once.
    pub(super) enough: usize,
    /// How often [`plan`](super::plan) goes over a block; 0: what is found is taken at once.
    pub(super) passes: u8,
    /// Literals in a row, as the logarithm to base 2, after which one more position is left out
    /// each time, up to [`MOST_LEFT_OUT`].
    pub(super) persistence: u8,
}

/// The highest level that searches in [`rows`](super::rows).
pub(super) const MOST_BY_ROWS: u8 = 6;

/// The effort of a level, 2 to 9; [`quick`](super::quick) is level 1.
pub(super) fn effort(level: u8) -> Effort {
    let (patience, depth, later_depth, enough, passes) = match level {
        ..=2 => (0, 6, 0, 16, 0),
        3 => (0, 12, 0, 24, 0),
        4 => (1, 8, 3, 24, 0),
        5 => (1, 16, 6, 34, 0),
        6 => (1, 32, 8, 64, 0),
        7 => (1, 60, 30, 130, 0),
        8 => (2, 24, 12, 64, 1),
        _ => (2, 250, 125, 258, 3),
    };
    Effort {
        patience,
        depth,
        later_depth,
        enough,
        passes,
        persistence: if level <= MOST_BY_ROWS { 9 } else { 16 },
    }
}

/// Whether only matches of five bytes and more pay, where literals take so many eighths of a bit.
/// Tables change rarely, as that costs entering the history again: `before` is what was said last.
pub(super) fn only_fives_pay(literal_bits: usize, before: bool) -> bool {
    literal_bits
        < if before {
            FIVES_TO_BITS
        } else {
            FIVES_FROM_BITS
        }
}

/// How far away a match of each length may be to pay, where a literal takes so many bits.
pub(super) struct Worth {
    farthest: [usize; LONG_MATCH],
    /// Shorter ones are not looked for.
    least: usize,
}

impl Worth {
    /// `literal_bits` is in eighths.
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

    /// The same by the length's low four bits, of which more than [`LONG_MATCH`] do not occur.
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

/// Chooses what stands for the bytes from `start`, up to where a block should end; returns that
/// place. The bytes before `entered` are in the matcher's tables; it moves with what is entered.
/// Literals are expected to take `literal_bits` eighths of a bit. The tables are `lists`, which are
/// not pairs.
#[allow(clippy::too_many_arguments)]
pub(super) fn parse(
    matcher: &mut Matcher,
    view: View<'_>,
    start: usize,
    entered: &mut usize,
    effort: &Effort,
    lists: Lists,
    literal_bits: usize,
    block: &mut Block,
) -> usize {
    let worth = Worth::new(literal_bits);
    let threes = worth.least == MIN_MATCH;
    let mut parser = Parser {
        matcher,
        view,
        start,
        effort,
        worth,
        block,
        splitter: Splitter::new(),
        literals_from: start,
    };
    let end = choose(&mut parser, lists, threes);
    *entered = end.min(parser.last_entry());
    end
}

fn choose(parser: &mut Parser<'_, '_>, lists: Lists, threes: bool) -> usize {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("lzcnt")
    {
        // SAFETY: the CPU has what the function needs.
        return unsafe { choose_bmi2(parser, lists, threes) };
    }
    choose_body(parser, lists, threes)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "bmi1,bmi2,lzcnt")]
fn choose_bmi2(parser: &mut Parser<'_, '_>, lists: Lists, threes: bool) -> usize {
    choose_body(parser, lists, threes)
}

#[inline(always)]
fn choose_body(parser: &mut Parser<'_, '_>, lists: Lists, threes: bool) -> usize {
    match (parser.effort.patience, lists.kind) {
        (0, _) => parser.run_by::<0, true>(lists.fives, threes),
        (1, Kind::Rows) => parser.run_by::<1, true>(lists.fives, threes),
        (1, _) => parser.run_by::<1, false>(lists.fives, threes),
        _ => parser.run_by::<2, false>(lists.fives, threes),
    }
}

struct Parser<'a, 'v> {
    matcher: &'a mut Matcher,
    view: View<'v>,
    start: usize,
    effort: &'a Effort,
    worth: Worth,
    block: &'a mut Block,
    splitter: Splitter,
    /// What is from here up to where the next match is found are literals.
    literals_from: usize,
}

impl Parser<'_, '_> {
    /// Positions from here on have fewer than four bytes before the end: they are entered when
    /// it is known what follows.
    fn last_entry(&self) -> usize {
        self.view.end().saturating_sub(3)
    }

    #[inline(always)]
    fn search(&self, at: usize, longer_than: usize, depth: u32) -> Search {
        let most = (self.view.end() - at).min(MAX_MATCH);
        Search {
            longer_than,
            most,
            enough: self.effort.enough.min(most),
            depth,
        }
    }

    #[inline(always)]
    fn run_by<const PATIENCE: u8, const ROWS: bool>(&mut self, fives: bool, threes: bool) -> usize {
        match (fives, threes) {
            (true, _) => self.run::<PATIENCE, ROWS, FIVES>(),
            (_, true) => self.run::<PATIENCE, ROWS, THREES>(),
            _ => self.run::<PATIENCE, ROWS, FOURS>(),
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
    fn run<const PATIENCE: u8, const ROWS: bool, const LISTS: u8>(&mut self) -> usize {
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
            let search = self.search(at, least - 1, self.effort.depth);
            let mut found = self.find::<ROWS, LISTS>(at, search);
            if !self.worth.pays(found) {
                let more =
                    ((at - self.literals_from) >> self.effort.persistence).min(MOST_LEFT_OUT);
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
            if PATIENCE > 0 {
                (at, found, entered) = self.wait::<PATIENCE, ROWS, LISTS>(at, found, last_entry);
            }
            // Nothing of a block may lie behind its end.
            let length = found.length.min(end - at);
            if length < MIN_MATCH {
                break;
            }
            let literals = at - self.literals_from;
            self.block.repeat(literals, length, found.distance);
            at += length;
            let behind = at.min(last_entry);
            if ROWS {
                self.matcher.touch_row::<LISTS>(self.view, behind);
            }
            if entered < behind {
                let matcher = &mut self.matcher;
                matcher.enter::<ROWS, LISTS>(self.view, entered..behind);
            }
            if length == MAX_MATCH {
                at = self.repeat_on::<ROWS, LISTS>(at, found.distance, end);
            }
            self.literals_from = at;
        }
        if at >= last_entry {
            // Too few for a match.
            self.block.literals(self.view.span(at, end));
            return end;
        }
        at
    }

    /// Looks whether a match one or two positions on is so much better that literals before it
    /// pay. Returns where a match is taken, which, and up to where positions are entered.
    #[inline(always)]
    fn wait<const PATIENCE: u8, const ROWS: bool, const LISTS: u8>(
        &mut self,
        mut at: usize,
        mut found: Match,
        last_entry: usize,
    ) -> (usize, Match, usize) {
        let mut entered = at + 1;
        while found.length < self.effort.enough && at + 2 < last_entry {
            let search = self.search(at + 1, found.length - 1, self.effort.later_depth);
            let next = self.find::<ROWS, LISTS>(at + 1, search);
            entered = at + 2;
            if next.distance > 0 && next.length >= found.length && gain(next, found) > 2 {
                self.block.literal(self.view.byte(at), 1);
                at += 1;
                found = next;
                continue;
            }
            if PATIENCE < 2 || at + 3 >= last_entry {
                break;
            }
            let search = self.search(at + 2, found.length - 1, self.effort.later_depth / 2);
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

    /// Behind a longest match: goes on at the same distance as long as the bytes do, without
    /// searching or entering what is all the same.
    #[inline(always)]
    fn repeat_on<const ROWS: bool, const LISTS: u8>(
        &mut self,
        start: usize,
        distance: usize,
        end: usize,
    ) -> usize {
        let at = repeat(self.view, start, end, distance, self.block);
        let behind = at.min(self.last_entry());
        let tail = behind.saturating_sub(RUN_TAIL).max(start.min(behind));
        let matcher = &mut self.matcher;
        matcher.enter::<ROWS, LISTS>(self.view, tail..behind);
        at
    }
}

/// Behind a longest match: puts into `block` what goes on at the same distance, up to `end` at most;
/// returns where that ends.
#[cold]
pub(super) fn repeat(
    view: View<'_>,
    start: usize,
    end: usize,
    distance: usize,
    block: &mut Block,
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

/// About how many bits `next` saves against `now`: four for each byte more, and what its
/// distance takes less.
#[inline(always)]
fn gain(next: Match, now: Match) -> i32 {
    let longer = next.length as i32 - now.length as i32;
    4 * longer + now.distance.ilog2() as i32 - next.distance.ilog2() as i32
}
