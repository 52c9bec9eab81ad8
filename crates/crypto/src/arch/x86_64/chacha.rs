//! Code shared by the ChaCha20 kernels: the state before they diverge (RFC 8439 §2.3).

use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::arch::chacha::Nonce;

pub(super) use crate::arch::chacha::CONSTANTS;

/// Index of the state word that counts blocks.
pub(super) const COUNTER: usize = 12;

/// The nonce words, the last three words of the state.
#[inline]
pub(super) fn nonce_words(nonce: Nonce) -> [i32; 3] {
    let mut words = [0; 3];
    for (word, bytes) in words.iter_mut().zip(nonce.as_chunks().0) {
        *word = i32::from_le_bytes(*bytes);
    }
    words
}

/// The state of one packet. The blocks of a packet differ only in the counter, so the first round
/// is the same for all blocks in three of four columns.
///
/// Wiped on drop, because the key can be computed from it.
#[derive(Zeroize, ZeroizeOnDrop)]
pub(super) struct ChaChaState {
    /// Before the first round, with a counter of 0.
    pub(super) initial: [u32; 16],
    /// After the first round in columns 1 to 3, and in column 0 after the first addition, which
    /// does not depend on the counter.
    pub(super) first_round: [u32; 16],
}

impl ChaChaState {
    pub(super) fn new(key: &[u8; 32], nonce: Nonce) -> Self {
        let mut this = Self {
            initial: [0; 16],
            first_round: [0; 16],
        };
        let (constants, rest) = this.initial.split_at_mut(4);
        constants.copy_from_slice(&CONSTANTS);
        let (words, rest) = rest.split_at_mut(8);
        read_words(words, key);
        read_words(&mut rest[1..], &nonce);
        this.first_round = this.initial;
        let v = &mut this.first_round;
        v[0] = v[0].wrapping_add(v[4]);
        for column in 1..4 {
            quarter_round(v, column, 4 + column, 8 + column, 12 + column);
        }
        this
    }
}

fn read_words(words: &mut [u32], bytes: &[u8]) {
    for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
        *word = u32::from_le_bytes(*bytes);
    }
}

fn quarter_round(v: &mut [u32; 16], a: usize, b: usize, c: usize, d: usize) {
    let mut step = |a: usize, b: usize, d: usize, bits: u32| {
        v[a] = v[a].wrapping_add(v[b]);
        v[d] = (v[d] ^ v[a]).rotate_left(bits);
    };
    step(a, b, d, 16);
    step(c, d, b, 12);
    step(a, b, d, 8);
    step(c, d, b, 7);
}
