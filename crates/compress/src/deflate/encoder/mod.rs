//! [`Engine`]: a payload in, a piece of the stream out.

mod bits;
mod block;
mod costs;
mod header;
mod huffman;
mod matcher;
mod pairs;
mod parse;
mod plan;
mod quick;
mod rows;
mod split;
mod translate;
mod write;

pub(crate) use bits::Carry;

use core::ops::Range;

use bits::{BitWriter, space_for};
use block::Block;
use matcher::{FIVES, Matcher, THREES, View};
use pairs::Pairs;
use plan::Planner;

use super::{Gaps, Window};
use crate::error::DeflateError;
use crate::form::Form;
use crate::provider::{Flush, HISTORY_BYTES};

/// What a literal is expected to take before anything is known, eighths of a bit: enough that matches
/// of three bytes are looked for. Data that has many of them loses a third without.
const USUAL_LITERAL_BITS: usize = 52;

/// What is tried of a payload that does not look worth it, bytes, and by which part of itself it
/// must become smaller.
const PROBE_BYTES: usize = 8 * 1024;
const PROBE_GAIN_PART: usize = 64;

/// What became of a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Appended to the output.
    Deflated,
    /// Deflate would have lost: nothing was appended, and the caller stores it.
    Stored,
}

/// A payload, what it may refer to, and how far apart their bytes stand in the stream.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) window: &'a Window,
    pub(crate) gaps: &'a Gaps,
}

/// What the matcher's tables are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Kind {
    /// For level 1.
    #[default]
    Pairs,
    /// For levels that look at few places.
    Rows,
    /// For those that look at many.
    Chains,
}

/// How positions are entered into the matcher's tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Lists {
    kind: Kind,
    /// By five bytes, not by four and three.
    fives: bool,
}

impl Lists {
    fn enter(self, matcher: &mut Matcher, view: View<'_>, positions: Range<usize>) {
        match (self.kind, self.fives) {
            (Kind::Pairs, true) => Pairs::<true>::new(matcher, view).enter_all(positions),
            (Kind::Pairs, false) => Pairs::<false>::new(matcher, view).enter_all(positions),
            (Kind::Rows, true) => matcher.enter::<true, FIVES>(view, positions),
            (Kind::Rows, false) => matcher.enter::<true, THREES>(view, positions),
            (Kind::Chains, true) => matcher.enter::<false, FIVES>(view, positions),
            (Kind::Chains, false) => matcher.enter::<false, THREES>(view, positions),
        }
    }
}

/// Tables and memory of one encoder. Belongs to one thread at a time and to no stream: it may
/// change windows between any two payloads.
pub(crate) struct Engine {
    matcher: Matcher,
    block: Block,
    planner: Planner,
    scratch: Vec<u8>,
    /// Positions of the window before this are in the matcher's tables, or not worth it.
    entered: usize,
    /// How what is in them was entered.
    lists: Lists,
    /// Length of the window when it was last seen.
    seen: usize,
    /// Eighths of a bit that a literal took in the last block with codes of its own.
    literal_bits: usize,
}

impl Engine {
    pub(crate) fn new() -> Self {
        Self {
            matcher: Matcher::new(),
            block: Block::new(),
            planner: Planner::default(),
            scratch: Vec::new(),
            entered: 0,
            lists: Lists::default(),
            seen: 0,
            literal_bits: USUAL_LITERAL_BITS,
        }
    }

    /// The window lost `cut` bytes at its front.
    pub(crate) fn shift(&mut self, cut: usize) {
        if cut > 0 {
            self.matcher.shift(cut);
            self.entered = self.entered.saturating_sub(cut);
            self.seen = self.seen.saturating_sub(cut);
        }
    }

    /// The next payload comes with another window, whose history is entered first.
    pub(crate) fn change_window(&mut self) {
        self.matcher.forget(self.seen);
        self.entered = 0;
        self.seen = 0;
        self.literal_bits = USUAL_LITERAL_BITS;
    }

    /// Forgets everything: another channel is next, whose output must not depend on this one.
    pub(crate) fn clear(&mut self) {
        self.matcher.clear();
        self.lists = Lists::default();
        self.entered = 0;
        self.seen = 0;
        self.literal_bits = USUAL_LITERAL_BITS;
    }

    /// Appends to `out` the deflated form of `source`'s window from `start` on, behind `carry`,
    /// flushed. What stands before `start` is the history.
    ///
    /// # Errors
    /// [`DeflateError`] is a defect of ours; `out` and `carry` are then as before.
    pub(crate) fn encode(
        &mut self,
        source: Source<'_>,
        start: usize,
        level: u8,
        flush: Flush,
        carry: &mut Carry,
        out: &mut Vec<u8>,
    ) -> Result<Piece, DeflateError> {
        let end = source.window.len();
        self.encode_span(source, start, end, level, flush, carry, out)
    }

