//! Forwarded connections (RFC 4254 §7, OpenSSH's PROTOCOL §2.4) of either side: sockets that are
//! joined to channels, listeners whose connections open channels, and connections made for channels
//! that the peer opened.
//!
//! Give each notice to [`Forwards::handle`] first; it returns those that concern others. The owner
//! decides what is permitted, before it calls [`Forwards::connect`] or [`Forwards::listen`]. Nothing
//! here blocks: names are looked up on threads, and connections have a time limit.
//!
//! A joined socket keeps half-open connections: the socket's end is sent as EOF, the peer's EOF
//! shuts the socket's sending direction down after the last byte is written, and the channel is
//! closed when both directions have ended. The peer's CLOSE is answered only then, so that bytes
//! that the socket has not accepted yet are not lost.

mod accept;
mod agent;
mod dial;
mod events;
mod first_packet;
mod listener;
mod name_cache;
mod resolver;
mod socks;
mod target;
mod totals;
mod tunnel;
mod udp;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};

use proto::{ChannelId, Millis, Stream};
use sys::socket::Family;
use wire::message::open_failure;

pub use first_packet::{FirstPacket, FirstPacketStep};
pub use listener::{Gateway, ListeningSockets};
pub use socks::{Socks, SocksDatagram, SocksOutcome, SocksStep};
pub use target::{ForwardTarget, Listening};
pub use totals::ForwardTotals;
pub use tunnel::TunnelRequest;

use crate::packets::PacketPort;
use crate::{Driver, SocketPair};
use agent::BindAnswer;
use dial::{Dial, DialStep};
use resolver::Resolver;
use udp::UdpForwards;

/// Time limit for lookup and connection together, milliseconds.
const CONNECT_MS: u64 = 15_000;
/// Time limit for a SOCKS request, milliseconds.
const SOCKS_MS: u64 = 30_000;
/// Time limit for a first packet that is checked, milliseconds: any user of the server's host can make
/// such connections, and each takes the place of another.
const FIRST_PACKET_MS: u64 = 30_000;
/// Maximum connections accepted in one turn, so that a flood of them does not starve channels.
const MAX_ACCEPTS: usize = 64;
/// Pause of all listeners after an error that concerns the whole process, such as too many open
/// files, milliseconds.
const PAUSE_MS: u64 = 250;
/// Bytes of a SOCKS request that are looked at together.
const SOCKS_PEEK_BYTES: usize = 512;

/// The upper byte of this module's tokens; the lower bits are a serial. The owner's tokens must be
/// below [`FIRST_TOKEN`].
const KIND_SHIFT: u32 = 56;
/// Smallest token of this module.
pub const FIRST_TOKEN: u64 = 0xf0 << KIND_SHIFT;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ForwardToken {
    Connect(u64),
    GiveUp(u64),
    NextAttempt(u64),
    Resolver,
    Accept(u64),
    Resume,
    Socks(u64),
    Discard(u64),
    Bind(u64),
    UdpReady(u64),
    UdpControl(u64),
}

impl ForwardToken {
    fn number(self) -> u64 {
        let (kind, serial) = match self {
            Self::Connect(serial) => (0, serial),
            Self::GiveUp(serial) => (1, serial),
            Self::NextAttempt(serial) => (2, serial),
            Self::Resolver => (3, 0),
            Self::Accept(serial) => (4, serial),
            Self::Resume => (5, 0),
            Self::Socks(serial) => (6, serial),
            Self::Discard(serial) => (7, serial),
            Self::Bind(serial) => (8, serial),
            Self::UdpReady(serial) => (9, serial),
            Self::UdpControl(serial) => (10, serial),
        };
        FIRST_TOKEN + (kind << KIND_SHIFT) + serial
    }

    fn of(number: u64) -> Option<Self> {
        let number = number.checked_sub(FIRST_TOKEN)?;
        let serial = number & ((1 << KIND_SHIFT) - 1);
        Some(match number >> KIND_SHIFT {
            0 => Self::Connect(serial),
            1 => Self::GiveUp(serial),
            2 => Self::NextAttempt(serial),
            3 => Self::Resolver,
            4 => Self::Accept(serial),
            5 => Self::Resume,
            6 => Self::Socks(serial),
            7 => Self::Discard(serial),
            8 => Self::Bind(serial),
            9 => Self::UdpReady(serial),
            10 => Self::UdpControl(serial),
            _ => return None,
        })
    }
}

