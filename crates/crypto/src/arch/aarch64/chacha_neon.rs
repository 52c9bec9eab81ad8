//! ChaCha20 on NEON for the beginning of a packet, with Poly1305 on NEON.
//!
//! Four blocks per pass, a vector for each word of the state: the block for Poly1305, the length's
//! block and the content's first two are computed together, which is all that a short packet needs.
//! aws-lc, which uses NEON and the integer units at once, computes the rest of long packets.

use core::arch::aarch64::*;

use super::poly1305_neon;
use crate::arch::HaveNeon;
use crate::arch::chacha::portable::Portable;
use crate::arch::chacha::{
    BLOCK_LEN, CONSTANTS, ChaChaBlock, ChaChaKeys, ChaChaTier, Front, Nonce,
};

/// Index of the state word that counts blocks.
const COUNTER: usize = 12;

/// The kernels of this level.
#[derive(Clone, Copy)]
pub(crate) struct Neon {
    token: HaveNeon,
    portable: Portable,
}

impl Neon {
    pub(crate) fn new(token: HaveNeon) -> Self {
        let portable = Portable::new();
        Self { token, portable }
    }
}

impl ChaChaTier for Neon {
    #[inline]
    fn front(&self, keys: &ChaChaKeys, nonce: Nonce, body_len: usize) -> Front {
        let HaveNeon(()) = self.token;
        // SAFETY: the token proves NEON.
        unsafe {
            let first = first_blocks(keys, nonce);
            if body_len <= 2 * BLOCK_LEN {
                Front::Four(first)
            } else {
                let [a, b, c, d] = first;
                let [e, f, g, h] = content_blocks(keys, nonce, [3, 4, 5, 6]);
                Front::Eight([a, b, c, d, e, f, g, h])
            }
        }
    }

    /// One block alone is faster on the integer units: its steps wait for each other.
    #[inline]
    fn length(&self, keys: &ChaChaKeys, nonce: Nonce) -> [u8; 4] {
        self.portable.length(keys, nonce)
    }

    #[inline]
    fn apply(&self, key: &[u8; 32], nonce: Nonce, counter: u32, data: &mut [u8]) {
        self.portable.apply(key, nonce, counter, data);
    }

    #[inline]
    fn tag(&self, key: &[u8; 32], data: &[u8]) -> [u8; 16] {
        poly1305_neon::tag(self.token, key, data)
    }
}

/// A vector for each word of the state, a lane for each block.
type NeonColumns = [uint32x4_t; 16];

/// Block 0 of the content's key, block 0 of the length's, blocks 1 and 2 of the
/// content's.
#[target_feature(enable = "neon")]
fn first_blocks(keys: &ChaChaKeys, nonce: Nonce) -> [ChaChaBlock; 4] {
    let mut state = columns(&keys.content, nonce, [0, 0, 1, 2]);
    let words = keys.length.as_chunks().0;
    for (v, word) in state[4..COUNTER].iter_mut().zip(words) {
        *v = vsetq_lane_u32::<1>(u32::from_le_bytes(*word), *v);
    }
    blocks(state)
}

/// Blocks of the content's key.
#[target_feature(enable = "neon")]
fn content_blocks(keys: &ChaChaKeys, nonce: Nonce, counters: [u32; 4]) -> [ChaChaBlock; 4] {
    blocks(columns(&keys.content, nonce, counters))
}

#[inline]
#[target_feature(enable = "neon")]
fn columns(key: &[u8; 32], nonce: Nonce, counters: [u32; 4]) -> NeonColumns {
    let mut v = [vdupq_n_u32(0); 16];
    let (constants, rest) = v.split_at_mut(4);
    for (v, word) in constants.iter_mut().zip(CONSTANTS) {
        *v = vdupq_n_u32(word);
    }
    let words = key.as_chunks().0.iter().chain([&[0; 4]]);
    for (v, word) in rest.iter_mut().zip(words.chain(nonce.as_chunks().0)) {
        *v = vdupq_n_u32(u32::from_le_bytes(*word));
    }
    // SAFETY: four words are a vector; the load needs no more alignment than theirs.
    v[COUNTER] = unsafe { vld1q_u32(counters.as_ptr()) };
    v
}

