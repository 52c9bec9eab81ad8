//! The second layer of UMAC (RFC 4418 §5.3): polynomials modulo 2^64 - 59, and beyond 16 MiB of
//! message also modulo 2^128 - 159.
//!
//! Intermediate values are below 2^64 (2^128), not necessarily below the prime: they are correct
//! modulo the prime, and reduced once at the end.
#![forbid(unsafe_code)]

use zeroize::Zeroize;

/// 2^64 - 59.
const PRIME_64: u64 = 59u64.wrapping_neg();
/// 2^128 - 159.
const PRIME_128: u128 = 159u128.wrapping_neg();
/// Words from this value on need a marker (2^64 - 2^32, and 2^128 - 2^96).
const RANGE_64: u64 = 0xffff_ffff_0000_0000;
const RANGE_128: u128 = 0xffff_ffff_0000_0000_0000_0000_0000_0000;
/// Number of first-layer words for the 64-bit polynomial: 2^17 bytes of words.
pub(super) const MAX_WORDS_64: u64 = 1 << 14;

/// The multipliers, masked (RFC 4418 §5.3): below 2^57 and 2^121.
#[derive(Default)]
pub(super) struct PolyKey {
    k64: u64,
    k128: u128,
}

impl PolyKey {
    /// From 24 bytes of key.
    pub(super) fn new(bytes: &[u8]) -> Self {
        let (first, second) = bytes.split_at(8.min(bytes.len()));
        let k64 = first.iter().fold(0u64, |all, b| all << 8 | u64::from(*b));
        let k128 = second
            .iter()
            .fold(0u128, |all, b| all << 8 | u128::from(*b));
        Self {
            k64: k64 & 0x01ff_ffff_01ff_ffff,
            k128: k128 & 0x01ff_ffff_01ff_ffff_01ff_ffff_01ff_ffff,
        }
    }
}

impl Drop for PolyKey {
    fn drop(&mut self) {
        self.k64.zeroize();
        self.k128.zeroize();
    }
}

/// State of the 64-bit polynomial.
pub(super) struct Poly(u64);

/// State of the 128-bit polynomial, for the words beyond [`MAX_WORDS_64`].
pub(super) struct Long {
    y: u128,
    /// The first half of a 16-byte word.
    half: Option<u64>,
}

impl Default for Poly {
    fn default() -> Self {
        Self(1)
    }
}

impl Poly {
    /// Absorbs a first-layer word, one of the first [`MAX_WORDS_64`].
    #[inline]
    pub(super) fn absorb(&mut self, key: &PolyKey, word: u64) {
        self.0 = step_64(key.k64, self.0, word);
    }

    /// The hash of a message of at most [`MAX_WORDS_64`] words.
    #[inline]
    pub(super) fn finish(&self) -> u128 {
        u128::from(reduce_64(self.0))
    }
}

impl Long {
    /// Continues after the first [`MAX_WORDS_64`] words.
    pub(super) fn after(key: &PolyKey, poly: &Poly) -> Self {
        Self {
            y: step_128(key.k128, 1, poly.finish()),
            half: None,
        }
    }

    /// Absorbs a further word.
    pub(super) fn absorb(&mut self, key: &PolyKey, word: u64) {
        match self.half.take() {
            None => self.half = Some(word),
            Some(high) => self.y = step_128(key.k128, self.y, join(high, word)),
        }
    }

    /// Returns the hash; pads the last word with a byte 0x80 and zeros.
    pub(super) fn finish(&self, key: &PolyKey) -> u128 {
        let last = match self.half {
            None => join(1 << 63, 0),
            Some(high) => join(high, 1 << 63),
        };
        let y = step_128(key.k128, self.y, last);
        if y >= PRIME_128 { y - PRIME_128 } else { y }
    }
}

fn join(high: u64, low: u64) -> u128 {
    u128::from(high) << 64 | u128::from(low)
}

fn reduce_64(y: u64) -> u64 {
    if y >= PRIME_64 { y - PRIME_64 } else { y }
}

/// Absorbs one word, preceded by the marker if the word is out of range.
#[inline]
fn step_64(key: u64, y: u64, word: u64) -> u64 {
    if word >= RANGE_64 {
        let y = multiply_add_64(key, y, PRIME_64 - 1);
        multiply_add_64(key, y, word - 59)
    } else {
        multiply_add_64(key, y, word)
    }
}

/// `key * y + word` modulo 2^64 - 59, for a key below 2^57.
#[inline]
fn multiply_add_64(key: u64, y: u64, word: u64) -> u64 {
    let product = u128::from(key) * u128::from(y) + u128::from(word);
    // 2^64 is 59 modulo the prime; the high half is below 2^57 + 1, so 59 times it is below 2^63,
    // and folding a carry in cannot overflow.
    let folded = (product & u128::from(u64::MAX)) + (product >> 64) * 59;
    fold_once(folded)
}