/// The channel that an accepted connection opens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opens {
    /// Client: to this target.
    Direct(ForwardTarget),
    /// Client: to the target that the connection asks for by SOCKS.
    Socks,
    /// Server: to the client's X server.
    X11 {
        /// The listener ends with its first connection.
        single_connection: bool,
    },
    /// Server: to the client that requested this listener.
    Forwarded(Listening),
    /// Server: to the client's agent.
    Agent {
        /// The channel has the name of RFC 9987, not OpenSSH's.
        standard: bool,
    },
}

/// Something that the owner may report.
#[derive(Debug)]
pub enum ForwardReport {
    /// The peer refused a channel for an accepted connection.
    OpenRefused {
        /// The channel's number.
        channel: ChannelId,
        /// One of `wire::message::open_failure`.
        reason: u32,
        /// The peer's text, not escaped.
        description: String,
        /// Which connection, as in [`Forwards::lines`].
        label: String,
        /// The number of the forwarding to which it belongs.
        origin: Option<u64>,
    },
    /// The server has confirmed a tunnel.
    TunnelOpened(ChannelId),
    /// A connection for the peer failed.
    ConnectFailed {
        /// The target.
        target: ForwardTarget,
        /// Why, in the system's words.
        why: String,
        /// The number of the forwarding to which it belongs.
        origin: Option<u64>,
    },
    /// A connection to the agent failed.
    AgentFailed {
        /// Why, in the system's words.
        why: String,
    },
    /// The first packet of a connection for the peer was refused, for this reason.
    FirstPacketRefused(&'static str),
    /// A target that a SOCKS request named is not permitted.
    TargetForbidden(ForwardTarget),
    /// Listeners pause because of this error; reported once until a connection is accepted again.
    AcceptFailed(io::Error),
    /// A connection carried no data for its limit, milliseconds, and is closed.
    Idle(ChannelId, Millis),
    /// No channel could be opened for an accepted connection.
    NoChannel(proto::Error),
    /// A SOCKS client asked for datagrams, which the server does not forward.
    UdpUnsupported,
}

/// The settings of all forwardings of a connection.
pub struct ForwardSettings {
    /// `TCPKeepAlive` for outgoing connections.
    pub keep_alive: bool,
    /// `AddressFamily` of outgoing connections.
    pub family: Family,
    /// Decides about targets that the peer's SOCKS requests name.
    pub permits: Box<dyn Fn(&ForwardTarget) -> bool + Send>,
}

impl std::fmt::Debug for ForwardSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ForwardSettings").finish_non_exhaustive()
    }
}

enum ForwardStage {
    /// The target's name is looked up.
    Lookup(ForwardTarget),
    /// Connecting to the target.
    Dialing(ForwardTarget, Dial),
    /// The agent has not answered the session-bind request.
    Binding(SocketPair, BindAnswer),
    /// An accepted connection sends its SOCKS request.
    Asking(SocketPair, Option<SocketAddr>),
    /// The peer sends a SOCKS request on its channel.
    PeerAsks,
    /// The peer has not answered our open request.
    Opening(OpeningSocket),
    /// The peer has not answered our open request for a tunnel.
    OpeningPort(Box<PacketPort>),
    /// The channel carries the packets of a device.
    Port,
    /// Socket and channel are joined.
    Joined {
        source_ended: bool,
        sink_ended: bool,
    },
}

/// The socket of a channel that the peer has not answered.
struct OpeningSocket {
    write: OwnedFd,
    /// None if it is the channel's source already: the peer takes data before its answer.
    read: Option<OwnedFd>,
    source_ended: bool,
}

