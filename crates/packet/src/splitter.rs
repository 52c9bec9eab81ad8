//! [`Splitter`]: the serial, cheap step of receiving. It finds where each packet ends and cuts it
//! from the slab; [`OpenJob::run`] verifies and decrypts.
//!
//! RFC 4253 §6.1 (lengths), §6.4 (MACs). A length is checked before any bytes are read, reserved or
//! cut according to it, and a bad length ends the connection at once. A bad encrypted length
//! reports the same error as a wrong MAC. The time of the failure is hidden only under CBC with an
//! encrypted length: there an attacker can put any block of ciphertext in the place of the length
//! (CPNI-957037), and how many bytes the receiver reads before it fails would tell him about the
//! block's plaintext. So the bytes of a maximum-size packet are read first, whether the length or the MAC
//! is wrong. In a stream cipher a length is decrypted by the key stream of its own position: an
//! attacker who changes it learns only whether the original length, which the packet's size shows
//! anyway, became another valid length, and nothing about any other byte.

use alloc::sync::Arc;

use bytes::BytesMut;

use crate::error::PacketError;
use crate::keys::OpenKeys;
use crate::open::OpenJob;
use crate::position::{Position, Stamp};
use crate::slab::{PacketEnds, Slab};
use crate::{LENGTH_BYTES, MAX_PACKET_BYTES};

/// Number of unread bytes at which the driver should split packets before it reads more: two
/// packets of maximum size.
const FULL_BYTES: usize = 2 * MAX_PACKET_BYTES;

/// Minimum size in bytes of a packet that counts as bulk data. Bulk packets are expected to have
/// equal lengths.
const BULK_PACKET_BYTES: usize = 4096;

/// Cuts the byte stream of one direction into packets, in order.
#[derive(Debug)]
pub struct Splitter {
    slab: Slab,
    pub(crate) position: Position,
    keys: Arc<OpenKeys>,
    state: ReadState,
    /// Length of the last bulk packet, including its MAC; 0 before the first.
    bulk_packet_bytes: usize,
}

/// State of the next packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReadState {
    /// The length of the next packet is not known yet.
    Start,
    /// The next packet has this many bytes, including its MAC; its length has been checked.
    Packet { wire_bytes: usize },
    /// The direction has failed, and this many bytes are dropped before it says so.
    Failing { wire_bytes: usize },
    /// The direction has failed permanently.
    Failed(PacketError),
}

impl Splitter {
    /// The state before the first NEWKEYS: sequence number 0, no keys, nothing received.
    #[must_use]
    pub fn new() -> Self {
        Self::with_keys_state(Position::default(), Arc::new(OpenKeys::none()))
    }

    /// Continues from the counters of [`Splitter::position`], with the same keys. The caller passes
    /// the bytes that were [unread](Splitter::unread) then to [`Splitter::handle_bytes`].
    #[must_use]
    pub fn with_keys_state(state: Position, keys: Arc<OpenKeys>) -> Self {
        Self {
            slab: Slab::default(),
            position: state,
            keys,
            state: ReadState::Start,
            bulk_packet_bytes: 0,
        }
    }

    /// The buffer to read the socket into, with at least 256 KiB of spare capacity. The caller may
    /// only append to it.
    pub fn receive_buffer(&mut self) -> &mut BytesMut {
        self.slab.receive_buffer()
    }

    /// Returns the buffer of [`Splitter::receive_buffer`] and the recommended size of the next read
    /// in bytes. During bulk data the read then ends at a packet's end if the next packets are as
    /// long as the last. The size is a hint: with a larger read, or other packets, only a partial
    /// packet has to be moved when the slab is full.
    pub fn receive_room(&mut self) -> (&mut BytesMut, usize) {
        let ends = self.predicted_ends();
        self.slab.receive_room(ends)
    }

