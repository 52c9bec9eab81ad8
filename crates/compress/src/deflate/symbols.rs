//! The alphabets of RFC 1951 §3.2.5 and §3.2.6.

/// The shortest match that can be written.
pub(super) const MIN_MATCH: usize = 3;
/// The longest.
pub(super) const MAX_MATCH: usize = 258;

/// Symbols of literals, end of block and lengths; two more have codes in static blocks alone.
pub(super) const LITLEN_SYMBOLS: usize = 286;
/// The symbol that ends a block.
pub(super) const END_OF_BLOCK: usize = 256;
/// The first of the lengths' symbols.
pub(super) const FIRST_LENGTH: usize = 257;
/// Symbols of distances.
pub(super) const DISTANCE_SYMBOLS: usize = 30;
/// Symbols of the code of code lengths.
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

/// The order in which the lengths of the precode are written.
pub(super) const PRECODE_ORDER: [u8; PRECODE_SYMBOLS] = [
    16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15,
];
/// Extra bits of the precode's symbols.
pub(super) const PRECODE_EXTRA: [u8; PRECODE_SYMBOLS] =
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 3, 7];

/// Number of a length's symbol, counted from [`FIRST_LENGTH`], by the length. Longer than needed,
/// so that nine bits are always an index.
pub(super) static LENGTH_SLOT: [u8; 512] = {
    let mut slots = [0; 512];
    let mut slot = 0;
    while slot < LENGTH_BASE.len() {
        let mut length = LENGTH_BASE[slot] as usize;
        while length <= MAX_MATCH {
            // A later slot that begins at or below it overwrites this.
            slots[length] = slot as u8;
            length += 1;
        }
        slot += 1;
    }
    slots
};

/// The distance's symbol, by distance - 1 up to 255, and behind that by (distance - 1) / 128.
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

/// Code lengths of static blocks (RFC 1951 §3.2.6), the two symbols included that never occur.
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
