//! A whole connection: transport below, user authentication or channels above. Its methods are
//! getters, input, commands and output.

use alloc::string::String;
use alloc::vec::Vec;

use bytes::BytesMut;
use crypto::kex::DhGroup;
use packet::{OpenJob, OpenedPacket, PacketBuf, PacketError};
use wire::message::{self, Encode as _, USERAUTH_NUMBERS};
use zeroize::Zeroizing;

use crate::channel::{CHANNEL_MESSAGES, Channels, Globals, Request, global};
use crate::permits::ConnectionPhase;
use crate::quirks::Quirks;
use crate::transport::{Dispatch, Transport};
use crate::userauth::client::ClientAuth;
use crate::userauth::server::ServerAuth;
use crate::{
    ChannelId, Error, Event, Millis, Negotiated, Prompt, Role, ServerHostKey, Stream,
    TransportConfig,
};

mod alive;
mod compression;
mod ping;
mod pipelined;
mod typing;

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
        self.transport.peer_version.as_deref()
    }

    /// The peer's quirks, by its version line.
    pub fn peer_quirks(&self) -> Quirks {
        self.transport.peer_quirks()
    }

    /// Our identification line without CR LF.
    #[must_use]
    pub fn our_version(&self) -> &str {
        &self.transport.our_version
    }

    /// Session identifier: the exchange hash H of the first key exchange.
    #[must_use]
    pub fn session_id(&self) -> Option<&[u8]> {
        self.transport
            .session
            .as_ref()
            .map(|session| &session.id[..])
    }

    /// Blob of the server's host key; `None` before the first key exchange is complete.
    #[must_use]
    pub fn host_key(&self) -> Option<&[u8]> {
        self.transport
            .session
            .as_ref()
            .map(|session| &session.host_key[..])
    }

    /// Algorithms of the last key exchange; `None` before the first is complete.
    #[must_use]
    pub fn negotiated(&self) -> Option<Negotiated> {
        self.transport
            .session
            .as_ref()
            .map(|session| session.agreement.public(session.strict_kex))
    }

    /// Client: signature algorithms that the server accepts from users, if announced.
    #[must_use]
    pub fn server_sig_algs(&self) -> Option<&[String]> {
        self.transport.extensions.server_sig_algs.as_deref()
    }

    /// Client: the server announced `publickey-hostbound-v00@openssh.com`.
    #[must_use]
    pub fn hostbound_supported(&self) -> bool {
        self.transport.extensions.hostbound
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

    /// Returns true if more bytes should be read from the socket.
    #[must_use]
    pub fn wants_input(&self) -> bool {
        !self.transport.splitter.is_full() && !self.transport.is_closed()
    }

    /// Returns true if sent data is compressed now.
    #[must_use]
    pub fn is_compressing(&self) -> bool {
        self.transport.is_compressing()
    }

    /// Returns true if output is queued.
    #[must_use]
    pub fn has_output(&self) -> bool {
        self.transport.has_output()
    }
}

/// Input: bytes and time.
impl Connection {
    /// The receive buffer; read from the socket into its spare capacity.
    pub fn receive_buffer(&mut self) -> &mut BytesMut {
        self.transport.splitter.receive_buffer()
    }

    /// The receive buffer and the number of bytes to read at once so that few have to be moved.
    /// Reading more is allowed.
    pub fn receive_room(&mut self) -> (&mut BytesMut, usize) {
        self.transport.splitter.receive_room()
    }

    /// Lets the connection's only consumer pin up to `bytes` of receive slabs, so that their
    /// packets need not be copied. 0 restores the default.
    pub fn keep(&mut self, bytes: usize) {
        self.transport.splitter.keep(bytes);
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

    /// Returns the next packet to open. `None` if no packet is complete, or while the owner owes an
    /// answer.
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
        match self.transport.sent_ahead.take(sequence) {
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
            _ => Err(Error::NotPermitted { message: number }),
        }
    }

    /// Processes the result of a job of [`Connection::poll_compress`]; to be called in the order of
    /// the jobs.
    ///
    /// # Errors
    /// [`Error::Bug`] if the compressor failed.
    pub fn handle_compressed(&mut self, compressed: Compressed) -> Result<(), Error> {
        self.transport.handle_compressed(compressed)
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
        self.transport.poll_compress(most_payloads, least_bytes)
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
        self.transport.set_output_limit(bytes);
    }

    /// Takes a buffer for `capacity` bytes of data from the pool.
    pub fn take_buffer(&mut self, capacity: usize) -> PacketBuf {
        self.transport.take_buffer(capacity)
    }
}

