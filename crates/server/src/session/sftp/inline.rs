//! The channel's side of an SFTP server in the connection's thread, used if every file system is
//! local.

use bytes::Bytes;
use driver::{ChannelIo, HandlerProgress};
use packet::PacketBuf;
use proto::Error;
use sftp::server::{Buffers, Log, LogLevel, Serve, Work};

use super::{STATUS_FAILED, SftpLog};

/// An inline SFTP server.
pub(super) struct InlineBackend {
    /// The server; `None` after its end.
    serve: Option<Box<Serve>>,
    /// The log, which gets a line at the server's end.
    log: SftpLog,
    session: String,
    /// True after the client has closed the channel.
    is_aborted: bool,
}

impl InlineBackend {
    pub(super) fn new(serve: Serve, log: SftpLog, session: String) -> Self {
        Self {
            serve: Some(Box::new(serve)),
            log,
            session,
            is_aborted: false,
        }
    }

    /// Passes data to the server; returns the number of bytes that it no longer takes.
    pub(super) fn receive(&mut self, data: Bytes) -> usize {
        match &mut self.serve {
            Some(serve) => {
                serve.receive(data);
                0
            }
            None => data.len(),
        }
    }

    pub(super) fn end(&mut self) {
        if let Some(serve) = &mut self.serve {
            serve.end_input();
        }
    }

    pub(super) fn abort(&mut self) {
        self.is_aborted = true;
    }

    /// Drops the server, which closes its open files, and logs the end.
    fn finish(&mut self) {
        if self.serve.take().is_some() {
            let line = format!("session closed {}", self.session);
            self.log.line(LogLevel::Info, &line);
        }
    }

    /// Works for one slice; returns the exit status once the server has ended.
    pub(super) fn work(
        &mut self,
        line: &mut ChannelIo<'_>,
    ) -> Result<(HandlerProgress, Option<u8>), Error> {
        let Some(serve) = &mut self.serve else {
            return Ok((HandlerProgress::Ended, None));
        };
        loop {
            if self.is_aborted {
                serve.end_answers();
                while let Some(buf) = serve.outbox().next_whole() {
                    line.recycle(buf);
                }
            }
            // Queued answers first: an opened window makes room for further ones.
            send(serve, line)?;
            let work = match serve.work(&mut InlineBuffers(line)) {
                Ok(work) => work,
                Err(error) => {
                    self.log.line(LogLevel::Error, &error.to_string());
                    self.finish();
                    return Ok((HandlerProgress::Ended, Some(STATUS_FAILED)));
                }
            };
            line.consumed(serve.take_consumed())?;
            if self.is_aborted {
                match work {
                    // A copy continues in the next slice, after the other channels.
                    Work::Busy => return Ok((HandlerProgress::Busy, None)),
                    Work::Waiting => continue,
                    Work::Ended => {}
                }
            }
            let waits = !serve.outbox().is_empty();
            let sent = send(serve, line)?;
            match work {
                Work::Ended => {
                    self.finish();
                    return Ok((HandlerProgress::Ended, Some(0)));
                }
                Work::Busy if sent => return Ok((HandlerProgress::Busy, None)),
                // Queued answers had stopped the requests; they are sent now, so work continues.
                Work::Waiting if waits && sent => {}
                Work::Busy | Work::Waiting => return Ok((HandlerProgress::Waiting, None)),
            }
        }
    }
}

impl Drop for InlineBackend {
    fn drop(&mut self) {
        self.finish();
    }
}

/// Sends as many answers as the window permits; returns true if none is left.
fn send(serve: &mut Serve, line: &mut ChannelIo<'_>) -> Result<bool, Error> {
    while !serve.outbox().is_empty() {
        let space = line.space();
        if space == 0 {
            return Ok(false);
        }
        match serve.outbox().next(space, &mut InlineBuffers(line)) {
            Some(buf) => line.send(buf)?,
            None => return Ok(true),
        }
    }
    Ok(true)
}

/// Takes the connection's buffers.
struct InlineBuffers<'l, 'd>(&'l mut ChannelIo<'d>);

impl Buffers for InlineBuffers<'_, '_> {
    fn take(&mut self, capacity: usize) -> PacketBuf {
        self.0.take_buffer(capacity)
    }

    fn max_bytes(&self) -> usize {
        self.0.max_data()
    }
}
