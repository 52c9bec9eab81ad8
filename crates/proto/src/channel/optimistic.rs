//! The early channel: a client opens it, and sends on it, before the login is known to have
//! succeeded and before the server confirms it. This saves the round trips between login, open and
//! request.
//!
//! The owner knows which servers support this. A server that refuses the login answers each of
//! these packets with UNIMPLEMENTED and its sequence number, ignores them, or ends the connection.

use wire::message::ChannelData;

use super::window::{LEAST_WINDOW_BYTES, MAX_DATA_BYTES};
use super::{ChannelState, Channels, Half, index};
use crate::transport::{PipelinedPacket, Transport};
use crate::{ChannelId, Error, Event};

/// Maximum data sent before a channel is confirmed, bytes: one message that every Fulmar server
/// accepts, and half of the smallest window that it grants to a channel.
pub(crate) const MAX_EARLY_DATA_BYTES: u32 = MAX_DATA_BYTES;
const _: () = assert!(MAX_EARLY_DATA_BYTES <= LEAST_WINDOW_BYTES / 2);

/// State of the early channel.
#[derive(Debug, Default)]
pub(crate) struct Early {
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

    /// Records that a packet follows CHANNEL_OPEN.
    pub(super) fn follow(&mut self) {
        self.followed = true;
    }

    /// Forgets the channel, as its number may be reused.
    pub(super) fn end(&mut self, id: ChannelId) {
        if self.is(id) {
            self.channel = None;
        }
    }

    pub(super) fn is(&self, id: ChannelId) -> bool {
        self.channel == Some(id)
    }
}

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
        self.send_open(transport, kind, fields, true)
    }

    pub(crate) fn early(&self) -> Option<ChannelId> {
        self.early.channel
    }

    pub(crate) fn heard_early(&self, id: ChannelId) -> bool {
        self.early.is(id) && !self.early.missed
    }

    /// Removes the early channel after all login requests failed: the server ignored the packets
    /// that followed them. Their sequence numbers stay known, since answers to them are still in
    /// flight.
    pub(crate) fn forget_early(&mut self) {
        if let Some(id) = self.early.channel {
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
        let is_early = self.early.is(id);
        let channel = self.by_id(id)?;
        if !is_early || channel.state != ChannelState::Opening || channel.sending != Half::Open {
            return Err(Error::Misuse(
                "early data on a channel that does not accept it",
            ));
        }
        if !transport.is_fulmar_peer() {
            return Err(Error::Misuse(
                "early data to a server whose first window is unknown",
            ));
        }
        let recipient_channel = channel.remote;
        let all = u32::try_from(data.len())
            .ok()
            .and_then(|len| self.early.data_bytes.checked_add(len))
            .filter(|all| *all <= MAX_EARLY_DATA_BYTES)
            .ok_or(Error::Misuse("too much early data"))?;
        self.early.data_bytes = all;
        self.early.follow();
        let data = ChannelData {
            recipient_channel,
            data,
        };
        transport.send_message_ahead(&data, PipelinedPacket::Other)
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
        transport.sent_ahead.settle(PipelinedPacket::Open);
        let Some(Some(channel)) = self.slots.get_mut(index(id)) else {
            return Ok(());
        };
        if channel.remote != 0 && self.early.followed {
            channel.open_requests = 0;
            channel.sending = Half::Open;
            self.early.missed = true;
            return Ok(());
        }
        let bytes = usize::try_from(self.early.data_bytes).unwrap_or(usize::MAX);
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
        let Some(id) = self.early.channel.filter(|_| transport.authenticated) else {
            return;
        };
        let Some(Some(channel)) = self.slots.get_mut(index(id)) else {
            return;
        };
        match kind {
            PipelinedPacket::Open if channel.state == ChannelState::Opening => {
                self.forget_early();
                transport.events.push_back(Event::ChannelUnheard(id));
            }
            PipelinedPacket::Request { want_reply: true } if !self.early.missed => {
                if let Some(rest) = channel.open_requests.checked_sub(1) {
                    channel.open_requests = rest;
                    transport.events.push_back(Event::ChannelReply {
                        channel: id,
                        success: false,
                    });
                }
            }
            _ => {}
        }
    }
}