/// Commands of the transport.
impl Connection {
    /// Client: trusts the host key of [`Event::HostKey`].
    ///
    /// # Errors
    /// [`Error::Misuse`] if no host key awaits a decision.
    pub fn accept_host_key(&mut self) -> Result<(), Error> {
        self.transport.accept_host_key()
    }

    /// Client: refuses the host key and sends DISCONNECT.
    pub fn refuse_host_key(&mut self) {
        self.fail(&Error::HostKeyRefused);
    }

    /// Server: provides the signature blob for [`Event::SignExchangeHash`].
    ///
    /// # Errors
    /// [`Error::Misuse`] if no signature was requested.
    pub fn provide_host_signature(&mut self, signature: &[u8]) -> Result<(), Error> {
        self.transport.provide_host_signature(signature)
    }

    /// Server: provides the group for [`Event::ChooseGroup`]; `None` if there is none.
    ///
    /// # Errors
    /// [`Error::PeerMisbehaved`] for `None`, [`Error::Misuse`] if no group was requested.
    pub fn provide_group(&mut self, group: Option<DhGroup>) -> Result<(), Error> {
        self.transport.provide_group(group)
    }

    /// Starts a key exchange, unless one is running.
    ///
    /// # Errors
    /// Errors of sending KEXINIT.
    pub fn rekey(&mut self, now: Millis) -> Result<(), Error> {
        self.transport.now = now;
        self.transport.rekey()
    }

    /// Client: creates the key pair of the next key exchange in advance if a limit on bytes is
    /// near. To be called when there is nothing else to do. The pair is used for one exchange, and
    /// dropped when the connection has been idle for a second.
    ///
    /// # Errors
    /// [`Error::KeyExchange`] if no pair could be created.
    pub fn prepare_rekey(&mut self) -> Result<(), Error> {
        self.transport.prepare_rekey()
    }

    /// Sends DISCONNECT (RFC 4253 §11.1); nothing is sent or accepted afterwards.
    pub fn disconnect(&mut self, reason: u32, description: &str) {
        self.transport.disconnect(reason, description);
    }

    /// Sends the DISCONNECT that matches `error`, if there is one.
    pub fn fail(&mut self, error: &Error) {
        if let Some((reason, description)) = error.disconnect_reason() {
            self.transport.disconnect(reason, description);
        }
    }

    /// Sends SSH_MSG_IGNORE.
    ///
    /// # Errors
    /// Errors of sending.
    pub fn send_ignore(&mut self, data: &[u8]) -> Result<(), Error> {
        self.transport.send_message(&message::Ignore { data })
    }
}

/// Commands of user authentication, client.
impl Connection {
    fn client_auth(&mut self) -> Result<(&mut ClientAuth, &mut Transport), Error> {
        match &mut self.auth {
            Auth::Client(client) => Ok((client, &mut self.transport)),
            Auth::Server(_) => Err(Error::Misuse("client command on a server")),
        }
    }

    /// Requests login with the method `none`, which also returns the list of methods.
    ///
    /// # Errors
    /// [`Error::Misuse`] outside authentication or with 16 unanswered requests, as for all requests
    /// below.
    pub fn auth_none(&mut self, user: &[u8]) -> Result<(), Error> {
        let (client, transport) = self.client_auth()?;
        client.none(transport, user)
    }

    /// Requests login with a password, RFC 4252 §8.
    ///
    /// # Errors
    /// [`Error::Misuse`] outside authentication.
    pub fn auth_password(&mut self, user: &[u8], password: &[u8]) -> Result<(), Error> {
        let (client, transport) = self.client_auth()?;
        client.password(transport, user, password, None)
    }

    /// Requests login with an expired password and a new one, RFC 4252 §8.
    ///
    /// # Errors
    /// [`Error::Misuse`] outside authentication.
    pub fn auth_change_password(
        &mut self,
        user: &[u8],
        old: &[u8],
        new: &[u8],
    ) -> Result<(), Error> {
        let (client, transport) = self.client_auth()?;
        client.password(transport, user, old, Some(new))
    }

    /// Asks whether the server accepts a public key, RFC 4252 §7 without a signature.
    ///
    /// # Errors
    /// [`Error::Misuse`] outside authentication.
    pub fn auth_publickey_query(
        &mut self,
        user: &[u8],
        algorithm: &str,
        key: &[u8],
    ) -> Result<(), Error> {
        let (client, transport) = self.client_auth()?;
        client.publickey_query(transport, user, algorithm.as_bytes(), key)
    }

