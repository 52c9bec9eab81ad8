//! SHA-512 of two messages on the SHA-512 instructions: each instruction waits for the previous
//! one, and the second message's instructions fill the gaps.

use core::arch::aarch64::*;

use crate::arch::HaveSha512;
use crate::arch::sha::constants::K_512;
use crate::arch::sha::{HashKernel, Lanes, States};

pub(crate) fn kernel(token: HaveSha512) -> HashKernel<u64, 128, 2> {
    let HaveSha512(()) = token;
    HashKernel {
        name: "armv8-sha512 x2",
        // SAFETY: only this function, which has the token, gives the closure away.
        compress: |states, lanes| unsafe { sha512(states, lanes) },
    }
}

/// The state: words A and B, C and D, E and F, G and H.
type Pairs = [uint64x2_t; 4];

#[target_feature(enable = "neon,sha3")]
fn sha512(states: &mut States<u64, 2>, [first, second]: Lanes<'_, 128, 2>) {
    let States(words) = states;
    let pairs = [[0, 1], [2, 3], [4, 5], [6, 7]];
    let mut state = [0, 1]
        .map(|lane: usize| pairs.map(|pair| load_words(&pair.map(|i: usize| words[i][lane]))));
    let [scheduled @ .., last] = &K_512;
    for blocks in first.iter().zip(second) {
        let before = state;
        let mut w = [load_block(blocks.0), load_block(blocks.1)];
        for k in scheduled {
            for (i, k) in k.as_chunks().0.iter().enumerate() {
                for lane in 0..2 {
                    let w = &mut w[lane];
                    let sums = vaddq_u64(w[i], load_words(k));
                    let ninth = vextq_u64::<1>(w[(i + 4) % 8], w[(i + 5) % 8]);
                    let sum = vsha512su0q_u64(w[i], w[(i + 1) % 8]);
                    w[i] = vsha512su1q_u64(sum, w[(i + 7) % 8], ninth);
                    two_rounds(&mut state[lane], sums);
                }
            }
        }
        for (i, k) in last.as_chunks().0.iter().enumerate() {
            for lane in 0..2 {
                let sums = vaddq_u64(w[lane][i], load_words(k));
                two_rounds(&mut state[lane], sums);
            }
        }
        for (state, before) in state
            .as_flattened_mut()
            .iter_mut()
            .zip(before.as_flattened())
        {
            *state = vaddq_u64(*state, *before);
        }
    }
    for (lane, state) in state.iter().enumerate() {
        for (words, pair) in words.as_chunks_mut::<2>().0.iter_mut().zip(state) {
            words[0][lane] = vgetq_lane_u64::<0>(*pair);
            words[1][lane] = vgetq_lane_u64::<1>(*pair);
        }
    }
}

/// Two rounds with the sums of words and constants.
#[inline]
#[target_feature(enable = "neon,sha3")]
fn two_rounds(state: &mut Pairs, sums: uint64x2_t) {
    let [ab, cd, ef, gh] = *state;
    // The second of the words comes first in the rounds' order of adding.
    let sums = vaddq_u64(gh, vextq_u64::<1>(sums, sums));
    let (fg, de) = (vextq_u64::<1>(ef, gh), vextq_u64::<1>(cd, ef));
    let sums = vsha512hq_u64(sums, fg, de);
    *state = [vsha512h2q_u64(sums, cd, ab), ab, vaddq_u64(cd, sums), ef];
}

#[inline]
#[target_feature(enable = "neon")]
fn load_words(words: &[u64; 2]) -> uint64x2_t {
    // SAFETY: two words are a vector; the load needs no more alignment than theirs.
    unsafe { vld1q_u64(words.as_ptr()) }
}

/// The block's big-endian words.
#[inline]
#[target_feature(enable = "neon")]
fn load_block(block: &[u8; 128]) -> [uint64x2_t; 8] {
    let mut words = [vdupq_n_u64(0); 8];
    for (words, bytes) in words.iter_mut().zip(block.as_chunks::<16>().0) {
        // SAFETY: 16 bytes; the load needs no alignment.
        *words = vreinterpretq_u64_u8(vrev64q_u8(unsafe { vld1q_u8(bytes.as_ptr()) }));
    }
    words
}
