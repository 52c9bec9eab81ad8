//! Channels, RFC 4254 §5: opening, data, windows, requests and closing; and global requests, §4.
//!
//! Numbers are assigned lowest first, so that a peer that pipelines requests after CHANNEL_OPEN can
//! predict the number of the first channel. A channel's slot is free again when both sides have
//! sent CLOSE. The meaning of a channel's data is up to the owner.

use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;

use bytes::Bytes;
use compress::Origin;
use packet::PacketBuf;
use wire::Rest;
use wire::message::{
    self, ChannelClose, ChannelData, ChannelEof, ChannelExtendedData, ChannelFailure, ChannelOpen,
    ChannelOpenConfirmation, ChannelOpenFailure, ChannelRequest, ChannelSuccess,
    ChannelWindowAdjust, EXTENDED_DATA_STDERR, Encode, open_failure,
};

use crate::transport::{PipelinedPacket, Transport};
use crate::{ChannelId, Error, Event, Millis, Role, Stream};

pub(crate) mod global;
mod optimistic;
mod request;
mod window;

pub(crate) use global::Globals;
use optimistic::Early;
pub use request::Request;
use window::{
    MAX_DATA_BYTES, MAX_DATA_BYTES_FULMAR, Memory, ReceiveWindow, RoundTripEstimate, SendWindow,
    Typing,
};

/// Maximum unanswered requests of ours with `want_reply` on one channel.
const MAX_OPEN_REQUESTS: u32 = 1024;
/// Maximum requests of the peer that the owner has not answered, on one channel.
const MAX_OWED_REPLIES: u32 = 1024;
/// Maximum number of refused channels whose late messages are ignored.
const MAX_REFUSED: usize = 16;

/// State of one direction of a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Half {
    Open,
    /// No more data; requests may still follow.
    Eof,
    Closed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChannelState {
    /// Requested by us; the peer has not answered.
    Opening,
    /// Requested by the peer; the owner has not answered.
    Asked,
    Open,
    /// Closed or refused, and the owner has not taken the event yet. Commands have no effect, and
    /// the number is not reused, so that no late command can reach another channel.
    Finished,
}

struct ChannelRecord {
    state: ChannelState,
    remote: u32,
    /// Serial number of the channel on this connection. Unlike the channel's number on the wire it
    /// is never reused, so that compression does not mistake one channel for another.
    serial: u64,
    receive: ReceiveWindow,
    send: SendWindow,
    sending: Half,
    receiving: Half,
    open_requests: u32,
    owed_replies: u32,
    /// The owner answers the peer's CLOSE itself.
    holds_close: bool,
    /// The owner has taken the event of the peer's CHANNEL_OPEN.
    reported: bool,
}

/// All channels of a connection.
pub(crate) struct Channels {
    slots: Vec<Option<ChannelRecord>>,
    /// Serial number of the newest channel.
    last_serial: u64,
    refused: VecDeque<u32>,
    memory: Memory,
    path: RoundTripEstimate,
    typing: Typing,
    early: Early,
}

impl ChannelRecord {
    fn new(state: ChannelState, remote: u32, receive: ReceiveWindow, send: SendWindow) -> Self {
        Self {
            state,
            remote,
            serial: 0,
            receive,
            send,
            sending: Half::Open,
            receiving: Half::Open,
            open_requests: 0,
            owed_replies: 0,
            holds_close: false,
            reported: false,
        }
    }
}

fn index(id: ChannelId) -> usize {
    usize::try_from(id.0).unwrap_or(usize::MAX)
}

fn our_max_data(transport: &Transport) -> u32 {
    if transport.is_fulmar_peer() {
        MAX_DATA_BYTES_FULMAR
    } else {
        MAX_DATA_BYTES
    }
}

impl Channels {
    /// No channels; their receive windows may use at most `window_memory_bytes` in total.
    pub(crate) fn new(window_memory_bytes: u64) -> Self {
        Self {
            slots: Vec::new(),
            last_serial: 0,
            refused: VecDeque::new(),
            memory: Memory::new(window_memory_bytes),
            path: RoundTripEstimate::default(),
            typing: Typing::default(),
            early: Early::default(),
        }
    }

