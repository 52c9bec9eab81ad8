//! One block: its chosen sequences, the frequencies of its symbols, and the smallest of the three
//! block types (RFC 1951 §3.2.4 to §3.2.7).

use core::ops::Range;

use super::bits::{BitWriter, Carry, space_for};
use super::header::{Codes, Header};
use super::huffman::{self, CodeWord};
use super::matcher::View;
use super::write::{self, BlockCodes, Sequence};
use crate::deflate::symbols::{
    DISTANCE_EXTRA, DISTANCE_SYMBOLS, END_OF_BLOCK, FIRST_LENGTH, LENGTH_EXTRA, LENGTH_SLOT,
    LITLEN_SYMBOLS, STATIC_LITLEN_BITS, distance_slot,
};

/// Maximum number of matches in a block.
pub(super) const MAX_SEQUENCES: usize = 12 * 1024;
/// Maximum plaintext of a block in bytes: that of a stored block.
pub(super) const MAX_BLOCK_BYTES: usize = 65_535;
/// Below this size in bytes, a dynamic block is never the smallest.
const LEAST_DYNAMIC_BYTES: usize = 40;
/// Maximum code length of a literal or length: four of them and seven carried bits fit into a word.
const MAX_LITLEN_BITS: usize = 14;
/// Minimum number of literals for a meaningful average cost.
const LEAST_LITERALS: u32 = 64;
const STORED_HEADER_BYTES: usize = 5;

/// Frequency of each symbol. The arrays are as long as their indices can be.
#[derive(Clone)]
pub(super) struct Frequencies {
    pub(super) litlen: [u32; 320],
    pub(super) distance: [u32; 32],
}

impl Frequencies {
    pub(super) fn new() -> Self {
        Self {
            litlen: [0; 320],
            distance: [0; 32],
        }
    }
}

/// Sequences and frequencies of the current block.
pub(super) struct DeflateBlock {
    pub(super) sequences: Vec<Sequence>,
    pub(super) frequencies: Frequencies,
    literal_bits: Option<usize>,
}

static STATIC_LITLEN: [CodeWord; 288] = huffman::words(&STATIC_LITLEN_BITS);
static STATIC_DISTANCE: [CodeWord; 32] = huffman::words(&[5; 32]);

impl DeflateBlock {
    pub(super) fn new() -> Self {
        Self {
            sequences: Vec::new(),
            frequencies: Frequencies::new(),
            literal_bits: None,
        }
    }

    /// Starts the next block; keeps the memory.
    pub(super) fn clear(&mut self) {
        self.sequences.clear();
        self.frequencies = Frequencies::new();
        self.literal_bits = None;
    }

    /// Average cost of a literal in eighths of a bit, if the block had codes of its own and enough
    /// literals.
    pub(super) fn literal_bits(&self) -> Option<usize> {
        self.literal_bits
    }

    pub(super) fn is_full(&self) -> bool {
        self.sequences.len() >= MAX_SEQUENCES
    }

    /// Counts `times` occurrences of a literal.
    #[inline(always)]
    pub(super) fn literal(&mut self, byte: u8, times: u32) {
        let place = &mut self.frequencies.litlen[usize::from(byte)];
        *place = place.wrapping_add(times);
    }

