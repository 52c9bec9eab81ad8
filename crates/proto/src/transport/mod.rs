//! The transport layer, RFC 4253: version exchange, packets, key exchange and rekeying.
//!
//! [`Transport`] joins four parts, each in its file with the invariants that it keeps: the
//! identification lines (`version`), the receiving direction (`inbound`), the sending direction
//! (`outbound`, whose queue is `outbox`) and the key exchange (`kex`). No part knows the transport.
//! An exchange reaches the two directions through `kex::Exchanging`; it alone changes their keys.

use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;

use bytes::Bytes;
use compress::Origin;
use crypto::kex::DhGroup;
use packet::{OpenJob, OpenedPacket, PacketBuf};
use wire::Reader;
use wire::message::{self, Encode, KEX_NUMBERS};

use crate::permits::{ConnectionPhase, Permission, permission};
use crate::{Error, Event, Millis, Role, ServerHostKey, TransportConfig};

mod compress_job;
mod epoch_keys;
mod ext_info;
mod idle;
mod inbound;
mod kex;
mod outbound;
mod outbox;
mod pipelined_packet;
mod streams;
mod version;

pub use compress_job::{CompressJob, Compressed};
pub(crate) use epoch_keys::{DirectionSuite, EpochKeys};
pub(crate) use ext_info::PeerExtensions;
pub(crate) use inbound::Inbound;
pub(crate) use kex::{Agreement, TransportSession};
use kex::{Exchange, Exchanging};
pub(crate) use outbound::Outbound;
pub use outbox::TransportOutput;
pub(crate) use pipelined_packet::PipelinedPacket;
pub(crate) use version::VersionExchange;
use version::VersionLine;

/// The peer's version where a master shares its connection: nothing is known of the server.
const SHARED_VERSION: &str = "SSH-2.0-shared";
/// Maximum messages without effect from a peer before login.
const IGNORED_BUDGET: u32 = 1024;

/// The transport of one connection. `Connection` owns it and calls it in this order:
///
/// 1. [`Transport::new`] queues our identification line and our KEXINIT.
/// 2. Input: bytes into [`Transport::inbound`]'s buffer, then [`Transport::handle_received`]; then
///    [`Transport::poll_open`] until it returns `None`; then [`Transport::handle_opened`] with the
///    result of each job, in the order of the jobs. It returns payloads of the layers above.
/// 3. Commands: [`Transport::send_message`] and the other `send_*` queue messages of the layers
///    above; they wait here while an exchange of ours is running. `accept_host_key`,
///    `provide_group`, `provide_host_signature` and those with `gss` answer the event with the same
///    subject, and no input is accepted before.
/// 4. Output: [`Transport::poll_output`] until it returns `None`, and [`Outbound::poll_compress`]
///    with [`Outbound::handle_compressed`]. Input, commands and timeouts may all make output.
/// 5. Time: the owner sets [`Transport::now`] before it calls anything that depends on it, and calls
///    [`Transport::handle_timeout`] when [`Transport::deadline`] is reached. Time never goes back.
///
/// After [`Transport::set_authenticated`], which the layer above calls once, compression begins,
/// packets may be opened in advance, and exchanges are rekeys.
///
/// Each error ends the connection: the owner may still send DISCONNECT with
/// [`Transport::disconnect`], poll the output, and nothing else. An error of
/// [`Transport::poll_output`], which cannot return it, is returned by the next
/// [`Transport::poll_open`].
pub(crate) struct Transport {
    pub(crate) role: Role,
    pub(crate) config: TransportConfig,
    pub(crate) versions: VersionExchange,
    pub(crate) inbound: Inbound,
    pub(crate) outbound: Outbound,
    pub(crate) exchange: Exchange,
    pub(crate) extensions: PeerExtensions,
    pub(crate) authenticated: bool,
    /// Number of messages without effect.
    ignored: u32,
    /// Time of the last packet in or out; `None` after idle memory was freed.
    active_at: Option<Millis>,
    pub(crate) events: VecDeque<Event>,
    pub(crate) now: Millis,
}