    /// Predicts where packets end in the bytes of the next read.
    fn predicted_ends(&self) -> PacketEnds {
        let step = self.bulk_packet_bytes;
        let unread = self.slab.unread().len();
        let wire_bytes = match self.state {
            ReadState::Packet { wire_bytes } => wire_bytes,
            ReadState::Start | ReadState::Failing { .. } | ReadState::Failed(_) => 0,
        };
        let first = match wire_bytes.checked_sub(unread) {
            Some(missing) => missing,
            None if step > 0 => (step - (unread - wire_bytes) % step) % step,
            None => 0,
        };
        PacketEnds { first, step }
    }

    /// Returns true if [`Splitter::shed`] would free memory that bulk data used.
    #[must_use]
    pub fn has_spare(&self) -> bool {
        self.slab.has_filled_slab()
    }

    /// Returns true if there is receive memory that [`Splitter::shed`] may free, be it that of a few
    /// small packets.
    #[must_use]
    pub fn has_any(&self) -> bool {
        self.slab.has_any()
    }

    /// Frees receive memory that holds no data; the next read allocates again.
    pub fn shed(&mut self) {
        self.slab.shed();
    }

    /// Lets the connection's consumer pin up to `bytes` of receive memory, so that these payloads
    /// need not be copied. 0 restores the default.
    pub fn keep(&mut self, bytes: usize) {
        self.slab.keep(bytes);
    }

    /// Appends received `bytes` to the unread bytes.
    pub fn handle_bytes(&mut self, bytes: &[u8]) {
        self.slab.receive_buffer().extend_from_slice(bytes);
    }

