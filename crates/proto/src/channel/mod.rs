//! Channels, RFC 4254 §5: opening, data, windows, requests and closing; and global requests, §4.
//!
//! `table` has the channels by number, `record` the state of one. `opening` has the messages that
//! open channels, `data` those that carry data or open windows; requests, EOF and CLOSE are here.
//! A channel's number is free again when both sides have sent CLOSE and the owner has taken the
//! event. The meaning of a channel's data is up to the owner.

use bytes::Bytes;
use wire::Rest;
use wire::message::{
    ChannelClose, ChannelData, ChannelEof, ChannelExtendedData, ChannelFailure, ChannelOpen,
    ChannelOpenConfirmation, ChannelOpenFailure, ChannelRequest, ChannelSuccess,
    ChannelWindowAdjust, EXTENDED_DATA_STDERR, Encode,
};

use crate::permits::NO_ARM;
use crate::transport::{PipelinedPacket, Transport};
use crate::{ChannelId, Error, Event, Role, Stream};

mod bulk_room;
mod data;
mod early;
mod early_data;
pub(crate) mod global;
mod held_data;
mod opening;
mod optimistic;
mod proxied;
mod record;
mod table;
mod usage;
mod window;

pub use crate::request::Request;
use early::Early;
pub(crate) use global::Globals;
pub use proxied::HandedOver;
use table::ChannelTable;
pub use usage::{ChannelStatus, ChannelTimeouts, ChannelTraffic, idle_text};
use window::{Memory, OutstandingBound, RoundTripEstimate, Typing};

/// Message numbers that `Connection` dispatches to [`Channels`].
pub(crate) const CHANNEL_MESSAGES: core::ops::RangeInclusive<u8> =
    <ChannelOpen<'static> as Encode>::NUMBER..=<ChannelFailure as Encode>::NUMBER;

/// All channels of a connection.
pub(crate) struct Channels {
    table: ChannelTable,
    memory: Memory,
    path: RoundTripEstimate,
    typing: Typing,
    bound: OutstandingBound,
    early: Early,
    uses: usage::ChannelUses,
    /// The peer's channel whose CHANNEL_OPEN the owner has not taken.
    unreported: Option<ChannelId>,
    /// Number of channels that receive bulk data.
    bulk_receivers: usize,
}

