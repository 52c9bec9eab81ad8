//! A whole connection: transport below, user authentication or channels above, and the four
//! kinds of methods that its owner works it with.
//!
//! ```text
//! socket → receive_buffer → handle_received → poll_open → (job, anywhere) → handle_opened
//!                                                   ↓ poll_event        ↓
//! owner's commands → poll_output → (seal job, anywhere) → socket, in order
//! ```

use alloc::string::String;
use alloc::vec::Vec;

use bytes::BytesMut;
use crypto::kex::DhGroup;
use packet::{OpenJob, OpenedPacket, PacketBuf, PacketError};
use wire::message::Pong;
use wire::message::{Ignore, Ping};
use zeroize::Zeroizing;

use crate::channel::{CHANNEL_MESSAGES, Channels, Globals, Request, global};
use crate::permits::Standing;
use crate::transport::{Transport, Upward};
use crate::userauth::client::ClientAuth;
use crate::userauth::server::ServerAuth;
use crate::{
    ChannelId, Error, Event, Millis, Negotiated, Prompt, Role, ServerHostKey, Stream,
    TransportConfig,
};

mod ahead;
mod alive;
mod compression;
mod ping;

pub use crate::transport::{CompressJob, Compressed, Output};
use alive::{Alive, Taken};

/// Events that may wait for the owner before no more input is taken.
const MAX_EVENTS: usize = 1024;

/// How far the connection has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    Kex,
    Service,
    Userauth,
    Connected,
}

impl Stage {
    fn standing(self) -> Standing {
        match self {
            Self::Kex => Standing::FirstKex,
            Self::Service => Standing::Service,
            Self::Userauth => Standing::Userauth,
            Self::Connected => Standing::Connected,
        }
    }
}

/// The half of user authentication that we play.
enum Auth {
    Client(ClientAuth),
    Server(ServerAuth),
}

/// One SSH connection. See the crate's head for how to work it.
pub struct Connection {
    pub(crate) transport: Transport,
    pub(crate) stage: Stage,
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

/// Making one.
impl Connection {
    /// The side that connected. Version line and KEXINIT are ready to be sent.
    ///
    /// # Errors
    /// [`Error::Misuse`] for algorithm names that we do not know.
    pub fn client(config: TransportConfig, now: Millis) -> Result<Self, Error> {
        let transport = Transport::new(Role::Client, config, Vec::new(), now)?;
        Ok(Self::over(transport, Stage::Kex))
    }

    /// The side that was connected to.
    ///
    /// # Errors
    /// [`Error::Misuse`] for algorithm names that we do not know, or without a host key.
    pub fn server(
        config: TransportConfig,
        host_keys: Vec<ServerHostKey>,
        now: Millis,
    ) -> Result<Self, Error> {
        let transport = Transport::new(Role::Server, config, host_keys, now)?;
        Ok(Self::over(transport, Stage::Kex))
    }

    pub(crate) fn over(transport: Transport, stage: Stage) -> Self {
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
    /// Which side we are.
    #[must_use]
    pub fn role(&self) -> Role {
        self.transport.role
    }

    /// The peer's version line without CR LF, once it has come.
    #[must_use]
    pub fn peer_version(&self) -> Option<&str> {
        self.transport.peer_version.as_deref()
    }

    /// Our version line without CR LF.
    #[must_use]
    pub fn our_version(&self) -> &str {
        &self.transport.our_version
    }

    /// H of the first key exchange.
    #[must_use]
    pub fn session_id(&self) -> Option<&[u8]> {
        self.transport
            .session
            .as_ref()
            .map(|session| &session.id[..])
    }

    /// Blob of the server's key, once the first key exchange is complete.
    #[must_use]
    pub fn host_key(&self) -> Option<&[u8]> {
        self.transport
            .session
            .as_ref()
            .map(|session| &session.host_key[..])
    }

    /// Algorithms of the last key exchange.
    #[must_use]
    pub fn negotiated(&self) -> Option<Negotiated> {
        self.transport
            .session
            .as_ref()
            .map(|session| session.agreement.public(session.strict_kex))
    }

    /// The peer is one of ours.
    #[must_use]
    pub fn is_fulmar_peer(&self) -> bool {
        self.transport.is_fulmar_peer()
    }

    /// Client: signature algorithms that the server takes from users, if it told.
    #[must_use]
    pub fn server_sig_algs(&self) -> Option<&[String]> {
        self.transport.extensions.server_sig_algs.as_deref()
    }

    /// Client: the server knows `publickey-hostbound-v00@openssh.com`.
    #[must_use]
    pub fn hostbound_supported(&self) -> bool {
        self.transport.extensions.hostbound
    }

    /// The user is logged in.
    #[must_use]
    pub fn is_authenticated(&self) -> bool {
        self.stage == Stage::Connected
    }

    /// DISCONNECT was sent or received: nothing more will happen.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.transport.is_closed()
    }

