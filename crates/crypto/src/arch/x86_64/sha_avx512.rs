//! SHA-1, SHA-256 (sixteen messages) and SHA-512 (eight) on AVX-512: rotations
//! and any function of three inputs are one instruction each.

use core::arch::x86_64::*;

use super::sha_lanes::{K_1, K_256, K_512, sha1, sha2};
use crate::arch::HaveAvx512;
use crate::arch::sha::{HashKernel, Lanes, States};

pub(crate) fn sha1_kernel(token: HaveAvx512) -> HashKernel<u32, 64, 16> {
    let HaveAvx512(()) = token;
    HashKernel {
        name: "avx512 x16",
        // SAFETY: only this function, which has the token, gives the closure away.
        compress: |states, lanes| unsafe { sha1(states, lanes) },
    }
}

pub(crate) fn sha256_kernel(token: HaveAvx512) -> HashKernel<u32, 64, 16> {
    let HaveAvx512(()) = token;
    HashKernel {
        name: "avx512 x16",
        // SAFETY: only this function, which has the token, gives the closure away.
        compress: |states, lanes| unsafe { sha256(states, lanes) },
    }
}

pub(crate) fn sha512_kernel(token: HaveAvx512) -> HashKernel<u64, 128, 8> {
    let HaveAvx512(()) = token;
    HashKernel {
        name: "avx512 x8",
        // SAFETY: only this function, which has the token, gives the closure away.
        compress: |states, lanes| unsafe { sha512(states, lanes) },
    }
}

sha1! { sha1, "avx512f,avx512bw", words, 16 }

sha2! {
    sha256, "avx512f,avx512bw", words, u32, 16, 64, K_256,
    big0: (2, 13, 22), big1: (6, 11, 25), small0: (7, 18, 3), small1: (17, 19, 10)
}

sha2! {
    sha512, "avx512f,avx512bw", longs, u64, 8, 128, K_512,
    big0: (28, 34, 39), big1: (14, 18, 41), small0: (1, 8, 7), small1: (19, 61, 6)
}

/// Sixteen 32-bit words per vector.
mod words {
    use super::*;

