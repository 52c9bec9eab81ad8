//! HMAC (RFC 2104) with precomputed key states.
#![forbid(unsafe_code)]

use core::fmt;

use zeroize::Zeroizing;

use crate::hash::{Digest, HashAlgorithm, Hasher};

/// Length of the longest hash block in bytes.
const MAX_BLOCK_LEN: usize = 128;

/// An HMAC key: the two hash states after the padded key block.
pub struct Hmac {
    inner: Hasher,
    outer: Hasher,
}

impl Hmac {
    /// Creates a key from bytes of any length.
    #[must_use]
    pub fn new(algorithm: HashAlgorithm, key: &[u8]) -> Self {
        let mut block = Zeroizing::new([0u8; MAX_BLOCK_LEN]);
        if key.len() > algorithm.block_len() {
            fill_front(&mut *block, &algorithm.digest(key));
        } else {
            fill_front(&mut *block, key);
        }
        Self {
            inner: absorb(algorithm, &block, 0x36),
            outer: absorb(algorithm, &block, 0x5c),
        }
    }

    /// Returns the tag over the concatenation of `parts`.
    #[must_use]
    pub fn compute(&self, parts: &[&[u8]]) -> Digest {
        let mut running = self.start();
        for part in parts {
            running.update(part);
        }
        self.finish(running)
    }

    /// Starts a computation: the inner hash after the key block.
    pub(super) fn start(&self) -> Hasher {
        self.inner.clone()
    }

    /// Finishes a computation begun by [`Self::start`].
    pub(super) fn finish(&self, running: Hasher) -> Digest {
        let mut outer = self.outer.clone();
        outer.update(&running.finish());
        outer.finish()
    }
}

impl fmt::Debug for Hmac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hmac({:?})", self.inner.algorithm())
    }
}

/// Copies as much of `from` as fits to the start of `to`.
fn fill_front(to: &mut [u8], from: &[u8]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = *from;
    }
}

/// A hash state after the key block XORed with `pad`.
fn absorb(algorithm: HashAlgorithm, block: &[u8; MAX_BLOCK_LEN], pad: u8) -> Hasher {
    let padded = Zeroizing::new(block.map(|byte| byte ^ pad));
    let mut hasher = Hasher::new(algorithm);
    hasher.update(padded.get(..algorithm.block_len()).unwrap_or_default());
    hasher
}
