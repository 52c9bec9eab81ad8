//! Poly1305 on AVX-512 IFMA: eight blocks at a time, a lane for each.
//!
//! Numbers have limbs of 44, 44 and 42 bits; IFMA multiplies 52 bits and adds the low or the high
//! 52 bits of the product. Each lane processes every eighth block, so its accumulator is multiplied
//! by r^8 for each; four steps (times r^32, r^24, r^16 and r^8) share one carry propagation, and
//! only the first of these products waits for the previous four steps.

use core::arch::x86_64::*;
use core::hint::black_box;

use super::poly1305_lanes::poly1305;
use crate::arch::HaveAvx512Ifma;
use crate::arch::poly1305::{Poly1305, fold};

/// Minimum message length in bytes; for shorter ones the powers of r cost more than the whole
/// message on scalar words.
const MIN_LEN: usize = 320;
/// Minimum number of whole steps for which the powers above r^8 are worth computing.
const MANY_STEPS: usize = 10;

const LOW_44: u64 = (1 << 44) - 1;
const LOW_42: u64 = (1 << 42) - 1;

/// A number in each lane.
type IfmaLimbs = [__m512i; 3];

#[inline]
#[target_feature(enable = "avx512f")]
fn zero() -> IfmaLimbs {
    [_mm512_setzero_si512(); 3]
}

poly1305! { "avx512f,avx512ifma", HaveAvx512Ifma, 8, IfmaLimbs, IfmaSum, IfmaPowers }

/// A power of r, and its upper limbs times 20: a term at 2^132 counts 4 * 5 times at the bottom.
#[derive(Clone, Copy)]
struct Power {
    limbs: IfmaLimbs,
    folded: [__m512i; 2],
}

impl IfmaPowers {
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn new(r: [u64; 2]) -> Self {
        let [low, high] = r;
        let limbs = [low & LOW_44, (low >> 44 | high << 20) & LOW_44, high >> 24];
        let r1 = Power::new(broadcast(limbs));
        let r2 = r1.times(&r1);
        let r4 = r2.times(&r2);
        // Lanes 0 to 7 hold blocks 0, 4, 1, 5, 2, 6, 3 and 7 of a step and need r^8, r^4, r^7, r^3,
        // r^6, r^2, r^5 and r^1. In each lane, this is the product of r or r^2, of 1 or r^2, and of
        // 1 or r^4.
        let one = broadcast([1, 0, 0]);
        let last = Power::new(blend(0b0011_0011, &r1.limbs, &r2.limbs))
            .times(&Power::new(blend(0b0000_1111, &one, &r2.limbs)))
            .times(&Power::new(blend(0b0101_0101, &one, &r4.limbs)));
        Self {
            step: r4.times(&r4),
            last,
        }
    }
}

/// The lanes of `b` that `mask` selects, and the others of `a`.
#[inline]
#[target_feature(enable = "avx512f")]
fn blend(mask: u8, a: &IfmaLimbs, b: &IfmaLimbs) -> IfmaLimbs {
    let mut out = *a;
    for (out, b) in out.iter_mut().zip(b) {
        *out = _mm512_mask_mov_epi64(*out, mask, *b);
    }
    out
}

/// A number in all lanes.
#[inline]
#[target_feature(enable = "avx512f")]
fn broadcast(limbs: [u64; 3]) -> IfmaLimbs {
    let mut out = zero();
    for (out, limb) in out.iter_mut().zip(limbs) {
        *out = _mm512_set1_epi64(limb.cast_signed());
    }
    out
}

impl Power {
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn new(limbs: IfmaLimbs) -> Self {
        let times_20 = |x| {
            let times_4 = _mm512_slli_epi64::<2>(x);
            _mm512_add_epi64(times_4, _mm512_slli_epi64::<4>(x))
        };
        Self {
            limbs,
            folded: [times_20(limbs[1]), times_20(limbs[2])],
        }
    }
}

/// Products before carry propagation: the low halves, at the limbs' positions, and the high halves,
/// 52 bits above. With factors below 2^45 and 2^49, sums of a dozen of them stay below 2^56 and
/// 2^46.
struct IfmaSum {
    low: IfmaLimbs,
    high: IfmaLimbs,
}

