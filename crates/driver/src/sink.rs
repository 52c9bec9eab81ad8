//! A descriptor that receives a channel's data, written directly from the slabs of the received
//! packets.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, IoSlice};
use std::os::fd::OwnedFd;

use bytes::Bytes;
use proto::{ChannelId, Connection, Error, Stream};
use sys::epoll::{Epoll, Interest};

use super::channel_fd::{ChannelFd, StreamOutcome};
use super::chunk_queue::ChunkQueue;
use super::notice::Notice;
use super::poller::{EventTarget, Poller, StreamKey};

/// Maximum chunks in one writev.
const MAX_SLICES: usize = 64;

/// The sinks of a connection. Only those to which something happened cost time in a turn.
#[derive(Default)]
pub(super) struct Sinks {
    by_stream: BTreeMap<StreamKey, ChannelSink>,
    /// The sinks that have got data, their end or an event since they were last drained; each once.
    touched: Vec<StreamKey>,
    /// The sinks that have been drained since their interest was set.
    drained: Vec<StreamKey>,
}

impl Sinks {
    /// Attaches `fd` to a stream without a sink.
    pub(super) fn attach(
        &mut self,
        key: StreamKey,
        fd: OwnedFd,
        poller: &mut Poller,
    ) -> io::Result<()> {
        let fd = ChannelFd::new(fd, EventTarget::Sink(key), poller)?;
        self.by_stream.insert(key, ChannelSink::new(fd));
        Ok(())
    }

    /// As [`Self::attach`], for a socket whose sending direction is shut down after the last byte.
    pub(super) fn attach_socket(
        &mut self,
        key: StreamKey,
        socket: OwnedFd,
        poller: &mut Poller,
    ) -> io::Result<()> {
        self.attach(key, socket, poller)?;
        if let Some(sink) = self.by_stream.get_mut(&key) {
            sink.shuts_down = true;
        }
        Ok(())
    }

    /// Returns the descriptor. Bytes not yet written are dropped and count as consumed, because
    /// nobody else could give that part of the window back.
    pub(super) fn detach(
        &mut self,
        key: StreamKey,
        connection: &mut Connection,
        poller: &mut Poller,
    ) -> Result<Option<OwnedFd>, Error> {
        let Some(sink) = self.by_stream.remove(&key) else {
            return Ok(None);
        };
        self.touched.retain(|touched| *touched != key);
        let dropped = sink.queue.len();
        let fd = sink.fd.detach(poller);
        if dropped > 0 {
            connection.channel_consumed(key.0, dropped)?;
        }
        Ok(Some(fd))
    }

    /// Appends data for the stream; returns the data if it has no sink.
    pub(super) fn push(&mut self, key: StreamKey, data: Bytes) -> Option<Bytes> {
        let Some(sink) = self.by_stream.get_mut(&key) else {
            return Some(data);
        };
        sink.queue.push(data);
        sink.touch(key, &mut self.touched);
        None
    }

    pub(super) fn set_ready(&mut self, key: StreamKey) {
        if let Some(sink) = self.by_stream.get_mut(&key) {
            sink.fd.set_ready();
            sink.touch(key, &mut self.touched);
        }
    }

    pub(super) fn contains(&self, key: StreamKey) -> bool {
        self.by_stream.contains_key(&key)
    }

    pub(super) fn any_ready(&self) -> bool {
        let mut touched = self.touched.iter();
        touched.any(|key| self.by_stream.get(key).is_some_and(ChannelSink::is_ready))
    }

    /// The peer sends no more data on the channel.
    pub(super) fn end(&mut self, channel: ChannelId) {
        for key in [Stream::Data, Stream::Stderr].map(|stream| (channel, stream)) {
            if let Some(sink) = self.by_stream.get_mut(&key) {
                sink.ended = true;
                sink.touch(key, &mut self.touched);
            }
        }
    }

