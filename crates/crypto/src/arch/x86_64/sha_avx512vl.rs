//! SHA-1, SHA-256 (eight messages) and SHA-512 (four) on AVX-512's instructions for 256-bit
//! vectors: half as many messages as in `sha_avx512` and one more instruction per cycle, for
//! numbers of messages that would leave half of the wider lanes empty.

use core::arch::x86_64::*;

use super::sha_lanes::{K_1, K_256, K_512, sha1, sha2};
use crate::arch::HaveAvx512;
use crate::arch::sha::{HashKernel, Lanes, States};

pub(crate) fn sha1_kernel(token: HaveAvx512) -> HashKernel<u32, 64, 8> {
    let HaveAvx512(()) = token;
    HashKernel {
        name: "avx512vl x8",
        // SAFETY: only this function, which has the token, gives the closure away.
        compress: |states, lanes| unsafe { sha1(states, lanes) },
    }
}

pub(crate) fn sha256_kernel(token: HaveAvx512) -> HashKernel<u32, 64, 8> {
    let HaveAvx512(()) = token;
    HashKernel {
        name: "avx512vl x8",
        // SAFETY: only this function, which has the token, gives the closure away.
        compress: |states, lanes| unsafe { sha256(states, lanes) },
    }
}

pub(crate) fn sha512_kernel(token: HaveAvx512) -> HashKernel<u64, 128, 4> {
    let HaveAvx512(()) = token;
    HashKernel {
        name: "avx512vl x4",
        // SAFETY: only this function, which has the token, gives the closure away.
        compress: |states, lanes| unsafe { sha512(states, lanes) },
    }
}

sha1! { sha1, "avx2,avx512f,avx512vl", words, 8 }

sha2! {
    sha256, "avx2,avx512f,avx512vl", words, u32, 8, 64, K_256,
    big0: (2, 13, 22), big1: (6, 11, 25), small0: (7, 18, 3), small1: (17, 19, 10)
}

sha2! {
    sha512, "avx2,avx512f,avx512vl", longs, u64, 4, 128, K_512,
    big0: (28, 34, 39), big1: (14, 18, 41), small0: (1, 8, 7), small1: (19, 61, 6)
}

/// Eight 32-bit words per vector.
mod words {
    use super::*;

    pub(super) use super::super::sha_avx2::words::{
        BITS, add, add_to, load, load_words, shift, splat,
    };
    pub(super) use super::logic::*;

    #[inline]
    #[target_feature(enable = "avx512f,avx512vl")]
    pub(super) fn rotate<const RIGHT: i32, const LEFT: i32>(x: __m256i) -> __m256i {
        _mm256_ror_epi32::<RIGHT>(x)
    }
}

/// Four 64-bit words per vector.
mod longs {
    use super::*;

    pub(super) use super::super::sha_avx2::longs::{
        BITS, add, add_to, load, load_words, shift, splat,
    };
    pub(super) use super::logic::*;

    #[inline]
    #[target_feature(enable = "avx512f,avx512vl")]
    pub(super) fn rotate<const RIGHT: i32, const LEFT: i32>(x: __m256i) -> __m256i {
        _mm256_ror_epi64::<RIGHT>(x)
    }
}

/// Operations that do not depend on the width of a word.
mod logic {
    use super::*;

    #[inline]
    #[target_feature(enable = "avx512f,avx512vl")]
    pub(super) fn xor(a: __m256i, b: __m256i) -> __m256i {
        _mm256_xor_si256(a, b)
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512vl")]
    pub(super) fn xor3(a: __m256i, b: __m256i, c: __m256i) -> __m256i {
        _mm256_ternarylogic_epi32::<0x96>(a, b, c)
    }

    /// Bits of `b` where `a` is one, of `c` where it is zero.
    #[inline]
    #[target_feature(enable = "avx512f,avx512vl")]
    pub(super) fn ch(a: __m256i, b: __m256i, c: __m256i) -> __m256i {
        _mm256_ternarylogic_epi32::<0xca>(a, b, c)
    }

    /// Bitwise majority of the three.
    #[inline]
    #[target_feature(enable = "avx512f,avx512vl")]
    pub(super) fn maj(a: __m256i, b: __m256i, c: __m256i) -> __m256i {
        _mm256_ternarylogic_epi32::<0xe8>(a, b, c)
    }
}
