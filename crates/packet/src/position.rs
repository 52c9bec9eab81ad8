//! The position of one direction: its sequence number and the usage counts of its current keys.
//! [`Sequencer`](crate::Sequencer) and [`Splitter`](crate::Splitter) share these counters.

use crypto::cipher::ChainBlock;

/// Number of packets after which new keys are due: a quarter of the range of the sequence number,
/// which is a nonce, and half of the 2³¹ packets of RFC 4344 §3.1.
const REKEY_PACKETS: u64 = 1 << 30;

/// Number of packets after which the next one would reuse a nonce.
const MAX_PACKETS: u64 = 1 << 32;

/// Sequence number of one direction and usage counts of its current keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Position {
    /// Sequence number of the next packet; wraps at 2³².
    pub sequence: u32,
    /// Number of packets since the last NEWKEYS; the GCM invocation counter of the next packet.
    pub packets: u64,
    /// Number of bytes in these packets, including `packet_length`, without MACs.
    pub bytes: u64,
    /// Number of key-stream blocks used since the last NEWKEYS (CTR only).
    pub blocks: u64,
    /// Last ciphertext block of the packet before the next one, unless that is the first since
    /// NEWKEYS (CBC only).
    pub last_block: ChainBlock,
}

/// The inputs of sealing or opening a packet other than its bytes and keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Stamp {
    /// Sequence number: MAC input, and nonce of chacha20-poly1305 and UMAC.
    pub(crate) sequence: u32,
    /// Number of earlier packets under these keys: GCM's invocation counter.
    pub(crate) invocation: u64,
    /// Number of key-stream blocks used by earlier packets: CTR's offset.
    pub(crate) block: u64,
}

impl Position {
    /// Returns the block that the next packet is chained to (CBC only); `None` for the first since
    /// NEWKEYS, which is chained to the IV.
    pub(crate) fn chain(&self) -> Option<&ChainBlock> {
        (self.packets > 0).then_some(&self.last_block)
    }

    /// Returns the stamp of the next packet, or `None` when the keys are exhausted.
    pub(crate) fn stamp(&self) -> Option<Stamp> {
        (self.packets < MAX_PACKETS).then_some(Stamp {
            sequence: self.sequence,
            invocation: self.packets,
            block: self.blocks,
        })
    }

    /// Counts one stamped packet of `packet_bytes` bytes and `blocks` key-stream blocks.
    pub(crate) fn advance(&mut self, packet_bytes: usize, blocks: u64) {
        self.sequence = self.sequence.wrapping_add(1);
        self.packets += 1;
        self.bytes = self.bytes.saturating_add(packet_bytes as u64);
        self.blocks = self.blocks.saturating_add(blocks);
    }

    /// Resets the counters for NEWKEYS; resets the sequence number too if `reset_sequence` (strict
    /// key exchange).
    pub(crate) fn new_keys(&mut self, reset_sequence: bool) {
        *self = Self {
            sequence: if reset_sequence { 0 } else { self.sequence },
            ..Self::default()
        };
    }

    /// Returns true if new keys are due for safety, regardless of the configured limits.
    /// `cipher_bytes` is the cipher's byte limit.
    pub(crate) fn must_rekey(&self, cipher_bytes: u64) -> bool {
        self.packets >= REKEY_PACKETS || self.bytes >= cipher_bytes
    }
}