/// Converts the peer's DISCONNECT. The language tag is ignored, since some peers omit it.
fn disconnected(payload: &[u8]) -> Result<Error, wire::DecodeError> {
    let mut reader = Reader::new(payload);
    reader.u8()?;
    let reason = reader.u32()?;
    let description = reader.string().unwrap_or_default();
    Ok(Error::Disconnected {
        reason,
        description: String::from_utf8_lossy(description).into_owned(),
    })
}

/// Result of an opened packet for the layer above.
pub(crate) enum Dispatch {
    /// The transport has handled it.
    Handled,
    /// A payload for the layer above; its message number is permitted.
    Payload(Bytes),
    /// The first key exchange is complete.
    FirstKeys,
    /// The peer did not implement our packet with this sequence number.
    Unimplemented(u32),
}

impl Transport {
    /// Queues identification line and KEXINIT, without waiting for the peer's.
    pub(crate) fn new(
        role: Role,
        config: TransportConfig,
        host_keys: Vec<ServerHostKey>,
        now: Millis,
    ) -> Result<Self, Error> {
        let versions = VersionExchange::new(config.opening.names_openssh, &config.opening.comment);
        let exchange = Exchange::new(role, &config, host_keys, None, now)?;
        let outbound = Outbound::new(config.deflate, versions.ours());
        let inbound = Inbound::new();
        let mut transport = Self::of(role, config, versions, inbound, outbound, exchange, now);
        transport.start_exchange().map(|()| transport)
    }

    /// No transport: packets of a connection that a master shares in proxy mode. Sends nothing.
    pub(crate) fn shared(config: TransportConfig, now: Millis) -> Result<Self, Error> {
        let config = TransportConfig {
            rekey_bytes: Some(u64::MAX),
            rekey_ms: None,
            // The master watches the server.
            alive_interval_ms: None,
            ..config
        };
        let role = Role::Client;
        let ours = VersionExchange::new(false, "");
        let versions = VersionExchange::resumed(ours.ours().into(), SHARED_VERSION.into());
        let exchange = Exchange::new(role, &config, Vec::new(), None, now)?;
        let (inbound, outbound) = (Inbound::shared(), Outbound::shared(config.deflate));
        let mut transport = Self::of(role, config, versions, inbound, outbound, exchange, now);
        transport.set_authenticated();
        Ok(transport)
    }

    /// Continues a server's transport after the login from the parts of a snapshot; sends nothing.
    pub(crate) fn resumed(
        config: TransportConfig,
        host_keys: Vec<ServerHostKey>,
        versions: VersionExchange,
        session: TransportSession,
        (inbound, outbound): (Inbound, Outbound),
        now: Millis,
    ) -> Result<Self, Error> {
        let role = Role::Server;
        let exchange = Exchange::new(role, &config, host_keys, Some(session), now)?;
        let mut transport = Self::of(role, config, versions, inbound, outbound, exchange, now);
        transport.set_authenticated();
        Ok(transport)
    }

    fn of(
        role: Role,
        config: TransportConfig,
        versions: VersionExchange,
        inbound: Inbound,
        outbound: Outbound,
        exchange: Exchange,
        now: Millis,
    ) -> Self {
        Self {
            role,
            config,
            versions,
            inbound,
            outbound,
            exchange,
            extensions: PeerExtensions::default(),
            authenticated: false,
            ignored: 0,
            active_at: None,
            events: VecDeque::new(),
            now,
        }
    }

    // ---- input ----------------------------------------------------------------------------

    /// Takes the identification line from the receive buffer, unless it has arrived already.
    pub(crate) fn handle_received(&mut self) -> Result<(), Error> {
        while self.versions.peer().is_none() {
            let event = match self.versions.handle(self.inbound.buffer(), self.role)? {
                VersionLine::Incomplete => return Ok(()),
                VersionLine::Before(line) => Event::PreVersionLine(line),
                VersionLine::Version(_) => Event::Version,
            };
            self.events.push_back(event);
        }
        Ok(())
    }

