//! Poly1305 on NEON: two blocks at a time, a lane for each.
//!
//! Limbs have 26 bits; 52-bit products are added in 64 bits. Each lane processes every second
//! block; four steps (times r^8, r^6, r^4 and r^2) share one carry propagation. Two steps are
//! multiplied from one vector, its lower and its upper half, by elements of vectors that hold all
//! four powers, so that everything fits into the registers.

use core::arch::aarch64::*;
use core::arch::asm;

use crate::arch::HaveNeon;
use crate::arch::poly1305::{LOW_26, Poly1305, limbs_26, words_of_limbs_26};

/// Bytes of a block.
const BLOCK_LEN: usize = 16;
/// Bytes of a step, which is two blocks.
const STEP_LEN: usize = 32;
/// Steps that share a carry.
const SHARING: usize = 4;
/// Minimum message length in bytes; for shorter ones the powers of r cost more than the whole
/// message on scalar words.
const MIN_LEN: usize = 384;

/// A number in each lane.
type NeonLimbs = [uint64x2_t; 5];
/// Numbers as factors.
type Factors = [uint32x2_t; 5];
/// Numbers of two steps: the lower half is the first's.
type LimbPair = [uint32x4_t; 5];

/// The tag of `data`.
pub(super) fn tag(token: HaveNeon, key: &[u8; 32], data: &[u8]) -> [u8; 16] {
    let mut state = Poly1305::new(key);
    if data.len() < MIN_LEN {
        return state.finish(data);
    }
    let (blocks, rest) = data.as_chunks::<BLOCK_LEN>();
    let HaveNeon(()) = token;
    // SAFETY: the token proves NEON.
    state.resume(unsafe { absorb(state.r(), blocks) });
    state.finish(rest)
}

/// The accumulator after all `blocks`, in words of 64 bits.
#[target_feature(enable = "neon")]
fn absorb(r: [u64; 2], blocks: &[[u8; BLOCK_LEN]]) -> [u64; 3] {
    let powers = NeonPowers::new(r);
    // The first step is short, so that the others are whole.
    let (first, rest) = blocks.split_at(2 - blocks.len() % 2);
    let mut accumulator = load_first(first);
    let (steps, _) = rest.as_flattened().as_chunks::<STEP_LEN>();
    let (groups, steps) = steps.as_chunks::<SHARING>();
    for [a, b, c, d] in groups {
        let mut sum = NeonSum(load(d));
        let later = pair(&load(b), &load(c));
        sum.add_lower::<1>(&later, &powers);
        sum.add_upper::<0>(&later, &powers);
        let earlier = pair(&accumulator, &load(a));
        sum.add_upper::<2>(&earlier, &powers);
        sum.add_lower::<3>(&earlier, &powers);
        accumulator = sum.carry();
    }
    for step in steps {
        let mut sum = NeonSum(load(step));
        sum.add_lower::<0>(&pair(&accumulator, &accumulator), &powers);
        accumulator = sum.carry();
    }
    let sum = product(&factors(&accumulator), &powers.last);
    words_of_limbs_26(sum.carry().map(|limb| vaddvq_u64(limb)))
}

/// Powers of r, and their upper limbs times 5, for product terms at 2^130 or above.
struct NeonPowers {
    /// Of r^2, r^4, r^6 and r^8.
    limbs: [uint32x4_t; 5],
    folded: [uint32x4_t; 4],
    /// r^2 and r: the factors of each lane's last block.
    last: Factors,
}

impl NeonPowers {
    #[inline]
    #[target_feature(enable = "neon")]
    fn new(r: [u64; 2]) -> Self {
        let r1 = factors(&opaque(limbs_26(r).map(|limb| vdupq_n_u64(limb))));
        let r2 = factors(&product(&r1, &r1).carry());
        let r4 = factors(&product(&r2, &r2).carry());
        let lower = zip(&r2, &r4);
        let upper = factors(&product(&lower, &r4).carry());
        let mut limbs = [vdupq_n_u32(0); 5];
        for ((limb, lower), upper) in limbs.iter_mut().zip(lower).zip(upper) {
            *limb = vcombine_u32(lower, upper);
        }
        let [_, l1, l2, l3, l4] = limbs;
        Self {
            limbs,
            folded: [l1, l2, l3, l4].map(|x| vaddq_u32(x, vshlq_n_u32::<2>(x))),
            last: zip(&r2, &r1),
        }
    }

    /// The factor of limb `j` of the other number in limb `i` of a product.
    #[inline]
    fn meeting(&self, i: usize, j: usize) -> uint32x4_t {
        if j <= i {
            self.limbs[i - j]
        } else {
            self.folded[i + 4 - j]
        }
    }
}

/// Products before the carry. With factors below 2^27 and 2^29, twenty of them
/// keep below 2^61.
struct NeonSum(NeonLimbs);

impl NeonSum {
    /// Adds the first numbers of `pair` times the power in `LANE`.
    #[inline]
    #[target_feature(enable = "neon")]
    fn add_lower<const LANE: i32>(&mut self, pair: &LimbPair, powers: &NeonPowers) {
        for (j, x) in pair.iter().enumerate() {
            for (i, sum) in self.0.iter_mut().enumerate() {
                *sum = vmlal_laneq_u32::<LANE>(*sum, vget_low_u32(*x), powers.meeting(i, j));
            }
        }
    }

    /// Adds the second numbers of `pair` times the power in `LANE`.
    #[inline]
    #[target_feature(enable = "neon")]
    fn add_upper<const LANE: i32>(&mut self, pair: &LimbPair, powers: &NeonPowers) {
        for (j, x) in pair.iter().enumerate() {
            for (i, sum) in self.0.iter_mut().enumerate() {
                *sum = vmlal_high_laneq_u32::<LANE>(*sum, *x, powers.meeting(i, j));
            }
        }
    }

