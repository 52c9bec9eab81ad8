//! The early channel: a client opens it, and sends on it, before the login is known to have
//! succeeded and before the server confirms it. This saves the round trips between login, open and
//! request.
//!
//! The owner knows which servers support this. A server that refuses the login answers each of
//! these packets with UNIMPLEMENTED and its sequence number, ignores them, or ends the connection.

use wire::message::ChannelData;

use super::Channels;
use crate::transport::{PipelinedPacket, Transport};
use crate::{ChannelId, Error, Event};

impl Channels {
    /// Like [`Channels::open`], but before the login is confirmed. Only the first channel of a
    /// connection can be early: only for that one is the server's channel number known.
    pub(crate) fn open_early(
        &mut self,
        transport: &mut Transport,
        kind: &str,
        fields: &[u8],
    ) -> Result<ChannelId, Error> {
        if self.count() > 0 {
            return Err(Error::Misuse("only the first channel can be opened early"));
        }
        self.send_open(transport, kind, fields, (true, 0))
    }

    pub(crate) fn early(&self) -> Option<ChannelId> {
        self.early.channel()
    }

    pub(crate) fn heard_early(&self, id: ChannelId) -> bool {
        self.early.is(id) && !self.early.is_missed()
    }

    /// Removes the early channel after all login requests failed: the server ignored the packets
    /// that followed them. Their sequence numbers stay known, since answers to them are still in
    /// flight.
    pub(crate) fn forget_early(&mut self) {
        if let Some(id) = self.early.channel() {
            self.remove(id);
        }
    }

    /// Sends data on the early channel before the server has confirmed it and announced its window.
    pub(crate) fn send_early(
        &mut self,
        transport: &mut Transport,
        id: ChannelId,
        data: &[u8],
    ) -> Result<(), Error> {
        let channel = self.table.commanded(id)?;
        if !self.early.is(id) || !channel.sends_early() {
            return Err(Error::Misuse(
                "early data on a channel that does not accept it",
            ));
        }
        if !transport.versions.peer_quirks().is_fulmar {
            return Err(Error::Misuse(
                "early data to a server whose first window is unknown",
            ));
        }
        let kind = self.early.follow_data(data.len())?;
        let recipient_channel = channel.remote();
        let data = ChannelData {
            recipient_channel,
            data,
        };
        transport.send_message_ahead(&data, Some(kind))
    }

    /// Confirms the channel and charges the early data to its window. If the server assigned
    /// another channel number, the early packets were lost, and the owner sends them again.
    pub(super) fn confirm_early(
        &mut self,
        transport: &mut Transport,
        id: ChannelId,
    ) -> Result<(), Error> {
        if !self.early.is(id) {
            return Ok(());
        }
        transport
            .outbound
            .sent_ahead()
            .settle(PipelinedPacket::Open);
        let Some(channel) = self.table.get_mut(id) else {
            return Ok(());
        };
        let Some(bytes) = self.early.confirm(channel.remote()) else {
            channel.forget_early();
            return Ok(());
        };
        let paid = channel.send.charge(bytes);
        paid.map_err(|_| Error::PeerMisbehaved("first window smaller than every Fulmar grants"))
    }

    /// Handles UNIMPLEMENTED for an early packet. Once the login has succeeded, the owner is
    /// notified if the packet mattered.
    pub(crate) fn handle_unimplemented(
        &mut self,
        transport: &mut Transport,
        kind: PipelinedPacket,
    ) {
        let Some(id) = self.early.channel().filter(|_| transport.authenticated) else {
            return;
        };
        let Some(channel) = self.table.get_mut(id) else {
            return;
        };
        match kind {
            PipelinedPacket::Open if channel.is_opening() => {
                self.forget_early();
                transport.events.push_back(Event::ChannelUnheard(id));
            }
            PipelinedPacket::Request { want_reply: true }
                if !self.early.is_missed() && channel.settle_request() =>
            {
                transport.events.push_back(Event::ChannelReply {
                    channel: id,
                    success: false,
                });
            }
            _ => {}
        }
    }
}
