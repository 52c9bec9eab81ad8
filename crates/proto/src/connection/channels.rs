//! Commands of channels and global requests, RFC 4254. [`crate::channel`] owns their state.

use alloc::boxed::Box;
use alloc::vec::Vec;

use packet::PacketBuf;

use super::{Connection, ConnectionStage};
use crate::channel::{ChannelStatus, ChannelTimeouts, ChannelTraffic, Request, global};
use crate::limits::EARLY_DATA_BYTES;
use crate::{ChannelId, Error, Stream};

/// Channels.
impl Connection {
    pub(super) fn connected(&self) -> Result<(), Error> {
        match self.stage {
            ConnectionStage::Connected => Ok(()),
            _ => Err(Error::Misuse("channel command before login")),
        }
    }

    /// Opens a channel.
    ///
    /// # Errors
    /// [`Error::Misuse`] before login, with too many channels, or without window memory for another
    /// one.
    pub fn open_channel(&mut self, kind: &str, fields: &[u8]) -> Result<ChannelId, Error> {
        self.connected()?;
        self.channels.open(&mut self.transport, kind, fields)
    }

    /// As [`Connection::open_channel`], for a channel without requests: if the peer has announced
    /// that it takes early data (docs/PROTOCOL.md), data and EOF may be sent before it has confirmed
    /// the channel. They have no effect if it refuses the channel.
    ///
    /// # Errors
    /// Those of [`Connection::open_channel`].
    pub fn open_channel_with_data(
        &mut self,
        kind: &str,
        fields: &[u8],
    ) -> Result<ChannelId, Error> {
        self.connected()?;
        let transport = &mut self.transport;
        self.channels.open_with_data(transport, kind, fields)
    }

    /// As [`Connection::open_channel_with_data`], for a channel with requests: if the peer has announced
    /// that it takes early requests (docs/PROTOCOL.md), requests may be sent before it has confirmed the
    /// channel, then data and EOF. Together the messages of the requests may have
    /// [`Connection::EARLY_REQUEST_BYTES`].
    ///
    /// # Errors
    /// Those of [`Connection::open_channel`].
    pub fn open_channel_with_requests(
        &mut self,
        kind: &str,
        fields: &[u8],
    ) -> Result<ChannelId, Error> {
        self.connected()?;
        let transport = &mut self.transport;
        self.channels.open_with_requests(transport, kind, fields)
    }

    /// Maximum bytes of the messages of early requests.
    pub const EARLY_REQUEST_BYTES: usize = EARLY_DATA_BYTES as usize;

    /// Returns true if the channel is not confirmed yet, and data and EOF may be sent on it.
    #[must_use]
    pub fn channel_takes_early_data(&self, channel: ChannelId) -> bool {
        self.channels.takes_early_data(channel)
    }

    /// Accepts the channel of [`crate::Event::ChannelOpenRequest`]. Data that the peer has sent before
    /// this follows as an event.
    ///
    /// # Errors
    /// [`Error::Misuse`] for a channel that the peer did not request.
    pub fn accept_channel(&mut self, channel: ChannelId) -> Result<(), Error> {
        self.channels.accept(&mut self.transport, channel)
    }

    /// Refuses the channel of [`crate::Event::ChannelOpenRequest`].
    ///
    /// # Errors
    /// [`Error::Misuse`] for a channel that the peer did not request.
    pub fn reject_channel(
        &mut self,
        channel: ChannelId,
        reason: u32,
        text: &str,
    ) -> Result<(), Error> {
        self.channels
            .reject(&mut self.transport, channel, reason, text)
    }

    /// Sends a channel request; on a closed channel it has no effect.
    ///
    /// # Errors
    /// [`Error::Misuse`] for an unknown or unconfirmed channel, or with 1,024 unanswered requests.
    pub fn channel_request(
        &mut self,
        channel: ChannelId,
        request: &Request,
        want_reply: bool,
    ) -> Result<(), Error> {
        self.channels
            .request(&mut self.transport, channel, request, want_reply)
    }

    /// Answers the oldest unanswered [`crate::Event::ChannelRequest`] with `want_reply`.
    ///
    /// # Errors
    /// [`Error::Misuse`] if no reply is owed.
    pub fn channel_reply(&mut self, channel: ChannelId, success: bool) -> Result<(), Error> {
        self.channels.reply(&mut self.transport, channel, success)
    }

