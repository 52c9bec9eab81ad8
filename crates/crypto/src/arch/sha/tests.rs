//! Published vectors on every kernel, and each kernel compared with aws-lc's.

use super::*;
use crate::arch::sets_for_hashes;
use crate::hash::HashAlgorithm;
use crate::test_support::{Noise, hex};

/// A hash whose kernels are under test.
trait Function<W, const BLOCK: usize> {
    const ALGORITHM: HashAlgorithm;
    fn start() -> HashState<W>;
    fn tiers(features: &CpuFeatures) -> Tiers<W, BLOCK>;
    fn bytes(state: &HashState<W>) -> Vec<u8>;
}

macro_rules! function {
    ($name:ident, $word:ty, $block:literal, $algorithm:ident, $tiers:ident, $start:ident) => {
        struct $name;

        impl Function<$word, $block> for $name {
            const ALGORITHM: HashAlgorithm = HashAlgorithm::$algorithm;

            fn start() -> HashState<$word> {
                digest::$start()
            }

            fn tiers(features: &CpuFeatures) -> Tiers<$word, $block> {
                Tiers::$tiers(features)
            }

            fn bytes(state: &HashState<$word>) -> Vec<u8> {
                let words = &state[..Self::ALGORITHM.digest_len() / size_of::<$word>()];
                words.iter().flat_map(|word| word.to_be_bytes()).collect()
            }
        }
    };
}

function!(Sha1, u32, 64, Sha1, sha1, sha1_start);
function!(Sha256, u32, 64, Sha256, sha256, sha256_start);
function!(Sha512, u64, 128, Sha512, sha512, sha512_start);

/// FIPS 180-4 §5.1.
fn padded<const BLOCK: usize>(message: &[u8]) -> Vec<[u8; BLOCK]> {
    let mut bytes = message.to_vec();
    bytes.push(0x80);
    while bytes.len() % BLOCK != BLOCK - BLOCK / 8 {
        bytes.push(0);
    }
    bytes.resize(bytes.len() + BLOCK / 8 - 8, 0);
    bytes.extend((8 * message.len() as u64).to_be_bytes());
    let (blocks, rest) = bytes.as_chunks();
    assert!(rest.is_empty());
    blocks.to_vec()
}

/// The digests of all of `inputs` at once, split into parts at arbitrary positions.
fn digests<F: Function<W, BLOCK>, W: Copy + Default, const BLOCK: usize>(
    features: &CpuFeatures,
    inputs: &[&[u8]],
    noise: &mut Noise,
) -> Vec<Vec<u8>> {
    let inputs: Vec<_> = inputs.iter().map(|input| padded::<BLOCK>(input)).collect();
    let mut messages: Vec<_> = inputs
        .iter()
        .map(|blocks| {
            let (first, rest) = blocks.split_at(noise.below(blocks.len() + 1));
            let (second, third) = rest.split_at(noise.below(rest.len() + 1));
            HashMessage {
                state: F::start(),
                parts: [first, second, third],
            }
        })
        .collect();
    F::tiers(features).compress(&mut messages);
    assert!(messages.iter().all(HashMessage::is_done));
    messages
        .iter()
        .map(|message| F::bytes(&message.state))
        .collect()
}

fn known<F: Function<W, BLOCK>, W: Copy + Default, const BLOCK: usize>(vectors: [&str; 4]) {
    let million = vec![b'a'; 1_000_000];
    let inputs: [&[u8]; 4] = [
        b"abc",
        b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
        b"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmn\
          hijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu",
        &million,
    ];
    let mut noise = Noise::new(1);
    for features in sets_for_hashes() {
        for (input, vector) in inputs.iter().zip(&vectors) {
            for copies in [1, 2, 3, 10, 17] {
                for got in digests::<F, W, BLOCK>(&features, &vec![*input; copies], &mut noise) {
                    assert_eq!(got, hex(vector), "{features:?}, {copies} copies");
                }
                if input.len() > 1000 && copies > 2 {
                    break;
                }
            }
        }
        let all = digests::<F, W, BLOCK>(&features, &inputs.repeat(5), &mut noise);
        for (got, vector) in all.iter().zip(vectors.iter().cycle()) {
            assert_eq!(got, &hex(vector), "{features:?}");
        }
    }
}

// The messages of FIPS 180-4's examples and of the NESSIE test vectors.

#[test]
fn sha1_gives_the_published_digests() {
    known::<Sha1, _, 64>([
        "a9993e364706816aba3e25717850c26c9cd0d89d",
        "84983e441c3bd26ebaae4aa1f95129e5e54670f1",
        "a49b2446a02c645bf419f995b67091253a04a259",
        "34aa973cd4c4daa4f61eeb2bdbad27316534016f",
    ]);
}

#[test]
fn sha256_gives_the_published_digests() {
    known::<Sha256, _, 64>([
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1",
        "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1",
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0",
    ]);
}

#[test]
fn sha512_gives_the_published_digests() {
    known::<Sha512, _, 128>([
        "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a\
         2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
        "204a8fc6dda82f0a0ced7beb8e08a41657c16ef468b228a8279be331a703c335\
         96fd15c13b1b07f9aa1d3bea57789ca031ad85c7a71dd70354ec631238ca3445",
        "8e959b75dae313da8cf4f72814fc143f8f7779c6eb9f7fa17299aeadb6889018\
         501d289e4900f7e4331b99dec4b5433ac7d329eeb6dd26545e96e55b874be909",
        "e718483d0ce769644e2e42c7bc15b4638e1f98b13b2044285632a803afa973eb\
         de0ff244877ea60a4cb0432ce577c31beb009c5c2c49aa2e4eadb217ad8cc09b",
    ]);
}