    /// Writes what one sink's descriptor accepts now.
    pub(super) fn write(
        &mut self,
        key: StreamKey,
        connection: &mut Connection,
    ) -> Result<(), Error> {
        let Some(sink) = self.by_stream.get_mut(&key) else {
            return Ok(());
        };
        // The caller ends the sink: its direction is not shut down, and an error changes nothing.
        let written = sink.write().0;
        match written {
            0 => Ok(()),
            bytes => connection.channel_consumed(key.0, bytes),
        }
    }

    /// Writes what each sink's descriptor accepts, and reopens the window accordingly.
    pub(super) fn drain(
        &mut self,
        connection: &mut Connection,
        poller: &mut Poller,
        notices: &mut VecDeque<Notice>,
    ) -> Result<(), Error> {
        let mut ended = Vec::new();
        for key in self.touched.drain(..) {
            let Some(sink) = self.by_stream.get_mut(&key) else {
                continue;
            };
            sink.is_touched = false;
            self.drained.push(key);
            let (written, outcome) = sink.drain();
            if written > 0 {
                connection.channel_consumed(key.0, written)?;
            }
            match outcome {
                StreamOutcome::Waiting => {}
                StreamOutcome::Ended => ended.push((key, None)),
                StreamOutcome::Failed(error) => ended.push((key, Some(error))),
            }
        }
        for ((channel, stream), error) in ended {
            drop(self.detach((channel, stream), connection, poller)?);
            notices.push_back(Notice::SinkEnded {
                channel,
                stream,
                error,
            });
        }
        Ok(())
    }

    pub(super) fn update_interest(&mut self, epoll: &Epoll) -> io::Result<()> {
        for key in self.drained.drain(..) {
            if let Some(sink) = self.by_stream.get_mut(&key) {
                sink.update_interest(epoll)?;
            }
        }
        Ok(())
    }
}

pub(super) struct ChannelSink {
    fd: ChannelFd,
    /// The peer sends no more data.
    ended: bool,
    /// The descriptor is a socket whose sending direction ends with the data.
    shuts_down: bool,
    /// It is one of [`Sinks::touched`].
    is_touched: bool,
    queue: ChunkQueue,
}

impl ChannelSink {
    fn new(fd: ChannelFd) -> Self {
        Self {
            fd,
            ended: false,
            shuts_down: false,
            is_touched: false,
            queue: ChunkQueue::default(),
        }
    }

    fn touch(&mut self, key: StreamKey, touched: &mut Vec<StreamKey>) {
        if !std::mem::replace(&mut self.is_touched, true) {
            touched.push(key);
        }
    }

    /// Returns true if a write may make progress.
    fn is_ready(&self) -> bool {
        self.fd.is_ready() && !self.queue.is_empty()
    }

    /// Writes as much as the descriptor accepts; returns the number of bytes and an error.
    fn write(&mut self) -> (usize, Option<io::Error>) {
        let mut written = 0;
        while self.fd.is_ready() && !self.queue.is_empty() {
            let mut slices = [IoSlice::new(&[]); MAX_SLICES];
            let count = self.queue.slices(&mut slices);
            match sys::io::writev(&self.fd, &slices[..count]) {
                Ok(count) => {
                    written += count;
                    self.fd.count(count);
                    self.queue.advance(count);
                }
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => {
                        self.fd.would_block();
                        break;
                    }
                    io::ErrorKind::Interrupted => {}
                    _ => return (written, Some(error)),
                },
            }
        }
        (written, None)
    }

    /// As [`Self::write`]; returns the number of bytes and the state.
    fn drain(&mut self) -> (usize, StreamOutcome) {
        let (written, error) = self.write();
        if let Some(error) = error {
            return (written, StreamOutcome::Failed(error));
        }
        let outcome = if self.ended && self.queue.is_empty() {
            if self.shuts_down {
                // Fails if the connection has ended by itself.
                let _ = sys::socket::shutdown(&self.fd, sys::socket::ShutdownDirection::Write);
            }
            StreamOutcome::Ended
        } else {
            StreamOutcome::Waiting
        };
        (written, outcome)
    }

    fn update_interest(&mut self, epoll: &Epoll) -> io::Result<()> {
        let interest = Interest::when(false, !self.queue.is_empty() && !self.fd.is_ready());
        self.fd.set_interest(epoll, interest)
    }
}