    /// Data bytes that one message may carry now; 0 while the window is closed, a key exchange is
    /// running, or enough output is queued.
    #[must_use]
    pub fn channel_send_space(&self, channel: ChannelId) -> usize {
        self.channels.send_space(&self.transport, channel)
    }

    /// Returns true if the peer accepts no more data on this channel before it opens the window.
    #[must_use]
    pub fn channel_window_is_shut(&self, channel: ChannelId) -> bool {
        self.channels.window_is_shut(channel)
    }

    /// Data bytes that messages of at most [`Connection::channel_max_data`] may carry now, for a
    /// caller that reads them all at once.
    #[must_use]
    pub fn channel_send_room(&self, channel: ChannelId) -> usize {
        self.channels.send_room(&self.transport, channel)
    }

    /// Maximum data bytes in one message to the peer.
    #[must_use]
    pub fn channel_max_data(&self, channel: ChannelId) -> usize {
        self.channels.max_data(&self.transport, channel)
    }

    /// Size of the receive window, bytes: maximum data in flight to us or received and not
    /// consumed.
    #[must_use]
    pub fn channel_window(&self, channel: ChannelId) -> usize {
        self.channels.window(channel)
    }

    /// Sends the payload of `buf` as data, without a copy.
    ///
    /// # Errors
    /// [`Error::Misuse`] if it exceeds [`Connection::channel_send_space`].
    pub fn channel_send(
        &mut self,
        channel: ChannelId,
        stream: Stream,
        buf: PacketBuf,
    ) -> Result<(), Error> {
        self.channels
            .send(&mut self.transport, channel, stream, buf)
    }

    /// Closes the peer's window by `bytes` more than the data that was sent, or entirely. OpenSSH
    /// counts four bytes beside each packet of a tunnel, which RFC 4254 §5.2 does not.
    pub fn channel_charge(&mut self, channel: ChannelId, bytes: usize) {
        self.channels.charge(channel, bytes);
    }

    /// Sends as much of `data` as may leave now; returns the number of bytes.
    ///
    /// # Errors
    /// [`Error::Misuse`] for an unknown channel.
    pub fn channel_send_slice(
        &mut self,
        channel: ChannelId,
        stream: Stream,
        data: &[u8],
    ) -> Result<usize, Error> {
        let mut sent = 0;
        while let Some(rest) = data.get(sent..).filter(|rest| !rest.is_empty()) {
            let space = self.channel_send_space(channel);
            let Some(piece) = rest
                .get(..space.min(rest.len()))
                .filter(|piece| !piece.is_empty())
            else {
                break;
            };
            let mut buf = self.take_buffer(piece.len());
            buf.extend(piece);
            self.channel_send(channel, stream, buf)?;
            sent += piece.len();
        }
        Ok(sent)
    }

    /// Reports `bytes` of the channel's data as consumed, so that the window reopens.
    ///
    /// # Errors
    /// Errors of sending WINDOW_ADJUST.
    pub fn channel_consumed(&mut self, channel: ChannelId, bytes: usize) -> Result<(), Error> {
        // The sink released memory, even if no adjust is sent.
        self.transport.note_activity();
        self.channels.consumed(&mut self.transport, channel, bytes)
    }

    /// Sends EOF: no more data follows.
    ///
    /// # Errors
    /// [`Error::Misuse`] for an unknown channel.
    pub fn channel_eof(&mut self, channel: ChannelId) -> Result<(), Error> {
        self.channels.send_eof(&mut self.transport, channel)
    }

    /// Sends CLOSE.
    ///
    /// # Errors
    /// [`Error::Misuse`] for an unknown channel.
    pub fn channel_close(&mut self, channel: ChannelId) -> Result<(), Error> {
        self.channels.send_close(&mut self.transport, channel)
    }

    /// Leaves the answer to the peer's CLOSE to the owner, who gets
    /// [`crate::Event::ChannelPeerClosed`]. A server delays its CLOSE until the command's exit
    /// status is known and sent; clients that close as soon as they see EOF (dbclient, plink) would
    /// lose it otherwise.
    ///
    /// # Errors
    /// [`Error::Misuse`] for an unknown channel.
    pub fn channel_hold_close(&mut self, channel: ChannelId) -> Result<(), Error> {
        self.channels.hold_close(channel)
    }

