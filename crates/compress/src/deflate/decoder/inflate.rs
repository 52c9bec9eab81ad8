//! The symbols of a block into the window: the [`fast`] loop while input and output are far from
//! their ends, and a careful one for what is left.

use super::fast::{copy, fast};
use super::tables::{
    DISTANCE_BITS, DISTANCE_ENTRIES, END, Entry, INVALID, LITERAL, LITLEN_BITS, LITLEN_ENTRIES,
    SECOND, SPECIAL,
};
use crate::deflate::SLACK_BYTES;

/// Tables of a block.
pub(super) struct Tables {
    pub(super) litlen: [Entry; LITLEN_ENTRIES],
    pub(super) distance: [Entry; DISTANCE_ENTRIES],
}

/// Bits that were read and not used, the next one the lowest, and the input behind them.
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
    /// The input ends inside a symbol: nothing of it was used.
    InputEnded,
    /// The next symbol does not fit: nothing of it was used.
    OutputFull,
    Corrupt,
}

impl Input<'_> {
    /// Bits that are left in all, as far as that matters.
    pub(super) fn left(&self) -> usize {
        self.count as usize + (self.bytes.len() - self.at) * 8
    }

    /// Reads bytes until there are 56 bits or more, but fewer than 64, or no more bytes.
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

    /// The next bits, as a number; they must be there.
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

/// Decodes symbols into `window` from `at` on, up to `end`, and moves `at`. Behind `end`,
/// [`SLACK_BYTES`] may be overwritten.
///
/// # Panics
/// When there is no slack behind `end`.
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

/// One symbol at a time, by the bits that there really are.
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
        // SAFETY: `1 <= distance <= at`; `at + length <= end`, and `symbols` made sure of
        // SLACK_BYTES (32) behind `end`.
        unsafe { copy(window.as_mut_ptr(), *at, distance, length) };
        *at += length;
        *input = symbol;
    }
}

/// The entry for the next bits, and how many of them its code has. Those that led to a second
/// table are gone.
#[inline(always)]
fn code(input: &mut Input<'_>, table: &[Entry], index_bits: u32) -> Result<(Entry, u32), Stop> {
    let first = |entry: Option<&Entry>| entry.copied().unwrap_or(INVALID);
    let mut entry = first(table.get(input.peek(index_bits) as usize));
    if entry & SECOND != 0 && entry & LITERAL == 0 {
        if input.count < index_bits {
            return Err(Stop::InputEnded);
        }
        input.skip(index_bits);
        let index = input.peek((entry >> 8) & 15) as usize;
        entry = first(table.get((entry >> 16) as usize + index));
    }
    // All bits of the code must be there: those that are not read as zeros.
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

/// Base and extra bits of a length or distance; uses them up with their code.
#[inline(always)]
fn value(input: &mut Input<'_>, entry: Entry) -> Option<usize> {
    let all = entry & 63;
    if input.count < all {
        return None;
    }
    let extra = input.peek(all) >> ((entry >> 8) & 15);
    input.skip(all);
    Some((entry >> 16) as usize + extra as usize)
}
