//! Decodes the symbols of a block into the window: with the [`fast`] loop while input and output
//! are far from their ends, and a careful one for the rest.

use super::fast::{copy, fast};
use super::input::{Input, Output, Stop, Tables};
use super::tables::{
    DISTANCE_BITS, DecodeEntry, END, INVALID, LITERAL, LITLEN_BITS, SECOND, SPECIAL,
};
use crate::deflate::SLACK_BYTES;

/// Decodes symbols into `out`.
///
/// # Panics
/// If fewer than [`SLACK_BYTES`] follow the end of the space.
pub(super) fn symbols(tables: &Tables, input: &mut Input<'_>, out: &mut Output<'_>) -> Stop {
    let Output { window, at, end } = out;
    assert!(*at <= *end && *end <= window.len() && window.len() - *end >= SLACK_BYTES);
    if let Some(stop) = fast(tables, input, out) {
        return stop;
    }
    careful(tables, input, out)
}

/// Decodes one symbol at a time, checking the number of available bits.
fn careful(tables: &Tables, input: &mut Input<'_>, out: &mut Output<'_>) -> Stop {
    let Output { window, at, end } = out;
    loop {
        input.refill_carefully();
        let mut symbol = *input;
        let (entry, bits) = match code(&mut symbol, &tables.litlen, LITLEN_BITS) {
            Ok(found) => found,
            Err(stop) => return stop,
        };
        if entry & LITERAL != 0 {
            if *at >= *end {
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
        if length > *end - *at {
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
