//! Poly1305 on AVX2: four blocks at a time, a lane for each.
//!
//! Like the AVX-512 kernel, with limbs of 26 bits, whose 52-bit products are added in 64 bits. Each
//! lane processes every fourth block; four steps (times r^16, r^12, r^8 and r^4) share one carry
//! propagation.

use core::arch::asm;
use core::arch::x86_64::*;
use core::hint::black_box;

use super::poly1305_lanes::poly1305;
use crate::arch::HaveAvx2;
use crate::arch::poly1305::{LOW_26, Poly1305, limbs_26, words_of_limbs_26};

/// Minimum message length in bytes; for shorter ones the powers of r cost more than the whole
/// message on scalar words.
const MIN_LEN: usize = 384;
/// Minimum number of whole steps for which the powers above r^4 are worth computing.
const MANY_STEPS: usize = 8;

/// A number in each lane.
type Avx2Limbs = [__m256i; 5];

#[inline]
#[target_feature(enable = "avx2")]
fn zero() -> Avx2Limbs {
    [_mm256_setzero_si256(); 5]
}

poly1305! { "avx2", HaveAvx2, 4, Avx2Limbs, Avx2Sum, Avx2Powers }

/// A power of r, and its upper limbs times 5, for product terms at 2^130 or above.
#[derive(Clone, Copy)]
struct Power {
    limbs: Avx2Limbs,
    folded: [__m256i; 4],
}

impl Avx2Powers {
    #[inline]
    #[target_feature(enable = "avx2")]
    fn new(r: [u64; 2]) -> Self {
        let r1 = Power::new(broadcast(limbs_26(r)));
        let r2 = r1.times(&r1);
        // Lanes 0 to 3 hold blocks 0, 2, 1 and 3 of a step and need r^4, r^2, r^3 and r^1. In each
        // lane, this is the product of r or r^2, and of 1 or r^2.
        let one = broadcast([1, 0, 0, 0, 0]);
        let first = blend::<0b0000_1111>(&r1.limbs, &r2.limbs);
        let second = blend::<0b0011_0011>(&one, &r2.limbs);
        Self {
            step: r2.times(&r2),
            last: Power::new(first).times(&Power::new(second)),
        }
    }
}

/// The words of 32 bits of `b` that `MASK` selects, and the others of `a`.
#[inline]
#[target_feature(enable = "avx2")]
fn blend<const MASK: i32>(a: &Avx2Limbs, b: &Avx2Limbs) -> Avx2Limbs {
    let mut out = *a;
    for (out, b) in out.iter_mut().zip(b) {
        *out = _mm256_blend_epi32::<MASK>(*out, *b);
    }
    out
}

/// A number in all lanes.
#[inline]
#[target_feature(enable = "avx2")]
fn broadcast(limbs: [u64; 5]) -> Avx2Limbs {
    let mut out = zero();
    for (out, limb) in out.iter_mut().zip(limbs) {
        *out = _mm256_set1_epi64x(limb.cast_signed());
    }
    out
}

impl Power {
    #[inline]
    #[target_feature(enable = "avx2")]
    fn new(limbs: Avx2Limbs) -> Self {
        let [_, l1, l2, l3, l4] = limbs;
        Self {
            limbs,
            folded: opaque([times_5(l1), times_5(l2), times_5(l3), times_5(l4)]),
        }
    }
}

/// Products before the carry. With factors below 2^27 and 2^29, twenty of them
/// keep below 2^61.
struct Avx2Sum(Avx2Limbs);

impl Avx2Sum {
    #[inline]
    fn new(start: Avx2Limbs) -> Self {
        Self(start)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn add_product(&mut self, factor: &Avx2Limbs, power: &Power) {
        for (j, x) in factor.iter().enumerate() {
            for (i, sum) in self.0.iter_mut().enumerate() {
                let y = if j <= i {
                    power.limbs[i - j]
                } else {
                    power.folded[i + 4 - j]
                };
                *sum = _mm256_add_epi64(*sum, _mm256_mul_epu32(*x, y));
            }
        }
    }

    /// Limbs below 2^26 or, two of them, a little above: two chains side by side.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn carry(&self) -> Avx2Limbs {
        let low_26 = _mm256_set1_epi64x(LOW_26.cast_signed());
        let upper = |x| _mm256_srli_epi64::<26>(x);
        let lower = |x| _mm256_and_si256(x, low_26);
        let [d0, d1, d2, d3, d4] = self.0;
        let (d1, d4) = (
            _mm256_add_epi64(d1, upper(d0)),
            _mm256_add_epi64(d4, upper(d3)),
        );
        let (d0, d3) = (lower(d0), lower(d3));
        let (d2, d0) = (
            _mm256_add_epi64(d2, upper(d1)),
            _mm256_add_epi64(d0, times_5(upper(d4))),
        );
        let (d1, d4) = (lower(d1), lower(d4));
        let (d3, d1) = (
            _mm256_add_epi64(d3, upper(d2)),
            _mm256_add_epi64(d1, upper(d0)),
        );
        let (d2, d0) = (lower(d2), lower(d0));
        let d4 = _mm256_add_epi64(d4, upper(d3));
        opaque([d0, d1, d2, lower(d3), d4])
    }

