//! Channels that another process speaks for (OpenSSH's PROTOCOL.mux §9, proxy mode): only their
//! numbers are ours. Their messages pass unread, in both directions; windows, requests and replies
//! are between the other process and the peer.
//!
//! The owner rewrites the numbers, keeps track of CLOSE, and frees each number when both sides have
//! sent it, or when the peer has refused the channel.

use alloc::vec::Vec;

use bytes::Bytes;
use compress::Origin;
use wire::Rest;
use wire::message::{ChannelData, ChannelEof, ChannelExtendedData, ChannelOpen, Encode};

use super::held_data::EARLY_ADDRESS;
use super::table::ChannelTable;
use super::{CHANNEL_MESSAGES, Channels};
use crate::transport::Transport;
use crate::{ChannelId, Error, Event};

/// A channel of the peer that the owner leaves to another process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandedOver {
    /// The peer's number.
    pub remote: u32,
    /// The peer's window, bytes.
    pub window: u32,
    /// Maximum data in one message to the peer, bytes.
    pub max_packet: u32,
    /// Data that came with the request.
    pub data: Vec<u8>,
    /// The peer sends no more.
    pub has_ended: bool,
}

/// The number after the message's type; `None` if it is cut off.
fn recipient(payload: &[u8]) -> Option<u32> {
    let (_, rest) = payload.split_first()?;
    Some(u32::from_be_bytes(*rest.first_chunk()?))
}

impl ChannelTable {
    /// The proxied channel that a message of the peer names.
    fn proxied_recipient(&self, payload: &[u8]) -> Option<ChannelId> {
        let number = recipient(payload)?;
        let is_data = [
            ChannelData::NUMBER,
            ChannelExtendedData::NUMBER,
            ChannelEof::NUMBER,
        ]
        .contains(payload.first()?);
        let id = match number & EARLY_ADDRESS != 0 && is_data {
            true => self.opened_by_peer(number & !EARLY_ADDRESS).ok()??,
            false => ChannelId(number),
        };
        self.is_proxied(id).then_some(id)
    }
}

impl Channels {
    /// Passes on a message for a proxied channel; false if it is for another one.
    pub(super) fn pass_proxied(&mut self, transport: &mut Transport, payload: &Bytes) -> bool {
        if payload.first() == Some(&ChannelOpen::NUMBER) || !self.table.has_proxied() {
            return false;
        }
        let Some(channel) = self.table.proxied_recipient(payload) else {
            return false;
        };
        transport.events.push_back(Event::ChannelProxied {
            channel,
            payload: payload.clone(),
        });
        true
    }

    /// Sends CHANNEL_OPEN for another process; `rest` is what follows the sender's number.
    pub(crate) fn open_proxied(
        &mut self,
        transport: &mut Transport,
        kind: &[u8],
        rest: &[u8],
    ) -> Result<ChannelId, Error> {
        if self.count() >= transport.config.max_channels {
            return Err(Error::Misuse("too many channels"));
        }
        let Some((&window, fields)) = rest.split_first_chunk::<4>() else {
            return Err(Error::Misuse("CHANNEL_OPEN without a window"));
        };
        let Some((&max_packet, fields)) = fields.split_first_chunk::<4>() else {
            return Err(Error::Misuse("CHANNEL_OPEN without a maximum packet size"));
        };
        let id = self.table.reserve(None)?;
        let sent = transport.send_message(&ChannelOpen {
            kind,
            sender_channel: id.0,
            window: u32::from_be_bytes(window),
            max_packet: u32::from_be_bytes(max_packet),
            fields: Rest(fields),
        });
        sent.map(|()| id)
    }

    /// Leaves a channel that the peer requests to another process, which answers it.
    pub(crate) fn hand_over(&mut self, id: ChannelId) -> Result<HandedOver, Error> {
        let channel = self.table.commanded(id)?;
        if !channel.is_asked() {
            return Err(Error::Misuse("the peer did not request this channel"));
        }
        let (data, has_ended) = channel
            .take_held()
            .map_or((Vec::new(), false), |held| (held.bytes, held.has_ended));
        let (window, max_packet) = channel.send.announced();
        let handed = HandedOver {
            remote: channel.remote(),
            window,
            max_packet,
            data,
            has_ended,
        };
        self.remove(id);
        self.table.reserve(Some((id, handed.remote)))?;
        Ok(handed)
    }

    /// Sends a whole message of channels for another process.
    pub(crate) fn send_proxied(
        &mut self,
        transport: &mut Transport,
        id: ChannelId,
        payload: &[u8],
    ) -> Result<(), Error> {
        let number = payload.first().copied().unwrap_or_default();
        let Some(serial) = self.table.proxied_serial(id) else {
            return Err(Error::Misuse("no such proxied channel"));
        };
        if !CHANNEL_MESSAGES.contains(&number) || number == ChannelOpen::NUMBER {
            return Err(Error::Misuse("not a message of an open channel"));
        }
        let mut buf = transport.outbound.take_buffer(payload.len());
        buf.extend(payload);
        match number {
            ChannelData::NUMBER | ChannelExtendedData::NUMBER => {
                transport.send_data(buf, Origin::Channel(serial))
            }
            _ => transport.send_payload(buf, None),
        }
    }

    /// Frees the number of a proxied channel.
    pub(crate) fn release_proxied(&mut self, id: ChannelId) {
        self.table.release(id);
    }
}
