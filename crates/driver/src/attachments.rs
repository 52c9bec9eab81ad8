//! What a caller attaches to a connection: the channels' sources, sinks and handlers, and its own
//! descriptors and timers.

use std::collections::{BTreeMap, VecDeque};
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
    /// Deadline of each of the caller's timers.
    pub(super) timers: BTreeMap<u64, Millis>,
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
                let Some(sink) = self.sinks.get_mut((channel, stream)) else {
                    return Ok(Some(Event::ChannelData {
                        channel,
                        stream,
                        data,
                    }));
                };
                sink.push(data);
                return Ok(None);
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

    pub(super) fn update_interest(
        &mut self,
        connection: &Connection,
        poller: &Poller,
    ) -> io::Result<()> {
        self.sources.update_interest(poller.epoll(), connection)?;
        self.sinks.update_interest(poller.epoll())
    }

    /// Returns true if there is work that needs no event.
    pub(super) fn is_busy(&self, connection: &Connection) -> bool {
        self.sources.any_ready()
            || self.sinks.any_ready()
            || self.handlers.any_ready(connection)
            || self.watches.any_always_ready()
    }

    /// Time of the next timer, or of the end of a hold.
    pub(super) fn deadline(&self) -> Option<Millis> {
        let timers = self.timers.values().copied();
        timers.chain(self.handlers.hold()).min()
    }

    /// Handles an event of an attached descriptor.
    pub(super) fn set_ready(
        &mut self,
        target: EventTarget,
        event: sys::epoll::Event,
        notices: &mut VecDeque<Notice>,
    ) {
        match target {
            EventTarget::Source(key) => {
                if let Some(source) = self.sources.get_mut(key) {
                    source.set_ready();
                }
            }
            EventTarget::Sink(key) => {
                if let Some(sink) = self.sinks.get_mut(key) {
                    sink.set_ready();
                }
            }
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
        self.timers.retain(|token, at| {
            let is_due = *at <= now;
            if is_due {
                notices.push_back(Notice::Timer { token: *token });
            }
            !is_due
        });
    }
}