    /// Sets the kernel's round-trip time to the peer, microseconds.
    pub(crate) fn handle_round_trip(&mut self, round_trip_us: u32) {
        self.path.hint(round_trip_us);
    }

    /// Records the kernel's shortest round-trip time to the peer, microseconds.
    pub(crate) fn handle_shortest_round_trip(&mut self, round_trip_us: u32) {
        self.path.hint_shortest(round_trip_us);
    }

    /// Creates the receive window of a new channel; `None` if no window memory is left.
    fn receive_window(&mut self, transport: &Transport) -> Option<ReceiveWindow> {
        let size = self.memory.first_window()?;
        Some(ReceiveWindow::new(
            size,
            our_max_data(transport),
            transport.peer_quirks().accumulates_input,
            transport.now,
            &mut self.memory,
        ))
    }

    fn by_id(&mut self, id: ChannelId) -> Result<&mut ChannelRecord, Error> {
        self.slots
            .get_mut(index(id))
            .and_then(Option::as_mut)
            .ok_or(Error::Misuse("no such channel"))
    }

    /// Looks up the channel that a peer's message names; `None` if it was recently refused by us.
    fn addressed(&mut self, id: u32) -> Result<Option<(ChannelId, &mut ChannelRecord)>, Error> {
        let refused = self.refused.contains(&id);
        match self
            .slots
            .get_mut(index(ChannelId(id)))
            .and_then(Option::as_mut)
        {
            Some(channel) if matches!(channel.state, ChannelState::Open | ChannelState::Asked) => {
                Ok(Some((ChannelId(id), channel)))
            }
            Some(channel) if channel.state == ChannelState::Opening => Err(Error::PeerMisbehaved(
                "message on a channel that is not confirmed",
            )),
            Some(_) => Err(Error::PeerMisbehaved("message on a channel that is closed")),
            None if refused => Ok(None),
            None => Err(Error::PeerMisbehaved(
                "message on a channel that does not exist",
            )),
        }
    }

    fn insert(&mut self, mut channel: ChannelRecord) -> Result<ChannelId, Error> {
        self.last_serial += 1;
        channel.serial = self.last_serial;
        let free = self
            .slots
            .iter()
            .position(Option::is_none)
            .unwrap_or(self.slots.len());
        let id = u32::try_from(free).map_err(|_| Error::Bug("channel number"))?;
        match self.slots.get_mut(free) {
            Some(slot) => *slot = Some(channel),
            None => self.slots.push(Some(channel)),
        }
        self.refused.retain(|each| *each != id);
        Ok(ChannelId(id))
    }

