//! A program that is itself the local end of its session: `scp` and `sftp` produce and consume the
//! channel's bytes in this process, without pipes.

use std::sync::Arc;

use driver::{ChannelHandler, LoopTimes};
use sys::epoll::EventFd;
use sys::signals::Signal;

use super::{ClientSession, TOKEN_LOCAL_END};
use crate::error::ClientError;
use crate::log::debug1;
use crate::prompt::Turns;

/// Most bytes that [`LocalEnd::early`] may return: enough for a first request, and fewer than may
/// be sent before a channel's confirmation.
pub const EARLY_BYTES: usize = 16 << 10;

/// The interface of such a program to the session. The session runs on its own thread; after the
/// login the program handles the signals that end a process.
pub trait LocalEnd: Send {
    /// Returns the endpoint for a channel. A second call replaces the first endpoint, which has
    /// carried nothing because its channel was not confirmed.
    fn endpoint(&mut self) -> Box<dyn ChannelHandler>;

    /// Called when the server is known to be Fulmar, by its version line or, before the connection
    /// is made, by the cached profile of the last login. The first bytes, if they do not depend on
    /// the server's answers, may leave with the login if [`LocalEnd::early`] returns them by then.
    /// May be called more than once.
    fn expects_fulmar(&mut self) {}

    /// Returns the first bytes for the channel, at most [`EARLY_BYTES`]; none if they are not known
    /// yet. Keep them until [`LocalEnd::channel_begins`], since they may be asked for again.
    fn early(&mut self) -> Vec<u8> {
        Vec::new()
    }

    /// The channel is confirmed. `heard`: it has received the bytes of [`LocalEnd::early`]; if
    /// false, send them first.
    fn channel_begins(&mut self, heard: bool) {
        let _ = heard;
    }

    /// The event descriptor that the program signals when the endpoint has work to do.
    fn waker(&self) -> &EventFd;

    /// The login is over: the user is asked nothing more.
    fn logged_in(&mut self, server: ServerFacts);

    /// Where the driver records, from the login on, what the connection waits for; `None` to record
    /// nothing.
    fn loop_times(&self) -> Option<Arc<LoopTimes>> {
        None
    }

    /// The lock that orders questions to the user, if several connections of this process may ask.
    fn turns(&self) -> Option<Arc<dyn Turns>> {
        None
    }

    /// True if the program sends nothing on the channel: EOF then follows the requests that start the
    /// command where these are sent early. Where [`LocalEnd::channel_begins`] is called, the endpoint
    /// sends EOF itself.
    fn has_no_input(&self) -> bool {
        false
    }

    /// Number of connections of this process, this one included, that share `WindowMemory`.
    fn sharers(&self) -> u64 {
        1
    }
}

/// What a program may rely on with this server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerFacts {
    /// It is known to process messages in order before it has answered them.
    pub reads_on: bool,
    /// It is Fulmar.
    pub is_fulmar: bool,
}

/// A local end as a trait object that owns its data.
pub type AnyLocalEnd = dyn LocalEnd;

/// Signals that the program handles on another thread after the login.
const PROGRAM_SIGNALS: [Signal; 4] = [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM];

impl ClientSession<'_> {
    /// If the program is the channel's local end: leaves the signals to it and watches its event
    /// descriptor.
    pub(super) fn attach_local_end(&mut self) -> Result<bool, ClientError> {
        let Some(local) = self.local.as_deref_mut() else {
            return Ok(false);
        };
        sys::signals::block(&PROGRAM_SIGNALS).map_err(ClientError::system("sigmask"))?;
        let waker = std::os::fd::AsFd::as_fd(local.waker());
        self.driver
            .watch(waker, TOKEN_LOCAL_END, true, false)
            .map_err(ClientError::system("epoll"))?;
        if let Some(times) = local.loop_times() {
            self.driver.tell_times(times);
        }
        let server = self.server.unwrap_or(ServerFacts {
            reads_on: self.startup.at_once,
            is_fulmar: self.driver.connection().peer_quirks().is_fulmar,
        });
        local.logged_in(server);
        Ok(true)
    }

    /// The program's first bytes, if it knows them already.
    pub(super) fn early_data(&mut self) -> Vec<u8> {
        let local = self.local.as_deref_mut();
        local.map(LocalEnd::early).unwrap_or_default()
    }

    /// The endpoint has something to do.
    pub(super) fn wake_local_end(&mut self) -> Result<(), ClientError> {
        if let Some(local) = self.local.as_deref_mut() {
            local
                .waker()
                .drain()
                .map_err(ClientError::system("eventfd"))?;
        }
        if let Some(channel) = self.channel {
            self.driver.wake_endpoint(channel);
        }
        Ok(())
    }

    /// The program is done: closes the channel without waiting for the peer.
    pub(super) fn endpoint_ended(&mut self) -> Result<(), ClientError> {
        let Some(channel) = self.channel else {
            return Ok(());
        };
        debug1!("channel {}: the local program has ended", channel.0);
        drop(self.driver.detach_endpoint(channel));
        if self.driver.connection().channel_is_open(channel) {
            self.command(|connection| connection.channel_eof(channel))?;
            self.command(|connection| connection.channel_close(channel))?;
        }
        Ok(())
    }
}
