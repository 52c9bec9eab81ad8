//! The channel's side of an SFTP server in its own thread: the connection's thread moves bytes, and
//! [`worker`](super::worker) does the file work.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use driver::{ChannelIo, HandlerProgress};
use packet::PacketBuf;
use proto::Error;

use super::bridge::PacketBridge;

/// The channel's side of a threaded SFTP server.
pub(super) struct ThreadedBackend {
    bridge: Arc<PacketBridge>,
    arrived: Vec<Bytes>,
    input_ended: bool,
    answers: VecDeque<PacketBuf>,
    /// True after the client has closed the channel.
    is_aborted: bool,
}

impl ThreadedBackend {
    pub(super) fn new(bridge: Arc<PacketBridge>) -> Self {
        Self {
            bridge,
            arrived: Vec::new(),
            input_ended: false,
            answers: VecDeque::new(),
            is_aborted: false,
        }
    }

    pub(super) fn bridge(&self) -> &Arc<PacketBridge> {
        &self.bridge
    }

    pub(super) fn receive(&mut self, data: Bytes) {
        self.arrived.push(data);
    }

    pub(super) fn end(&mut self) {
        self.input_ended = true;
    }

    pub(super) fn abort(&mut self) {
        self.is_aborted = true;
        self.bridge.abort(&mut self.arrived);
    }

    /// Exchanges requests and answers with the thread; returns the exit status once it has ended.
    pub(super) fn work(
        &mut self,
        line: &mut ChannelIo<'_>,
    ) -> Result<(HandlerProgress, Option<u8>), Error> {
        loop {
            let bridge = &self.bridge;
            let (used, over) =
                bridge.meet(&mut self.arrived, self.input_ended, &mut self.answers, line);
            line.consumed(used)?;
            let sent = self.send(line)?;
            let more = self.bridge.sent(sent, !self.answers.is_empty());
            match over {
                // After a protocol error the answers are not waited for.
                Some(status) if self.answers.is_empty() || status != 0 => {
                    return Ok((HandlerProgress::Ended, Some(status)));
                }
                _ if more => {}
                _ => return Ok((HandlerProgress::Waiting, None)),
            }
        }
    }

    /// Sends as many answers as the window permits; returns the number of bytes sent or dropped.
    fn send(&mut self, line: &mut ChannelIo<'_>) -> Result<usize, Error> {
        if !self.is_aborted {
            return line.send_queued(&mut self.answers);
        }
        let len = self.answers.iter().map(PacketBuf::len).sum();
        self.answers.drain(..).for_each(|buf| line.recycle(buf));
        Ok(len)
    }
}

impl Drop for ThreadedBackend {
    /// Aborts the thread; whoever needs its end waits for it elsewhere.
    fn drop(&mut self) {
        self.bridge.abandon();
    }
}
