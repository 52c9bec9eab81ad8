//! Small primes: the sieve of Eratosthenes, whole or a stretch at a time.

/// The primes below `limit`.
pub(super) fn below(limit: u32) -> Vec<u32> {
    let len = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut composite = vec![false; len];
    let mut primes = Vec::new();
    for number in 2..len {
        if composite.get(number) != Some(&false) {
            continue;
        }
        primes.extend(u32::try_from(number));
        if let Some(square) = number.checked_mul(number) {
            for multiple in (square..len).step_by(number) {
                if let Some(mark) = composite.get_mut(multiple) {
                    *mark = true;
                }
            }
        }
    }
    primes
}

/// A stretch of odd numbers, a bit for each; to be used again and again.
pub(super) struct Chunk<'a> {
    /// The odd primes below 2^16.
    base: &'a [u32],
    /// The multiples of the smallest primes, which repeat.
    pattern: Vec<u64>,
    bits: Vec<u64>,
}

/// Primes whose multiples are copied.
const COPIED: [u32; 5] = [3, 5, 7, 11, 13];
/// Words after which their multiples repeat: their product.
const PATTERN_WORDS: usize = 3 * 5 * 7 * 11 * 13;

impl<'a> Chunk<'a> {
    /// Numbers of a stretch: 96 KiB of bits.
    pub(super) const SPAN: u64 = 3 << 19;

    /// With the primes below 2^16, which suffice for stretches up to 2^32.
    pub(super) fn new(base: &'a [u32]) -> Self {
        let mut pattern = vec![0; PATTERN_WORDS];
        for prime in COPIED {
            strike(&mut pattern, 0, prime);
        }
        Self {
            base,
            pattern,
            bits: vec![0; usize::try_from(Self::SPAN / 128).unwrap_or(1)],
        }
    }

    /// The primes from `low` (a multiple of 128, above 2^16) to `high`, at most a stretch away
    /// and up to 2^32.
    pub(super) fn primes(&mut self, low: u64, high: u64, primes: &mut Vec<u32>) {
        let offset = usize::try_from(low / 128).unwrap_or(0) % PATTERN_WORDS;
        // Once around is more than a stretch.
        let (before, from) = self.pattern.split_at(offset);
        for (word, pattern) in self.bits.iter_mut().zip(from.iter().chain(before)) {
            *word = *pattern;
        }
        for prime in self.base {
            if u64::from(*prime) * u64::from(*prime) >= high {
                break;
            }
            if *prime > 13 {
                strike(&mut self.bits, low, *prime);
            }
        }
        primes.clear();
        for (at, word) in (0..).zip(&self.bits) {
            let mut free = !word;
            while free != 0 {
                let number = low + 128 * at + 2 * u64::from(free.trailing_zeros()) + 1;
                free &= free - 1;
                if number < high {
                    primes.extend(u32::try_from(number));
                }
            }
        }
    }
}

/// Strikes out the odd multiples of an odd prime, the prime included, where bit i is
/// `low` + 2 i + 1 and `low` is even.
fn strike(bits: &mut [u64], low: u64, prime: u32) {
    let prime = u64::from(prime);
    // low + 2 i + 1 = 0 modulo the prime, by the inverse of 2.
    let rest = (low + 1) % prime;
    let first = (prime - rest) % prime * prime.div_ceil(2) % prime;
    let step = usize::try_from(prime).unwrap_or(usize::MAX);
    let mut at = usize::try_from(first).unwrap_or(usize::MAX);
    while let Some(word) = bits.get_mut(at / 64) {
        *word |= 1 << (at % 64);
        at += step;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn primes_are_counted_right() {
        assert_eq!(below(30), [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]);
        assert!(below(2).is_empty() && below(0).is_empty());
        // π(2^16) and π(10^6), of the tables.
        assert_eq!(below(1 << 16).len(), 6542);
        assert_eq!(below(1_000_000).len(), 78_498);
    }

    #[test]
    fn stretches_hold_the_same_primes() {
        let base = below(1 << 16);
        let mut chunk = Chunk::new(&base);
        let mut primes = Vec::new();
        let all = below(1 << 22);
        for (low, high) in [
            (1 << 17, 1 << 20),
            (1 << 20, 2 << 20),
            (3 << 20, (3 << 20) + 5000),
        ] {
            chunk.primes(low, high, &mut primes);
            let expected: Vec<u32> = all
                .iter()
                .copied()
                .filter(|p| (low..high).contains(&u64::from(*p)))
                .collect();
            assert_eq!(primes, expected, "{low}");
        }
        // The last ones below 2^32, by trial division.
        let low = (1_u64 << 32) - 1280;
        chunk.primes(low, 1 << 32, &mut primes);
        let is_prime = |n: u64| base.iter().all(|p| !n.is_multiple_of(u64::from(*p)));
        let expected: Vec<u32> = (low..1 << 32)
            .filter(|n| is_prime(*n))
            .map(|n| u32::try_from(n).unwrap())
            .collect();
        assert_eq!(primes, expected);
        assert_eq!(primes.last(), Some(&4_294_967_291));
    }
}