    /// Removes a channel that the owner knows to be gone.
    pub(crate) fn remove(&mut self, id: ChannelId) {
        self.early.end(id);
        if let Some(channel) = self.slots.get_mut(index(id)).and_then(Option::take) {
            channel.receive.release(&mut self.memory);
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.slots.iter().flatten().count()
    }

    /// Returns true if the owner has not taken the event of a peer's CHANNEL_OPEN. No input is
    /// processed until then, as later messages may depend on the answer. An owner that answers late
    /// (because it has to connect first) does not block other channels.
    pub(crate) fn waits_for_owner(&self) -> bool {
        self.slots
            .iter()
            .flatten()
            .any(|channel| channel.state == ChannelState::Asked && !channel.reported)
    }

    /// Records that the owner has taken the event of this channel's CHANNEL_OPEN.
    pub(crate) fn mark_reported(&mut self, id: ChannelId) {
        if let Ok(channel) = self.by_id(id) {
            channel.reported = true;
        }
    }

    // ---- opening --------------------------------------------------------------------------

    pub(crate) fn open(
        &mut self,
        transport: &mut Transport,
        kind: &str,
        fields: &[u8],
    ) -> Result<ChannelId, Error> {
        self.send_open(transport, kind, fields, false)
    }

    fn send_open(
        &mut self,
        transport: &mut Transport,
        kind: &str,
        fields: &[u8],
        early: bool,
    ) -> Result<ChannelId, Error> {
        if self.count() >= transport.config.max_channels {
            return Err(Error::Misuse("too many channels"));
        }
        let receive = self
            .receive_window(transport)
            .ok_or(Error::Misuse("no window memory left for another channel"))?;
        let (window, max_packet) = (receive.first(), receive.max_data());
        let send = SendWindow::new(0, 0);
        let id = self.insert(ChannelRecord::new(ChannelState::Opening, 0, receive, send))?;
        let open = ChannelOpen {
            kind: kind.as_bytes(),
            sender_channel: id.0,
            window,
            max_packet,
            fields: Rest(fields),
        };
        if early {
            self.early.begin(id);
            transport.send_message_ahead(&open, PipelinedPacket::Open)?;
        } else {
            transport.send_message(&open)?;
        }
        Ok(id)
    }

    fn handle_open(&mut self, transport: &mut Transport, payload: &[u8]) -> Result<(), Error> {
        let open = ChannelOpen::decode(payload)?;
        if open.kind.len() > 256 {
            return Err(Error::PeerMisbehaved("channel type too long"));
        }
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
                return transport.send_message(&ChannelOpenFailure {
                    recipient_channel: open.sender_channel,
                    reason,
                    description: description.as_bytes(),
                    language: b"",
                });
            }
        };
        let send = SendWindow::new(open.window, open.max_packet);
        let channel = ChannelRecord::new(ChannelState::Asked, open.sender_channel, receive, send);
        let id = self.insert(channel)?;
        transport.events.push_back(Event::ChannelOpenRequest {
            channel: id,
            kind: String::from_utf8_lossy(open.kind).into_owned(),
            fields: open.fields.0.to_vec(),
        });
        Ok(())
    }

    pub(crate) fn accept(&mut self, transport: &mut Transport, id: ChannelId) -> Result<(), Error> {
        let channel = self.by_id(id)?;
        if channel.state == ChannelState::Finished {
            return Ok(());
        }
        if channel.state != ChannelState::Asked {
            return Err(Error::Misuse("the peer did not request this channel"));
        }
        channel.state = ChannelState::Open;
        transport.send_message(&ChannelOpenConfirmation {
            recipient_channel: channel.remote,
            sender_channel: id.0,
            window: channel.receive.first(),
            max_packet: channel.receive.max_data(),
            fields: Rest(b""),
        })
    }

    pub(crate) fn reject(
        &mut self,
        transport: &mut Transport,
        id: ChannelId,
        reason: u32,
        description: &str,
    ) -> Result<(), Error> {
        let channel = self.by_id(id)?;
        if channel.state == ChannelState::Finished {
            return Ok(());
        }
        if channel.state != ChannelState::Asked {
            return Err(Error::Misuse("the peer did not request this channel"));
        }
        let recipient_channel = channel.remote;
        self.remove(id);
        if self.refused.len() >= MAX_REFUSED {
            self.refused.pop_front();
        }
        self.refused.push_back(id.0);
        transport.send_message(&ChannelOpenFailure {
            recipient_channel,
            reason,
            description: description.as_bytes(),
            language: b"",
        })
    }

    fn handle_confirmation(
        &mut self,
        transport: &mut Transport,
        payload: &[u8],
    ) -> Result<(), Error> {
        let message = ChannelOpenConfirmation::decode(payload)?;
        let id = ChannelId(message.recipient_channel);
        let channel = self.opening(id)?;
        channel.state = ChannelState::Open;
        channel.remote = message.sender_channel;
        channel.send = SendWindow::new(message.window, message.max_packet);
        self.confirm_early(transport, id)?;
        if message.max_packet == 0 {
            return Err(Error::PeerMisbehaved("maximum packet size of 0"));
        }
        transport.events.push_back(Event::ChannelOpened(id));
        Ok(())
    }

    fn handle_open_failure(
        &mut self,
        transport: &mut Transport,
        payload: &[u8],
    ) -> Result<(), Error> {
        let message = ChannelOpenFailure::decode(payload)?;
        let id = ChannelId(message.recipient_channel);
        self.opening(id)?.state = ChannelState::Finished;
        if self.early.is(id) {
            transport.sent_ahead.settle(PipelinedPacket::Open);
        }
        transport.events.push_back(Event::ChannelRefused {
            channel: id,
            reason: message.reason,
            description: String::from_utf8_lossy(message.description).into_owned(),
        });
        Ok(())
    }

    fn opening(&mut self, id: ChannelId) -> Result<&mut ChannelRecord, Error> {
        self.slots
            .get_mut(index(id))
            .and_then(Option::as_mut)
            .filter(|channel| channel.state == ChannelState::Opening)
            .ok_or(Error::PeerMisbehaved(
                "answer to a channel that was not opened",
            ))
    }

    // ---- sending --------------------------------------------------------------------------

    /// Maximum bytes of one message now; 0 if nothing may be sent.
    pub(crate) fn send_space(&self, transport: &Transport, id: ChannelId) -> usize {
        match self.slots.get(index(id)) {
            Some(Some(channel))
                if channel.state == ChannelState::Open
                    && channel.sending == Half::Open
                    && transport.takes_bulk() =>
            {
                channel.send.space(transport.most_data())
            }
            _ => 0,
        }
    }

    /// Returns true if nothing may be sent until the peer opens the window.
    pub(crate) fn window_is_shut(&self, id: ChannelId) -> bool {
        matches!(
            self.slots.get(index(id)),
            Some(Some(channel)) if channel.state == ChannelState::Open
                && channel.sending == Half::Open
                && channel.send.space(usize::MAX) == 0
        )
    }

    /// Maximum bytes that may be sent now, in messages of at most [`Self::max_data`].
    pub(crate) fn send_room(&self, transport: &Transport, id: ChannelId) -> usize {
        match self.slots.get(index(id)) {
            Some(Some(channel))
                if channel.state == ChannelState::Open && channel.sending == Half::Open =>
            {
                channel
                    .send
                    .room(transport.bulk_room(), transport.most_data())
            }
            _ => 0,
        }
    }

    /// Size of our receive window, bytes; 0 without a channel.
    pub(crate) fn window(&self, id: ChannelId) -> usize {
        match self.slots.get(index(id)) {
            Some(Some(channel)) => channel.receive.size(),
            _ => 0,
        }
    }

    pub(crate) fn max_data(&self, transport: &Transport, id: ChannelId) -> usize {
        match self.slots.get(index(id)) {
            Some(Some(channel)) => channel.send.max_data(transport.most_data()),
            _ => 0,
        }
    }

    /// Sends `buf`'s payload as data; the message header is written into the headroom.
    pub(crate) fn send(
        &mut self,
        transport: &mut Transport,
        id: ChannelId,
        stream: Stream,
        mut buf: PacketBuf,
    ) -> Result<(), Error> {
        if buf.is_empty() {
            return Ok(());
        }
        let channel = self.by_id(id)?;
        if channel.state == ChannelState::Finished || channel.sending == Half::Closed {
            return Ok(());
        }
        if channel.state != ChannelState::Open || channel.sending != Half::Open {
            return Err(Error::Misuse("data on a channel that cannot send it"));
        }
        if buf.len() > channel.send.max_data(usize::MAX) {
            return Err(Error::Misuse("data longer than the peer's maximum packet"));
        }
        channel.send.charge(buf.len())?;
        let is_key = transport.role == Role::Client && Typing::is_key(buf.len());
        let len = u32::try_from(buf.len()).map_err(|_| Error::Misuse("data too long"))?;
        let origin = Origin::Channel(channel.serial);
        let [r0, r1, r2, r3] = channel.remote.to_be_bytes();
        let [l0, l1, l2, l3] = len.to_be_bytes();
        match stream {
            Stream::Data => {
                buf.prepend(&[ChannelData::NUMBER, r0, r1, r2, r3, l0, l1, l2, l3]);
            }
            Stream::Stderr => {
                let [c0, c1, c2, c3] = EXTENDED_DATA_STDERR.to_be_bytes();
                let number = ChannelExtendedData::NUMBER;
                buf.prepend(&[number, r0, r1, r2, r3, c0, c1, c2, c3, l0, l1, l2, l3]);
            }
        }
        if is_key && self.receives_bulk() {
            self.typing.key(transport.now);
        }
        transport.send_data(buf, origin)
    }

    /// Returns true if a channel receives bulk data. A keystroke that starts a transfer must not
    /// slow it.
    fn receives_bulk(&self) -> bool {
        let mut channels = self.slots.iter().flatten();
        channels.any(|channel| channel.receive.has_bulk())
    }

    /// Returns true if the client's user has just typed: on the client beside received bulk data, on
    /// the server beside any.
    pub(crate) fn is_typing(&self, now: Millis) -> bool {
        self.typing.is_active(now)
    }

    /// Sends EOF, unless it was sent already.
    pub(crate) fn send_eof(
        &mut self,
        transport: &mut Transport,
        id: ChannelId,
    ) -> Result<(), Error> {
        let channel = self.by_id(id)?;
        let early = channel.state == ChannelState::Opening && self.early.is(id);
        let channel = self.by_id(id)?;
        if !(channel.state == ChannelState::Open || early) || channel.sending != Half::Open {
            return Ok(());
        }
        channel.sending = Half::Eof;
        let recipient_channel = channel.remote;
        let eof = ChannelEof { recipient_channel };
        if early {
            self.early.follow();
            transport.send_message_ahead(&eof, PipelinedPacket::Other)
        } else {
            transport.send_message(&eof)
        }
    }

    /// Sends CLOSE, unless it was sent already.
    pub(crate) fn send_close(
        &mut self,
        transport: &mut Transport,
        id: ChannelId,
    ) -> Result<(), Error> {
        let channel = self.by_id(id)?;
        if channel.state != ChannelState::Open || channel.sending == Half::Closed {
            return Ok(());
        }
        channel.sending = Half::Closed;
        let recipient_channel = channel.remote;
        let finished = channel.receiving == Half::Closed;
        self.end_receiving(id);
        transport.send_message(&ChannelClose { recipient_channel })?;
        if finished {
            self.finish(transport, id);
        }
        Ok(())
    }

    /// Returns the unused receive window to the memory budget: the peer sends no more, or its data
    /// is no longer read.
    fn end_receiving(&mut self, id: ChannelId) {
        if let Some(Some(channel)) = self.slots.get_mut(index(id)) {
            channel.receive.end(&mut self.memory);
        }
    }

    fn finish(&mut self, transport: &mut Transport, id: ChannelId) {
        if let Ok(channel) = self.by_id(id) {
            channel.state = ChannelState::Finished;
        }
        if self.early.is(id) {
            transport.sent_ahead.clear();
        }
        transport.events.push_back(Event::ChannelClosed(id));
    }

    pub(crate) fn request(
        &mut self,
        transport: &mut Transport,
        id: ChannelId,
        request: &Request,
        want_reply: bool,
    ) -> Result<(), Error> {
        let channel = self.by_id(id)?;
        if channel.state == ChannelState::Finished || channel.sending == Half::Closed {
            return Ok(());
        }
        let early = channel.state == ChannelState::Opening && self.early.is(id);
        let channel = self.by_id(id)?;
        if channel.state != ChannelState::Open && !early {
            return Err(Error::Misuse("request on a channel that is not open"));
        }
        if want_reply {
            if channel.open_requests >= MAX_OPEN_REQUESTS {
                return Err(Error::Misuse("too many requests without an answer"));
            }
            channel.open_requests += 1;
        }
        let remote = channel.remote;
        let fields = request.encode_fields();
        let message = ChannelRequest {
            recipient_channel: remote,
            name: request.name().as_bytes(),
            want_reply,
            fields: Rest(&fields),
        };
        if early {
            self.early.follow();
            transport.send_message_ahead(&message, PipelinedPacket::Request { want_reply })
        } else {
            transport.send_message(&message)
        }
    }

    pub(crate) fn reply(
        &mut self,
        transport: &mut Transport,
        id: ChannelId,
        success: bool,
    ) -> Result<(), Error> {
        let channel = self.by_id(id)?;
        channel.owed_replies = channel
            .owed_replies
            .checked_sub(1)
            .ok_or(Error::Misuse("no reply is owed"))?;
        if channel.sending == Half::Closed {
            return Ok(());
        }
        let recipient_channel = channel.remote;
        if success {
            transport.send_message(&ChannelSuccess { recipient_channel })
        } else {
            transport.send_message(&ChannelFailure { recipient_channel })
        }
    }

    /// Records that the sink consumed `len` bytes, and grants window if due.
    pub(crate) fn consumed(
        &mut self,
        transport: &mut Transport,
        id: ChannelId,
        len: usize,
    ) -> Result<(), Error> {
        // The channel may be closed before its last bytes reach the sink.
        let Some(Some(channel)) = self.slots.get_mut(index(id)) else {
            return Ok(());
        };
        let granted = channel.receive.consume(
            len,
            transport.now,
            &self.path,
            transport.role == Role::Client && self.typing.is_active(transport.now),
            &mut self.memory,
        );
        match granted {
            Some(bytes) => {
                let recipient_channel = channel.remote;
                transport.send_message(&ChannelWindowAdjust {
                    recipient_channel,
                    bytes,
                })
            }
            None => Ok(()),
        }
    }

    /// Reports the peer's CLOSE to the owner instead of answering it.
    pub(crate) fn hold_close(&mut self, id: ChannelId) -> Result<(), Error> {
        self.by_id(id)?.holds_close = true;
        Ok(())
    }

    pub(crate) fn contains(&self, id: ChannelId) -> bool {
        matches!(self.slots.get(index(id)), Some(Some(_)))
    }

    pub(crate) fn is_open(&self, id: ChannelId) -> bool {
        matches!(self.slots.get(index(id)), Some(Some(channel)) if channel.state == ChannelState::Open)
    }

    // ---- receiving ------------------------------------------------------------------------

    pub(crate) fn handle(
        &mut self,
        transport: &mut Transport,
        payload: &Bytes,
    ) -> Result<(), Error> {
        match payload.first().copied().unwrap_or_default() {
            ChannelOpen::NUMBER => self.handle_open(transport, payload),
            ChannelOpenConfirmation::NUMBER => self.handle_confirmation(transport, payload),
            ChannelOpenFailure::NUMBER => self.handle_open_failure(transport, payload),
            ChannelWindowAdjust::NUMBER => self.handle_window_adjust(transport, payload),
            ChannelData::NUMBER => {
                let message = ChannelData::decode(payload)?;
                self.handle_data(
                    transport,
                    payload,
                    message.recipient_channel,
                    Some(Stream::Data),
                    message.data,
                )
            }
            ChannelExtendedData::NUMBER => {
                let message = ChannelExtendedData::decode(payload)?;
                let is_stderr = message.code == EXTENDED_DATA_STDERR;
                self.handle_data(
                    transport,
                    payload,
                    message.recipient_channel,
                    is_stderr.then_some(Stream::Stderr),
                    message.data,
                )
            }
            ChannelEof::NUMBER => self.handle_eof(transport, payload),
            ChannelClose::NUMBER => self.handle_close(transport, payload),
            ChannelRequest::NUMBER => self.handle_request(transport, payload),
            ChannelSuccess::NUMBER => self.handle_reply(
                transport,
                ChannelSuccess::decode(payload)?.recipient_channel,
                true,
            ),
            ChannelFailure::NUMBER => self.handle_reply(
                transport,
                ChannelFailure::decode(payload)?.recipient_channel,
                false,
            ),
            number => Err(Error::NotPermitted { message: number }),
        }
    }

    fn handle_window_adjust(
        &mut self,
        transport: &mut Transport,
        payload: &[u8],
    ) -> Result<(), Error> {
        let message = ChannelWindowAdjust::decode(payload)?;
        let Some((id, channel)) = self.addressed(message.recipient_channel)? else {
            return Ok(());
        };
        if channel.send.adjust(message.bytes)? && channel.sending == Half::Open {
            transport.events.push_back(Event::ChannelWritable(id));
        }
        Ok(())
    }

    /// `stream` is `None` for an unknown type of extended data: it is dropped, as OpenSSH does, and
    /// its window is granted again.
    fn handle_data(
        &mut self,
        transport: &mut Transport,
        payload: &Bytes,
        recipient: u32,
        stream: Option<Stream>,
        data: &[u8],
    ) -> Result<(), Error> {
        let Some((id, channel)) = self.addressed(recipient)? else {
            return Ok(());
        };
        if channel.state != ChannelState::Open {
            return Err(Error::PeerMisbehaved(
                "data on a channel that is not confirmed",
            ));
        }
        if channel.receiving != Half::Open {
            return Err(Error::PeerMisbehaved("data after EOF or CLOSE"));
        }
        // After our CLOSE nobody reads; data in flight is dropped, but must respect the window.
        let is_read = channel.sending != Half::Closed && !data.is_empty();
        self.charge(id, data.len(), transport.now)?;
        if transport.role == Role::Server && Typing::is_key(data.len()) {
            self.typing.key(transport.now);
        }
        match stream {
            Some(stream) if is_read => transport.events.push_back(Event::ChannelData {
                channel: id,
                stream,
                data: payload.slice_ref(data),
            }),
            Some(_) => {}
            None => self.consumed(transport, id, data.len())?,
        }
        Ok(())
    }

    /// Charges received data to its channel's window.
    fn charge(&mut self, id: ChannelId, len: usize, now: Millis) -> Result<(), Error> {
        match self.slots.get_mut(index(id)) {
            Some(Some(channel)) => channel.receive.take(len, now, &mut self.path),
            _ => Ok(()),
        }
    }

    fn handle_eof(&mut self, transport: &mut Transport, payload: &[u8]) -> Result<(), Error> {
        let recipient = ChannelEof::decode(payload)?.recipient_channel;
        let Some((id, channel)) = self.addressed(recipient)? else {
            return Ok(());
        };
        if channel.receiving == Half::Closed {
            return Err(Error::PeerMisbehaved("EOF after CLOSE"));
        }
        if channel.receiving == Half::Open {
            channel.receiving = Half::Eof;
            self.end_receiving(id);
            transport.events.push_back(Event::ChannelEof(id));
        }
        Ok(())
    }

    fn handle_close(&mut self, transport: &mut Transport, payload: &[u8]) -> Result<(), Error> {
        let recipient = ChannelClose::decode(payload)?.recipient_channel;
        let Some((id, channel)) = self.addressed(recipient)? else {
            return Ok(());
        };
        if channel.receiving == Half::Closed {
            return Err(Error::PeerMisbehaved("CLOSE twice"));
        }
        let had_eof = channel.receiving == Half::Eof;
        channel.receiving = Half::Closed;
        let remote = channel.remote;
        if channel.state == ChannelState::Asked {
            // The owner has not answered the open yet; it gets both events in order.
            channel.state = ChannelState::Open;
        }
        let must_answer = channel.sending != Half::Closed;
        if channel.holds_close && must_answer {
            self.end_receiving(id);
            if !had_eof {
                transport.events.push_back(Event::ChannelEof(id));
            }
            transport.events.push_back(Event::ChannelPeerClosed(id));
            return Ok(());
        }
        channel.sending = Half::Closed;
        self.end_receiving(id);
        if !had_eof {
            transport.events.push_back(Event::ChannelEof(id));
        }
        if must_answer {
            transport.send_message(&ChannelClose {
                recipient_channel: remote,
            })?;
        }
        self.finish(transport, id);
        Ok(())
    }

    fn handle_request(&mut self, transport: &mut Transport, payload: &[u8]) -> Result<(), Error> {
        let message = ChannelRequest::decode(payload)?;
        if message.name.len() > 256 {
            return Err(Error::PeerMisbehaved("request name too long"));
        }
        let Some((id, channel)) = self.addressed(message.recipient_channel)? else {
            return Ok(());
        };
        if channel.receiving == Half::Closed {
            return Err(Error::PeerMisbehaved("request after CLOSE"));
        }
        let request = Request::decode(message.name, message.fields.0)?;
        if message.want_reply {
            if channel.owed_replies >= MAX_OWED_REPLIES {
                return Err(Error::PeerMisbehaved("too many requests at once"));
            }
            channel.owed_replies += 1;
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
        let Some((id, channel)) = self.addressed(recipient)? else {
            return Ok(());
        };
        match channel.open_requests.checked_sub(1) {
            Some(rest) => {
                channel.open_requests = rest;
                if self.early.is(id) {
                    let answered = PipelinedPacket::Request { want_reply: true };
                    transport.sent_ahead.settle(answered);
                }
                transport.events.push_back(Event::ChannelReply {
                    channel: id,
                    success,
                });
                Ok(())
            }
            // Harmless; some peers do this.
            None => transport.spend_ignored(),
        }
    }
}

/// Message numbers that `Connection` dispatches to [`Channels`].
pub(crate) const CHANNEL_MESSAGES: core::ops::RangeInclusive<u8> =
    <ChannelOpen<'static> as message::Encode>::NUMBER..=<ChannelFailure as message::Encode>::NUMBER;
