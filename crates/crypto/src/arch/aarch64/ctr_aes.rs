//! AES-CTR on the AES instructions: eight blocks in flight.
//!
//! A round is AESE, which first adds the round key, and AESMC; cores fuse the two. The last round
//! key is added after the last AESE.

use core::arch::aarch64::*;

use zeroize::Zeroize;

use crate::arch::HaveAes;
use crate::arch::aes::{MAX_ROUND_KEYS, Schedule, ctr_key, xor_front};

const BLOCK_LEN: usize = 16;

ctr_key! { ArmCtrKey, HaveAes, |token, key| Schedule::expand(key, |word| substitute(token, word)) }

/// SubWord of FIPS 197 §5.2, without a table.
fn substitute(token: HaveAes, word: u32) -> u32 {
    #[target_feature(enable = "neon,aes")]
    fn with_aes(word: u32) -> u32 {
        // All four columns are equal, so ShiftRows has no effect.
        let columns = vreinterpretq_u8_u32(vdupq_n_u32(word));
        vgetq_lane_u32::<0>(vreinterpretq_u32_u8(vaeseq_u8(columns, vdupq_n_u8(0))))
    }
    let HaveAes(()) = token;
    // SAFETY: the token proves NEON and AES.
    unsafe { with_aes(word) }
}

/// `data` must end before the low 64 bits of `counter` wrap.
#[target_feature(enable = "neon,aes")]
fn kernel<const ROUNDS: usize>(schedule: &Schedule, counter: u128, data: &mut [u8]) {
    let keys = load_keys(schedule);
    // The first half of a block is the counter's upper half.
    let halves = counter.rotate_left(64).to_le_bytes();
    // SAFETY: 16 bytes; the load needs no alignment.
    let mut counter = unsafe { vreinterpretq_u64_u8(vld1q_u8(halves.as_ptr())) };
    let (wide, rest) = data.as_chunks_mut::<{ 8 * BLOCK_LEN }>();
    for chunk in wide {
        step::<ROUNDS, 8>(&keys, &mut counter, chunk.as_chunks_mut().0);
    }
    if rest.len() > 2 * BLOCK_LEN {
        let mut stream = [0; 8 * BLOCK_LEN];
        step::<ROUNDS, 8>(&keys, &mut counter, stream.as_chunks_mut().0);
        xor_front(rest, &stream);
        stream.zeroize();
    } else if !rest.is_empty() {
        let mut stream = [0; 2 * BLOCK_LEN];
        step::<ROUNDS, 2>(&keys, &mut counter, stream.as_chunks_mut().0);
        xor_front(rest, &stream);
        stream.zeroize();
    }
}

/// `WIDTH` whole blocks.
#[inline]
#[target_feature(enable = "neon,aes")]
fn step<const ROUNDS: usize, const WIDTH: usize>(
    keys: &[uint8x16_t; MAX_ROUND_KEYS],
    counter: &mut uint64x2_t,
    data: &mut [[u8; BLOCK_LEN]],
) {
    debug_assert_eq!(data.len(), WIDTH);
    let one = vcombine_u64(vdup_n_u64(0), vdup_n_u64(1));
    let mut states = [vdupq_n_u8(0); WIDTH];
    for state in &mut states {
        // Each half of a block is big-endian.
        *state = vrev64q_u8(vreinterpretq_u8_u64(*counter));
        *counter = vaddq_u64(*counter, one);
    }
    for key in &keys[..ROUNDS - 1] {
        for state in &mut states {
            *state = vaesmcq_u8(vaeseq_u8(*state, *key));
        }
    }
    for (state, data) in states.into_iter().zip(data) {
        let pointer = data.as_mut_ptr();
        // SAFETY: a block's 16 bytes; load and store need no alignment.
        unsafe {
            let last = veorq_u8(keys[ROUNDS], vld1q_u8(pointer));
            vst1q_u8(pointer, veorq_u8(vaeseq_u8(state, keys[ROUNDS - 1]), last));
        }
    }
}

#[inline]
#[target_feature(enable = "neon")]
fn load_keys(schedule: &Schedule) -> [uint8x16_t; MAX_ROUND_KEYS] {
    let mut keys = [vdupq_n_u8(0); MAX_ROUND_KEYS];
    for (key, bytes) in keys.iter_mut().zip(&schedule.keys) {
        // SAFETY: a round key is 16 bytes.
        *key = unsafe { vld1q_u8(bytes.as_ptr()) };
    }
    keys
}
