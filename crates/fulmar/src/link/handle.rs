//! The handle by which other threads reach a connection.

use std::fmt;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, PoisonError};

use driver::forward::Listening;
use proto::ChannelId;
use proto::channel::Request;
use sys::epoll::EventFd;

use super::{AgentChannels, ChannelOpening, EarlyOpen, Failure, Listened, Opened};
use crate::{Error, Exit};

/// Commands to the connection's thread. Their queue needs no bound: a caller with a request waits
/// for the answer, and the other commands come once for each channel or connection.
pub(crate) enum Command {
    /// Open a channel, send its requests, and pass the channel to the caller when all are granted.
    Open {
        opening: ChannelOpening,
        /// Set if the login has sent CHANNEL_OPEN already.
        early: Option<EarlyOpen>,
        done: SyncSender<Result<Opened, Error>>,
    },
    /// Send a request and pass the peer's answer to the caller.
    Ask {
        id: ChannelId,
        serial: u64,
        request: Request,
        done: SyncSender<Result<bool, Error>>,
    },
    /// Send a request without `want reply`.
    Tell {
        id: ChannelId,
        serial: u64,
        request: Request,
        done: SyncSender<Result<(), Error>>,
    },
    /// The caller has dropped the channel.
    Release {
        id: ChannelId,
        serial: u64,
        exit: Exit,
    },
    /// Ask the peer to listen.
    Listen {
        listening: Listening,
        done: SyncSender<Result<Listened, Error>>,
    },
    /// The caller has dropped a listener.
    Unlisten {
        serial: u64,
    },
    /// Accept the peer's channels to the agent.
    AcceptAgents {
        done: SyncSender<Result<AgentChannels, Error>>,
    },
    /// The caller accepts no channels to the agent any more.
    RefuseAgents,
    Rekey,
    /// The caller has dropped the connection.
    Close,
}

/// Shared by the session and its channels; the connection is closed when the last owner drops it.
pub(crate) struct Handle {
    commands: Sender<Command>,
    wake: Arc<EventFd>,
    failure: Failure,
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Handle")
    }
}

impl Handle {
    pub(super) fn new(wake: Arc<EventFd>, failure: Failure) -> (Self, Receiver<Command>) {
        let (commands, receiver) = channel();
        let handle = Self {
            commands,
            wake,
            failure,
        };
        (handle, receiver)
    }

    /// Why the connection has ended.
    pub(crate) fn failure(&self) -> Error {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.clone().unwrap_or(Error::Closed)
    }

    /// Sends a command to the connection's thread.
    pub(crate) fn send(&self, command: Command) -> Result<(), Error> {
        self.commands.send(command).map_err(|_| self.failure())?;
        self.wake()
    }

    /// Wakes the connection's thread to handle commands and bytes read.
    pub(crate) fn wake(&self) -> Result<(), Error> {
        Ok(self.wake.signal()?)
    }

    /// Sends a command and waits for its answer.
    pub(crate) fn call<T>(
        &self,
        command: impl FnOnce(SyncSender<Result<T, Error>>) -> Command,
    ) -> Result<T, Error> {
        let (done, answer) = sync_channel(1);
        self.send(command(done))?;
        self.await_answer(&answer)
    }

    /// Waits for the answer to a command.
    pub(crate) fn await_answer<T>(&self, answer: &Receiver<Result<T, Error>>) -> Result<T, Error> {
        answer.recv().unwrap_or_else(|_| Err(self.failure()))
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // A thread that has ended needs no command.
        let _ = self.send(Command::Close);
    }
}
