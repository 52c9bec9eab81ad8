//! AES-CTR on 512-bit VAES: four blocks a vector, eight vectors in flight.
//!
//! Counters are little-endian in the lanes and are byte-swapped for each block. The data is XORed
//! into the last round key before the last round, which saves an instruction per vector. Masked
//! loads and stores handle the tail.

use core::arch::x86_64::*;

use super::aes::expand;
use crate::arch::HaveVaesAvx512;
use crate::arch::aes::{MAX_ROUND_KEYS, Schedule, ctr_key};

const VECTOR_LEN: usize = 64;

ctr_key! { Vaes512CtrKey, HaveVaesAvx512, |token: HaveVaesAvx512, key| expand(token.aes_ni(), key) }

/// `data` must end before the low 64 bits of `counter` wrap.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,vaes,aes")]
fn kernel<const ROUNDS: usize>(schedule: &Schedule, counter: u128, data: &mut [u8]) {
    let mut keys = [_mm512_setzero_si512(); MAX_ROUND_KEYS];
    for (key, bytes) in keys.iter_mut().zip(&schedule.keys).take(ROUNDS + 1) {
        // SAFETY: a round key is 16 bytes; the load needs no alignment.
        *key = _mm512_broadcast_i32x4(unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) });
    }
    let bytes = counter.to_le_bytes();
    // SAFETY: 16 bytes; the load needs no alignment.
    let first = unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) };
    let mut counters = _mm512_add_epi64(
        _mm512_broadcast_i32x4(first),
        _mm512_set_epi64(0, 3, 0, 2, 0, 1, 0, 0),
    );
    let (wide, mut rest) = data.as_chunks_mut::<{ 8 * VECTOR_LEN }>();
    for chunk in wide {
        step::<ROUNDS, 8>(&keys, &mut counters, chunk);
    }
    if rest.len() >= 4 * VECTOR_LEN {
        let (chunk, tail) = rest.split_at_mut(4 * VECTOR_LEN);
        step::<ROUNDS, 4>(&keys, &mut counters, chunk);
        rest = tail;
    }
    if rest.len() > VECTOR_LEN {
        step::<ROUNDS, 4>(&keys, &mut counters, rest);
    } else if !rest.is_empty() {
        step::<ROUNDS, 1>(&keys, &mut counters, rest);
    }
}

/// Processes up to `WIDTH` vectors. The masks of whole vectors are all ones, which the compiler
/// sees where `data` is an array.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,vaes,aes")]
fn step<const ROUNDS: usize, const WIDTH: usize>(
    keys: &[__m512i; MAX_ROUND_KEYS],
    counters: &mut __m512i,
    data: &mut [u8],
) {
    let swap = _mm512_broadcast_i32x4(_mm_set_epi8(
        0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
    ));
    let four = _mm512_set_epi64(0, 4, 0, 4, 0, 4, 0, 4);
    let mut states = [_mm512_setzero_si512(); WIDTH];
    for state in &mut states {
        *state = _mm512_xor_si512(_mm512_shuffle_epi8(*counters, swap), keys[0]);
        *counters = _mm512_add_epi64(*counters, four);
    }
    for key in &keys[1..ROUNDS] {
        for state in &mut states {
            *state = _mm512_aesenc_epi128(*state, *key);
        }
    }
    let len = data.len();
    let start = data.as_mut_ptr().cast::<i8>();
    for (i, state) in states.into_iter().enumerate() {
        let mask = first_bytes(len.saturating_sub(i * VECTOR_LEN));
        let pointer = start.wrapping_add(i * VECTOR_LEN);
        // SAFETY: the mask selects only bytes inside `data`; a masked load or
        // store touches no other.
        unsafe {
            let data = _mm512_maskz_loadu_epi8(mask, pointer);
            let last = _mm512_xor_si512(keys[ROUNDS], data);
            _mm512_mask_storeu_epi8(pointer, mask, _mm512_aesenclast_epi128(state, last));
        }
    }
}

/// A mask of the first `len` bytes of a vector, or of all of them.
#[inline]
fn first_bytes(len: usize) -> u64 {
    if len >= VECTOR_LEN {
        u64::MAX
    } else {
        (1 << len) - 1
    }
}