    /// All channels, in the order of their numbers.
    pub fn channel_statuses(&self) -> impl Iterator<Item = ChannelStatus<'_>> {
        self.channels.statuses()
    }

    /// Number of times that a channel was opened, labelled or removed: while it does not change, the
    /// open channels are the same.
    #[must_use]
    pub fn channel_changes(&self) -> u64 {
        self.channels.changes()
    }

    /// Types of the channels that were opened so far, by either side, and how many of each; of 32
    /// types at most.
    #[must_use]
    pub fn opened_channels(&self) -> &[(Box<str>, u64)] {
        self.channels.opened()
    }

    /// Bytes of data of a channel that exists, or whose end the last event reported.
    #[must_use]
    pub fn channel_traffic(&self, channel: ChannelId) -> ChannelTraffic {
        self.channels.traffic(channel)
    }

    /// Reports channels that are unused for too long from now on, each once, by
    /// [`crate::Event::ChannelIdle`]; open channels start anew.
    pub fn set_channel_timeouts(&mut self, timeouts: ChannelTimeouts) {
        self.channels.set_timeouts(timeouts, self.transport.now);
    }

    /// Replaces the channel's type by `label` in [`Connection::channel_statuses`] and for the limit
    /// of its unused time, which starts anew. A label without a limit keeps the type's.
    pub fn label_channel(&mut self, channel: ChannelId, label: &str) {
        self.channels.label(channel, label, self.transport.now);
    }

    /// Returns true if the channel exists, confirmed or not.
    #[must_use]
    pub fn has_channel(&self, channel: ChannelId) -> bool {
        self.channels.contains(channel)
    }

    /// Returns true if the channel exists and is confirmed.
    #[must_use]
    pub fn channel_is_open(&self, channel: ChannelId) -> bool {
        self.channels.is_open(channel)
    }
}

/// Extensions that the peer announced.
impl Connection {
    /// True if the peer understands [`Request::Reset`].
    #[must_use]
    pub fn reset_supported(&self) -> bool {
        self.transport.extensions.reset
    }

    /// True if the server opens tunnels of large segments (docs/PROTOCOL.md).
    #[must_use]
    pub fn tun_segments_supported(&self) -> bool {
        self.transport.extensions.tun_segments
    }

    /// True if the server forwards datagrams (docs/PROTOCOL.md).
    #[must_use]
    pub fn udp_forward_supported(&self) -> bool {
        self.transport.extensions.udp_forward
    }
}

/// Global requests.
impl Connection {
    /// Sends a keepalive request, which asks for a sign of life.
    ///
    /// # Errors
    /// [`Error::Misuse`] before login.
    pub fn send_keepalive(&mut self) -> Result<(), Error> {
        self.connected()?;
        self.globals.send_keepalive(&mut self.transport)
    }

    /// Client: announces that this connection will open no more sessions.
    ///
    /// # Errors
    /// [`Error::Misuse`] before login, unless an early channel is open.
    pub fn send_no_more_sessions(&mut self) -> Result<(), Error> {
        if self.stage != ConnectionStage::Connected && self.channels.early().is_none() {
            return Err(Error::Misuse("no-more-sessions before login"));
        }
        self.globals.send_no_more_sessions(&mut self.transport)
    }

    /// Server: announces its host keys.
    ///
    /// # Errors
    /// [`Error::Misuse`] before login.
    pub fn announce_host_keys(&mut self, keys: &[Vec<u8>]) -> Result<(), Error> {
        self.connected()?;
        self.globals.announce_host_keys(&mut self.transport, keys)
    }

    /// Client: asks the server to prove that it holds these host keys.
    ///
    /// # Errors
    /// [`Error::Misuse`] before login.
    pub fn prove_host_keys(&mut self, keys: &[Vec<u8>]) -> Result<(), Error> {
        self.connected()?;
        self.globals.prove_host_keys(&mut self.transport, keys)
    }

    /// Data that a host key signs for its proof.
    ///
    /// # Errors
    /// [`Error::Misuse`] before the first key exchange is complete.
    pub fn hostkeys_prove_data(&self, key: &[u8]) -> Result<Vec<u8>, Error> {
        let id = self
            .session_id()
            .ok_or(Error::Misuse("no session identifier yet"))?;
        Ok(global::hostkeys_prove_data(id, key))
    }

    /// Server: provides the signatures for [`crate::Event::HostKeysProve`]; `None` refuses.
    ///
    /// # Errors
    /// [`Error::Misuse`] if none were requested.
    pub fn provide_host_key_proofs(&mut self, signatures: Option<&[Vec<u8>]>) -> Result<(), Error> {
        self.globals.provide_proofs(&mut self.transport, signatures)
    }
}
