//! Modular exponentiation of several public numbers in parallel lanes, each with its own modulus,
//! for searching primes.
//!
//! Each number occupies one lane; each of its digits (52 bits with IFMA, 26 to 28 with AVX2) is in
//! a vector of its own, so that a carry stays in its lane. Products are Montgomery products and
//! stay below twice the modulus; 32 spare bits above the modulus make room for that and for the
//! powers of two that a window of the exponent shifts in. Nothing here runs in constant time: it
//! must not process secrets. Without suitable vectors, [`crate::prime`] uses the library's
//! exponentiation.
#![forbid(unsafe_code)]

use super::CpuFeatures;
use crate::awslc::AwsLcFailed;
use crate::awslc::bn::{Bn, BnContext};

/// Number of digits that a kernel processes at a time.
pub(crate) const BLOCK_DIGITS: usize = 4;
/// Number of bits between the modulus and R: the square of a factor below 2^16 moduli is then below
/// two moduli.
const SPARE_BITS: usize = 32;
/// Number of exponent bits per window; a window shifts by at most 15 places.
const WINDOW_BITS: usize = 4;

/// Four digits of the numbers in all lanes, the lowest digit first.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct ModexpBlock<const LANES: usize>(pub(crate) [[u64; LANES]; BLOCK_DIGITS]);

/// The moduli and their Montgomery constants.
pub(crate) struct Moduli<const LANES: usize> {
    pub(crate) blocks: Vec<ModexpBlock<LANES>>,
    /// -1/m modulo 2^`digit_bits`.
    pub(crate) inverses: [u64; LANES],
    pub(crate) digit_bits: u32,
}

/// Numbers, or scratch space of the same length for a product.
pub(crate) type Blocks<const LANES: usize> = [ModexpBlock<LANES>];

/// The operations of one CPU level. All slices have the length of the moduli.
pub(crate) struct ModexpKernel<const LANES: usize> {
    pub(crate) name: &'static str,
    /// Returns the bits per digit for moduli of the given number of bits.
    pub(crate) digit_bits: fn(usize) -> u32,
    /// a := a² / R; the last argument is scratch space.
    pub(crate) square: fn(&mut Blocks<LANES>, &Moduli<LANES>, &mut Blocks<LANES>),
    /// a := a b / R; the last argument is scratch space.
    pub(crate) multiply: fn(&mut Blocks<LANES>, &Blocks<LANES>, &Moduli<LANES>, &mut Blocks<LANES>),
    /// a := a 2^s, each lane by its own s below 16.
    pub(crate) shift: fn(&mut Blocks<LANES>, &[u64; LANES], u32),
}

/// The available kernels.
pub(crate) enum Kernels {
    /// Eight lanes of 52-bit digits.
    Eight(ModexpKernel<8>),
    /// Four lanes of shorter digits.
    Four(ModexpKernel<4>),
}

impl Kernels {
    /// The fastest kernel for these features; `None` without suitable vectors.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn choose(features: &CpuFeatures) -> Option<Self> {
        use super::x86_64::{modexp_avx2, modexp_ifma};
        if let Some(token) = features.avx512_ifma {
            Some(Self::Eight(modexp_ifma::kernel(token)))
        } else {
            features
                .avx2
                .map(|token| Self::Four(modexp_avx2::kernel(token)))
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    pub(crate) fn choose(_: &CpuFeatures) -> Option<Self> {
        None
    }

    /// The kernel's name, for benchmark tables.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Eight(kernel) => kernel.name,
            Self::Four(kernel) => kernel.name,
        }
    }
}

/// Odd numbers above 2, as words of 64 bits, the lowest first.
type NumberWords<'a> = &'a [u64];

