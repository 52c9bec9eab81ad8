//! [`ChannelHandler`]: handler of a channel whose bytes are produced and consumed in this process,
//! or are read from a descriptor packet by packet.
//!
//! The endpoint receives the peer's data in the slabs in which it was decrypted; the channel's
//! window reopens when the endpoint reports the data as consumed ([`ChannelIo::consumed`]). The
//! endpoint writes its own data into packet buffers, after their headroom
//! ([`ChannelIo::take_buffer`]). So only the cipher and the endpoint touch payload bytes.

use std::any::Any;
use std::collections::VecDeque;
use std::os::fd::BorrowedFd;

use bytes::Bytes;
use packet::PacketBuf;
use proto::{ChannelId, Connection, Error, Stream};

/// Maximum packets from one endpoint in one turn, so that channels share a connection.
const MAX_PACKETS: usize = 32;

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

    /// The non-blocking descriptor that the handler reads, if it has one. It must stay the same.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Returns true if the descriptor had nothing to read. [`ChannelHandler::input_ready`] follows
    /// when it has, and then [`ChannelHandler::work`].
    fn awaits_input(&self) -> bool {
        false
    }

    /// The descriptor can be read.
    fn input_ready(&mut self) {}
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
    pub(super) blocked: bool,
    pub(super) consumed: usize,
}

impl<'d> ChannelIo<'d> {
    pub(super) fn new(connection: &'d mut Connection, channel: ChannelId) -> Self {
        Self {
            connection,
            channel,
            packets_left: MAX_PACKETS,
            blocked: false,
            consumed: 0,
        }
    }

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

    /// Closes the peer's window by `bytes` more than the data that was sent
    /// ([`Connection::channel_charge`]).
    pub fn charge(&mut self, bytes: usize) {
        self.connection.channel_charge(self.channel, bytes);
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
