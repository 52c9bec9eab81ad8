//! Primality tests of many public numbers, for searching Diffie-Hellman groups for moduli(5).
//!
//! Numbers are slices of 64-bit words, the lowest word first. Where the CPU has vector kernels,
//! several numbers are tested in parallel lanes. Nothing here runs in constant time or wipes
//! memory; [`crate::sign::PrivateKey::generate`] makes secret keys.
#![forbid(unsafe_code)]

use crate::arch::modexp::{self, Kernels, ModexpKernel};
use crate::arch::residue;
use crate::arch::{self, CpuFeatures};
use crate::awslc::AwsLcFailed;
use crate::awslc::bn::{Bn, BnContext};

/// Maximum size of a tested number in bits.
pub const MAX_BITS: usize = 16_384;

/// Primality tests with the kernels of this CPU.
pub struct PrimalityTests {
    kernels: Option<Kernels>,
}

impl Default for PrimalityTests {
    fn default() -> Self {
        Self::with_features(arch::detect())
    }
}

impl PrimalityTests {
    /// Uses the kernels for `features`, for tests and benchmarks.
    #[must_use]
    pub fn with_features(features: &CpuFeatures) -> Self {
        Self {
            kernels: Kernels::choose(features),
        }
    }

    /// The kernel's name, for benchmark tables.
    #[must_use]
    pub fn kernel(&self) -> &'static str {
        self.kernels.as_ref().map_or("aws-lc", Kernels::name)
    }

    /// Number of numbers tested in parallel: 8, 4 or 1.
    #[must_use]
    pub fn lanes(&self) -> usize {
        match &self.kernels {
            Some(Kernels::Eight(_)) => 8,
            Some(Kernels::Four(_)) => 4,
            None => 1,
        }
    }

    /// For each number n, returns true if 2^(n-1) = 1 modulo n. True for every odd prime and for
    /// few composite numbers; false for even numbers, 1 and numbers of more than [`MAX_BITS`].
    ///
    /// # Panics
    /// If memory allocation fails.
    #[must_use]
    pub fn fermat<N: AsRef<[u64]>>(&self, numbers: &[N]) -> Vec<bool> {
        let fit: Vec<&[u64]> = numbers.iter().map(AsRef::as_ref).collect();
        let fit: Vec<&[u64]> = fit
            .into_iter()
            .filter(|number| is_testable(number))
            .collect();
        let passed = match &self.kernels {
            Some(Kernels::Eight(kernel)) => side_by_side(kernel, &fit),
            Some(Kernels::Four(kernel)) => side_by_side(kernel, &fit),
            None => fit.iter().map(|number| fermat_alone(number)).collect(),
        };
        let mut passed = passed.expect("memory for a long number").into_iter();
        numbers
            .iter()
            .map(|number| is_testable(number.as_ref()) && passed.next().unwrap_or(false))
            .collect()
    }

    /// Performs at least `rounds` rounds of Miller-Rabin with random bases. A composite number,
    /// however chosen, passes with a probability of at most 4^-rounds.
    ///
    /// # Panics
    /// If memory allocation fails.
    #[must_use]
    pub fn is_prime(&self, number: &[u64], rounds: u32) -> bool {
        if !is_testable(number) {
            return *number.first().unwrap_or(&0) == 2 && modexp::bits(number) == 2;
        }
        if modexp::bits(number) < 3 {
            return true;
        }
        match &self.kernels {
            Some(Kernels::Eight(kernel)) => miller_rabin(kernel, number, rounds),
            Some(Kernels::Four(kernel)) => miller_rabin(kernel, number, rounds),
            None => BnContext::new()
                .and_then(|mut context| Bn::from_words(number)?.is_prime(rounds, &mut context)),
        }
        .expect("memory for a long number")
    }
}

/// Returns true if `number` is odd, above 1, and at most [`MAX_BITS`] long.
fn is_testable(number: &[u64]) -> bool {
    number.first().is_some_and(|low| low & 1 == 1) && (2..=MAX_BITS).contains(&modexp::bits(number))
}

fn side_by_side<const LANES: usize>(
    kernel: &ModexpKernel<LANES>,
    numbers: &[&[u64]],
) -> Result<Vec<bool>, AwsLcFailed> {
    let mut passed = Vec::with_capacity(numbers.len());
    for some in numbers.chunks(LANES) {
        passed.extend(kernel.fermat(some)?.into_iter().take(some.len()));
    }
    Ok(passed)
}

fn fermat_alone(number: &[u64]) -> Result<bool, AwsLcFailed> {
    let modulus = Bn::from_words(number)?;
    // The exponentiation needs a base below the modulus: 2 is below the smallest testable number,
    // 3.
    let power =
        Bn::from_u64(2)?.power(&modulus.minus_word(1)?, &modulus, &mut BnContext::new()?)?;
    Ok(power == Bn::from_u64(1)?)
}

fn miller_rabin<const LANES: usize>(
    kernel: &ModexpKernel<LANES>,
    number: &[u64],
    rounds: u32,
) -> Result<bool, AwsLcFailed> {
    let modulus = Bn::from_words(number)?;
    let lanes = u32::try_from(LANES).unwrap_or(1);
    for _ in 0..rounds.div_ceil(lanes) {
        let mut bases: [Vec<u64>; LANES] = core::array::from_fn(|_| Vec::new());
        for base in &mut bases {
            *base = modulus.random_base()?.to_words();
        }
        if !kernel.miller_rabin(number, &bases)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Start positions for a sieve for safe primes 2q + 1: for each small prime, the first of the
/// candidates q + 12 i and of the numbers 2 (q + 12 i) + 1 that it divides.
pub struct SieveStarts {
    words: Vec<u64>,
    kernel: residue::ResidueKernel,
}

impl SieveStarts {
    /// Start positions for candidates from `q` on.
    #[must_use]
    pub fn new(q: &[u64]) -> Self {
        Self::with_features(q, arch::detect())
    }

    /// With the kernel for these features, for tests and tables.
    #[must_use]
    pub fn with_features(q: &[u64], features: &CpuFeatures) -> Self {
        Self {
            words: q
                .iter()
                .flat_map(|word| [word & 0xffff_ffff, word >> 32])
                .collect(),
            kernel: residue::kernel(features),
        }
    }

    /// Calls `take` for each prime r (above 3), in order, with r, the smallest i for which r
    /// divides q + 12 i, and the smallest i for which r divides 2 (q + 12 i) + 1.
    pub fn of(&self, primes: &[u32], mut take: impl FnMut(u32, u32, u32)) {
        for some in primes.chunks(residue::LANES) {
            let mut lanes = [5; residue::LANES];
            for (lane, prime) in lanes.iter_mut().zip(some) {
                *lane = *prime;
            }
            let [first, second] = (self.kernel)(&self.words, &lanes);
            for ((prime, first), second) in some.iter().zip(first).zip(second) {
                take(*prime, first, second);
            }
        }
    }
}

#[cfg(test)]
mod tests;
