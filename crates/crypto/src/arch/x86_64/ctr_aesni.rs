//! AES-CTR on AES-NI: one block a vector, eight in flight.

use core::arch::x86_64::*;

use zeroize::Zeroize;

use super::aes::expand;
use crate::arch::HaveAesNi;
use crate::arch::aes::{Schedule, ctr_key, xor_front};

const BLOCK_LEN: usize = 16;

ctr_key! { AesNiCtrKey, HaveAesNi, expand }

/// `data` must end before the low 64 bits of `counter` wrap.
#[target_feature(enable = "aes,ssse3,sse4.1")]
fn kernel<const ROUNDS: usize>(schedule: &Schedule, counter: u128, data: &mut [u8]) {
    let bytes = counter.to_le_bytes();
    // SAFETY: 16 bytes; the load needs no alignment.
    let mut counter = unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) };
    let (wide, rest) = data.as_chunks_mut::<{ 8 * BLOCK_LEN }>();
    for chunk in wide {
        step::<ROUNDS, 8>(schedule, &mut counter, chunk.as_chunks_mut().0);
    }
    if rest.len() > 2 * BLOCK_LEN {
        let mut stream = [0; 8 * BLOCK_LEN];
        step::<ROUNDS, 8>(schedule, &mut counter, stream.as_chunks_mut().0);
        xor_front(rest, &stream);
        stream.zeroize();
    } else if !rest.is_empty() {
        let mut stream = [0; 2 * BLOCK_LEN];
        step::<ROUNDS, 2>(schedule, &mut counter, stream.as_chunks_mut().0);
        xor_front(rest, &stream);
        stream.zeroize();
    }
}

/// `WIDTH` whole blocks.
#[inline]
#[target_feature(enable = "aes,ssse3,sse4.1")]
fn step<const ROUNDS: usize, const WIDTH: usize>(
    schedule: &Schedule,
    counter: &mut __m128i,
    data: &mut [[u8; BLOCK_LEN]],
) {
    debug_assert_eq!(data.len(), WIDTH);
    let swap = _mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    let one = _mm_set_epi64x(0, 1);
    let mut states = [_mm_setzero_si128(); WIDTH];
    let key = load_key(schedule, 0);
    for state in &mut states {
        *state = _mm_xor_si128(_mm_shuffle_epi8(*counter, swap), key);
        *counter = _mm_add_epi64(*counter, one);
    }
    for round in 1..ROUNDS {
        let key = load_key(schedule, round);
        for state in &mut states {
            *state = _mm_aesenc_si128(*state, key);
        }
    }
    let key = load_key(schedule, ROUNDS);
    for (state, data) in states.into_iter().zip(data) {
        let pointer = data.as_mut_ptr().cast::<__m128i>();
        // SAFETY: a block's 16 bytes; load and store need no alignment.
        unsafe {
            let last = _mm_xor_si128(key, _mm_loadu_si128(pointer));
            _mm_storeu_si128(pointer, _mm_aesenclast_si128(state, last));
        }
    }
}

#[inline]
fn load_key(schedule: &Schedule, round: usize) -> __m128i {
    // SAFETY: a round key is 16 bytes, and aligned to them as the schedule's
    // first field.
    unsafe { _mm_loadu_si128(schedule.keys[round].as_ptr().cast()) }
}