    /// Channels that exist.
    #[must_use]
    pub fn channel_count(&self) -> usize {
        self.channels.count()
    }

    /// More bytes should be read from the socket.
    #[must_use]
    pub fn wants_input(&self) -> bool {
        !self.transport.splitter.is_full() && !self.transport.is_closed()
    }

    /// What is sent now is compressed.
    #[must_use]
    pub fn is_compressing(&self) -> bool {
        self.transport.is_compressing()
    }

    /// Output waits to be taken.
    #[must_use]
    pub fn has_output(&self) -> bool {
        self.transport.has_output()
    }
}

/// Bytes and time in.
impl Connection {
    /// Where bytes from the socket belong: read into its spare capacity.
    pub fn receive_buffer(&mut self) -> &mut BytesMut {
        self.transport.splitter.receive_buffer()
    }

    /// The same buffer, and how many bytes are best read into it at once, so that little has to be
    /// moved in it: more may be.
    pub fn receive_room(&mut self) -> (&mut BytesMut, usize) {
        self.transport.splitter.receive_room()
    }

    /// What has the connection to itself keeps so many bytes while it works on them; 0 for nothing.
    pub fn keep(&mut self, bytes: usize) {
        self.transport.splitter.keep(bytes);
    }

    /// Bytes were added to the receive buffer.
    ///
    /// # Errors
    /// [`Error::NotSsh`], [`Error::PeerMisbehaved`].
    pub fn handle_received(&mut self, now: Millis) -> Result<(), Error> {
        self.transport.now = now;
        self.transport.handle_received()
    }

    /// Whether an opened packet may be handed in: not while the owner owes an answer or events
    /// and answers have piled up. Who opens packets ahead of their dispatch asks before each.
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

    /// The next packet to open. `None` while none is whole, or while the owner owes an answer.
    ///
    /// # Errors
    /// [`Error::IntegrityFailed`] for an impossible frame; the same at each later call.
    pub fn poll_open(&mut self) -> Result<Option<OpenJob>, Error> {
        if !self.takes_opened() {
            return Ok(None);
        }
        self.transport.poll_open()
    }

    /// The result of an open job, in the order of the jobs.
    ///
    /// # Errors
    /// Every error ends the connection; [`Connection::fail`] says goodbye.
    pub fn handle_opened(
        &mut self,
        opened: Result<OpenedPacket, PacketError>,
        now: Millis,
    ) -> Result<(), Error> {
        self.transport.now = now;
        let opened = opened?;
        self.alive.heard(now);
        let upward = self
            .transport
            .handle_opened(opened, self.stage.standing())?;
        match upward {
            Upward::Handled => Ok(()),
            Upward::Unimplemented(sequence) => {
                self.handle_unimplemented(sequence);
                Ok(())
            }
            Upward::FirstKeys => self.first_keys(),
            Upward::Payload(payload) => self.dispatch(&payload),
        }
    }

    fn first_keys(&mut self) -> Result<(), Error> {
        self.stage = Stage::Service;
        match &mut self.auth {
            Auth::Client(client) => client.begin(&mut self.transport),
            Auth::Server(_) => Ok(()),
        }
    }