    /// Data that a key has to sign; bound to the server's host key if the server supports that.
    ///
    /// # Errors
    /// [`Error::Misuse`] before the first key exchange is complete.
    pub fn publickey_signed_data(
        &self,
        user: &[u8],
        algorithm: &str,
        key: &[u8],
    ) -> Result<Vec<u8>, Error> {
        match &self.auth {
            Auth::Client(client) => {
                client.signed_data(&self.transport, user, algorithm.as_bytes(), key)
            }
            Auth::Server(_) => Err(Error::Misuse("client command on a server")),
        }
    }

    /// Leaves signatures unbound to the host key even if the server supports binding
    /// (`PubkeyAuthentication unbound`). To be called before the first key is offered.
    ///
    /// # Errors
    /// [`Error::Misuse`] on a server.
    pub fn leave_signatures_unbound(&mut self) -> Result<(), Error> {
        let (client, _) = self.client_auth()?;
        client.unbound = true;
        Ok(())
    }

    /// Requests login with a signature over [`Connection::publickey_signed_data`], RFC 4252 §7.
    ///
    /// # Errors
    /// [`Error::Misuse`] outside authentication.
    pub fn auth_publickey(
        &mut self,
        user: &[u8],
        algorithm: &str,
        key: &[u8],
        signature: &[u8],
    ) -> Result<(), Error> {
        let (client, transport) = self.client_auth()?;
        client.publickey(transport, user, algorithm.as_bytes(), key, signature)
    }

    /// Requests login with keyboard-interactive, RFC 4256 §3.1.
    ///
    /// # Errors
    /// [`Error::Misuse`] outside authentication.
    pub fn auth_keyboard_interactive(&mut self, user: &[u8], devices: &str) -> Result<(), Error> {
        let (client, transport) = self.client_auth()?;
        client.keyboard_interactive(transport, user, devices.as_bytes())
    }

    /// Sends one response for each prompt of [`Event::AuthInfoRequest`], RFC 4256 §3.4.
    ///
    /// # Errors
    /// [`Error::Misuse`] if no prompt awaits a response.
    pub fn auth_respond(&mut self, responses: &[Zeroizing<Vec<u8>>]) -> Result<(), Error> {
        let (client, transport) = self.client_auth()?;
        client.respond(transport, responses)
    }
}

/// Commands of user authentication, server.
impl Connection {
    fn server_auth(&mut self) -> Result<(&mut ServerAuth, &mut Transport), Error> {
        match &mut self.auth {
            Auth::Server(server) => Ok((server, &mut self.transport)),
            Auth::Client(_) => Err(Error::Misuse("server command on a client")),
        }
    }

    /// Accepts the open request: the client is logged in.
    ///
    /// # Errors
    /// [`Error::Misuse`] if no request is open, as for all answers below.
    pub fn auth_success(&mut self) -> Result<(), Error> {
        let (server, transport) = self.server_auth()?;
        server.success(transport)?;
        self.stage = ConnectionStage::Connected;
        self.alive.heard(self.transport.now);
        Ok(())
    }

    /// Rejects the open request; `methods` can continue.
    ///
    /// # Errors
    /// [`Error::Misuse`] if no request is open.
    pub fn auth_failure(&mut self, methods: &[&str], partial_success: bool) -> Result<(), Error> {
        let (server, transport) = self.server_auth()?;
        server.failure(transport, methods, partial_success)
    }

    /// Accepts the key of the open query.
    ///
    /// # Errors
    /// [`Error::Misuse`] if no key query is open.
    pub fn auth_pk_ok(&mut self) -> Result<(), Error> {
        let (server, transport) = self.server_auth()?;
        server.pk_ok(transport)
    }

    /// Sends prompts for keyboard-interactive, at most 64.
    ///
    /// # Errors
    /// [`Error::Misuse`] if no request is open, or with too many prompts.
    pub fn auth_info_request(
        &mut self,
        name: &str,
        instruction: &str,
        prompts: &[Prompt],
    ) -> Result<(), Error> {
        let (server, transport) = self.server_auth()?;
        server.info_request(transport, name, instruction, prompts)
    }

    /// Asks for a new password: the password was right but has expired.
    ///
    /// # Errors
    /// [`Error::Misuse`] if no request is open.
    pub fn auth_change_request(&mut self, prompt: &str) -> Result<(), Error> {
        let (server, transport) = self.server_auth()?;
        server.change_request(transport, prompt)
    }

    /// Sends text to show before login.
    ///
    /// # Errors
    /// [`Error::Misuse`] after login.
    pub fn auth_banner(&mut self, text: &str) -> Result<(), Error> {
        let (_, transport) = self.server_auth()?;
        ServerAuth::banner(transport, text)
    }