struct Forwarded {
    stage: ForwardStage,
    /// The channel; none while a SOCKS request is read from a socket.
    channel: Option<ChannelId>,
    socks: Option<Socks>,
    /// The session-bind request for an agent, which is sent first and answered before the channel is
    /// accepted; empty for other connections.
    bind: Vec<u8>,
    /// Checks the connection's first packet, which precedes the connection to the target; none if the
    /// packet has been checked.
    first: Option<(FirstPacket, ForwardTarget)>,
    /// True if the peer's channel was accepted before there was a connection.
    is_accepted: bool,
    /// Data from the peer that arrived before its SOCKS request was carried out, and its EOF. Copied,
    /// because the data would pin a receive slab during the whole attempt to connect. The window
    /// bounds its size.
    held: Vec<u8>,
    peer_ended: bool,
    /// The socket was reset, or failed otherwise.
    is_reset: bool,
    /// The socket, whose bytes are read and dropped: the peer has closed the channel. A target that
    /// cannot write might not read what is still to be written to it.
    discarded: Option<OwnedFd>,
    /// Its name for the user.
    label: String,
    /// The number of the forwarding that it belongs to.
    origin: Option<u64>,
}

struct ForwardListener {
    sockets: ListeningSockets,
    opens: Opens,
}

/// All forwarded connections and listeners of one connection.
pub struct Forwards {
    settings: ForwardSettings,
    next_serial: u64,
    entries: BTreeMap<u64, Forwarded>,
    channels: BTreeMap<ChannelId, u64>,
    listeners: BTreeMap<u64, ForwardListener>,
    totals: BTreeMap<u64, ForwardTotals>,
    resolver: Resolver,
    udp: UdpForwards,
    /// Listeners pause; the reason has been reported.
    paused: bool,
    /// Listeners are not watched until a timer expires.
    is_waiting: bool,
    reports: VecDeque<ForwardReport>,
}

impl std::fmt::Debug for Forwards {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Forwards")
            .field("connections", &self.entries.len())
            .field("listeners", &self.listeners.len())
            .finish_non_exhaustive()
    }
}

impl Forwards {
    /// No connections and no listeners.
    #[must_use]
    pub fn new(settings: ForwardSettings) -> Self {
        Self {
            settings,
            next_serial: 0,
            entries: BTreeMap::new(),
            channels: BTreeMap::new(),
            listeners: BTreeMap::new(),
            totals: BTreeMap::new(),
            resolver: Resolver::default(),
            udp: UdpForwards::default(),
            paused: false,
            is_waiting: false,
            reports: VecDeque::new(),
        }
    }

    /// True if a connection is open or being opened, or the peer has not closed its channel yet: it
    /// may still write what it has received. Listeners and flows of datagrams do not count.
    #[must_use]
    pub fn has_connections(&self) -> bool {
        !self.entries.is_empty()
    }

    /// Number and description of each open channel.
    pub fn lines(&self) -> impl Iterator<Item = (ChannelId, &str)> {
        let connections = self.channels.iter().filter_map(|(channel, serial)| {
            let entry = self.entries.get(serial)?;
            Some((*channel, entry.label.as_str()))
        });
        connections.chain(self.udp_lines())
    }

    /// Returns the next report.
    pub fn next_report(&mut self) -> Option<ForwardReport> {
        self.reports.pop_front()
    }

    // ---- channels that the peer opened ------------------------------------------------------

    /// Connects to `target` and answers the peer's open request with the result. The connection
    /// belongs to the forwarding `origin`, if that is counted.
    pub fn connect(
        &mut self,
        channel: ChannelId,
        target: ForwardTarget,
        origin: Option<u64>,
        driver: &mut Driver,
    ) {
        if let ForwardTarget::Udp { host, port } = target {
            return self.connect_udp(channel, (host, port), &[], origin, driver);
        }
        let label = format!("direct to {target}");
        if let Some(serial) = self.admit(channel, (label, origin), None, driver) {
            self.dial(serial, target, driver);
        }
    }

    /// Accepts the peer's channel, whose data is a SOCKS request and then the connection's.
    pub fn serve_socks(&mut self, channel: ChannelId, origin: Option<u64>, driver: &mut Driver) {
        let socks = Some(Socks::default());
        let label = ("dynamic".into(), origin);
        let Some(serial) = self.admit(channel, label, socks, driver) else {
            return;
        };
        if driver.connection().accept_channel(channel).is_err() {
            self.fail(serial, None, driver);
            return;
        }
        self.limit(serial, SOCKS_MS, driver);
    }

