//! Datagrams that the server sends and receives for the client (docs/PROTOCOL.md, `direct-udp`).

use std::fmt;
use std::io::{self, Read, Write};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::Channel;

/// Longest datagram, bytes.
const LONGEST: usize = 65_527;
/// Bytes of a record's length.
const LENGTH_BYTES: usize = 4;
/// Bytes that are read at a time.
const READ_BYTES: usize = 16 * 1024;

/// A flow of datagrams between this program and one UDP port that the server reaches
/// ([`Session::connect_udp`](super::Session::connect_udp)). The server has a socket for it, connected to that port, until this
/// is dropped or no datagram has passed for some time (a minute with Fulmar's sshd).
///
/// Datagrams keep their bounds and may be lost, as with UDP. They are not reordered on their way to
/// the server and back.
pub struct Datagrams {
    channel: Channel,
    /// Bytes received that are not a whole record yet, or more than one.
    received: Mutex<Vec<u8>>,
    /// Held by the thread that sends a record: the kernel takes a long one in several parts, between
    /// which those of another thread could go.
    sending: Mutex<()>,
}

impl Datagrams {
    pub(super) fn new(channel: Channel) -> Self {
        Self {
            channel,
            received: Mutex::default(),
            sending: Mutex::default(),
        }
    }

    /// Sends a datagram of at most 65,507 bytes, or 65,527 if the target has an IPv6 address. Waits
    /// while the connection accepts no more.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] for a longer one; otherwise why the flow has ended.
    pub fn send(&self, datagram: &[u8]) -> io::Result<()> {
        if datagram.len() > LONGEST {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "longer than a datagram",
            ));
        }
        let length = u32::try_from(datagram.len()).unwrap_or_default();
        let record = [&length.to_be_bytes(), datagram].concat();
        let _sending = self.sending.lock().unwrap_or_else(PoisonError::into_inner);
        (&self.channel).write_all(&record)
    }

    /// Waits for the next datagram and copies it to `buffer`; what does not fit is lost. Returns its
    /// length, which may be 0 and is at most that of `buffer`.
    ///
    /// # Errors
    /// [`io::ErrorKind::UnexpectedEof`] after the end of the flow; [`io::ErrorKind::TimedOut`] after
    /// the time of [`Datagrams::set_read_timeout`], after which it may be called again;
    /// [`io::ErrorKind::InvalidData`] if the server breaks the format; otherwise why the connection has
    /// ended.
    pub fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut received = self.received.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(length) = received.first_chunk::<LENGTH_BYTES>() {
                let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
                if length > LONGEST {
                    let text = "the server sent a record longer than a datagram";
                    return Err(io::Error::new(io::ErrorKind::InvalidData, text));
                }
                if let Some(datagram) = received.get(LENGTH_BYTES..LENGTH_BYTES + length) {
                    let count = length.min(buffer.len());
                    let (to, from) = (buffer.get_mut(..count), datagram.get(..count));
                    if let (Some(to), Some(from)) = (to, from) {
                        to.copy_from_slice(from);
                    }
                    received.drain(..LENGTH_BYTES + length);
                    return Ok(count);
                }
            }
            let mut bytes = [0; READ_BYTES];
            match (&self.channel).read(&mut bytes)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => received.extend_from_slice(bytes.get(..count).unwrap_or_default()),
            }
        }
    }

    /// Limits the time for which [`Datagrams::recv`] waits; `None`, the default, is no limit, and with
    /// zero it does not wait.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) {
        self.channel.set_read_timeout(timeout);
    }
}

impl fmt::Debug for Datagrams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Datagrams")
            .field("channel", &self.channel)
            .finish_non_exhaustive()
    }
}
