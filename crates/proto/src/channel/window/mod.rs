//! Flow control, RFC 4254 §5.2: how much the peer may send, and when it gets more window.
//! WINDOW_ADJUST is sent when the sink has consumed data, not when data arrives.
//!
//! The size of [`ReceiveWindow`] is twice the bytes that its sink consumes in one round trip.
//! [`drain`] measures that speed, [`path`] the round trip, and [`memory`] limits the total of a
//! connection's windows. While a user types beside bulk data ([`typing`]), less is granted.

use crate::Error;

mod drain;
mod memory;
mod outstanding;
mod path;
mod receive;
#[cfg(test)]
mod tests;
mod typing;

pub(crate) use memory::Memory;
pub(crate) use outstanding::{Outstanding, OutstandingBound};
pub(crate) use path::RoundTripEstimate;
pub(crate) use receive::ReceiveWindow;
pub(crate) use typing::Typing;

pub(crate) use crate::limits::{LEAST_WINDOW_BYTES, MAX_DATA_BYTES};

/// Initial receive window of a channel if memory suffices, bytes.
pub(crate) const FIRST_WINDOW_BYTES: u32 = 2 * 1024 * 1024;
/// Smallest initial receive window of a channel among many others, bytes: one packet of 32 KiB. It grows
/// with use as any.
pub(crate) const CROWD_WINDOW_BYTES: u32 = 32 * 1024;
/// [`MAX_DATA_BYTES`] for a Fulmar peer, which processes packets of any size in place.
pub(crate) const MAX_DATA_BYTES_FULMAR: u32 = 64 * 1024;

/// Send window of one channel.
#[derive(Debug)]
pub(crate) struct SendWindow {
    open: u32,
    max_data: u32,
}

impl SendWindow {
    /// Creates the window. The peer's maximum packet size is capped at our own buffer size: some
    /// peers announce 2^32 - 1.
    pub(crate) fn new(open: u32, max_data: u32) -> Self {
        Self {
            open,
            max_data: max_data.min(MAX_DATA_BYTES_FULMAR),
        }
    }

    /// Applies WINDOW_ADJUST; returns true if the window was closed and is open now.
    ///
    /// # Errors
    /// [`Error::PeerMisbehaved`] if the window exceeds 2^32 − 1 (RFC 4254 §5.2).
    pub(crate) fn adjust(&mut self, bytes: u32) -> Result<bool, Error> {
        let was_closed = self.open == 0;
        self.open = self
            .open
            .checked_add(bytes)
            .ok_or(Error::PeerMisbehaved("window grows past 2^32 - 1"))?;
        Ok(was_closed && bytes > 0)
    }

    /// The window and the maximum packet size, as they are now.
    pub(crate) fn announced(&self) -> (u32, u32) {
        (self.open, self.max_data)
    }

    /// Bytes that the peer accepts now.
    pub(crate) fn open_bytes(&self) -> usize {
        usize::try_from(self.open).unwrap_or(usize::MAX)
    }

    /// Bytes that one message of at most `most` bytes may carry now.
    pub(crate) fn space(&self, most: usize) -> usize {
        usize::try_from(self.open).map_or(0, |open| open.min(self.max_data(most)))
    }

    /// Bytes that messages of at most `most` bytes may carry now: `bytes`, rounded up to whole
    /// messages as far as the window allows.
    pub(crate) fn room(&self, bytes: usize, most: usize) -> usize {
        let whole = bytes.next_multiple_of(self.max_data(most).max(1));
        usize::try_from(self.open).map_or(whole, |open| open.min(whole))
    }

    /// Maximum data of one message if we send at most `most` bytes.
    pub(crate) fn max_data(&self, most: usize) -> usize {
        usize::try_from(self.max_data).map_or(most, |max_data| max_data.min(most))
    }

    /// Charges sent data.
    pub(crate) fn charge(&mut self, len: usize) -> Result<(), Error> {
        let open = u32::try_from(len)
            .ok()
            .and_then(|len| self.open.checked_sub(len));
        self.open = open.ok_or(Error::Misuse("more data than the window allows"))?;
        Ok(())
    }
}
