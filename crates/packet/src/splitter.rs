//! [`Splitter`]: the ordered, cheap point of receiving. It finds where each packet ends and
//! cuts it from the slab; verifying and decrypting is in [`OpenJob::run`].
//!
//! RFC 4253 §6.1 (lengths), §6.4 (MACs). A length is checked before anything is read, reserved
//! or cut by it, and a bad one ends the connection at once. One that was encrypted fails as a
//! wrong MAC does. More is not hidden: taking in the rest of a largest packet first, so that the
//! moment does not tell how a length decrypted either, is the answer to CPNI-957037, where any
//! block of ciphertext can be put in the place of the length. That needs CBC, which we do not
//! have. In a key stream a length is decrypted by its own position: whoever changes it learns
//! whether the length that is there, which its packet's size shows anyway, was changed into a
//! possible one, and no byte of anything else.

use alloc::sync::Arc;

use bytes::BytesMut;

use crate::error::PacketError;
use crate::keys::OpenKeys;
use crate::open::OpenJob;
use crate::position::{SplitterState, Stamp};
use crate::slab::{Borders, Slab};
use crate::{LENGTH_BYTES, MAX_PACKET_BYTES, MIN_PADDING_BYTES, PADDING_LENGTH_BYTES};

/// The least `packet_length`: padding length, message number, least padding.
const MIN_PACKET_LENGTH: usize = PADDING_LENGTH_BYTES + 1 + MIN_PADDING_BYTES;

/// Unread bytes at which the driver should let the splitter work before it reads on: two
/// largest packets.
const FULL_BYTES: usize = 2 * MAX_PACKET_BYTES;

/// From so many bytes on a packet is taken for one of bulk data, whose packets are as long as each
/// other.
const BULK_PACKET_BYTES: usize = 4096;

/// Cuts one direction's stream into packets, in order.
#[derive(Debug)]
pub struct Splitter {
    slab: Slab,
    pub(crate) position: SplitterState,
    keys: Arc<OpenKeys>,
    reading: Reading,
    /// Length of the last packet of bulk data, MAC included; 0 before the first.
    bulk_packet_bytes: usize,
}

/// What the next bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    /// A packet whose length is not known yet.
    Start,
    /// A packet of this many bytes, MAC included; its length was checked.
    Packet { wire_bytes: usize },
    /// Nothing: the direction has failed for good.
    Failed(PacketError),
}

impl Splitter {
    /// Before the first NEWKEYS: sequence number 0, no keys, nothing received.
    #[must_use]
    pub fn new() -> Self {
        Self::with_keys_state(SplitterState::default(), Arc::new(OpenKeys::none()))
    }

    /// Goes on where [`Splitter::export`] was called, with the same keys. What was
    /// [unread](Splitter::unread) then is to be handed to [`Splitter::handle_bytes`].
    #[must_use]
    pub fn with_keys_state(state: SplitterState, keys: Arc<OpenKeys>) -> Self {
        Self {
            slab: Slab::default(),
            position: state,
            keys,
            reading: Reading::Start,
            bulk_packet_bytes: 0,
        }
    }

    /// The buffer that the socket is read into: append to it (at least 256 KiB of spare capacity
    /// are reserved) and leave what is there.
    pub fn receive_buffer(&mut self) -> &mut BytesMut {
        self.slab.receive_buffer()
    }

    /// The same buffer, with how many bytes are best read into it at once: in bulk data as many as
    /// end where a packet ends, if the next are as long as the last. It is a hint: who appends more,
    /// or other bytes, only has some of them moved when the slab is full.
    pub fn receive_room(&mut self) -> (&mut BytesMut, usize) {
        let borders = self.borders();
        self.slab.receive_room(borders)
    }

    /// Where the packets in what is read next will end.
    fn borders(&self) -> Borders {
        let step = self.bulk_packet_bytes;
        let unread = self.slab.unread().len();
        let wire_bytes = match self.reading {
            Reading::Packet { wire_bytes } => wire_bytes,
            Reading::Start | Reading::Failed(_) => 0,
        };
        let first = match wire_bytes.checked_sub(unread) {
            Some(lacking) => lacking,
            None if step > 0 => (step - (unread - wire_bytes) % step) % step,
            None => 0,
        };
        Borders { first, step }
    }

    /// Whether [`Splitter::shed`] would give back what bulk data has left.
    #[must_use]
    pub fn has_spare(&self) -> bool {
        self.slab.is_spread()
    }

    /// Frees the receive memory that holds nothing now; the next read makes new.
    pub fn shed(&mut self) {
        self.slab.shed();
    }

    /// A reader keeps so many bytes of bulk data while it works on them: up to there no packet is
    /// copied to free the memory beside it.
    pub fn keep(&mut self, bytes: usize) {
        self.slab.keep(bytes);
    }

    /// Takes in bytes that were read elsewhere.
    pub fn handle_bytes(&mut self, bytes: &[u8]) {
        self.slab.receive_buffer().extend_from_slice(bytes);
    }

