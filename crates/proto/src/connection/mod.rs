//! A whole connection: transport below, user authentication or channels above. Its methods are
//! getters, input, commands and output.

use alloc::string::String;
use alloc::vec::Vec;

use bytes::BytesMut;
use packet::{OpenJob, OpenedPacket, PacketBuf, PacketError};
use wire::message::{self, Encode as _, USERAUTH_NUMBERS};

use crate::channel::{CHANNEL_MESSAGES, Channels, Globals};
use crate::permits::{ConnectionPhase, NO_ARM};
use crate::quirks::Quirks;
use crate::transport::{Dispatch, Transport, TransportSession};
use crate::userauth::client::ClientAuth;
use crate::userauth::server::ServerAuth;
use crate::{Error, Event, Millis, Negotiated, Role, ServerHostKey, TransportConfig};

mod alive;
mod channels;
mod compression;
mod deadline;
mod forward;
mod ping;
mod pipelined;
mod proxied;
mod transport;
mod typing;
mod userauth;

pub use crate::transport::{CompressJob, Compressed, TransportOutput};
use alive::{Alive, Taken};

/// Maximum number of events waiting for the owner before input stops.
const MAX_EVENTS: usize = 1024;

/// Phase of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionStage {
    Kex,
    Service,
    Userauth,
    Connected,
}

impl ConnectionStage {
    fn phase(self) -> ConnectionPhase {
        match self {
            Self::Kex => ConnectionPhase::FirstKex,
            Self::Service => ConnectionPhase::Service,
            Self::Userauth => ConnectionPhase::Userauth,
            Self::Connected => ConnectionPhase::Connected,
        }
    }
}

/// Authentication state of our role.
enum Auth {
    Client(ClientAuth),
    Server(ServerAuth),
}

/// One SSH connection.
///
/// A connection does no I/O. Its owner moves bytes and runs jobs as below, takes events, answers
/// them with commands, and calls `handle_timeout` when `poll_deadline` expires.
///
/// ```text
/// socket → receive_buffer → handle_received → poll_open → (job, anywhere) → handle_opened
///                                                   ↓ poll_event        ↓
/// owner's commands → poll_output → (seal job, anywhere) → socket, in order
/// ```
pub struct Connection {
    pub(crate) transport: Transport,
    pub(crate) stage: ConnectionStage,
    auth: Auth,
    channels: Channels,
    globals: Globals,
    alive: Alive,
    taken: Taken,
}

impl core::fmt::Debug for Connection {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Connection")
            .field("role", &self.transport.role)
            .field("stage", &self.stage)
            .finish_non_exhaustive()
    }
}

impl Connection {
    /// Creates the side that connected. Identification line and KEXINIT are queued at once.
    ///
    /// # Errors
    /// [`Error::Misuse`] for unknown algorithm names.
    pub fn client(config: TransportConfig, now: Millis) -> Result<Self, Error> {
        let transport = Transport::new(Role::Client, config, Vec::new(), now)?;
        Ok(Self::over(transport, ConnectionStage::Kex))
    }

    /// Creates the side that was connected to. Identification line and KEXINIT are queued at once.
    ///
    /// # Errors
    /// [`Error::Misuse`] for unknown algorithm names, or without a host key.
    pub fn server(
        config: TransportConfig,
        host_keys: Vec<ServerHostKey>,
        now: Millis,
    ) -> Result<Self, Error> {
        let transport = Transport::new(Role::Server, config, host_keys, now)?;
        Ok(Self::over(transport, ConnectionStage::Kex))
    }

    pub(crate) fn over(transport: Transport, stage: ConnectionStage) -> Self {
        let auth = match transport.role {
            Role::Client => Auth::Client(ClientAuth::default()),
            Role::Server => Auth::Server(ServerAuth::default()),
        };
        let alive = Alive::new(transport.now);
        let channels = Channels::new(transport.config.window_memory_bytes);
        Self {
            transport,
            stage,
            auth,
            channels,
            globals: Globals::default(),
            alive,
            taken: Taken::Sure,
        }
    }
}

/// Getters.
impl Connection {
    /// Our side of the connection.
    #[must_use]
    pub fn role(&self) -> Role {
        self.transport.role
    }

    /// The peer's identification line without CR LF; `None` before it has arrived.
    #[must_use]
    pub fn peer_version(&self) -> Option<&str> {
        self.transport.versions.peer()
    }

    /// The peer's quirks, by its version line.
    pub fn peer_quirks(&self) -> Quirks {
        self.transport.versions.peer_quirks()
    }

