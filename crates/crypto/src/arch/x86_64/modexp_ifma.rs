//! Modular exponentiation on AVX-512 IFMA: eight numbers, with digits of 52 bits; one instruction
//! adds the low half of a product and another the high half.
//!
//! A sum can hold 4096 halves, enough for numbers of 50,000 bits.

use core::arch::x86_64::*;

use super::modexp_lanes::modexp;
use crate::arch::HaveAvx512Ifma;
use crate::arch::modexp::{BLOCK_DIGITS, Blocks, ModexpKernel, Moduli};

modexp! { "avx512f,avx512ifma", HaveAvx512Ifma, "avx512-ifma x8", ops, 8, |_| ops::DIGIT_BITS }

mod ops {
    use super::*;

    pub(super) type Vector = __m512i;
    pub(super) const DIGIT_BITS: u32 = 52;

    /// Sums of low and of high halves, by the positions of their digits. They are separate, so that
    /// each dependency chain is half as long.
    pub(super) struct Sums {
        low: [Vector; 2 * BLOCK_DIGITS - 1],
        high: [Vector; 2 * BLOCK_DIGITS - 1],
    }

    impl Sums {
        #[inline]
        #[target_feature(enable = "avx512f")]
        pub(super) fn new() -> Self {
            Self {
                low: [zero(); 2 * BLOCK_DIGITS - 1],
                high: [zero(); 2 * BLOCK_DIGITS - 1],
            }
        }

        #[inline]
        #[target_feature(enable = "avx512f,avx512ifma")]
        pub(super) fn add_products(&mut self, a: &[Vector; 4], b: &[Vector; 4]) {
            for (i, a) in a.iter().enumerate() {
                for (j, b) in b.iter().enumerate() {
                    self.low[i + j] = _mm512_madd52lo_epu64(self.low[i + j], *a, *b);
                    self.high[i + j] = _mm512_madd52hi_epu64(self.high[i + j], *a, *b);
                }
            }
        }

        #[inline]
        #[target_feature(enable = "avx512f")]
        pub(super) fn double(&mut self) {
            for sum in &mut self.low {
                *sum = add(*sum, *sum);
            }
            for sum in &mut self.high {
                *sum = add(*sum, *sum);
            }
        }

        #[inline]
        #[target_feature(enable = "avx512f")]
        pub(super) fn add_to(&self, columns: &mut [Vector; 2 * BLOCK_DIGITS]) {
            for (column, sum) in columns.iter_mut().zip(self.low) {
                *column = add(*column, sum);
            }
            for (column, sum) in columns.iter_mut().skip(1).zip(self.high) {
                *column = add(*column, sum);
            }
        }
    }

    /// Adds a digit's products with four digits, from column `at` on.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn add_row(
        columns: &mut [Vector; 2 * BLOCK_DIGITS],
        at: usize,
        digit: Vector,
        others: &[Vector; BLOCK_DIGITS],
    ) {
        for (j, other) in others.iter().enumerate() {
            columns[at + j] = _mm512_madd52lo_epu64(columns[at + j], digit, *other);
            columns[at + j + 1] = _mm512_madd52hi_epu64(columns[at + j + 1], digit, *other);
        }
    }

    /// How long a digit is.
    pub(super) struct Width(());

    impl Width {
        pub(super) fn new(_: u32) -> Self {
            Self(())
        }

        #[inline]
        #[target_feature(enable = "avx512f")]
        pub(super) fn digit(&self, sum: Vector) -> Vector {
            _mm512_and_si512(sum, _mm512_set1_epi64((1 << DIGIT_BITS) - 1))
        }

        #[inline]
        #[target_feature(enable = "avx512f")]
        pub(super) fn rest(&self, sum: Vector) -> Vector {
            _mm512_srli_epi64::<DIGIT_BITS>(sum)
        }

        /// The lowest digit of the product of two lowest digits.
        #[inline]
        #[target_feature(enable = "avx512f,avx512ifma")]
        pub(super) fn low_product(&self, a: Vector, b: Vector) -> Vector {
            _mm512_madd52lo_epu64(zero(), a, b)
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn zero() -> Vector {
        _mm512_setzero_si512()
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn add(a: Vector, b: Vector) -> Vector {
        _mm512_add_epi64(a, b)
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn load_row(row: &[u64; 8]) -> Vector {
        // SAFETY: the row is 64 bytes long.
        unsafe { _mm512_loadu_si512(row.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn store(vector: Vector, row: &mut [u64; 8]) {
        // SAFETY: the row is 64 bytes long.
        unsafe { _mm512_storeu_si512(row.as_mut_ptr().cast(), vector) }
    }
}