    /// Whether so much is unread that the driver must not read on before packets were taken:
    /// the bound on what a peer can make us hold here.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.slab.unread().len() >= FULL_BYTES
    }

    /// Cuts the next packet off; `None` while it has not arrived in full.
    ///
    /// After the packet that holds NEWKEYS, and wherever else keys may change, the caller
    /// dispatches before it asks for the next one.
    ///
    /// # Errors
    /// [`PacketError`], the same at each later call: the connection cannot go on.
    // No iterator: `None` is "not yet", and keys may change between two calls.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<OpenJob>, PacketError> {
        loop {
            match self.reading {
                Reading::Failed(error) => return Err(error),
                // Even used-up keys are no error before a packet comes that would need them.
                Reading::Start if self.slab.unread().is_empty() => return Ok(None),
                Reading::Start => {
                    let stamp = self.stamp()?;
                    let Some(length) = self.keys.length(stamp, self.slab.unread()) else {
                        return Ok(None);
                    };
                    self.reading = self.judge(length);
                }
                Reading::Packet { wire_bytes } => {
                    if self.slab.unread().len() < wire_bytes {
                        return Ok(None);
                    }
                    return self.cut(wire_bytes).map(Some);
                }
            }
        }
    }

    /// NEWKEYS was dispatched: the next packet is the first of a new epoch. `reset_sequence` is
    /// strict key exchange's rule. The budgets begin anew.
    pub fn set_keys(&mut self, keys: Arc<OpenKeys>, reset_sequence: bool) {
        self.keys = keys;
        self.position.new_keys(reset_sequence);
        if let Reading::Packet { .. } = self.reading {
            // The length was read with the former keys. The bytes are as they came.
            self.reading = Reading::Start;
        }
    }

    /// A packet has begun, and its end has not come: the number of bytes that are there.
    #[must_use]
    pub fn unfinished_bytes(&self) -> Option<usize> {
        let there = self.slab.unread().len();
        match self.reading {
            Reading::Packet { wire_bytes } if there < wire_bytes => Some(there),
            _ => None,
        }
    }

    /// Sequence number of the next packet.
    #[must_use]
    pub fn next_sequence(&self) -> u32 {
        self.position.sequence
    }

    /// Bytes split since the last [`Splitter::set_keys`], without MACs.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.position.bytes
    }

    /// Packets split since the last [`Splitter::set_keys`].
    #[must_use]
    pub fn packets(&self) -> u64 {
        self.position.packets
    }

    /// Whether the peer has used these keys so much that new ones are due (RFC 4344 §3).
    #[must_use]
    pub fn must_rekey(&self) -> bool {
        self.position.must_rekey(self.keys.rekey_bytes())
    }

    /// Bytes that arrived and belong to no split packet, as they came.
    #[must_use]
    pub fn unread(&self) -> &[u8] {
        self.slab.unread()
    }

    /// The numbers that another process needs to go on, beside the keys and the
    /// [unread](Splitter::unread) bytes.
    #[must_use]
    pub fn export(&self) -> SplitterState {
        self.position
    }

    #[cfg(test)]
    pub(crate) fn moved_bytes(&self) -> usize {
        self.slab.moved_bytes()
    }

    fn stamp(&mut self) -> Result<Stamp, PacketError> {
        self.position.stamp().ok_or_else(|| {
            self.reading = Reading::Failed(PacketError::SequenceExhausted);
            PacketError::SequenceExhausted
        })
    }

    /// What a claimed `packet_length` leads to.
    fn judge(&self, length: u32) -> Reading {
        let framing = self.keys.framing();
        let error = match usize::try_from(length) {
            Ok(bytes) if (MIN_PACKET_LENGTH..=MAX_PACKET_BYTES).contains(&bytes) => {
                if framing.is_aligned(bytes) {
                    return Reading::Packet {
                        wire_bytes: LENGTH_BYTES + bytes + framing.tag_bytes,
                    };
                }
                PacketError::NotBlockAligned
            }
            _ => PacketError::LengthOutOfRange {
                length_bytes: length,
            },
        };
        Reading::Failed(if self.keys.encrypts_length() {
            PacketError::IntegrityFailed
        } else {
            error
        })
    }

    fn cut(&mut self, wire_bytes: usize) -> Result<OpenJob, PacketError> {
        let stamp = self.stamp()?;
        let framing = self.keys.framing();
        let packet_bytes = wire_bytes - framing.tag_bytes;
        let job = OpenJob {
            packet: self.slab.unread_mut().split_to(wire_bytes),
            keys: Arc::clone(&self.keys),
            stamp,
            detach: self.slab.is_scarce(),
        };
        self.position
            .advance(packet_bytes, framing.blocks(packet_bytes - LENGTH_BYTES));
        self.reading = Reading::Start;
        if wire_bytes >= BULK_PACKET_BYTES {
            self.bulk_packet_bytes = wire_bytes;
        }
        Ok(job)
    }
}

impl Default for Splitter {
    fn default() -> Self {
        Self::new()
    }
}
