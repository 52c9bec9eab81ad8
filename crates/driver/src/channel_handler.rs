//! [`ChannelHandler`]: handler of a channel whose bytes are produced and consumed in this process,
//! without descriptors.
//!
//! The endpoint receives the peer's data in the slabs in which it was decrypted; the channel's
//! window reopens when the endpoint reports the data as consumed ([`ChannelIo::consumed`]). The
//! endpoint writes its own data into packet buffers, after their headroom
//! ([`ChannelIo::take_buffer`]). So only the cipher and the endpoint touch payload bytes.

use std::any::Any;
use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use packet::PacketBuf;
use proto::{ChannelId, Connection, Error, Millis, Stream};

/// Maximum packets from one endpoint in one turn, so that channels share a connection.
const MAX_PACKETS: usize = 32;
/// Maximum time, in milliseconds, for which a full endpoint that consumes nothing stops reads from
/// the socket. Then other messages of the peer are read again, and only the window bounds the
/// endpoint's data.
const HOLDS_BACK_MS: Millis = 1_000;

/// The local handler of a channel.
pub trait ChannelHandler: Send + Any {
    /// Accepts data from the peer, in order, to be used in [`ChannelHandler::work`]. The channel's
    /// window bounds the amount not yet consumed.
    fn receive(&mut self, stream: Stream, data: Bytes);

    /// Called when the peer sends nothing more: EOF or CLOSE.
    fn end(&mut self);

    /// Consumes received data and sends, without blocking for long. Called after
    /// [`ChannelHandler::receive`] and [`ChannelHandler::end`], when space is available again after
    /// [`ChannelIo::space`] returned 0, after [`HandlerProgress::Busy`], and after
    /// [`wake_endpoint`](super::Driver::wake_endpoint).
    ///
    /// # Errors
    /// Errors of [`ChannelIo`]'s methods; they end the connection.
    fn work(&mut self, line: &mut ChannelIo<'_>) -> Result<HandlerProgress, Error>;

    /// Maximum bytes received and not consumed at which the connection is still read. At this limit
    /// the driver stops reading the socket, so every other channel of the connection waits too:
    /// return less than the window only for an endpoint that is the connection's only consumer.
    /// Checked after [`ChannelHandler::work`], with a time limit while the endpoint consumes
    /// nothing. Default: no limit.
    fn most_held(&self) -> usize {
        usize::MAX
    }
}

/// Result of [`ChannelHandler::work`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HandlerProgress {
    /// Nothing to do until the next event.
    Waiting,
    /// More to do; other channels may go first.
    Busy,
    /// The endpoint is finished. [`Notice::EndpointEnded`](super::Notice::EndpointEnded) follows,
    /// and further data from the peer is dropped.
    Ended,
}

/// Access of an endpoint to its channel.
pub struct ChannelIo<'d> {
    connection: &'d mut Connection,
    channel: ChannelId,
    packets_left: usize,
    /// [`ChannelIo::space`] returned 0.
    blocked: bool,
    consumed: usize,
}

impl ChannelIo<'_> {
    /// Maximum data bytes of the next message; 0 while the peer's window is closed, a key exchange
    /// is in progress, the output queue is full, or this turn's packets are used up.
    pub fn space(&mut self) -> usize {
        let space = if self.packets_left == 0 {
            0
        } else {
            self.connection.channel_send_space(self.channel)
        };
        self.blocked |= space == 0;
        space
    }

    /// Maximum data bytes in one message to the peer.
    #[must_use]
    pub fn max_data(&self) -> usize {
        self.connection.channel_max_data(self.channel)
    }

    /// Receive window in use, bytes: data in flight plus data not consumed.
    #[must_use]
    pub fn window(&self) -> usize {
        self.connection.channel_window(self.channel)
    }

    /// Returns true if the channel can still send data.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.connection.channel_is_open(self.channel)
    }

    /// Takes a buffer for `capacity` bytes from the connection's pool.
    pub fn take_buffer(&mut self, capacity: usize) -> PacketBuf {
        self.connection.take_buffer(capacity)
    }

    /// Returns a buffer to the pool.
    pub fn recycle(&mut self, buf: PacketBuf) {
        self.connection.recycle(buf);
    }

    /// Sends the payload of `buf`, at most [`ChannelIo::space`] bytes, without a copy.
    ///
    /// # Errors
    /// [`Error::Misuse`] if the payload exceeds the space.
    pub fn send(&mut self, buf: PacketBuf) -> Result<(), Error> {
        self.packets_left = self.packets_left.saturating_sub(1);
        self.connection
            .channel_send(self.channel, Stream::Data, buf)
    }

    /// Sends buffers from the front of `queue` while there is [`ChannelIo::space`]; returns the
    /// number of bytes sent.
    ///
    /// # Errors
    /// Those of [`ChannelIo::send`].
    pub fn send_queued(&mut self, queue: &mut VecDeque<PacketBuf>) -> Result<usize, Error> {
        let mut sent = 0;
        while let Some(first) = queue.front() {
            let space = self.space();
            if space == 0 {
                break;
            }
            let len = first.len();
            let Some(whole) = queue.pop_front() else {
                break;
            };
            if len <= space {
                sent += len;
                self.send(whole)?;
                continue;
            }
            // The remaining window takes only a part of this buffer.
            let (now, later) = whole.payload().split_at(space);
            for part in [later, now] {
                let mut buf = self.take_buffer(part.len());
                buf.extend(part);
                queue.push_front(buf);
            }
            self.recycle(whole);
        }
        Ok(sent)
    }

    /// Sends bytes to the client's standard error, as many as fit now; returns the number sent.
    ///
    /// # Errors
    /// [`Error::Misuse`] for an unknown channel.
    pub fn send_stderr(&mut self, bytes: &[u8]) -> Result<usize, Error> {
        self.connection
            .channel_send_slice(self.channel, Stream::Stderr, bytes)
    }

    /// Reports `bytes` of received data as consumed, so that the window reopens.
    ///
    /// # Errors
    /// Errors of sending WINDOW_ADJUST.
    pub fn consumed(&mut self, bytes: usize) -> Result<(), Error> {
        if bytes == 0 {
            return Ok(());
        }
        self.consumed += bytes;
        self.connection.channel_consumed(self.channel, bytes)
    }
}

