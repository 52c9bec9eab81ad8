//! Data that follows CHANNEL_OPEN (docs/PROTOCOL.md, early-data): it saves the round trip to the
//! peer's answer. The opener does not know the peer's number of the channel yet, and names it by its
//! own number with the highest bit set. Numbers of ours never have that bit.
//!
//! The receiver holds the data back until its owner accepts the channel, so that an owner knows of it
//! only then, and drops it if the owner refuses. Data for a channel that is gone is dropped: it was sent
//! before the refusal arrived. All messages of a channel reach the peer in order, and a number
//! is used again only after the answer, so such data never reaches a later channel.
//!
//! A server takes requests in the same way (early-requests), so that a command starts with the channel.
//! They precede the data.
//!
//! `early` and `optimistic` have the first channel of a connection, whose number is known.

use alloc::vec::Vec;

use bytes::Bytes;

use super::record::ChannelRecord;
use super::table::ChannelTable;
use super::window::{LEAST_WINDOW_BYTES, MAX_DATA_BYTES};
use super::{Channels, Request};
use crate::transport::Transport;
use crate::{ChannelId, Error, Event, Stream};

/// The bit of a recipient's number that says: this is the sender's number of the channel.
pub(super) const EARLY_ADDRESS: u32 = 1 << 31;
/// Maximum data before the answer that we accept and send, bytes: it is copied out of the receive
/// slabs, and counts against the first window.
pub(crate) const EARLY_DATA_BYTES: u32 = MAX_DATA_BYTES;
const _: () = assert!(EARLY_DATA_BYTES <= LEAST_WINDOW_BYTES);

/// Maximum requests that are held, and bytes of them that we send.
const MAX_HELD_REQUESTS: usize = 512;

/// What the peer sent on a channel that the owner has not accepted.
#[derive(Debug, Default)]
pub(super) struct HeldData {
    /// Requests, each with its wish for a reply.
    requests: Vec<(Request, bool)>,
    /// Bytes of the requests' messages.
    request_bytes: usize,
    bytes: Vec<u8>,
    has_ended: bool,
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

    /// The data, and whether EOF follows.
    pub(super) fn into_parts(self) -> (Vec<u8>, bool) {
        (self.bytes, self.has_ended)
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

impl ChannelTable {
    /// The channel to which a peer's data or EOF is addressed; `None` if the message is to be
    /// dropped. True if it names the peer's number.
    ///
    /// # Errors
    /// Those of [`ChannelTable::addressed`] and [`ChannelTable::opened_by_peer`].
    pub(super) fn addressed_early(
        &mut self,
        number: u32,
    ) -> Result<Option<(ChannelId, &mut ChannelRecord, bool)>, Error> {
        let is_early = number & EARLY_ADDRESS != 0;
        let number = match is_early {
            false => number,
            true => match self.opened_by_peer(number & !EARLY_ADDRESS)? {
                Some(id) => id.0,
                None => return Ok(None),
            },
        };
        let found = self.find_addressed(number, is_early)?;
        Ok(found.map(|(id, channel)| (id, channel, is_early)))
    }
}

impl Channels {
    /// Opens a channel on which data and EOF may be sent before the peer's answer, if the peer has
    /// announced that.
    pub(crate) fn open_with_data(
        &mut self,
        transport: &mut Transport,
        kind: &str,
        fields: &[u8],
    ) -> Result<ChannelId, Error> {
        let early_bytes = transport.extensions.early_data.min(EARLY_DATA_BYTES);
        self.send_open(transport, kind, fields, (false, early_bytes))
    }

    /// Opens a channel on which requests, data and EOF may be sent before the peer's answer, if the
    /// peer has announced both.
    pub(crate) fn open_with_requests(
        &mut self,
        transport: &mut Transport,
        kind: &str,
        fields: &[u8],
    ) -> Result<ChannelId, Error> {
        match transport.extensions.early_requests {
            true => self.open_with_data(transport, kind, fields),
            false => self.open(transport, kind, fields),
        }
    }

    /// Returns true if the peer has not answered our CHANNEL_OPEN, and takes data before it does.
    pub(crate) fn takes_early_data(&self, id: ChannelId) -> bool {
        let channel = self.table.get(id);
        channel.is_some_and(ChannelRecord::is_opening_with_data)
    }

    /// Passes what was held to the owner, who has accepted the channel.
    pub(super) fn release_held(&mut self, transport: &mut Transport, id: ChannelId) {
        let channel = self.table.get_mut(id);
        let Some(held) = channel.and_then(ChannelRecord::take_held) else {
            return;
        };
        for (request, want_reply) in held.requests {
            if want_reply && let Some(channel) = self.table.get_mut(id) {
                // Fewer are held than may be owed.
                let _ = channel.owe_reply();
            }
            transport.events.push_back(Event::ChannelRequest {
                channel: id,
                request,
                want_reply,
            });
        }
        if !held.bytes.is_empty() {
            transport.events.push_back(Event::ChannelData {
                channel: id,
                stream: Stream::Data,
                data: Bytes::from(held.bytes),
            });
        }
        if held.has_ended {
            transport.events.push_back(Event::ChannelEof(id));
        }
    }
}
