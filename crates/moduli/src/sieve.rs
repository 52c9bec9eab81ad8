//! The sieve: which q of a window may be such that q and 2q + 1 are both prime.
//!
//! The window holds q + 12 i, with q = 5 modulo 12, so that 2q + 1 = 11 modulo 24 and 2 is a
//! generator. Each prime strikes out two residue classes. Primes up to [`SMALL_LIMIT`] do so
//! over one segment after another, which stays in the nearest large cache; the larger ones hit a
//! segment seldom and go over the whole window, of which they change few bits: nearly all that
//! they hit is struck out already, and is only looked at.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crypto::prime::SieveStarts;

use super::natural::Natural;
use super::primes::{self, Chunk};

/// Distance of two candidates.
pub(super) const STEP: u64 = 12;
/// Positions of a segment: 256 KiB of bits.
const SEGMENT_POSITIONS: u64 = 1 << 21;
/// From here on primes go over the whole window.
const SMALL_LIMIT: u32 = 1 << 19;
/// Largest window in positions: 256 MiB of bits.
pub(super) const MAX_POSITIONS: u64 = 1 << 31;

/// A stretch of candidates.
#[derive(Debug, Clone)]
pub(super) struct Window {
    /// The first q.
    first: Natural,
    /// How many.
    positions: u64,
}

impl Window {
    /// So many candidates from the first suitable one at or above `start`.
    pub(super) fn new(start: &Natural, positions: u64) -> Self {
        let up = (5 + STEP - u64::from(start.modulo(12))) % STEP;
        Self {
            first: start.plus(up),
            positions: positions.clamp(1, MAX_POSITIONS),
        }
    }

    pub(super) fn positions(&self) -> u64 {
        self.positions
    }

    /// The candidate at a position.
    pub(super) fn candidate(&self, position: u64) -> Natural {
        self.first.plus(STEP * position)
    }
}

/// A sieved window: a bit for each position, set if the sieve struck the position out.
pub(super) struct Sieved {
    bits: Vec<AtomicU64>,
    positions: u64,
    /// Primes that were used.
    pub(super) primes: u64,
}

impl Sieved {
    /// The positions that are left, from `from` on and in order.
    pub(super) fn left(&self, from: u64) -> impl Iterator<Item = u64> + '_ {
        let first_word = usize::try_from(from / 64).unwrap_or(usize::MAX);
        let words = self.bits.iter().enumerate().skip(first_word);
        words
            .flat_map(|(at, word)| {
                let mut free = !word.load(Ordering::Relaxed);
                let base = 64 * u64::try_from(at).unwrap_or(u64::MAX / 64);
                std::iter::from_fn(move || {
                    let bit = u64::from(free.trailing_zeros());
                    free &= free.wrapping_sub(1);
                    (bit < 64).then_some(base + bit)
                })
            })
            .skip_while(move |position| *position < from)
            .take_while(|position| *position < self.positions)
    }

    fn strike(&self, position: u64) {
        let word = usize::try_from(position / 64)
            .ok()
            .and_then(|at| self.bits.get(at));
        let bit = 1 << (position % 64);
        if let Some(word) = word
            && word.load(Ordering::Relaxed) & bit == 0
        {
            word.fetch_or(bit, Ordering::Relaxed);
        }
    }
}

/// Sieves a window by all primes from 5 below `limit` with `workers` threads. Any of them calls
/// `progress` with the finished part of the work; the sieve stops if it returns false.
pub(super) fn sieve(
    window: &Window,
    limit: u64,
    workers: usize,
    progress: &(dyn Fn(f64) -> bool + Sync),
) -> Sieved {
    let words = usize::try_from(window.positions.div_ceil(64)).unwrap_or(usize::MAX);
    let mut sieved = Sieved {
        bits: (0..words).map(|_| AtomicU64::new(0)).collect(),
        positions: window.positions,
        primes: 0,
    };
    let starts = SieveStarts::new(window.first.words());
    let small_limit = u64::from(SMALL_LIMIT).min(limit);
    let small: Vec<u32> = primes::below(u32::try_from(small_limit).unwrap_or(SMALL_LIMIT))
        .into_iter()
        .filter(|prime| *prime >= 5)
        .collect();
    let mut classes = Vec::with_capacity(small.len());
    starts.of(&small, |prime, first, second| {
        classes.push((prime, first, second))
    });
    segments(&sieved, &classes, workers);
    let mut used = classes.len();
    if limit > small_limit {
        used += large(
            &sieved,
            &starts,
            u64::from(SMALL_LIMIT),
            limit,
            workers,
            progress,
        );
    }
    sieved.primes = u64::try_from(used).unwrap_or(u64::MAX);
    sieved
}