    /// The number says which of our packets it was: one sent ahead, or what stands for a sign of
    /// life.
    fn handle_unimplemented(&mut self, sequence: u32) {
        match self.transport.sent_ahead.take(sequence) {
            Some(kind) => self.channels.unheard(&mut self.transport, kind),
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
            (5, Auth::Server(_)) => {
                transport.spend_ignored()?;
                ServerAuth::handle_service_request(transport, payload)?;
                self.stage = Stage::Userauth;
                Ok(())
            }
            (6, Auth::Client(client)) => {
                client.handle_service_accept(transport, payload)?;
                self.stage = Stage::Userauth;
                Ok(())
            }
            (7, _) => {
                // Once or twice is honest; each costs a walk through its list.
                transport.spend_ignored()?;
                Ok(transport.extensions.merge(payload)?)
            }
            // RFC 4252 §5.1: requests behind the one that succeeded are passed over.
            (50, _) if self.stage == Stage::Connected => Ok(()),
            (50..=79, Auth::Server(server)) => server.handle(transport, payload),
            (50..=79, Auth::Client(client)) => {
                client.handle(transport, payload)?;
                if transport.authenticated {
                    self.stage = Stage::Connected;
                    self.alive.heard(transport.now);
                } else if client.is_answered() {
                    self.channels.forget_early();
                }
                Ok(())
            }
            (80..=82, _) => {
                self.globals.handle(transport, payload)?;
                self.note_answer();
                Ok(())
            }
            (192, _) => {
                let ping = Ping::decode(payload)?;
                transport.send_message(&Pong { data: ping.data })
            }
            (193, _) => Pong::decode(payload).map(|_| ()).map_err(Error::from),
            (number, _) if CHANNEL_MESSAGES.contains(&number) => {
                self.channels.handle(transport, payload)
            }
            _ => Err(Error::NotPermitted { message: number }),
        }
    }

    /// The result of a job of [`Connection::poll_compress`], in the order of the jobs.
    ///
    /// # Errors
    /// [`Error::Bug`] when the engine failed.
    pub fn handle_compressed(&mut self, compressed: Compressed) -> Result<(), Error> {
        self.transport.handle_compressed(compressed)
    }

    /// Serial use: takes the version line and every whole packet, opening each in place.
    ///
    /// # Errors
    /// As [`Connection::handle_opened`].
    pub fn process(&mut self, now: Millis) -> Result<(), Error> {
        self.handle_received(now)?;
        while let Some(job) = self.poll_open()? {
            self.handle_opened(job.run(), now)?;
        }
        Ok(())
    }

    /// Frees what is not in use, however little it is, as an idle connection does with the memory of
    /// bulk data: for a pause that may be long.
    pub fn free_unused(&mut self) {
        self.transport.shed();
    }

    /// What the kernel knows of the round trip to the peer (`tcpi_rtt`), microseconds: receive
    /// windows open by it before they could bind. Without it they go by what they see.
    pub fn handle_round_trip(&mut self, round_trip_us: u32, now: Millis) {
        self.transport.now = now;
        self.channels.handle_round_trip(round_trip_us);
    }
}

/// What is to be done.
impl Connection {
    /// The next thing to write; packets are sealed by running their job.
    pub fn poll_output(&mut self) -> Option<Output> {
        let output = self.transport.poll_output();
        if output.is_some() && self.stage == Stage::Connected {
            self.taken.left(self.transport.now);
        }
        output
    }

    /// Payloads that wait to be compressed, at most `most_payloads` and only if they are
    /// `least_bytes` or more, as a job for any thread. What is not taken is compressed in place
    /// by [`Connection::poll_output`], which waits for jobs that are out.
    pub fn poll_compress(
        &mut self,
        most_payloads: usize,
        least_bytes: usize,
    ) -> Option<CompressJob> {
        self.transport.poll_compress(most_payloads, least_bytes)
    }

    /// The next thing that happened.
    pub fn poll_event(&mut self) -> Option<Event> {
        let event = self.transport.events.pop_front()?;
        match &event {
            Event::ChannelClosed(channel) | Event::ChannelRefused { channel, .. } => {
                self.channels.remove(*channel);
            }
            Event::ChannelOpenRequest { channel, .. } => self.channels.told(*channel),
            _ => {}
        }
        Some(event)
    }

