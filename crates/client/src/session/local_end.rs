//! A program that is itself the local end of its session: `scp` and `sftp` make and use the
//! channel's bytes, without pipes and a process between.

use std::sync::Arc;

use driver::{Endpoint, LoopTimes};
use sys::epoll::EventFd;
use sys::signals::Signal;

use super::{Session, TOKEN_BELL};
use crate::error::ClientError;
use crate::log::debug1;

/// Most that [`LocalEnd::early`] may give, bytes: a first request, and less than what may go ahead of a
/// channel's confirmation.
pub const EARLY_BYTES: usize = 16 << 10;

/// What such a program gives to the session. The session runs in a thread of its own; signals
/// that end a program are this program's matter from the login on.
pub trait LocalEnd: Send {
    /// The end of a channel. The one before, if any, was not used: a channel that is not
    /// confirmed carries nothing.
    fn endpoint(&mut self) -> Box<dyn Endpoint>;

    /// The server is one of ours, by its version line or, before the connection is made, by the last
    /// login. What is to be said first, whatever the server answers, may leave with the login, if
    /// [`LocalEnd::early`] has it by then. Told again, it is no news.
    fn expects_fulmar(&mut self) {}

    /// What is to go to the channel first, at most [`EARLY_BYTES`]; nothing where that is not known
    /// yet. It stays until [`LocalEnd::channel_begins`], since it may be asked for again.
    fn early(&mut self) -> Vec<u8> {
        Vec::new()
    }

    /// The channel is there. `heard`: it has got what [`LocalEnd::early`] gave; else that goes first.
    fn channel_begins(&mut self, heard: bool) {
        let _ = heard;
    }

    /// Is signalled when the endpoint has something to do.
    fn bell(&self) -> &EventFd;

    /// The login is over: nothing is asked for on the terminal any more. The server is known to
    /// take in order what comes before it has answered (`reads_on`), or to be a Fulmar.
    fn logged_in(&mut self, reads_on: bool, is_fulmar: bool);

    /// Where it is to be told, from the login on, what the connection waits for.
    fn loop_times(&self) -> Option<Arc<LoopTimes>> {
        None
    }

    /// Where others may ask the person at the same time: whose turn it is.
    fn turns(&self) -> Option<Arc<dyn Turns>> {
        None
    }

    /// How many connections of this process, this one among them, share what `WindowMemory` allows.
    fn sharers(&self) -> u64 {
        1
    }
}

/// Questions of several connections to one person, one after the other.
pub trait Turns: std::fmt::Debug + Send + Sync {
    /// Waits until this connection may ask; false when nobody wants it any more.
    fn take(&self) -> bool;
}

/// Any of them, owning what it holds.
pub type AnyLocalEnd = dyn LocalEnd;

/// Signals that the program sees to, in another thread, once the login is over.
const THE_PROGRAM_S: [Signal; 4] = [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM];

impl Session<'_> {
    /// Where the program is the channel's end: leaves signals to it and listens for its bell.
    pub(super) fn meet_local_end(&mut self) -> Result<bool, ClientError> {
        let Some(local) = self.local.as_deref_mut() else {
            return Ok(false);
        };
        sys::signals::block(&THE_PROGRAM_S).map_err(ClientError::system("sigmask"))?;
        let bell = std::os::fd::AsFd::as_fd(local.bell());
        self.driver
            .watch(bell, TOKEN_BELL, true, false)
            .map_err(ClientError::system("epoll"))?;
        if let Some(times) = local.loop_times() {
            self.driver.tell_times(times);
        }
        let is_fulmar = self.driver.connection().is_fulmar_peer();
        local.logged_in(self.reads_on, is_fulmar);
        Ok(true)
    }

    /// What the program would say first, where it says that already.
    pub(super) fn early_data(&mut self) -> Vec<u8> {
        let local = self.local.as_deref_mut();
        local.map(LocalEnd::early).unwrap_or_default()
    }

    /// The endpoint has something to do.
    pub(super) fn answer_bell(&mut self) -> Result<(), ClientError> {
        if let Some(local) = self.local.as_deref_mut() {
            local
                .bell()
                .drain()
                .map_err(ClientError::system("eventfd"))?;
        }
        if let Some(channel) = self.channel {
            self.driver.wake_endpoint(channel);
        }
        Ok(())
    }

    /// The program has all that it wanted: its channel is closed without waiting for the peer.
    pub(super) fn endpoint_ended(&mut self) -> Result<(), ClientError> {
        let Some(channel) = self.channel else {
            return Ok(());
        };
        debug1!("channel {}: we are done", channel.0);
        drop(self.driver.detach_endpoint(channel));
        if self.driver.connection().channel_is_open(channel) {
            self.command(|connection| connection.channel_eof(channel))?;
            self.command(|connection| connection.channel_close(channel))?;
        }
        Ok(())
    }
}
