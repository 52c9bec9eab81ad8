//! Decodes the symbols of a block into the window: with the [`fast`] loop while input and output
//! are far from their ends, and a careful one for the rest.

use super::fast::{copy, fast};
use super::tables::{
    DISTANCE_BITS, DISTANCE_ENTRIES, DecodeEntry, END, INVALID, LITERAL, LITLEN_BITS,
    LITLEN_ENTRIES, SECOND, SPECIAL,
};
use crate::deflate::SLACK_BYTES;

/// Decoding tables of a block.
pub(super) struct Tables {
    pub(super) litlen: [DecodeEntry; LITLEN_ENTRIES],
    pub(super) distance: [DecodeEntry; DISTANCE_ENTRIES],
}

/// The bit buffer, with the next bit lowest, and the input after it.
#[derive(Clone, Copy)]
pub(super) struct Input<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
    pub(super) bits: u64,
    pub(super) count: u32,
}

/// Why decoding stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    EndOfBlock,
    /// The input ends within a symbol, of which nothing was consumed.
    InputEnded,
    /// The next symbol does not fit into the output; nothing of it was consumed.
    OutputFull,
    Corrupt,
}

impl Input<'_> {
    /// Number of unused bits in total.
    pub(super) fn left(&self) -> usize {
        self.count as usize + (self.bytes.len() - self.at) * 8
    }

    /// Reads bytes until the buffer has 56 to 63 bits, or the input ends.
    #[inline(always)]
    pub(super) fn refill_carefully(&mut self) {
        while self.count < 56
            && let Some(byte) = self.bytes.get(self.at)
        {
            self.bits |= u64::from(*byte) << self.count;
            self.count += 8;
            self.at += 1;
        }
    }

    /// Returns the next bits without consuming them.
    #[inline(always)]
    pub(super) fn peek(&self, count: u32) -> u32 {
        (self.bits & ((1 << count) - 1)) as u32
    }

    #[inline(always)]
    pub(super) fn skip(&mut self, count: u32) {
        self.bits >>= count;
        self.count -= count;
    }
}

/// Decodes symbols into `window` from `at` up to `end`, and advances `at`. Up to [`SLACK_BYTES`]
/// after `end` may be overwritten.
///
/// # Panics
/// If fewer than [`SLACK_BYTES`] follow `end`.
pub(super) fn symbols(
    tables: &Tables,
    input: &mut Input<'_>,
    window: &mut [u8],
    at: &mut usize,
    end: usize,
) -> Stop {
    assert!(*at <= end && end <= window.len() && window.len() - end >= SLACK_BYTES);
    if let Some(stop) = fast(tables, input, window, at, end) {
        return stop;
    }
    careful(tables, input, window, at, end)
}

/// Decodes one symbol at a time, checking the number of available bits.
fn careful(
    tables: &Tables,
    input: &mut Input<'_>,
    window: &mut [u8],
    at: &mut usize,
    end: usize,
) -> Stop {
    loop {
        input.refill_carefully();
        let mut symbol = *input;
        let (entry, bits) = match code(&mut symbol, &tables.litlen, LITLEN_BITS) {
            Ok(found) => found,
            Err(stop) => return stop,
        };
        if entry & LITERAL != 0 {
            if *at >= end {
                return Stop::OutputFull;
            }
            window[*at] = (entry >> 16) as u8;
            *at += 1;
            symbol.skip(bits);
            *input = symbol;
            continue;
        }
        if entry & END != 0 {
            symbol.skip(bits);
            *input = symbol;
            return Stop::EndOfBlock;
        }
        let Some(length) = value(&mut symbol, entry) else {
            return Stop::InputEnded;
        };
        symbol.refill_carefully();
        let entry = match code(&mut symbol, &tables.distance, DISTANCE_BITS) {
            Ok((entry, _)) => entry,
            Err(stop) => return stop,
        };
        let Some(distance) = value(&mut symbol, entry) else {
            return Stop::InputEnded;
        };
        if distance > *at {
            return Stop::Corrupt;
        }
        if length > end - *at {
            return Stop::OutputFull;
        }
        debug_assert!(distance >= 1);
        // SAFETY: `1 <= distance <= at`; `at + length <= end`, and `symbols` checked that
        // SLACK_BYTES (32) follow `end`.
        unsafe { copy(window.as_mut_ptr(), *at, distance, length) };
        *at += length;
        *input = symbol;
    }
}

/// Returns the table entry for the next bits, and the length of its code. Bits that led to a second
/// table are consumed.
#[inline(always)]
fn code(
    input: &mut Input<'_>,
    table: &[DecodeEntry],
    index_bits: u32,
) -> Result<(DecodeEntry, u32), Stop> {
    let first = |entry: Option<&DecodeEntry>| entry.copied().unwrap_or(INVALID);
    let mut entry = first(table.get(input.peek(index_bits) as usize));
    if entry & SECOND != 0 && entry & LITERAL == 0 {
        if input.count < index_bits {
            return Err(Stop::InputEnded);
        }
        input.skip(index_bits);
        let index = input.peek((entry >> 8) & 15) as usize;
        entry = first(table.get((entry >> 16) as usize + index));
    }
    // All bits of the code must be present: missing bits read as zeros.
    let bits = if entry & (LITERAL | SPECIAL) != 0 {
        entry & 63
    } else {
        (entry >> 8) & 15
    };
    if input.count < bits {
        return Err(Stop::InputEnded);
    }
    if entry & INVALID != 0 && entry & LITERAL == 0 {
        return Err(Stop::Corrupt);
    }
    Ok((entry, bits))
}

/// Returns base plus extra bits of a length or distance, and consumes them with their code; `None`
/// if bits are missing.
#[inline(always)]
fn value(input: &mut Input<'_>, entry: DecodeEntry) -> Option<usize> {
    let all = entry & 63;
    if input.count < all {
        return None;
    }
    let extra = input.peek(all) >> ((entry >> 8) & 15);
    input.skip(all);
    Some((entry >> 16) as usize + extra as usize)
}