    /// Announces which algorithms this user's keys may use, if the client supports
    /// `ext-info-in-auth@openssh.com`.
    ///
    /// # Errors
    /// Errors of sending.
    pub fn send_ext_info_in_auth(&mut self, algorithms: &[&str]) -> Result<(), Error> {
        self.transport.send_ext_info_in_auth(algorithms)
    }
}

/// Commands of channels.
impl Connection {
    fn connected(&self) -> Result<(), Error> {
        match self.stage {
            ConnectionStage::Connected => Ok(()),
            _ => Err(Error::Misuse("channel command before login")),
        }
    }

    /// Opens a channel.
    ///
    /// # Errors
    /// [`Error::Misuse`] before login, with too many channels, or without window memory for another
    /// one.
    pub fn open_channel(&mut self, kind: &str, fields: &[u8]) -> Result<ChannelId, Error> {
        self.connected()?;
        self.channels.open(&mut self.transport, kind, fields)
    }

    /// Accepts the channel of [`Event::ChannelOpenRequest`].
    ///
    /// # Errors
    /// [`Error::Misuse`] for a channel that the peer did not request.
    pub fn accept_channel(&mut self, channel: ChannelId) -> Result<(), Error> {
        self.channels.accept(&mut self.transport, channel)
    }

    /// Refuses the channel of [`Event::ChannelOpenRequest`].
    ///
    /// # Errors
    /// [`Error::Misuse`] for a channel that the peer did not request.
    pub fn reject_channel(
        &mut self,
        channel: ChannelId,
        reason: u32,
        text: &str,
    ) -> Result<(), Error> {
        self.channels
            .reject(&mut self.transport, channel, reason, text)
    }

    /// Sends a channel request; on a closed channel it has no effect.
    ///
    /// # Errors
    /// [`Error::Misuse`] for an unknown or unconfirmed channel, or with 1,024 unanswered requests.
    pub fn channel_request(
        &mut self,
        channel: ChannelId,
        request: &Request,
        want_reply: bool,
    ) -> Result<(), Error> {
        self.channels
            .request(&mut self.transport, channel, request, want_reply)
    }

    /// Answers the oldest unanswered [`Event::ChannelRequest`] with `want_reply`.
    ///
    /// # Errors
    /// [`Error::Misuse`] if no reply is owed.
    pub fn channel_reply(&mut self, channel: ChannelId, success: bool) -> Result<(), Error> {
        self.channels.reply(&mut self.transport, channel, success)
    }

    /// Data bytes that one message may carry now; 0 while the window is closed, a key exchange is
    /// running, or enough output is queued.
    #[must_use]
    pub fn channel_send_space(&self, channel: ChannelId) -> usize {
        self.channels.send_space(&self.transport, channel)
    }

    /// Returns true if the peer accepts no more data on this channel before it opens the window.
    #[must_use]
    pub fn channel_window_is_shut(&self, channel: ChannelId) -> bool {
        self.channels.window_is_shut(channel)
    }

    /// Data bytes that messages of at most [`Connection::channel_max_data`] may carry now, for a
    /// caller that reads them all at once.
    #[must_use]
    pub fn channel_send_room(&self, channel: ChannelId) -> usize {
        self.channels.send_room(&self.transport, channel)
    }

    /// Maximum data bytes in one message to the peer.
    #[must_use]
    pub fn channel_max_data(&self, channel: ChannelId) -> usize {
        self.channels.max_data(&self.transport, channel)
    }

    /// Size of the receive window, bytes: maximum data in flight to us or received and not
    /// consumed.
    #[must_use]
    pub fn channel_window(&self, channel: ChannelId) -> usize {
        self.channels.window(channel)
    }

    /// Sends the payload of `buf` as data, without a copy.
    ///
    /// # Errors
    /// [`Error::Misuse`] if it exceeds [`Connection::channel_send_space`].
    pub fn channel_send(
        &mut self,
        channel: ChannelId,
        stream: Stream,
        buf: PacketBuf,
    ) -> Result<(), Error> {
        self.channels
            .send(&mut self.transport, channel, stream, buf)
    }