    /// Returns true if an opened packet may be passed in now.
    pub(crate) fn takes_opened(&self) -> bool {
        !self.is_closed()
            && self.versions.peer().is_some()
            && !self.exchange.waits_for_owner()
            && !self.outbound.owes_too_much()
    }

    /// Returns the next packet to open, if one is complete and may be opened now. Until the login,
    /// packets are opened one at a time.
    pub(crate) fn poll_open(&mut self) -> Result<Option<OpenJob>, Error> {
        self.outbound.check_failure()?;
        if !self.takes_opened() {
            return Ok(None);
        }
        let may_change_keys = self.exchange.may_change_keys();
        self.inbound.next(self.authenticated, may_change_keys)
    }

    /// Processes an opened packet: inflates it, handles transport messages, and returns other
    /// payloads for the layer above.
    pub(crate) fn handle_opened(
        &mut self,
        opened: OpenedPacket,
        above: ConnectionPhase,
    ) -> Result<Dispatch, Error> {
        self.inbound.note_opened();
        self.note_activity();
        if self.is_closed() {
            return Ok(Dispatch::Handled);
        }
        let sequence = opened.sequence();
        let payload = self.inbound.inflate(opened)?;
        let number = *payload
            .first()
            .ok_or(Error::PeerMisbehaved("empty payload"))?;
        if self.outbound.is_shared() && !outbound::SHARED_NUMBERS.contains(&number) {
            return Err(Error::NotPermitted { message: number });
        }
        // Without a transport there is no key exchange to wait for.
        let phase = match self.outbound.is_shared() {
            true => above,
            false => self.exchange.phase().unwrap_or(above),
        };
        match permission(number, self.role, phase) {
            Permission::Permitted => {}
            Permission::Forbidden => return Err(Error::NotPermitted { message: number }),
            Permission::Unknown => {
                self.spend_ignored()?;
                self.send_message(&message::Unimplemented { sequence })?;
                return Ok(Dispatch::Handled);
            }
        }
        let dispatch = match number {
            message::Disconnect::NUMBER..=message::Debug::NUMBER => {
                self.handle_housekeeping(number, &payload)?
            }
            _ if KEX_NUMBERS.contains(&number) => {
                match self.exchanging().handle(sequence, &payload)? {
                    true => Dispatch::FirstKeys,
                    false => Dispatch::Handled,
                }
            }
            _ => Dispatch::Payload(payload),
        };
        self.check_rekey()?;
        Ok(dispatch)
    }

    fn handle_housekeeping(&mut self, number: u8, payload: &[u8]) -> Result<Dispatch, Error> {
        match number {
            message::Disconnect::NUMBER => {
                self.outbound.close();
                return Err(disconnected(payload)?);
            }
            message::Unimplemented::NUMBER => {
                let sequence = message::Unimplemented::decode(payload)?.sequence;
                self.spend_ignored()?;
                return Ok(Dispatch::Unimplemented(sequence));
            }
            message::Debug::NUMBER => {
                let debug = message::Debug::decode(payload)?;
                self.events.push_back(Event::DebugMessage {
                    always_display: debug.always_display,
                    text: String::from_utf8_lossy(debug.text).into_owned(),
                });
            }
            // SSH_MSG_IGNORE, which some peers send without its data field.
            _ => {}
        }
        self.spend_ignored()?;
        Ok(Dispatch::Handled)
    }

    /// Counts a message without effect; before login their number is limited.
    pub(crate) fn spend_ignored(&mut self) -> Result<(), Error> {
        if self.authenticated {
            return Ok(());
        }
        self.ignored += 1;
        if self.ignored > IGNORED_BUDGET {
            return Err(Error::PeerMisbehaved(
                "too many messages without effect before login",
            ));
        }
        Ok(())
    }

    // ---- commands -------------------------------------------------------------------------

    /// Sends one message that is not bulk data: an answer or a request.
    pub(crate) fn send_message(&mut self, message: &impl Encode) -> Result<(), Error> {
        self.send_message_ahead(message, None)
    }

