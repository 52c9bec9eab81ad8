//! A channel whose bytes are made and used in this process, without descriptors: [`Endpoint`].
//!
//! What the peer sends is handed over in the slabs in which it was opened, and opens the window
//! again when the endpoint says that it is done with it ([`Line::consumed`]); what the endpoint
//! sends it writes behind the headroom of packet buffers ([`Line::take_buffer`]). So a payload
//! byte is touched by the endpoint alone, beside the cipher.

use std::any::Any;
use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use packet::PacketBuf;
use proto::{ChannelId, Connection, Error, Millis, Stream};

/// Packets from one endpoint in one turn, so that several channels share a connection.
const MAX_PACKETS: usize = 32;
/// How long an endpoint that is full holds the connection's input back while it uses nothing:
/// behind it the peer's other words are read again, and the window alone bounds what waits.
const HOLDS_BACK_MS: Millis = 1_000;

/// What lies at our end of a channel. See the module's head.
pub trait Endpoint: Send + Any {
    /// Takes what the peer has sent, in order. How much may wait is limited by the channel's
    /// window; to be used in [`Endpoint::work`].
    fn receive(&mut self, stream: Stream, data: Bytes);

    /// Nothing more will come from the peer: EOF, or CLOSE.
    fn end(&mut self);

    /// Does what can be done without waiting for long: uses what has come and sends. It is called
    /// after each of the above, when there is space again after [`Line::space`] was 0, after
    /// [`Progress::Busy`], and when it is [woken](super::Driver::wake_endpoint).
    ///
    /// # Errors
    /// Those of [`Line`]'s methods, which end the connection.
    fn work(&mut self, line: &mut Line<'_>) -> Result<Progress, Error>;

    /// Bytes that it may have received and not consumed while more is read. With as many the peer is
    /// held back by the socket, and all other channels of the connection wait with it: so fewer than
    /// the window allows are for an endpoint that has the connection to itself. Heeded behind
    /// [`Endpoint::work`], while the endpoint goes on to use what it has.
    fn most_held(&self) -> usize {
        usize::MAX
    }
}

/// What comes of [`Endpoint::work`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// There is nothing to do until something happens.
    Waiting,
    /// There is more to do, for which others need not wait.
    Busy,
    /// It is over: [`Notice::EndpointEnded`](super::Notice::EndpointEnded) follows, and what the
    /// peer sends from now on is dropped.
    Ended,
}

/// An endpoint's way to its channel.
pub struct Line<'d> {
    connection: &'d mut Connection,
    channel: ChannelId,
    packets_left: usize,
    /// It was told that there is no space.
    blocked: bool,
    consumed: usize,
}

impl Line<'_> {
    /// Bytes that one message may carry now; 0 while the window is closed, a key exchange is
    /// under way, or enough is queued.
    pub fn space(&mut self) -> usize {
        let space = if self.packets_left == 0 {
            0
        } else {
            self.connection.channel_send_space(self.channel)
        };
        self.blocked |= space == 0;
        space
    }

    /// Longest data in one message to the peer, bytes.
    #[must_use]
    pub fn max_data(&self) -> usize {
        self.connection.channel_max_data(self.channel)
    }

    /// The window that the peer has, bytes: what is on its way and what was not consumed.
    #[must_use]
    pub fn window(&self) -> usize {
        self.connection.channel_window(self.channel)
    }

    /// The channel can still carry what we send.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.connection.channel_is_open(self.channel)
    }

    /// A buffer from the connection's pool, for `capacity` bytes.
    pub fn take_buffer(&mut self, capacity: usize) -> PacketBuf {
        self.connection.take_buffer(capacity)
    }

    /// Gives a buffer back.
    pub fn recycle(&mut self, buf: PacketBuf) {
        self.connection.recycle(buf);
    }

    /// Sends the payload of `buf`, at most [`Line::space`] bytes, without copying it.
    ///
    /// # Errors
    /// [`Error::Misuse`] beyond the space.
    pub fn send(&mut self, buf: PacketBuf) -> Result<(), Error> {
        self.packets_left = self.packets_left.saturating_sub(1);
        self.connection
            .channel_send(self.channel, Stream::Data, buf)
    }

    /// Sends what there is [`Line::space`] for from the front of `queue`; gives the number of bytes.
    ///
    /// # Errors
    /// Those of [`Line::send`].
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
            // What is left of the window takes a part of it.
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

    /// Sends bytes to the client's standard error, as many as may leave now; gives the number.
    ///
    /// # Errors
    /// [`Error::Misuse`] for a channel that does not exist.
    pub fn send_stderr(&mut self, bytes: &[u8]) -> Result<usize, Error> {
        self.connection
            .channel_send_slice(self.channel, Stream::Stderr, bytes)
    }

    /// Done with `bytes` of what was received: the window opens again.
    ///
    /// # Errors
    /// [`Error`] of sending.
    pub fn consumed(&mut self, bytes: usize) -> Result<(), Error> {
        if bytes == 0 {
            return Ok(());
        }
        self.consumed += bytes;
        self.connection.channel_consumed(self.channel, bytes)
    }
}