    /// Our identification line without CR LF.
    #[must_use]
    pub fn our_version(&self) -> &str {
        self.transport.versions.ours()
    }

    fn session(&self) -> Option<&TransportSession> {
        self.transport.exchange.session()
    }

    /// Session identifier: the exchange hash H of the first key exchange.
    #[must_use]
    pub fn session_id(&self) -> Option<&[u8]> {
        self.session().map(|session| &session.id[..])
    }

    /// Blob of the server's host key; `None` before the first key exchange is complete, and if that was by GSS-API.
    #[must_use]
    pub fn host_key(&self) -> Option<&[u8]> {
        let session = self.session().filter(|session| !session.is_by_gss());
        session.map(|session| &session.host_key[..])
    }

    /// True if the first key exchange was by GSS-API: no host key was proven.
    #[must_use]
    pub fn is_by_gss(&self) -> bool {
        self.session().is_some_and(TransportSession::is_by_gss)
    }

    /// Client: the host key's signature over the session identifier, which binds a connection to an
    /// agent to this session (`session-bind@openssh.com`); `None` before the first key exchange is
    /// complete.
    #[must_use]
    pub fn host_signature(&self) -> Option<&[u8]> {
        self.session().map(|session| &session.host_signature[..])
    }

    /// Algorithms of the last key exchange; `None` before the first is complete.
    #[must_use]
    pub fn negotiated(&self) -> Option<Negotiated> {
        self.session()
            .map(|session| session.agreement.public(session.strict_kex))
    }

    /// Client: signature algorithms that the server accepts from users, if announced.
    #[must_use]
    pub fn server_sig_algs(&self) -> Option<&[String]> {
        self.transport.extensions.server_sig_algs.as_deref()
    }

    /// Client: the server announced `agent-forward`, so that the names of the draft may be used.
    #[must_use]
    pub fn agent_forward_supported(&self) -> bool {
        self.transport.extensions.agent_forward
    }

    /// Returns true if the user is logged in.
    #[must_use]
    pub fn is_authenticated(&self) -> bool {
        self.stage == ConnectionStage::Connected
    }

    /// Returns true if DISCONNECT was sent or received: nothing more will happen.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.transport.is_closed()
    }

    /// Number of channels.
    #[must_use]
    pub fn channel_count(&self) -> usize {
        self.channels.count()
    }

    /// Maximum number of channels.
    #[must_use]
    pub fn max_channels(&self) -> usize {
        self.transport.config.max_channels
    }

    /// Returns true if more bytes should be read from the socket.
    #[must_use]
    pub fn wants_input(&self) -> bool {
        !self.transport.inbound.is_full() && !self.transport.is_closed()
    }

    /// Returns true if sent data is compressed now.
    #[must_use]
    pub fn is_compressing(&self) -> bool {
        self.transport.outbound.is_compressing()
    }

    /// Returns true if output is queued.
    #[must_use]
    pub fn has_output(&self) -> bool {
        self.transport.outbound.has_output()
    }
}

/// Input: bytes and time.
impl Connection {
    /// The receive buffer; read from the socket into its spare capacity.
    pub fn receive_buffer(&mut self) -> &mut BytesMut {
        self.transport.inbound.buffer()
    }

    /// The receive buffer and the number of bytes to read at once so that few have to be moved.
    /// Reading more is allowed.
    pub fn receive_room(&mut self) -> (&mut BytesMut, usize) {
        self.transport.inbound.room()
    }

    /// Lets the connection's only consumer pin up to `bytes` of receive slabs, so that their
    /// packets need not be copied. 0 restores the default.
    pub fn keep(&mut self, bytes: usize) {
        self.transport.inbound.keep(bytes);
    }

    /// Processes bytes added to the receive buffer.
    ///
    /// # Errors
    /// [`Error::NotSsh`] or [`Error::PeerMisbehaved`] for the peer's identification line.
    pub fn handle_received(&mut self, now: Millis) -> Result<(), Error> {
        self.transport.now = now;
        self.transport.handle_received()
    }

    /// Returns true if an opened packet may be passed in. False while the owner owes an answer and
    /// while too many events or answers are queued. An owner that opens packets in advance checks
    /// this before each.
    #[must_use]
    pub fn takes_opened(&self) -> bool {
        let auth_waits = match &self.auth {
            Auth::Server(server) => server.waits_for_owner(),
            Auth::Client(_) => false,
        };
        !(auth_waits
            || self.channels.waits_for_owner()
            || self.globals.waits_for_owner()
            || self.transport.events.len() >= MAX_EVENTS)
            && self.transport.takes_opened()
    }