/// The blocks of these states.
#[inline]
#[target_feature(enable = "neon")]
fn blocks(initial: NeonColumns) -> [ChaChaBlock; 4] {
    // Rotates each word by 8 bits.
    let by_8 = vcombine_u8(
        vcreate_u8(0x0605_0407_0201_0003),
        vcreate_u8(0x0e0d_0c0f_0a09_080b),
    );
    let mut v = initial;
    for _ in 0..10 {
        round::<0>(&mut v, by_8);
        round::<1>(&mut v, by_8);
    }
    for (v, initial) in v.iter_mut().zip(initial) {
        *v = vaddq_u32(*v, initial);
    }
    let mut blocks = [[0; BLOCK_LEN]; 4];
    for (group, words) in v.as_chunks::<4>().0.iter().enumerate() {
        for (block, words) in blocks.iter_mut().zip(transpose(*words)) {
            let quarters = block.as_chunks_mut::<16>().0;
            // SAFETY: a quarter of a block is 16 bytes; the store needs no alignment.
            unsafe { vst1q_u8(quarters[group].as_mut_ptr(), words) };
        }
    }
    blocks
}

/// A round over the columns (`SHIFT` 0) or the diagonals (`SHIFT` 1).
#[inline]
#[target_feature(enable = "neon")]
fn round<const SHIFT: usize>(v: &mut NeonColumns, by_8: uint8x16_t) {
    let b = |i: usize| 4 + (i + SHIFT) % 4;
    let c = |i: usize| 8 + (i + 2 * SHIFT) % 4;
    let d = |i: usize| 12 + (i + 3 * SHIFT) % 4;
    let rotate_16 = |x| vreinterpretq_u32_u16(vrev32q_u16(vreinterpretq_u16_u32(x)));
    let rotate_8 = |x| vreinterpretq_u32_u8(vqtbl1q_u8(vreinterpretq_u8_u32(x), by_8));
    let rotate_12 = |x| vsriq_n_u32::<20>(vshlq_n_u32::<12>(x), x);
    let rotate_7 = |x| vsriq_n_u32::<25>(vshlq_n_u32::<7>(x), x);
    for i in 0..4 {
        v[i] = vaddq_u32(v[i], v[b(i)]);
        v[d(i)] = rotate_16(veorq_u32(v[d(i)], v[i]));
    }
    for i in 0..4 {
        v[c(i)] = vaddq_u32(v[c(i)], v[d(i)]);
        v[b(i)] = rotate_12(veorq_u32(v[b(i)], v[c(i)]));
    }
    for i in 0..4 {
        v[i] = vaddq_u32(v[i], v[b(i)]);
        v[d(i)] = rotate_8(veorq_u32(v[d(i)], v[i]));
    }
    for i in 0..4 {
        v[c(i)] = vaddq_u32(v[c(i)], v[d(i)]);
        v[b(i)] = rotate_7(veorq_u32(v[b(i)], v[c(i)]));
    }
}

/// Brings four words of each block together.
#[inline]
#[target_feature(enable = "neon")]
fn transpose([a, b, c, d]: [uint32x4_t; 4]) -> [uint8x16_t; 4] {
    let twos = [
        [vtrn1q_u32(a, b), vtrn1q_u32(c, d)],
        [vtrn2q_u32(a, b), vtrn2q_u32(c, d)],
    ];
    let [even, odd] = twos.map(|pair| pair.map(|x| vreinterpretq_u64_u32(x)));
    [
        vtrn1q_u64(even[0], even[1]),
        vtrn1q_u64(odd[0], odd[1]),
        vtrn2q_u64(even[0], even[1]),
        vtrn2q_u64(odd[0], odd[1]),
    ]
    .map(|x| vreinterpretq_u8_u64(x))
}
