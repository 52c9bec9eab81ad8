//! A flow of datagrams whose channel carries them as records (`direct-udp` and `forwarded-udp` of
//! docs/PROTOCOL.md).
//!
//! What the peer sends is passed on at once, and dropped if the socket does not take it. Datagrams
//! for the peer wait while the channel takes no data; beyond [`MAX_WAITING_BYTES`] the oldest ones
//! are dropped, as the newest are worth most.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use bytes::Bytes;
use packet::PacketBuf;
use proto::{Error, Stream};
use sys::socket::datagram::{self, DatagramPeer, MAX_DATAGRAM_BYTES};

use super::records::{RecordWriter, Records};
use crate::{ChannelHandler, ChannelIo, HandlerProgress};

/// Maximum bytes of datagrams that wait for the channel, with [`OVERHEAD_BYTES`] each.
const MAX_WAITING_BYTES: usize = 256 * 1024;
/// What a datagram counts beside its payload, so that empty ones are bounded too.
const OVERHEAD_BYTES: usize = 64;
/// Maximum datagrams that are read in one turn, so that a flood does not starve other channels.
pub(crate) const MAX_READS: usize = 64;
/// Maximum datagrams that are sent in one turn.
const MAX_SENDS: usize = 256;
/// Maximum bytes that are read in one turn.
pub(crate) const MAX_READ_BYTES: usize = 256 * 1024;
/// Errors without a datagram between them after which a socket is given up.
const MAX_ERRORS: u32 = 64;
/// Bytes of a record's length.
const LENGTH_BYTES: usize = 4;

/// Where the datagrams of a flow come from and go to.
#[derive(Debug)]
pub enum DatagramEnd {
    /// A connected socket of this flow.
    Target(DatagramTarget),
    /// A peer of a bound socket, which the owner reads for all flows ([`DatagramPort::push`]).
    Peer {
        /// The bound socket.
        socket: Arc<OwnedFd>,
        /// The peer.
        peer: DatagramPeer,
        /// Bytes before each datagram to the peer.
        head: Vec<u8>,
    },
}

/// A connected socket and the target's other addresses. They are tried when the target's host
/// reports that nobody listens, until a first datagram arrives: a name such as `localhost` has an
/// address of each family, and most services use one.
#[derive(Debug)]
pub struct DatagramTarget {
    socket: OwnedFd,
    current: SocketAddr,
    /// The next one first. One that has refused comes last: a service may start later.
    others: VecDeque<SocketAddr>,
    /// The last datagram sent, while there are others, and how many of them may still get it.
    last: Vec<u8>,
    retries: usize,
    is_readable: bool,
    errors: u32,
}

impl DatagramTarget {
    /// Connects to the first address that has a route.
    ///
    /// # Errors
    /// The last address's error.
    pub fn connect(addresses: &[SocketAddr]) -> io::Result<Self> {
        let (socket, others) = datagram::connect(addresses)?;
        let tried = addresses.len().saturating_sub(others.len() + 1);
        let current = addresses.get(tried).copied();
        Ok(Self {
            socket,
            current: current.ok_or(io::ErrorKind::AddrNotAvailable)?,
            others: others.iter().copied().collect(),
            last: Vec::new(),
            retries: 0,
            is_readable: true,
            errors: 0,
        })
    }

    fn send(&mut self, bytes: &[u8]) {
        if !self.others.is_empty() {
            self.last.clear();
            self.last.extend_from_slice(bytes);
            self.retries = self.others.len();
        }
        if let Err(error) = datagram::send(&self.socket, bytes)
            && is_refusal(&error)
        {
            // It was about an earlier datagram.
            if !self.go_on() {
                let _ = datagram::send(&self.socket, bytes);
            }
        }
    }

    /// Goes on to the next address with a route, which may be the same one again. It gets the last
    /// datagram if that has not been sent as often as there are addresses. False if there is none.
    fn go_on(&mut self) -> bool {
        // One round: a socket whose last attempt failed has no peer.
        for _ in 0..=self.others.len() {
            let refused = self.current;
            let Some(next) = self.others.pop_front() else {
                break;
            };
            self.others.push_back(refused);
            self.current = next;
            if datagram::reconnect(&self.socket, next).is_ok() {
                if self.retries > 0 {
                    self.retries -= 1;
                    if datagram::send(&self.socket, &self.last).is_err() {
                        // The error may be about an earlier datagram.
                        let _ = datagram::send(&self.socket, &self.last);
                    }
                }
                return true;
            }
        }
        false
    }

