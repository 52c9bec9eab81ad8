//! One passenger's socket at its master: whole requests with their descriptors, and answers.
//!
//! No byte is read beyond a request, because the descriptors belong to the bytes after it. A
//! descriptor where none is due, too many and too few end the socket.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::sharing::message::{MAX_MESSAGE_BYTES, MasterReply, PassengerRequest, Wish};

/// Bytes read at once.
const READ_BYTES: usize = 4096;
/// Most bytes of answers that a passenger leaves unread.
const MAX_UNREAD_BYTES: usize = 64 << 10;

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
        while !self.outgoing.is_empty() {
            match sys::socket::send_now(&self.socket, &self.outgoing) {
                Ok(count) => drop(self.outgoing.drain(..count.min(self.outgoing.len()))),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return self.outgoing.len() <= MAX_UNREAD_BYTES;
                }
                Err(_) => return false,
            }
        }
        true
    }

    /// True if answers wait for the socket.
    pub(super) fn is_blocked(&self) -> bool {
        !self.outgoing.is_empty()
    }
}

impl Incoming {
    /// Bytes that the length, or the message after it, still lacks; the length itself if it is too
    /// large.
    fn missing(&self) -> Result<usize, usize> {
        let Some((length, message)) = self.bytes.split_first_chunk() else {
            return Ok(4 - self.bytes.len().min(4));
        };
        let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
        match length {
            1..=MAX_MESSAGE_BYTES => Ok(length.saturating_sub(message.len())),
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