impl IfmaSum {
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn new(start: IfmaLimbs) -> Self {
        Self {
            low: start,
            high: [_mm512_setzero_si512(); 3],
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn add_product(&mut self, factor: &IfmaLimbs, power: &Power) {
        let [r0, r1, r2] = power.limbs;
        let [s1, s2] = power.folded;
        let columns = [[r0, s2, s1], [r1, r0, s2], [r2, r1, r0]];
        for j in 0..3 {
            for (i, column) in columns.iter().enumerate() {
                let (x, y) = (factor[j], column[j]);
                self.low[i] = _mm512_madd52lo_epu64(self.low[i], x, y);
                self.high[i] = _mm512_madd52hi_epu64(self.high[i], x, y);
            }
        }
    }

    /// The high halves at their positions: 52 = 44 + 8 bits, and 52 = 42 + 10 for the topmost,
    /// which count 5 times at the bottom.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn places(&self) -> (IfmaLimbs, __m512i) {
        let [d0, d1, d2] = self.low;
        (
            [
                d0,
                _mm512_add_epi64(d1, _mm512_slli_epi64::<8>(self.high[0])),
                _mm512_add_epi64(d2, _mm512_slli_epi64::<8>(self.high[1])),
            ],
            _mm512_slli_epi64::<10>(self.high[2]),
        )
    }

    /// Limbs below 2^44, 2^44 + 2^15 and 2^42.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn carry(&self) -> IfmaLimbs {
        let low_44 = _mm512_set1_epi64(LOW_44.cast_signed());
        let low_42 = _mm512_set1_epi64(LOW_42.cast_signed());
        let ([d0, d1, d2], top) = self.places();
        let d1 = _mm512_add_epi64(d1, _mm512_srli_epi64::<44>(d0));
        let d0 = _mm512_and_si512(d0, low_44);
        let d2 = _mm512_add_epi64(d2, _mm512_srli_epi64::<44>(d1));
        let d1 = _mm512_and_si512(d1, low_44);
        let top = _mm512_add_epi64(top, _mm512_srli_epi64::<42>(d2));
        let d2 = _mm512_and_si512(d2, low_42);
        let d0 = _mm512_add_epi64(d0, times_5(top));
        let d1 = _mm512_add_epi64(d1, _mm512_srli_epi64::<44>(d0));
        let d0 = _mm512_and_si512(d0, low_44);
        [d0, d1, d2]
    }

    /// The sum of all lanes, in words of 64 bits; the topmost is at most 4.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn across(&self) -> [u64; 3] {
        let ([d0, d1, d2], top) = self.places();
        let d0 = _mm512_add_epi64(d0, times_5(top));
        // Three products a lane and eight lanes: each sum is below 2^61.
        let sum = |x| _mm512_reduce_add_epi64(x).cast_unsigned();
        let (d0, d1, d2) = (sum(d0), sum(d1), sum(d2));
        let d1 = d1.wrapping_add(d0 >> 44);
        let d2 = d2.wrapping_add(d1 >> 44);
        let (d0, d1) = (d0 & LOW_44, d1 & LOW_44);
        let a0 = d0 | d1 << 44;
        // The third limb begins 24 bits into the second word.
        let a1 = (d1 >> 20) | ((d2 & ((1 << 40) - 1)) << 24);
        fold([a0, a1, d2 >> 40])
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn times_5(x: __m512i) -> __m512i {
    _mm512_add_epi64(x, _mm512_slli_epi64::<2>(x))
}

/// The blocks of a step, in limbs.
#[inline]
#[target_feature(enable = "avx512f")]
fn load(step: &[u8; STEP_LEN]) -> IfmaLimbs {
    let pointer = step.as_ptr().cast::<__m512i>();
    // SAFETY: a step is two vectors; loads need no alignment.
    let (a, b) = unsafe {
        (
            _mm512_loadu_si512(pointer),
            _mm512_loadu_si512(pointer.add(1)),
        )
    };
    limbs(a, b, _mm512_set1_epi64(TOP_BIT))
}

/// 2^128, the bit above every block, within the third limb.
const TOP_BIT: i64 = 1 << 40;

/// Up to eight blocks, including their top bits, as the last ones of a step whose first ones are
/// zero.
#[inline]
#[target_feature(enable = "avx512f")]
fn load_first(blocks: &[[u8; BLOCK_LEN]]) -> IfmaLimbs {
    let missing = 8usize.saturating_sub(blocks.len());
    let pointer = blocks.as_ptr().wrapping_sub(missing).cast::<i64>();
    // Two 64-bit words a block.
    let [mask_a, mask_b] = (0xffff_u16 << (2 * missing)).to_le_bytes();
    // SAFETY: the masks select only words inside `blocks`; a masked load touches
    // no other.
    let (a, b) = unsafe {
        (
            _mm512_maskz_loadu_epi64(mask_a, pointer),
            _mm512_maskz_loadu_epi64(mask_b, pointer.wrapping_add(8)),
        )
    };
    let tops = _mm512_unpackhi_epi64(
        _mm512_maskz_set1_epi64(mask_a, TOP_BIT),
        _mm512_maskz_set1_epi64(mask_b, TOP_BIT),
    );
    limbs(a, b, tops)
}

/// Eight blocks in limbs: lanes hold blocks 0, 4, 1, 5, 2, 6, 3 and 7.
#[inline]
#[target_feature(enable = "avx512f")]
fn limbs(a: __m512i, b: __m512i, tops: __m512i) -> IfmaLimbs {
    let low_44 = _mm512_set1_epi64(LOW_44.cast_signed());
    let low = _mm512_unpacklo_epi64(a, b);
    let high = _mm512_unpackhi_epi64(a, b);
    let middle = _mm512_or_si512(_mm512_srli_epi64::<44>(low), _mm512_slli_epi64::<20>(high));
    [
        _mm512_and_si512(low, low_44),
        _mm512_and_si512(middle, low_44),
        _mm512_or_si512(_mm512_srli_epi64::<24>(high), tops),
    ]
}