    pub(super) const BITS: i32 = 32;

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn add(a: __m512i, b: __m512i) -> __m512i {
        _mm512_add_epi32(a, b)
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn splat(word: u32) -> __m512i {
        _mm512_set1_epi32(word.cast_signed())
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn rotate<const RIGHT: i32, const LEFT: i32>(x: __m512i) -> __m512i {
        _mm512_ror_epi32::<RIGHT>(x)
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn shift<const RIGHT: u32>(x: __m512i) -> __m512i {
        _mm512_srli_epi32::<RIGHT>(x)
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn load<const N: usize>(states: &[[u32; 16]; 8]) -> [__m512i; N] {
        let mut rows = [_mm512_setzero_si512(); N];
        for (row, words) in rows.iter_mut().zip(states) {
            *row = from_array(words);
        }
        rows
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn add_to<const N: usize>(states: &mut [[u32; 16]; 8], sums: [__m512i; N]) {
        for (words, sum) in states.iter_mut().zip(sums) {
            let sum = add(sum, from_array(words));
            // SAFETY: sixteen words are 64 bytes; the store needs no alignment.
            unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), sum) };
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn from_array(words: &[u32; 16]) -> __m512i {
        // SAFETY: sixteen words are 64 bytes; the load needs no alignment.
        unsafe { _mm512_loadu_si512(words.as_ptr().cast()) }
    }

    /// Word i of every block in vector i.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) fn load_words(blocks: &[&[u8; 64]; 16]) -> [__m512i; 16] {
        let swap = _mm512_broadcast_i32x4(_mm_set_epi8(
            12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3,
        ));
        let row = |i: usize| _mm512_shuffle_epi8(load_64(blocks[i]), swap);
        // Four rows each: word j of them, for j = 4q + i in 128-bit lane q of column i.
        let four = |i: usize| {
            let (r0, r1, r2, r3) = (row(i), row(i + 1), row(i + 2), row(i + 3));
            let low01 = _mm512_unpacklo_epi32(r0, r1);
            let high01 = _mm512_unpackhi_epi32(r0, r1);
            let low23 = _mm512_unpacklo_epi32(r2, r3);
            let high23 = _mm512_unpackhi_epi32(r2, r3);
            [
                _mm512_unpacklo_epi64(low01, low23),
                _mm512_unpackhi_epi64(low01, low23),
                _mm512_unpacklo_epi64(high01, high23),
                _mm512_unpackhi_epi64(high01, high23),
            ]
        };
        let [a, b, c, d] = [four(0), four(4), four(8), four(12)];
        let mut words = [_mm512_setzero_si512(); 16];
        for i in 0..4 {
            let columns = transpose_lanes([a[i], b[i], c[i], d[i]]);
            for (q, column) in columns.into_iter().enumerate() {
                words[4 * q + i] = column;
            }
        }
        words
    }

    pub(super) use super::common::*;
}

/// Eight 64-bit words per vector.
mod longs {
    use super::*;

    pub(super) const BITS: i32 = 64;

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn add(a: __m512i, b: __m512i) -> __m512i {
        _mm512_add_epi64(a, b)
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn splat(word: u64) -> __m512i {
        _mm512_set1_epi64(word.cast_signed())
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn rotate<const RIGHT: i32, const LEFT: i32>(x: __m512i) -> __m512i {
        _mm512_ror_epi64::<RIGHT>(x)
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn shift<const RIGHT: u32>(x: __m512i) -> __m512i {
        _mm512_srli_epi64::<RIGHT>(x)
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn load<const N: usize>(states: &[[u64; 8]; 8]) -> [__m512i; N] {
        let mut rows = [_mm512_setzero_si512(); N];
        for (row, words) in rows.iter_mut().zip(states) {
            *row = from_array(words);
        }
        rows
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn add_to<const N: usize>(states: &mut [[u64; 8]; 8], sums: [__m512i; N]) {
        for (words, sum) in states.iter_mut().zip(sums) {
            let sum = add(sum, from_array(words));
            // SAFETY: eight words are 64 bytes; the store needs no alignment.
            unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), sum) };
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn from_array(words: &[u64; 8]) -> __m512i {
        // SAFETY: eight words are 64 bytes; the load needs no alignment.
        unsafe { _mm512_loadu_si512(words.as_ptr().cast()) }
    }

    /// Word i of every block in vector i.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) fn load_words(blocks: &[&[u8; 128]; 8]) -> [__m512i; 16] {
        let swap = _mm512_broadcast_i32x4(_mm_set_epi8(
            8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7,
        ));
        let mut words = [_mm512_setzero_si512(); 16];
        for half in 0..2 {
            let row = |i: usize| {
                let halves: &[[u8; 64]] = blocks[i].as_chunks().0;
                _mm512_shuffle_epi8(load_64(&halves[half]), swap)
            };
            // Two rows each: word j of them, for j = 2q + i in 128-bit lane q of column i.
            let two = |i: usize| {
                let (r0, r1) = (row(i), row(i + 1));
                [_mm512_unpacklo_epi64(r0, r1), _mm512_unpackhi_epi64(r0, r1)]
            };
            let [a, b, c, d] = [two(0), two(2), two(4), two(6)];
            for i in 0..2 {
                let columns = transpose_lanes([a[i], b[i], c[i], d[i]]);
                for (q, column) in columns.into_iter().enumerate() {
                    words[8 * half + 2 * q + i] = column;
                }
            }
        }
        words
    }

    pub(super) use super::common::*;
}

/// Operations that do not depend on the width of a word.
mod common {
    use super::*;

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn xor(a: __m512i, b: __m512i) -> __m512i {
        _mm512_xor_si512(a, b)
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn xor3(a: __m512i, b: __m512i, c: __m512i) -> __m512i {
        _mm512_ternarylogic_epi32::<0x96>(a, b, c)
    }

    /// Bits of `b` where `a` is one, of `c` where it is zero.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn ch(a: __m512i, b: __m512i, c: __m512i) -> __m512i {
        _mm512_ternarylogic_epi32::<0xca>(a, b, c)
    }

    /// Bitwise majority of the three.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn maj(a: __m512i, b: __m512i, c: __m512i) -> __m512i {
        _mm512_ternarylogic_epi32::<0xe8>(a, b, c)
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn load_64(bytes: &[u8; 64]) -> __m512i {
        // SAFETY: 64 bytes; the load needs no alignment.
        unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
    }

    /// Four vectors of four 128-bit lanes, transposed.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn transpose_lanes([a, b, c, d]: [__m512i; 4]) -> [__m512i; 4] {
        let even_ab = _mm512_shuffle_i32x4::<0x88>(a, b);
        let odd_ab = _mm512_shuffle_i32x4::<0xdd>(a, b);
        let even_cd = _mm512_shuffle_i32x4::<0x88>(c, d);
        let odd_cd = _mm512_shuffle_i32x4::<0xdd>(c, d);
        [
            _mm512_shuffle_i32x4::<0x88>(even_ab, even_cd),
            _mm512_shuffle_i32x4::<0x88>(odd_ab, odd_cd),
            _mm512_shuffle_i32x4::<0xdd>(even_ab, even_cd),
            _mm512_shuffle_i32x4::<0xdd>(odd_ab, odd_cd),
        ]
    }
}