    /// The sum of all lanes, in words of 64 bits; the topmost is at most 4.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn across(&self) -> [u64; 3] {
        let mut sums = [0; 5];
        for (sum, limb) in sums.iter_mut().zip(self.carry()) {
            // Four lanes of 28 bits at most.
            *sum = across(limb);
        }
        words_of_limbs_26(sums)
    }
}

/// The sum of the lanes.
#[inline]
#[target_feature(enable = "avx2")]
fn across(x: __m256i) -> u64 {
    let halves = _mm_add_epi64(_mm256_castsi256_si128(x), _mm256_extracti128_si256::<1>(x));
    let sum = _mm_add_epi64(halves, _mm_unpackhi_epi64(halves, halves));
    _mm_cvtsi128_si64(sum).cast_unsigned()
}

/// The same numbers, opaque to the compiler.
///
/// If the compiler knows that the upper halves are zero, it multiplies all 64 bits, and if it has
/// lost that knowledge (after a jump) it does so in four steps.
#[inline]
#[target_feature(enable = "avx2")]
fn opaque<const N: usize>(mut limbs: [__m256i; N]) -> [__m256i; N] {
    for limb in &mut limbs {
        // SAFETY: no instruction at all.
        unsafe {
            asm!(
                "/* {0} */",
                inout(ymm_reg) * limb,
                options(pure, nomem, nostack, preserves_flags)
            );
        }
    }
    limbs
}

#[inline]
#[target_feature(enable = "avx2")]
fn times_5(x: __m256i) -> __m256i {
    _mm256_add_epi64(x, _mm256_slli_epi64::<2>(x))
}

/// 2^128, the bit above every block, within the fifth limb.
const TOP_BIT: i64 = 1 << 24;

/// The blocks of a step, in limbs.
#[inline]
#[target_feature(enable = "avx2")]
fn load(step: &[u8; STEP_LEN]) -> Avx2Limbs {
    let pointer = step.as_ptr().cast::<__m256i>();
    // SAFETY: a step is two vectors; loads need no alignment.
    let (a, b) = unsafe {
        (
            _mm256_loadu_si256(pointer),
            _mm256_loadu_si256(pointer.add(1)),
        )
    };
    limbs(a, b, _mm256_set1_epi64x(TOP_BIT))
}

/// Up to four blocks, including their top bits, as the last ones of a step whose first ones are
/// zero.
#[inline]
#[target_feature(enable = "avx2")]
fn load_first(blocks: &[[u8; BLOCK_LEN]]) -> Avx2Limbs {
    let mut step = [[0; BLOCK_LEN]; 4];
    let mut tops = [0; 4];
    let there = step.iter_mut().zip(&mut tops).rev();
    for ((place, top), block) in there.zip(blocks.iter().rev()) {
        *place = *block;
        *top = TOP_BIT;
    }
    let pointer = step.as_ptr().cast::<__m256i>();
    // SAFETY: a step is two vectors; loads need no alignment.
    let (a, b) = unsafe {
        (
            _mm256_loadu_si256(pointer),
            _mm256_loadu_si256(pointer.add(1)),
        )
    };
    let [t0, t1, t2, t3] = tops;
    limbs(a, b, _mm256_set_epi64x(t3, t1, t2, t0))
}

/// Four blocks in limbs: lanes hold blocks 0, 2, 1 and 3.
#[inline]
#[target_feature(enable = "avx2")]
fn limbs(a: __m256i, b: __m256i, tops: __m256i) -> Avx2Limbs {
    let low_26 = _mm256_set1_epi64x(LOW_26.cast_signed());
    let low = _mm256_unpacklo_epi64(a, b);
    let high = _mm256_unpackhi_epi64(a, b);
    let middle = _mm256_or_si256(_mm256_srli_epi64::<52>(low), _mm256_slli_epi64::<12>(high));
    [
        _mm256_and_si256(low, low_26),
        _mm256_and_si256(_mm256_srli_epi64::<26>(low), low_26),
        _mm256_and_si256(middle, low_26),
        _mm256_and_si256(_mm256_srli_epi64::<14>(high), low_26),
        _mm256_or_si256(_mm256_srli_epi64::<40>(high), tops),
    ]
}
