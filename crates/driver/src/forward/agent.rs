//! Connections to the client's agent (OpenSSH's PROTOCOL.agent §1): the agent first gets the request
//! that binds the connection to this session, and its answer does not reach the peer. An agent that
//! does not know the request refuses it and serves the connection as any other.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use proto::ChannelId;

use super::{ForwardStage, ForwardTarget, ForwardToken, Forwards};
use crate::{Driver, SocketPair};

/// Longest answer to the request, bytes; the agent protocol's limit.
const MAX_ANSWER_BYTES: usize = 256 * 1024;
/// Bytes of the answer that are read and dropped at a time.
const READ_BYTES: usize = 512;

/// The part of an answer that has arrived: four bytes of length, then as many bytes.
#[derive(Default)]
pub(super) struct BindAnswer {
    length: [u8; 4],
    length_bytes: usize,
    body_bytes: usize,
}

impl BindAnswer {
    /// Bytes that are still to come, as far as is known; `None` if the answer is too long.
    fn missing(&self) -> Option<usize> {
        match self.length.len() - self.length_bytes {
            0 => usize::try_from(u32::from_be_bytes(self.length))
                .ok()
                .filter(|bytes| *bytes <= MAX_ANSWER_BYTES)
                .map(|bytes| bytes - self.body_bytes.min(bytes)),
            bytes => Some(bytes),
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        if self.length_bytes == self.length.len() {
            self.body_bytes += bytes.len();
            return;
        }
        for byte in bytes {
            if let Some(slot) = self.length.get_mut(self.length_bytes) {
                *slot = *byte;
                self.length_bytes += 1;
            }
        }
    }

    /// Reads the rest of the answer and no byte more. True if it is complete.
    fn read(&mut self, socket: &OwnedFd) -> io::Result<bool> {
        let mut bytes = [0; READ_BYTES];
        loop {
            let missing = self.missing().ok_or(io::ErrorKind::InvalidData)?;
            if missing == 0 {
                return Ok(true);
            }
            let room = bytes.get_mut(..missing.min(READ_BYTES)).unwrap_or_default();
            match sys::io::read(socket, room) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => self.take(bytes.get(..count).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
    }
}

impl Forwards {
    /// Connects to the agent at `path`, sends it `bind`, a session-bind request with its length, and
    /// accepts the peer's channel when the agent has answered.
    pub fn connect_agent(
        &mut self,
        channel: ChannelId,
        path: &Path,
        bind: Vec<u8>,
        driver: &mut Driver,
    ) {
        let Some(serial) = self.admit(channel, ("agent".into(), None), None, driver) else {
            return;
        };
        if let Some(entry) = self.entries.get_mut(&serial) {
            entry.bind = bind;
        }
        self.dial(serial, ForwardTarget::Unix(path.to_owned()), driver);
    }

    /// The agent is connected: sends the request.
    pub(super) fn bind_agent(&mut self, serial: u64, socket: SocketPair, driver: &mut Driver) {
        let Some(entry) = self.entries.get_mut(&serial) else {
            return;
        };
        // An empty socket has space for the request.
        let is_sent = sys::socket::send_now(&socket.write, &entry.bind)
            .is_ok_and(|count| count == entry.bind.len());
        let token = ForwardToken::Bind(serial).number();
        if !is_sent
            || driver
                .watch(socket.read.as_fd(), token, true, false)
                .is_err()
        {
            return self.fail(serial, None, driver);
        }
        entry.stage = ForwardStage::Binding(socket, BindAnswer::default());
    }

    /// Reads the agent's answer, which may be a refusal.
    pub(super) fn read_bind_answer(&mut self, serial: u64, driver: &mut Driver) {
        let Some(entry) = self.entries.get_mut(&serial) else {
            return;
        };
        let ForwardStage::Binding(socket, answer) = &mut entry.stage else {
            return;
        };
        match answer.read(&socket.read) {
            Ok(false) => {}
            Ok(true) => {
                driver.unwatch(socket.read.as_fd());
                if let ForwardStage::Binding(socket, _) =
                    std::mem::replace(&mut entry.stage, ForwardStage::PeerAsks)
                {
                    self.accept_and_join(serial, socket, driver);
                }
            }
            Err(_) => self.fail(serial, None, driver),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn an_answer_is_read_to_its_end_and_no_further() {
        let (mut agent, ours) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let ours = OwnedFd::from(ours);
        let mut answer = BindAnswer::default();
        for part in [&b"\0\0"[..], b"\0\x02\x05"] {
            agent.write_all(part).unwrap();
            assert!(!answer.read(&ours).unwrap());
        }
        agent.write_all(b"x\0\0next").unwrap();
        assert!(answer.read(&ours).unwrap());
        let mut rest = [0; 6];
        UnixStream::from(ours).read_exact(&mut rest).unwrap();
        assert_eq!(&rest, b"\0\0next");
    }

    #[test]
    fn a_long_answer_and_an_end_are_errors() {
        for bytes in [&b"\xff\xff\xff\xff"[..], b"\0\0"] {
            let (mut agent, ours) = UnixStream::pair().unwrap();
            agent.write_all(bytes).unwrap();
            drop(agent);
            assert!(BindAnswer::default().read(&ours.into()).is_err());
        }
    }
}
