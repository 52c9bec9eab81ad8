//! Published vectors of HMAC on every kernel, and many packets at once compared with single ones.

use super::super::{MACS, MacAlgorithm, MacKey};
use super::*;
use crate::arch::{detect, sets_for_hashes};
use crate::test_support::{Noise, hex};

/// The tag over `message`, whose first four bytes are the sequence number, computed for `copies` of
/// it between packets of other lengths.
fn check(hash: HashAlgorithm, key: &[u8], message: &[u8], tag: &str) {
    let (number, data) = message.split_first_chunk().expect("four bytes");
    let number = u32::from_be_bytes(*number);
    let key = match key.len() > hash.block_len() {
        true => hash.digest(key).to_vec(),
        false => key.to_vec(),
    };
    let noise = Noise::new(1).bytes(700);
    for features in sets_for_hashes() {
        let many = HmacMany::new(hash, &key, &features).expect("a hash with kernels");
        for copies in 1..=40 {
            let mut packets = vec![(number, data); copies];
            packets.extend((0..copies / 2).map(|i| (9, &noise[..35 * i])));
            packets.rotate_right(copies / 3);
            let mut tags = vec![Tag::default(); packets.len()];
            many.compute(&packets, &mut tags);
            let wanted = packets
                .iter()
                .zip(&tags)
                .filter(|((n, d), _)| (*n, *d) == (number, data));
            let mut found = 0;
            for (_, got) in wanted {
                assert_eq!(**got, hex(tag), "{hash:?} {features:?} {copies}");
                found += 1;
            }
            assert_eq!(found, copies);
        }
    }
}

#[test]
fn rfc_4231_and_rfc_2202_come_out_of_every_kernel() {
    let (sha1, sha256, sha512) = (
        HashAlgorithm::Sha1,
        HashAlgorithm::Sha256,
        HashAlgorithm::Sha512,
    );
    let counted: Vec<u8> = (1..=25).collect();
    type Tags<'a> = [(HashAlgorithm, &'a str); 2];
    let cases: [(&[u8], &[u8], Tags<'_>); 5] = [
        (
            &[0x0b; 20],
            b"Hi There",
            [
                (
                    sha256,
                    "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
                ),
                (
                    sha512,
                    "87aa7cdea5ef619d4ff0b4241a1d6cb02379f4e2ce4ec2787ad0b30545e17cde\
                     daa833b7d6b8a702038b274eaea3f4e4be9d914eeb61f1702e696c203a126854",
                ),
            ],
        ),
        (
            b"Jefe",
            b"what do ya want for nothing?",
            [
                (
                    sha256,
                    "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
                ),
                (
                    sha512,
                    "164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea250554\
                     9758bf75c05a994a6d034f65f8f0e6fdcaeab1a34d4a6b4b636e070a38bce737",
                ),
            ],
        ),
        (
            &[0xaa; 20],
            &[0xdd; 50],
            [
                (
                    sha256,
                    "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe",
                ),
                (
                    sha512,
                    "fa73b0089d56a284efb0f0756c890be9b1b5dbdd8ee81a3655f83e33b2279d39\
                     bf3e848279a722c806b485a47e67c807b946a337bee8942674278859e13292fb",
                ),
            ],
        ),
        (
            &counted,
            &[0xcd; 50],
            [
                (
                    sha256,
                    "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b",
                ),
                (
                    sha512,
                    "b0ba465637458c6990e5a8c5f61d4af7e576d97ff94b872de76f8050361ee3db\
                     a91ca5c11aa25eb4d679275cc5788063a5f19741120c4f2de2adebeb10a298dd",
                ),
            ],
        ),
        (
            &[0xaa; 131],
            b"This is a test using a larger than block-size key and a larger than \
              block-size data. The key needs to be hashed before being used by the HMAC algorithm.",
            [
                (
                    sha256,
                    "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2",
                ),
                (
                    sha512,
                    "e37b6a775dc87dbaa4dfa9f96e5e3ffddebd71f8867289865df5a32d20cdc944\
                     b6022cac3c4982b10d5eeb55c3e4de15134676fb6de0446065c97440fa8c6a58",
                ),
            ],
        ),
    ];
    for (key, message, tags) in cases {
        for (hash, tag) in tags {
            check(hash, key, message, tag);
        }
    }
    let cases: [(&[u8], &[u8], &str); 5] = [
        (
            &[0x0b; 20],
            b"Hi There",
            "b617318655057264e28bc0b6fb378c8ef146be00",
        ),
        (
            b"Jefe",
            b"what do ya want for nothing?",
            "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79",
        ),
        (
            &[0xaa; 20],
            &[0xdd; 50],
            "125d7342b9ac11cd91a39af48aa17b4f63f175d3",
        ),
        (
            &counted,
            &[0xcd; 50],
            "4c9007f4026250c6bc8414f9bf50c86c2d7235da",
        ),
        (
            &[0xaa; 80],
            b"Test Using Larger Than Block-Size Key and Larger Than One Block-Size Data",
            "e8e99d0f45237d786d6bbaa7965c7808bbff1a91",
        ),
    ];
    for (key, message, tag) in cases {
        check(sha1, key, message, tag);
    }
}

