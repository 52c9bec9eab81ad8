//! Where a direction stands: its sequence number and what its present keys have been used for.
//! The one place that counts, for [`Sequencer`](crate::Sequencer) and
//! [`Splitter`](crate::Splitter) alike.

/// Packets after which new keys are due: a quarter of what the sequence number, which is a
/// nonce, can tell apart, and half of RFC 4344 §3.1's 2³¹.
const REKEY_PACKETS: u64 = 1 << 30;

/// Packets after which another one would use a nonce again.
const MAX_PACKETS: u64 = 1 << 32;

/// The state of the sending direction, to be carried into another process (plain numbers; keys
/// and unread bytes are carried beside it).
pub type SequencerState = Position;

/// The state of the receiving direction, likewise.
pub type SplitterState = Position;

/// Sequence number, and use of the present keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Position {
    /// Sequence number of the next packet.
    pub sequence: u32,
    /// Packets since the last NEWKEYS; the next one's GCM invocation.
    pub packets: u64,
    /// Bytes of these packets, with `packet_length`, without MAC.
    pub bytes: u64,
    /// Cipher blocks of key stream used since the last NEWKEYS (CTR only).
    pub blocks: u64,
}

/// What a packet's seal or open depends on beside its bytes and its keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Stamp {
    /// Sequence number: MAC input, nonce of chacha20-poly1305 and UMAC.
    pub(crate) sequence: u32,
    /// Packets sealed before this one under these keys: GCM's invocation counter.
    pub(crate) invocation: u64,
    /// Blocks of key stream used before this packet: CTR's offset.
    pub(crate) block: u64,
}

impl Position {
    /// The stamp of the next packet, or `None` when the keys are used up.
    pub(crate) fn stamp(&self) -> Option<Stamp> {
        (self.packets < MAX_PACKETS).then_some(Stamp {
            sequence: self.sequence,
            invocation: self.packets,
            block: self.blocks,
        })
    }

    /// Counts a packet that was stamped.
    pub(crate) fn advance(&mut self, packet_bytes: usize, blocks: u64) {
        self.sequence = self.sequence.wrapping_add(1);
        self.packets += 1;
        self.bytes = self.bytes.saturating_add(packet_bytes as u64);
        self.blocks = self.blocks.saturating_add(blocks);
    }

    /// NEWKEYS: counts begin anew, and with strict key exchange the sequence number does.
    pub(crate) fn new_keys(&mut self, reset_sequence: bool) {
        *self = Self {
            sequence: if reset_sequence { 0 } else { self.sequence },
            ..Self::default()
        };
    }

    /// Whether new keys are due for safety, whatever the configured limits say.
    pub(crate) fn must_rekey(&self, cipher_bytes: u64) -> bool {
        self.packets >= REKEY_PACKETS || self.bytes >= cipher_bytes
    }
}
