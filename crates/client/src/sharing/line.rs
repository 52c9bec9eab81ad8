//! A passenger's end of the socket to its master: whole messages, with a time limit where one
//! applies.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use sys::socket::Connecting;

use super::message::{
    MAX_MESSAGE_BYTES, MasterFacts, MasterReply, PassengerRequest, VERSION, Wish,
};
use crate::log::debug2;

/// Bytes read at once; all messages of a master are short.
const READ_BYTES: usize = 512;
/// Pause before another attempt to connect to a listener whose queue is full.
const QUEUE_PAUSE: Duration = Duration::from_millis(10);

/// Why there is no message.
#[derive(Debug)]
pub(crate) enum LineEnd {
    /// The master has closed the socket, having read all that was sent.
    Closed,
    /// The master has closed the socket before it had read all that was sent.
    Unread,
    /// The time is over.
    TimedOut,
    /// The master breaks the protocol; how.
    Broken(String),
    /// The system's error.
    Failed(io::Error),
}

impl fmt::Display for LineEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed | Self::Unread => f.write_str("Broken pipe"),
            Self::TimedOut => f.write_str("it does not answer"),
            Self::Broken(how) => f.write_str(how),
            Self::Failed(error) => f.write_str(&crate::connect::plain_reason(error)),
        }
    }
}

impl From<io::Error> for LineEnd {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            // unix(7) reports unread bytes of a closed peer as a reset.
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Self::Unread,
            _ => Self::Failed(error),
        }
    }
}

/// The socket, after the first messages.
#[derive(Debug)]
pub(crate) struct Line {
    socket: OwnedFd,
    received: Vec<u8>,
    next_id: u32,
    /// What the master has told of itself.
    pub(crate) master: MasterFacts,
}

impl Line {
    /// Connects to the master at `path`, until `deadline` while its queue is full.
    pub(crate) fn connect(path: &Path, deadline: Instant) -> io::Result<Self> {
        let socket = loop {
            match sys::socket::connect_unix(path) {
                Ok(Connecting::Done(socket) | Connecting::InProgress(socket)) => break socket,
                Err(error)
                    if error.kind() == io::ErrorKind::WouldBlock && Instant::now() < deadline =>
                {
                    std::thread::sleep(QUEUE_PAUSE);
                }
                Err(error) => return Err(error),
            }
        };
        sys::io::set_nonblocking(&socket, false)?;
        Ok(Self {
            socket,
            received: Vec::new(),
            next_id: 0,
            master: MasterFacts::default(),
        })
    }

    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The socket, and the bytes that have been read beyond the last message.
    pub(crate) fn into_parts(self) -> (OwnedFd, Vec<u8>) {
        (self.socket, self.received)
    }

    fn write(&self, packet: &[u8]) -> Result<(), LineEnd> {
        Ok(sys::io::write_all(&self.socket, packet)?)
    }

    /// Sends the first message, and `wish` with it, if there is one.
    pub(crate) fn greet(&mut self, wish: Option<Wish>) -> Result<u32, LineEnd> {
        let mut packets = PassengerRequest::Hello(VERSION).packet();
        let id = self.next_id;
        if let Some(wish) = wish {
            packets.extend(PassengerRequest::Wish(id, wish).packet());
            self.next_id += 1;
        }
        self.write(&packets)?;
        Ok(id)
    }

    /// Reads the master's first message.
    pub(crate) fn greeted(&mut self, deadline: Instant) -> Result<(), LineEnd> {
        match self.next(Some(deadline))? {
            MasterReply::Hello {
                version: VERSION,
                master,
            } => {
                self.master = master;
                debug2!("master version {VERSION}");
                Ok(())
            }
            MasterReply::Hello { version: other, .. } => Err(LineEnd::Broken(format!(
                "Unsupported multiplexing protocol version {other} (expected {VERSION})"
            ))),
            other => Err(LineEnd::Broken(format!("expected HELLO, got {other:?}"))),
        }
    }

    /// Sends a request; the descriptors follow it one by one.
    pub(crate) fn ask(&mut self, wish: Wish, fds: &[BorrowedFd<'_>]) -> Result<u32, LineEnd> {
        let id = self.next_id;
        self.next_id += 1;
        self.write(&PassengerRequest::Wish(id, wish).packet())?;
        for fd in fds {
            sys::socket::send_with_fds(&self.socket, &[0], &[*fd])?;
        }
        Ok(id)
    }

    /// The next message if it has arrived whole; else waits for bytes once.
    pub(crate) fn next(&mut self, deadline: Option<Instant>) -> Result<MasterReply, LineEnd> {
        loop {
            if let Some(reply) = self.take()? {
                return Ok(reply);
            }
            if let Some(deadline) = deadline {
                let left = deadline.saturating_duration_since(Instant::now());
                if !sys::io::wait_readable(&self.socket, Some(left))? {
                    return Err(LineEnd::TimedOut);
                }
            }
            self.read()?;
        }
    }

    /// Reads what has arrived, and waits if nothing has.
    pub(crate) fn read(&mut self) -> Result<(), LineEnd> {
        let mut buffer = [0; READ_BYTES];
        let count = sys::io::read(&self.socket, &mut buffer)?;
        if count == 0 {
            return Err(LineEnd::Closed);
        }
        let read = buffer.get(..count).unwrap_or_default();
        self.received.extend_from_slice(read);
        Ok(())
    }

    /// Takes a message out of the received bytes.
    pub(crate) fn take(&mut self) -> Result<Option<MasterReply>, LineEnd> {
        let Some((length, rest)) = self.received.split_first_chunk() else {
            return Ok(None);
        };
        let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
        if length > MAX_MESSAGE_BYTES {
            return Err(LineEnd::Broken(format!("a message of {length} bytes")));
        }
        let Some(message) = rest.get(..length) else {
            return Ok(None);
        };
        let reply =
            MasterReply::decode(message).map_err(|error| LineEnd::Broken(error.to_string()))?;
        self.received.drain(..4 + length);
        Ok(Some(reply))
    }
}
