//! [`Engine`]: encodes payloads to pieces of a deflate stream.

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
use block::DeflateBlock;
use matcher::{FIVES, Matcher, THREES, View};
use pairs::Pairs;
use plan::Planner;

use super::{Gaps, Window};
use crate::error::DeflateError;
use crate::form::Form;
use crate::provider::{Flush, HISTORY_BYTES};

/// Initial estimate of a literal's cost in eighths of a bit: high enough that matches of three
/// bytes are searched for. Without them, data that has many would become a third larger.
const USUAL_LITERAL_BITS: usize = 52;

/// Number of bytes that a test of compressibility encodes, and the fraction (1/64) by which they
/// must become smaller.
const PROBE_BYTES: usize = 8 * 1024;
const PROBE_GAIN_PART: usize = 64;

/// Result of encoding a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EncodeOutcome {
    /// Appended to the output.
    Deflated,
    /// Deflating would not save anything: nothing was appended, and the caller stores the payload.
    Stored,
}

/// A payload with its history, and the gaps between their bytes in the stream.
#[derive(Clone, Copy)]
pub(crate) struct PayloadSource<'a> {
    pub(crate) window: &'a Window,
    pub(crate) gaps: &'a Gaps,
}

/// Data structure of the matcher's tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum IndexKind {
    /// For level 1.
    #[default]
    Pairs,
    /// For levels that examine few positions.
    Rows,
    /// For levels that examine many positions.
    Chains,
}

/// How positions are indexed in the matcher's tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct IndexConfig {
    kind: IndexKind,
    /// Indexed by five bytes instead of four and three.
    fives: bool,
}

impl IndexConfig {
    fn enter(self, matcher: &mut Matcher, view: View<'_>, positions: Range<usize>) {
        match (self.kind, self.fives) {
            (IndexKind::Pairs, true) => Pairs::<true>::new(matcher, view).enter_all(positions),
            (IndexKind::Pairs, false) => Pairs::<false>::new(matcher, view).enter_all(positions),
            (IndexKind::Rows, true) => matcher.enter::<true, FIVES>(view, positions),
            (IndexKind::Rows, false) => matcher.enter::<true, THREES>(view, positions),
            (IndexKind::Chains, true) => matcher.enter::<false, FIVES>(view, positions),
            (IndexKind::Chains, false) => matcher.enter::<false, THREES>(view, positions),
        }
    }
}

/// Tables and memory of one encoder. Used by one thread at a time, and bound to no stream: it may
/// change windows between any two payloads.
pub(crate) struct Engine {
    matcher: Matcher,
    block: DeflateBlock,
    planner: Planner,
    scratch: Vec<u8>,
    /// Positions of the window before this are in the matcher's tables, or were skipped.
    indexed_to: usize,
    /// How the positions in the tables were indexed.
    lists: IndexConfig,
    /// Length of the window at the last call.
    window_len: usize,
    /// Average cost of a literal, in eighths of a bit, in the last block with codes of its own.
    literal_bits: usize,
}

impl Engine {
    pub(crate) fn new() -> Self {
        Self {
            matcher: Matcher::new(),
            block: DeflateBlock::new(),
            planner: Planner::default(),
            scratch: Vec::new(),
            indexed_to: 0,
            lists: IndexConfig::default(),
            window_len: 0,
            literal_bits: USUAL_LITERAL_BITS,
        }
    }

    /// Adjusts the positions after `cut` bytes were removed from the window's front.
    pub(crate) fn shift(&mut self, cut: usize) {
        if cut > 0 {
            self.matcher.shift(cut);
            self.indexed_to = self.indexed_to.saturating_sub(cut);
            self.window_len = self.window_len.saturating_sub(cut);
        }
    }

    /// Prepares for another window, whose history has to be indexed first.
    pub(crate) fn change_window(&mut self) {
        self.matcher.forget(self.window_len);
        self.indexed_to = 0;
        self.window_len = 0;
        self.literal_bits = USUAL_LITERAL_BITS;
    }

    /// Clears everything, before data of another channel, whose encoding must not depend on this
    /// one.
    pub(crate) fn clear(&mut self) {
        self.matcher.clear();
        self.lists = IndexConfig::default();
        self.indexed_to = 0;
        self.window_len = 0;
        self.literal_bits = USUAL_LITERAL_BITS;
    }

    /// Appends to `out`, after `carry`, the deflated and flushed form of `source`'s window from
    /// `start`. The bytes before `start` are the history.
    ///
    /// # Errors
    /// [`DeflateError`] means a bug; `out` and `carry` are then unchanged.
    pub(crate) fn encode(
        &mut self,
        source: PayloadSource<'_>,
        start: usize,
        level: u8,
        flush: Flush,
        carry: &mut Carry,
        out: &mut Vec<u8>,
    ) -> Result<EncodeOutcome, DeflateError> {
        let end = source.window.len();
        self.encode_span(source, start, end, level, flush, carry, out)
    }

