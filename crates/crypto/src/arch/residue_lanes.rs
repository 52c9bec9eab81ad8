//! Start positions of a sieve: a long number modulo many small primes, by Montgomery reduction with
//! a prime in each lane.
//!
//! The same code is compiled once for each vector length; the compiler vectorises its loops over
//! lanes.
#![forbid(unsafe_code)]

/// Number of primes processed at a time: enough to hide the latency of each step.
pub(crate) const LANES: usize = 32;

/// A kernel for a fixed long number.
pub(crate) type ResidueKernel = fn(&[u64], &[u32; LANES]) -> [[u32; LANES]; 2];

/// A value below 2^32 in each lane.
type ResidueLane = [u64; LANES];

const LOW: u64 = 0xffff_ffff;

/// For each prime r above 3, returns the smallest i for which r divides q + 12 i, and the smallest
/// for which it divides 2 (q + 12 i) + 1. `words` are q's 32-bit words, the lowest first.
#[inline(always)]
pub(crate) fn starts(words: &[u64], primes: &[u32; LANES]) -> [[u32; LANES]; 2] {
    let field = PrimeLanes::new(primes);
    let primes_wide = &field.primes;
    // q times 2^-32 for each word.
    let mut sum = [0; LANES];
    for word in words {
        for sum in &mut sum {
            *sum = u64::wrapping_add(*sum, word & LOW);
        }
        field.reduce(&mut sum);
    }
    // 2^(32 words + 32) in Montgomery form, by squaring 2: it compensates for the factor that the
    // sum lost, and for those that the two products below lose.
    let mut power: ResidueLane = [0; LANES];
    for (power, prime) in power.iter_mut().zip(primes) {
        *power = u64::from(u32::MAX % (*prime).max(1)).wrapping_add(1);
    }
    field.double(&mut power);
    let exponent = 32 * (words.len() + 1);
    for bit in (0..exponent.checked_ilog2().unwrap_or(0)).rev() {
        let factor = power;
        field.multiply(&mut power, &factor);
        if exponent >> bit & 1 == 1 {
            field.double(&mut power);
        }
    }
    // -1/12 = (r (r mod 12) - 1) / 12, since the square of r is 1 modulo 12.
    let mut minus_twelfth: ResidueLane = [0; LANES];
    for (twelfth, prime) in minus_twelfth.iter_mut().zip(primes) {
        let square = u64::from(*prime).wrapping_mul(u64::from(*prime % 12));
        *twelfth = square.wrapping_sub(1) / 12;
    }
    field.multiply(&mut power, &minus_twelfth);
    field.multiply(&mut sum, &power);
    // 2 q + 1 is 0 where q is -1/2, which is 1/24 before the position where q is 0.
    let mut second = [0; LANES];
    for lane in 0..LANES {
        let (prime, twelfth) = (primes_wide[lane], minus_twelfth[lane]);
        let half = twelfth.wrapping_add(prime & (twelfth & 1).wrapping_neg()) >> 1;
        second[lane] = below(sum[lane].wrapping_add(half), prime);
    }
    [sum.map(low), second.map(low)]
}

/// Converts a value below 2^32.
#[inline(always)]
fn low(value: u64) -> u32 {
    #[allow(clippy::cast_possible_truncation)]
    {
        value as u32
    }
}

/// x modulo r, for x below 2 r: the smaller of x and x - r, which wraps to a huge value when it is
/// negative.
#[inline(always)]
fn below(x: u64, prime: u64) -> u64 {
    x.min(x.wrapping_sub(prime))
}

/// The primes and their Montgomery constants. All arithmetic is explicitly wrapping, because an
/// overflow check of each lane would prevent vectorisation; comments state the bounds that exclude
/// overflow.
struct PrimeLanes {
    primes: ResidueLane,
    /// -1/r modulo 2^32.
    inverses: ResidueLane,
}

impl PrimeLanes {
    #[inline(always)]
    fn new(primes: &[u32; LANES]) -> Self {
        let mut inverses = [0; LANES];
        for (inverse, prime) in inverses.iter_mut().zip(primes) {
            let mut x = *prime;
            // Each step doubles the number of correct bits, initially three.
            for _ in 0..4 {
                x = x.wrapping_mul(2_u32.wrapping_sub(prime.wrapping_mul(x)));
            }
            *inverse = u64::from(x.wrapping_neg());
        }
        Self {
            primes: primes.map(u64::from),
            inverses,
        }
    }

    /// x / 2^32; at most r + 1 if x is the sum of such a result and a word.
    #[inline(always)]
    fn reduce(&self, x: &mut ResidueLane) {
        for ((x, inverse), prime) in x.iter_mut().zip(&self.inverses).zip(&self.primes) {
            let quotient = (*x & LOW).wrapping_mul(inverse & LOW) & LOW;
            // At most 2^33 + (2^32 - 1)²: no carry.
            *x = x.wrapping_add(quotient.wrapping_mul(prime & LOW)) >> 32;
        }
    }

    /// a b / 2^32, below r; a may be up to r + 1.
    #[inline(always)]
    fn multiply(&self, a: &mut ResidueLane, b: &ResidueLane) {
        for lane in 0..LANES {
            let x = (a[lane] & LOW).wrapping_mul(b[lane] & LOW);
            let quotient = (x & LOW).wrapping_mul(self.inverses[lane] & LOW) & LOW;
            // The halves are added separately, because the whole sum may need 65 bits. The low
            // halves cancel, with a carry unless both are 0: the low half of -x is then filled with
            // ones above.
            let high = quotient.wrapping_mul(self.primes[lane] & LOW) >> 32;
            let carry = 0_u64.wrapping_sub(x & LOW) >> 63;
            let sum = (x >> 32).wrapping_add(high).wrapping_add(carry);
            a[lane] = below(sum, self.primes[lane]);
        }
    }

    #[inline(always)]
    fn double(&self, a: &mut ResidueLane) {
        for (a, prime) in a.iter_mut().zip(&self.primes) {
            *a = below(a.wrapping_mul(2), *prime);
        }
    }
}

#[cfg(test)]
mod tests;
