//! One passenger's socket at its master: whole requests with their descriptors, and answers.
//!
//! No byte is read beyond a request, because the descriptors belong to the bytes after it. A
//! descriptor where none is due, too many and too few end the socket.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::sharing::message::{MAX_MESSAGE_BYTES, MasterReply, PassengerRequest, Wish};

/// Minimum length of a packet that OpenSSH's `ssh -O proxy` reads.
const MIN_PROXY_PACKET_BYTES: usize = 5;
/// Bytes read at once.
const READ_BYTES: usize = 4096;
/// Most bytes of answers that a passenger leaves unread.
const MAX_UNREAD_BYTES: usize = 64 << 10;
/// Most bytes that a passenger in proxy mode leaves unread: the windows that it has opened to the
/// server, 2 MiB for each channel with OpenSSH's `ssh`.
const MAX_UNREAD_PROXY_BYTES: usize = 64 << 20;
/// Longest request, and longest packet of proxy mode, bytes. Its message must fit into a packet to the server, whatever
/// its other fields, padding and compression add: a longer one would end the connection, and all sessions with it.
const MAX_REQUEST_BYTES: usize = MAX_MESSAGE_BYTES - 1024;
/// Bytes read at once in proxy mode.
const PROXY_READ_BYTES: usize = 64 << 10;
/// Least number of sent bytes before the rest is moved to the front.
const MOVE_BYTES: usize = 64 << 10;

/// An arrival at a socket.
#[derive(Debug)]
pub(super) enum Arrival {
    /// A request, with the descriptors that belong to it.
    Request(PassengerRequest, Vec<OwnedFd>),
    /// Nothing whole yet.
    Nothing,
    /// The passenger's end.
    End,
    /// The passenger breaks the protocol; how.
    Broken(String),
    /// Descriptors are missing or too many for the request with this number.
    NoDescriptors(u32),
}

/// What could be read from a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PeekResult {
    Nothing,
    Bytes,
    /// The passenger's end.
    End,
}

/// Bytes and descriptors on their way to a whole request.
#[derive(Debug, Default)]
struct Incoming {
    bytes: Vec<u8>,
    /// Bytes of `bytes` that have been taken as packets of proxy mode.
    taken: usize,
    /// A request whose descriptors follow.
    wish: Option<(u32, Wish)>,
    fds: Vec<OwnedFd>,
}

/// The socket.
#[derive(Debug)]
pub(super) struct Control {
    socket: OwnedFd,
    incoming: Incoming,
    outgoing: Vec<u8>,
    /// Bytes of `outgoing` that have been sent.
    sent: usize,
    /// Messages of the connection protocol are passed on.
    is_proxy: bool,
    /// The passenger has sent its first message.
    pub(super) is_greeted: bool,
    /// The next request waits for the answer to the last one.
    pub(super) is_paused: bool,
    /// It ends when the last answer is written.
    pub(super) is_ending: bool,
}

impl Control {
    pub(super) fn new(socket: OwnedFd) -> Self {
        Self {
            socket,
            incoming: Incoming::default(),
            outgoing: Vec::new(),
            sent: 0,
            is_proxy: false,
            is_greeted: false,
            is_paused: false,
            is_ending: false,
        }
    }

