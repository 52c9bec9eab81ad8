//! Every kernel against plain division.

use super::*;
use crate::arch::residue::kernel;
use crate::arch::sets;
use crate::test_support::Noise;

/// A long number modulo a small one.
fn remainder(words: &[u64], prime: u64) -> u64 {
    words
        .iter()
        .rev()
        .fold(0, |rest, word| (rest << 32 | word) % prime)
}

#[test]
fn multiples_begin_where_division_says() {
    let mut noise = Noise::new(7);
    let known = [
        5,
        7,
        11,
        13,
        17,
        19,
        65_537,
        2_147_483_647,
        2_147_483_659,
        4_294_967_291,
    ];
    for features in sets() {
        let kernel = kernel(&features);
        for len in [1, 2, 3, 16, 63, 64, 65, 96, 256] {
            let mut words: Vec<u64> = (0..len).map(|_| noise.next_u64() & LOW).collect();
            for extreme in [None, Some(0), Some(LOW)] {
                if let Some(value) = extreme {
                    words.fill(value);
                }
                // Any number coprime to 12 can be used, prime or not.
                let mut primes = [0; LANES];
                for (at, prime) in primes.iter_mut().enumerate() {
                    let bits = 3 + noise.below(30);
                    let random = (noise.next_u64() & ((1 << bits) - 1)) / 6 * 6;
                    *prime = match known.get(at) {
                        Some(known) => *known,
                        None => u32::try_from(random.max(6) - 1).unwrap(),
                    };
                }
                let [first, second] = kernel(&words, &primes);
                for lane in 0..LANES {
                    let prime = u64::from(primes[lane]);
                    let q = remainder(&words, prime);
                    let [i, j] = [first[lane], second[lane]].map(u64::from);
                    assert!(i < prime && j < prime, "{features:?}, {prime}");
                    assert_eq!((q + 12 * i) % prime, 0, "{features:?}, {prime}");
                    assert_eq!((2 * (q + 12 * j) + 1) % prime, 0, "{features:?}, {prime}");
                }
            }
        }
    }
}