    /// Counts each of `bytes` as a literal.
    #[inline(always)]
    pub(super) fn literals(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.literal(*byte, 1);
        }
    }

    /// Adds a match of 3 to 258 bytes at a distance of 1 to 32768, after `literals` literals, which
    /// the caller counts separately.
    #[inline(always)]
    pub(super) fn repeat(&mut self, literals: usize, length: usize, distance: usize) {
        let slot = distance_slot(distance);
        let length_slot = usize::from(LENGTH_SLOT[length & 511]) & 31;
        let place = &mut self.frequencies.litlen[FIRST_LENGTH + length_slot];
        *place = place.wrapping_add(1);
        let place = &mut self.frequencies.distance[slot & 31];
        *place = place.wrapping_add(1);
        self.sequences
            .push(Sequence::new(literals, length, distance, slot));
    }

    /// Writes `plain` of `view`, the bytes of this block, to `scratch` after `carry`, as the
    /// smallest block type; returns the bytes and the new carry. `None` means a bug.
    pub(super) fn write<'a>(
        &mut self,
        view: View<'_>,
        plain: Range<usize>,
        carry: Carry,
        scratch: &'a mut Vec<u8>,
    ) -> Option<(&'a [u8], Carry)> {
        self.frequencies.litlen[END_OF_BLOCK] = 1;
        let static_bits = self.static_bits();
        let stored_bits = (STORED_HEADER_BYTES + 1 + plain.len()) * 8;
        let mut least = static_bits.min(stored_bits);
        let mut dynamic = None;
        if plain.len() >= LEAST_DYNAMIC_BYTES {
            let codes = self.codes();
            let header = Header::new(&codes);
            self.literal_bits = self.average_literal(&codes);
            let bits = header.bits() + self.symbol_bits(&codes);
            if bits < least {
                least = bits;
                dynamic = Some((codes, header));
            }
        }
        if dynamic.is_none() && static_bits >= stored_bits {
            scratch.clear();
            store(view.span(plain.start, plain.end), carry, scratch);
            return Some((scratch.as_slice(), Carry::default()));
        }
        let space = space_for(least);
        if scratch.len() < space {
            scratch.resize(space, 0);
        }
        let mut out = BitWriter::new(scratch, carry);
        match dynamic {
            Some((codes, header)) => {
                out.add(0b100, 3);
                header.write(&mut out);
                let litlen = huffman::words(&codes.litlen_bits);
                let distance = huffman::words(&codes.distance_bits);
                let words = BlockCodes {
                    litlen: &litlen,
                    distance: &distance,
                };
                write::symbols(&self.sequences, view, plain, &words, &mut out);
            }
            None => {
                out.add(0b010, 3);
                let words = BlockCodes {
                    litlen: &STATIC_LITLEN,
                    distance: &STATIC_DISTANCE,
                };
                write::symbols(&self.sequences, view, plain, &words, &mut out);
            }
        }
        out.finish()
    }

    fn static_bits(&self) -> usize {
        let codes = Codes {
            litlen_bits: STATIC_LITLEN_BITS,
            distance_bits: [5; 32],
        };
        3 + self.symbol_bits(&codes)
    }

    fn codes(&self) -> Codes {
        let mut codes = Codes {
            litlen_bits: [0; LITLEN_SYMBOLS + 2],
            distance_bits: [0; 32],
        };
        huffman::lengths(
            &self.frequencies.litlen[..LITLEN_SYMBOLS],
            MAX_LITLEN_BITS,
            &mut codes.litlen_bits[..LITLEN_SYMBOLS],
        );
        huffman::lengths(
            &self.frequencies.distance[..DISTANCE_SYMBOLS],
            huffman::MAX_BITS,
            &mut codes.distance_bits[..DISTANCE_SYMBOLS],
        );
        codes
    }

    fn average_literal(&self, codes: &Codes) -> Option<usize> {
        let literals = self.frequencies.litlen[..END_OF_BLOCK].iter();
        let (count, bits) = literals
            .zip(&codes.litlen_bits)
            .fold((0, 0), |(count, sum), (times, bits)| {
                (count + times, sum + times * u32::from(*bits))
            });
        (count >= LEAST_LITERALS).then(|| (bits * 8 / count) as usize)
    }

    /// Size in bits of all symbols and their extra bits, including the end of the block.
    fn symbol_bits(&self, codes: &Codes) -> usize {
        let sum = |frequencies: &[u32], bits: &[u8]| -> u32 {
            let products = frequencies.iter().zip(bits);
            products.map(|(count, bits)| count * u32::from(*bits)).sum()
        };
        let of = &self.frequencies;
        let symbols = sum(&of.litlen[..LITLEN_SYMBOLS], &codes.litlen_bits)
            + sum(&of.distance[..DISTANCE_SYMBOLS], &codes.distance_bits);
        let extra =
            sum(&of.litlen[FIRST_LENGTH..], &LENGTH_EXTRA) + sum(&of.distance, &DISTANCE_EXTRA);
        (symbols + extra) as usize
    }
}

/// Appends `plain` as stored blocks after `carry`: at most six bytes more for each 65535. Ends on a
/// byte.
pub(super) fn store(plain: &[u8], carry: Carry, out: &mut Vec<u8>) {
    let mut carry = carry;
    let mut rest = plain;
    loop {
        let (block, following) = rest.split_at(rest.len().min(MAX_BLOCK_BYTES));
        store_header(block.len(), carry, out);
        out.extend_from_slice(block);
        carry = Carry::default();
        rest = following;
        if rest.is_empty() {
            return;
        }
    }
}

/// Appends the header of a stored block of `length` bytes, at most 65535.
pub(super) fn store_header(length: usize, carry: Carry, out: &mut Vec<u8>) {
    out.push(carry.bits);
    if carry.count > 5 {
        out.push(0);
    }
    let length = (length & 0xffff) as u16;
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&(!length).to_le_bytes());
}