    /// Returns true if two maximum packets' worth of bytes are unread. The driver must then take
    /// packets before it reads more, which bounds the memory that a peer can occupy here.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.slab.unread().len() >= FULL_BYTES
    }

    /// Cuts off the next packet; `None` until it has arrived in full.
    ///
    /// After the packet that holds NEWKEYS, and wherever else keys may change, the caller must
    /// dispatch the packet before it calls `next` again.
    ///
    /// # Errors
    /// [`PacketError`]; every later call returns the same error, and the connection cannot
    /// continue.
    // Not an iterator: `None` means "not yet", and keys may change between two calls.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<OpenJob>, PacketError> {
        loop {
            match self.state {
                ReadState::Failed(error) => return Err(error),
                // Exhausted keys are not an error until a packet arrives that would need them.
                ReadState::Start if self.slab.unread().is_empty() => return Ok(None),
                ReadState::Start => {
                    let stamp = self.stamp()?;
                    let Some(length) =
                        self.keys
                            .length(stamp, self.position.chain(), self.slab.unread())
                    else {
                        return Ok(None);
                    };
                    self.state = self.check_length(length);
                }
                ReadState::Packet { wire_bytes } => {
                    if self.slab.unread().len() < wire_bytes {
                        return Ok(None);
                    }
                    if let Some(job) = self.split_packet(wire_bytes)? {
                        return Ok(Some(job));
                    }
                }
                ReadState::Failing { wire_bytes: 0 } => {
                    self.state = ReadState::Failed(PacketError::IntegrityFailed);
                }
                ReadState::Failing { wire_bytes } => {
                    let unread = self.slab.unread_mut();
                    let dropped = unread.len().min(wire_bytes);
                    drop(unread.split_to(dropped));
                    if dropped == 0 {
                        return Ok(None);
                    }
                    self.state = ReadState::Failing {
                        wire_bytes: wire_bytes - dropped,
                    };
                }
            }
        }
    }

    /// Starts a new epoch with the next packet, to be called once NEWKEYS is dispatched. Resets the
    /// counters; `reset_sequence` resets the sequence number too (strict key exchange).
    pub fn set_keys(&mut self, keys: Arc<OpenKeys>, reset_sequence: bool) {
        self.keys = keys;
        self.position.new_keys(reset_sequence);
        if let ReadState::Packet { .. } = self.state {
            // The length was read with the previous keys; the unread bytes are unchanged.
            self.state = ReadState::Start;
        }
    }

    /// Returns the number of bytes present of an incomplete packet whose length is known; `None` if
    /// there is no such packet.
    #[must_use]
    pub fn unfinished_bytes(&self) -> Option<usize> {
        let present = self.slab.unread().len();
        match self.state {
            ReadState::Packet { wire_bytes } if present < wire_bytes => Some(present),
            ReadState::Failing { wire_bytes } => {
                Some(self.most_wire_bytes().saturating_sub(wire_bytes))
            }
            _ => None,
        }
    }

    /// Returns true if the peer has used these keys up to the limit of RFC 4344 §3, so that new
    /// ones are due.
    #[must_use]
    pub fn must_rekey(&self) -> bool {
        self.position.must_rekey(self.keys.rekey_bytes())
    }

    /// Bytes that arrived and belong to no split packet, still encrypted.
    #[must_use]
    pub fn unread(&self) -> &[u8] {
        self.slab.unread()
    }

    /// The sequence number of the next packet, and the counters since the last
    /// [`Splitter::set_keys`]. Another process needs them, the keys and the
    /// [unread](Splitter::unread) bytes to continue.
    #[must_use]
    pub fn position(&self) -> Position {
        self.position
    }

    #[cfg(test)]
    pub(crate) fn moved_bytes(&self) -> usize {
        self.slab.moved_bytes()
    }

    fn stamp(&mut self) -> Result<Stamp, PacketError> {
        self.position.stamp().ok_or_else(|| {
            self.state = ReadState::Failed(PacketError::SequenceExhausted);
            PacketError::SequenceExhausted
        })
    }

    /// Checks a claimed `packet_length` and returns the next state.
    fn check_length(&self, length: u32) -> ReadState {
        let framing = self.keys.framing();
        let error = match usize::try_from(length) {
            Ok(bytes) if (framing.min_packet_length()..=MAX_PACKET_BYTES).contains(&bytes) => {
                if framing.is_aligned(bytes) {
                    return ReadState::Packet {
                        wire_bytes: LENGTH_BYTES + bytes + framing.tag_bytes,
                    };
                }
                PacketError::NotBlockAligned
            }
            _ => PacketError::LengthOutOfRange {
                length_bytes: length,
            },
        };
        if !self.keys.encrypts_length() {
            ReadState::Failed(error)
        } else if self.keys.chains() {
            ReadState::Failing {
                wire_bytes: self.most_wire_bytes(),
            }
        } else {
            ReadState::Failed(PacketError::IntegrityFailed)
        }
    }

    /// Length of the longest packet with its MAC, in bytes.
    fn most_wire_bytes(&self) -> usize {
        LENGTH_BYTES + MAX_PACKET_BYTES + self.keys.framing().tag_bytes
    }

    /// Cuts off a packet that has arrived; `None` if it is a wrong one of which that is not told
    /// yet.
    fn split_packet(&mut self, wire_bytes: usize) -> Result<Option<OpenJob>, PacketError> {
        let stamp = self.stamp()?;
        let framing = self.keys.framing();
        let packet_bytes = wire_bytes - framing.tag_bytes;
        let mut job = OpenJob {
            packet: self.slab.unread_mut().split_to(wire_bytes),
            keys: Arc::clone(&self.keys),
            stamp,
            copy_on_keep: self.slab.is_scarce(),
        };
        if self.keys.chains() {
            match job.open_chained(self.position.chain()) {
                Ok(last_block) => self.position.last_block = last_block.unwrap_or_default(),
                Err(error) => {
                    self.state = if self.keys.encrypts_length() {
                        ReadState::Failing {
                            wire_bytes: self.most_wire_bytes().saturating_sub(wire_bytes),
                        }
                    } else {
                        ReadState::Failed(error)
                    };
                    return Ok(None);
                }
            }
        }
        self.position
            .advance(packet_bytes, framing.blocks(packet_bytes - LENGTH_BYTES));
        self.state = ReadState::Start;
        if wire_bytes >= BULK_PACKET_BYTES {
            self.bulk_packet_bytes = wire_bytes;
        }
        Ok(Some(job))
    }
}

impl Default for Splitter {
    fn default() -> Self {
        Self::new()
    }
}
