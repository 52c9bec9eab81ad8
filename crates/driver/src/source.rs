//! A descriptor whose bytes are sent on a channel. Reads go directly into the packets that carry
//! the bytes, after their headroom.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::io::{self, IoSliceMut};
use std::os::fd::OwnedFd;

use packet::PacketBuf;
use proto::{ChannelId, Connection, Millis, Stream};
use sys::epoll::{Epoll, Interest};

use super::channel_fd::{ChannelFd, StreamOutcome};
use super::error::DriverError;
use super::notice::Notice;
use super::poller::{EventTarget, Poller, StreamKey};

/// Bytes read from one source before all others that are ready have had their turn, rounded up to
/// whole packets of 32 or 64 KiB. The limit lets several sources share a connection and lets a
/// keystroke be noticed soon during a bulk transfer.
const TURN_BYTES: usize = 256 * 1024;
/// The same while the client's user types.
const TYPING_TURN_BYTES: usize = 64 * 1024;
/// Maximum packets that one read fills: each read of a full pipe wakes its writer.
const PACKETS_TOGETHER: usize = 8;
/// A shorter read has probably emptied the descriptor. Epoll reports if not, and a keystroke costs
/// one system call less. Less than a terminal delivers at once.
const SHORT_READ_BYTES: usize = 1024;
/// Bytes per read until a read has filled them: a source that never has more needs no buffer for
/// bulk data, whose 64 KiB would be cleared first. Equals a small buffer of the pool.
const FIRST_READS_BYTES: usize = 1024;

/// The sources of a connection. Only those that are ready cost time in a turn of the loop.
#[derive(Default)]
pub(super) struct Sources {
    by_stream: BTreeMap<StreamKey, ChannelSource>,
    /// The sources that are ready, each once: those whose turn it is first (deficit round robin).
    ready: VecDeque<StreamKey>,
    /// Those of `ready` whose turn is over; empty outside of [`Sources::fill`].
    served: VecDeque<StreamKey>,
    /// The sources that have become ready, or have ceased to be, since their interest was set.
    changed: Vec<StreamKey>,
}

impl Sources {
    pub(super) fn attach(
        &mut self,
        key: StreamKey,
        fd: OwnedFd,
        poller: &mut Poller,
    ) -> io::Result<()> {
        self.detach(key, poller);
        let fd = ChannelFd::new(fd, EventTarget::Source(key), poller)?;
        self.by_stream.insert(key, ChannelSource::new(fd));
        self.ready.push_back(key);
        Ok(())
    }

    /// Passes the bytes that the source reads from now on to `tap` as well. Does nothing without such a
    /// source.
    pub(super) fn set_tap(&mut self, key: StreamKey, tap: Tap) {
        if let Some(source) = self.by_stream.get_mut(&key) {
            source.tap = Some(tap);
        }
    }

    pub(super) fn detach(&mut self, key: StreamKey, poller: &mut Poller) -> Option<OwnedFd> {
        self.ready.retain(|ready| *ready != key);
        Some(self.by_stream.remove(&key)?.fd.detach(poller))
    }

    pub(super) fn contains(&self, key: StreamKey) -> bool {
        self.by_stream.contains_key(&key)
    }

    /// Returns true if a source is ready and its channel takes data.
    pub(super) fn any_ready(&self, connection: &Connection) -> bool {
        let mut ready = self.ready();
        ready.any(|(key, source)| source.room(connection, key.0) > 0)
    }

    /// Time at which a channel takes a ready source's data although nothing is received.
    pub(super) fn deadline(&self, connection: &Connection) -> Option<Millis> {
        let bulk = self.ready().filter(|(_, source)| source.has_bulk);
        bulk.filter_map(|(key, _)| connection.channel_bulk_deadline(key.0))
            .min()
    }

    fn ready(&self) -> impl Iterator<Item = (&StreamKey, &ChannelSource)> {
        let ready = self.ready.iter();
        ready.filter_map(|key| Some((key, self.by_stream.get(key)?)))
    }