/// Strikes out what small primes divide, a segment at a time.
fn segments(sieved: &Sieved, classes: &[(u32, u32, u32)], workers: usize) {
    let next = AtomicUsize::new(0);
    let words = usize::try_from(SEGMENT_POSITIONS / 64).unwrap_or(1);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                let mut segment = vec![0_u64; words];
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(place) = sieved.bits.chunks(words).nth(index) else {
                        break;
                    };
                    segment.fill(0);
                    let from = u64::try_from(index).unwrap_or(0) * SEGMENT_POSITIONS;
                    for (prime, first, second) in classes {
                        strike_class(&mut segment, from, *prime, *first);
                        strike_class(&mut segment, from, *prime, *second);
                    }
                    for (to, word) in place.iter().zip(&segment) {
                        to.store(*word, Ordering::Relaxed);
                    }
                }
            });
        }
    });
}

/// Strikes out first, first + prime, … of the window in a segment that begins at `from`.
fn strike_class(segment: &mut [u64], from: u64, prime: u32, first: u32) {
    let (prime, first) = (u64::from(prime), u64::from(first));
    // How far into the segment the first hit lies.
    let offset = match first.checked_sub(from) {
        Some(offset) => offset,
        None => (prime - (from - first) % prime) % prime,
    };
    let step = usize::try_from(prime).unwrap_or(usize::MAX);
    let mut at = usize::try_from(offset).unwrap_or(usize::MAX);
    while let Some(word) = segment.get_mut(at / 64) {
        *word |= 1 << (at % 64);
        at += step;
    }
}

/// Strikes out what the primes from `from` to `limit` divide; their number.
fn large(
    sieved: &Sieved,
    starts: &SieveStarts,
    from: u64,
    limit: u64,
    workers: usize,
    progress: &(dyn Fn(f64) -> bool + Sync),
) -> usize {
    let base = primes::below(1 << 16);
    let chunks = (limit - from).div_ceil(Chunk::SPAN);
    let next = AtomicU64::new(0);
    let used = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                let mut chunk = Chunk::new(&base);
                let mut primes = Vec::new();
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    #[allow(clippy::cast_precision_loss)]
                    let done = index as f64 / chunks as f64;
                    if index >= chunks || !progress(done) {
                        break;
                    }
                    let low = from + index * Chunk::SPAN;
                    chunk.primes(low, limit.min(low + Chunk::SPAN), &mut primes);
                    used.fetch_add(primes.len(), Ordering::Relaxed);
                    starts.of(&primes, |prime, first, second| {
                        for start in [first, second] {
                            let mut position = u64::from(start);
                            while position < sieved.positions {
                                sieved.strike(position);
                                position += u64::from(prime);
                            }
                        }
                    });
                }
            });
        }
    });
    used.into_inner()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_has_no_small_divisor_and_nothing_else_is_struck_out() {
        let start =
            Natural::from_hex("C000000000000000FEDCBA9876543210FEDCBA9876543211", 192).unwrap();
        for (limit, positions) in [(100, 3000), (5000, 5000), (600_000, 300_000)] {
            let window = Window::new(&start, positions);
            for workers in [1, 3] {
                let sieved = sieve(&window, limit, workers, &|_| true);
                let primes: Vec<u32> = primes::below(u32::try_from(limit).unwrap());
                assert_eq!(sieved.primes, u64::try_from(primes.len() - 2).unwrap());
                let left: Vec<u64> = sieved.left(0).collect();
                let mut expected = vec![true; usize::try_from(positions).unwrap()];
                for prime in primes[2..].iter().map(|prime| u64::from(*prime)) {
                    let rest = u64::from(window.candidate(0).modulo(u32::try_from(prime).unwrap()));
                    let twelfth = (1..12)
                        .map(|k| k * prime + 1)
                        .find(|x| x % 12 == 0)
                        .unwrap()
                        / 12;
                    for root in [0, (prime - 1) / 2] {
                        let first = (root + prime - rest) % prime * twelfth % prime;
                        for position in (first..positions).step_by(usize::try_from(prime).unwrap())
                        {
                            let q = (rest + 12 * position) % prime;
                            assert!(q == 0 || (2 * q + 1) % prime == 0);
                            expected[usize::try_from(position).unwrap()] = false;
                        }
                    }
                }
                let expected: Vec<u64> = (0..)
                    .zip(expected)
                    .filter(|(_, free)| *free)
                    .map(|(i, _)| i)
                    .collect();
                assert_eq!(left, expected, "{limit}");
                let from = left[left.len() / 2];
                assert!(
                    sieved
                        .left(from)
                        .eq(left.iter().copied().filter(|at| *at >= from))
                );
            }
        }
    }

    #[test]
    fn candidates_are_those_whose_groups_are_generated_by_two() {
        for low in 0..24 {
            let start = Natural::from_hex("C0000000", 64).unwrap().plus(low);
            let window = Window::new(&start, 10);
            assert_eq!(window.candidate(0).modulo(12), 5);
            assert_eq!(window.candidate(7).twice_plus_one().modulo(24), 11);
            let up = window.candidate(0).words()[0] - start.words()[0];
            assert!(up < 12);
        }
    }
}
