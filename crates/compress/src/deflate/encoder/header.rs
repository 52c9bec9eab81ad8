//! Encoding of a dynamic block's codes (RFC 1951 §3.2.7).

use super::bits::BitWriter;
use super::huffman::{self, word_bits, word_count};
use crate::deflate::symbols::{
    DISTANCE_SYMBOLS, FIRST_LENGTH, LITLEN_SYMBOLS, PRECODE_EXTRA, PRECODE_ORDER, PRECODE_SYMBOLS,
};

const MAX_PRECODE_BITS: usize = 7;

/// The codes of a block.
pub(super) struct Codes {
    pub(super) litlen_bits: [u8; LITLEN_SYMBOLS + 2],
    pub(super) distance_bits: [u8; 32],
}

/// The encoded code lengths of a dynamic block.
pub(super) struct Header {
    litlen_count: usize,
    distance_count: usize,
    precode_count: usize,
    precode_bits: [u8; PRECODE_SYMBOLS],
    /// Precode symbols in the low five bits, with their extra bits above.
    items: [u16; LITLEN_SYMBOLS + DISTANCE_SYMBOLS],
    item_count: usize,
    item_bits: usize,
}

impl Header {
    pub(super) fn new(codes: &Codes) -> Self {
        let used = |bits: &[u8], least: usize| {
            let last = bits.iter().rposition(|bits| *bits != 0);
            last.map_or(least, |last| (last + 1).max(least))
        };
        let litlen_count = used(&codes.litlen_bits[..LITLEN_SYMBOLS], FIRST_LENGTH);
        let distance_count = used(&codes.distance_bits[..DISTANCE_SYMBOLS], 1);
        let mut all = [0_u8; LITLEN_SYMBOLS + DISTANCE_SYMBOLS];
        all[..litlen_count].copy_from_slice(&codes.litlen_bits[..litlen_count]);
        all[litlen_count..litlen_count + distance_count]
            .copy_from_slice(&codes.distance_bits[..distance_count]);
        let mut header = Self {
            litlen_count,
            distance_count,
            precode_count: 0,
            precode_bits: [0; PRECODE_SYMBOLS],
            items: [0; LITLEN_SYMBOLS + DISTANCE_SYMBOLS],
            item_count: 0,
            item_bits: 0,
        };
        let mut frequencies = [0_u32; PRECODE_SYMBOLS];
        header.gather(&all[..litlen_count + distance_count], &mut frequencies);
        huffman::lengths(&frequencies, MAX_PRECODE_BITS, &mut header.precode_bits);
        let order = PRECODE_ORDER.map(|symbol| header.precode_bits[usize::from(symbol)]);
        header.precode_count = order
            .iter()
            .rposition(|bits| *bits != 0)
            .map_or(4, |last| (last + 1).max(4));
        let costs = header.precode_bits.iter().zip(&PRECODE_EXTRA);
        header.item_bits = frequencies
            .iter()
            .zip(costs)
            .map(|(count, (bits, extra))| *count as usize * usize::from(bits + extra))
            .sum();
        header
    }

    /// Converts code lengths to items with run-length coding.
    fn gather(&mut self, lengths: &[u8], frequencies: &mut [u32; PRECODE_SYMBOLS]) {
        let mut at = 0;
        while at < lengths.len() {
            let length = lengths[at];
            let run = lengths[at..]
                .iter()
                .take_while(|each| **each == length)
                .count();
            at += run;
            let mut left = run;
            if length == 0 {
                while left >= 3 {
                    let said = left.min(138);
                    // Symbol 17 means 3 to 10 zeros, 18 means 11 to 138.
                    let (symbol, above) = if said < 11 {
                        (17, said - 3)
                    } else {
                        (18, said - 11)
                    };
                    self.item(symbol, above, frequencies);
                    left -= said;
                }
            } else {
                self.item(usize::from(length), 0, frequencies);
                left -= 1;
                while left >= 3 {
                    let said = left.min(6);
                    self.item(16, said - 3, frequencies);
                    left -= said;
                }
            }
            for _ in 0..left {
                self.item(usize::from(length), 0, frequencies);
            }
        }
    }

    fn item(&mut self, symbol: usize, above: usize, frequencies: &mut [u32; PRECODE_SYMBOLS]) {
        frequencies[symbol] += 1;
        self.items[self.item_count] = (symbol | above << 5) as u16;
        self.item_count += 1;
    }

    /// Size in bits, including the block's first three.
    pub(super) fn bits(&self) -> usize {
        3 + 5 + 5 + 4 + 3 * self.precode_count + self.item_bits
    }

    pub(super) fn write(&self, out: &mut BitWriter<'_>) {
        out.add((self.litlen_count - 257) as u64, 5);
        out.add((self.distance_count - 1) as u64, 5);
        out.add((self.precode_count - 4) as u64, 4);
        out.flush();
        for symbol in PRECODE_ORDER.iter().take(self.precode_count) {
            out.add(u64::from(self.precode_bits[usize::from(*symbol)]), 3);
            out.flush();
        }
        let words = huffman::words(&self.precode_bits);
        for item in &self.items[..self.item_count] {
            let symbol = usize::from(item & 31);
            out.add(
                u64::from(word_bits(words[symbol])),
                word_count(words[symbol]),
            );
            out.add(u64::from(item >> 5), u32::from(PRECODE_EXTRA[symbol]));
            out.flush();
        }
    }
}
