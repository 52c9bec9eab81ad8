//! Tables that map the next bits of a block to a symbol, built from code lengths (RFC 1951 §3.2.2).
//!
//! An entry gives the meaning of the bits and their number. Codes longer than the table's index
//! refer to a second table, stored after the first.

use crate::deflate::symbols::{
    DISTANCE_BASE, DISTANCE_EXTRA, END_OF_BLOCK, FIRST_LENGTH, LENGTH_BASE, LENGTH_EXTRA,
};

/// Number of bits that index the first table of literals and lengths.
pub(super) const LITLEN_BITS: u32 = 11;
/// Number of bits that index the first table of distances.
pub(super) const DISTANCE_BITS: u32 = 8;
/// Number of bits that index the table of the precode, whose codes are no longer.
pub(super) const PRECODE_BITS: u32 = 7;

/// Maximum number of entries of tables for 288 symbols with 11 bits, and for 32 with 8 (counted by
/// zlib's examples/enough.c).
pub(super) const LITLEN_ENTRIES: usize = 2342;
pub(super) const DISTANCE_ENTRIES: usize = 402;
pub(super) const PRECODE_ENTRIES: usize = 1 << PRECODE_BITS;

/// Meaning of the next bits.
///
/// | bits | of a literal | of a length or distance | of the end | of a second table |
/// | --- | --- | --- | --- | --- |
/// | 0–7 | bits of the code | bits of code and extra bits | bits of the code | bits of the index so far |
/// | 8–11 | | bits of the code | | bits of its own index |
/// | 12–14 | 0 | 0 | 4 for the end, 2 for no code, 0 | 1 |
/// | 16–30 | the byte | the base | | its place |
/// | 31 | 1 | 0 | 0 | 0 |
pub(super) type DecodeEntry = u32;

pub(super) const LITERAL: DecodeEntry = 1 << 31;
/// One of these bits is set if the entry is not a literal, length or distance.
pub(super) const SPECIAL: DecodeEntry = SECOND | INVALID | END;
pub(super) const SECOND: DecodeEntry = 1 << 12;
pub(super) const INVALID: DecodeEntry = 1 << 13;
pub(super) const END: DecodeEntry = 1 << 14;

/// The alphabet of a code.
#[derive(Clone, Copy)]
pub(super) enum Alphabet {
    Litlen,
    Distance,
    Precode,
}

impl Alphabet {
    /// The entry of a symbol, without the length of its code.
    fn entry(self, symbol: usize) -> DecodeEntry {
        match self {
            Self::Precode => (symbol as u32) << 16,
            Self::Litlen if symbol < END_OF_BLOCK => LITERAL | (symbol as u32) << 16,
            Self::Litlen if symbol == END_OF_BLOCK => END,
            Self::Litlen => {
                let slot = symbol - FIRST_LENGTH;
                value(LENGTH_BASE.get(slot), LENGTH_EXTRA.get(slot))
            }
            Self::Distance => value(DISTANCE_BASE.get(symbol), DISTANCE_EXTRA.get(symbol)),
        }
    }
}

fn value(base: Option<&u16>, extra: Option<&u8>) -> DecodeEntry {
    match (base, extra) {
        (Some(base), Some(extra)) => u32::from(*base) << 16 | u32::from(*extra),
        // Symbols that have a code in static blocks, but no meaning.
        _ => INVALID,
    }
}

/// The code is over-subscribed or, where it must not be, incomplete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BadCode;

/// Maximum number of symbols of an alphabet.
const MAX_SYMBOLS: usize = 288;