fn agrees<F: Function<W, BLOCK>, W: Copy + Default, const BLOCK: usize>() {
    let mut noise = Noise::new(2);
    let check = |lengths: &[usize], features: &CpuFeatures, noise: &mut Noise| {
        let inputs: Vec<_> = lengths.iter().map(|len| noise.bytes(*len)).collect();
        let slices: Vec<_> = inputs.iter().map(Vec::as_slice).collect();
        let got = digests::<F, W, BLOCK>(features, &slices, noise);
        for (got, input) in got.iter().zip(&inputs) {
            assert_eq!(
                got[..],
                F::ALGORITHM.digest(input)[..],
                "{features:?} {lengths:?}"
            );
        }
    };
    for features in sets_for_hashes() {
        for count in 0..=MAX_MESSAGES {
            check(&vec![500; count], &features, &mut noise);
            let lengths: Vec<_> = (0..count).map(|_| noise.below(2000)).collect();
            check(&lengths, &features, &mut noise);
            // One long and many short, and one short among long.
            let mut lengths = vec![40; count];
            lengths.iter_mut().take(1).for_each(|len| *len = 5000);
            check(&lengths, &features, &mut noise);
            let mut lengths = vec![5000; count];
            lengths.iter_mut().take(1).for_each(|len| *len = 40);
            check(&lengths, &features, &mut noise);
        }
        let lengths: Vec<_> = (0..=300).collect();
        for lengths in lengths.chunks(MAX_MESSAGES) {
            check(lengths, &features, &mut noise);
        }
    }
}

#[test]
fn every_tier_agrees_with_single_hashes_on_any_lengths() {
    agrees::<Sha1, _, 64>();
    agrees::<Sha256, _, 64>();
    agrees::<Sha512, _, 128>();
}

/// Each kernel in all its lanes, starting from states within messages.
fn kernel_agrees<W, const BLOCK: usize, const LANES: usize>(
    one: HashKernel<W, BLOCK, 1>,
    tier: Option<HashTier<W, BLOCK, LANES>>,
    word: fn(u64) -> W,
) where
    W: Copy + Default + PartialEq + core::fmt::Debug,
{
    let Some(HashTier { kernel, .. }) = tier else {
        return;
    };
    let mut noise = Noise::new(3);
    for count in [0, 1, 2, 5] {
        let mut states = States([[W::default(); LANES]; 8]);
        let mut expected = [[W::default(); 8]; LANES];
        for (lane, state) in expected.iter_mut().enumerate() {
            *state = core::array::from_fn(|_| word(noise.next_u64()));
            states.set_lane(lane, state);
        }
        let inputs: Vec<Vec<[u8; BLOCK]>> = (0..LANES)
            .map(|_| (0..count).map(|_| noise.array()).collect())
            .collect();
        (kernel.compress)(&mut states, core::array::from_fn(|lane| &inputs[lane][..]));
        // SHA-1's kernels do not change the state words that SHA-1 does not use.
        for (lane, (state, input)) in expected.iter_mut().zip(&inputs).enumerate() {
            one_lane_of(&one, state, input);
            assert_eq!(states.lane(lane), *state, "{} lane {lane}", kernel.name);
        }
    }
}

fn one_lane_of<W: Copy + Default, const BLOCK: usize>(
    one: &HashKernel<W, BLOCK, 1>,
    state: &mut HashState<W>,
    blocks: &[[u8; BLOCK]],
) {
    let mut states = States([[W::default(); 1]; 8]);
    states.set_lane(0, state);
    (one.compress)(&mut states, [blocks]);
    *state = states.lane(0);
}

#[test]
fn every_lane_of_every_kernel_agrees_with_the_single_one() {
    #[allow(clippy::cast_possible_truncation)] // Half of the noise will do.
    let half = |word: u64| word as u32;
    for features in sets_for_hashes() {
        for tiers in [Tiers::sha1(&features), Tiers::sha256(&features)] {
            kernel_agrees(tiers.one, tiers.two, half);
            kernel_agrees(tiers.one, tiers.four, half);
            kernel_agrees(tiers.one, tiers.eight, half);
            kernel_agrees(tiers.one, tiers.sixteen, half);
        }
        let tiers = Tiers::sha512(&features);
        kernel_agrees(tiers.one, tiers.two, |word| word);
        kernel_agrees(tiers.one, tiers.four, |word| word);
        kernel_agrees(tiers.one, tiers.eight, |word| word);
        kernel_agrees(tiers.one, tiers.sixteen, |word| word);
    }
}

#[test]
fn a_portable_level_has_no_kernel_for_many() {
    let none = CpuFeatures::default();
    assert_eq!(Tiers::sha1(&none).min_messages(), None);
    assert_eq!(Tiers::sha256(&none).min_messages(), None);
    assert_eq!(Tiers::sha512(&none).min_messages(), None);
    assert_eq!(Tiers::sha512(&none).name(), "aws-lc");
}