/// Until when nothing is to be read, where an endpoint holds that back, and the peer's next word is
/// not waited for.
pub(super) fn held_back(
    endpoints: &BTreeMap<ChannelId, Attached>,
    connection: &Connection,
    now: Millis,
) -> Option<Millis> {
    let ends = endpoints.values().filter_map(Attached::holds_back);
    ends.max()
        .filter(|at| *at > now && !connection.awaits_word())
}

/// An endpoint in the driver's care.
pub(super) struct Attached {
    endpoint: Box<dyn Endpoint>,
    /// Something happened since it worked last.
    due: bool,
    busy: bool,
    blocked: bool,
    ended: bool,
    /// Bytes that it has received and not consumed.
    held: usize,
    /// It is full, and since then it has used nothing.
    full_since: Option<Millis>,
}

impl Attached {
    pub(super) fn new(endpoint: Box<dyn Endpoint>, connection: &mut Connection) -> Self {
        // One without a limit of its own has the window's, and no claim to memory besides.
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

    pub(super) fn into_parts(self) -> (Box<dyn Endpoint>, usize) {
        (self.endpoint, self.held)
    }

    pub(super) fn endpoint(&mut self) -> &mut dyn Endpoint {
        &mut *self.endpoint
    }

    pub(super) fn wake(&mut self) {
        self.due = true;
    }

    /// Hands data over; gives what nobody will consume.
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

    /// Something could be done now.
    pub(super) fn is_ready(&self, connection: &Connection, channel: ChannelId) -> bool {
        !self.ended
            && (self.due
                || self.busy
                || (self.blocked && connection.channel_send_space(channel) > 0))
    }

    /// It has something to send, and the peer has shut the channel's window.
    pub(super) fn lacks_window(&self, connection: &Connection, channel: ChannelId) -> bool {
        !self.ended && self.blocked && connection.channel_window_is_shut(channel)
    }

    /// The same of this one, which may be over.
    fn holds_back(&self) -> Option<Millis> {
        let since = self.full_since.filter(|_| !self.ended)?;
        Some(since.saturating_add(HOLDS_BACK_MS))
    }

    /// Lets it work; says whether it has just ended.
    pub(super) fn work(
        &mut self,
        connection: &mut Connection,
        channel: ChannelId,
        now: Millis,
    ) -> Result<bool, Error> {
        let mut line = Line {
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
        self.busy = progress == Progress::Busy;
        self.ended = progress == Progress::Ended;
        self.full_since = match self.full_since {
            _ if self.held < self.endpoint.most_held() => None,
            since @ Some(_) if consumed == 0 => since,
            _ => Some(now),
        };
        if self.ended {
            // What it has not used is nobody's from here on.
            let held = std::mem::take(&mut self.held);
            if held > 0 {
                connection.channel_consumed(channel, held)?;
            }
        }
        Ok(self.ended)
    }
}
