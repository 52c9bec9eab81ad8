//! SHA-1, SHA-256 (eight messages) and SHA-512 (four) on AVX2, for CPUs without AVX-512; SHA-256
//! only for CPUs without SHA extensions too.

use core::arch::x86_64::*;

use super::sha_lanes::{K_1, K_256, K_512, sha1, sha2};
use crate::arch::HaveAvx2;
use crate::arch::sha::{HashKernel, Lanes, States};

pub(crate) fn sha1_kernel(token: HaveAvx2) -> HashKernel<u32, 64, 8> {
    let HaveAvx2(()) = token;
    HashKernel {
        name: "avx2 x8",
        // SAFETY: only this function, which has the token, gives the closure away.
        compress: |states, lanes| unsafe { sha1(states, lanes) },
    }
}

pub(crate) fn sha256_kernel(token: HaveAvx2) -> HashKernel<u32, 64, 8> {
    let HaveAvx2(()) = token;
    HashKernel {
        name: "avx2 x8",
        // SAFETY: only this function, which has the token, gives the closure away.
        compress: |states, lanes| unsafe { sha256(states, lanes) },
    }
}

pub(crate) fn sha512_kernel(token: HaveAvx2) -> HashKernel<u64, 128, 4> {
    let HaveAvx2(()) = token;
    HashKernel {
        name: "avx2 x4",
        // SAFETY: only this function, which has the token, gives the closure away.
        compress: |states, lanes| unsafe { sha512(states, lanes) },
    }
}

sha1! { sha1, "avx2", words, 8 }

sha2! {
    sha256, "avx2", words, u32, 8, 64, K_256,
    big0: (2, 13, 22), big1: (6, 11, 25), small0: (7, 18, 3), small1: (17, 19, 10)
}

sha2! {
    sha512, "avx2", longs, u64, 4, 128, K_512,
    big0: (28, 34, 39), big1: (14, 18, 41), small0: (1, 8, 7), small1: (19, 61, 6)
}

/// Eight 32-bit words per vector.
pub(super) mod words {
    use super::*;