    /// Client: sends a message of this kind before the server's answers; without a kind, as
    /// [`Self::send_message`] does.
    pub(crate) fn send_message_ahead(
        &mut self,
        message: &impl Encode,
        kind: Option<PipelinedPacket>,
    ) -> Result<(), Error> {
        let buf = self.outbound.encode(message);
        self.send(buf, None, kind)
    }

    /// Sends data of the channel `origin`. It waits for its window and is not counted against the
    /// peer.
    pub(crate) fn send_data(&mut self, buf: PacketBuf, origin: Origin) -> Result<(), Error> {
        self.send(buf, Some(origin), None)
    }

    /// Sends a payload that is not channel data; `ahead` as for [`Self::send_message_ahead`].
    pub(crate) fn send_payload(
        &mut self,
        buf: PacketBuf,
        ahead: Option<PipelinedPacket>,
    ) -> Result<(), Error> {
        self.send(buf, None, ahead)
    }

    fn send(
        &mut self,
        buf: PacketBuf,
        data: Option<Origin>,
        ahead: Option<PipelinedPacket>,
    ) -> Result<(), Error> {
        let holds = self.exchange.holds_output();
        self.outbound.send(buf, data, ahead, holds)?;
        self.check_rekey()
    }

    /// Server: announces which algorithms this user's keys may use, if the client supports that.
    pub(crate) fn send_ext_info_in_auth(&mut self, algorithms: &[&str]) -> Result<(), Error> {
        if self.role != Role::Server || !self.extensions.in_auth || self.authenticated {
            return Ok(());
        }
        ext_info::send_in_auth(&mut self.outbound, algorithms)
    }

    pub(crate) fn recycle(&mut self, buf: PacketBuf) {
        self.note_activity();
        self.outbound.recycle(buf);
    }

    pub(crate) fn disconnect(&mut self, reason: u32, description: &str) {
        // Best effort: the connection ends even if this cannot be sent.
        let _ = self.outbound.send_kex(&message::Disconnect {
            reason,
            description: description.as_bytes(),
            language: b"",
        });
        self.outbound.close();
    }

    /// Server: says that the client's identification line is none.
    pub(crate) fn refuse_version(&mut self, line: &str) {
        self.outbound.refuse_version(line);
    }

    /// Returns true if DISCONNECT was sent or received.
    pub(crate) fn is_closed(&self) -> bool {
        self.outbound.is_closed()
    }

    /// Records the login: compression starts with the next packet in each direction for which it
    /// was negotiated.
    pub(crate) fn set_authenticated(&mut self) {
        self.authenticated = true;
        self.outbound.begin_stream();
        self.inbound.begin_stream();
    }

    // ---- key exchange ---------------------------------------------------------------------

