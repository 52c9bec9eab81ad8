//! Padding bytes from a key stream, which saves one system call per packet.
//!
//! RFC 4253 §6 requires random padding. Each connection draws one 32-byte seed from the kernel and
//! expands it with AES-CTR, about 50 packets' padding at a time. Padding of packets before NEWKEYS
//! is sent in clear; it reveals nothing about later padding.

use core::fmt;

use crypto::cipher::{CipherAlgorithm, CtrKey};

/// Bytes of key stream generated at once: padding of about 50 packets.
const BUFFER_BYTES: usize = 512;

/// An endless stream of padding bytes.
pub(crate) struct PaddingSource {
    key: CtrKey,
    next_block: u64,
    buffer: [u8; BUFFER_BYTES],
    used: usize,
}

impl PaddingSource {
    /// A stream with a seed from the kernel.
    pub(crate) fn random() -> Self {
        Self::from_seed(crypto::random::bytes())
    }

    /// A stream that depends only on `seed`.
    pub(crate) fn from_seed(seed: [u8; 32]) -> Self {
        let (key, iv) = seed.split_at(16);
        let key = CtrKey::new(CipherAlgorithm::Aes128Ctr, key, iv)
            .expect("AES-128-CTR takes a 16-byte key and a 16-byte IV");
        Self {
            key,
            next_block: 0,
            buffer: [0; BUFFER_BYTES],
            used: BUFFER_BYTES,
        }
    }

    /// Overwrites `out` with the next bytes of the stream.
    pub(crate) fn fill(&mut self, mut out: &mut [u8]) {
        while !out.is_empty() {
            if self.used == BUFFER_BYTES {
                self.buffer.fill(0);
                self.key.apply(self.next_block, &mut self.buffer);
                self.next_block = self.next_block.wrapping_add(BUFFER_BYTES as u64 / 16);
                self.used = 0;
            }
            let count = out.len().min(BUFFER_BYTES - self.used);
            let (head, rest) = out.split_at_mut(count);
            head.copy_from_slice(&self.buffer[self.used..self.used + count]);
            self.used += count;
            out = rest;
        }
    }
}

impl fmt::Debug for PaddingSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PaddingSource(..)")
    }
}
