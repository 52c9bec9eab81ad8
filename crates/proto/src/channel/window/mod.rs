//! Flow control, RFC 4254 §5.2: what the peer may still send, and when it is told that it may
//! send more. A WINDOW_ADJUST follows the sink, never the arrival.
//!
//! [`ReceiveWindow`] follows twice what its sink takes in one round trip; how that is measured
//! is in [`drain`], how long a round trip takes in [`path`], and how much all windows of a
//! connection may be worth together in [`memory`].

use crate::Error;

mod drain;
mod memory;
mod path;
mod receive;
#[cfg(test)]
mod tests;

pub(crate) use memory::Memory;
pub(crate) use path::Path;
pub(crate) use receive::ReceiveWindow;

/// Bytes that a peer may send on a new channel before we say more, while there is memory.
pub(crate) const FIRST_WINDOW_BYTES: u32 = 2 * 1024 * 1024;
/// The least that a channel is worth opening with, bytes: two packets of 32 KiB under way.
pub(crate) const LEAST_WINDOW_BYTES: u32 = 64 * 1024;
/// Longest data in one message that we accept, bytes.
pub(crate) const MAX_DATA_BYTES: u32 = 32 * 1024;
/// The same for a peer of our own kind, which reads packets of any size in place.
pub(crate) const MAX_DATA_BYTES_FULMAR: u32 = 64 * 1024;

/// The sending side of one channel.
#[derive(Debug)]
pub(crate) struct SendWindow {
    open: u32,
    max_data: u32,
}

impl SendWindow {
    /// The peer's maximum packet is believed as far as our own buffers go: some name 2^32 - 1.
    pub(crate) fn new(open: u32, max_data: u32) -> Self {
        Self {
            open,
            max_data: max_data.min(MAX_DATA_BYTES_FULMAR),
        }
    }

    /// WINDOW_ADJUST; says whether the window was closed before.
    ///
    /// # Errors
    /// [`Error::PeerMisbehaved`] past 2^32 − 1 (RFC 4254 §5.2).
    pub(crate) fn adjust(&mut self, bytes: u32) -> Result<bool, Error> {
        let was_closed = self.open == 0;
        self.open = self
            .open
            .checked_add(bytes)
            .ok_or(Error::PeerMisbehaved("window grows past 2^32 - 1"))?;
        Ok(was_closed && bytes > 0)
    }

    /// Bytes that one message of at most `most` may carry now.
    pub(crate) fn space(&self, most: usize) -> usize {
        usize::try_from(self.open).map_or(0, |open| open.min(self.max_data(most)))
    }

    /// Bytes that messages of at most `most` may carry now where `bytes` are wanted, or a little
    /// more: whole messages as long as the window is open.
    pub(crate) fn room(&self, bytes: usize, most: usize) -> usize {
        let whole = bytes.next_multiple_of(self.max_data(most).max(1));
        usize::try_from(self.open).map_or(whole, |open| open.min(whole))
    }

    /// Longest data of a message, where we send at most `most`.
    pub(crate) fn max_data(&self, most: usize) -> usize {
        usize::try_from(self.max_data).map_or(most, |max_data| max_data.min(most))
    }

    /// Charges what is sent.
    pub(crate) fn charge(&mut self, len: usize) -> Result<(), Error> {
        let open = u32::try_from(len)
            .ok()
            .and_then(|len| self.open.checked_sub(len));
        self.open = open.ok_or(Error::Misuse("more data than the window allows"))?;
        Ok(())
    }
}