impl<const LANES: usize> ModexpKernel<LANES> {
    /// For each of the odd numbers m above 2, returns true if 2^(m-1) = 1 modulo m. Takes at most
    /// as many numbers as there are lanes; surplus results are meaningless.
    pub(crate) fn fermat(&self, numbers: &[NumberWords<'_>]) -> Result<[bool; LANES], AwsLcFailed> {
        let results = self.powers_of_two(numbers)?;
        Ok(results.map(|result| is_word(&result, 1)))
    }

    /// 2^(m-1) modulo m for each number m.
    fn powers_of_two(&self, numbers: &[NumberWords<'_>]) -> Result<[Vec<u64>; LANES], AwsLcFailed> {
        let last = numbers.last().ok_or(AwsLcFailed)?;
        let lanes: [NumberWords<'_>; LANES] =
            core::array::from_fn(|lane| *numbers.get(lane).unwrap_or(last));
        let field = MontgomeryField::new(self, &lanes)?;
        let mut power = field.one.clone();
        let mut scratch = field.moduli.blocks.clone();
        for window in (0..field.bits.div_ceil(WINDOW_BITS)).rev() {
            if window + 1 < field.bits.div_ceil(WINDOW_BITS) {
                for _ in 0..WINDOW_BITS {
                    (self.square)(&mut power, &field.moduli, &mut scratch);
                }
            }
            // The exponent is the modulus without its lowest bit.
            let even = if window == 0 { !1 } else { !0 };
            let shifts = lanes.map(|number| window_of(number, window) & even);
            (self.shift)(&mut power, &shifts, field.moduli.digit_bits);
        }
        Ok(field.leave(self, power, &mut scratch))
    }

    /// The Miller-Rabin test of one odd number above 4, with a random base in each lane. A
    /// composite number passes with a probability of at most 4^-LANES.
    pub(crate) fn miller_rabin(
        &self,
        number: NumberWords<'_>,
        bases: &[Vec<u64>; LANES],
    ) -> Result<bool, AwsLcFailed> {
        let field = MontgomeryField::new(self, &[number; LANES])?;
        let mut minus_one = number.to_vec();
        if let Some(low) = minus_one.first_mut() {
            *low &= !1;
        }
        let twos = trailing_zeros(&minus_one);
        let odd = shifted_right(&minus_one, twos);
        let mut scratch = field.moduli.blocks.clone();
        let mut power = field.power(self, bases, &odd, &mut scratch)?;
        let mut passed = field
            .leave(self, power.clone(), &mut scratch)
            .map(|result| is_word(&result, 1) || same(&result, &minus_one));
        for _ in 1..twos {
            if passed.iter().all(|passed| *passed) {
                break;
            }
            (self.square)(&mut power, &field.moduli, &mut scratch);
            let results = field.leave(self, power.clone(), &mut scratch);
            for (passed, result) in passed.iter_mut().zip(&results) {
                *passed |= same(result, &minus_one);
            }
        }
        Ok(passed.iter().all(|passed| *passed))
    }
}

/// Moduli, and constants for the conversion to Montgomery form.
struct MontgomeryField<const LANES: usize> {
    moduli: Moduli<LANES>,
    /// R modulo m.
    one: Vec<ModexpBlock<LANES>>,
    /// R² modulo m.
    square_of_r: Vec<ModexpBlock<LANES>>,
    /// Bits of the longest modulus.
    bits: usize,
}

impl<const LANES: usize> MontgomeryField<LANES> {
    fn new(
        kernel: &ModexpKernel<LANES>,
        numbers: &[NumberWords<'_>; LANES],
    ) -> Result<Self, AwsLcFailed> {
        let bits = numbers.iter().map(|number| bits(number)).max().unwrap_or(0);
        let digit_bits = (kernel.digit_bits)(bits);
        let width = usize::try_from(digit_bits).unwrap_or(usize::MAX);
        let blocks = (bits + SPARE_BITS).div_ceil(width * BLOCK_DIGITS);
        let r_bits = blocks * BLOCK_DIGITS * width;
        let mut context = BnContext::new()?;
        let mut ones = Vec::with_capacity(LANES);
        let mut squares = Vec::with_capacity(LANES);
        for number in numbers {
            let modulus = Bn::from_words(number)?;
            let one = Bn::power_of_two(r_bits)?.modulo(&modulus, &mut context)?;
            let square = one.times(&one, &mut context)?;
            ones.push(one.to_words());
            squares.push(square.modulo(&modulus, &mut context)?.to_words());
        }
        let mask = (1_u64 << digit_bits) - 1;
        Ok(Self {
            moduli: Moduli {
                blocks: to_digits(&numbers[..], digit_bits, blocks),
                inverses: numbers
                    .map(|number| negated_inverse(number.first().copied().unwrap_or(1)) & mask),
                digit_bits,
            },
            one: to_digits(&ones, digit_bits, blocks),
            square_of_r: to_digits(&squares, digit_bits, blocks),
            bits,
        })
    }

    /// Converts from Montgomery form; the result is below the modulus, because the number is not 0.
    fn leave(
        &self,
        kernel: &ModexpKernel<LANES>,
        mut power: Vec<ModexpBlock<LANES>>,
        scratch: &mut Blocks<LANES>,
    ) -> [Vec<u64>; LANES] {
        let unit = to_digits(&[[1_u64]; LANES], self.moduli.digit_bits, power.len());
        (kernel.multiply)(&mut power, &unit, &self.moduli, scratch);
        core::array::from_fn(|lane| from_digits(&power, lane, self.moduli.digit_bits))
    }

    /// Raises each base to the same exponent; the result is in Montgomery form.
    fn power(
        &self,
        kernel: &ModexpKernel<LANES>,
        bases: &[Vec<u64>; LANES],
        exponent: &[u64],
        scratch: &mut Blocks<LANES>,
    ) -> Result<Vec<ModexpBlock<LANES>>, AwsLcFailed> {
        let mut base = to_digits(bases, self.moduli.digit_bits, self.one.len());
        (kernel.multiply)(&mut base, &self.square_of_r, &self.moduli, scratch);
        let mut table = vec![self.one.clone()];
        for _ in 1..1 << WINDOW_BITS {
            let mut next = table.last().ok_or(AwsLcFailed)?.clone();
            (kernel.multiply)(&mut next, &base, &self.moduli, scratch);
            table.push(next);
        }
        let mut power = self.one.clone();
        for window in (0..bits(exponent).div_ceil(WINDOW_BITS)).rev() {
            for _ in 0..WINDOW_BITS {
                (kernel.square)(&mut power, &self.moduli, scratch);
            }
            let digit = usize::try_from(window_of(exponent, window)).map_err(|_| AwsLcFailed)?;
            let factor = table.get(digit).ok_or(AwsLcFailed)?;
            if digit != 0 {
                (kernel.multiply)(&mut power, factor, &self.moduli, scratch);
            }
        }
        Ok(power)
    }
}

/// Converts numbers to digits, one number per lane.
fn to_digits<const LANES: usize>(
    numbers: &[impl AsRef<[u64]>],
    digit_bits: u32,
    blocks: usize,
) -> Vec<ModexpBlock<LANES>> {
    let mut out = vec![ModexpBlock([[0; LANES]; BLOCK_DIGITS]); blocks];
    let digits = out.iter_mut().flat_map(|block| &mut block.0);
    for (at, row) in digits.enumerate() {
        for (digit, number) in row.iter_mut().zip(numbers) {
            *digit = bits_at(number.as_ref(), at, digit_bits);
        }
    }
    out
}

/// Digit number `at`, of `digit_bits` bits (at most 63).
fn bits_at(words: &[u64], at: usize, digit_bits: u32) -> u64 {
    let width = usize::try_from(digit_bits).unwrap_or(64);
    let (word, offset) = (at * width / 64, at * width % 64);
    let low = words.get(word).copied().unwrap_or(0) >> offset;
    let high = match (words.get(word + 1), offset) {
        (Some(high), 1..) => high << (64 - offset),
        _ => 0,
    };
    (low | high) & ((1 << digit_bits) - 1)
}

/// Converts the digits of a lane to a number.
fn from_digits<const LANES: usize>(
    blocks: &Blocks<LANES>,
    lane: usize,
    digit_bits: u32,
) -> Vec<u64> {
    let width = usize::try_from(digit_bits).unwrap_or(64);
    let mut words = vec![0_u64; (blocks.len() * BLOCK_DIGITS * width).div_ceil(64)];
    let rows = blocks.iter().flat_map(|block| &block.0);
    for (at, row) in rows.enumerate() {
        let digit = row.get(lane).copied().unwrap_or(0);
        let (word, offset) = (at * width / 64, at * width % 64);
        if let Some(low) = words.get_mut(word) {
            *low |= digit << offset;
        }
        if let (Some(high), true) = (words.get_mut(word + 1), offset + width > 64) {
            *high |= digit >> (64 - offset);
        }
    }
    words
}

/// -1/odd modulo 2^64, by Newton's method: each step doubles the number of correct bits.
fn negated_inverse(odd: u64) -> u64 {
    let mut inverse = odd;
    for _ in 0..6 {
        inverse = inverse.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(inverse)));
    }
    inverse.wrapping_neg()
}

/// Number of significant bits.
pub(crate) fn bits(words: &[u64]) -> usize {
    words.iter().rposition(|word| *word != 0).map_or(0, |top| {
        let unused = words.get(top).map_or(0, |word| word.leading_zeros());
        64 * (top + 1) - usize::try_from(unused).unwrap_or(0)
    })
}

fn window_of(words: &[u64], window: usize) -> u64 {
    let bit = window * WINDOW_BITS;
    words.get(bit / 64).copied().unwrap_or(0) >> (bit % 64) & ((1 << WINDOW_BITS) - 1)
}

fn trailing_zeros(words: &[u64]) -> usize {
    let Some(at) = words.iter().position(|word| *word != 0) else {
        return 0;
    };
    let zeros = words.get(at).map_or(0, |word| word.trailing_zeros());
    64 * at + usize::try_from(zeros).unwrap_or(0)
}

fn shifted_right(words: &[u64], count: usize) -> Vec<u64> {
    let (skip, count) = (count / 64, count % 64);
    let kept = words.get(skip..).unwrap_or_default();
    (0..kept.len())
        .map(|at| {
            let low = kept.get(at).copied().unwrap_or(0) >> count;
            match (kept.get(at + 1), count) {
                (Some(high), 1..) => low | high << (64 - count),
                _ => low,
            }
        })
        .collect()
}

/// Returns true if two numbers are equal; either may have leading zero words.
fn same(a: &[u64], b: &[u64]) -> bool {
    (0..a.len().max(b.len())).all(|at| a.get(at).unwrap_or(&0) == b.get(at).unwrap_or(&0))
}

fn is_word(words: &[u64], value: u64) -> bool {
    same(words, &[value])
}

#[cfg(test)]
mod tests;