    /// Sends as much of `data` as may leave now; returns the number of bytes.
    ///
    /// # Errors
    /// [`Error::Misuse`] for an unknown channel.
    pub fn channel_send_slice(
        &mut self,
        channel: ChannelId,
        stream: Stream,
        data: &[u8],
    ) -> Result<usize, Error> {
        let mut sent = 0;
        while let Some(rest) = data.get(sent..).filter(|rest| !rest.is_empty()) {
            let space = self.channel_send_space(channel);
            let Some(piece) = rest
                .get(..space.min(rest.len()))
                .filter(|piece| !piece.is_empty())
            else {
                break;
            };
            let mut buf = self.take_buffer(piece.len());
            buf.extend(piece);
            self.channel_send(channel, stream, buf)?;
            sent += piece.len();
        }
        Ok(sent)
    }

    /// Reports `bytes` of the channel's data as consumed, so that the window reopens.
    ///
    /// # Errors
    /// Errors of sending WINDOW_ADJUST.
    pub fn channel_consumed(&mut self, channel: ChannelId, bytes: usize) -> Result<(), Error> {
        // The sink released memory, even if no adjust is sent.
        self.transport.note_activity();
        self.channels.consumed(&mut self.transport, channel, bytes)
    }

    /// Sends EOF: no more data follows.
    ///
    /// # Errors
    /// [`Error::Misuse`] for an unknown channel.
    pub fn channel_eof(&mut self, channel: ChannelId) -> Result<(), Error> {
        self.channels.send_eof(&mut self.transport, channel)
    }

    /// Sends CLOSE.
    ///
    /// # Errors
    /// [`Error::Misuse`] for an unknown channel.
    pub fn channel_close(&mut self, channel: ChannelId) -> Result<(), Error> {
        self.channels.send_close(&mut self.transport, channel)
    }

    /// Leaves the answer to the peer's CLOSE to the owner, who gets [`Event::ChannelPeerClosed`]. A
    /// server delays its CLOSE until the command's exit status is known and sent; clients that
    /// close as soon as they see EOF (dbclient, plink) would lose it otherwise.
    ///
    /// # Errors
    /// [`Error::Misuse`] for an unknown channel.
    pub fn channel_hold_close(&mut self, channel: ChannelId) -> Result<(), Error> {
        self.channels.hold_close(channel)
    }

    /// Returns true if the channel exists, confirmed or not.
    #[must_use]
    pub fn has_channel(&self, channel: ChannelId) -> bool {
        self.channels.contains(channel)
    }

    /// Returns true if the channel exists and is confirmed.
    #[must_use]
    pub fn channel_is_open(&self, channel: ChannelId) -> bool {
        self.channels.is_open(channel)
    }
}

/// Global requests.
impl Connection {
    /// Sends a keepalive request, which asks for a sign of life.
    ///
    /// # Errors
    /// [`Error::Misuse`] before login.
    pub fn send_keepalive(&mut self) -> Result<(), Error> {
        self.connected()?;
        self.globals.send_keepalive(&mut self.transport)
    }

    /// Client: announces that this connection will open no more sessions.
    ///
    /// # Errors
    /// [`Error::Misuse`] before login, unless an early channel is open.
    pub fn send_no_more_sessions(&mut self) -> Result<(), Error> {
        if self.stage != ConnectionStage::Connected && self.channels.early().is_none() {
            return Err(Error::Misuse("no-more-sessions before login"));
        }
        self.globals.send_no_more_sessions(&mut self.transport)
    }

    /// Server: announces its host keys.
    ///
    /// # Errors
    /// [`Error::Misuse`] before login.
    pub fn announce_host_keys(&mut self, keys: &[Vec<u8>]) -> Result<(), Error> {
        self.connected()?;
        self.globals.announce_host_keys(&mut self.transport, keys)
    }

    /// Client: asks the server to prove that it holds these host keys.
    ///
    /// # Errors
    /// [`Error::Misuse`] before login.
    pub fn prove_host_keys(&mut self, keys: &[Vec<u8>]) -> Result<(), Error> {
        self.connected()?;
        self.globals.prove_host_keys(&mut self.transport, keys)
    }

    /// Data that a host key signs for its proof.
    ///
    /// # Errors
    /// [`Error::Misuse`] before the first key exchange is complete.
    pub fn hostkeys_prove_data(&self, key: &[u8]) -> Result<Vec<u8>, Error> {
        let id = self
            .session_id()
            .ok_or(Error::Misuse("no session identifier yet"))?;
        Ok(global::hostkeys_prove_data(id, key))
    }

    /// Server: provides the signatures for [`Event::HostKeysProve`]; `None` refuses.
    ///
    /// # Errors
    /// [`Error::Misuse`] if none were requested.
    pub fn provide_host_key_proofs(&mut self, signatures: Option<&[Vec<u8>]>) -> Result<(), Error> {
        self.globals.provide_proofs(&mut self.transport, signatures)
    }
}
