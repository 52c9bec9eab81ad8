//! A channel asked for before the login is known to have succeeded, and what is sent on it before
//! it is confirmed: it saves the round trips between login, open and request.
//!
//! Which servers read on is the owner's knowledge. A server that refuses the login answers each of
//! these packets with UNIMPLEMENTED and its sequence number, passes them over, or ends the
//! connection.

use alloc::vec::Vec;

use super::{Channels, Half, State, index};
use crate::transport::Transport;
use crate::{ChannelId, Error, Event};

/// Packets sent ahead that are remembered. What an owner sends beyond is a request too many.
const MAX_EARLY: usize = 1100;

/// What a packet sent ahead was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Open,
    Request { want_reply: bool },
    Other,
}

/// What was sent ahead.
#[derive(Debug, Default)]
pub(crate) struct Early {
    channel: Option<ChannelId>,
    /// Sequence numbers of the packets, in order.
    sent: Vec<(u32, Kind)>,
    /// The channel was confirmed under another number than the packets went to.
    missed: bool,
}

impl Early {
    /// Remembers the packet that is sent next.
    pub(super) fn note(&mut self, transport: &Transport, kind: Kind) {
        if self.sent.len() < MAX_EARLY {
            self.sent.push((transport.sequencer.next_sequence(), kind));
        }
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
        self.early.note(transport, Kind::Open);
        let id = self.open(transport, kind, fields)?;
        self.early.channel = Some(id);
        Ok(id)
    }

    /// Something else is sent behind the early channel.
    pub(crate) fn send_early(&mut self, transport: &Transport) -> Result<(), Error> {
        if self.early.channel.is_none() {
            return Err(Error::Misuse("this comes after login"));
        }
        self.early.note(transport, Kind::Other);
        Ok(())
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

    /// The channel is confirmed. Where the server gave it another number, what was sent on it
    /// went nowhere, and the owner sends it again.
    pub(super) fn confirm_early(&mut self, id: ChannelId) {
        if !self.early.is(id) {
            return;
        }
        if let Some(Some(channel)) = self.slots.get_mut(index(id))
            && channel.remote != 0
            && self.early.sent.len() > 1
        {
            channel.open_requests = 0;
            channel.sending = Half::Open;
            self.early.missed = true;
        }
    }

    /// Whether the packet was one that was sent ahead. One that mattered, since the login has
    /// succeeded, is told.
    pub(crate) fn handle_unimplemented(
        &mut self,
        transport: &mut Transport,
        sequence: u32,
    ) -> bool {
        let Some(place) = self
            .early
            .sent
            .iter()
            .position(|(sent, _)| *sent == sequence)
        else {
            return false;
        };
        let (_, kind) = self.early.sent.remove(place);
        let Some(id) = self.early.channel.filter(|_| transport.authenticated) else {
            return true;
        };
        let Some(Some(channel)) = self.slots.get_mut(index(id)) else {
            return true;
        };
        match kind {
            Kind::Open if channel.state == State::Opening => {
                self.forget_early();
                transport.events.push_back(Event::ChannelUnheard(id));
            }
            Kind::Request { want_reply: true } if !self.early.missed => {
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
        true
    }
}