    /// Makes an entry for a channel that the peer opened; refuses it if there are too many.
    fn admit(
        &mut self,
        channel: ChannelId,
        label: (String, Option<u64>),
        socks: Option<Socks>,
        driver: &mut Driver,
    ) -> Option<u64> {
        if self.entries.len() >= driver.connection().max_channels() {
            let (reason, text) = (open_failure::RESOURCE_SHORTAGE, "too many connections");
            let _ = driver.connection().reject_channel(channel, reason, text);
            return None;
        }
        let _ = driver.connection().channel_hold_close(channel);
        let serial = self.insert(ForwardStage::PeerAsks, Some(channel), socks, label);
        Some(serial)
    }

    fn insert(
        &mut self,
        stage: ForwardStage,
        channel: Option<ChannelId>,
        socks: Option<Socks>,
        (label, origin): (String, Option<u64>),
    ) -> u64 {
        let serial = self.new_number();
        self.count_opened(origin);
        let entry = Forwarded {
            stage,
            channel,
            socks,
            bind: Vec::new(),
            first: None,
            is_accepted: false,
            held: Vec::new(),
            peer_ended: false,
            is_reset: false,
            discarded: None,
            label,
            origin,
        };
        self.entries.insert(serial, entry);
        self.channels
            .extend(channel.map(|channel| (channel, serial)));
        serial
    }

    fn limit(&self, serial: u64, ms: u64, driver: &mut Driver) {
        let token = ForwardToken::GiveUp(serial).number();
        driver.set_timer(token, Some(driver.now().saturating_add(ms)));
    }

    fn dial(&mut self, serial: u64, target: ForwardTarget, driver: &mut Driver) {
        self.limit(serial, CONNECT_MS, driver);
        let token = ForwardToken::Connect(serial).number();
        let (dial, step) = match &target {
            ForwardTarget::Unix(path) => Dial::start_unix(path, token, driver),
            ForwardTarget::Tcp { host, port } => match sys::socket::literal(host, *port) {
                Some(address) => Dial::start(vec![address], token, driver),
                None => return self.look_up(serial, target, driver),
            },
            // Datagrams have flows, not connections.
            ForwardTarget::Udp { .. } => return self.fail(serial, None, driver),
        };
        self.dialed(serial, (target, dial), step, driver);
    }

    fn look_up(&mut self, serial: u64, target: ForwardTarget, driver: &mut Driver) {
        let ForwardTarget::Tcp { host, port } = &target else {
            return;
        };
        let name = (host.clone(), self.settings.family);
        let token = ForwardToken::Resolver.number();
        match self.resolver.look_up(serial, (name, *port), token, driver) {
            Ok(None) => self.set_stage(serial, ForwardStage::Lookup(target)),
            Ok(Some(addresses)) => {
                let token = ForwardToken::Connect(serial).number();
                let (dial, step) = Dial::start(addresses, token, driver);
                self.dialed(serial, (target, dial), step, driver);
            }
            Err(error) => self.fail(serial, Some((target, words(&error))), driver),
        }
    }

    fn set_stage(&mut self, serial: u64, stage: ForwardStage) {
        if let Some(entry) = self.entries.get_mut(&serial) {
            entry.stage = stage;
        }
    }

    fn looked_up(
        &mut self,
        serial: u64,
        found: Result<Vec<SocketAddr>, String>,
        driver: &mut Driver,
    ) {
        let Some(entry) = self.entries.get_mut(&serial) else {
            return;
        };
        let target = match std::mem::replace(&mut entry.stage, ForwardStage::PeerAsks) {
            ForwardStage::Lookup(target) => target,
            other => return entry.stage = other,
        };
        match found {
            Ok(addresses) => {
                let token = ForwardToken::Connect(serial).number();
                let (dial, step) = Dial::start(addresses, token, driver);
                self.dialed(serial, (target, dial), step, driver);
            }
            Err(why) => self.fail(serial, Some((target, why)), driver),
        }
    }

