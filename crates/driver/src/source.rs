//! A descriptor whose bytes are sent on a channel. Reads go directly into the packets that carry
//! the bytes, after their headroom.

use std::convert::Infallible;
use std::io::{self, IoSliceMut};
use std::os::fd::OwnedFd;

use packet::PacketBuf;
use proto::{ChannelId, Connection, Stream};
use sys::epoll::{Epoll, Interest};

use super::DriverError;
use super::pipe::PipeGrowth;
use super::watch::Registration;

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

pub(super) enum SourceOutcome {
    Waiting,
    Ended,
    Failed(io::Error),
}

pub(super) struct ChannelSource {
    fd: OwnedFd,
    registration: Registration,
    ready: bool,
    has_space: bool,
    /// A read has filled [`FIRST_READS_BYTES`].
    has_bulk: bool,
    /// Number of packets that the next read may fill: as many as the last one filled, and one more
    /// if it filled all it had.
    together: usize,
    /// Packets being filled, with the bytes that each may hold.
    packets: Vec<(PacketBuf, usize)>,
    growth: PipeGrowth,
}

impl ChannelSource {
    pub(super) fn new(fd: OwnedFd, token: u64, epoll: &Epoll) -> io::Result<Self> {
        let registration = Registration::new(epoll, &fd, token)?;
        if registration.is_pollable() {
            sys::io::set_nonblocking(&fd, true)?;
        }
        Ok(Self {
            fd,
            registration,
            ready: true,
            has_space: false,
            has_bulk: false,
            together: 1,
            packets: Vec::new(),
            growth: PipeGrowth::default(),
        })
    }

    /// Returns the descriptor, which stays non-blocking, and its token.
    pub(super) fn into_parts(mut self, epoll: &Epoll) -> (OwnedFd, u64) {
        // Cannot fail for an open, registered descriptor; the descriptor would be usable even then.
        let _ = self.registration.set(epoll, &self.fd, Interest::NONE);
        let token = self.registration.token;
        (self.fd, token)
    }

    pub(super) fn set_ready(&mut self) {
        self.ready = true;
    }

    /// Returns true if the descriptor is readable now; the next turn then reads it.
    pub(super) fn look(&mut self) -> io::Result<bool> {
        let readable = sys::io::wait_readable(&self.fd, Some(std::time::Duration::ZERO))?;
        self.ready |= readable;
        Ok(readable)
    }

    /// Returns true if there is space on the channel and a read may make progress.
    pub(super) fn is_ready(&self) -> bool {
        self.ready && self.has_space
    }

    /// Reads and sends as much as possible now; returns true if bytes were sent, and the state.
    pub(super) fn fill(
        &mut self,
        connection: &mut Connection,
        channel: ChannelId,
        stream: Stream,
    ) -> Result<(bool, SourceOutcome), DriverError> {
        let most = if connection.is_typing() {
            TYPING_TURN_BYTES
        } else {
            TURN_BYTES
        };
        let mut sent = 0;
        while self.ready && sent < most {
            self.has_space = self.room(connection, channel) > 0;
            if !self.has_space {
                break;
            }
            let room = self.take_packets(connection, channel, most - sent);
            match self.read() {
                Ok(0) => {
                    self.give_packets_back(connection);
                    return Ok((sent > 0, SourceOutcome::Ended));
                }
                Ok(count) => {
                    let packets = self.send(connection, channel, stream, count)?;
                    sent += count;
                    self.together = (packets + usize::from(count == room)).min(PACKETS_TOGETHER);
                    self.has_bulk |= count >= FIRST_READS_BYTES;
                    self.growth.count(&self.fd, count);
                    if count < SHORT_READ_BYTES.min(room) {
                        self.ready = !self.registration.is_pollable();
                        break;
                    }
                }
                Err(error) => {
                    self.give_packets_back(connection);
                    match error.kind() {
                        io::ErrorKind::WouldBlock => self.ready = !self.registration.is_pollable(),
                        io::ErrorKind::Interrupted => {}
                        _ => return Ok((sent > 0, SourceOutcome::Failed(error))),
                    }
                    break;
                }
            }
        }
        Ok((sent > 0, SourceOutcome::Waiting))
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
    pub(super) fn update_interest(
        &mut self,
        epoll: &Epoll,
        connection: &Connection,
        channel: ChannelId,
    ) -> io::Result<()> {
        self.has_space = self.room(connection, channel) > 0;
        let interest = Interest::when(!self.ready, false);
        self.registration.set(epoll, &self.fd, interest)
    }
}
