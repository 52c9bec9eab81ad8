//! A socket whose other end is one of Fulmar's programs.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use super::Subject;

/// A subject that is silent for this time hangs.
const SILENCE_LIMIT: Duration = Duration::from_secs(60);

/// A connected socket.
#[derive(Debug)]
pub struct Tcp {
    stream: TcpStream,
    ended: bool,
    piece_bytes: usize,
}

impl Tcp {
    /// Wraps a connected socket.
    ///
    /// # Panics
    /// If its timeouts cannot be set.
    #[must_use]
    pub fn new(stream: TcpStream) -> Self {
        stream.set_nodelay(true).expect("TCP_NODELAY");
        stream
            .set_read_timeout(Some(SILENCE_LIMIT))
            .expect("a timeout");
        stream
            .set_write_timeout(Some(SILENCE_LIMIT))
            .expect("a timeout");
        Self {
            stream,
            ended: false,
            piece_bytes: usize::MAX,
        }
    }

    /// From now on sends at most `bytes` bytes at once.
    pub fn set_piece(&mut self, bytes: usize) {
        self.piece_bytes = bytes;
    }

    /// Connects to a port on this machine.
    ///
    /// # Panics
    /// If nobody listens.
    #[must_use]
    pub fn connect(port: u16) -> Self {
        Self::new(TcpStream::connect(("127.0.0.1", port)).expect("a listening server"))
    }

    /// Receives the next bytes within `limit`; `None` if none arrive.
    ///
    /// # Panics
    /// If the timeout cannot be set.
    pub fn collect_within(&mut self, limit: Duration) -> Option<Vec<u8>> {
        self.stream
            .set_read_timeout(Some(limit))
            .expect("a timeout");
        let mut bytes = vec![0; 65_536];
        let got = loop {
            match self.stream.read(&mut bytes) {
                // A read with a time limit fails like this after the process was stopped
                // (signal(7)).
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                got => break got,
            }
        };
        self.stream
            .set_read_timeout(Some(SILENCE_LIMIT))
            .expect("a timeout");
        match got {
            Ok(count) if count > 0 => {
                bytes.truncate(count);
                Some(bytes)
            }
            Ok(_) => {
                self.ended = true;
                None
            }
            Err(error) => {
                self.ended |= !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
                None
            }
        }
    }
}

impl Subject for Tcp {
    fn deliver(&mut self, bytes: &[u8]) -> bool {
        let sent = bytes
            .chunks(self.piece_bytes)
            .try_for_each(|piece| self.stream.write_all(piece));
        match sent {
            Ok(()) => true,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                panic!(
                    "the subject has read nothing for {} s",
                    SILENCE_LIMIT.as_secs()
                )
            }
            Err(_) => false,
        }
    }

    fn collect(&mut self) -> Option<Vec<u8>> {
        if self.ended {
            return None;
        }
        let bytes = self.collect_within(SILENCE_LIMIT);
        assert!(
            bytes.is_some() || self.ended,
            "the subject neither speaks nor ends for {} s",
            SILENCE_LIMIT.as_secs()
        );
        bytes
    }

    fn has_ended(&mut self) -> bool {
        self.ended
    }
}
