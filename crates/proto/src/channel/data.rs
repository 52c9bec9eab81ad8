//! Data of channels and their windows, RFC 4254 §5.2.

use bytes::Bytes;
use packet::PacketBuf;
use wire::message::ChannelWindowAdjust;

use super::Channels;
use super::record::ChannelRecord;
use super::window::Typing;
use crate::transport::Transport;
use crate::{ChannelId, Error, Event, Millis, Role, Stream};

impl Channels {
    /// Sets the kernel's round-trip time to the peer, microseconds.
    pub(crate) fn handle_round_trip(&mut self, round_trip_us: u32) {
        self.path.hint(round_trip_us);
    }

    /// Records the kernel's shortest round-trip time to the peer, microseconds.
    pub(crate) fn handle_shortest_round_trip(&mut self, round_trip_us: u32) {
        self.path.hint_shortest(round_trip_us);
    }

    /// Returns true if the client's user has just typed: on the client beside received bulk data, on
    /// the server beside any.
    pub(crate) fn is_typing(&self, now: Millis) -> bool {
        self.typing.is_active(now)
    }

    /// Returns true if a channel receives bulk data. A keystroke that starts a transfer must not
    /// slow it.
    fn receives_bulk(&self) -> bool {
        self.bulk_receivers > 0
    }

    // ---- sending --------------------------------------------------------------------------

    fn sending(&self, id: ChannelId) -> Option<&ChannelRecord> {
        self.table.get(id).filter(|channel| channel.sends_data())
    }

    /// Maximum bytes of one message now; 0 if nothing may be sent.
    pub(crate) fn send_space(&self, transport: &Transport, id: ChannelId) -> usize {
        match self.sending(id) {
            Some(channel) if transport.takes_bulk() => {
                channel.send.space(transport.outbound.most_data())
            }
            _ => 0,
        }
    }

    /// Returns true if nothing may be sent until the peer opens the window.
    pub(crate) fn window_is_shut(&self, id: ChannelId) -> bool {
        self.sending(id)
            .is_some_and(|channel| channel.send.space(usize::MAX) == 0)
    }

    /// Maximum bytes that may be sent now, in messages of at most [`Self::max_data`].
    pub(crate) fn send_room(&self, transport: &Transport, id: ChannelId) -> usize {
        self.sending(id).map_or(0, |channel| {
            let (bytes, most) = (transport.bulk_room(), transport.outbound.most_data());
            channel.send.room(bytes, most)
        })
    }

    /// Size of our receive window, bytes; 0 without a channel.
    pub(crate) fn window(&self, id: ChannelId) -> usize {
        self.table
            .get(id)
            .map_or(0, |channel| channel.receive.size())
    }

    pub(crate) fn max_data(&self, transport: &Transport, id: ChannelId) -> usize {
        self.table.get(id).map_or(0, |channel| {
            channel.send.max_data(transport.outbound.most_data())
        })
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
        let bound = self.outstanding_bound(transport);
        let channel = self.table.commanded(id)?;
        if channel.ignores_commands() {
            return Ok(());
        }
        let len = buf.len();
        let is_key = transport.role == Role::Client && Typing::is_key(len);
        let origin = channel.begin_data(stream, &mut buf)?;
        channel.outstanding.send(len, bound, transport.now);
        channel.usage.send(len);
        self.note_use(id, transport.now);
        if is_key && self.receives_bulk() {
            self.typing.key(transport.now);
        }
        transport.send_data(buf, origin)
    }

    /// Closes the peer's window by `bytes`, or entirely.
    pub(crate) fn charge(&mut self, id: ChannelId, bytes: usize) {
        if let Some(channel) = self.table.get_mut(id) {
            let most = channel.send.open_bytes();
            // Never fails: it is charged at most what is open.
            let _ = channel.send.charge(bytes.min(most));
        }
    }

    pub(super) fn handle_window_adjust(
        &mut self,
        transport: &mut Transport,
        payload: &[u8],
    ) -> Result<(), Error> {
        let message = ChannelWindowAdjust::decode(payload)?;
        self.count_grant(transport, message.recipient_channel, message.bytes);
        let Some((id, channel)) = self.table.addressed(message.recipient_channel)? else {
            return Ok(());
        };
        if channel.send.adjust(message.bytes)? && channel.takes_data() {
            transport.events.push_back(Event::ChannelWritable(id));
        }
        Ok(())
    }

    // ---- receiving ------------------------------------------------------------------------

    /// `stream` is `None` for an unknown type of extended data: it is dropped, as OpenSSH does, and
    /// its window is granted again.
    pub(super) fn handle_data(
        &mut self,
        transport: &mut Transport,
        payload: &Bytes,
        recipient: u32,
        stream: Option<Stream>,
        data: &[u8],
    ) -> Result<(), Error> {
        let found = match stream {
            Some(Stream::Data) => self.table.addressed_early(recipient)?,
            _ => {
                let found = self.table.addressed(recipient)?;
                found.map(|(id, channel)| (id, channel, false))
            }
        };
        let Some((id, channel, is_early)) = found else {
            return Ok(());
        };
        channel.check_data(is_early)?;
        // After our CLOSE nobody reads; data in flight is dropped, but must respect the window.
        let is_read = !channel.has_sent_close() && !data.is_empty();
        channel
            .receive
            .take(data.len(), transport.now, &mut self.path)?;
        channel.usage.receive(data.len());
        if channel.is_asked() {
            return channel.held().push(data);
        }
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

    /// Records that the sink consumed `len` bytes, and grants window if due.
    pub(crate) fn consumed(
        &mut self,
        transport: &mut Transport,
        id: ChannelId,
        len: usize,
    ) -> Result<(), Error> {
        self.note_use(id, transport.now);
        // The channel may be closed before its last bytes reach the sink.
        let Some(channel) = self.table.get_mut(id) else {
            return Ok(());
        };
        let had_bulk = channel.receive.has_bulk();
        let granted = channel.receive.consume(
            len,
            transport.now,
            &self.path,
            transport.role == Role::Client && self.typing.is_active(transport.now),
            &mut self.memory,
        );
        match (had_bulk, channel.receive.has_bulk()) {
            (false, true) => self.bulk_receivers += 1,
            (true, false) => self.bulk_receivers -= 1,
            _ => {}
        }
        match granted {
            Some(bytes) => transport.send_message(&ChannelWindowAdjust {
                recipient_channel: channel.remote(),
                bytes,
            }),
            None => Ok(()),
        }
    }
}
