//! Each kernel against its portable sibling.

use super::nh::{BLOCK_LEN, CHUNK_LEN, NhKey, noise_key};
use super::*;
use crate::test_support::Noise;

#[test]
fn levels_take_features_away_downwards() {
    let all = probe();
    assert_eq!(all.limited_to(Level::Avx512), all);
    assert_eq!(all.limited_to(Level::Portable), CpuFeatures::default());
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
        for level in Level::ALL {
            let kernel = NhKey::with_features(&key, streams, &probe().limited_to(level));
            for len in (0..=BLOCK_LEN).step_by(CHUNK_LEN) {
                // All-ones words make every addition wrap.
                for data in [noise.bytes(len), vec![0xff; len]] {
                    let (mut expected, mut got) = ([7; 4], [7; 4]);
                    portable.hash(&data, &mut expected);
                    kernel.hash(&data, &mut got);
                    assert_eq!(got, expected, "{level:?}, {streams} streams, {len} bytes");
                    assert_eq!(expected[streams..], [7; 4][streams..]);
                }
            }
        }
    }
}