/// Fills `table`, indexed by `index_bits` bits, for codes with these lengths.
///
/// Like other inflate implementations, accepts an incomplete code only if it has one word of one
/// bit, or none (a block without matches, or with a single distance).
pub(super) fn fill(
    table: &mut [DecodeEntry],
    index_bits: u32,
    lengths: &[u8],
    alphabet: Alphabet,
) -> Result<(), BadCode> {
    let mut counts = [0_u32; 16];
    for length in lengths {
        counts[usize::from(length & 15)] += 1;
    }
    counts[0] = 0;
    let longest = counts.iter().rposition(|count| *count > 0).unwrap_or(0);
    let mut left: i32 = 1;
    for count in &counts[1..] {
        left = (left << 1) - count.cast_signed();
        if left < 0 {
            return Err(BadCode);
        }
    }
    if left > 0 && (longest > 1 || matches!(alphabet, Alphabet::Precode)) {
        return Err(BadCode);
    }
    // Symbols sorted by code length, and for equal lengths by number.
    let mut starts = [0_usize; 17];
    for bits in 1..16 {
        starts[bits + 1] = starts[bits] + counts[bits] as usize;
    }
    let mut sorted = [0_u16; MAX_SYMBOLS];
    for (symbol, length) in lengths.iter().enumerate() {
        if *length > 0 {
            let place = &mut starts[usize::from(length & 15)];
            sorted[*place] = symbol as u16;
            *place += 1;
        }
    }
    if left > 0 {
        table[..1 << index_bits].fill(INVALID | 1);
    }
    let mut filler = Filler {
        table,
        index_bits,
        counts,
        code: 0,
        second: None,
        end: 1 << index_bits,
    };
    let mut next = 0;
    for bits in 1..=longest as u32 {
        if bits <= index_bits {
            filler.double(bits);
        }
        for _ in 0..counts[bits as usize] {
            let symbol = usize::from(sorted[next]);
            next += 1;
            filler.put(bits, alphabet.entry(symbol));
            filler.counts[bits as usize] -= 1;
        }
    }
    filler.double_to_end(longest as u32);
    Ok(())
}

struct Filler<'a> {
    table: &'a mut [DecodeEntry],
    index_bits: u32,
    /// Number of codes of each length that have not been entered yet.
    counts: [u32; 16],
    /// The next code, with its first bit lowest.
    code: u32,
    /// The current second table: the first bits of its codes, its position, and its index bits.
    second: Option<(u32, usize, u32)>,
    /// Number of entries in use.
    end: usize,
}

impl Filler<'_> {
    /// Codes shorter than `bits` are in the first half; duplicates them, because they mean the same
    /// with a 1 after them.
    fn double(&mut self, bits: u32) {
        if bits > 1 {
            let half = 1 << (bits - 1);
            self.table.copy_within(..half, half);
        }
    }

    /// Completes the table; no code is longer than `longest`.
    fn double_to_end(&mut self, longest: u32) {
        for bits in longest.max(1) + 1..=self.index_bits {
            self.double(bits);
        }
    }

    fn put(&mut self, bits: u32, entry: DecodeEntry) {
        let code = self.code;
        if bits <= self.index_bits {
            self.table[code as usize] = with_bits(entry, bits);
        } else {
            self.put_second(bits, entry);
        }
        // The next code of this length, in order of its reversed bits; a longer code has an
        // additional 0 at its end, which does not change this value.
        let mask = (1_u32 << bits) - 1;
        let zeros = code ^ mask;
        if zeros == 0 {
            return;
        }
        let bit = 1 << zeros.ilog2();
        self.code = (code & (bit - 1)) | bit;
    }

    fn put_second(&mut self, bits: u32, entry: DecodeEntry) {
        let first = self.code & ((1 << self.index_bits) - 1);
        let rest = bits - self.index_bits;
        let (place, index_bits) = match self.second {
            Some((of, place, index_bits)) if of == first => (place, index_bits),
            _ => {
                // Large enough for all codes with this prefix.
                let mut index_bits = rest;
                let mut left = 1_i32 << rest;
                while let Some(count) = self.counts.get((self.index_bits + index_bits) as usize) {
                    left -= count.cast_signed();
                    if left <= 0 || self.index_bits + index_bits >= 15 {
                        break;
                    }
                    index_bits += 1;
                    left <<= 1;
                }
                let place = self.end;
                self.end += 1 << index_bits;
                self.table[first as usize] =
                    SECOND | (place as u32) << 16 | index_bits << 8 | self.index_bits;
                self.second = Some((first, place, index_bits));
                (place, index_bits)
            }
        };
        let entry = with_bits(entry, rest);
        let mut at = (self.code >> self.index_bits) as usize;
        while at < 1 << index_bits {
            self.table[place + at] = entry;
            at += 1 << rest;
        }
    }
}

/// Adds the code length to the total bits, and stores it separately for lengths and distances.
fn with_bits(entry: DecodeEntry, bits: u32) -> DecodeEntry {
    if entry & (LITERAL | SPECIAL) != 0 {
        entry + bits
    } else {
        entry + bits + (bits << 8)
    }
}
