//! One block: what was chosen for it, how often each symbol occurs, and the cheapest of the three
//! ways to write it down (RFC 1951 §3.2.4 to §3.2.7).

use super::bits::{BitWriter, Carry, space_for};
use super::huffman::{self, Word, word, word_bits, word_count};
use crate::deflate::symbols::{
    DISTANCE_BASE, DISTANCE_EXTRA, DISTANCE_SYMBOLS, END_OF_BLOCK, FIRST_LENGTH, LENGTH_BASE,
    LENGTH_EXTRA, LENGTH_SLOT, LITLEN_SYMBOLS, PRECODE_EXTRA, PRECODE_ORDER, PRECODE_SYMBOLS,
    STATIC_LITLEN_BITS, distance_slot,
};

/// The most matches in a block.
pub(super) const MAX_SEQUENCES: usize = 12 * 1024;
/// The most plaintext in a block, bytes: what one stored block can hold.
pub(super) const MAX_BLOCK_BYTES: usize = 65_535;
/// Below this a code of its own never pays for being written down, bytes of plaintext.
const LEAST_DYNAMIC_BYTES: usize = 40;
/// The longest code of a literal or length: four of them and seven bits that are left over fit
/// into a word.
const MAX_LITLEN_BITS: usize = 14;
/// Fewer literals say nothing of what one takes.
const LEAST_LITERALS: u32 = 64;
const MAX_PRECODE_BITS: usize = 7;
const STORED_HEADER_BYTES: usize = 5;

/// Literals and the match behind them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sequence {
    /// Number of literals, and in the low nine bits the length of the match; 0 for none.
    literals_and_length: u32,
    distance: u16,
    slot: u16,
}

impl Sequence {
    #[inline(always)]
    pub(super) fn literals(self) -> usize {
        (self.literals_and_length >> 9) as usize
    }

    #[inline(always)]
    pub(super) fn length(self) -> usize {
        (self.literals_and_length & 511) as usize
    }
}

/// How often each symbol occurs. The arrays are as long as their indices can be.
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

/// The codes of a block.
pub(super) struct Codes {
    litlen_bits: [u8; LITLEN_SYMBOLS + 2],
    distance_bits: [u8; 32],
}

/// What has been chosen for the block at hand.
pub(super) struct Block {
    pub(super) sequences: Vec<Sequence>,
    pub(super) frequencies: Frequencies,
    /// Literals behind the last match.
    literals: u32,
    literal_bits: Option<usize>,
}

static STATIC_LITLEN: [Word; 288] = huffman::words(&STATIC_LITLEN_BITS);
static STATIC_DISTANCE: [Word; 32] = huffman::words(&[5; 32]);

impl Block {
    pub(super) fn new() -> Self {
        Self {
            sequences: Vec::new(),
            frequencies: Frequencies::new(),
            literals: 0,
            literal_bits: None,
        }
    }

    /// Begins the next block. The memory stays.
    pub(super) fn clear(&mut self) {
        self.sequences.clear();
        self.frequencies = Frequencies::new();
        self.literals = 0;
        self.literal_bits = None;
    }

    /// Eighths of a bit that a literal took on average, where the block had codes of its own and
    /// some literals.
    pub(super) fn literal_bits(&self) -> Option<usize> {
        self.literal_bits
    }

    pub(super) fn is_full(&self) -> bool {
        self.sequences.len() >= MAX_SEQUENCES
    }

    #[inline(always)]
    pub(super) fn literal(&mut self, byte: u8) {
        let place = &mut self.frequencies.litlen[usize::from(byte)];
        *place = place.wrapping_add(1);
        self.literals = self.literals.wrapping_add(1);
    }

    #[inline(always)]
    pub(super) fn literals(&mut self, bytes: &[u8]) {
        for byte in bytes {
            let place = &mut self.frequencies.litlen[usize::from(*byte)];
            *place = place.wrapping_add(1);
        }
        self.literals = self.literals.wrapping_add(bytes.len() as u32);
    }

    /// A match of 3 to 258 bytes, 1 to 32768 back.
    #[inline(always)]
    pub(super) fn repeat(&mut self, length: usize, distance: usize) {
        let slot = distance_slot(distance);
        let length_slot = usize::from(LENGTH_SLOT[length & 511]) & 31;
        let place = &mut self.frequencies.litlen[FIRST_LENGTH + length_slot];
        *place = place.wrapping_add(1);
        let place = &mut self.frequencies.distance[slot & 31];
        *place = place.wrapping_add(1);
        self.sequences.push(Sequence {
            literals_and_length: self.literals << 9 | (length & 511) as u32,
            // 32768 is 0 here and again 32768 below.
            distance: (distance & 0x7fff) as u16,
            slot: slot as u16,
        });
        self.literals = 0;
    }

    /// Writes `plain`, the bytes of this block, to `scratch` behind `carry` in the cheapest way;
    /// returns the bytes and the carry behind them. `None` is a defect of ours.
    pub(super) fn write<'a>(
        &mut self,
        plain: &[u8],
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
            return store_into(plain, carry, scratch);
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
                self.write_symbols(plain, &litlen, &distance, &mut out);
            }
            None => {
                out.add(0b010, 3);
                self.write_symbols(plain, &STATIC_LITLEN, &STATIC_DISTANCE, &mut out);
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

    /// Bits that all symbols and their extra bits take, the end of the block included.
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

    fn write_symbols(
        &self,
        plain: &[u8],
        litlen: &[Word; 288],
        distance: &[Word; 32],
        out: &mut BitWriter<'_>,
    ) {
        let lengths = length_words(litlen);
        let mut rest = plain;
        for sequence in &self.sequences {
            let (literals, behind) = rest.split_at(sequence.literals().min(rest.len()));
            write_literals(literals, litlen, out);
            let length = sequence.length();
            let code = lengths[length & 511];
            out.add(word_bits(code), word_count(code));
            let slot = usize::from(sequence.slot) & 31;
            let code = distance[slot];
            out.add(word_bits(code), word_count(code));
            let extra = u32::from(EXTRA[slot]);
            let above = u32::from(sequence.distance.wrapping_sub(BASE[slot]));
            out.add(above & ((1 << extra) - 1), extra);
            out.flush();
            rest = behind.get(length..).unwrap_or_default();
        }
        write_literals(rest, litlen, out);
        let end = litlen[END_OF_BLOCK];
        out.add(word_bits(end), word_count(end));
        out.flush();
    }
}

