//! aws-lc's functions, which have kernels of their own, and this crate's Poly1305 for messages that
//! are shorter than the library's setup.
#![forbid(unsafe_code)]

use super::{BLOCK_LEN, ChaChaBlock, ChaChaKeys, ChaChaTier, Front, Nonce};
use crate::arch::poly1305::Poly1305;
use crate::awslc::chacha::{chacha20, poly1305};

/// Maximum length in bytes of messages for this crate's Poly1305.
const SHORT_LEN: usize = 2048;

/// The tier for any CPU.
#[derive(Clone, Copy)]
pub(in crate::arch) struct Portable(());

impl Portable {
    pub(in crate::arch) fn new() -> Self {
        // Initialises the library's CPU detection, which selects its kernels.
        aws_lc_rs::init();
        Self(())
    }
}

impl ChaChaTier for Portable {
    fn front(&self, keys: &ChaChaKeys, nonce: Nonce, body_len: usize) -> Front {
        if body_len <= 2 * BLOCK_LEN {
            Front::Four(blocks(keys, nonce))
        } else {
            Front::Eight(blocks(keys, nonce))
        }
    }

    fn length(&self, keys: &ChaChaKeys, nonce: Nonce) -> [u8; 4] {
        let mut stream = [0; 4];
        chacha20(&keys.length, &nonce, 0, &mut stream);
        stream
    }

    fn length_of(&self, _: &Front, keys: &ChaChaKeys, nonce: Nonce) -> [u8; 4] {
        self.length(keys, nonce)
    }

    fn apply(&self, key: &[u8; 32], nonce: Nonce, counter: u32, data: &mut [u8]) {
        chacha20(key, &nonce, counter, data);
    }

    fn tag(&self, key: &[u8; 32], data: &[u8]) -> [u8; 16] {
        if data.len() <= SHORT_LEN {
            Poly1305::new(key).finish(data)
        } else {
            poly1305(key, data)
        }
    }
}

/// Block 0 of the content, a zero block in place of the length's, and the content's blocks from 1.
fn blocks<const N: usize>(keys: &ChaChaKeys, nonce: Nonce) -> [ChaChaBlock; N] {
    let mut blocks = [[0; BLOCK_LEN]; N];
    if let [_, content @ ..] = blocks.as_mut_slice() {
        chacha20(&keys.content, &nonce, 0, content.as_flattened_mut());
        blocks.swap(0, 1);
    }
    blocks
}
