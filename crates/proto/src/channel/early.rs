//! A channel asked for before the login is known to have succeeded, and what is sent on it before
//! it is confirmed: it saves the round trips between login, open and request.
//!
//! Which servers read on is the owner's knowledge. A server that refuses the login answers each of
//! these packets with UNIMPLEMENTED and its sequence number, passes them over, or ends the
//! connection.

use wire::message::ChannelData;

use super::window::{LEAST_WINDOW_BYTES, MAX_DATA_BYTES};
use super::{Channels, Half, State, index};
use crate::transport::{Ahead, Transport};
use crate::{ChannelId, Error, Event};

/// Data that may go ahead of a channel's confirmation, bytes: one message that every server of ours
/// takes, and half of the least window that it gives to a channel.
pub(crate) const MAX_EARLY_DATA_BYTES: u32 = MAX_DATA_BYTES;
const _: () = assert!(MAX_EARLY_DATA_BYTES <= LEAST_WINDOW_BYTES / 2);

/// The channel that was asked for ahead.
#[derive(Debug, Default)]
pub(crate) struct Early {
    channel: Option<ChannelId>,
    /// Something was sent on it before it was confirmed.
    followed: bool,
    /// Data that were sent on it before it was confirmed, bytes: its window does not know of them.
    data_bytes: u32,
    /// The channel was confirmed under another number than the packets went to.
    missed: bool,
}

impl Early {
    pub(super) fn begin(&mut self, id: ChannelId) {
        *self = Self {
            channel: Some(id),
            ..Self::default()
        };
    }

    /// A packet follows the CHANNEL_OPEN.
    pub(super) fn follow(&mut self) {
        self.followed = true;
    }

    /// The number may stand for another channel from now on.
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
    /// As [`Channels::open`], ahead of the login. Only the first channel of a connection can be:
    /// the number that the server will give it is known for that one alone.
    pub(crate) fn open_early(
        &mut self,
        transport: &mut Transport,
        kind: &str,
        fields: &[u8],
    ) -> Result<ChannelId, Error> {
        if self.count() > 0 {
            return Err(Error::Misuse("one channel is opened early"));
        }
        self.send_open(transport, kind, fields, true)
    }

    pub(crate) fn early(&self) -> Option<ChannelId> {
        self.early.channel
    }

    pub(crate) fn heard_early(&self, id: ChannelId) -> bool {
        self.early.is(id) && !self.early.missed
    }

    /// No request of the login succeeded: nobody took notice of what followed them. The numbers
    /// stay known, since the answers to the packets are still on their way.
    pub(crate) fn forget_early(&mut self) {
        if let Some(id) = self.early.channel {
            self.remove(id);
        }
    }

    /// Sends data on the early channel, before the server has said that there is one, and how much
    /// it takes.
    pub(crate) fn send_early(
        &mut self,
        transport: &mut Transport,
        id: ChannelId,
        data: &[u8],
    ) -> Result<(), Error> {
        let is_early = self.early.is(id);
        let channel = self.by_id(id)?;
        if !is_early || channel.state != State::Opening || channel.sending != Half::Open {
            return Err(Error::Misuse("data ahead of a channel that takes none"));
        }
        if !transport.is_fulmar_peer() {
            return Err(Error::Misuse("a server whose first window is not known"));
        }
        let recipient_channel = channel.remote;
        let all = u32::try_from(data.len())
            .ok()
            .and_then(|len| self.early.data_bytes.checked_add(len))
            .filter(|all| *all <= MAX_EARLY_DATA_BYTES)
            .ok_or(Error::Misuse("more data than may go ahead"))?;
        self.early.data_bytes = all;
        self.early.follow();
        let data = ChannelData {
            recipient_channel,
            data,
        };
        transport.send_message_ahead(&data, Ahead::Other)
    }

    /// The channel is confirmed, and its window pays for the data that went ahead. Where the server
    /// gave it another number, what was sent on it went nowhere, and the owner sends it again.
    pub(super) fn confirm_early(
        &mut self,
        transport: &mut Transport,
        id: ChannelId,
    ) -> Result<(), Error> {
        if !self.early.is(id) {
            return Ok(());
        }
        transport.sent_ahead.settle(Ahead::Open);
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
        paid.map_err(|_| Error::PeerMisbehaved("a first window smaller than that of any Fulmar"))
    }

    /// The server has not understood a packet that was sent ahead. Where it mattered, since the
    /// login has succeeded, that is told.
    pub(crate) fn unheard(&mut self, transport: &mut Transport, kind: Ahead) {
        let Some(id) = self.early.channel.filter(|_| transport.authenticated) else {
            return;
        };
        let Some(Some(channel)) = self.slots.get_mut(index(id)) else {
            return;
        };
        match kind {
            Ahead::Open if channel.state == State::Opening => {
                self.forget_early();
                transport.events.push_back(Event::ChannelUnheard(id));
            }
            Ahead::Request { want_reply: true } if !self.early.missed => {
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