impl Channels {
    /// No channels; their receive windows may use at most `window_memory_bytes` in total.
    pub(crate) fn new(window_memory_bytes: u64) -> Self {
        Self {
            table: ChannelTable::default(),
            memory: Memory::new(window_memory_bytes),
            path: RoundTripEstimate::default(),
            typing: Typing::default(),
            bound: OutstandingBound::default(),
            early: Early::default(),
            uses: usage::ChannelUses::default(),
            unreported: None,
            bulk_receivers: 0,
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.table.count()
    }

    pub(crate) fn contains(&self, id: ChannelId) -> bool {
        self.table.get(id).is_some()
    }

    pub(crate) fn is_open(&self, id: ChannelId) -> bool {
        self.table.get(id).is_some_and(|channel| channel.is_open())
    }

    /// Removes a channel that the owner knows to be gone.
    pub(crate) fn remove(&mut self, id: ChannelId) {
        self.early.end(id);
        if let Some(channel) = self.table.remove(id) {
            self.uses.note_removed(id, &channel.usage);
            self.bulk_receivers -= usize::from(channel.receive.has_bulk());
            channel.receive.release(&mut self.memory);
        }
    }

    // ---- commands -------------------------------------------------------------------------

    /// Sends a request; it has no effect on a channel that is closed.
    pub(crate) fn request(
        &mut self,
        transport: &mut Transport,
        id: ChannelId,
        request: &Request,
        want_reply: bool,
    ) -> Result<(), Error> {
        let channel = self.table.commanded(id)?;
        if channel.ignores_commands() {
            return Ok(());
        }
        let early = self.early.is(id) && channel.is_opening();
        let with_open = channel.is_opening_with_data() && transport.extensions.early_requests;
        channel.begin_request(want_reply, early || with_open)?;
        let fields = request.encode_fields();
        let message = ChannelRequest {
            recipient_channel: channel.remote(),
            name: request.name().as_bytes(),
            want_reply,
            fields: Rest(&fields),
        };
        let kind = PipelinedPacket::Request { want_reply };
        transport.send_message_ahead(&message, early.then(|| self.early.follow(kind)))
    }

    /// Answers the peer's oldest request.
    pub(crate) fn reply(
        &mut self,
        transport: &mut Transport,
        id: ChannelId,
        success: bool,
    ) -> Result<(), Error> {
        let channel = self.table.commanded(id)?;
        channel.begin_reply()?;
        if channel.has_sent_close() {
            return Ok(());
        }
        let recipient_channel = channel.remote();
        if success {
            transport.send_message(&ChannelSuccess { recipient_channel })
        } else {
            transport.send_message(&ChannelFailure { recipient_channel })
        }
    }

    /// Sends EOF, unless it was sent already.
    pub(crate) fn send_eof(
        &mut self,
        transport: &mut Transport,
        id: ChannelId,
    ) -> Result<(), Error> {
        let channel = self.table.commanded(id)?;
        let early = self.early.is(id) && channel.is_opening();
        if !channel.begin_eof(early) {
            return Ok(());
        }
        let recipient_channel = channel.remote();
        let kind = early.then(|| self.early.follow(PipelinedPacket::Other));
        transport.send_message_ahead(&ChannelEof { recipient_channel }, kind)
    }

    /// Sends CLOSE, unless it was sent already.
    pub(crate) fn send_close(
        &mut self,
        transport: &mut Transport,
        id: ChannelId,
    ) -> Result<(), Error> {
        let channel = self.table.commanded(id)?;
        let Some(finished) = channel.begin_close() else {
            return Ok(());
        };
        let recipient_channel = channel.remote();
        channel.receive.end(&mut self.memory);
        transport.send_message(&ChannelClose { recipient_channel })?;
        if finished {
            self.finish(transport, id);
        }
        Ok(())
    }

    /// Reports the peer's CLOSE to the owner instead of answering it.
    pub(crate) fn hold_close(&mut self, id: ChannelId) -> Result<(), Error> {
        self.table.commanded(id).map(|channel| channel.hold_close())
    }

    fn finish(&mut self, transport: &mut Transport, id: ChannelId) {
        if let Some(channel) = self.table.get_mut(id) {
            channel.finish();
        }
        if self.early.is(id) {
            transport.outbound.sent_ahead().clear();
        }
        transport.events.push_back(Event::ChannelClosed(id));
    }

    // ---- the peer's messages --------------------------------------------------------------

    pub(crate) fn handle(
        &mut self,
        transport: &mut Transport,
        payload: &Bytes,
    ) -> Result<(), Error> {
        if self.pass_proxied(transport, payload) {
            return Ok(());
        }
        match payload.first().copied().unwrap_or_default() {
            ChannelOpen::NUMBER => self.handle_open(transport, payload),
            ChannelOpenConfirmation::NUMBER => self.handle_confirmation(transport, payload),
            ChannelOpenFailure::NUMBER => self.handle_open_failure(transport, payload),
            ChannelWindowAdjust::NUMBER => self.handle_window_adjust(transport, payload),
            ChannelData::NUMBER => {
                let message = ChannelData::decode(payload)?;
                let stream = Some(Stream::Data);
                let recipient = message.recipient_channel;
                self.handle_data(transport, payload, recipient, stream, message.data)
            }
            ChannelExtendedData::NUMBER => {
                let message = ChannelExtendedData::decode(payload)?;
                let stream = (message.code == EXTENDED_DATA_STDERR).then_some(Stream::Stderr);
                let recipient = message.recipient_channel;
                self.handle_data(transport, payload, recipient, stream, message.data)
            }
            ChannelEof::NUMBER => self.handle_eof(transport, payload),
            ChannelClose::NUMBER => self.handle_close(transport, payload),
            ChannelRequest::NUMBER => self.handle_request(transport, payload),
            ChannelSuccess::NUMBER => {
                let recipient = ChannelSuccess::decode(payload)?.recipient_channel;
                self.handle_reply(transport, recipient, true)
            }
            ChannelFailure::NUMBER => {
                let recipient = ChannelFailure::decode(payload)?.recipient_channel;
                self.handle_reply(transport, recipient, false)
            }
            _ => Err(Error::Bug(NO_ARM)),
        }
    }

    fn handle_eof(&mut self, transport: &mut Transport, payload: &[u8]) -> Result<(), Error> {
        let recipient = ChannelEof::decode(payload)?.recipient_channel;
        let Some((id, channel, is_early)) = self.table.addressed_early(recipient)? else {
            return Ok(());
        };
        if channel.receive_eof() {
            channel.receive.end(&mut self.memory);
            match is_early && channel.is_asked() {
                true => channel.held().end(),
                false => transport.events.push_back(Event::ChannelEof(id)),
            }
        }
        Ok(())
    }

    fn handle_close(&mut self, transport: &mut Transport, payload: &[u8]) -> Result<(), Error> {
        let recipient = ChannelClose::decode(payload)?.recipient_channel;
        let Some((id, channel)) = self.table.addressed(recipient)? else {
            return Ok(());
        };
        let close = channel.receive_close();
        let recipient_channel = channel.remote();
        channel.receive.end(&mut self.memory);
        if close.ends_data {
            transport.events.push_back(Event::ChannelEof(id));
        }
        if close.is_held {
            transport.events.push_back(Event::ChannelPeerClosed(id));
            return Ok(());
        }
        if close.must_answer {
            transport.send_message(&ChannelClose { recipient_channel })?;
        }
        self.finish(transport, id);
        Ok(())
    }

    fn handle_request(&mut self, transport: &mut Transport, payload: &[u8]) -> Result<(), Error> {
        let message = ChannelRequest::decode(payload)?;
        if message.name.len() > 256 {
            return Err(Error::PeerMisbehaved("request name too long"));
        }
        let recipient = message.recipient_channel;
        // Only a server announces that it takes early requests.
        let addressed = match transport.role {
            Role::Server => self.table.addressed_early(recipient)?,
            Role::Client => {
                let found = self.table.addressed(recipient)?;
                found.map(|(id, channel)| (id, channel, false))
            }
        };
        let Some((id, channel, is_early)) = addressed else {
            return Ok(());
        };
        let request = Request::decode(message.name, message.fields.0)?;
        if is_early && channel.is_asked() {
            let held = channel.held();
            return held.push_request(request, message.want_reply, payload.len());
        }
        if message.want_reply {
            channel.owe_reply()?;
        }
        transport.events.push_back(Event::ChannelRequest {
            channel: id,
            request,
            want_reply: message.want_reply,
        });
        Ok(())
    }

    fn handle_reply(
        &mut self,
        transport: &mut Transport,
        recipient: u32,
        success: bool,
    ) -> Result<(), Error> {
        let Some((id, channel)) = self.table.addressed(recipient)? else {
            return Ok(());
        };
        if !channel.settle_request() {
            // Harmless; some peers do this.
            return transport.spend_ignored();
        }
        if self.early.is(id) {
            let answered = PipelinedPacket::Request { want_reply: true };
            transport.outbound.sent_ahead().settle(answered);
        }
        transport.events.push_back(Event::ChannelReply {
            channel: id,
            success,
        });
        Ok(())
    }
}
