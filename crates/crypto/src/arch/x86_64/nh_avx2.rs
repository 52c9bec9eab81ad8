//! NH on AVX2: 64 bytes per step.
//!
//! Two loads hold words 0-7 and 8-15. Their 128-bit halves are paired to words (0-3, 8-11) and
//! (4-7, 12-15), so that NH's partners w_j and w_{j+4} are in the same lane of two vectors; the key
//! is arranged in the same way once. `vpmuludq` multiplies the even lanes, and after a shift the
//! odd ones.

use core::arch::x86_64::*;

use zeroize::Zeroize;

use crate::arch::HaveAvx2;

const STEP_LEN: usize = 64;
const STEPS: usize = 16;

/// Key vectors of a step and stream: the partners' low and high side.
#[derive(Clone, Copy)]
#[repr(C, align(32))]
struct NhAvx2KeyPair {
    low: [u32; 8],
    high: [u32; 8],
}

/// The arranged keys: for each step, those of each stream.
pub(crate) struct NhAvx2Key {
    token: HaveAvx2,
    pairs: Box<[NhAvx2KeyPair]>,
    streams: usize,
}

impl NhAvx2Key {
    pub(crate) fn new(token: HaveAvx2, words: &[u32], streams: usize) -> Self {
        let mut pairs = Vec::with_capacity(STEPS * streams);
        for step in 0..STEPS {
            for stream in 0..streams {
                let word = |i: usize| words[16 * step + 4 * stream + i];
                pairs.push(NhAvx2KeyPair {
                    low: [0, 1, 2, 3, 8, 9, 10, 11].map(word),
                    high: [4, 5, 6, 7, 12, 13, 14, 15].map(word),
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
        let HaveAvx2(()) = self.token;
        // SAFETY: the token proves AVX2.
        unsafe {
            if self.streams == 2 {
                kernel::<2>(&self.pairs, steps, out);
            } else {
                kernel::<4>(&self.pairs, steps, out);
            }
        }
    }
}

impl Drop for NhAvx2Key {
    fn drop(&mut self) {
        for pair in &mut self.pairs {
            pair.low.zeroize();
            pair.high.zeroize();
        }
    }
}

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