    /// The peer's next word must not be left unread: it was asked for a sign of life, or keys are
    /// exchanged. Both end the connection where they take too long.
    #[must_use]
    pub fn awaits_word(&self) -> bool {
        self.alive.is_awaited() || self.transport.is_exchanging()
    }

    /// Gives a written packet's buffer back to the pool.
    pub fn recycle(&mut self, buf: PacketBuf) {
        self.transport.recycle(buf);
    }

    /// How many bytes of output may be queued before channel data has to wait: what leaves in a
    /// moment. At most 512 KiB, and that until this is called.
    pub fn set_output_limit(&mut self, bytes: usize) {
        self.transport.set_output_limit(bytes);
    }

    /// A buffer from the pool, for data of `capacity` bytes.
    pub fn take_buffer(&mut self, capacity: usize) -> PacketBuf {
        self.transport.take_buffer(capacity)
    }
}

/// Commands of the transport.
impl Connection {
    /// Client: the host key of [`Event::HostKey`] is trusted.
    ///
    /// # Errors
    /// [`Error::Misuse`] when none waits.
    pub fn accept_host_key(&mut self) -> Result<(), Error> {
        self.transport.accept_host_key()
    }

    /// Client: the host key is not trusted; says goodbye.
    pub fn refuse_host_key(&mut self) {
        self.fail(&Error::HostKeyRefused);
    }

    /// Server: the signature blob that [`Event::SignExchangeHash`] asked for.
    ///
    /// # Errors
    /// [`Error::Misuse`] when none was asked for.
    pub fn provide_host_signature(&mut self, signature: &[u8]) -> Result<(), Error> {
        self.transport.provide_host_signature(signature)
    }

    /// Server: the group that [`Event::ChooseGroup`] asked for.
    ///
    /// # Errors
    /// [`Error::PeerMisbehaved`] for `None`, [`Error::Misuse`] when none was asked for.
    pub fn provide_group(&mut self, group: Option<DhGroup>) -> Result<(), Error> {
        self.transport.provide_group(group)
    }

    /// Starts a key exchange, unless one is under way.
    ///
    /// # Errors
    /// [`Error`] of sending.
    pub fn rekey(&mut self, now: Millis) -> Result<(), Error> {
        self.transport.now = now;
        self.transport.rekey()
    }

    /// Client: makes the key pair of the next key exchange ahead, if a limit on bytes is near. To
    /// be called when there is nothing else to do. The pair serves one exchange, and is dropped
    /// when the connection has been idle for a second.
    ///
    /// # Errors
    /// [`Error::KeyExchange`] when none could be made.
    pub fn prepare_rekey(&mut self) -> Result<(), Error> {
        self.transport.prepare_rekey()
    }

    /// Says goodbye (RFC 4253 §11.1); nothing is sent or taken afterwards.
    pub fn disconnect(&mut self, reason: u32, description: &str) {
        self.transport.disconnect(reason, description);
    }

    /// Says the goodbye that fits `error`.
    pub fn fail(&mut self, error: &Error) {
        if let Some((reason, description)) = error.disconnect_reason() {
            self.transport.disconnect(reason, description);
        }
    }

    /// Sends SSH_MSG_IGNORE.
    ///
    /// # Errors
    /// [`Error`] of sending.
    pub fn send_ignore(&mut self, data: &[u8]) -> Result<(), Error> {
        self.transport.send_message(&Ignore { data })
    }
}

/// Commands of user authentication, client.
impl Connection {
    fn client_auth(&mut self) -> Result<(&mut ClientAuth, &mut Transport), Error> {
        match &mut self.auth {
            Auth::Client(client) => Ok((client, &mut self.transport)),
            Auth::Server(_) => Err(Error::Misuse("a server does not log in")),
        }
    }

    /// Asks to be let in without proof, and so for the list of methods.
    ///
    /// # Errors
    /// [`Error::Misuse`] outside authentication; so for every request below.
    pub fn auth_none(&mut self, user: &[u8]) -> Result<(), Error> {
        let (client, transport) = self.client_auth()?;
        client.none(transport, user)
    }

