//! Padding bytes from a key stream instead of a system call a packet.
//!
//! RFC 4253 §6 wants random padding. One key is drawn from the kernel per connection, and
//! AES-CTR under it gives the rest, some dozens of packets at a time; so even the padding of
//! packets before NEWKEYS, which is seen in clear, tells nothing about later padding.

use core::fmt;

use crypto::cipher::{CipherAlgorithm, CtrKey};

/// Bytes of key stream made at once: padding of some 50 packets.
const STOCK_BYTES: usize = 512;

/// A stream of padding bytes.
pub(crate) struct PaddingSource {
    key: CtrKey,
    next_block: u64,
    stock: [u8; STOCK_BYTES],
    used: usize,
}

impl PaddingSource {
    /// Seeded from the kernel.
    pub(crate) fn random() -> Self {
        Self::from_seed(crypto::random::bytes())
    }

    /// The stream of a given seed.
    pub(crate) fn from_seed(seed: [u8; 32]) -> Self {
        let (key, iv) = seed.split_at(16);
        let key = CtrKey::new(CipherAlgorithm::Aes128Ctr, key, iv)
            .expect("16 bytes of key and 16 of IV are AES-128-CTR's lengths");
        Self {
            key,
            next_block: 0,
            stock: [0; STOCK_BYTES],
            used: STOCK_BYTES,
        }
    }

    /// Overwrites `out` with the next bytes of the stream.
    pub(crate) fn fill(&mut self, mut out: &mut [u8]) {
        while !out.is_empty() {
            if self.used == STOCK_BYTES {
                self.stock.fill(0);
                self.key.apply(self.next_block, &mut self.stock);
                self.next_block = self.next_block.wrapping_add(STOCK_BYTES as u64 / 16);
                self.used = 0;
            }
            let count = out.len().min(STOCK_BYTES - self.used);
            let (head, rest) = out.split_at_mut(count);
            head.copy_from_slice(&self.stock[self.used..self.used + count]);
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
