//! [`Sequencer`]: the serial, cheap step of sending. It frames each packet and fixes the values
//! that depend on earlier packets; the expensive work is in [`SealJob::run`].

use alloc::sync::Arc;

use crate::buf::PacketBuf;
use crate::error::StampError;
use crate::keys::SealKeys;
use crate::padding::PaddingSource;
use crate::position::Position;
use crate::seal::SealJob;
use crate::{LENGTH_BYTES, MAX_PACKET_BYTES};

/// Stamps the packets of one direction in the order in which they are sent.
#[derive(Debug)]
pub struct Sequencer {
    pub(crate) position: Position,
    keys: Arc<SealKeys>,
    padding: PaddingSource,
}

impl Sequencer {
    /// The state before the first NEWKEYS: sequence number 0, no keys. Seeds the padding from the
    /// kernel.
    #[must_use]
    pub fn new() -> Self {
        Self::with_padding(PaddingSource::random())
    }

    /// As [`Sequencer::new`], but with padding derived from `seed`, for tests and recorded
    /// transcripts.
    #[must_use]
    pub fn with_padding_seed(seed: [u8; 32]) -> Self {
        Self::with_padding(PaddingSource::from_seed(seed))
    }

    /// As [`Sequencer::new`], for a connection that a master shares in proxy mode
    /// ([`Keys::shared`](crate::SealKeys)).
    #[must_use]
    pub fn shared() -> Self {
        let mut this = Self::new();
        this.keys = Arc::new(SealKeys::shared());
        this
    }

    fn with_padding(padding: PaddingSource) -> Self {
        Self {
            position: Position::default(),
            keys: Arc::new(SealKeys::none()),
            padding,
        }
    }

    /// Frames the payload of `buf` and assigns the next sequence number.
    ///
    /// # Errors
    /// [`StampError`]; the sequence number is then not used up.
    pub fn stamp(&mut self, mut buf: PacketBuf) -> Result<SealJob, StampError> {
        if buf.is_empty() {
            return Err(StampError::EmptyPayload);
        }
        let framing = self.keys.framing();
        let padding = framing.padding_length(buf.len(), buf.concealed_to());
        let packet_bytes = framing.packet_length(buf.len(), padding);
        let packet_length = match u32::try_from(packet_bytes) {
            Ok(length) if packet_bytes <= MAX_PACKET_BYTES => length,
            _ => return Err(StampError::PayloadTooLong),
        };
        let stamp = self.position.stamp().ok_or(StampError::SequenceExhausted)?;
        self.padding.fill(buf.frame(packet_length, padding));
        let mut job = SealJob::new(buf, Arc::clone(&self.keys), stamp);
        if self.keys.chains()
            && let Some(last_block) = job.seal_chained(self.position.chain())
        {
            self.position.last_block = last_block;
        }
        self.position
            .advance(LENGTH_BYTES + packet_bytes, framing.blocks(packet_bytes));
        Ok(job)
    }

    /// Starts a new epoch with the next packet, to be called once NEWKEYS is stamped. Resets the
    /// counters; `reset_sequence` resets the sequence number too (strict key exchange).
    pub fn set_keys(&mut self, keys: Arc<SealKeys>, reset_sequence: bool) {
        self.keys = keys;
        self.position.new_keys(reset_sequence);
    }

    /// Returns true if the cipher's block limit or the packet count (RFC 4344 §3) requires new
    /// keys, regardless of configured limits. Becomes true long before
    /// [`StampError::SequenceExhausted`].
    #[must_use]
    pub fn must_rekey(&self) -> bool {
        self.position.must_rekey(self.keys.rekey_bytes())
    }

    /// The sequence number of the next packet, and the counters since the last
    /// [`Sequencer::set_keys`]. Another process needs them and the keys to continue.
    #[must_use]
    pub fn position(&self) -> Position {
        self.position
    }

    /// Continues from the counters of [`Sequencer::position`], with the same keys.
    #[must_use]
    pub fn import(state: Position, keys: Arc<SealKeys>) -> Self {
        Self {
            position: state,
            keys,
            padding: PaddingSource::random(),
        }
    }
}

impl Default for Sequencer {
    fn default() -> Self {
        Self::new()
    }
}