    fn exchanging(&mut self) -> Exchanging<'_> {
        Exchanging {
            exchange: &mut self.exchange,
            role: self.role,
            config: &self.config,
            versions: &self.versions,
            authenticated: self.authenticated,
            now: self.now,
            inbound: &mut self.inbound,
            outbound: &mut self.outbound,
            events: &mut self.events,
        }
    }

    fn start_exchange(&mut self) -> Result<(), Error> {
        self.exchanging().start()
    }

    /// Starts a key exchange if a limit is reached and none is running.
    fn check_rekey(&mut self) -> Result<(), Error> {
        let may_start = self.authenticated && !self.is_closed() && !self.outbound.is_shared();
        if may_start && self.exchange.is_due(&self.outbound, &self.inbound) {
            return self.start_exchange();
        }
        Ok(())
    }

    /// Starts a key exchange now, unless one is running.
    pub(crate) fn rekey(&mut self) -> Result<(), Error> {
        if self.exchange.session().is_none() || self.is_exchanging() {
            return Ok(());
        }
        self.start_exchange()
    }

    /// Client: creates our key pair for the next exchange in advance, if a limit of ours is near.
    pub(crate) fn prepare_rekey(&mut self) -> Result<(), Error> {
        if !self.authenticated || self.active_at.is_none() {
            return Ok(());
        }
        self.exchange
            .prepare(self.role, &self.outbound, &self.inbound)
    }

    pub(crate) fn accept_host_key(&mut self) -> Result<(), Error> {
        self.exchanging().accept_host_key()
    }

    pub(crate) fn provide_group(&mut self, group: Option<DhGroup>) -> Result<(), Error> {
        self.exchanging().provide_group(group)
    }

    pub(crate) fn provide_host_signature(&mut self, signature: &[u8]) -> Result<(), Error> {
        self.exchanging().provide_host_signature(signature)
    }

    pub(crate) fn provide_gss_token(
        &mut self,
        token: &[u8],
        is_established: bool,
    ) -> Result<(), Error> {
        self.exchanging().provide_gss_token(token, is_established)
    }

    pub(crate) fn accept_gss(&mut self) -> Result<(), Error> {
        self.exchanging().accept_gss()
    }

    pub(crate) fn continue_gss(&mut self, token: &[u8]) -> Result<(), Error> {
        self.exchanging().continue_gss(token)
    }

    pub(crate) fn complete_gss(&mut self, token: &[u8], mic: &[u8]) -> Result<(), Error> {
        self.exchanging().complete_gss(token, mic)
    }

    pub(crate) fn refuse_gss(&mut self, token: &[u8]) -> Error {
        self.exchanging().refuse_gss(token)
    }

    /// Returns true if a key exchange is running.
    pub(crate) fn is_exchanging(&self) -> bool {
        !self.exchange.is_idle()
    }

    /// Returns true if no key exchange is running, and no message or opened packet is outstanding.
    pub(crate) fn is_settled(&self) -> bool {
        self.exchange.is_idle() && self.outbound.is_settled() && self.inbound.is_settled()
    }

    // ---- output ---------------------------------------------------------------------------

    pub(crate) fn poll_output(&mut self) -> Option<TransportOutput> {
        let output = self.outbound.poll();
        if output.is_some() {
            self.exchange.progressed(self.now);
        }
        output
    }

    /// Returns true if a message sent now leaves before anything else.
    pub(crate) fn sends_at_once(&self) -> bool {
        !self.is_closed() && !self.exchange.holds_output() && !self.outbound.has_output()
    }

    /// Returns true if bulk data may be queued now. During a rekey some may be, to follow our
    /// NEWKEYS at once; if that has used up the new keys, the rest waits for the peer's NEWKEYS.
    pub(crate) fn takes_bulk(&self) -> bool {
        self.outbound.takes_bulk(self.exchange.most_held_bulk())
            && !self.exchange.is_spent(&self.outbound)
    }

    /// Bytes of bulk data that may be queued without another check; the last packet may exceed
    /// them. 0 if [`Self::takes_bulk`] is false.
    pub(crate) fn bulk_room(&self) -> usize {
        if !self.takes_bulk() {
            return 0;
        }
        let keys = self.exchange.bytes_left(&self.outbound);
        let keys = usize::try_from(keys).unwrap_or(usize::MAX);
        self.outbound.room().min(keys).max(1)
    }

    // ---- time -----------------------------------------------------------------------------

    /// Time of the next action that does not depend on input.
    pub(crate) fn deadline(&self) -> Option<Millis> {
        let exchange = self.exchange.deadline(self.authenticated);
        let deadlines = [exchange, self.shed_deadline()];
        deadlines.into_iter().flatten().min()
    }

    /// Handles expired deadlines; returns true if memory was freed.
    pub(crate) fn handle_timeout(&mut self) -> Result<bool, Error> {
        let shed = self.shed_if_idle();
        let deadline = self.exchange.deadline(self.authenticated);
        if deadline.is_some_and(|deadline| self.now >= deadline) {
            if self.is_exchanging() {
                return Err(Error::TimedOut("key exchange"));
            }
            self.start_exchange()?;
        }
        Ok(shed)
    }

    /// Returns true if our data is compressed after login.
    pub(crate) fn will_compress(&self) -> bool {
        self.outbound.method() != crate::config::Compression::None
    }
}
