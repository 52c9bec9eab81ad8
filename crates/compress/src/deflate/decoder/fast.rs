//! Decodes the symbols of a block while input and output are far from their ends: whole words are
//! read and written, with one bounds check per iteration.

use super::input::{Input, Output, Stop, Tables};
use super::tables::{DISTANCE_BITS, END, INVALID, LITERAL, LITLEN_BITS, SECOND, SPECIAL};
use crate::deflate::SLACK_BYTES;
use crate::deflate::symbols::MAX_MATCH;

/// Maximum input of one iteration in bytes: two words.
const INPUT_MARGIN: usize = 16;
/// Maximum output of one iteration in bytes: three literals, a match, and the excess of a copy's
/// last words.
const OUTPUT_MARGIN: usize = 3 + MAX_MATCH + SLACK_BYTES;

/// Returns `None` when input or output is near its end.
pub(super) fn fast(tables: &Tables, input: &mut Input<'_>, out: &mut Output<'_>) -> Option<Stop> {
    by_cpu!(
        ["bmi1", "bmi2"],
        fast_body(tables: &Tables, input: &mut Input<'_>, out: &mut Output<'_>) -> Option<Stop>
    )
}

#[inline(always)]
fn fast_body(tables: &Tables, input: &mut Input<'_>, out: &mut Output<'_>) -> Option<Stop> {
    let in_last = input.bytes.len().checked_sub(INPUT_MARGIN)?;
    let out_last = (out.end + SLACK_BYTES).checked_sub(OUTPUT_MARGIN)?;
    let mut at = out.at;
    let mut from = input.at;
    let mut bits = input.bits;
    let mut count = input.count;
    let bytes = input.bytes.as_ptr();
    let to = out.window.as_mut_ptr();
    let mut stop = None;
    macro_rules! refill {
        () => {
            // SAFETY: an iteration begins with `from <= in_last`, 16 bytes before the input's end,
            // and refills twice, by at most 8 bytes each.
            let word = unsafe { bytes.add(from).cast::<u64>().read_unaligned() }.to_le();
            bits |= word << (count & 63);
            from = from.wrapping_add(((63_u32.wrapping_sub(count)) >> 3) as usize);
            count |= 56;
        };
    }
    macro_rules! take {
        ($count:expr) => {
            let used = $count & 63;
            bits >>= used;
            count = count.wrapping_sub(used);
        };
    }
    // The value of a length or distance entry, with the extra bits after its code.
    macro_rules! value {
        ($entry:expr) => {{
            let saved = bits;
            take!($entry);
            let code_bits = ($entry >> 8) & 15;
            let extra = (saved & ((1_u64 << ($entry & 63)) - 1)) >> code_bits;
            ($entry >> 16) as usize + extra as usize
        }};
    }
    // The entry of the second table that this entry refers to. Its index is within the array as
    // `tables` built it, which is checked all the same.
    macro_rules! second {
        ($table:expr, $entry:expr) => {{
            take!($entry);
            let index = bits & ((1 << (($entry >> 8) & 15)) - 1);
            let place = ($entry >> 16) as usize + index as usize;
            $table.get(place).copied().unwrap_or(INVALID)
        }};
    }
    macro_rules! look {
        () => {
            tables.litlen[(bits & ((1 << LITLEN_BITS) - 1)) as usize]
        };
    }
    macro_rules! literal {
        ($entry:expr) => {
            take!($entry);
            // SAFETY: an iteration begins with `at <= out_last`, OUTPUT_MARGIN before the slack's
            // end, and writes at most three literals before its match.
            unsafe { to.add(at).write(($entry >> 16) as u8) };
            at = at.wrapping_add(1);
        };
    }
    'turns: while from <= in_last && at <= out_last {
        refill!();
        let mut entry = look!();
        if entry & LITERAL != 0 {
            literal!(entry);
            entry = look!();
            if entry & LITERAL != 0 {
                literal!(entry);
                entry = look!();
                if entry & LITERAL != 0 {
                    literal!(entry);
                    continue 'turns;
                }
            }
        }
        // Two literals took at most 22 bits, so at least 34 are left for a length's 20.
        if entry & SPECIAL != 0 {
            if entry & SECOND != 0 {
                entry = second!(tables.litlen, entry);
                if entry & LITERAL != 0 {
                    literal!(entry);
                    continue 'turns;
                }
            }
            if entry & SPECIAL != 0 {
                take!(entry);
                stop = Some(if entry & END != 0 {
                    Stop::EndOfBlock
                } else {
                    Stop::Corrupt
                });
                break 'turns;
            }
        }
        let length = value!(entry);
        refill!();
        let mut entry = tables.distance[(bits & ((1 << DISTANCE_BITS) - 1)) as usize];
        if entry & SPECIAL != 0 {
            if entry & SECOND != 0 {
                entry = second!(tables.distance, entry);
            }
            if entry & SPECIAL != 0 {
                stop = Some(Stop::Corrupt);
                break 'turns;
            }
        }
        let distance = value!(entry);
        if distance > at {
            stop = Some(Stop::Corrupt);
            break 'turns;
        }
        debug_assert!(length <= MAX_MATCH && distance >= 1);
        // SAFETY: `1 <= distance <= at`, so the source begins inside the window. The copy writes
        // less than SLACK_BYTES past `at + length`, and `at` is at most three literals past
        // `out_last`, so all writes end before the slack's end.
        unsafe { copy(to, at, distance, length) };
        at = at.wrapping_add(length);
    }
    out.at = at;
    // Returns whole bytes of the bit buffer to the input. All of them came from this input: the
    // carry of the previous packet has fewer than ten bits, of which the block's header took three.
    input.at = from.wrapping_sub((count >> 3) as usize);
    input.count = count & 7;
    input.bits = bits & ((1 << input.count) - 1);
    stop
}

/// Copies `length` bytes from `distance` before `at` to `at`, in ascending order, so that copied
/// bytes may be copied again; writes up to 31 further bytes after them.
///
/// # Safety
/// `1 <= distance <= at`, and `window` may be written to up to `at + length + 31`.
#[inline(always)]
pub(super) unsafe fn copy(window: *mut u8, at: usize, distance: usize, length: usize) {
    // SAFETY: guaranteed by the caller. The source is at least a word's length before the
    // destination wherever words are copied: each `read` precedes its `write`, and all bytes read
    // have been written.
    unsafe {
        let mut to = window.add(at);
        let end = to.add(length);
        let mut from = to.sub(distance);
        if distance >= 16 {
            while to < end {
                let word = from.cast::<[u64; 2]>().read_unaligned();
                to.cast::<[u64; 2]>().write_unaligned(word);
                from = from.add(16);
                to = to.add(16);
            }
        } else if distance == 1 {
            let word = [u64::from(from.read()).wrapping_mul(0x0101_0101_0101_0101); 2];
            while to < end {
                to.cast::<[u64; 2]>().write_unaligned(word);
                to = to.add(16);
            }
        } else if distance >= 8 {
            while to < end {
                let word = from.cast::<u64>().read_unaligned();
                to.cast::<u64>().write_unaligned(word);
                from = from.add(8);
                to = to.add(8);
            }
        } else {
            while to < end {
                to.write(from.read());
                from = from.add(1);
                to = to.add(1);
            }
        }
    }
}
