//! The channels' handlers attached to a connection.

use std::collections::{BTreeMap, VecDeque};
use std::io;

use bytes::Bytes;
use proto::{ChannelId, Connection, Error, Millis, Stream};
use sys::epoll::{Epoll, Interest};

use super::channel_handler::{ChannelHandler, ChannelIo, HandlerProgress};
use super::notice::Notice;
use super::poller::{EventTarget, Poller, Registration};

/// Maximum time, in milliseconds, for which a full endpoint that consumes nothing stops reads from
/// the socket. Then other messages of the peer are read again, and only the window bounds the
/// endpoint's data.
const HOLDS_BACK_MS: Millis = 1_000;

#[derive(Default)]
pub(super) struct Handlers {
    by_channel: BTreeMap<ChannelId, Attached>,
    /// Handlers ran before the sources in the last round.
    pub(super) run_first: bool,
    /// Time until which the socket is not watched because a handler is full; set by
    /// [`Handlers::update_hold`].
    hold: Option<Millis>,
}

impl Handlers {
    pub(super) fn attach(
        &mut self,
        channel: ChannelId,
        endpoint: Box<dyn ChannelHandler>,
        connection: &mut Connection,
        poller: &mut Poller,
    ) -> io::Result<()> {
        let registration = match endpoint.descriptor() {
            Some(fd) => Some(poller.register(fd, EventTarget::Handler(channel))?),
            None => None,
        };
        let attached = Attached::new(endpoint, registration, connection);
        self.by_channel.insert(channel, attached);
        Ok(())
    }

    /// Returns the handler. Data that it has not consumed counts as consumed.
    pub(super) fn detach(
        &mut self,
        channel: ChannelId,
        connection: &mut Connection,
        poller: &mut Poller,
    ) -> Option<(Box<dyn ChannelHandler>, Result<(), Error>)> {
        let mut attached = self.by_channel.remove(&channel)?;
        if let (Some(fd), Some(registration)) =
            (attached.endpoint.descriptor(), attached.registration.take())
        {
            poller.forget(fd, registration);
        }
        let consumed = match attached.held {
            0 => Ok(()),
            held => connection.channel_consumed(channel, held),
        };
        Some((attached.endpoint, consumed))
    }

    /// Returns the channel's handler, which works in the next turn.
    pub(super) fn waken(&mut self, channel: ChannelId) -> Option<&mut dyn ChannelHandler> {
        let attached = self.by_channel.get_mut(&channel)?;
        attached.due = true;
        Some(&mut *attached.endpoint)
    }

    /// The handler's descriptor can be read; the handler works in the next turn.
    pub(super) fn input_ready(&mut self, channel: ChannelId) {
        if let Some(endpoint) = self.waken(channel) {
            endpoint.input_ready();
        }
    }

    pub(super) fn update_interest(&mut self, epoll: &Epoll) -> io::Result<()> {
        let mut all = self.by_channel.values_mut();
        all.try_for_each(|attached| attached.update_interest(epoll))
    }

    /// Passes data to the channel's handler; returns the data if there is none.
    pub(super) fn receive(
        &mut self,
        channel: ChannelId,
        stream: Stream,
        data: Bytes,
        connection: &mut Connection,
    ) -> Result<Option<Bytes>, Error> {
        let Some(attached) = self.by_channel.get_mut(&channel) else {
            return Ok(Some(data));
        };
        let dropped = attached.receive(stream, data);
        if dropped > 0 {
            connection.channel_consumed(channel, dropped)?;
        }
        Ok(None)
    }

    /// The peer sends no more data on the channel.
    pub(super) fn end(&mut self, channel: ChannelId) {
        if let Some(attached) = self.by_channel.get_mut(&channel) {
            attached.end();
        }
    }

