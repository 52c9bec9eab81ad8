//! NH on AVX-512: 128 bytes per step.
//!
//! Like the AVX2 kernel, with four 128-bit lanes: two loads hold words 0-15 and 16-31; the even
//! lanes of both are NH's low partners, the odd ones the high partners.

use core::arch::x86_64::*;

use super::nh_key::nh_key;
use crate::arch::HaveAvx512;

const STEP_LEN: usize = 128;

nh_key! { NhAvx512Key, NhAvx512KeyPair, HaveAvx512, 16 words in 64 bytes, [0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27] }

#[target_feature(enable = "avx512f")]
fn kernel<const STREAMS: usize>(
    pairs: &[NhAvx512KeyPair],
    steps: &[[u8; STEP_LEN]],
    out: &mut [u64; 4],
) {
    // Even and odd products have separate sums: two independent chains per stream.
    let mut even_sums = [_mm512_setzero_si512(); STREAMS];
    let mut odd_sums = [_mm512_setzero_si512(); STREAMS];
    for (step, keys) in steps.iter().zip(pairs.as_chunks::<STREAMS>().0) {
        // SAFETY: a step is 128 bytes; loads need no alignment.
        let (first, second) = unsafe {
            let pointer = step.as_ptr().cast::<__m512i>();
            (
                _mm512_loadu_si512(pointer),
                _mm512_loadu_si512(pointer.add(1)),
            )
        };
        let low = _mm512_shuffle_i64x2::<0x88>(first, second);
        let high = _mm512_shuffle_i64x2::<0xdd>(first, second);
        for ((even_sum, odd_sum), key) in even_sums.iter_mut().zip(&mut odd_sums).zip(keys) {
            // SAFETY: both key vectors are 64 bytes, and aligned to them.
            let (key_low, key_high) = unsafe {
                (
                    _mm512_load_si512(key.low.as_ptr().cast()),
                    _mm512_load_si512(key.high.as_ptr().cast()),
                )
            };
            let low = _mm512_add_epi32(low, key_low);
            let high = _mm512_add_epi32(high, key_high);
            *even_sum = _mm512_add_epi64(*even_sum, _mm512_mul_epu32(low, high));
            let odd = _mm512_mul_epu32(_mm512_srli_epi64::<32>(low), _mm512_srli_epi64::<32>(high));
            *odd_sum = _mm512_add_epi64(*odd_sum, odd);
        }
    }
    for (out, (even, odd)) in out.iter_mut().zip(even_sums.into_iter().zip(odd_sums)) {
        let sum = _mm512_reduce_add_epi64(_mm512_add_epi64(even, odd));
        *out = out.wrapping_add(sum.cast_unsigned());
    }
}