    /// RFC 4252 §8.
    ///
    /// # Errors
    /// [`Error::Misuse`].
    pub fn auth_password(&mut self, user: &[u8], password: &[u8]) -> Result<(), Error> {
        let (client, transport) = self.client_auth()?;
        client.password(transport, user, password, None)
    }

    /// RFC 4252 §8: the old password and a new one.
    ///
    /// # Errors
    /// [`Error::Misuse`].
    pub fn auth_change_password(
        &mut self,
        user: &[u8],
        old: &[u8],
        new: &[u8],
    ) -> Result<(), Error> {
        let (client, transport) = self.client_auth()?;
        client.password(transport, user, old, Some(new))
    }

    /// RFC 4252 §7 without a signature.
    ///
    /// # Errors
    /// [`Error::Misuse`].
    pub fn auth_publickey_query(
        &mut self,
        user: &[u8],
        algorithm: &str,
        key: &[u8],
    ) -> Result<(), Error> {
        let (client, transport) = self.client_auth()?;
        client.publickey_query(transport, user, algorithm.as_bytes(), key)
    }

    /// What a key has to sign; bound to the server's host key where the server knows that form.
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
            Auth::Server(_) => Err(Error::Misuse("a server does not log in")),
        }
    }

    /// Leaves signatures unbound to the host key, although the server may know that form
    /// (`PubkeyAuthentication unbound`). To be said before the first key is offered.
    ///
    /// # Errors
    /// [`Error::Misuse`] on a server.
    pub fn leave_signatures_unbound(&mut self) -> Result<(), Error> {
        let (client, _) = self.client_auth()?;
        client.unbound = true;
        Ok(())
    }

    /// RFC 4252 §7 with a signature over [`Connection::publickey_signed_data`].
    ///
    /// # Errors
    /// [`Error::Misuse`].
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

    /// RFC 4256 §3.1.
    ///
    /// # Errors
    /// [`Error::Misuse`].
    pub fn auth_keyboard_interactive(&mut self, user: &[u8], devices: &str) -> Result<(), Error> {
        let (client, transport) = self.client_auth()?;
        client.keyboard_interactive(transport, user, devices.as_bytes())
    }

    /// RFC 4256 §3.4: one response for each prompt of [`Event::AuthInfoRequest`].
    ///
    /// # Errors
    /// [`Error::Misuse`].
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
            Auth::Client(_) => Err(Error::Misuse("a client lets nobody in")),
        }
    }

    /// The client is logged in.
    ///
    /// # Errors
    /// [`Error::Misuse`] when no request is open; so for every answer below.
    pub fn auth_success(&mut self) -> Result<(), Error> {
        let (server, transport) = self.server_auth()?;
        server.success(transport)?;
        self.stage = Stage::Connected;
        self.alive.heard(self.transport.now);
        Ok(())
    }

    /// Not this way; these methods can continue.
    ///
    /// # Errors
    /// [`Error::Misuse`].
    pub fn auth_failure(&mut self, methods: &[&str], partial_success: bool) -> Result<(), Error> {
        let (server, transport) = self.server_auth()?;
        server.failure(transport, methods, partial_success)
    }

    /// The key of the query would do.
    ///
    /// # Errors
    /// [`Error::Misuse`].
    pub fn auth_pk_ok(&mut self) -> Result<(), Error> {
        let (server, transport) = self.server_auth()?;
        server.pk_ok(transport)
    }

    /// Prompts for keyboard-interactive.
    ///
    /// # Errors
    /// [`Error::Misuse`].
    pub fn auth_info_request(
        &mut self,
        name: &str,
        instruction: &str,
        prompts: &[Prompt],
    ) -> Result<(), Error> {
        let (server, transport) = self.server_auth()?;
        server.info_request(transport, name, instruction, prompts)
    }

    /// The password was right but must be changed.
    ///
    /// # Errors
    /// [`Error::Misuse`].
    pub fn auth_change_request(&mut self, prompt: &str) -> Result<(), Error> {
        let (server, transport) = self.server_auth()?;
        server.change_request(transport, prompt)
    }

    /// Text to show before login.
    ///
    /// # Errors
    /// [`Error::Misuse`] after login.
    pub fn auth_banner(&mut self, text: &str) -> Result<(), Error> {
        let (_, transport) = self.server_auth()?;
        ServerAuth::banner(transport, text)
    }

    /// Tells a client that knows `ext-info-in-auth@openssh.com` which algorithms this user's
    /// keys may use.
    ///
    /// # Errors
    /// [`Error`] of sending.
    pub fn send_ext_info_in_auth(&mut self, algorithms: &[&str]) -> Result<(), Error> {
        self.transport.send_ext_info_in_auth(algorithms)
    }
}