    /// Calls every handler that is ready; returns true if there was one.
    pub(super) fn work(
        &mut self,
        connection: &mut Connection,
        now: Millis,
        notices: &mut VecDeque<Notice>,
    ) -> Result<bool, Error> {
        let mut any = false;
        for (channel, attached) in &mut self.by_channel {
            if attached.is_ready(connection, *channel) {
                any = true;
                if attached.work(connection, *channel, now)? {
                    let channel = *channel;
                    notices.push_back(Notice::EndpointEnded { channel });
                }
            }
        }
        Ok(any)
    }

    /// Time until which the socket is not read because a handler is full; `None` if none is, or if
    /// the connection awaits a message from the peer.
    pub(super) fn holds_back(&self, connection: &Connection, now: Millis) -> Option<Millis> {
        let ends = self.by_channel.values().filter_map(Attached::holds_back);
        ends.max()
            .filter(|at| *at > now && !connection.awaits_word())
    }

    pub(super) fn update_hold(&mut self, connection: &Connection, now: Millis) {
        self.hold = self.holds_back(connection, now);
    }

    pub(super) fn hold(&self) -> Option<Millis> {
        self.hold
    }

    pub(super) fn any_ready(&self, connection: &Connection) -> bool {
        let mut all = self.by_channel.iter();
        all.any(|(channel, attached)| attached.is_ready(connection, *channel))
    }

    /// Returns true if a handler has data to send and the peer's window is shut.
    pub(super) fn lacks_window(&self, connection: &Connection) -> bool {
        let mut all = self.by_channel.iter();
        all.any(|(channel, attached)| attached.lacks_window(connection, *channel))
    }
}

/// An endpoint attached to a channel.
struct Attached {
    endpoint: Box<dyn ChannelHandler>,
    /// Of the endpoint's descriptor, if it has one.
    registration: Option<Registration>,
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
    fn new(
        endpoint: Box<dyn ChannelHandler>,
        registration: Option<Registration>,
        connection: &mut Connection,
    ) -> Self {
        // An endpoint without a limit is bounded by the window and pins no additional slabs.
        connection.keep(match endpoint.most_held() {
            usize::MAX => 0,
            most => most,
        });
        Self {
            endpoint,
            registration,
            due: true,
            busy: false,
            blocked: false,
            ended: false,
            held: 0,
            full_since: None,
        }
    }

    fn update_interest(&mut self, epoll: &Epoll) -> io::Result<()> {
        let (Some(fd), Some(registration)) = (self.endpoint.descriptor(), &mut self.registration)
        else {
            return Ok(());
        };
        let awaits = !self.ended && self.endpoint.awaits_input();
        registration.set(epoll, fd, Interest::when(awaits, false))
    }

    /// Passes data to the endpoint. Returns the number of bytes dropped because it has ended.
    #[must_use]
    fn receive(&mut self, stream: Stream, data: Bytes) -> usize {
        if self.ended {
            return data.len();
        }
        self.held += data.len();
        self.due = true;
        self.endpoint.receive(stream, data);
        0
    }

    fn end(&mut self) {
        if !self.ended {
            self.due = true;
            self.endpoint.end();
        }
    }

    /// Returns true if a call of `work` could make progress.
    fn is_ready(&self, connection: &Connection, channel: ChannelId) -> bool {
        !self.ended
            && (self.due
                || self.busy
                || (self.blocked && connection.channel_send_space(channel) > 0))
    }

    /// Returns true if the endpoint has data to send and the peer's window is shut.
    fn lacks_window(&self, connection: &Connection, channel: ChannelId) -> bool {
        !self.ended && self.blocked && connection.channel_window_is_shut(channel)
    }

    /// Time until which this endpoint stops reads; `None` if it is not full.
    fn holds_back(&self) -> Option<Millis> {
        let since = self.full_since.filter(|_| !self.ended)?;
        Some(since.saturating_add(HOLDS_BACK_MS))
    }

    /// Calls the endpoint; returns true if it has just ended.
    fn work(
        &mut self,
        connection: &mut Connection,
        channel: ChannelId,
        now: Millis,
    ) -> Result<bool, Error> {
        let mut line = ChannelIo::new(connection, channel);
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