    pub(super) fn set_ready(&mut self, key: StreamKey) {
        if let Some(source) = self.by_stream.get_mut(&key) {
            if !source.fd.is_ready() {
                self.ready.push_back(key);
                self.changed.push(key);
            }
            source.fd.set_ready();
        }
    }

    /// Returns true if the source is readable now; the next turn then reads it. False without such
    /// a source.
    pub(super) fn look(&mut self, key: StreamKey) -> io::Result<bool> {
        let Some(source) = self.by_stream.get(&key) else {
            return Ok(false);
        };
        let readable = sys::io::wait_readable(&source.fd, Some(std::time::Duration::ZERO))?;
        if readable {
            self.set_ready(key);
        }
        Ok(readable)
    }

    /// Reads sources into packets as far as windows and the output queue allow. A source that these
    /// stop in its turn goes on first the next time.
    pub(super) fn fill(
        &mut self,
        connection: &mut Connection,
        poller: &mut Poller,
        notices: &mut VecDeque<Notice>,
    ) -> Result<(), DriverError> {
        let turn_bytes = match connection.is_typing() {
            true => TYPING_TURN_BYTES,
            false => TURN_BYTES,
        };
        let mut ended = Vec::new();
        for _ in 0..self.ready.len() {
            let Some(key) = self.ready.pop_front() else {
                break;
            };
            let Some(source) = self.by_stream.get_mut(&key) else {
                continue;
            };
            source.left_bytes = source.left_bytes.min(turn_bytes);
            match source.fill(connection, key.0, key.1)? {
                StreamOutcome::Ended => ended.push((key, None)),
                StreamOutcome::Failed(error) => ended.push((key, Some(error))),
                StreamOutcome::Waiting if !source.fd.is_ready() => {
                    source.left_bytes = turn_bytes;
                    self.changed.push(key);
                }
                StreamOutcome::Waiting if source.left_bytes == 0 => {
                    source.left_bytes = turn_bytes;
                    self.served.push_back(key);
                }
                StreamOutcome::Waiting => self.ready.push_back(key),
            }
        }
        self.ready.append(&mut self.served);
        for ((channel, stream), error) in ended {
            drop(self.detach((channel, stream), poller));
            notices.push_back(Notice::SourceEnded {
                channel,
                stream,
                error,
            });
        }
        Ok(())
    }

    /// Watches for readability until a source is ready, even while nothing may be sent: bulk data of
    /// other sources fills a reopened window or queue before epoll is called, and by then this
    /// source must be known to be ready.
    pub(super) fn update_interest(&mut self, epoll: &Epoll) -> io::Result<()> {
        for key in self.changed.drain(..) {
            if let Some(source) = self.by_stream.get_mut(&key) {
                let interest = Interest::when(!source.fd.is_ready(), false);
                source.fd.set_interest(epoll, interest)?;
            }
        }
        Ok(())
    }
}

/// Gets the bytes that a source reads, in order, before they are sent. The connection waits for it, and
/// ends with its error.
pub type Tap = Box<dyn FnMut(&[u8]) -> io::Result<()> + Send>;

pub(super) struct ChannelSource {
    fd: ChannelFd,
    /// Bytes that are left of its turn.
    left_bytes: usize,
    /// A read has filled [`FIRST_READS_BYTES`].
    has_bulk: bool,
    /// Number of packets that the next read may fill: as many as the last one filled, and one more
    /// if it filled all it had.
    together: usize,
    /// Packets being filled, with the bytes that each may hold.
    packets: Vec<(PacketBuf, usize)>,
    /// Gets a copy of all bytes.
    tap: Option<Tap>,
}

impl ChannelSource {
    fn new(fd: ChannelFd) -> Self {
        Self {
            fd,
            left_bytes: TURN_BYTES,
            has_bulk: false,
            together: 1,
            packets: Vec::new(),
            tap: None,
        }
    }