/// Commands of channels.
impl Connection {
    fn connected(&self) -> Result<(), Error> {
        match self.stage {
            Stage::Connected => Ok(()),
            _ => Err(Error::Misuse("channels come after login")),
        }
    }

    /// Asks for a channel.
    ///
    /// # Errors
    /// [`Error::Misuse`] before login, or with too many channels.
    pub fn open_channel(&mut self, kind: &str, fields: &[u8]) -> Result<ChannelId, Error> {
        self.connected()?;
        self.channels.open(&mut self.transport, kind, fields)
    }

    /// Grants the channel of [`Event::ChannelOpenRequest`].
    ///
    /// # Errors
    /// [`Error::Misuse`].
    pub fn accept_channel(&mut self, channel: ChannelId) -> Result<(), Error> {
        self.channels.accept(&mut self.transport, channel)
    }

    /// Refuses the channel of [`Event::ChannelOpenRequest`].
    ///
    /// # Errors
    /// [`Error::Misuse`].
    pub fn reject_channel(
        &mut self,
        channel: ChannelId,
        reason: u32,
        text: &str,
    ) -> Result<(), Error> {
        self.channels
            .reject(&mut self.transport, channel, reason, text)
    }

    /// Sends a request.
    ///
    /// # Errors
    /// [`Error::Misuse`].
    pub fn channel_request(
        &mut self,
        channel: ChannelId,
        request: &Request,
        want_reply: bool,
    ) -> Result<(), Error> {
        self.channels
            .request(&mut self.transport, channel, request, want_reply)
    }

    /// Answers the oldest request of [`Event::ChannelRequest`] that wants one.
    ///
    /// # Errors
    /// [`Error::Misuse`].
    pub fn channel_reply(&mut self, channel: ChannelId, success: bool) -> Result<(), Error> {
        self.channels.reply(&mut self.transport, channel, success)
    }

    /// Bytes of data that one message may carry now; 0 while the window is closed, a key
    /// exchange is under way, or enough output is queued.
    #[must_use]
    pub fn channel_send_space(&self, channel: ChannelId) -> usize {
        self.channels.send_space(&self.transport, channel)
    }

    /// The peer takes no more data on this channel before it opens the window.
    #[must_use]
    pub fn channel_window_is_shut(&self, channel: ChannelId) -> bool {
        self.channels.window_is_shut(channel)
    }

    /// Bytes of data that messages of at most [`Connection::channel_max_data`] may carry now: for
    /// who reads them all at once.
    #[must_use]
    pub fn channel_send_room(&self, channel: ChannelId) -> usize {
        self.channels.send_room(&self.transport, channel)
    }

    /// Longest data in one message to the peer, bytes.
    #[must_use]
    pub fn channel_max_data(&self, channel: ChannelId) -> usize {
        self.channels.max_data(&self.transport, channel)
    }

    /// Bytes that the peer may have on their way to us, or here and not consumed.
    #[must_use]
    pub fn channel_window(&self, channel: ChannelId) -> usize {
        self.channels.window(channel)
    }

    /// Sends the payload of `buf` as data, without copying it.
    ///
    /// # Errors
    /// [`Error::Misuse`] beyond [`Connection::channel_send_space`].
    pub fn channel_send(
        &mut self,
        channel: ChannelId,
        stream: Stream,
        buf: PacketBuf,
    ) -> Result<(), Error> {
        self.channels
            .send(&mut self.transport, channel, stream, buf)
    }

