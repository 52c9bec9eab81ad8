//! A descriptor whose bytes go out on a channel: read straight behind the headroom of the
//! packets that carry them.

use std::convert::Infallible;
use std::io::{self, IoSliceMut};
use std::os::fd::OwnedFd;

use packet::PacketBuf;
use proto::{ChannelId, Connection, Stream};
use sys::epoll::{Epoll, Interest};

use super::DriverError;
use super::pipe::PipeGrowth;
use super::watch::Registration;

/// What one source is read for in one turn, bytes, or a packet more: so that several share a
/// connection, and a keystroke beside bulk is not noticed late. Packets are 32 or 64 KiB.
const TURN_BYTES: usize = 256 * 1024;
/// The most packets that one read fills: whoever writes into a pipe that is full is woken by each
/// read of it.
const PACKETS_TOGETHER: usize = 8;
/// A read that brings less has emptied the descriptor, most likely: epoll will say if not, and a
/// keystroke costs one system call less. Below what a terminal gives at once.
const SHORT_READ_BYTES: usize = 1024;
/// Room for reads until one has filled it: a source that never has more to say takes no buffer for
/// bulk data, 64 KiB that are cleared first. What a small buffer of the pool holds.
const FIRST_READS_BYTES: usize = 1024;

pub(super) enum Outcome {
    Waiting,
    Ended,
    Failed(io::Error),
}

pub(super) struct Source {
    fd: OwnedFd,
    registration: Registration,
    ready: bool,
    has_space: bool,
    /// A read has filled [`FIRST_READS_BYTES`].
    has_bulk: bool,
    /// Packets that the next read may fill: as many as the last one did, and one more if that
    /// filled them all.
    together: usize,
    /// Those that are being filled, with the bytes that each may hold.
    packets: Vec<(PacketBuf, usize)>,
    growth: PipeGrowth,
}

impl Source {
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

    /// The descriptor, which stays non-blocking, and its token.
    pub(super) fn into_parts(mut self, epoll: &Epoll) -> (OwnedFd, u64) {
        // Cannot fail for a descriptor that was registered and is open; if it did, the
        // descriptor would still be good.
        let _ = self.registration.set(epoll, &self.fd, Interest::NONE);
        let token = self.registration.token;
        (self.fd, token)
    }

    pub(super) fn set_ready(&mut self) {
        self.ready = true;
    }

    /// Asks the kernel whether it could be read without waiting; if so, that is done next.
    pub(super) fn look(&mut self) -> io::Result<bool> {
        let readable = sys::io::wait_readable(&self.fd, Some(std::time::Duration::ZERO))?;
        self.ready |= readable;
        Ok(readable)
    }

    /// Could be read without waiting.
    pub(super) fn is_ready(&self) -> bool {
        self.ready && self.has_space
    }

    /// Sends what can be read and sent now; says whether that was anything, and what comes of it.
    pub(super) fn fill(
        &mut self,
        connection: &mut Connection,
        channel: ChannelId,
        stream: Stream,
    ) -> Result<(bool, Outcome), DriverError> {
        let mut sent = 0;
        while self.ready && sent < TURN_BYTES {
            self.has_space = connection.channel_send_space(channel) > 0;
            if !self.has_space {
                break;
            }
            let room = self.take_packets(connection, channel, TURN_BYTES - sent);
            match self.read() {
                Ok(0) => {
                    self.give_packets_back(connection);
                    return Ok((sent > 0, Outcome::Ended));
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
                        _ => return Ok((sent > 0, Outcome::Failed(error))),
                    }
                    break;
                }
            }
        }
        Ok((sent > 0, Outcome::Waiting))
    }

    /// Takes the buffers of the packets that are read next, for at most so many bytes or a packet
    /// more, and gives the bytes that fit into them.
    fn take_packets(
        &mut self,
        connection: &mut Connection,
        channel: ChannelId,
        most: usize,
    ) -> usize {
        let mut room = connection.channel_send_room(channel);
        if !self.has_bulk {
            room = room.min(FIRST_READS_BYTES);
        }
        let longest = connection.channel_max_data(channel);
        // Whole packets.
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

    /// Sends the `count` bytes that were read; gives the number of packets.
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
            // The bytes are where they belong.
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

    /// Asks for readability until it is known, also while nothing may be sent: a window that opens
    /// and a queue that has room again are filled by the bulk beside it before epoll is asked, and it
    /// must be known by then that this source wants its turn.
    pub(super) fn update_interest(&mut self, epoll: &Epoll, has_space: bool) -> io::Result<()> {
        self.has_space = has_space;
        let interest = Interest::when(!self.ready, false);
        self.registration.set(epoll, &self.fd, interest)
    }
}
