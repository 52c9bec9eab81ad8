//! What a caller attaches to a connection: the channels' sources, sinks and handlers, and its own
//! descriptors and timers.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;

use proto::{ChannelId, Connection, Error, Event, Millis, Stream};

use super::handlers::Handlers;
use super::notice::Notice;
use super::poller::{EventTarget, Poller};
use super::sink::Sinks;
use super::source::Sources;
use super::watch::Watches;

#[derive(Default)]
pub(super) struct Attachments {
    pub(super) sources: Sources,
    pub(super) sinks: Sinks,
    pub(super) handlers: Handlers,
    pub(super) watches: Watches,
    pub(super) timers: Timers,
}

/// The caller's timers.
#[derive(Default)]
pub(super) struct Timers {
    deadlines: BTreeMap<u64, Millis>,
    in_order: BTreeSet<(Millis, u64)>,
}

impl Timers {
    pub(super) fn set(&mut self, token: u64, at: Option<Millis>) {
        let before = match at {
            Some(at) => self.deadlines.insert(token, at),
            None => self.deadlines.remove(&token),
        };
        if let Some(before) = before {
            self.in_order.remove(&(before, token));
        }
        self.in_order.extend(at.map(|at| (at, token)));
    }

    fn next(&self) -> Option<Millis> {
        self.in_order.first().map(|(at, _)| *at)
    }

    /// Removes and returns a timer that has expired.
    fn take_due(&mut self, now: Millis) -> Option<u64> {
        let (_, token) = self.in_order.first().filter(|(at, _)| *at <= now)?;
        let token = *token;
        self.set(token, None);
        Some(token)
    }
}

impl Attachments {
    /// Passes data to its handler or sink, and notes the end of a channel's data. Returns the event
    /// if it is for the caller.
    pub(super) fn receive(
        &mut self,
        event: Event,
        connection: &mut Connection,
        poller: &mut Poller,
    ) -> Result<Option<Event>, Error> {
        match event {
            Event::ChannelData {
                channel,
                stream,
                data,
            } => {
                let data = self.handlers.receive(channel, stream, data, connection)?;
                let Some(data) = data else {
                    return Ok(None);
                };
                let unread = self.sinks.push((channel, stream), data);
                return Ok(unread.map(|data| Event::ChannelData {
                    channel,
                    stream,
                    data,
                }));
            }
            Event::ChannelEof(channel) | Event::ChannelPeerClosed(channel) => {
                self.end_data(channel);
            }
            Event::ChannelClosed(channel) => {
                self.end_data(channel);
                for stream in [Stream::Data, Stream::Stderr] {
                    self.sources.detach((channel, stream), poller);
                }
            }
            Event::ChannelWritable(channel) => {
                self.handlers.waken(channel);
            }
            _ => {}
        }
        Ok(Some(event))
    }

    fn end_data(&mut self, channel: ChannelId) {
        self.handlers.end(channel);
        self.sinks.end(channel);
    }

    pub(super) fn update_interest(&mut self, poller: &Poller) -> io::Result<()> {
        self.sources.update_interest(poller.epoll())?;
        self.sinks.update_interest(poller.epoll())?;
        self.handlers.update_interest(poller.epoll())
    }

    /// Returns true if there is work that needs no event.
    pub(super) fn is_busy(&self, connection: &Connection) -> bool {
        self.sources.any_ready(connection)
            || self.sinks.any_ready()
            || self.handlers.any_ready(connection)
            || self.watches.any_always_ready()
    }

    /// Time of the next timer, of the end of a hold, or at which a channel takes data that is held
    /// back.
    pub(super) fn deadline(&self, connection: &Connection) -> Option<Millis> {
        let bulk = self.sources.deadline(connection);
        let all = [self.timers.next(), self.handlers.hold(), bulk];
        all.into_iter().flatten().min()
    }

    /// Handles an event of an attached descriptor.
    pub(super) fn set_ready(
        &mut self,
        target: EventTarget,
        event: sys::epoll::Event,
        notices: &mut VecDeque<Notice>,
    ) {
        match target {
            EventTarget::Source(key) => self.sources.set_ready(key),
            EventTarget::Sink(key) => self.sinks.set_ready(key),
            EventTarget::Handler(channel) => self.handlers.input_ready(channel),
            EventTarget::Watch(fd) => {
                notices.extend(self.watches.token(fd).map(|token| Notice::Ready {
                    token,
                    readable: event.is_readable(),
                    writable: event.is_writable(),
                }));
            }
            EventTarget::SocketRead | EventTarget::SocketWrite | EventTarget::Lanes => {}
        }
    }

    /// Adds the notices that need no event of epoll: files that are always ready, and timers that
    /// have expired.
    pub(super) fn notice_due(&mut self, now: Millis, notices: &mut VecDeque<Notice>) {
        notices.extend(self.watches.always_ready());
        while let Some(token) = self.timers.take_due(now) {
            notices.push_back(Notice::Timer { token });
        }
    }
}