    /// Sends as much of `data` as may leave now and says how much.
    ///
    /// # Errors
    /// [`Error::Misuse`].
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

    /// The sink has taken `bytes` of the channel's data: the window opens again.
    ///
    /// # Errors
    /// [`Error`] of sending.
    pub fn channel_consumed(&mut self, channel: ChannelId, bytes: usize) -> Result<(), Error> {
        // The sink let go of memory, whether the peer hears of it or not.
        self.transport.note_activity();
        self.channels.consumed(&mut self.transport, channel, bytes)
    }

    /// No more data from us.
    ///
    /// # Errors
    /// [`Error::Misuse`] for a channel that does not exist.
    pub fn channel_eof(&mut self, channel: ChannelId) -> Result<(), Error> {
        self.channels.send_eof(&mut self.transport, channel)
    }

    /// Nothing more from us.
    ///
    /// # Errors
    /// [`Error::Misuse`] for a channel that does not exist.
    pub fn channel_close(&mut self, channel: ChannelId) -> Result<(), Error> {
        self.channels.send_close(&mut self.transport, channel)
    }

    /// Leaves the answer to the peer's CLOSE to the owner: [`Event::ChannelPeerClosed`]. A
    /// server holds it until the command's exit status is known and sent; clients that close
    /// as soon as they see EOF would lose it otherwise (dbclient, plink).
    ///
    /// # Errors
    /// [`Error::Misuse`] for a channel that does not exist.
    pub fn channel_hold_close(&mut self, channel: ChannelId) -> Result<(), Error> {
        self.channels.hold_close(channel)
    }

    /// The number stands for a channel, confirmed or not.
    #[must_use]
    pub fn has_channel(&self, channel: ChannelId) -> bool {
        self.channels.contains(channel)
    }

    /// The channel exists and is confirmed.
    #[must_use]
    pub fn channel_is_open(&self, channel: ChannelId) -> bool {
        self.channels.is_open(channel)
    }
}

/// Global requests.
impl Connection {
    /// Asks the peer for a sign of life.
    ///
    /// # Errors
    /// [`Error::Misuse`] before login.
    pub fn send_keepalive(&mut self) -> Result<(), Error> {
        self.connected()?;
        self.globals.send_keepalive(&mut self.transport)
    }

    /// Client: this connection will open no more sessions.
    ///
    /// # Errors
    /// [`Error::Misuse`] before login, except behind an early channel.
    pub fn send_no_more_sessions(&mut self) -> Result<(), Error> {
        if self.stage != Stage::Connected && self.channels.early().is_none() {
            return Err(Error::Misuse("this comes after login"));
        }
        self.globals.send_no_more_sessions(&mut self.transport)
    }

    /// Server: names all host keys.
    ///
    /// # Errors
    /// [`Error::Misuse`] before login.
    pub fn announce_host_keys(&mut self, keys: &[Vec<u8>]) -> Result<(), Error> {
        self.connected()?;
        self.globals.announce_host_keys(&mut self.transport, keys)
    }

    /// Client: asks the server to prove that it holds these keys.
    ///
    /// # Errors
    /// [`Error::Misuse`] before login.
    pub fn prove_host_keys(&mut self, keys: &[Vec<u8>]) -> Result<(), Error> {
        self.connected()?;
        self.globals.prove_host_keys(&mut self.transport, keys)
    }

    /// What a key signs to prove itself.
    ///
    /// # Errors
    /// [`Error::Misuse`] before the first key exchange is complete.
    pub fn hostkeys_prove_data(&self, key: &[u8]) -> Result<Vec<u8>, Error> {
        let id = self
            .session_id()
            .ok_or(Error::Misuse("no session identifier yet"))?;
        Ok(global::hostkeys_prove_data(id, key))
    }

    /// Server: the signatures that [`Event::HostKeysProve`] asked for.
    ///
    /// # Errors
    /// [`Error::Misuse`] when none were asked for.
    pub fn provide_host_key_proofs(&mut self, signatures: Option<&[Vec<u8>]>) -> Result<(), Error> {
        self.globals.provide_proofs(&mut self.transport, signatures)
    }
}