    /// Limbs below 2^26 or, two of them, a little above: two chains side by side.
    #[inline]
    #[target_feature(enable = "neon")]
    fn carry(&self) -> NeonLimbs {
        let low_26 = vdupq_n_u64(LOW_26);
        let add_upper = |x, from| vsraq_n_u64::<26>(x, from);
        let lower = |x| vandq_u64(x, low_26);
        let [d0, d1, d2, d3, d4] = self.0;
        let (d1, d4) = (add_upper(d1, d0), add_upper(d4, d3));
        let (d0, d3) = (lower(d0), lower(d3));
        // Times 5, because 2^130 is 5 modulo the prime.
        let above = vshrq_n_u64::<26>(d4);
        let above = vaddq_u64(above, vshlq_n_u64::<2>(above));
        let (d2, d0) = (add_upper(d2, d1), vaddq_u64(d0, above));
        let (d1, d4) = (lower(d1), lower(d4));
        let (d3, d1) = (add_upper(d3, d2), add_upper(d1, d0));
        let (d2, d0) = (lower(d2), lower(d0));
        let d4 = add_upper(d4, d3);
        opaque([d0, d1, d2, lower(d3), d4])
    }
}

/// The same numbers, opaque to the compiler. If the compiler knows that the upper halves of limbs
/// are zero, it multiplies all 64 bits, for which NEON has no instruction: one by one, on the
/// integer unit.
#[inline]
fn opaque(mut limbs: NeonLimbs) -> NeonLimbs {
    for limb in &mut limbs {
        // SAFETY: no instruction at all.
        unsafe {
            asm!(
                "/* {0:v} */",
                inout(vreg) * limb,
                options(pure, nomem, nostack, preserves_flags)
            );
        }
    }
    limbs
}

/// Lane by lane.
#[inline]
#[target_feature(enable = "neon")]
fn product(a: &Factors, b: &Factors) -> NeonSum {
    let [_, b1, b2, b3, b4] = *b;
    let folded = [b1, b2, b3, b4].map(|x| vadd_u32(x, vshl_n_u32::<2>(x)));
    let mut sums = [vdupq_n_u64(0); 5];
    for (j, x) in a.iter().enumerate() {
        for (i, sum) in sums.iter_mut().enumerate() {
            let y = if j <= i { b[i - j] } else { folded[i + 4 - j] };
            *sum = vmlal_u32(*sum, *x, y);
        }
    }
    NeonSum(sums)
}

#[inline]
#[target_feature(enable = "neon")]
fn factors(limbs: &NeonLimbs) -> Factors {
    limbs.map(|limb| vmovn_u64(limb))
}

/// The first numbers of both.
#[inline]
#[target_feature(enable = "neon")]
fn zip(a: &Factors, b: &Factors) -> Factors {
    let mut out = *a;
    for (out, b) in out.iter_mut().zip(b) {
        *out = vzip1_u32(*out, *b);
    }
    out
}

#[inline]
#[target_feature(enable = "neon")]
fn pair(a: &NeonLimbs, b: &NeonLimbs) -> LimbPair {
    let mut out = [vdupq_n_u32(0); 5];
    for ((out, a), b) in out.iter_mut().zip(a).zip(b) {
        *out = vuzp1q_u32(vreinterpretq_u32_u64(*a), vreinterpretq_u32_u64(*b));
    }
    out
}

/// 2^128, the bit above every block, within the fifth limb.
const TOP_BIT: u64 = 1 << 24;

/// The blocks of a step, in limbs.
#[inline]
#[target_feature(enable = "neon")]
fn load(step: &[u8; STEP_LEN]) -> NeonLimbs {
    limbs(step, vdupq_n_u64(TOP_BIT))
}

/// One or two blocks, as the last ones of a step whose first is zero, top bit and
/// all.
#[inline]
#[target_feature(enable = "neon")]
fn load_first(blocks: &[[u8; BLOCK_LEN]]) -> NeonLimbs {
    let mut step = [[0; BLOCK_LEN]; 2];
    let mut tops = [0; 2];
    let there = step.iter_mut().zip(&mut tops).rev();
    for ((place, top), block) in there.zip(blocks.iter().rev()) {
        *place = *block;
        *top = TOP_BIT;
    }
    let [first, second] = tops;
    let tops = vcombine_u64(vcreate_u64(first), vcreate_u64(second));
    match step.as_flattened().as_array() {
        Some(step) => limbs(step, tops),
        None => unreachable!("two blocks are a step"),
    }
}

/// Two blocks in limbs, a block in each lane.
#[inline]
#[target_feature(enable = "neon")]
fn limbs(step: &[u8; STEP_LEN], tops: uint64x2_t) -> NeonLimbs {
    let pointer = step.as_ptr();
    // SAFETY: a step is two vectors; loads need no alignment.
    let (a, b) = unsafe {
        (
            vreinterpretq_u64_u8(vld1q_u8(pointer)),
            vreinterpretq_u64_u8(vld1q_u8(pointer.add(BLOCK_LEN))),
        )
    };
    let low_26 = vdupq_n_u64(LOW_26);
    let low = vzip1q_u64(a, b);
    let high = vzip2q_u64(a, b);
    let middle = vsliq_n_u64::<12>(vshrq_n_u64::<52>(low), high);
    [
        vandq_u64(low, low_26),
        vandq_u64(vshrq_n_u64::<26>(low), low_26),
        vandq_u64(middle, low_26),
        vandq_u64(vshrq_n_u64::<14>(high), low_26),
        vorrq_u64(vshrq_n_u64::<40>(high), tops),
    ]
}