/// [`DISTANCE_EXTRA`] and [`DISTANCE_BASE`], as long as an index of five bits.
static EXTRA: [u8; 32] = {
    let mut extra = [0; 32];
    let mut slot = 0;
    while slot < DISTANCE_SYMBOLS {
        extra[slot] = DISTANCE_EXTRA[slot];
        slot += 1;
    }
    extra
};
static BASE: [u16; 32] = {
    let mut base = [0; 32];
    let mut slot = 0;
    while slot < DISTANCE_SYMBOLS {
        base[slot] = DISTANCE_BASE[slot];
        slot += 1;
    }
    base
};

/// Leaves fewer than eight bits unwritten.
#[inline(always)]
fn write_literals(literals: &[u8], words: &[Word; 288], out: &mut BitWriter<'_>) {
    let add = |out: &mut BitWriter<'_>, byte: u8| {
        let code = words[usize::from(byte)];
        out.add(word_bits(code), word_count(code));
    };
    let mut fours = literals.chunks_exact(4);
    for four in &mut fours {
        for byte in four {
            add(out, *byte);
        }
        out.flush();
    }
    let rest = fours.remainder();
    if !rest.is_empty() {
        for byte in rest {
            add(out, *byte);
        }
        out.flush();
    }
}

/// The code and extra bits of each length.
fn length_words(litlen: &[Word; 288]) -> [Word; 512] {
    let mut words = [0; 512];
    let slots = LENGTH_BASE.iter().zip(&LENGTH_EXTRA).enumerate();
    for (slot, (base, extra)) in slots {
        let code = litlen[FIRST_LENGTH + slot];
        let (bits, count) = (word_bits(code), word_count(code));
        // Slot 27 has room for one length more than it stands for: 258 has a slot of its own,
        // which comes behind and overwrites it.
        for above in 0..1_u32 << extra {
            let place = usize::from(*base) + above as usize;
            words[place & 511] = word(bits | above << count, count + u32::from(*extra));
        }
    }
    words
}

/// Writes `plain` as stored blocks behind `carry` to `scratch`.
fn store_into<'a>(
    plain: &[u8],
    carry: Carry,
    scratch: &'a mut Vec<u8>,
) -> Option<(&'a [u8], Carry)> {
    scratch.clear();
    store(plain, carry, scratch);
    Some((scratch.as_slice(), Carry::default()))
}

/// Appends `plain` as stored blocks behind `carry`: at most six bytes more for each 65535. Ends
/// on a byte.
pub(super) fn store(plain: &[u8], carry: Carry, out: &mut Vec<u8>) {
    let mut carry = carry;
    let mut rest = plain;
    loop {
        let (block, behind) = rest.split_at(rest.len().min(MAX_BLOCK_BYTES));
        store_header(block.len(), carry, out);
        out.extend_from_slice(block);
        carry = Carry::default();
        rest = behind;
        if rest.is_empty() {
            return;
        }
    }
}

/// Appends the beginning of a stored block of `length` bytes, at most 65535.
pub(super) fn store_header(length: usize, carry: Carry, out: &mut Vec<u8>) {
    out.push(carry.bits);
    if carry.count > 5 {
        out.push(0);
    }
    let length = (length & 0xffff) as u16;
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&(!length).to_le_bytes());
}

/// The description of a dynamic block's codes, RFC 1951 §3.2.7.
struct Header {
    litlen_count: usize,
    distance_count: usize,
    precode_count: usize,
    precode_bits: [u8; PRECODE_SYMBOLS],
    /// Symbol of the precode in the low five bits, its extra bits above.
    items: [u16; LITLEN_SYMBOLS + DISTANCE_SYMBOLS],
    item_count: usize,
    item_bits: usize,
}

impl Header {
    fn new(codes: &Codes) -> Self {
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

    /// Turns code lengths into items: runs are said once.
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
                    // 17 says 3 to 10, 18 says 11 to 138.
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

    fn bits(&self) -> usize {
        3 + 5 + 5 + 4 + 3 * self.precode_count + self.item_bits
    }

    fn write(&self, out: &mut BitWriter<'_>) {
        out.add((self.litlen_count - 257) as u32, 5);
        out.add((self.distance_count - 1) as u32, 5);
        out.add((self.precode_count - 4) as u32, 4);
        out.flush();
        for symbol in PRECODE_ORDER.iter().take(self.precode_count) {
            out.add(u32::from(self.precode_bits[usize::from(*symbol)]), 3);
            out.flush();
        }
        let words = huffman::words(&self.precode_bits);
        for item in &self.items[..self.item_count] {
            let symbol = usize::from(item & 31);
            out.add(word_bits(words[symbol]), word_count(words[symbol]));
            out.add(u32::from(item >> 5), u32::from(PRECODE_EXTRA[symbol]));
            out.flush();
        }
    }
}