/// Time until which the socket is not read because an endpoint is full; `None` if no endpoint is,
/// or if the connection awaits a message from the peer.
pub(super) fn held_back(
    endpoints: &BTreeMap<ChannelId, Attached>,
    connection: &Connection,
    now: Millis,
) -> Option<Millis> {
    let ends = endpoints.values().filter_map(Attached::holds_back);
    ends.max()
        .filter(|at| *at > now && !connection.awaits_word())
}

/// An endpoint attached to a channel.
pub(super) struct Attached {
    endpoint: Box<dyn ChannelHandler>,
    /// An event occurred since the last call of `work`.
    due: bool,
    busy: bool,
    blocked: bool,
    ended: bool,
    /// Bytes received and not consumed.
    held: usize,
    /// Time since which the endpoint is full and has consumed nothing.
    full_since: Option<Millis>,
}

impl Attached {
    pub(super) fn new(endpoint: Box<dyn ChannelHandler>, connection: &mut Connection) -> Self {
        // An endpoint without a limit is bounded by the window and pins no additional slabs.
        connection.keep(match endpoint.most_held() {
            usize::MAX => 0,
            most => most,
        });
        Self {
            endpoint,
            due: true,
            busy: false,
            blocked: false,
            ended: false,
            held: 0,
            full_since: None,
        }
    }

    pub(super) fn into_parts(self) -> (Box<dyn ChannelHandler>, usize) {
        (self.endpoint, self.held)
    }

    pub(super) fn endpoint(&mut self) -> &mut dyn ChannelHandler {
        &mut *self.endpoint
    }

    pub(super) fn wake(&mut self) {
        self.due = true;
    }

    /// Passes data to the endpoint. Returns the number of bytes dropped because it has ended.
    #[must_use]
    pub(super) fn receive(&mut self, stream: Stream, data: Bytes) -> usize {
        if self.ended {
            return data.len();
        }
        self.held += data.len();
        self.due = true;
        self.endpoint.receive(stream, data);
        0
    }

    pub(super) fn end(&mut self) {
        if !self.ended {
            self.due = true;
            self.endpoint.end();
        }
    }

    /// Returns true if a call of `work` could make progress.
    pub(super) fn is_ready(&self, connection: &Connection, channel: ChannelId) -> bool {
        !self.ended
            && (self.due
                || self.busy
                || (self.blocked && connection.channel_send_space(channel) > 0))
    }

    /// Returns true if the endpoint has data to send and the peer's window is shut.
    pub(super) fn lacks_window(&self, connection: &Connection, channel: ChannelId) -> bool {
        !self.ended && self.blocked && connection.channel_window_is_shut(channel)
    }

    /// Time until which this endpoint stops reads; `None` if it is not full.
    fn holds_back(&self) -> Option<Millis> {
        let since = self.full_since.filter(|_| !self.ended)?;
        Some(since.saturating_add(HOLDS_BACK_MS))
    }

    /// Calls the endpoint; returns true if it has just ended.
    pub(super) fn work(
        &mut self,
        connection: &mut Connection,
        channel: ChannelId,
        now: Millis,
    ) -> Result<bool, Error> {
        let mut line = ChannelIo {
            connection,
            channel,
            packets_left: MAX_PACKETS,
            blocked: false,
            consumed: 0,
        };
        self.due = false;
        let progress = self.endpoint.work(&mut line)?;
        let consumed = line.consumed;
        self.blocked = line.blocked;
        self.held = self.held.saturating_sub(consumed);
        self.busy = progress == HandlerProgress::Busy;
        self.ended = progress == HandlerProgress::Ended;
        self.full_since = match self.full_since {
            _ if self.held < self.endpoint.most_held() => None,
            since @ Some(_) if consumed == 0 => since,
            _ => Some(now),
        };
        if self.ended {
            // Nobody will consume the rest: give its window back.
            let held = std::mem::take(&mut self.held);
            if held > 0 {
                connection.channel_consumed(channel, held)?;
            }
        }
        Ok(self.ended)
    }
}