    /// The same for the bytes from `start` to `end`, behind which others may stand.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn encode_span(
        &mut self,
        source: Source<'_>,
        start: usize,
        end: usize,
        level: u8,
        flush: Flush,
        carry: &mut Carry,
        out: &mut Vec<u8>,
    ) -> Result<Piece, DeflateError> {
        let (before, carried) = (out.len(), *carry);
        let view = View::new(source.window.with_slack(), end);
        let effort = parse::effort(level);
        let lists = Lists {
            kind: match level {
                ..=1 => Kind::Pairs,
                2..=parse::MOST_BY_ROWS => Kind::Rows,
                _ => Kind::Chains,
            },
            fives: effort.passes == 0 && parse::only_fives_pay(self.literal_bits, self.lists.fives),
        };
        if lists != self.lists {
            self.lists = lists;
            self.entered = 0;
        }
        self.seen = end;
        let history = self.entered.max(start.saturating_sub(HISTORY_BYTES));
        let known = start.min(end.saturating_sub(3));
        if history < known {
            lists.enter(&mut self.matcher, view, history..known);
        }
        self.entered = self.entered.max(known);
        let stored = stored_bytes(end - start, carried);
        let mut at = start;
        while at < end {
            self.block.clear();
            let matcher = &mut self.matcher;
            let entered = &mut self.entered;
            let (literal_bits, block) = (self.literal_bits, &mut self.block);
            let behind = if lists.kind == Kind::Pairs {
                let fives = lists.fives;
                quick::parse(matcher, view, at, entered, fives, literal_bits, block)
            } else if plan::is_worth(view, at, &effort) {
                let planner = &mut self.planner;
                planner.parse(matcher, view, at, entered, &effort, literal_bits, block)
            } else {
                let effort = &effort;
                parse::parse(
                    matcher,
                    view,
                    at,
                    entered,
                    effort,
                    lists,
                    literal_bits,
                    block,
                )
            };
            if !source.gaps.is_empty() {
                self.block.translate(view, at..behind, source.gaps);
            }
            let written = self
                .block
                .write(view, at..behind, *carry, &mut self.scratch);
            let Some((bytes, behind_it)) = written else {
                out.truncate(before);
                *carry = carried;
                return Err(DeflateError);
            };
            out.extend_from_slice(bytes);
            if let Some(bits) = self.block.literal_bits() {
                self.literal_bits = bits;
            }
            *carry = behind_it;
            at = behind;
        }
        flush_behind(flush, carry, out);
        if start < end && out.len() - before >= stored {
            out.truncate(before);
            *carry = carried;
            return Ok(Piece::Stored);
        }
        Ok(Piece::Deflated)
    }
}

impl Engine {
    /// Frees what only large payloads at a high level need.
    pub(crate) fn shed(&mut self) {
        self.planner.shed();
    }

    /// Whether [`Engine::shed`] would free anything.
    pub(crate) fn is_spread(&self) -> bool {
        self.planner.is_spread()
    }

    #[cfg(test)]
    pub(crate) fn is_clear(&self) -> bool {
        self.matcher.is_clear()
            && (self.lists, self.literal_bits) == (Lists::default(), USUAL_LITERAL_BITS)
            && (self.entered, self.seen) == (0, 0)
    }

    #[cfg(test)]
    pub(crate) fn plan_bytes(&self) -> usize {
        self.planner.bytes()
    }

    /// Whether the beginning of what stands from `start` to `end` becomes smaller with little
    /// effort. Its bytes are then in the tables already, and match worse than they could.
    pub(crate) fn gains(&mut self, source: Source<'_>, start: usize, end: usize) -> bool {
        let end = end.min(start + PROBE_BYTES);
        let mut out = Vec::new();
        let carry = &mut Carry::default();
        let piece = self.encode_span(source, start, end, 1, Flush::Sync, carry, &mut out);
        let length = end - start;
        matches!(piece, Ok(Piece::Deflated)) && out.len() < length - length / PROBE_GAIN_PART
    }
}

/// Bytes that stored blocks for `length` bytes take behind `carry`.
fn stored_bytes(length: usize, carry: Carry) -> usize {
    let blocks = length.div_ceil(block::MAX_BLOCK_BYTES).max(1);
    length + 5 * blocks + usize::from(carry.count > 5)
}

/// Appends `plain` in stored blocks, or only what comes before it where one block holds all of it;
/// the stream ends on a byte behind it.
pub(crate) fn store(plain: &[u8], carry: &mut Carry, out: &mut Vec<u8>) -> Form {
    let carry = core::mem::take(carry);
    if plain.len() <= block::MAX_BLOCK_BYTES {
        block::store_header(plain.len(), carry, out);
        Form::Stored
    } else {
        block::store(plain, carry, out);
        Form::Compressed
    }
}

/// Appends an empty block behind which the peer can inflate all that went before.
pub(crate) fn flush_behind(flush: Flush, carry: &mut Carry, out: &mut Vec<u8>) {
    match flush {
        Flush::Sync => {
            block::store_header(0, *carry, out);
            *carry = Carry::default();
        }
        Flush::Partial => {
            let mut space = [0; 32];
            debug_assert!(space.len() >= space_for(10));
            let mut bits = BitWriter::new(&mut space, *carry);
            bits.add(0b010, 10);
            if let Some((bytes, behind)) = bits.finish() {
                out.extend_from_slice(bytes);
                *carry = behind;
            }
        }
    }
}