    /// Like [`Engine::encode`], for the bytes from `start` to `end`, after which others may follow.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn encode_span(
        &mut self,
        source: PayloadSource<'_>,
        start: usize,
        end: usize,
        level: u8,
        flush: Flush,
        carry: &mut Carry,
        out: &mut Vec<u8>,
    ) -> Result<EncodeOutcome, DeflateError> {
        let (before, carried) = (out.len(), *carry);
        let view = View::new(source.window.with_slack(), end);
        let effort = parse::search_params(level);
        let lists = IndexConfig {
            kind: match level {
                ..=1 => IndexKind::Pairs,
                2..=parse::MOST_BY_ROWS => IndexKind::Rows,
                _ => IndexKind::Chains,
            },
            fives: effort.passes == 0 && parse::only_fives_pay(self.literal_bits, self.lists.fives),
        };
        if lists != self.lists {
            self.lists = lists;
            self.indexed_to = 0;
        }
        self.window_len = end;
        let history = self.indexed_to.max(start.saturating_sub(HISTORY_BYTES));
        let known = start.min(end.saturating_sub(3));
        if history < known {
            lists.enter(&mut self.matcher, view, history..known);
        }
        self.indexed_to = self.indexed_to.max(known);
        let stored = stored_bytes(end - start, carried);
        let mut at = start;
        while at < end {
            self.block.clear();
            let matcher = &mut self.matcher;
            let indexed_to = &mut self.indexed_to;
            let (literal_bits, block) = (self.literal_bits, &mut self.block);
            let block_end = if lists.kind == IndexKind::Pairs {
                let fives = lists.fives;
                quick::parse(matcher, view, at, indexed_to, fives, literal_bits, block)
            } else if plan::is_worth(view, at, &effort) {
                let planner = &mut self.planner;
                planner.parse(matcher, view, at, indexed_to, &effort, literal_bits, block)
            } else {
                let effort = &effort;
                parse::parse(
                    matcher,
                    view,
                    at,
                    indexed_to,
                    effort,
                    lists,
                    literal_bits,
                    block,
                )
            };
            if !source.gaps.is_empty() {
                self.block.translate(view, at..block_end, source.gaps);
            }
            let written = self
                .block
                .write(view, at..block_end, *carry, &mut self.scratch);
            let Some((bytes, next_carry)) = written else {
                out.truncate(before);
                *carry = carried;
                return Err(DeflateError);
            };
            out.extend_from_slice(bytes);
            if let Some(bits) = self.block.literal_bits() {
                self.literal_bits = bits;
            }
            *carry = next_carry;
            at = block_end;
        }
        append_flush(flush, carry, out);
        if start < end && out.len() - before >= stored {
            out.truncate(before);
            *carry = carried;
            return Ok(EncodeOutcome::Stored);
        }
        Ok(EncodeOutcome::Deflated)
    }
}

impl Engine {
    /// Frees memory that only large payloads at high levels need.
    pub(crate) fn shed(&mut self) {
        self.planner.shed();
    }

    /// Returns true if [`Engine::shed`] would free anything.
    pub(crate) fn has_spare(&self) -> bool {
        self.planner.has_spare()
    }

    #[cfg(test)]
    pub(crate) fn is_clear(&self) -> bool {
        self.matcher.is_clear()
            && (self.lists, self.literal_bits) == (IndexConfig::default(), USUAL_LITERAL_BITS)
            && (self.indexed_to, self.window_len) == (0, 0)
    }

    #[cfg(test)]
    pub(crate) fn plan_bytes(&self) -> usize {
        self.planner.bytes()
    }

    /// Returns true if the beginning of the bytes from `start` to `end` becomes smaller with little
    /// effort. These bytes are then already in the tables, which makes later matches slightly
    /// worse.
    pub(crate) fn gains(&mut self, source: PayloadSource<'_>, start: usize, end: usize) -> bool {
        let end = end.min(start + PROBE_BYTES);
        let mut out = Vec::new();
        let carry = &mut Carry::default();
        let outcome = self.encode_span(source, start, end, 1, Flush::Sync, carry, &mut out);
        let length = end - start;
        matches!(outcome, Ok(EncodeOutcome::Deflated))
            && out.len() < length - length / PROBE_GAIN_PART
    }
}

/// Size of stored blocks for `length` bytes after `carry`.
fn stored_bytes(length: usize, carry: Carry) -> usize {
    let blocks = length.div_ceil(block::MAX_BLOCK_BYTES).max(1);
    length + 5 * blocks + usize::from(carry.count > 5)
}

/// Appends `plain` in stored blocks, or only the header if one block suffices. The stream then ends
/// on a byte.
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

/// Appends an empty block, so that the peer can inflate everything before it.
pub(crate) fn append_flush(flush: Flush, carry: &mut Carry, out: &mut Vec<u8>) {
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
            if let Some((bytes, next_carry)) = bits.finish() {
                out.extend_from_slice(bytes);
                *carry = next_carry;
            }
        }
    }
}
