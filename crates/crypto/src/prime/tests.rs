//! Known primes and composite numbers.

use super::*;
use crate::arch::Level;
use crate::awslc::bn::rfc3526_prime;
use crate::test_support::Noise;

/// The tests at every level that this CPU has.
fn every_level() -> Vec<PrimalityTests> {
    // One level for each kernel.
    #[cfg(target_arch = "x86_64")]
    let levels = [Level::Portable, Level::Avx2, Level::Avx512];
    #[cfg(not(target_arch = "x86_64"))]
    let levels = [Level::Portable];
    levels
        .into_iter()
        .map(|level| PrimalityTests::with_features(&arch::detect().limited_to(level)))
        .collect()
}

fn small_primes() -> Vec<u64> {
    (2..2000_u64)
        .filter(|n| {
            (2..*n)
                .take_while(|d| d * d <= *n)
                .all(|d| !n.is_multiple_of(d))
        })
        .collect()
}

#[test]
fn small_numbers_are_told_apart() {
    let primes = small_primes();
    let numbers: Vec<[u64; 1]> = (0..2000).map(|n| [n]).collect();
    for tests in every_level() {
        let fermat = tests.fermat(&numbers);
        for (number, fermat) in numbers.iter().zip(fermat) {
            let prime = primes.contains(&number[0]);
            // 20 rounds have an error of at most 4^-20, and there are only 2000 numbers.
            assert_eq!(tests.is_prime(number, 20), prime, "{number:?}");
            if prime {
                assert_eq!(fermat, number[0] != 2, "{number:?}");
            }
        }
    }
}

#[test]
fn carmichael_numbers_pass_fermat_and_not_miller_rabin() {
    let numbers = [
        [561_u64],
        [1105],
        [1729],
        [2465],
        [2821],
        [6601],
        [8911],
        [10_585],
        [15_841],
        [29_341],
        [825_265],
        [321_197_185],
        [9_746_347_772_161],
        [1_436_697_831_295_441],
    ];
    for tests in every_level() {
        assert!(tests.fermat(&numbers).into_iter().all(|passed| passed));
        assert!(numbers.iter().all(|number| !tests.is_prime(number, 20)));
    }
}

#[test]
fn the_groups_of_rfc_3526_are_safe_primes() {
    for tests in every_level() {
        for bits in [2048, 4096] {
            let prime = rfc3526_prime(bits).unwrap();
            let half = prime.halved().unwrap().to_words();
            let prime = prime.to_words();
            let mut other = prime.clone();
            other[0] ^= 4;
            assert_eq!(
                tests.fermat(&[&prime, &half, &other]),
                [true, true, false],
                "{}",
                tests.kernel()
            );
            assert!(tests.is_prime(&prime, 4));
            assert!(tests.is_prime(&half, 4));
            assert!(!tests.is_prime(&other, 4));
        }
    }
}

#[test]
fn products_of_two_primes_fail() {
    let prime = rfc3526_prime(2048).unwrap();
    let context = &mut BnContext::new().unwrap();
    for tests in every_level() {
        for factor in [3, 5, 65_537, 0xffff_ffff_ffff_ffc5] {
            let factor = Bn::from_u64(factor).unwrap();
            let product = prime.times(&factor, context).unwrap().to_words();
            assert_eq!(tests.fermat(&[&product]), [false]);
            assert!(!tests.is_prime(&product, 1));
        }
    }
}

#[test]
fn what_is_even_or_out_of_bounds_fails() {
    let mut huge = vec![0; MAX_BITS / 64];
    huge.push(1);
    huge[0] = 1;
    let numbers: [&[u64]; 6] = [&[], &[0], &[1], &[1, 0], &[2, 1], &huge];
    for tests in every_level() {
        assert_eq!(tests.fermat(&numbers), [false; 6]);
        assert!(numbers.iter().all(|number| !tests.is_prime(number, 1)));
        assert!(tests.fermat::<&[u64]>(&[]).is_empty());
    }
}

#[test]
fn starts_are_given_in_order_for_any_number_of_primes() {
    let mut noise = Noise::new(8);
    let q = [noise.next_u64(), noise.next_u64(), noise.next_u64()];
    let primes: Vec<u32> = small_primes()
        .iter()
        .skip(2)
        .map(|p| u32::try_from(*p).unwrap())
        .collect();
    for count in [0, 1, 31, 32, 33, 100] {
        let mut seen = Vec::new();
        SieveStarts::new(&q).of(&primes[..count], |prime, first, second| {
            seen.push(prime);
            let modulo = |i: u32| {
                let rest = q.iter().rev().fold(0_u128, |rest, word| {
                    (rest << 64 | u128::from(*word)) % u128::from(prime)
                });
                (rest + 12 * u128::from(i)) % u128::from(prime)
            };
            assert_eq!(modulo(first), 0);
            assert_eq!((2 * modulo(second) + 1) % u128::from(prime), 0);
        });
        assert_eq!(seen, primes[..count]);
    }
}