    /// Reads up to the end of one request.
    pub(super) fn receive(&mut self) -> Arrival {
        loop {
            match self.step() {
                Ok(Some(arrival)) => return arrival,
                Ok(None) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Arrival::Nothing;
                }
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    return match &self.incoming.wish {
                        Some((id, _)) => Arrival::NoDescriptors(*id),
                        None => Arrival::Broken(error.to_string()),
                    };
                }
                Err(_) => return Arrival::End,
            }
        }
    }

    fn step(&mut self) -> io::Result<Option<Arrival>> {
        let incoming = &mut self.incoming;
        if let Some((id, wish)) = &incoming.wish {
            if incoming.fds.len() < wish.descriptors() {
                let got = sys::socket::recv_with_fds(&self.socket, &mut [0], 1)?;
                return Ok(match (got.len, got.fds.len()) {
                    (0, _) => Some(Arrival::End),
                    (_, 1) => {
                        incoming.fds.extend(got.fds);
                        None
                    }
                    _ => Some(Arrival::NoDescriptors(*id)),
                });
            }
            let whole = std::mem::take(incoming);
            return Ok(whole
                .wish
                .map(|(id, wish)| Arrival::Request(PassengerRequest::Wish(id, wish), whole.fds)));
        }
        let missing = match incoming.missing() {
            Ok(missing) => missing,
            Err(length) => {
                return Ok(Some(Arrival::Broken(format!(
                    "a message of {length} bytes"
                ))));
            }
        };
        if missing == 0 {
            return Ok(incoming.decode());
        }
        let mut buffer = [0; READ_BYTES];
        let room = buffer.get_mut(..missing.min(READ_BYTES));
        let got = sys::socket::recv_with_fds(&self.socket, room.unwrap_or_default(), 0)?;
        let read = buffer.get(..got.len).unwrap_or_default();
        incoming.bytes.extend_from_slice(read);
        Ok((got.len == 0).then_some(Arrival::End))
    }

    /// What could be read, without reading it.
    pub(super) fn look(&self) -> PeekResult {
        match sys::socket::peek(&self.socket, &mut [0]) {
            Ok(1..) => PeekResult::Bytes,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => PeekResult::Nothing,
            Ok(0) | Err(_) => PeekResult::End,
        }
    }

    /// Queues an answer; what is queued leaves with [`Control::flush`].
    pub(super) fn answer(&mut self, reply: &MasterReply) {
        self.outgoing.extend(reply.packet());
    }

    /// Writes what the socket takes. False if the passenger is gone, or does not read.
    pub(super) fn flush(&mut self) -> bool {
        while let Some(rest) = self
            .outgoing
            .get(self.sent..)
            .filter(|rest| !rest.is_empty())
        {
            match sys::socket::send_now(&self.socket, rest) {
                Ok(count) => self.sent += count.min(rest.len()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let most = match self.is_proxy {
                        true => MAX_UNREAD_PROXY_BYTES,
                        false => MAX_UNREAD_BYTES,
                    };
                    let is_tolerable = rest.len() <= most;
                    // Not more is moved than has been sent: what waits may be many MiB.
                    if self.sent >= MOVE_BYTES.max(rest.len()) {
                        self.outgoing.drain(..self.sent);
                        self.sent = 0;
                    }
                    return is_tolerable;
                }
                Err(_) => return false,
            }
        }
        self.outgoing.clear();
        if self.outgoing.capacity() > MOVE_BYTES {
            self.outgoing = Vec::new();
        }
        self.sent = 0;
        true
    }

    // ---- proxy mode -----------------------------------------------------------------------

    pub(super) fn begin_proxy(&mut self) {
        self.is_proxy = true;
    }

    pub(super) fn is_proxy(&self) -> bool {
        self.is_proxy
    }

    /// Queues a message of the connection protocol (PROTOCOL.mux §9). A short one is padded to the
    /// length that OpenSSH's `ssh` reads.
    pub(super) fn pass(&mut self, parts: &[&[u8]]) {
        let payload: usize = parts.iter().map(|part| part.len()).sum();
        let padding = MIN_PROXY_PACKET_BYTES.saturating_sub(1 + payload);
        let length = u32::try_from(1 + payload + padding).unwrap_or(u32::MAX);
        self.outgoing.extend(length.to_be_bytes());
        self.outgoing
            .push(u8::try_from(padding).unwrap_or_default());
        for part in parts {
            self.outgoing.extend_from_slice(part);
        }
        self.outgoing.resize(self.outgoing.len() + padding, 0);
    }

    /// The next message of the connection protocol, without its padding; `None` if none has arrived
    /// whole.
    ///
    /// # Errors
    /// Those of the socket; `UnexpectedEof` at the passenger's end, and `InvalidData` if it breaks the
    /// protocol.
    pub(super) fn next_proxied(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            if let Some(packet) = self.incoming.take_packet()? {
                return Ok(Some(packet));
            }
            let mut buffer = vec![0; PROXY_READ_BYTES];
            match sys::socket::recv_with_fds(&self.socket, &mut buffer, 0) {
                Ok(got) if got.len == 0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(got) => {
                    let read = buffer.get(..got.len).unwrap_or_default();
                    self.incoming.bytes.extend_from_slice(read);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }

    /// True if answers wait for the socket.
    pub(super) fn is_blocked(&self) -> bool {
        !self.outgoing.is_empty()
    }
}

impl Incoming {
    /// Takes a packet of proxy mode out of the received bytes.
    fn take_packet(&mut self) -> io::Result<Option<Vec<u8>>> {
        let left = self.bytes.get(self.taken..).unwrap_or_default();
        let Some((length, rest)) = left.split_first_chunk() else {
            self.forget_taken();
            return Ok(None);
        };
        let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
        if !(2..=MAX_REQUEST_BYTES).contains(&length) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("a packet of {length} bytes"),
            ));
        }
        let Some((packet, _)) = rest.split_at_checked(length) else {
            self.forget_taken();
            return Ok(None);
        };
        let (padding, payload) = packet.split_first().unwrap_or((&0, &[]));
        let end = payload.len().saturating_sub(usize::from(*padding));
        let payload = payload.get(..end).unwrap_or_default().to_vec();
        self.taken += 4 + length;
        Ok(Some(payload))
    }

    fn forget_taken(&mut self) {
        self.bytes.drain(..self.taken.min(self.bytes.len()));
        self.taken = 0;
    }

    /// Bytes that the length, or the message after it, still lacks; the length itself if it is too
    /// large.
    fn missing(&self) -> Result<usize, usize> {
        let Some((length, message)) = self.bytes.split_first_chunk() else {
            return Ok(4 - self.bytes.len().min(4));
        };
        let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
        match length {
            1..=MAX_REQUEST_BYTES => Ok(length.saturating_sub(message.len())),
            _ => Err(length),
        }
    }

    /// Decodes the whole message; `None` if descriptors follow.
    fn decode(&mut self) -> Option<Arrival> {
        let bytes = std::mem::take(&mut self.bytes);
        match PassengerRequest::decode(bytes.get(4..).unwrap_or_default()) {
            Ok(PassengerRequest::Wish(id, wish)) if wish.descriptors() > 0 => {
                self.wish = Some((id, wish));
                None
            }
            Ok(request) => Some(Arrival::Request(request, Vec::new())),
            Err(error) => Some(Arrival::Broken(error.to_string())),
        }
    }
}

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_no_packet_to_the_server_takes_ends_its_passenger() {
        let taken = |length: usize| {
            let mut bytes = u32::try_from(length).unwrap().to_be_bytes().to_vec();
            bytes.resize(4 + length, 0);
            let mut incoming = Incoming {
                bytes,
                ..Incoming::default()
            };
            incoming.take_packet()
        };
        for length in [0, 1, MAX_REQUEST_BYTES + 1, MAX_MESSAGE_BYTES] {
            let reason = taken(length).unwrap_err();
            assert_eq!(reason.kind(), io::ErrorKind::InvalidData, "{length}");
        }
        let longest = taken(MAX_REQUEST_BYTES).unwrap().unwrap();
        assert_eq!(longest.len(), MAX_REQUEST_BYTES - 1);
    }
}
