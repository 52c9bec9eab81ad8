//! A descriptor whose bytes are sent on a channel. Reads go directly into the packets that carry
//! the bytes, after their headroom.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::io::{self, IoSliceMut};
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::os::fd::OwnedFd;

use packet::PacketBuf;
use proto::{ChannelId, Connection, Stream};
use sys::epoll::{Epoll, Interest};

use super::channel_fd::{ChannelFd, StreamOutcome};
use super::error::DriverError;
use super::notice::Notice;
use super::poller::{EventTarget, Poller, StreamKey};

/// Maximum bytes read from one source in one turn, rounded up to whole packets of 32 or 64 KiB. The
/// limit lets several sources share a connection and lets a keystroke be noticed soon during a bulk
/// transfer.
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

/// The sources of a connection.
#[derive(Default)]
pub(super) struct Sources {
    by_stream: BTreeMap<StreamKey, ChannelSource>,
    /// The first source served in the last round that served any.
    served: Option<StreamKey>,
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
        Ok(())
    }

    pub(super) fn detach(&mut self, key: StreamKey, poller: &mut Poller) -> Option<OwnedFd> {
        Some(self.by_stream.remove(&key)?.fd.detach(poller))
    }

    pub(super) fn get_mut(&mut self, key: StreamKey) -> Option<&mut ChannelSource> {
        self.by_stream.get_mut(&key)
    }

    pub(super) fn contains(&self, key: StreamKey) -> bool {
        self.by_stream.contains_key(&key)
    }

    pub(super) fn any_ready(&self) -> bool {
        self.by_stream.values().any(ChannelSource::is_ready)
    }

    /// Reads sources into packets as far as windows and the output queue allow. The source served
    /// first is the last of the next round, as it could fill the queue alone each time.
    pub(super) fn fill(
        &mut self,
        connection: &mut Connection,
        poller: &mut Poller,
        notices: &mut VecDeque<Notice>,
    ) -> Result<(), DriverError> {
        let mut ended = Vec::new();
        let mut served = None;
        let last = self.served;
        let after = (last.map_or(Unbounded, Excluded), Unbounded);
        let up_to = last.map(|last| (Unbounded, Included(last)));
        for range in [Some(after), up_to].into_iter().flatten() {
            for (key, source) in self.by_stream.range_mut(range) {
                let (sent, outcome) = source.fill(connection, key.0, key.1)?;
                if sent && served.is_none() {
                    served = Some(*key);
                }
                match outcome {
                    StreamOutcome::Waiting => {}
                    StreamOutcome::Ended => ended.push((*key, None)),
                    StreamOutcome::Failed(error) => ended.push((*key, Some(error))),
                }
            }
        }
        self.served = served.or(last);
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

    pub(super) fn update_interest(
        &mut self,
        epoll: &Epoll,
        connection: &Connection,
    ) -> io::Result<()> {
        for (key, source) in &mut self.by_stream {
            source.update_interest(epoll, connection, key.0)?;
        }
        Ok(())
    }
}

pub(super) struct ChannelSource {
    fd: ChannelFd,
    has_space: bool,
    /// A read has filled [`FIRST_READS_BYTES`].
    has_bulk: bool,
    /// Number of packets that the next read may fill: as many as the last one filled, and one more
    /// if it filled all it had.
    together: usize,
    /// Packets being filled, with the bytes that each may hold.
    packets: Vec<(PacketBuf, usize)>,
}

impl ChannelSource {
    fn new(fd: ChannelFd) -> Self {
        Self {
            fd,
            has_space: false,
            has_bulk: false,
            together: 1,
            packets: Vec::new(),
        }
    }

    pub(super) fn set_ready(&mut self) {
        self.fd.set_ready();
    }

    /// Returns true if the descriptor is readable now; the next turn then reads it.
    pub(super) fn look(&mut self) -> io::Result<bool> {
        let readable = sys::io::wait_readable(&self.fd, Some(std::time::Duration::ZERO))?;
        if readable {
            self.fd.set_ready();
        }
        Ok(readable)
    }

    /// Returns true if there is space on the channel and a read may make progress.
    fn is_ready(&self) -> bool {
        self.fd.is_ready() && self.has_space
    }

    /// Reads and sends as much as possible now; returns true if bytes were sent, and the state.
    fn fill(
        &mut self,
        connection: &mut Connection,
        channel: ChannelId,
        stream: Stream,
    ) -> Result<(bool, StreamOutcome), DriverError> {
        let most = if connection.is_typing() {
            TYPING_TURN_BYTES
        } else {
            TURN_BYTES
        };
        let mut sent = 0;
        while self.fd.is_ready() && sent < most {
            self.has_space = self.room(connection, channel) > 0;
            if !self.has_space {
                break;
            }
            let room = self.take_packets(connection, channel, most - sent);
            match self.read() {
                Ok(0) => {
                    self.give_packets_back(connection);
                    return Ok((sent > 0, StreamOutcome::Ended));
                }
                Ok(count) => {
                    let packets = self.send(connection, channel, stream, count)?;
                    sent += count;
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
                        _ => return Ok((sent > 0, StreamOutcome::Failed(error))),
                    }
                    break;
                }
            }
        }
        Ok((sent > 0, StreamOutcome::Waiting))
    }

    /// Bytes that the channel takes now, of bulk data if this source had such.
    fn room(&self, connection: &Connection, channel: ChannelId) -> usize {
        if self.has_bulk {
            connection.channel_bulk_room(channel)
        } else {
            connection.channel_send_room(channel)
        }
    }

    /// Takes buffers for the next read, for at most `most` bytes rounded up to whole packets;
    /// returns the bytes that fit into them.
    fn take_packets(
        &mut self,
        connection: &mut Connection,
        channel: ChannelId,
        most: usize,
    ) -> usize {
        let mut room = self.room(connection, channel);
        if !self.has_bulk {
            room = room.min(FIRST_READS_BYTES);
        }
        let longest = connection.channel_max_data(channel);
        // Round up to whole packets.
        room = room.min(most.next_multiple_of(longest.max(1)));
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

    /// Watches for readability until the source is ready, even while nothing may be sent: bulk data
    /// of other sources fills a reopened window or queue before epoll is called, and by then this
    /// source must be known to be ready.
    fn update_interest(
        &mut self,
        epoll: &Epoll,
        connection: &Connection,
        channel: ChannelId,
    ) -> io::Result<()> {
        self.has_space = self.room(connection, channel) > 0;
        let interest = Interest::when(!self.fd.is_ready(), false);
        self.fd.set_interest(epoll, interest)
    }
}
