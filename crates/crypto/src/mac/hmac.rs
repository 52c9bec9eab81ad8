//! HMAC (RFC 2104) with the key taken in once.
#![forbid(unsafe_code)]

use core::fmt;

use zeroize::Zeroizing;

use crate::hash::{Digest, HashAlgorithm, Hasher};

/// The longest block of a hash in bytes.
const MAX_BLOCK_LEN: usize = 128;

/// A key, as the two hash states that have already taken in its padded blocks.
pub struct Hmac {
    inner: Hasher,
    outer: Hasher,
}

impl Hmac {
    /// Prepares a key of any length.
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

    /// The tag over the concatenation of `parts`.
    #[must_use]
    pub fn compute(&self, parts: &[&[u8]]) -> Digest {
        let mut running = self.start();
        for part in parts {
            running.update(part);
        }
        self.finish(running)
    }

    /// A computation that has taken in the key.
    pub(super) fn start(&self) -> Hasher {
        self.inner.clone()
    }

    /// Ends a computation of [`Self::start`].
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

/// Copies as much of `from` as fits to the front of `to`.
fn fill_front(to: &mut [u8], from: &[u8]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = *from;
    }
}

/// A hash that has taken in the key's block XORed with `pad`.
fn absorb(algorithm: HashAlgorithm, block: &[u8; MAX_BLOCK_LEN], pad: u8) -> Hasher {
    let padded = Zeroizing::new(block.map(|byte| byte ^ pad));
    let mut hasher = Hasher::new(algorithm);
    hasher.update(padded.get(..algorithm.block_len()).unwrap_or_default());
    hasher
}
