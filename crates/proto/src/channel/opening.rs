//! Opening of channels, RFC 4254 §5.1, by either side.

use alloc::string::String;

use wire::Rest;
use wire::message::{ChannelOpen, ChannelOpenConfirmation, ChannelOpenFailure, open_failure};

use super::Channels;
use super::record::ChannelRecord;
use super::window::{MAX_DATA_BYTES, MAX_DATA_BYTES_FULMAR, ReceiveWindow, SendWindow};
use crate::transport::{PipelinedPacket, Transport};
use crate::{ChannelId, Error, Event};

impl Channels {
    /// Creates the receive window of a new channel; `None` if no window memory is left.
    fn receive_window(&mut self, transport: &Transport) -> Option<ReceiveWindow> {
        let size = self.memory.first_window()?;
        let max_data = if transport.versions.peer_quirks().is_fulmar {
            MAX_DATA_BYTES_FULMAR
        } else {
            MAX_DATA_BYTES
        };
        Some(ReceiveWindow::new(
            size,
            max_data,
            transport.versions.peer_quirks().accumulates_input,
            transport.now,
            &mut self.memory,
        ))
    }

    /// Returns true if the owner has not taken the event of a peer's CHANNEL_OPEN. No input is
    /// processed until then, as later messages may depend on the answer. An owner that answers late
    /// (because it has to connect first) does not block other channels.
    pub(crate) fn waits_for_owner(&self) -> bool {
        self.unreported.is_some()
    }

    /// Records that the owner has taken the event of this channel's CHANNEL_OPEN.
    pub(crate) fn mark_reported(&mut self, id: ChannelId) {
        self.unreported.take_if(|unreported| *unreported == id);
    }

    pub(crate) fn open(
        &mut self,
        transport: &mut Transport,
        kind: &str,
        fields: &[u8],
    ) -> Result<ChannelId, Error> {
        self.send_open(transport, kind, fields, (false, 0))
    }

    /// `early`: before the login is confirmed. `early_bytes` of data may follow.
    pub(super) fn send_open(
        &mut self,
        transport: &mut Transport,
        kind: &str,
        fields: &[u8],
        (early, early_bytes): (bool, u32),
    ) -> Result<ChannelId, Error> {
        if self.count() >= transport.config.max_channels {
            return Err(Error::Misuse("too many channels"));
        }
        let receive = self
            .receive_window(transport)
            .ok_or(Error::Misuse("no window memory left for another channel"))?;
        let (window, max_packet) = (receive.first(), receive.max_data());
        let id = self
            .table
            .insert(ChannelRecord::ours(kind, receive, early_bytes))?;
        let open = ChannelOpen {
            kind: kind.as_bytes(),
            sender_channel: id.0,
            window,
            max_packet,
            fields: Rest(fields),
        };
        if early {
            self.early.begin(id);
        }
        transport.send_message_ahead(&open, early.then_some(PipelinedPacket::Open))?;
        Ok(id)
    }

    pub(super) fn handle_open(
        &mut self,
        transport: &mut Transport,
        payload: &[u8],
    ) -> Result<(), Error> {
        let open = ChannelOpen::decode(payload)?;
        if open.kind.len() > 256 {
            return Err(Error::PeerMisbehaved("channel type too long"));
        }
        self.table.note_request(open.sender_channel);
        // A maximum packet size of 0 could never carry a byte; a sender that tried would spin.
        let granted = if open.max_packet == 0 {
            Err((
                open_failure::ADMINISTRATIVELY_PROHIBITED,
                "maximum packet size of 0",
            ))
        } else if self.count() >= transport.config.max_channels {
            Err((open_failure::RESOURCE_SHORTAGE, "too many channels"))
        } else {
            self.receive_window(transport)
                .ok_or((open_failure::RESOURCE_SHORTAGE, "no window memory left"))
        };
        let receive = match granted {
            Ok(receive) => receive,
            Err((reason, description)) => {
                return refuse(transport, open.sender_channel, reason, description);
            }
        };
        let send = SendWindow::new(open.window, open.max_packet);
        let kind = String::from_utf8_lossy(open.kind).into_owned();
        let channel = ChannelRecord::theirs(&kind, open.sender_channel, receive, send);
        let id = self.table.insert(channel)?;
        self.unreported = Some(id);
        transport.events.push_back(Event::ChannelOpenRequest {
            channel: id,
            kind,
            fields: open.fields.0.to_vec(),
        });
        Ok(())
    }

    pub(crate) fn accept(&mut self, transport: &mut Transport, id: ChannelId) -> Result<(), Error> {
        let channel = self.table.commanded(id)?;
        if !channel.answer_open()? {
            return Ok(());
        }
        let confirmation = ChannelOpenConfirmation {
            recipient_channel: channel.remote(),
            sender_channel: id.0,
            window: channel.receive.first(),
            max_packet: channel.receive.max_data(),
            fields: Rest(b""),
        };
        self.begin_use(id, transport.now);
        self.note_opened(id);
        transport.send_message(&confirmation)?;
        self.release_held(transport, id);
        Ok(())
    }

    pub(crate) fn reject(
        &mut self,
        transport: &mut Transport,
        id: ChannelId,
        reason: u32,
        description: &str,
    ) -> Result<(), Error> {
        let channel = self.table.commanded(id)?;
        if !channel.answer_open()? {
            return Ok(());
        }
        let recipient = channel.remote();
        self.remove(id);
        refuse(transport, recipient, reason, description)
    }

    pub(super) fn handle_confirmation(
        &mut self,
        transport: &mut Transport,
        payload: &[u8],
    ) -> Result<(), Error> {
        let message = ChannelOpenConfirmation::decode(payload)?;
        let id = ChannelId(message.recipient_channel);
        let send = SendWindow::new(message.window, message.max_packet);
        let channel = self.table.opening(id)?;
        channel.confirm(message.sender_channel, send)?;
        self.begin_use(id, transport.now);
        self.note_opened(id);
        self.confirm_early(transport, id)?;
        if message.max_packet == 0 {
            return Err(Error::PeerMisbehaved("maximum packet size of 0"));
        }
        transport.events.push_back(Event::ChannelOpened(id));
        Ok(())
    }

    pub(super) fn handle_open_failure(
        &mut self,
        transport: &mut Transport,
        payload: &[u8],
    ) -> Result<(), Error> {
        let message = ChannelOpenFailure::decode(payload)?;
        let id = ChannelId(message.recipient_channel);
        self.table.opening(id)?.finish();
        if self.early.is(id) {
            transport
                .outbound
                .sent_ahead()
                .settle(PipelinedPacket::Open);
        }
        transport.events.push_back(Event::ChannelRefused {
            channel: id,
            reason: message.reason,
            description: String::from_utf8_lossy(message.description).into_owned(),
        });
        Ok(())
    }
}

fn refuse(
    transport: &mut Transport,
    recipient_channel: u32,
    reason: u32,
    description: &str,
) -> Result<(), Error> {
    transport.send_message(&ChannelOpenFailure {
        recipient_channel,
        reason,
        description: description.as_bytes(),
        language: b"",
    })
}