/// Reduces a value below 2^64 + 2^63 to one below 2^64, modulo 2^64 - 59.
#[inline]
#[allow(clippy::cast_possible_truncation)] // splits a u128 into its halves
fn fold_once(value: u128) -> u64 {
    (value as u64).wrapping_add(59 * ((value >> 64) as u64))
}

fn step_128(key: u128, y: u128, word: u128) -> u128 {
    if word >= RANGE_128 {
        let y = multiply_add_128(key, y, PRIME_128 - 1);
        multiply_add_128(key, y, word - 159)
    } else {
        multiply_add_128(key, y, word)
    }
}

/// `key * y + word` modulo 2^128 - 159, for a key below 2^121.
fn multiply_add_128(key: u128, y: u128, word: u128) -> u128 {
    const LOW: u128 = u64::MAX as u128;
    let (k1, k0) = (key >> 64, key & LOW);
    let (y1, y0) = (y >> 64, y & LOW);
    // Schoolbook, 64-bit halves: high and low are the halves of the product.
    let low = k0 * y0;
    let (middle, carry) = (k1 * y0).overflowing_add(k0 * y1);
    let (low, carry_low) = low.overflowing_add(middle << 64);
    let high = k1 * y1 + (middle >> 64) + (u128::from(carry) << 64) + u128::from(carry_low);
    // 2^128 is 159 modulo the prime; high is below 2^121, so 159 times it is below 2^129 and is
    // folded in two halves.
    let (low, carry_word) = low.overflowing_add(word);
    let high = high + u128::from(carry_word);
    let folded_low = (high & LOW) * 159;
    let folded_high = (high >> 64) * 159;
    let (low, carry_a) = low.overflowing_add(folded_low);
    let (low, carry_b) = low.overflowing_add(folded_high << 64);
    let carries = (folded_high >> 64) + u128::from(carry_a) + u128::from(carry_b);
    let (low, carry) = low.overflowing_add(carries * 159);
    low.wrapping_add(u128::from(carry) * 159)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bitwise reference multiplication.
    fn slow(key: u128, y: u128, word: u128, prime: u128) -> u128 {
        let add = |a: u128, b: u128| {
            let (a, b) = (a % prime, b % prime);
            let (sum, carry) = a.overflowing_add(b);
            if carry || sum >= prime {
                sum.wrapping_sub(prime)
            } else {
                sum
            }
        };
        let mut product = 0;
        for bit in (0..128).rev() {
            product = add(product, product);
            if key >> bit & 1 == 1 {
                product = add(product, y);
            }
        }
        add(product, word)
    }

    #[test]
    fn products_are_right_at_the_edges() {
        let keys = [0, 1, 0x01ff_ffff_01ff_ffff, 0x0123_4567_0089_abcd];
        let values = [
            0,
            1,
            58,
            59,
            60,
            PRIME_64 - 1,
            PRIME_64,
            PRIME_64 + 1,
            u64::MAX,
            1 << 63,
        ];
        for key in keys {
            for y in values {
                for word in values {
                    let fast = u128::from(reduce_64(multiply_add_64(key, y, word)));
                    let right = slow(key.into(), y.into(), word.into(), PRIME_64.into());
                    assert_eq!(fast, right, "{key:x} {y:x} {word:x}");
                }
            }
        }
    }

    #[test]
    fn long_products_are_right_at_the_edges() {
        let keys = [
            0,
            1,
            0x01ff_ffff_01ff_ffff_01ff_ffff_01ff_ffff,
            0x0102_0304_0055_6677,
        ];
        let values = [
            0,
            1,
            158,
            159,
            160,
            PRIME_128 - 1,
            PRIME_128,
            u128::MAX,
            1 << 127,
            u128::from(u64::MAX),
            (1 << 64) + 1,
        ];
        for key in keys {
            for y in values {
                for word in values {
                    let fast = multiply_add_128(key, y, word) % PRIME_128;
                    assert_eq!(
                        fast,
                        slow(key, y, word, PRIME_128),
                        "{key:x} {y:x} {word:x}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_word_out_of_range_is_marked() {
        let key = PolyKey { k64: 3, k128: 5 };
        let mut poly = Poly::default();
        poly.absorb(&key, RANGE_64);
        // ((3·1 + p-1)·3 + 2^64-2^32-59) mod p = (2·3 + p - 2^32) mod p
        assert_eq!(poly.finish(), u128::from(PRIME_64 - (1 << 32) + 6));
        let mut poly = Poly::default();
        poly.absorb(&key, RANGE_64 - 1);
        assert_eq!(poly.finish(), u128::from(RANGE_64 - 1 + 3));
    }
}
