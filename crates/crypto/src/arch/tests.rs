//! Each kernel compared with the portable one.

use super::ctr::CtrKernel;
use super::nh::{BLOCK_LEN, NhKey, noise_key};
use super::*;
use crate::test_support::Noise;

#[test]
fn levels_take_features_away_downwards() {
    let all = CpuFeatures::probe();
    assert_eq!(all.limited_to(BEST), all);
    assert_eq!(all.limited_to(Level::Portable), CpuFeatures::default());
    let mut before = 0;
    for level in Level::ALL {
        let features = all.limited_to(*level);
        let count = features.rows().iter().filter(|(_, has)| *has).count();
        assert!(count >= before, "{level:?}");
        before = count;
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn the_level_avx2_knows_no_wider_vectors() {
    let all = CpuFeatures::probe();
    let avx2 = all.limited_to(Level::Avx2);
    assert_eq!(avx2.avx2, all.avx2);
    assert_eq!(avx2.aes_ni, all.aes_ni);
    assert_eq!(
        (avx2.avx512, avx2.vaes_avx2, avx2.vaes_avx512),
        (None, None, None)
    );
    assert_eq!(all.limited_to(Level::AesNi).avx2, None);
}

#[test]
fn every_feature_is_described_once() {
    let rows = describe();
    for (i, (name, _)) in rows.iter().enumerate() {
        assert!(rows[..i].iter().all(|(other, _)| other != name));
    }
    assert_eq!(
        rows.iter().any(|(name, has)| *name == "aes" && *has),
        has_fast_aes()
    );
}

#[test]
fn nh_kernels_agree_on_every_length() {
    let mut noise = Noise::new(4);
    for streams in [2, 4] {
        let key = noise_key(&mut noise);
        let portable = NhKey::with_features(&key, streams, &CpuFeatures::default());
        for features in sets() {
            let kernel = NhKey::with_features(&key, streams, &features);
            let level = kernel.kernel();
            for len in 0..=BLOCK_LEN {
                // All-ones words make every addition wrap.
                for data in [noise.bytes(len), vec![0xff; len]] {
                    let expected = portable.short_block(&data);
                    let got = kernel.short_block(&data);
                    assert_eq!(got, expected, "{level:?}, {streams} streams, {len} bytes");
                    assert_eq!(expected[streams..], [0; 4][streams..]);
                    if let Ok(block) = data.as_slice().try_into() {
                        assert_eq!(kernel.block(block), expected, "{level:?}");
                    }
                }
            }
        }
    }
}

/// Counters before, at and after every position where a carry propagates.
fn counters(noise: &mut Noise) -> Vec<u128> {
    let mut counters = vec![0, 1, u128::from(noise.next_u64()) << 61];
    for bits in [8, 16, 32, 63, 64, 96, 127, 128] {
        let wrap = 1u128.checked_shl(bits).unwrap_or(0);
        counters.extend((0..40).map(|before| wrap.wrapping_sub(before)));
    }
    counters
}

#[test]
fn ctr_kernels_agree_on_every_length_and_wrap() {
    let mut noise = Noise::new(6);
    for key_len in [16, 24, 32] {
        let key = noise.bytes(key_len);
        let judge = crate::awslc::aes::AesKey::for_encryption(&key).expect("length fits");
        for features in sets() {
            let kernel = CtrKernel::with_features(&key, &features).expect("length fits");
            let mut check = |counter: u128, len: usize, skip: usize| {
                let plain = noise.bytes(len + skip);
                let (mut got, mut expected) = (plain.clone(), plain.clone());
                kernel.apply(counter, &mut got[skip..]);
                judge.ctr(counter, &mut expected[skip..]);
                assert!(got == expected, "{} {counter:x} {len}", kernel.name());
            };
            for len in (0..=300)
                .chain(500..530)
                .chain(760..780)
                .chain([1024, 32768, 35001])
            {
                check(0, len, 0);
                check(u128::MAX - 3, len, len % 7);
            }
            for counter in counters(&mut Noise::new(7)) {
                check(counter, 600, 1);
                check(counter, 1100, 0);
            }
        }
    }
}

#[test]
fn ctr_kernels_refuse_other_key_lengths() {
    for features in sets() {
        for len in [0, 15, 17, 31, 33, 64] {
            assert!(CtrKernel::with_features(&vec![0; len], &features).is_err());
        }
    }
}
