//! The server and its listener.

use std::fmt;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use driver::{Driver, LaneTerms};
use proto::Connection;
use sys::epoll::EventFd;
use sys::io::PollFd;

use super::auth::Authenticator;
use super::config::Config;
use super::connection::ServerRole;
use super::handler::Handler;
use super::shared::{LoginSlot, Shared, Slot};
use crate::{Error, link};

/// Pause of the listener when the process has no descriptors, memory or threads left.
const REST: Duration = Duration::from_millis(100);

/// A server in this program. Cheap to clone; clones share one server.
#[derive(Clone)]
pub struct Server {
    shared: Arc<Shared>,
    stop: Stopper,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("config", &self.shared.config)
            .finish_non_exhaustive()
    }
}

/// Ends [`Server::serve`] from another thread.
#[derive(Debug, Clone)]
pub struct Stopper {
    stopped: Arc<AtomicBool>,
    wake: Arc<EventFd>,
}

impl Stopper {
    /// Stops accepting connections; existing ones continue.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        // Only a full counter can fail, and a full counter is a signal already.
        let _ = self.wake.signal();
    }
}

impl Server {
    /// Makes a server, which does not listen yet.
    ///
    /// # Errors
    /// [`Error::Misuse`] without host keys; [`Error::UnusableKey`] if the private part of a host
    /// key is in a security key, or if it is an RSA key with fewer bits than `min_rsa_bits` of
    /// [`Config::transport`]; otherwise the error in its algorithms.
    pub fn new(
        config: Config,
        authenticator: impl Authenticator + 'static,
        handler: impl Handler + 'static,
    ) -> Result<Self, Error> {
        let host_keys = config.public_host_keys()?;
        // Checked once here, so that the caller gets the error of a bad list, not each client.
        Connection::server(config.transport.clone(), host_keys.clone(), 0)?;
        Ok(Self {
            shared: Arc::new(Shared {
                config,
                authenticator: Box::new(authenticator),
                handler: Box::new(handler),
                host_keys,
                connections: AtomicUsize::new(0),
                logins: AtomicUsize::new(0),
            }),
            stop: Stopper {
                stopped: Arc::new(AtomicBool::new(false)),
                wake: Arc::new(EventFd::new()?),
            },
        })
    }

    /// Returns the stopper that ends [`Server::serve`].
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        self.stop.clone()
    }

    /// Number of connections that [`Server::serve`] is serving, those that are not logged in included.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::Acquire)
    }

    /// Serves all clients that connect, each on a thread of its own, until [`Stopper::stop`]; then the
    /// port is closed. While the process has no descriptors, memory or threads left, it accepts a
    /// connection every 100 ms at most.
    ///
    /// # Errors
    /// [`Error::Io`] if polling the listener fails; never because of a client.
    #[allow(clippy::needless_pass_by_value)] // The port is closed when serving ends.
    pub fn serve(&self, listener: TcpListener) -> Result<(), Error> {
        listener.set_nonblocking(true)?;
        while !self.stop.stopped.load(Ordering::Acquire) {
            let mut ready = [
                PollFd::new(listener.as_fd(), true, false),
                PollFd::new(self.stop.wake.as_fd(), true, false),
            ];
            sys::io::poll(&mut ready, None)?;
            let accepted = match listener.accept() {
                Ok((stream, peer)) => stream
                    .set_nonblocking(true)
                    .and_then(|()| self.spawn(OwnedFd::from(stream), peer)),
                Err(error) => Err(error),
            };
            if let Err(error) = accepted {
                use std::io::ErrorKind::{ConnectionAborted, Interrupted, WouldBlock};
                if !matches!(error.kind(), WouldBlock | Interrupted | ConnectionAborted) {
                    // No descriptors, memory or threads left: connections that end free some.
                    std::thread::sleep(REST);
                }
            }
        }
        Ok(())
    }

    fn spawn(&self, stream: OwnedFd, peer: SocketAddr) -> std::io::Result<()> {
        let server = self.clone();
        let Some(slot) = Slot::take(
            &self.shared,
            |shared| &shared.connections,
            self.shared.config.max_connections,
        ) else {
            return Ok(());
        };
        let logins = Slot::take(
            &self.shared,
            |shared| &shared.logins,
            self.shared.config.max_logins,
        );
        let Some(login) = logins.map(LoginSlot) else {
            return Ok(());
        };
        std::thread::Builder::new()
            .name("fulmar-server".into())
            .spawn(move || {
                let _slot = slot;
                // How a connection ends concerns its client only.
                let _ = server.work(stream, Some(peer), Some(login));
            })?;
        Ok(())
    }

    /// Serves one connected stream on this thread until it ends. `max_connections` and `max_logins`
    /// do not apply. `peer` is the client's address, for [`Attempt`](super::Attempt); `None` if the
    /// stream has none.
    ///
    /// # Errors
    /// Why the connection failed; a client that disconnects is no error.
    pub fn serve_connection(
        &self,
        stream: impl Into<OwnedFd>,
        peer: Option<SocketAddr>,
    ) -> Result<(), Error> {
        self.work(stream.into(), peer, None)
    }

    fn work(
        &self,
        socket: OwnedFd,
        peer: Option<SocketAddr>,
        slot: Option<LoginSlot>,
    ) -> Result<(), Error> {
        let mut transport = self.shared.config.transport.clone();
        transport.answers_forward_requests = true;
        let connection = Connection::server(
            transport,
            self.shared.host_keys.clone(),
            sys::time::monotonic_ms(),
        )?;
        let (seed, handle) = link::prepare()?;
        let mut role = ServerRole::new(Arc::clone(&self.shared), handle, peer, slot);
        link::prepare_socket(&socket);
        let mut driver = Driver::new(socket, None, connection)?;
        driver.set_lane_terms(LaneTerms::new(self.shared.config.crypto_threads));
        match link::run(seed, driver, &mut role) {
            Err(Error::Closed | Error::Protocol(proto::Error::Disconnected { .. })) => Ok(()),
            outcome => outcome,
        }
    }
}