    /// Reads a datagram; `None` if there is none now.
    fn read(&mut self, buffer: &mut [u8]) -> Option<usize> {
        match datagram::recv(&self.socket, buffer) {
            Ok(count) => {
                self.others.clear();
                self.errors = 0;
                return Some(count);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => {
                // The peer's host said that nobody listens, or the network that there is no way: a
                // later datagram may arrive nevertheless.
                self.errors += 1;
                if is_refusal(&error) {
                    self.go_on();
                }
            }
        }
        self.is_readable = false;
        None
    }
}

fn is_refusal(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, HostUnreachable, NetworkUnreachable};
    matches!(
        error.kind(),
        ConnectionRefused | HostUnreachable | NetworkUnreachable
    ) || datagram::lacks_peer(error)
}

/// Moves datagrams between a socket and its channel.
pub struct DatagramPort {
    end: DatagramEnd,
    scratch: Vec<u8>,
    records: Records,
    /// Bytes received that the channel has not been told as consumed.
    held: usize,
    waiting: WaitingDatagrams,
    /// Records whose sending has begun.
    outgoing: VecDeque<PacketBuf>,
    has_ended: bool,
}

impl std::fmt::Debug for DatagramPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DatagramPort")
            .field("end", &self.end)
            .finish_non_exhaustive()
    }
}

impl DatagramPort {
    /// A flow without datagrams.
    #[must_use]
    pub fn new(end: DatagramEnd) -> Self {
        Self {
            end,
            scratch: Vec::new(),
            records: Records::new(MAX_DATAGRAM_BYTES),
            held: 0,
            waiting: WaitingDatagrams::default(),
            outgoing: VecDeque::new(),
            has_ended: false,
        }
    }

    /// Accepts a datagram for the peer.
    pub fn push(&mut self, datagram: &[u8]) {
        self.waiting.push(datagram);
    }

    /// Accepts records of the peer that came with its request to open the channel.
    pub fn receive_first(&mut self, records: &[u8]) {
        self.records.push(Bytes::copy_from_slice(records));
    }

    /// Passes on what the peer has sent, up to the limit of a turn; true if that was all.
    fn write_received(&mut self) -> bool {
        for _ in 0..MAX_SENDS {
            match self.records.next_record() {
                Ok(Some(record)) => match &mut self.end {
                    DatagramEnd::Target(target) => target.send(&record),
                    DatagramEnd::Peer { socket, peer, head } => {
                        let _ = datagram::send_to(&*socket, head, &record, peer);
                    }
                },
                Ok(None) => return true,
                Err(_) => {
                    // Malformed.
                    self.has_ended = true;
                    return true;
                }
            }
        }
        false
    }

    /// Reads what the target has sent, up to the limits of a turn.
    fn read_target(&mut self) {
        let DatagramEnd::Target(target) = &mut self.end else {
            return;
        };
        if target.is_readable && self.scratch.is_empty() {
            self.scratch = vec![0; MAX_DATAGRAM_BYTES];
        }
        let mut bytes = 0;
        for _ in 0..MAX_READS {
            if !target.is_readable || bytes >= MAX_READ_BYTES {
                break;
            }
            if let Some(count) = target.read(&mut self.scratch) {
                bytes += count;
                self.waiting
                    .push(self.scratch.get(..count).unwrap_or_default());
            }
        }
        // Most flows have nothing to read for most of their time.
        if !target.is_readable {
            self.scratch = Vec::new();
        }
        self.has_ended |= target.errors > MAX_ERRORS;
    }

    /// Sends what the channel takes now: the rest waits, because it may be dropped there.
    fn send_waiting(&mut self, line: &mut ChannelIo<'_>) -> Result<(), Error> {
        loop {
            line.send_queued(&mut self.outgoing)?;
            if !self.outgoing.is_empty() || self.waiting.is_empty() {
                return Ok(());
            }
            let space = line.space();
            if space == 0 {
                return Ok(());
            }
            let mut writer = RecordWriter::new(line.max_data(), self.waiting.record_bytes());
            while writer.gathered() < space
                && let Some(datagram) = self.waiting.pop()
            {
                writer.record(&[&datagram], line);
            }
            self.outgoing = writer.finish();
        }
    }
}

/// Datagrams in order, of bounded size.
#[derive(Debug, Default)]
struct WaitingDatagrams {
    queue: VecDeque<Box<[u8]>>,
    bytes: usize,
}

impl WaitingDatagrams {
    fn push(&mut self, datagram: &[u8]) {
        self.queue.push_back(datagram.into());
        self.bytes += datagram.len() + OVERHEAD_BYTES;
        while self.bytes > MAX_WAITING_BYTES {
            self.pop();
        }
    }

    fn pop(&mut self) -> Option<Box<[u8]>> {
        let oldest = self.queue.pop_front()?;
        self.bytes = self.bytes.saturating_sub(oldest.len() + OVERHEAD_BYTES);
        Some(oldest)
    }

    fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Bytes of all of them as records.
    fn record_bytes(&self) -> usize {
        let count = self.queue.len();
        self.bytes
            .saturating_sub(count * (OVERHEAD_BYTES - LENGTH_BYTES))
    }
}

