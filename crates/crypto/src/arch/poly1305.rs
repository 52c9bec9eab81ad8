//! Poly1305 (RFC 8439 §2.5) on 64-bit words, for short messages and the ends of long ones. The
//! kernels for long messages are in `x86_64` and `aarch64`.
//!
//! Runs in constant time: no branch or address depends on key or message.
#![forbid(unsafe_code)]

use zeroize::{Zeroize, ZeroizeOnDrop};

/// Size of a block in bytes.
const BLOCK_LEN: usize = 16;

/// State of a computation under a one-time key.
///
/// The accumulator is a number of slightly more than 130 bits, in words of 64 bits, lowest first:
/// the topmost word stays below 8.
#[derive(Zeroize, ZeroizeOnDrop)]
pub(crate) struct Poly1305 {
    accumulator: [u64; 3],
    r: [u64; 2],
    /// 5/4 of the upper word of `r`, whose lowest two bits are clear: 2^128 times
    /// that word, modulo 2^130 - 5.
    folded: u64,
    pad: u128,
}

impl Poly1305 {
    /// Splits the key into `r`, clamped, and the number added at the end.
    #[inline]
    pub(crate) fn new(key: &[u8; 32]) -> Self {
        let [r, pad] = halves(key);
        let [low, high] = words(r & 0x0fff_fffc_0fff_fffc_0fff_fffc_0fff_ffff);
        Self {
            accumulator: [0; 3],
            r: [low, high],
            folded: high.wrapping_add(high >> 2),
            pad,
        }
    }

    /// The clamped `r`, lower word first.
    #[inline]
    pub(crate) fn r(&self) -> [u64; 2] {
        self.r
    }

    /// Continues from the accumulator of a kernel that has processed the previous blocks. Its
    /// topmost word must be below 8.
    #[inline]
    pub(crate) fn resume(&mut self, accumulator: [u64; 3]) {
        self.accumulator = accumulator;
    }

    /// Absorbs `data` and returns the tag.
    #[inline]
    pub(crate) fn finish(mut self, data: &[u8]) -> [u8; 16] {
        let (blocks, rest) = data.as_chunks::<BLOCK_LEN>();
        for block in blocks {
            self.block(u128::from_le_bytes(*block), 1);
        }
        if !rest.is_empty() {
            let mut block = [0; BLOCK_LEN];
            // The message is followed by a one, then zeros.
            for (to, from) in block.iter_mut().zip(rest.iter().chain(&[1])) {
                *to = *from;
            }
            self.block(u128::from_le_bytes(block), 0);
        }
        self.tag()
    }

    /// Adds a block and `top` times 2^128, then multiplies by `r`.
    #[inline]
    fn block(&mut self, block: u128, top: u64) {
        let [a0, a1, a2] = self.accumulator;
        let (low, carry) = join([a0, a1]).overflowing_add(block);
        let [a0, a1] = words(low);
        let a2 = a2.wrapping_add(top).wrapping_add(u64::from(carry));

        let [r0, r1] = self.r;
        let product = |x: u64, y: u64| u128::from(x).wrapping_mul(u128::from(y));
        // The words of `r` are below 2^60: no sum of two products overflows.
        let d0 = product(a0, r0).wrapping_add(product(a1, self.folded));
        let d1 = product(a0, r1)
            .wrapping_add(product(a1, r0))
            .wrapping_add(u128::from(a2.wrapping_mul(self.folded)));
        let d2 = a2.wrapping_mul(r0);

        let [b0, carry] = words(d0);
        let [b1, carry] = words(d1.wrapping_add(u128::from(carry)));
        self.accumulator = fold([b0, b1, d2.wrapping_add(carry)]);
    }

    /// The accumulator modulo 2^130 - 5, and the pad added to it.
    #[inline]
    fn tag(&self) -> [u8; 16] {
        let [a0, a1, a2] = fold(self.accumulator);
        let low = join([a0, a1]);
        // The value is below twice the modulus: subtract the modulus once if the value is not below
        // it.
        let (less, carry) = low.overflowing_add(5);
        let reaches = a2.wrapping_add(u64::from(carry)) >> 2;
        let mask = u128::from(reaches).wrapping_neg();
        let reduced = (less & mask) | (low & !mask);
        reduced.wrapping_add(self.pad).to_le_bytes()
    }
}

/// Multiplies the part above 2^130 by 5 and adds it at the bottom. The topmost word of the result
/// is at most 4.
#[inline]
pub(super) fn fold(accumulator: [u64; 3]) -> [u64; 3] {
    let [a0, a1, a2] = accumulator;
    let excess = (a2 >> 2).wrapping_add(a2 & !3);
    let (low, carry) = join([a0, a1]).overflowing_add(u128::from(excess));
    let [a0, a1] = words(low);
    [a0, a1, (a2 & 3).wrapping_add(u64::from(carry))]
}

/// The lowest 26 bits: a limb of the kernels with 64-bit products.
pub(super) const LOW_26: u64 = (1 << 26) - 1;

/// The limbs of 26 bits of a number below 2^128.
#[inline]
pub(super) fn limbs_26([low, high]: [u64; 2]) -> [u64; 5] {
    [
        low & LOW_26,
        low >> 26 & LOW_26,
        (low >> 52 | high << 12) & LOW_26,
        high >> 14 & LOW_26,
        high >> 40,
    ]
}

/// Converts limbs below 2^31 to words of 64 bits; the topmost is at most 4.
#[inline]
pub(super) fn words_of_limbs_26(limbs: [u64; 5]) -> [u64; 3] {
    let mut words = [0u64; 3];
    let mut carry = 0u64;
    for (i, limb) in limbs.into_iter().enumerate() {
        let sum = limb.wrapping_add(carry);
        let (limb, at) = (sum & LOW_26, 26 * i);
        carry = sum >> 26;
        words[at / 64] |= limb << (at % 64);
        if at % 64 > 64 - 26 {
            words[at / 64 + 1] |= limb >> (64 - at % 64);
        }
    }
    // 2^130 is bit 2 of the topmost word.
    words[2] = words[2].wrapping_add(carry << 2);
    fold(words)
}

#[inline]
fn halves(key: &[u8; 32]) -> [u128; 2] {
    let mut halves = [0; 2];
    for (half, bytes) in halves.iter_mut().zip(key.as_chunks().0) {
        *half = u128::from_le_bytes(*bytes);
    }
    halves
}

/// Lower and upper half.
#[inline]
#[allow(clippy::cast_possible_truncation)]
fn words(value: u128) -> [u64; 2] {
    [value as u64, (value >> 64) as u64]
}

#[inline]
fn join(words: [u64; 2]) -> u128 {
    u128::from(words[0]) | u128::from(words[1]) << 64
}