    pub(in super::super) const BITS: i32 = 32;

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(in super::super) fn add(a: __m256i, b: __m256i) -> __m256i {
        _mm256_add_epi32(a, b)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(in super::super) fn splat(word: u32) -> __m256i {
        _mm256_set1_epi32(word.cast_signed())
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(in super::super) fn rotate<const RIGHT: i32, const LEFT: i32>(x: __m256i) -> __m256i {
        _mm256_or_si256(_mm256_srli_epi32::<RIGHT>(x), _mm256_slli_epi32::<LEFT>(x))
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(in super::super) fn shift<const RIGHT: i32>(x: __m256i) -> __m256i {
        _mm256_srli_epi32::<RIGHT>(x)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(in super::super) fn load<const N: usize>(states: &[[u32; 8]; 8]) -> [__m256i; N] {
        let mut rows = [_mm256_setzero_si256(); N];
        for (row, words) in rows.iter_mut().zip(states) {
            *row = from_array(words);
        }
        rows
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(in super::super) fn add_to<const N: usize>(states: &mut [[u32; 8]; 8], sums: [__m256i; N]) {
        for (words, sum) in states.iter_mut().zip(sums) {
            let sum = add(sum, from_array(words));
            // SAFETY: eight words are 32 bytes; the store needs no alignment.
            unsafe { _mm256_storeu_si256(words.as_mut_ptr().cast(), sum) };
        }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn from_array(words: &[u32; 8]) -> __m256i {
        // SAFETY: eight words are 32 bytes; the load needs no alignment.
        unsafe { _mm256_loadu_si256(words.as_ptr().cast()) }
    }

    /// Word i of every block in vector i.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(in super::super) fn load_words(blocks: &[&[u8; 64]; 8]) -> [__m256i; 16] {
        let swap = _mm256_broadcastsi128_si256(_mm_set_epi8(
            12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3,
        ));
        let mut words = [_mm256_setzero_si256(); 16];
        for half in 0..2 {
            let row = |i: usize| {
                let parts: &[[u8; 32]] = blocks[i].as_chunks().0;
                _mm256_shuffle_epi8(load_32(&parts[half]), swap)
            };
            // Four rows each: word j of them, for j = 4q + i in 128-bit lane q of column i.
            let four = |i: usize| {
                let (r0, r1, r2, r3) = (row(i), row(i + 1), row(i + 2), row(i + 3));
                let low01 = _mm256_unpacklo_epi32(r0, r1);
                let high01 = _mm256_unpackhi_epi32(r0, r1);
                let low23 = _mm256_unpacklo_epi32(r2, r3);
                let high23 = _mm256_unpackhi_epi32(r2, r3);
                [
                    _mm256_unpacklo_epi64(low01, low23),
                    _mm256_unpackhi_epi64(low01, low23),
                    _mm256_unpacklo_epi64(high01, high23),
                    _mm256_unpackhi_epi64(high01, high23),
                ]
            };
            let [a, b] = [four(0), four(4)];
            for i in 0..4 {
                words[8 * half + i] = _mm256_permute2x128_si256::<0x20>(a[i], b[i]);
                words[8 * half + 4 + i] = _mm256_permute2x128_si256::<0x31>(a[i], b[i]);
            }
        }
        words
    }

    pub(super) use super::common::*;
}

/// Four 64-bit words per vector.
pub(super) mod longs {
    use super::*;

    pub(in super::super) const BITS: i32 = 64;

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(in super::super) fn add(a: __m256i, b: __m256i) -> __m256i {
        _mm256_add_epi64(a, b)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(in super::super) fn splat(word: u64) -> __m256i {
        _mm256_set1_epi64x(word.cast_signed())
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(in super::super) fn rotate<const RIGHT: i32, const LEFT: i32>(x: __m256i) -> __m256i {
        _mm256_or_si256(_mm256_srli_epi64::<RIGHT>(x), _mm256_slli_epi64::<LEFT>(x))
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(in super::super) fn shift<const RIGHT: i32>(x: __m256i) -> __m256i {
        _mm256_srli_epi64::<RIGHT>(x)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(in super::super) fn load<const N: usize>(states: &[[u64; 4]; 8]) -> [__m256i; N] {
        let mut rows = [_mm256_setzero_si256(); N];
        for (row, words) in rows.iter_mut().zip(states) {
            *row = from_array(words);
        }
        rows
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(in super::super) fn add_to<const N: usize>(states: &mut [[u64; 4]; 8], sums: [__m256i; N]) {
        for (words, sum) in states.iter_mut().zip(sums) {
            let sum = add(sum, from_array(words));
            // SAFETY: four words are 32 bytes; the store needs no alignment.
            unsafe { _mm256_storeu_si256(words.as_mut_ptr().cast(), sum) };
        }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn from_array(words: &[u64; 4]) -> __m256i {
        // SAFETY: four words are 32 bytes; the load needs no alignment.
        unsafe { _mm256_loadu_si256(words.as_ptr().cast()) }
    }

    /// Word i of every block in vector i.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(in super::super) fn load_words(blocks: &[&[u8; 128]; 4]) -> [__m256i; 16] {
        let swap = _mm256_broadcastsi128_si256(_mm_set_epi8(
            8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7,
        ));
        let mut words = [_mm256_setzero_si256(); 16];
        for quarter in 0..4 {
            let row = |i: usize| {
                let parts: &[[u8; 32]] = blocks[i].as_chunks().0;
                _mm256_shuffle_epi8(load_32(&parts[quarter]), swap)
            };
            let (r0, r1, r2, r3) = (row(0), row(1), row(2), row(3));
            let even01 = _mm256_unpacklo_epi64(r0, r1);
            let odd01 = _mm256_unpackhi_epi64(r0, r1);
            let even23 = _mm256_unpacklo_epi64(r2, r3);
            let odd23 = _mm256_unpackhi_epi64(r2, r3);
            words[4 * quarter] = _mm256_permute2x128_si256::<0x20>(even01, even23);
            words[4 * quarter + 1] = _mm256_permute2x128_si256::<0x20>(odd01, odd23);
            words[4 * quarter + 2] = _mm256_permute2x128_si256::<0x31>(even01, even23);
            words[4 * quarter + 3] = _mm256_permute2x128_si256::<0x31>(odd01, odd23);
        }
        words
    }

    pub(super) use super::common::*;
}

/// Operations that do not depend on the width of a word.
mod common {
    use super::*;

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn xor(a: __m256i, b: __m256i) -> __m256i {
        _mm256_xor_si256(a, b)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn xor3(a: __m256i, b: __m256i, c: __m256i) -> __m256i {
        xor(xor(a, b), c)
    }

    /// Bits of `b` where `a` is one, of `c` where it is zero.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn ch(a: __m256i, b: __m256i, c: __m256i) -> __m256i {
        xor(_mm256_and_si256(xor(b, c), a), c)
    }

    /// Bitwise majority of the three.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn maj(a: __m256i, b: __m256i, c: __m256i) -> __m256i {
        xor(_mm256_and_si256(xor(a, b), xor(b, c)), b)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn load_32(bytes: &[u8; 32]) -> __m256i {
        // SAFETY: 32 bytes; the load needs no alignment.
        unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
    }
}
