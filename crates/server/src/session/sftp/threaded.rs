//! The channel's side of an SFTP server in its own thread: the connection's thread moves bytes, and
//! [`worker`](super::worker) does the file work.

use std::sync::Arc;

use bytes::Bytes;
use driver::{BridgeEnd, ChannelIo, HandlerProgress};
use proto::Error;

use super::worker::SftpThread;

/// The channel's side of a threaded SFTP server.
pub(super) struct ThreadedBackend {
    thread: Arc<SftpThread>,
    end: BridgeEnd,
}

impl ThreadedBackend {
    pub(super) fn new(thread: Arc<SftpThread>) -> Self {
        let end = BridgeEnd::new(Arc::clone(thread.bridge()));
        Self { thread, end }
    }

    pub(super) fn thread(&self) -> &Arc<SftpThread> {
        &self.thread
    }

    pub(super) fn receive(&mut self, data: Bytes) {
        self.end.receive(data);
    }

    pub(super) fn end(&mut self) {
        self.end.end_input();
    }

    pub(super) fn abort(&mut self) {
        self.end.abort();
    }

    /// Exchanges requests and answers with the thread; returns the exit status once it has ended.
    pub(super) fn work(
        &mut self,
        line: &mut ChannelIo<'_>,
    ) -> Result<(HandlerProgress, Option<u8>), Error> {
        let progress = self.end.work(line)?;
        let status = self.thread.status().filter(|_| progress.worker_ended);
        Ok(match status {
            // After a protocol error the answers are not waited for.
            Some(status) if !progress.is_blocked || status != 0 => {
                (HandlerProgress::Ended, Some(status))
            }
            _ if progress.has_more => (HandlerProgress::Busy, None),
            _ => (HandlerProgress::Waiting, None),
        })
    }
}

impl Drop for ThreadedBackend {
    /// Aborts the thread; whoever needs its end waits for it elsewhere.
    fn drop(&mut self) {
        self.thread.abandon();
    }
}
