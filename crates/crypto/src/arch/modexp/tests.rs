//! Every kernel compared with the library's big integers.

use super::*;
use crate::arch::sets;
use crate::test_support::Noise;

/// An odd number of `bits` bits with its top bit set.
fn odd(noise: &mut Noise, bits: usize) -> Vec<u64> {
    let mut words: Vec<u64> = (0..bits.div_ceil(64)).map(|_| noise.next_u64()).collect();
    let top = words.last_mut().unwrap();
    if !bits.is_multiple_of(64) {
        *top &= (1 << (bits % 64)) - 1;
    }
    *top |= 1 << ((bits - 1) % 64);
    words[0] |= 1;
    words
}

/// All ones, and a single one at the top: the longest carry propagation, and none.
fn extremes(bits: usize) -> [Vec<u64>; 2] {
    let mut ones = vec![!0; bits.div_ceil(64)];
    let mut lone = vec![0; bits.div_ceil(64)];
    let top = (bits - 1) % 64;
    *ones.last_mut().unwrap() = !0 >> (63 - top);
    *lone.last_mut().unwrap() = 1 << top;
    lone[0] |= 1;
    [ones, lone]
}

fn expected_power(base: &[u64], exponent: &[u64], modulus: &[u64]) -> Vec<u64> {
    let modulus = Bn::from_words(modulus).unwrap();
    let context = &mut BnContext::new().unwrap();
    let base = Bn::from_words(base)
        .unwrap()
        .modulo(&modulus, context)
        .unwrap();
    let exponent = Bn::from_words(exponent).unwrap();
    base.power(&exponent, &modulus, context).unwrap().to_words()
}

fn powers_of_two_agree<const LANES: usize>(kernel: &ModexpKernel<LANES>, noise: &mut Noise) {
    for bits in [
        2, 3, 17, 31, 32, 63, 64, 65, 128, 208, 512, 1023, 1024, 1025, 2048,
    ] {
        let mut numbers: Vec<Vec<u64>> = (0..LANES).map(|_| odd(noise, bits)).collect();
        if bits > 2 {
            numbers[..2].clone_from_slice(&extremes(bits));
        }
        // Of different lengths, too.
        numbers.push(odd(noise, bits.div_ceil(2).max(2)));
        for numbers in [&numbers[..LANES], &numbers[LANES - 1..]] {
            let words: Vec<&[u64]> = numbers.iter().map(Vec::as_slice).collect();
            let powers = kernel.powers_of_two(&words).unwrap();
            for (lane, number) in numbers.iter().enumerate() {
                let mut exponent = number.clone();
                exponent[0] -= 1;
                let expected = expected_power(&[2], &exponent, number);
                let name = kernel.name;
                assert!(same(&powers[lane], &expected), "{name}, {bits} bits");
            }
        }
    }
}

/// Short exponents, for moduli up to the longest and where the length of digits changes.
fn powers_agree<const LANES: usize>(kernel: &ModexpKernel<LANES>, noise: &mut Noise) {
    for bits in [
        2, 3, 65, 512, 2047, 2048, 3072, 3400, 3401, 4096, 8192, 13_600, 13_601, 16_384,
    ] {
        let [ones, lone] = extremes(bits.max(3));
        let mut numbers: Vec<Vec<u64>> = (0..LANES).map(|_| odd(noise, bits)).collect();
        numbers[..2].clone_from_slice(&[ones, lone]);
        let moduli: [&[u64]; LANES] = core::array::from_fn(|lane| numbers[lane].as_slice());
        let bases = moduli.map(|modulus| {
            // The largest possible factor, or one near it.
            let mut base = modulus.to_vec();
            base[0] -= if base[0] > 3 {
                1 + (noise.next_u64() & 2)
            } else {
                1
            };
            base
        });
        for exponent in [
            vec![1],
            vec![2],
            vec![0x8000_0000_0000_0001],
            odd(noise, 130),
        ] {
            let field = MontgomeryField::new(kernel, &moduli).unwrap();
            let mut scratch = field.moduli.blocks.clone();
            let powers = field
                .power(kernel, &bases, &exponent, &mut scratch)
                .unwrap();
            let powers = field.leave(kernel, powers, &mut scratch);
            for lane in 0..LANES {
                let expected = expected_power(&bases[lane], &exponent, moduli[lane]);
                // The conversion from Montgomery form may return the modulus for 0, and only for 0.
                let zero = is_word(&expected, 0) && same(&powers[lane], moduli[lane]);
                let name = kernel.name;
                assert!(
                    zero || same(&powers[lane], &expected),
                    "{name}, {bits} bits"
                );
            }
        }
    }
}

#[test]
fn every_kernel_gives_the_librarys_powers() {
    for features in sets() {
        let mut noise = Noise::new(5);
        match Kernels::choose(&features) {
            Some(Kernels::Eight(kernel)) => {
                powers_of_two_agree(&kernel, &mut noise);
                powers_agree(&kernel, &mut noise);
            }
            Some(Kernels::Four(kernel)) => {
                powers_of_two_agree(&kernel, &mut noise);
                powers_agree(&kernel, &mut noise);
            }
            #[cfg(target_arch = "x86_64")]
            None => assert_eq!((features.avx2, features.avx512_ifma), (None, None)),
            #[cfg(not(target_arch = "x86_64"))]
            None => {}
        }
    }
}

#[test]
fn digits_come_back_as_they_went() {
    let mut noise = Noise::new(6);
    for digit_bits in [26, 27, 28, 52] {
        for bits in [1, 63, 64, 65, 300, 2048] {
            let numbers: Vec<Vec<u64>> = (0..4).map(|_| odd(&mut noise, bits)).collect();
            let blocks = bits.div_ceil(4 * digit_bits as usize);
            let to_digits: Vec<ModexpBlock<4>> = to_digits(&numbers, digit_bits, blocks);
            for (lane, number) in numbers.iter().enumerate() {
                assert!(same(&from_digits(&to_digits, lane, digit_bits), number));
            }
        }
    }
}

#[test]
fn words_are_shifted_and_counted() {
    assert_eq!(bits(&[]), 0);
    assert_eq!(bits(&[0, 0]), 0);
    assert_eq!(bits(&[0, 1, 0]), 65);
    let number = [0, 0x8000_0000_0000_0010, 3];
    assert_eq!(trailing_zeros(&number), 68);
    assert!(same(
        &shifted_right(&number, 68),
        &[0x3800_0000_0000_0001, 0]
    ));
    assert!(same(
        &shifted_right(&number, 64),
        &[0x8000_0000_0000_0010, 3]
    ));
    for odd in [1, 3, 0xffff_ffff_ffff_ffff, 0x1234_5678_9abc_def1] {
        assert_eq!(negated_inverse(odd).wrapping_mul(odd), u64::MAX);
    }
}
