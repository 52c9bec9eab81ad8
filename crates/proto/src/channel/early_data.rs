//! Data that follows CHANNEL_OPEN (docs/PROTOCOL.md, early-data): it saves the round trip to the
//! peer's answer. The opener does not know the peer's number of the channel yet, and names it by its
//! own number with the highest bit set. Numbers of ours never have that bit.
//!
//! The receiver holds the data back until its owner accepts the channel, so that an owner knows of it
//! only then, and drops it if the owner refuses. Data for a channel that is gone is dropped: it was sent
//! before the refusal arrived. All messages of a channel reach the peer in order, and a number
//! is used again only after the answer, so such data never reaches a later channel.
//!
//! `early` and `optimistic` have the first channel of a connection, whose number is known.

use bytes::Bytes;

use super::Channels;
use super::held_data::{EARLY_ADDRESS, EARLY_DATA_BYTES};
use super::record::ChannelRecord;
use super::table::ChannelTable;
use crate::transport::Transport;
use crate::{ChannelId, Error, Event, Stream};

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
