//! State of the early channel (`optimistic`): which one it is, and what was sent on it
//! before the server confirmed it.

use super::window::{LEAST_WINDOW_BYTES, MAX_DATA_BYTES};
use crate::transport::PipelinedPacket;
use crate::{ChannelId, Error};

/// Maximum data sent before a channel is confirmed, bytes: one message that every Fulmar server
/// accepts, and half of the smallest window that it grants to the first channel of a connection.
const MAX_EARLY_DATA_BYTES: u32 = MAX_DATA_BYTES;
const _: () = assert!(MAX_EARLY_DATA_BYTES <= LEAST_WINDOW_BYTES / 2);

/// State of the early channel.
#[derive(Debug, Default)]
pub(super) struct Early {
    channel: Option<ChannelId>,
    /// A packet was sent on it before it was confirmed.
    followed: bool,
    /// Data sent on it before it was confirmed, bytes; not yet charged to its window.
    data_bytes: u32,
    /// The server gave the channel another number than the early packets used.
    missed: bool,
}

impl Early {
    pub(super) fn begin(&mut self, id: ChannelId) {
        *self = Self {
            channel: Some(id),
            ..Self::default()
        };
    }

    /// Records that a packet of this kind follows CHANNEL_OPEN; returns the kind.
    pub(super) fn follow(&mut self, kind: PipelinedPacket) -> PipelinedPacket {
        self.followed = true;
        kind
    }

    /// Records that `len` bytes of data follow CHANNEL_OPEN.
    ///
    /// # Errors
    /// [`Error::Misuse`] if they exceed the limit.
    pub(super) fn follow_data(&mut self, len: usize) -> Result<PipelinedPacket, Error> {
        self.data_bytes = u32::try_from(len)
            .ok()
            .and_then(|len| self.data_bytes.checked_add(len))
            .filter(|all| *all <= MAX_EARLY_DATA_BYTES)
            .ok_or(Error::Misuse("too much early data"))?;
        Ok(self.follow(PipelinedPacket::Other))
    }

    /// Records that the server confirmed the channel under its number `remote`. Returns the bytes of
    /// early data that have arrived, or `None` if the packets named another number and were lost.
    pub(super) fn confirm(&mut self, remote: u32) -> Option<usize> {
        self.missed = remote != 0 && self.followed;
        (!self.missed).then(|| usize::try_from(self.data_bytes).unwrap_or(usize::MAX))
    }

    /// Forgets the channel, as its number may be reused.
    pub(super) fn end(&mut self, id: ChannelId) {
        if self.is(id) {
            self.channel = None;
        }
    }

    pub(super) fn channel(&self) -> Option<ChannelId> {
        self.channel
    }

    pub(super) fn is(&self, id: ChannelId) -> bool {
        self.channel == Some(id)
    }

    /// Returns true if the early packets named another channel than the server's.
    pub(super) fn is_missed(&self) -> bool {
        self.missed
    }
}
