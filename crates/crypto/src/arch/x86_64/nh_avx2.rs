//! NH on AVX2: 64 bytes per step.
//!
//! Two loads hold words 0-7 and 8-15. Their 128-bit halves are paired to words (0-3, 8-11) and
//! (4-7, 12-15), so that NH's partners w_j and w_{j+4} are in the same lane of two vectors; the key
//! is arranged in the same way once. `vpmuludq` multiplies the even lanes, and after a shift the
//! odd ones.

use core::arch::x86_64::*;

use super::nh_key::nh_key;
use crate::arch::HaveAvx2;

const STEP_LEN: usize = 64;

nh_key! { NhAvx2Key, NhAvx2KeyPair, HaveAvx2, 8 words in 32 bytes, [0, 1, 2, 3, 8, 9, 10, 11] }

#[target_feature(enable = "avx2")]
fn kernel<const STREAMS: usize>(
    pairs: &[NhAvx2KeyPair],
    steps: &[[u8; STEP_LEN]],
    out: &mut [u64; 4],
) {
    let mut sums = [_mm256_setzero_si256(); STREAMS];
    for (step, keys) in steps.iter().zip(pairs.as_chunks::<STREAMS>().0) {
        // SAFETY: a step is 64 bytes; loads need no alignment.
        let (first, second) = unsafe {
            let pointer = step.as_ptr().cast::<__m256i>();
            (
                _mm256_loadu_si256(pointer),
                _mm256_loadu_si256(pointer.add(1)),
            )
        };
        let low = _mm256_permute2x128_si256::<0x20>(first, second);
        let high = _mm256_permute2x128_si256::<0x31>(first, second);
        for (sum, key) in sums.iter_mut().zip(keys) {
            // SAFETY: both key vectors are 32 bytes, and aligned to them.
            let (key_low, key_high) = unsafe {
                (
                    _mm256_load_si256(key.low.as_ptr().cast()),
                    _mm256_load_si256(key.high.as_ptr().cast()),
                )
            };
            let low = _mm256_add_epi32(low, key_low);
            let high = _mm256_add_epi32(high, key_high);
            let even = _mm256_mul_epu32(low, high);
            let odd = _mm256_mul_epu32(_mm256_srli_epi64::<32>(low), _mm256_srli_epi64::<32>(high));
            *sum = _mm256_add_epi64(*sum, _mm256_add_epi64(even, odd));
        }
    }
    for (out, sum) in out.iter_mut().zip(sums) {
        let halves = _mm_add_epi64(
            _mm256_castsi256_si128(sum),
            _mm256_extracti128_si256::<1>(sum),
        );
        let sum = _mm_add_epi64(halves, _mm_unpackhi_epi64(halves, halves));
        *out = out.wrapping_add(_mm_cvtsi128_si64(sum).cast_unsigned());
    }
}
