//! The alphabets of RFC 1951 §3.2.5 and §3.2.6.

/// Minimum length of a match.
pub(super) const MIN_MATCH: usize = 3;
/// Maximum length of a match.
pub(super) const MAX_MATCH: usize = 258;

/// Number of symbols for literals, end of block and lengths; two more have codes only in static
/// blocks.
pub(super) const LITLEN_SYMBOLS: usize = 286;
/// The symbol that ends a block.
pub(super) const END_OF_BLOCK: usize = 256;
/// The first of the lengths' symbols.
pub(super) const FIRST_LENGTH: usize = 257;
/// Number of distance symbols.
pub(super) const DISTANCE_SYMBOLS: usize = 30;
/// Number of symbols of the precode, the code of code lengths.
pub(super) const PRECODE_SYMBOLS: usize = 19;

pub(super) const LENGTH_BASE: [u16; 29] = [
    3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115, 131,
    163, 195, 227, 258,
];
pub(super) const LENGTH_EXTRA: [u8; 29] = [
    0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0,
];
pub(super) const DISTANCE_BASE: [u16; 30] = [
    1, 2, 3, 4, 5, 7, 9, 13, 17, 25, 33, 49, 65, 97, 129, 193, 257, 385, 513, 769, 1025, 1537,
    2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577,
];
pub(super) const DISTANCE_EXTRA: [u8; 30] = [
    0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13,
    13,
];

/// The order in which the code lengths of the precode are sent.
pub(super) const PRECODE_ORDER: [u8; PRECODE_SYMBOLS] = [
    16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15,
];
/// Extra bits of the precode's symbols.
pub(super) const PRECODE_EXTRA: [u8; PRECODE_SYMBOLS] =
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 3, 7];

/// The symbol of each match length, counted from [`FIRST_LENGTH`]. The table is longer than
/// necessary, so that any nine bits are a valid index.
pub(super) static LENGTH_SLOT: [u8; 512] = {
    let mut slots = [0; 512];
    let mut slot = 0;
    while slot < LENGTH_BASE.len() {
        let mut length = LENGTH_BASE[slot] as usize;
        while length <= MAX_MATCH {
            // A later slot that begins at or below this length overwrites the entry.
            slots[length] = slot as u8;
            length += 1;
        }
        slot += 1;
    }
    slots
};

/// The distance symbol, indexed by distance - 1 up to 255, and after that by (distance - 1) / 128.
static DISTANCE_SLOT: [u8; 512] = {
    let mut slots = [0; 512];
    let mut slot = 0;
    while slot < DISTANCE_BASE.len() {
        let first = DISTANCE_BASE[slot] as usize - 1;
        if first < 256 {
            let mut at = first;
            while at < 256 {
                slots[at] = slot as u8;
                at += 1;
            }
        }
        if first >= 256 {
            let mut at = first >> 7;
            while at < 256 {
                slots[256 + at] = slot as u8;
                at += 1;
            }
        }
        slot += 1;
    }
    slots
};

/// The symbol of a distance, 1 to 32768.
#[inline(always)]
pub(super) fn distance_slot(distance: usize) -> usize {
    let less = distance.wrapping_sub(1);
    let index = if less < 256 {
        less
    } else {
        256 + ((less >> 7) & 255)
    };
    DISTANCE_SLOT[index & 511] as usize
}

/// Code lengths of static blocks (RFC 1951 §3.2.6), including the two symbols that never occur.
pub(super) const STATIC_LITLEN_BITS: [u8; 288] = {
    let mut bits = [8; 288];
    let mut symbol = 144;
    while symbol < 256 {
        bits[symbol] = 9;
        symbol += 1;
    }
    while symbol < 280 {
        bits[symbol] = 7;
        symbol += 1;
    }
    bits
};
