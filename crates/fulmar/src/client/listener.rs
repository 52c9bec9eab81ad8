//! Listeners of the server whose connections a program accepts.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use driver::forward::Listening;

use super::channel::Channel;
use crate::Error;
use crate::link::{Backlog, ChannelCore, Command, Handle, Listened};

/// A TCP port or Unix socket on the server (RFC 4254 §7.1; OpenSSH's PROTOCOL §2.4), made by
/// [`Session::listen_tcp`](super::Session::listen_tcp) or
/// [`Session::listen_unix`](super::Session::listen_unix). Any number of threads may accept its
/// connections.
///
/// At most 64 connections wait to be accepted; further ones are refused. Dropping
/// the listener asks the server to stop listening, and closes the waiting connections; accepted ones
/// go on.
pub struct RemoteListener {
    handle: Arc<Handle>,
    listening: Listening,
    serial: u64,
    backlog: Arc<Backlog>,
    timeout: Mutex<Option<Duration>>,
}

impl RemoteListener {
    pub(super) fn new(handle: Arc<Handle>, listened: Listened) -> Self {
        Self {
            handle,
            listening: listened.listening,
            serial: listened.serial,
            backlog: listened.backlog,
            timeout: Mutex::default(),
        }
    }

    /// The TCP port, which the server has chosen if 0 was requested; `None` for a Unix socket.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        match self.listening {
            Listening::Tcp { port, .. } | Listening::Udp { port, .. } => Some(port),
            Listening::Unix(_) => None,
        }
    }

    /// Waits for the next connection. The address is that of who connected, as the server reports it;
    /// `None` for a Unix socket, and if the server gave no IP address.
    ///
    /// # Errors
    /// [`Error::TimedOut`] after [`RemoteListener::set_accept_timeout`]; otherwise why the SSH connection
    /// ended.
    pub fn accept(&self) -> Result<(Channel, Option<SocketAddr>), Error> {
        let timeout = *self.timeout.lock().unwrap_or_else(PoisonError::into_inner);
        let (opened, from) = self.backlog.take(timeout)?;
        let core = ChannelCore::new(opened, Arc::clone(&self.handle));
        Ok((Channel::new(core), from))
    }

    /// Sets the time limit of each [`RemoteListener::accept`] that begins later; `None`, the default,
    /// waits without limit, and zero does not wait.
    pub fn set_accept_timeout(&self, timeout: Option<Duration>) {
        *self.timeout.lock().unwrap_or_else(PoisonError::into_inner) = timeout;
    }
}

impl fmt::Debug for RemoteListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RemoteListener")
            .field(&self.listening)
            .finish()
    }
}

impl Drop for RemoteListener {
    fn drop(&mut self) {
        // If the connection has ended, its listeners are gone.
        let serial = self.serial;
        let _ = self.handle.send(Command::Unlisten { serial });
    }
}
