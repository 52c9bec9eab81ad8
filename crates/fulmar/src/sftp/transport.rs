//! Moves the bytes of SFTP over a channel, for the engine of the crate `transfer`.

use std::io;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use sys::io::PollFd;
use transfer::engine::{EngineError, Exchange, Transport};

use crate::Error;
use crate::client::Channel;

/// Size of one read and of one fill, bytes.
const CHUNK_BYTES: usize = 256 * 1024;

/// One channel of the subsystem `sftp`.
#[derive(Debug)]
pub(super) struct ChannelTransport {
    channel: Channel,
    /// Output buffer: `filled` bytes are valid, `written` of them are written.
    out: Vec<u8>,
    filled: usize,
    written: usize,
    received: BytesMut,
    /// Why the connection ended, for the caller: the engine keeps no error of this crate.
    failure: Option<Error>,
}

impl ChannelTransport {
    pub(super) fn new(channel: Channel) -> Self {
        // Nobody reads what the server's SFTP process reports.
        channel.discard_stderr();
        Self {
            channel,
            out: vec![0; CHUNK_BYTES],
            filled: 0,
            written: 0,
            received: BytesMut::new(),
            failure: None,
        }
    }

    pub(super) fn take_failure(&mut self) -> Option<Error> {
        self.failure.take()
    }

    fn has_output(&self) -> bool {
        self.written < self.filled
    }

    /// `None` if the call would have to wait.
    fn moved(&mut self, result: io::Result<usize>) -> Result<Option<usize>, EngineError> {
        match result {
            Ok(count) => Ok(Some(count)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => {
                self.failure = Some(Error::from_io(error));
                Err(EngineError::Closed)
            }
        }
    }

    fn write(&mut self, exchange: &mut dyn Exchange) -> Result<bool, EngineError> {
        let mut moved = false;
        loop {
            if !self.has_output() {
                self.written = 0;
                self.filled = exchange.fill(0, &mut self.out);
                if self.filled == 0 {
                    return Ok(moved);
                }
            }
            let rest = self.out.get(self.written..self.filled).unwrap_or_default();
            let result = self.channel.try_write(rest);
            let Some(count) = self.moved(result)? else {
                return Ok(moved);
            };
            self.written += count;
            moved = true;
            // Read answers before writing the rest.
            if self.has_output() {
                return Ok(moved);
            }
        }
    }

    fn read(&mut self, exchange: &mut dyn Exchange) -> Result<bool, EngineError> {
        self.received.resize(CHUNK_BYTES, 0);
        let result = self.channel.try_read(&mut self.received);
        match self.moved(result)? {
            None => Ok(false),
            Some(0) => Err(EngineError::Closed),
            Some(count) => {
                let bytes: Bytes = self.received.split_to(count).freeze();
                exchange.feed(0, bytes)?;
                Ok(true)
            }
        }
    }

    fn wait(&self, wait: Duration) -> io::Result<usize> {
        let mut fds = vec![PollFd::new(self.channel.read_readiness()?, true, false)];
        if self.has_output() {
            fds.push(PollFd::new(self.channel.write_readiness(), false, true));
        }
        sys::io::poll(&mut fds, Some(wait))
    }
}

impl Transport for ChannelTransport {
    fn links(&self) -> usize {
        1
    }

    fn turn(&mut self, exchange: &mut dyn Exchange, wait: Duration) -> Result<bool, EngineError> {
        let moved = self.write(exchange)? | self.read(exchange)?;
        if moved || exchange.is_over() {
            return Ok(true);
        }
        let begun = Instant::now();
        let ready = self.wait(wait)?;
        exchange.waited(begun.elapsed());
        Ok(ready > 0)
    }
}
