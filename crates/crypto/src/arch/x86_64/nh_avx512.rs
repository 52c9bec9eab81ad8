//! NH on AVX-512: 128 bytes per step.
//!
//! Like the AVX2 kernel, with four 128-bit lanes: two loads hold words 0-15 and 16-31; the even
//! lanes of both are NH's low partners, the odd ones the high partners.

use core::arch::x86_64::*;

use zeroize::Zeroize;

use crate::arch::HaveAvx512;

const STEP_LEN: usize = 128;
const STEPS: usize = 8;

/// Key vectors of a step and stream: the partners' low and high side.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct NhAvx512KeyPair {
    low: [u32; 16],
    high: [u32; 16],
}

/// The arranged keys: for each step, those of each stream.
pub(crate) struct NhAvx512Key {
    token: HaveAvx512,
    pairs: Box<[NhAvx512KeyPair]>,
    streams: usize,
}

impl NhAvx512Key {
    pub(crate) fn new(token: HaveAvx512, words: &[u32], streams: usize) -> Self {
        let mut pairs = Vec::with_capacity(STEPS * streams);
        for step in 0..STEPS {
            for stream in 0..streams {
                let word = |i: usize| words[32 * step + 4 * stream + i];
                let lanes = [0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27];
                pairs.push(NhAvx512KeyPair {
                    low: lanes.map(word),
                    high: lanes.map(|i| word(i + 4)),
                });
            }
        }
        Self {
            token,
            pairs: pairs.into_boxed_slice(),
            streams,
        }
    }

    /// Adds NH of `steps`, at most a block of them, to `out`.
    #[inline]
    pub(crate) fn hash(&self, steps: &[[u8; STEP_LEN]], out: &mut [u64; 4]) {
        let HaveAvx512(()) = self.token;
        // SAFETY: the token proves AVX-512 F, BW, DQ and VL.
        unsafe {
            if self.streams == 2 {
                kernel::<2>(&self.pairs, steps, out);
            } else {
                kernel::<4>(&self.pairs, steps, out);
            }
        }
    }
}

impl Drop for NhAvx512Key {
    fn drop(&mut self) {
        for pair in &mut self.pairs {
            pair.low.zeroize();
            pair.high.zeroize();
        }
    }
}

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
