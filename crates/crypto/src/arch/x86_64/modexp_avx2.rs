//! Modular exponentiation on AVX2: four numbers, with digits of 28 bits or less, whose 56-bit
//! products are added without splitting.
//!
//! A column is the sum of two products for each digit, so longer numbers need shorter digits.

use core::arch::x86_64::*;

use super::modexp_lanes::modexp;
use crate::arch::HaveAvx2;
use crate::arch::modexp::{BLOCK_DIGITS, Blocks, ModexpKernel, Moduli};

modexp! { "avx2", HaveAvx2, "avx2 x4", ops, 4, |bits| match bits {
    // 124 digits: 248 products below 2^56.
    0..=3_400 => 28,
    // 508 digits: 1016 products below 2^54.
    3_401..=13_600 => 27,
    // 2044 digits: 4088 products below 2^52.
    _ => 26,
} }

mod ops {
    use super::*;

    pub(super) type Vector = __m256i;

    /// Sums of products, by the positions of their digits.
    pub(super) struct Sums([Vector; 2 * BLOCK_DIGITS - 1]);

    impl Sums {
        #[inline]
        #[target_feature(enable = "avx2")]
        pub(super) fn new() -> Self {
            Self([zero(); 2 * BLOCK_DIGITS - 1])
        }

        #[inline]
        #[target_feature(enable = "avx2")]
        pub(super) fn add_products(&mut self, a: &[Vector; 4], b: &[Vector; 4]) {
            for (j, b) in b.iter().enumerate() {
                for (i, a) in a.iter().enumerate() {
                    self.0[i + j] = add(self.0[i + j], _mm256_mul_epu32(*a, *b));
                }
            }
        }

        #[inline]
        #[target_feature(enable = "avx2")]
        pub(super) fn double(&mut self) {
            for sum in &mut self.0 {
                *sum = add(*sum, *sum);
            }
        }

        #[inline]
        #[target_feature(enable = "avx2")]
        pub(super) fn add_to(&self, columns: &mut [Vector; 2 * BLOCK_DIGITS]) {
            for (column, sum) in columns.iter_mut().zip(self.0) {
                *column = add(*column, sum);
            }
        }
    }

    /// Adds a digit's products with four digits, from column `at` on.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn add_row(
        columns: &mut [Vector; 2 * BLOCK_DIGITS],
        at: usize,
        digit: Vector,
        others: &[Vector; BLOCK_DIGITS],
    ) {
        for (j, other) in others.iter().enumerate() {
            columns[at + j] = add(columns[at + j], _mm256_mul_epu32(digit, *other));
        }
    }

    /// How long a digit is.
    pub(super) struct Width {
        mask: Vector,
        bits: __m128i,
    }

    impl Width {
        #[inline]
        #[target_feature(enable = "avx2")]
        pub(super) fn new(bits: u32) -> Self {
            Self {
                mask: _mm256_set1_epi64x((1 << bits) - 1),
                bits: _mm_cvtsi32_si128(bits.cast_signed()),
            }
        }

        #[inline]
        #[target_feature(enable = "avx2")]
        pub(super) fn digit(&self, sum: Vector) -> Vector {
            _mm256_and_si256(sum, self.mask)
        }

        #[inline]
        #[target_feature(enable = "avx2")]
        pub(super) fn rest(&self, sum: Vector) -> Vector {
            _mm256_srl_epi64(sum, self.bits)
        }

        /// The lowest digit of the product of two lowest digits.
        #[inline]
        #[target_feature(enable = "avx2")]
        pub(super) fn low_product(&self, a: Vector, b: Vector) -> Vector {
            self.digit(_mm256_mul_epu32(a, b))
        }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn zero() -> Vector {
        _mm256_setzero_si256()
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn add(a: Vector, b: Vector) -> Vector {
        _mm256_add_epi64(a, b)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn load_row(row: &[u64; 4]) -> Vector {
        // SAFETY: the row is 32 bytes long.
        unsafe { _mm256_loadu_si256(row.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn store(vector: Vector, row: &mut [u64; 4]) {
        // SAFETY: the row is 32 bytes long.
        unsafe { _mm256_storeu_si256(row.as_mut_ptr().cast(), vector) }
    }
}
