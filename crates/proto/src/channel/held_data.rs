//! What a channel keeps of early data until its owner accepts it ([`super::early_data`] says when that
//! happens).

use alloc::vec::Vec;

use super::window::CROWD_WINDOW_BYTES;
use crate::Error;
pub(super) use crate::limits::EARLY_DATA_BYTES;
use crate::request::Request;

/// The bit of a recipient's number that says: this is the sender's number of the channel.
pub(super) const EARLY_ADDRESS: u32 = 1 << 31;
const _: () = assert!(EARLY_DATA_BYTES <= CROWD_WINDOW_BYTES);

/// Maximum requests that are held.
const MAX_HELD_REQUESTS: usize = 512;

/// What the peer sent on a channel that the owner has not accepted.
#[derive(Debug, Default)]
pub(super) struct HeldData {
    /// Requests, each with its wish for a reply.
    pub(super) requests: Vec<(Request, bool)>,
    /// Bytes of the requests' messages.
    request_bytes: usize,
    pub(super) bytes: Vec<u8>,
    pub(super) has_ended: bool,
}

impl HeldData {
    /// Holds data.
    ///
    /// # Errors
    /// [`Error::PeerMisbehaved`] beyond the limit that we announce.
    pub(super) fn push(&mut self, data: &[u8]) -> Result<(), Error> {
        let total = self.bytes.len().saturating_add(data.len());
        if u32::try_from(total).map_or(true, |total| total > EARLY_DATA_BYTES) {
            return Err(Error::PeerMisbehaved("more early data than announced"));
        }
        self.bytes.extend_from_slice(data);
        Ok(())
    }

    /// Holds a request of `bytes` bytes.
    ///
    /// # Errors
    /// [`Error::PeerMisbehaved`] after data, and beyond the limits: 512 requests, and as many bytes as
    /// of data.
    pub(super) fn push_request(
        &mut self,
        request: Request,
        want_reply: bool,
        bytes: usize,
    ) -> Result<(), Error> {
        self.request_bytes = self.request_bytes.saturating_add(bytes);
        let is_long = self.request_bytes > EARLY_DATA_BYTES as usize;
        if is_long || self.requests.len() >= MAX_HELD_REQUESTS {
            return Err(Error::PeerMisbehaved("more early requests than permitted"));
        }
        if !self.bytes.is_empty() || self.has_ended {
            return Err(Error::PeerMisbehaved("an early request after early data"));
        }
        self.requests.push((request, want_reply));
        Ok(())
    }

    /// Holds EOF.
    pub(super) fn end(&mut self) {
        self.has_ended = true;
    }
}
