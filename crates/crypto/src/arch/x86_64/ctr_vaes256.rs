//! AES-CTR on 256-bit VAES: two blocks a vector, eight vectors in flight.
//!
//! Like the 512-bit kernel; the round keys are read from memory, already doubled, because sixteen
//! registers cannot hold them, and the tail goes through a buffer.

use core::arch::x86_64::*;

use zeroize::{Zeroize, ZeroizeOnDrop};

use super::aes::expand;
use crate::arch::HaveVaesAvx2;
use crate::arch::aes::{MAX_ROUND_KEYS, by_rounds, for_each_run, xor_front};
use crate::awslc::AwsLcFailed;

const VECTOR_LEN: usize = 32;

/// A key for this kernel.
pub(crate) struct Vaes256CtrKey {
    token: HaveVaesAvx2,
    keys: DoubleKeys,
    rounds: usize,
}

/// Each round key twice.
#[derive(Zeroize, ZeroizeOnDrop)]
#[repr(align(32))]
struct DoubleKeys([[u8; VECTOR_LEN]; MAX_ROUND_KEYS]);

impl Vaes256CtrKey {
    pub(crate) fn new(token: HaveVaesAvx2, key: &[u8]) -> Result<Self, AwsLcFailed> {
        let schedule = expand(token.aes_ni(), key)?;
        let mut keys = DoubleKeys([[0; VECTOR_LEN]; MAX_ROUND_KEYS]);
        for (double, single) in keys.0.iter_mut().zip(&schedule.keys) {
            double[..16].copy_from_slice(single);
            double[16..].copy_from_slice(single);
        }
        Ok(Self {
            token,
            keys,
            rounds: schedule.rounds,
        })
    }

    pub(crate) fn apply(&self, counter: u128, data: &mut [u8]) {
        let HaveVaesAvx2(()) = self.token;
        for_each_run(counter, data, |counter, data| {
            // SAFETY: the token proves every feature that the kernel enables.
            unsafe {
                by_rounds!(self.rounds, kernel(&self.keys, counter, data));
            }
        });
    }
}

/// `data` must end before the low 64 bits of `counter` wrap.
#[target_feature(enable = "avx2,vaes,aes")]
fn kernel<const ROUNDS: usize>(keys: &DoubleKeys, counter: u128, data: &mut [u8]) {
    let bytes = counter.to_le_bytes();
    // SAFETY: 16 bytes; the load needs no alignment.
    let first = unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) };
    let mut counters = _mm256_add_epi64(
        _mm256_broadcastsi128_si256(first),
        _mm256_set_epi64x(0, 1, 0, 0),
    );
    let (wide, rest) = data.as_chunks_mut::<{ 8 * VECTOR_LEN }>();
    for chunk in wide {
        step::<ROUNDS, 8>(keys, &mut counters, chunk.as_chunks_mut().0);
    }
    if rest.len() > 2 * VECTOR_LEN {
        let mut stream = [0; 8 * VECTOR_LEN];
        step::<ROUNDS, 8>(keys, &mut counters, stream.as_chunks_mut().0);
        xor_front(rest, &stream);
        stream.zeroize();
    } else if !rest.is_empty() {
        let mut stream = [0; 2 * VECTOR_LEN];
        step::<ROUNDS, 2>(keys, &mut counters, stream.as_chunks_mut().0);
        xor_front(rest, &stream);
        stream.zeroize();
    }
}

/// `WIDTH` whole vectors.
#[inline]
#[target_feature(enable = "avx2,vaes,aes")]
fn step<const ROUNDS: usize, const WIDTH: usize>(
    keys: &DoubleKeys,
    counters: &mut __m256i,
    data: &mut [[u8; VECTOR_LEN]],
) {
    debug_assert_eq!(data.len(), WIDTH);
    let swap = _mm256_broadcastsi128_si256(_mm_set_epi8(
        0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
    ));
    let two = _mm256_set_epi64x(0, 2, 0, 2);
    let mut states = [_mm256_setzero_si256(); WIDTH];
    let key = load_key(keys, 0);
    for state in &mut states {
        *state = _mm256_xor_si256(_mm256_shuffle_epi8(*counters, swap), key);
        *counters = _mm256_add_epi64(*counters, two);
    }
    for round in 1..ROUNDS {
        let key = load_key(keys, round);
        for state in &mut states {
            *state = _mm256_aesenc_epi128(*state, key);
        }
    }
    let key = load_key(keys, ROUNDS);
    for (state, data) in states.into_iter().zip(data) {
        let pointer = data.as_mut_ptr().cast::<__m256i>();
        // SAFETY: a vector's 32 bytes; load and store need no alignment.
        unsafe {
            let last = _mm256_xor_si256(key, _mm256_loadu_si256(pointer));
            _mm256_storeu_si256(pointer, _mm256_aesenclast_epi128(state, last));
        }
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn load_key(keys: &DoubleKeys, round: usize) -> __m256i {
    // SAFETY: a doubled key is 32 bytes, and aligned to them.
    unsafe { _mm256_load_si256(keys.0[round].as_ptr().cast()) }
}
