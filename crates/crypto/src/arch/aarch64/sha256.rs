//! SHA-256 of two messages on the SHA-2 instructions: each instruction waits for the previous one,
//! and the second message's instructions fill the gaps.

use core::arch::aarch64::*;

use crate::arch::HaveSha2;
use crate::arch::sha::constants::K_256;
use crate::arch::sha::{HashKernel, Lanes, States};

pub(crate) fn kernel(token: HaveSha2) -> HashKernel<u32, 64, 2> {
    let HaveSha2(()) = token;
    HashKernel {
        name: "armv8-sha2 x2",
        // SAFETY: only this function, which has the token, gives the closure away.
        compress: |states, lanes| unsafe { sha256(states, lanes) },
    }
}

#[target_feature(enable = "neon,sha2")]
fn sha256(states: &mut States<u32, 2>, [first, second]: Lanes<'_, 64, 2>) {
    let States(words) = states;
    let mut abcd = [0, 1].map(|lane| load_words(&[0, 1, 2, 3].map(|i: usize| words[i][lane])));
    let mut efgh = [0, 1].map(|lane| load_words(&[4, 5, 6, 7].map(|i: usize| words[i][lane])));
    let [scheduled @ .., last] = &K_256;
    for blocks in first.iter().zip(second) {
        let (abcd_before, efgh_before) = (abcd, efgh);
        let mut w = [load_block(blocks.0), load_block(blocks.1)];
        for k in scheduled {
            for (i, k) in k.as_chunks().0.iter().enumerate() {
                for lane in 0..2 {
                    let w = &mut w[lane];
                    let sums = vaddq_u32(w[i], load_words(k));
                    let [next, later, latest] = [w[(i + 1) % 4], w[(i + 2) % 4], w[(i + 3) % 4]];
                    w[i] = vsha256su1q_u32(vsha256su0q_u32(w[i], next), later, latest);
                    four_rounds(&mut abcd[lane], &mut efgh[lane], sums);
                }
            }
        }
        for (i, k) in last.as_chunks().0.iter().enumerate() {
            for lane in 0..2 {
                let sums = vaddq_u32(w[lane][i], load_words(k));
                four_rounds(&mut abcd[lane], &mut efgh[lane], sums);
            }
        }
        for lane in 0..2 {
            abcd[lane] = vaddq_u32(abcd[lane], abcd_before[lane]);
            efgh[lane] = vaddq_u32(efgh[lane], efgh_before[lane]);
        }
    }
    for lane in 0..2 {
        let mut out = [0; 8];
        // SAFETY: two vectors are eight words.
        unsafe {
            vst1q_u32(out.as_mut_ptr(), abcd[lane]);
            vst1q_u32(out.as_mut_ptr().add(4), efgh[lane]);
        }
        for (words, word) in words.iter_mut().zip(out) {
            words[lane] = word;
        }
    }
}

/// Four rounds with the sums of words and constants.
#[inline]
#[target_feature(enable = "neon,sha2")]
fn four_rounds(abcd: &mut uint32x4_t, efgh: &mut uint32x4_t, sums: uint32x4_t) {
    let before = *abcd;
    *abcd = vsha256hq_u32(*abcd, *efgh, sums);
    *efgh = vsha256h2q_u32(*efgh, before, sums);
}

#[inline]
#[target_feature(enable = "neon")]
fn load_words(words: &[u32; 4]) -> uint32x4_t {
    // SAFETY: four words are a vector; the load needs no more alignment than theirs.
    unsafe { vld1q_u32(words.as_ptr()) }
}

/// The block's big-endian words.
#[inline]
#[target_feature(enable = "neon")]
fn load_block(block: &[u8; 64]) -> [uint32x4_t; 4] {
    let mut words = [vdupq_n_u32(0); 4];
    for (words, bytes) in words.iter_mut().zip(block.as_chunks::<16>().0) {
        // SAFETY: 16 bytes; the load needs no alignment.
        *words = vreinterpretq_u32_u8(vrev32q_u8(unsafe { vld1q_u8(bytes.as_ptr()) }));
    }
    words
}