    /// Returns the next packet to open; `None` if none is complete or the owner owes an answer.
    ///
    /// # Errors
    /// [`Error::IntegrityFailed`] for an invalid packet length or padding; later calls return the
    /// same error.
    pub fn poll_open(&mut self) -> Result<Option<OpenJob>, Error> {
        if !self.takes_opened() {
            return Ok(None);
        }
        self.transport.poll_open()
    }

    /// Processes the result of an open job; to be called in the order of the jobs.
    ///
    /// # Errors
    /// Every error ends the connection; [`Connection::fail`] sends the DISCONNECT.
    pub fn handle_opened(
        &mut self,
        opened: Result<OpenedPacket, PacketError>,
        now: Millis,
    ) -> Result<(), Error> {
        self.transport.now = now;
        let opened = opened?;
        self.alive.heard(now);
        let dispatch = self.transport.handle_opened(opened, self.stage.phase())?;
        match dispatch {
            Dispatch::Handled => Ok(()),
            Dispatch::Unimplemented(sequence) => {
                self.handle_unimplemented(sequence);
                Ok(())
            }
            Dispatch::FirstKeys => self.first_keys(),
            Dispatch::Payload(payload) => self.dispatch(&payload),
        }
    }

    fn first_keys(&mut self) -> Result<(), Error> {
        self.stage = ConnectionStage::Service;
        match &mut self.auth {
            Auth::Client(client) => client.begin(&mut self.transport),
            Auth::Server(_) => Ok(()),
        }
    }

    /// The sequence number identifies the packet that was not understood: a pipelined one, or one
    /// that asked for a sign of life.
    fn handle_unimplemented(&mut self, sequence: u32) {
        match self.transport.outbound.sent_ahead().take(sequence) {
            Some(kind) => self
                .channels
                .handle_unimplemented(&mut self.transport, kind),
            None => {
                self.globals.handle_unimplemented();
                self.note_answer();
            }
        }
    }

    fn dispatch(&mut self, payload: &bytes::Bytes) -> Result<(), Error> {
        let transport = &mut self.transport;
        let number = payload.first().copied().unwrap_or_default();
        match (number, &mut self.auth) {
            (message::ServiceRequest::NUMBER, Auth::Server(_)) => {
                transport.spend_ignored()?;
                ServerAuth::handle_service_request(transport, payload)?;
                self.stage = ConnectionStage::Userauth;
                Ok(())
            }
            (message::ServiceAccept::NUMBER, Auth::Client(client)) => {
                client.handle_service_accept(transport, payload)?;
                self.stage = ConnectionStage::Userauth;
                Ok(())
            }
            (message::ExtInfo::NUMBER, _) => {
                // An honest peer sends one or two; each costs a pass over its list.
                transport.spend_ignored()?;
                Ok(transport.extensions.merge(payload)?)
            }
            // RFC 4252 §5.1: requests after the successful one are ignored.
            (message::UserauthRequest::NUMBER, _) if self.stage == ConnectionStage::Connected => {
                Ok(())
            }
            (number, Auth::Server(server)) if USERAUTH_NUMBERS.contains(&number) => {
                server.handle(transport, payload)
            }
            (number, Auth::Client(client)) if USERAUTH_NUMBERS.contains(&number) => {
                client.handle(transport, payload)?;
                if transport.authenticated {
                    self.stage = ConnectionStage::Connected;
                    self.alive.heard(transport.now);
                } else if client.is_answered() {
                    self.channels.forget_early();
                }
                Ok(())
            }
            (message::GlobalRequest::NUMBER..=message::RequestFailure::NUMBER, _) => {
                self.globals.handle(transport, payload)?;
                self.note_answer();
                Ok(())
            }
            (message::Ping::NUMBER, _) => {
                let ping = message::Ping::decode(payload)?;
                transport.send_message(&message::Pong { data: ping.data })
            }
            (message::Pong::NUMBER, _) => Ok(message::Pong::decode(payload).map(drop)?),
            (number, _) if CHANNEL_MESSAGES.contains(&number) => {
                self.channels.handle(transport, payload)
            }
            _ => Err(Error::Bug(NO_ARM)),
        }
    }

    /// Processes the result of a job of [`Connection::poll_compress`]; to be called in the order of
    /// the jobs.
    ///
    /// # Errors
    /// [`Error::Bug`] if the compressor failed.
    pub fn handle_compressed(&mut self, compressed: Compressed) -> Result<(), Error> {
        self.transport.outbound.handle_compressed(compressed)
    }