/// Keys of every MAC on every level.
fn keys(noise: &mut Noise) -> Vec<MacKey> {
    let mut keys = Vec::new();
    for features in sets_for_hashes() {
        for spec in MACS {
            let key = noise.bytes(spec.key_len);
            keys.push(MacKey::with_features(spec.algorithm, &key, &features).expect("length fits"));
        }
    }
    keys
}

fn agrees_with_one_at_a_time(key: &MacKey, data: &[Vec<u8>], noise: &mut Noise) {
    let first = u32::MAX - 3;
    let packets: Vec<_> = (0..)
        .zip(data)
        .map(|(i, data)| (first.wrapping_add(i), &**data))
        .collect();
    let mut tags = vec![Tag::default(); packets.len()];
    key.compute_many(&packets, &mut tags);
    for ((number, data), tag) in packets.iter().zip(&tags) {
        let alone = key.compute(*number, data);
        assert_eq!(
            **tag,
            *alone,
            "{key:?} {}: {} bytes",
            key.kernel(),
            data.len()
        );
    }
    let mut tags: Vec<_> = tags.iter().map(|tag| tag.to_vec()).collect();
    assert_eq!(key.verify_many(&packets, &borrowed(&tags)), packets.len());
    // The first wrong tag ends the count, whatever follows it.
    let mut first_wrong = packets.len();
    for _ in 0..3 {
        let Some(wrong) = packets
            .len()
            .checked_sub(1)
            .map(|last| noise.below(last + 1))
        else {
            return;
        };
        let byte = noise.below(tags[wrong].len());
        tags[wrong][byte] ^= 1 << noise.below(8);
        first_wrong = first_wrong.min(wrong);
        // Flipping the same bit twice would restore the tag.
        if key
            .verify(packets[wrong].0, packets[wrong].1, &tags[wrong])
            .is_ok()
        {
            return;
        }
        assert_eq!(key.verify_many(&packets, &borrowed(&tags)), first_wrong);
    }
    tags[0].pop();
    assert_eq!(key.verify_many(&packets, &borrowed(&tags)), 0);
}

fn borrowed(tags: &[Vec<u8>]) -> Vec<&[u8]> {
    tags.iter().map(Vec::as_slice).collect()
}

#[test]
fn many_packets_have_the_tags_of_each_alone() {
    let mut noise = Noise::new(2);
    for key in keys(&mut noise) {
        for count in (0..=17).chain([31, 32, 33, 64, 70]) {
            let equal: Vec<_> = (0..count).map(|_| noise.bytes(300)).collect();
            agrees_with_one_at_a_time(&key, &equal, &mut noise);
            let mixed: Vec<_> = (0..count)
                .map(|_| {
                    let bound = [2, 70, 300, 3000][noise.below(4)];
                    let len = noise.below(bound);
                    noise.bytes(len)
                })
                .collect();
            agrees_with_one_at_a_time(&key, &mixed, &mut noise);
        }
    }
}

#[test]
fn packets_of_every_short_length_have_their_tags_side_by_side() {
    let mut noise = Noise::new(3);
    let data: Vec<_> = (0..=300).map(|len| noise.bytes(len)).collect();
    for key in keys(&mut noise) {
        agrees_with_one_at_a_time(&key, &data, &mut noise);
    }
}

#[test]
fn the_best_level_of_this_cpu_is_the_default() {
    let noise = Noise::new(4).bytes(64);
    for spec in MACS {
        let key = &noise[..spec.key_len];
        let default = MacKey::new(spec.algorithm, key).expect("length fits");
        let best = MacKey::with_features(spec.algorithm, key, detect()).expect("length fits");
        assert_eq!(default.kernel(), best.kernel());
        assert_eq!(default.gains_by_many(), best.gains_by_many());
        let portable = MacKey::with_features(spec.algorithm, key, &CpuFeatures::default());
        assert!(!portable.expect("length fits").gains_by_many());
    }
    let umac = MacKey::new(MacAlgorithm::Umac64, &noise[..16]).expect("length fits");
    assert!(!umac.gains_by_many());
}
