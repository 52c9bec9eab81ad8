//! NH on NEON: a chunk of 32 bytes per step, with the words of the key in their original order.
//!
//! NH's partners w_j and w_{j+4} are the two vectors of a chunk, lane by lane. The streams' keys
//! begin one vector apart: each stream uses the upper vector of its neighbour as its lower one.

use core::arch::aarch64::*;

use crate::arch::HaveNeon;
use crate::arch::nh::CHUNK_LEN;

/// The words of a vector.
const WORDS: usize = 4;

/// Adds NH of `chunks`, at most a block of them, under the `key` of 2 or 4
/// `streams` to `out`.
#[inline]
pub(crate) fn hash(
    token: HaveNeon,
    key: &[u32],
    streams: usize,
    chunks: &[[u8; CHUNK_LEN]],
    out: &mut [u64; 4],
) {
    let HaveNeon(()) = token;
    // SAFETY: the token proves NEON.
    unsafe {
        if streams == 2 {
            kernel::<2>(key, chunks, out);
        } else {
            kernel::<4>(key, chunks, out);
        }
    }
}

#[target_feature(enable = "neon")]
fn kernel<const STREAMS: usize>(key: &[u32], chunks: &[[u8; CHUNK_LEN]], out: &mut [u64; 4]) {
    let (key, _) = key.as_chunks::<WORDS>();
    let mut even = [vdupq_n_u64(0); STREAMS];
    let mut odd = [vdupq_n_u64(0); STREAMS];
    let keys = key.windows(STREAMS + 1).step_by(2);
    for (chunk, key) in chunks.iter().zip(keys) {
        let pointer = chunk.as_ptr();
        // SAFETY: a chunk is two vectors; loads need no alignment.
        let (low, high) = unsafe {
            (
                vreinterpretq_u32_u8(vld1q_u8(pointer)),
                vreinterpretq_u32_u8(vld1q_u8(pointer.add(16))),
            )
        };
        for stream in 0..STREAMS {
            let low = vaddq_u32(low, load(&key[stream]));
            let high = vaddq_u32(high, load(&key[stream + 1]));
            even[stream] = vmlal_u32(even[stream], vget_low_u32(low), vget_low_u32(high));
            odd[stream] = vmlal_high_u32(odd[stream], low, high);
        }
    }
    for (out, (even, odd)) in out.iter_mut().zip(even.into_iter().zip(odd)) {
        *out = out.wrapping_add(vaddvq_u64(vaddq_u64(even, odd)));
    }
}

#[inline]
#[target_feature(enable = "neon")]
fn load(words: &[u32; WORDS]) -> uint32x4_t {
    // SAFETY: four words are 16 bytes; the load needs no more alignment than theirs.
    unsafe { vld1q_u32(words.as_ptr()) }
}