    /// Processes the identification line and all complete packets, opening each on this thread.
    ///
    /// # Errors
    /// Those of [`Connection::handle_opened`].
    pub fn process(&mut self, now: Millis) -> Result<(), Error> {
        self.handle_received(now)?;
        while let Some(job) = self.poll_open()? {
            self.handle_opened(job.run(), now)?;
        }
        Ok(())
    }

    /// Frees all unused memory, as an idle connection does with the memory of bulk data. To be
    /// called before a pause that may be long.
    pub fn free_unused(&mut self) {
        self.transport.shed();
    }

    /// Sets the kernel's round-trip time to the peer (`tcpi_rtt`), microseconds. Receive windows
    /// grow by it before they limit the speed; without it they depend on what the channels measure.
    pub fn handle_round_trip(&mut self, round_trip_us: u32, now: Millis) {
        self.transport.now = now;
        self.channels.handle_round_trip(round_trip_us);
    }
}

/// Output, jobs and events.
impl Connection {
    /// Returns the next output to write; packets are sealed by running their job.
    pub fn poll_output(&mut self) -> Option<TransportOutput> {
        let output = self.transport.poll_output();
        if output.is_some() && self.stage == ConnectionStage::Connected {
            self.taken.left(self.transport.now);
        }
        output
    }

    /// Returns payloads to compress as a job for any thread: at most `most_payloads`, and only if
    /// they total at least `least_bytes`. [`Connection::poll_output`] compresses the others in
    /// place, and waits for jobs that have not returned.
    pub fn poll_compress(
        &mut self,
        most_payloads: usize,
        least_bytes: usize,
    ) -> Option<CompressJob> {
        self.transport
            .outbound
            .poll_compress(most_payloads, least_bytes)
    }

    /// Returns the next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        let event = self.transport.events.pop_front()?;
        match &event {
            Event::ChannelClosed(channel) | Event::ChannelRefused { channel, .. } => {
                self.channels.remove(*channel);
            }
            Event::ChannelOpenRequest { channel, .. } => self.channels.mark_reported(*channel),
            _ => {}
        }
        Some(event)
    }

    /// Returns true if the peer's next message must be read: it was asked for a sign of life, or a
    /// key exchange is running. Both end the connection if they take too long.
    #[must_use]
    pub fn awaits_word(&self) -> bool {
        self.alive.is_awaited() || self.transport.is_exchanging()
    }

    /// Returns the buffer of a written packet to the pool.
    pub fn recycle(&mut self, buf: PacketBuf) {
        self.transport.recycle(buf);
    }

    /// Limits the queued output, in bytes, above which channel data has to wait. Default and
    /// maximum: 512 KiB.
    pub fn set_output_limit(&mut self, bytes: usize) {
        self.transport.outbound.set_limit(bytes);
    }

    /// Takes a buffer for `capacity` bytes of data from the pool.
    pub fn take_buffer(&mut self, capacity: usize) -> PacketBuf {
        self.transport.outbound.take_buffer(capacity)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::permits::{Permission, permission};
    use wire::message::{KEX_NUMBERS, MESSAGES};

    const HOUSEKEEPING: core::ops::RangeInclusive<u8> =
        message::Disconnect::NUMBER..=message::Debug::NUMBER;

    fn connection(role: Role, stage: ConnectionStage) -> Connection {
        let host_key = crate::ServerHostKey {
            algorithms: vec!["ssh-ed25519".into()],
            blob: Vec::new(),
        };
        let config = TransportConfig::default();
        let mut connection = match role {
            Role::Client => Connection::client(config, 0),
            Role::Server => Connection::server(config, vec![host_key], 0),
        }
        .unwrap();
        connection.stage = stage;
        connection.transport.authenticated = stage == ConnectionStage::Connected;
        connection
    }

    /// Each message has no fields here, which most arms refuse. Those of key exchanges depend on the
    /// method that runs; its own steps refuse the others.
    #[test]
    fn every_permitted_message_has_an_arm() {
        for role in [Role::Client, Role::Server] {
            for stage in [
                ConnectionStage::Service,
                ConnectionStage::Userauth,
                ConnectionStage::Connected,
            ] {
                for number in MESSAGES.iter().map(|row| row.number) {
                    if KEX_NUMBERS.contains(&number)
                        || HOUSEKEEPING.contains(&number)
                        || permission(number, role, stage.phase()) != Permission::Permitted
                    {
                        continue;
                    }
                    let found = connection(role, stage).dispatch(&bytes::Bytes::from(vec![number]));
                    assert!(
                        !matches!(found, Err(Error::Bug(NO_ARM))),
                        "{number}, {role:?}, {stage:?}"
                    );
                }
            }
        }
    }
}