    /// Goes on after a step of the attempts.
    fn dialed(
        &mut self,
        serial: u64,
        (target, dial): (ForwardTarget, Dial),
        step: DialStep,
        driver: &mut Driver,
    ) {
        let next = ForwardToken::NextAttempt(serial).number();
        match step {
            DialStep::Waiting(delay) => {
                let at = delay.map(|delay| driver.now().saturating_add(delay));
                driver.set_timer(next, at);
                self.set_stage(serial, ForwardStage::Dialing(target, dial));
            }
            DialStep::Connected(socket) => {
                driver.set_timer(next, None);
                self.connected(serial, (target, socket), driver);
            }
            DialStep::Failed(error) => {
                driver.set_timer(next, None);
                self.fail(serial, Some((target, words(&error))), driver);
            }
        }
    }

    fn dial_event(&mut self, serial: u64, is_ready: bool, driver: &mut Driver) {
        let Some(entry) = self.entries.get_mut(&serial) else {
            return;
        };
        match std::mem::replace(&mut entry.stage, ForwardStage::PeerAsks) {
            ForwardStage::Dialing(target, mut dial) => {
                let token = ForwardToken::Connect(serial).number();
                let step = match is_ready {
                    true => dial.ready(token, driver),
                    false => dial.next(token, driver),
                };
                self.dialed(serial, (target, dial), step, driver);
            }
            other => entry.stage = other,
        }
    }

    fn connected(
        &mut self,
        serial: u64,
        (target, socket): (ForwardTarget, OwnedFd),
        driver: &mut Driver,
    ) {
        let Some(entry) = self.entries.get_mut(&serial) else {
            return;
        };
        let is_bound = entry.bind.is_empty();
        if self.settings.keep_alive {
            let _ = sys::socket::set_keepalive(&socket, true);
        }
        let socket = match SocketPair::new(socket) {
            Ok(socket) => socket,
            Err(error) => return self.fail(serial, Some((target, words(&error))), driver),
        };
        if !is_bound {
            return self.bind_agent(serial, socket, driver);
        }
        self.accept_and_join(serial, socket, driver);
    }

    /// Tells the peer that the connection is made.
    fn accept_and_join(&mut self, serial: u64, socket: SocketPair, driver: &mut Driver) {
        let Some(entry) = self.entries.get_mut(&serial) else {
            return;
        };
        let Some(channel) = entry.channel else {
            return;
        };
        match &entry.socks {
            Some(socks) => {
                let reply = socks.reply(SocksOutcome::Connected);
                let _ = driver
                    .connection()
                    .channel_send_slice(channel, Stream::Data, &reply);
            }
            None if !entry.is_accepted && driver.connection().accept_channel(channel).is_err() => {
                return self.fail(serial, None, driver);
            }
            None => {}
        }
        self.join(serial, socket, driver);
    }

    /// Joins the socket to the channel, which is open.
    fn join(&mut self, serial: u64, socket: SocketPair, driver: &mut Driver) {
        driver.set_timer(ForwardToken::GiveUp(serial).number(), None);
        let Some(entry) = self.entries.get_mut(&serial) else {
            return;
        };
        let Some(channel) = entry.channel else {
            return;
        };
        entry.stage = ForwardStage::Joined {
            source_ended: false,
            sink_ended: false,
        };
        let held = std::mem::take(&mut entry.held);
        let ended = entry.peer_ended;
        if driver.attach_socket(channel, socket).is_err() {
            self.end_both(serial, driver);
            return;
        }
        driver.feed_sink(channel, held.into(), ended);
    }

    /// Joins the accepted connection `socket` to its channel, which the peer has just confirmed.
    fn join_accepted(&mut self, serial: u64, socket: OpeningSocket, driver: &mut Driver) {
        let OpeningSocket {
            write,
            read,
            source_ended,
        } = socket;
        if let Some(read) = read {
            return self.join(serial, SocketPair { read, write }, driver);
        }
        let Some(entry) = self.entries.get_mut(&serial) else {
            return;
        };
        entry.stage = ForwardStage::Joined {
            source_ended,
            sink_ended: false,
        };
        if let Some(channel) = entry.channel
            && driver.attach_socket_sink(channel, write).is_err()
        {
            self.end_both(serial, driver);
        }
    }

