//! Level 1: the better of the two last places with the same four bytes, taken at once.
//!
//! A place is 16 bits, the two of a hash one word: entering a position is one load and one store.
//! Where nothing has repeated for a while, positions are left out.

use super::block::{Block, MAX_BLOCK_BYTES};
use super::matcher::{Match, Matcher, View};
use super::parse::{RUN_TAIL, Worth};
use super::split::Splitter;
use crate::deflate::symbols::{MAX_MATCH, MIN_MATCH};

/// A shorter match waits for what the next position has.
const SHORT: usize = 20;
/// A match of so many bytes ends the search for a better one.
const ENOUGH: usize = 32;
/// Positions without a match, as the logarithm to base 2, after which one more of them is left
/// out each time.
const PATIENCE_BITS: u32 = 8;

/// As [`parse`](super::parse::parse), with less effort.
pub(super) fn parse(
    matcher: &mut Matcher,
    view: View<'_>,
    start: usize,
    entered: &mut usize,
    literal_bits: usize,
    block: &mut Block,
) -> usize {
    let mut parser = Parser {
        matcher,
        view,
        end: view.end().min(start + MAX_BLOCK_BYTES),
        worth: Worth::new(literal_bits),
        block,
        splitter: Splitter::new(),
        start,
        literals_from: start,
    };
    let end = parser.run();
    *entered = end.min(view.end().saturating_sub(3));
    end
}

struct Parser<'a, 'v> {
    matcher: &'a mut Matcher,
    view: View<'v>,
    /// Where the block ends at the latest.
    end: usize,
    worth: Worth,
    block: &'a mut Block,
    splitter: Splitter,
    start: usize,
    /// What is before this is in the block.
    literals_from: usize,
}

impl Parser<'_, '_> {
    fn run(&mut self) -> usize {
        let last_entry = self.view.end().saturating_sub(3).min(self.end);
        let mut at = self.start;
        let mut symbols = 0_usize;
        while at < last_entry {
            let mut found = self.find(at);
            if !self.worth.pays(found) {
                at += 1 + ((at - self.literals_from) >> PATIENCE_BITS);
                continue;
            }
            let mut entered = at + 1;
            if found.length < SHORT && entered < last_entry {
                let next = self.find(entered);
                entered += 1;
                if next.length > found.length {
                    at += 1;
                    found = next;
                }
            }
            let length = found.length.min(self.end - at);
            if length < MIN_MATCH {
                break;
            }
            symbols += 1 + at - self.literals_from;
            self.literals(at);
            self.block.repeat(length, found.distance);
            let behind = (at + length).min(last_entry);
            if length == MAX_MATCH {
                at = self.repeat_on(at + length, found.distance);
            } else {
                self.matcher.enter_pairs(self.view, entered..behind);
                at += length;
            }
            self.literals_from = at;
            if symbols >= self.splitter.next_check() as usize {
                symbols = 0;
                let (bytes, left) = (at - self.start, self.end - at);
                let frequencies = &self.block.frequencies;
                if self.block.is_full() || self.splitter.ends_block(frequencies, bytes, left) {
                    return at;
                }
            }
        }
        self.literals(self.end);
        self.end
    }

    #[inline(always)]
    fn find(&mut self, at: usize) -> Match {
        let word = self.view.four(at);
        let (first, second) = self.matcher.enter_pair(word, at);
        self.matcher.prefetch_pair(self.view, at + 1);
        let most = (self.view.end() - at).min(MAX_MATCH);
        let reach = Matcher::reach(at);
        let mut best = Match {
            length: 0,
            distance: 0,
        };
        if first.wrapping_sub(1) < reach && self.view.four(at.wrapping_sub(first)) == word {
            best.length = self.view.same(at.wrapping_sub(first), at, 4, most);
            best.distance = first;
        }
        if best.length < ENOUGH
            && second.wrapping_sub(1) < reach
            && self.view.four(at.wrapping_sub(second)) == word
        {
            let length = self.view.same(at.wrapping_sub(second), at, 4, most);
            if length > best.length {
                best = Match {
                    length,
                    distance: second,
                };
            }
        }
        best
    }

    /// What has no match up to `at`.
    #[inline(always)]
    fn literals(&mut self, at: usize) {
        self.block.literals(self.view.span(self.literals_from, at));
    }

    /// Behind a longest match: goes on at the same distance as long as the bytes do.
    fn repeat_on(&mut self, start: usize, distance: usize) -> usize {
        let mut left = self.view.same(start - distance, start, 0, self.end - start);
        let mut at = start;
        while left >= MIN_MATCH && !self.block.is_full() {
            let length = left.min(MAX_MATCH);
            self.block.repeat(length, distance);
            at += length;
            left -= length;
        }
        let behind = at.min(self.view.end().saturating_sub(3));
        let tail = behind.saturating_sub(RUN_TAIL).max(start.min(behind));
        self.matcher.enter_pairs(self.view, tail..behind);
        at
    }
}
