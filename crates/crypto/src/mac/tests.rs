//! Published vectors of HMAC, and properties of every MAC key.

use super::*;
use crate::test_support::{Noise, hex};

#[test]
fn rows_stand_in_the_order_of_the_variants_and_names_are_unique() {
    for (i, spec) in MACS.iter().enumerate() {
        assert_eq!(spec.algorithm as usize, i);
        assert_eq!(MacAlgorithm::from_name(spec.name), Some(spec.algorithm));
        assert_eq!(spec.etm, spec.name.ends_with("-etm@openssh.com"));
        assert!(spec.tag_len <= MAX_TAG_LEN);
    }
    assert_eq!(MacAlgorithm::from_name("hmac-ripemd160"), None);
}

#[test]
fn hmac_matches_rfc_4231_and_2202() {
    let sha256 = HashAlgorithm::Sha256;
    let sha512 = HashAlgorithm::Sha512;
    let sha1 = HashAlgorithm::Sha1;
    let md5 = HashAlgorithm::Md5;
    let cases: [(HashAlgorithm, Vec<u8>, Vec<u8>, &str); 10] = [
        (
            sha256,
            vec![0x0b; 20],
            b"Hi There".to_vec(),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
        ),
        (
            sha512,
            vec![0x0b; 20],
            b"Hi There".to_vec(),
            "87aa7cdea5ef619d4ff0b4241a1d6cb02379f4e2ce4ec2787ad0b30545e17cde\
             daa833b7d6b8a702038b274eaea3f4e4be9d914eeb61f1702e696c203a126854",
        ),
        (
            sha256,
            b"Jefe".to_vec(),
            b"what do ya want for nothing?".to_vec(),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
        ),
        (
            sha256,
            vec![0xaa; 131],
            b"Test Using Larger Than Block-Size Key - Hash Key First".to_vec(),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
        ),
        (
            sha512,
            vec![0xaa; 131],
            b"Test Using Larger Than Block-Size Key - Hash Key First".to_vec(),
            "80b24263c7c1a3ebb71493c1dd7be8b49b46d1f41b4aeec1121b013783f8f352\
             6b56d037e05f2598bd0fd2215d6a1e5295e64f73f63f0aec8b915a985d786598",
        ),
        (
            sha1,
            vec![0x0b; 20],
            b"Hi There".to_vec(),
            "b617318655057264e28bc0b6fb378c8ef146be00",
        ),
        (
            sha1,
            b"Jefe".to_vec(),
            b"what do ya want for nothing?".to_vec(),
            "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79",
        ),
        (
            sha1,
            vec![0xaa; 80],
            b"Test Using Larger Than Block-Size Key - Hash Key First".to_vec(),
            "aa4ae5e15272d00e95705637ce8a3b55ed402112",
        ),
        (
            md5,
            vec![0x0b; 16],
            b"Hi There".to_vec(),
            "9294727a3638bb1c13f48ef8158bfc9d",
        ),
        (
            md5,
            b"Jefe".to_vec(),
            b"what do ya want for nothing?".to_vec(),
            "750c783e6ab0b503eaa86e310a5db738",
        ),
    ];
    for (algorithm, key, message, tag) in cases {
        let hmac = Hmac::new(algorithm, &key);
        assert_eq!(hmac.compute(&[&message]).as_ref(), hex(tag));
        let (first, second) = message.split_at(5);
        assert_eq!(hmac.compute(&[first, b"", second]).as_ref(), hex(tag));
    }
}

#[test]
fn hmac_covers_the_sequence_number_before_the_data() {
    let key = MacKey::new(MacAlgorithm::HmacSha256, &[1; 32]).expect("length fits");
    let hmac = Hmac::new(HashAlgorithm::Sha256, &[1; 32]);
    let expected = hmac.compute(&[&[0x01, 0x02, 0x03, 0x04], b"packet"]);
    assert_eq!(
        key.compute(0x0102_0304, b"packet").as_ref(),
        expected.as_ref()
    );
}

#[test]
fn every_mac_verifies_its_own_tag_and_nothing_else() {
    let mut noise = Noise::new(2);
    for spec in MACS {
        let key = MacKey::new(spec.algorithm, &noise.bytes(spec.key_len)).expect("length fits");
        for len in [0, 1, 31, 32, 33, 1023, 1024, 1025, 4096] {
            let data = noise.bytes(len);
            let tag = key.compute(9, &data);
            assert_eq!(tag.len(), spec.tag_len);
            assert_eq!(key.verify(9, &data, &tag), Ok(()));
            assert!(key.verify(10, &data, &tag).is_err());
            assert!(key.verify(8, &data, &tag).is_err());
            assert!(key.verify(9, &data, &tag[1..]).is_err());
            assert!(key.verify(9, &data, &[]).is_err());
            let longer = [&tag[..], &[0]].concat();
            assert!(key.verify(9, &data, &longer).is_err());
            for byte in 0..tag.len() {
                let mut bad = tag.to_vec();
                bad[byte] ^= 1;
                assert!(key.verify(9, &data, &bad).is_err());
            }
            if len > 0 {
                let mut bad = data.clone();
                bad[noise.below(len)] ^= 0x10;
                assert!(key.verify(9, &bad, &tag).is_err());
            }
        }
    }
}

#[test]
fn parts_are_their_concatenation() {
    let mut noise = Noise::new(3);
    for spec in MACS {
        let key = MacKey::new(spec.algorithm, &noise.bytes(spec.key_len)).expect("length fits");
        for len in [0, 4, 40, 1024, 1028, 2048, 5000] {
            let data = noise.bytes(len);
            let whole = key.compute(1, &data);
            let (a, b) = data.split_at(noise.below(len + 1));
            let (b, c) = b.split_at(noise.below(b.len() + 1));
            for parts in [
                &[a, b, c][..],
                &[a, b"", b, c],
                &[&data, b""],
                &[b"", &data],
            ] {
                assert_eq!(*key.compute_parts(1, parts), *whole, "{} {len}", spec.name);
                assert_eq!(key.verify_parts(1, parts, &whole), Ok(()));
            }
        }
        assert_eq!(*key.compute_parts(1, &[]), *key.compute(1, b""));
    }
}

#[test]
fn keys_of_other_lengths_are_refused() {
    for spec in MACS {
        for len in [0, spec.key_len - 1, spec.key_len + 1] {
            assert!(MacKey::new(spec.algorithm, &vec![0; len]).is_err());
        }
    }
}

#[test]
fn keys_are_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<MacKey>();
}

/// A MAC of 96 bits is the first 12 bytes of the whole one with the same key.
#[test]
fn truncated_macs_are_the_start_of_whole_ones() {
    for (short, whole) in [
        (MacAlgorithm::HmacSha1Truncated, MacAlgorithm::HmacSha1),
        (MacAlgorithm::HmacMd5Truncated, MacAlgorithm::HmacMd5),
    ] {
        let key = vec![7; short.key_len()];
        let tag = |algorithm| MacKey::new(algorithm, &key).unwrap().compute(3, b"data");
        let (short, whole) = (tag(short), tag(whole));
        assert_eq!(short.len(), 12);
        assert_eq!(short[..], whole[..12]);
    }
}