    /// A connection cannot be made: refuses the channel, or answers the SOCKS request and closes it.
    fn fail(&mut self, serial: u64, why: Option<(ForwardTarget, String)>, driver: &mut Driver) {
        let Some(entry) = self.entries.get(&serial) else {
            return;
        };
        let text = why
            .as_ref()
            .map_or("open failed", |(_, text)| text.as_str());
        if let Some(channel) = entry.channel {
            let connection = driver.connection();
            let is_refused = entry.socks.is_none()
                && connection
                    .reject_channel(channel, open_failure::CONNECT_FAILED, text)
                    .is_ok();
            if !is_refused {
                if let Some(socks) = &entry.socks {
                    let reply = socks.reply(SocksOutcome::Unreachable);
                    let _ = connection.channel_send_slice(channel, Stream::Data, &reply);
                }
                // The channel is open, or the peer has closed it already.
                let _ = connection.channel_eof(channel);
                let _ = connection.channel_close(channel);
            }
        }
        if let Some((target, why)) = why {
            if let ForwardTarget::Tcp { host, .. } = &target {
                let name = (host.clone(), self.settings.family);
                self.resolver.forget(&name);
            }
            self.reports.push_back(match entry.bind.is_empty() {
                true => ForwardReport::ConnectFailed {
                    target,
                    why,
                    origin: entry.origin,
                },
                false => ForwardReport::AgentFailed { why },
            });
        }
        self.remove(serial, driver);
    }

    /// Forgets a connection; what it holds is closed.
    fn remove(&mut self, serial: u64, driver: &mut Driver) {
        driver.set_timer(ForwardToken::GiveUp(serial).number(), None);
        driver.set_timer(ForwardToken::NextAttempt(serial).number(), None);
        let Some(entry) = self.entries.remove(&serial) else {
            return;
        };
        self.count_closed(entry.origin, entry.channel, driver);
        if let Some(channel) = entry.channel {
            self.channels.remove(&channel);
            drop(driver.detach_source(channel, Stream::Data));
            drop(driver.detach_sink(channel, Stream::Data));
            drop(driver.detach_endpoint(channel));
            let _ = driver
                .connection()
                .channel_consumed(channel, entry.held.len());
        }
        if let Some(socket) = &entry.discarded {
            driver.unwatch(socket.as_fd());
        }
        self.release(serial, entry.stage, driver);
    }

    /// Ends what a stage waits for.
    fn release(&mut self, serial: u64, stage: ForwardStage, driver: &mut Driver) {
        match stage {
            ForwardStage::Lookup(_) => self.resolver.cancel(serial),
            ForwardStage::Dialing(_, mut dial) => dial.abandon(driver),
            ForwardStage::Asking(socket, _) | ForwardStage::Binding(socket, _) => {
                driver.unwatch(socket.read.as_fd());
            }
            ForwardStage::PeerAsks
            | ForwardStage::Opening(_)
            | ForwardStage::OpeningPort(_)
            | ForwardStage::Port
            | ForwardStage::Joined { .. } => {}
        }
    }

    fn gave_up(&mut self, serial: u64, driver: &mut Driver) {
        if self.owns_flow(serial) {
            let why = "Connection timed out".to_owned();
            return self.udp_looked_up(serial, Err(why), driver);
        }
        let Some(entry) = self.entries.get(&serial) else {
            return;
        };
        let why = match &entry.stage {
            ForwardStage::Lookup(target) | ForwardStage::Dialing(target, _) => {
                Some((target.clone(), "Connection timed out".to_owned()))
            }
            ForwardStage::Asking(..) | ForwardStage::Binding(..) | ForwardStage::PeerAsks => None,
            ForwardStage::Opening(_)
            | ForwardStage::OpeningPort(_)
            | ForwardStage::Port
            | ForwardStage::Joined { .. } => return,
        };
        self.fail(serial, why, driver);
    }
}

/// The system's error text without `(os error N)`.
fn words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::TimedOut => "Connection timed out".to_owned(),
        _ => {
            let text = error.to_string();
            text.split(" (os error")
                .next()
                .unwrap_or_default()
                .to_owned()
        }
    }
}