    /// Reads and sends as much as possible now, within its turn.
    fn fill(
        &mut self,
        connection: &mut Connection,
        channel: ChannelId,
        stream: Stream,
    ) -> Result<StreamOutcome, DriverError> {
        while self.fd.is_ready() && self.left_bytes > 0 {
            let room = self.take_packets(connection, channel);
            if room == 0 {
                break;
            }
            match self.read() {
                Ok(0) => {
                    self.give_packets_back(connection);
                    return Ok(StreamOutcome::Ended);
                }
                Ok(count) => {
                    let packets = self.send(connection, channel, stream, count)?;
                    self.left_bytes = self.left_bytes.saturating_sub(count);
                    self.together = (packets + usize::from(count == room)).min(PACKETS_TOGETHER);
                    self.has_bulk |= count >= FIRST_READS_BYTES;
                    self.fd.count(count);
                    if count < SHORT_READ_BYTES.min(room) {
                        self.fd.would_block();
                        break;
                    }
                }
                Err(error) => {
                    self.give_packets_back(connection);
                    match error.kind() {
                        io::ErrorKind::WouldBlock => self.fd.would_block(),
                        io::ErrorKind::Interrupted => {}
                        _ => return Ok(StreamOutcome::Failed(error)),
                    }
                    break;
                }
            }
        }
        Ok(StreamOutcome::Waiting)
    }

    /// Bytes that the channel takes now, of bulk data if this source had such.
    fn room(&self, connection: &Connection, channel: ChannelId) -> usize {
        if self.has_bulk {
            connection.channel_bulk_room(channel)
        } else {
            connection.channel_send_room(channel)
        }
    }

    /// Takes buffers for the next read, for what is left of the turn, rounded up to whole packets;
    /// returns the bytes that fit into them.
    fn take_packets(&mut self, connection: &mut Connection, channel: ChannelId) -> usize {
        let mut room = self.room(connection, channel);
        if !self.has_bulk {
            room = room.min(FIRST_READS_BYTES);
        }
        let longest = connection.channel_max_data(channel);
        // Round up to whole packets.
        room = room.min(self.left_bytes.next_multiple_of(longest.max(1)));
        let mut taken = 0;
        while taken < room && self.packets.len() < self.together {
            let len = longest.min(room - taken);
            self.packets.push((connection.take_buffer(len), len));
            taken += len;
        }
        taken
    }

    fn read(&mut self) -> io::Result<usize> {
        let mut slices: [_; PACKETS_TOGETHER] = std::array::from_fn(|_| IoSliceMut::new(&mut []));
        let mut filled = 0;
        for (slice, (buf, len)) in slices.iter_mut().zip(&mut self.packets) {
            *slice = IoSliceMut::new(buf.spare(*len));
            filled += 1;
        }
        sys::io::readv(&self.fd, &mut slices[..filled])
    }

    /// Sends the `count` bytes just read; returns the number of packets.
    fn send(
        &mut self,
        connection: &mut Connection,
        channel: ChannelId,
        stream: Stream,
        count: usize,
    ) -> Result<usize, DriverError> {
        let mut left = count;
        let mut packets = 0;
        for (mut buf, len) in self.packets.drain(..) {
            let filled = len.min(left);
            if filled == 0 {
                connection.recycle(buf);
                continue;
            }
            // The read placed the bytes in the buffer already.
            let Ok(_) = buf.fill_with(filled, |_| Ok::<_, Infallible>(filled));
            if let Some(tap) = &mut self.tap {
                tap(buf.payload())?;
            }
            connection.channel_send(channel, stream, buf)?;
            left -= filled;
            packets += 1;
        }
        Ok(packets)
    }

    fn give_packets_back(&mut self, connection: &mut Connection) {
        for (buf, _) in self.packets.drain(..) {
            connection.recycle(buf);
        }
    }
}