impl ChannelHandler for DatagramPort {
    fn receive(&mut self, stream: Stream, data: Bytes) {
        self.held += data.len();
        // Datagrams have no standard error.
        if stream == Stream::Data {
            self.records.push(data);
        }
    }

    fn end(&mut self) {
        self.has_ended = true;
    }

    fn work(&mut self, line: &mut ChannelIo<'_>) -> Result<HandlerProgress, Error> {
        let is_all = self.write_received();
        if is_all {
            line.consumed(std::mem::take(&mut self.held))?;
        }
        self.read_target();
        if self.has_ended {
            return Ok(HandlerProgress::Ended);
        }
        self.send_waiting(line)?;
        Ok(match &self.end {
            _ if !is_all => HandlerProgress::Busy,
            DatagramEnd::Target(target) if target.is_readable => HandlerProgress::Busy,
            _ => HandlerProgress::Waiting,
        })
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match &self.end {
            DatagramEnd::Target(target) => Some(target.socket.as_fd()),
            DatagramEnd::Peer { .. } => None,
        }
    }

    fn awaits_input(&self) -> bool {
        matches!(&self.end, DatagramEnd::Target(target) if !target.is_readable)
    }

    fn input_ready(&mut self) {
        if let DatagramEnd::Target(target) = &mut self.end {
            target.is_readable = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_datagrams_wait_and_the_oldest_are_dropped() {
        let mut waiting = WaitingDatagrams::default();
        for number in 0..=u8::MAX {
            waiting.push(&[number; 10_000]);
        }
        assert!(waiting.bytes <= MAX_WAITING_BYTES);
        let count = waiting.queue.len();
        assert_eq!(count, MAX_WAITING_BYTES / (10_000 + OVERHEAD_BYTES));
        assert_eq!(waiting.record_bytes(), count * (10_000 + LENGTH_BYTES));
        let first = 256 - count;
        for wanted in first..256 {
            let datagram = waiting.pop().unwrap();
            assert_eq!(usize::from(datagram[0]), wanted);
        }
        assert!(waiting.is_empty() && waiting.pop().is_none());
        assert_eq!((waiting.bytes, waiting.record_bytes()), (0, 0));
    }

    #[test]
    fn empty_datagrams_are_bounded_and_the_longest_fits() {
        let mut waiting = WaitingDatagrams::default();
        for _ in 0..100_000 {
            waiting.push(&[]);
        }
        assert_eq!(waiting.queue.len(), MAX_WAITING_BYTES / OVERHEAD_BYTES);
        waiting.push(&[1; MAX_DATAGRAM_BYTES]);
        assert_eq!(
            waiting.queue.back().map(|last| last.len()),
            Some(MAX_DATAGRAM_BYTES)
        );
    }

    #[test]
    fn an_address_without_a_route_does_not_end_the_attempts() {
        // A port that was free a moment ago.
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let late = socket.local_addr().unwrap();
        drop(socket);
        // A broadcast address may not be connected to.
        let without = SocketAddr::from(([255, 255, 255, 255], late.port()));
        let mut target = DatagramTarget::connect(&[late, without]).unwrap();
        let mut buffer = vec![0; MAX_DATAGRAM_BYTES];
        target.send(b"early");
        while target.retries > 0 {
            assert_eq!(target.read(&mut buffer), None);
            std::thread::yield_now();
        }
        assert_eq!(target.current, late);
        // The network was gone when it was tried.
        assert!(datagram::reconnect(&target.socket, without).is_err());
        let listener = std::net::UdpSocket::bind(late).unwrap();
        target.send(b"question");
        let (count, _) = listener.recv_from(&mut buffer).unwrap();
        assert_eq!(&buffer[..count], b"question");
    }

    #[test]
    fn a_target_is_tried_at_each_of_its_addresses_until_one_answers() {
        // Ports that were free a moment ago.
        let sockets = [(); 2].map(|()| std::net::UdpSocket::bind("127.0.0.1:0").unwrap());
        let [refusing, late] = sockets.map(|socket| socket.local_addr().unwrap());
        let mut target = DatagramTarget::connect(&[late, refusing]).unwrap();
        let mut buffer = vec![0; MAX_DATAGRAM_BYTES];
        // Nobody listens at either: it goes to each of them once.
        target.send(b"early");
        while target.retries > 0 || target.current != late {
            assert_eq!(target.read(&mut buffer), None);
            std::thread::yield_now();
        }
        // A service starts at an address that has refused.
        let listener = std::net::UdpSocket::bind(late).unwrap();
        target.send(b"question");
        let (count, from) = listener.recv_from(&mut buffer).unwrap();
        assert_eq!(&buffer[..count], b"question");
        listener.send_to(b"answer", from).unwrap();
        let answered = std::iter::repeat_with(|| target.read(&mut buffer)).find_map(|read| read);
        assert_eq!(answered, Some(6));
        assert!(target.others.is_empty());
    }
}
