//! Forwarding for the client (RFC 4254 §7, OpenSSH's PROTOCOL §2.4): connections to the targets of
//! `direct-tcpip` and `direct-streamlocal@openssh.com`, and listeners of `tcpip-forward` and
//! `streamlocal-forward@openssh.com`; datagrams to those of `direct-udp`, and listeners of
//! `udp-forward` (docs/PROTOCOL.md). All sockets are made by this process, as the user.
//!
//! [`permits`] decides; [`driver::forward`] moves the bytes. Tunnels (OpenSSH's PROTOCOL §2.3) are
//! the exception: the monitor decides and opens the device.

use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use config::server::{Gateway as GatewayPorts, ServerOptions};
use config::types::{AddressFamily, TcpKeepAlive};
use driver::forward::{
    ForwardReport, ForwardSettings, ForwardTarget, Forwards, Gateway, Listening, ListeningSockets,
    Opens, TunnelRequest,
};
use driver::{Driver, Notice};
use privsep::{Message, TunnelGranted, TunnelOpen, TunnelRefused};
use proto::ChannelId;
use sys::socket::Family;
use sys::tun::TunKind;
use wire::message::open_failure;
use wire::names;
use wire::{DecodeError, Put, Reader};

use super::agent::{self, AgentSocket};
use super::context::Context;
use super::permits;
use super::takeover::{
    self, Liveness, LivenessProbe, PortClaim, PortDecision, PortPlace, Rendezvous, SILENCE_MS,
};
use super::x11::{self, X11Display, X11Request};

/// Maximum listeners for one client.
const MAX_LISTENERS: usize = 4096;
/// Longest originator of a denied connection in a line of the log, in bytes.
const MAX_LOGGED_BYTES: usize = 100;
/// Ports below this one are for root only.
const FIRST_FREE_PORT: u16 = 1024;

/// All forwardings of a connection.
pub(super) struct Forwarding {
    forwards: Forwards,
    listeners: Vec<ClientListener>,
    /// Asks the client for a sign of life when a new connection wants one of its ports.
    probe: LivenessProbe,
    /// A request for a port that an older connection holds.
    claim: Option<PortClaim>,
    /// The socket for the client's agent.
    agent: Option<AgentSocket>,
    /// The user whose stable name leads to the newest agent.
    agent_link_of: Option<u32>,
}

/// A listener that the client requested.
struct ClientListener {
    /// The request, with the port.
    listening: Listening,
    /// Its number in `forwards`.
    number: u64,
    rendezvous: Option<Rendezvous>,
}

/// The line of the log about a denied request to connect, in OpenSSH's words: they tell whether such
/// forwarding is off, or only this target is not permitted.
fn denied_line(target: &ForwardTarget, asked: (&str, &[u8]), context: &Context<'_>) -> String {
    let (forwarding, restrictions) = (&context.options.forwarding, &context.grant.restrictions);
    let is_off = !permits::may_open_any(forwarding, restrictions, target);
    let from = context.peer();
    match target {
        ForwardTarget::Tcp { host, port } if is_off => format!(
            "refused local port forward: originator {}, target {host} port {port}",
            originator(asked)
        ),
        ForwardTarget::Unix(path) if is_off => format!(
            "refused streamlocal port forward: originator {}, target {}",
            originator(asked),
            path.display()
        ),
        ForwardTarget::Tcp { host, port } => format!(
            "Received request from {from} to connect to host {host} port {port}, but the request was denied."
        ),
        ForwardTarget::Udp { host, port } => format!(
            "Received request from {from} to send datagrams to host {host} port {port}, but the request was denied."
        ),
        ForwardTarget::Unix(path) => format!(
            "Received request to connect to path {}, but the request was denied.",
            path.display()
        ),
    }
}

/// Where the client says a connection comes from: `ADDRESS port PORT`.
fn originator((kind, fields): (&str, &[u8])) -> String {
    let read = || {
        let mut reader = Reader::new(fields);
        reader.string()?;
        match kind {
            names::CHANNEL_DIRECT_STREAMLOCAL => {}
            _ => drop(reader.u32()?),
        }
        Ok::<_, DecodeError>((reader.string()?, reader.u32()?))
    };
    read().map_or_else(
        |_| "UNKNOWN".to_owned(),
        |(host, port)| {
            let host = escape::escape_at_most(host, escape::Style::Ascii, MAX_LOGGED_BYTES);
            format!("{host} port {port}")
        },
    )
}

/// AddressFamily, for listeners and targets alike.
fn family(options: &ServerOptions) -> Family {
    match options.connection.address_family {
        AddressFamily::Any => Family::Any,
        AddressFamily::Inet => Family::V4,
        AddressFamily::Inet6 => Family::V6,
    }
}

impl Forwarding {
    pub(super) fn new(options: &ServerOptions) -> Self {
        Self {
            forwards: Forwards::new(ForwardSettings {
                keep_alive: options.connection.tcp_keep_alive == TcpKeepAlive::All,
                family: family(options),
                // No request for SOCKS comes from a client.
                permits: Box::new(|_| false),
            }),
            listeners: Vec::new(),
            probe: LivenessProbe::default(),
            claim: None,
            agent: None,
            agent_link_of: None,
        }
    }

    /// Handles a notice of a forwarded connection; returns any other one.
    pub(super) fn handle(
        &mut self,
        notice: Notice,
        driver: &mut Driver,
        context: &Context<'_>,
    ) -> Option<Notice> {
        let other = self.forwards.handle(notice, driver);
        if other.is_none() {
            self.report(context);
        }
        other
    }

    fn report(&mut self, context: &Context<'_>) {
        while let Some(report) = self.forwards.next_report() {
            match report {
                ForwardReport::OpenRefused {
                    channel,
                    description,
                    ..
                } => context.log.debug(&format!(
                    "channel {}: open failed: {description}",
                    channel.0
                )),
                ForwardReport::ConnectFailed { target, why, .. } => match target {
                    ForwardTarget::Tcp { host, port } => context
                        .log
                        .info(&format!("connect_to {host} port {port}: failed: {why}")),
                    ForwardTarget::Unix(path) => context
                        .log
                        .info(&format!("connect_to {}: failed: {why}", path.display())),
                    target @ ForwardTarget::Udp { .. } => context
                        .log
                        .info(&format!("connect_to {target}: failed: {why}")),
                },
                ForwardReport::AcceptFailed(error) => context
                    .log
                    .error(&format!("accept for a forwarding: {error}; trying again")),
                ForwardReport::NoChannel(error) => context
                    .log
                    .info(&format!("a forwarded connection was closed: {error}")),
                ForwardReport::Idle(channel, limit_ms) => {
                    context
                        .log
                        .verbose(&proto::channel::idle_text(channel, limit_ms));
                }
                // Targets of SOCKS, agents and tunnels that are opened are the client's.
                ForwardReport::TargetForbidden(_)
                | ForwardReport::UdpUnsupported
                | ForwardReport::AgentFailed { .. }
                | ForwardReport::FirstPacketRefused(_)
                | ForwardReport::TunnelOpened(_) => {}
            }
        }
    }

    /// Answers a request to connect, now or when the connection is made.
    pub(super) fn open(
        &mut self,
        channel: ChannelId,
        kind: &str,
        fields: &[u8],
        driver: &mut Driver,
        context: &Context<'_>,
    ) {
        let denied = match ForwardTarget::decode_first(kind, fields) {
            Ok((target, records)) => {
                let (options, restrictions) = (&context.options, &context.grant.restrictions);
                let is_rooted = options.session.sftp_root.is_some();
                if permits::may_open(&options.forwarding, restrictions, is_rooted, &target) {
                    allow_open_files();
                    let forwards = &mut self.forwards;
                    match target {
                        ForwardTarget::Udp { host, port } => {
                            forwards.connect_udp(channel, (host, port), records, None, driver);
                        }
                        target => forwards.connect(channel, target, None, driver),
                    }
                    self.report(context);
                    return;
                }
                denied_line(&target, (kind, fields), context)
            }
            Err(_) => "Received request to connect to an invalid host or port; denied.".to_owned(),
        };
        context.log.info(&denied);
        let reason = open_failure::ADMINISTRATIVELY_PROHIBITED;
        let _ = driver
            .connection()
            .reject_channel(channel, reason, "open failed");
    }

    /// Connects a tunnel to the device that the monitor opens for the user, if it permits one.
    pub(super) fn open_tunnel(
        &mut self,
        channel: ChannelId,
        kind: &str,
        fields: &[u8],
        driver: &mut Driver,
        context: &Context<'_>,
    ) {
        let opened = TunnelRequest::decode(kind, fields)
            .map_err(|error| error.to_string())
            .and_then(|request| Ok((request, open_device(&request, context)?)));
        match opened {
            Ok((request, (device, interface))) => {
                context
                    .log
                    .debug(&format!("Tunnel forwarding using interface {interface}"));
                context.tunnels.borrow_mut().push(interface);
                self.forwards
                    .accept_tunnel(channel, &request, device, driver);
            }
            Err(reason) => {
                context.log.info(&format!("tunnel refused: {reason}"));
                let reason = open_failure::CONNECT_FAILED;
                let _ = driver
                    .connection()
                    .reject_channel(channel, reason, "open failed");
            }
        }
    }

    /// Carries out a request to listen or to stop listening.
    pub(super) fn request(
        &mut self,
        name: &str,
        fields: &[u8],
        want_reply: bool,
        driver: &mut Driver,
        context: &Context<'_>,
    ) {
        let is_cancel = matches!(
            name,
            names::GLOBAL_CANCEL_TCPIP_FORWARD
                | names::GLOBAL_CANCEL_STREAMLOCAL_FORWARD
                | names::GLOBAL_CANCEL_UDP_FORWARD
        );
        let answer = match Listening::decode_request(name, fields) {
            Err(_) => {
                context
                    .log
                    .info(&format!("invalid {name} request; denied."));
                None
            }
            Ok(listening) if is_cancel => {
                let is_cancelled =
                    self.cancel_claim(&listening, driver) || self.cancel(&listening, driver);
                is_cancelled.then(Vec::new)
            }
            Ok(listening) => return self.listen(listening, want_reply, driver, context),
        };
        if want_reply {
            let _ = driver.connection().global_reply(answer.as_deref());
        }
    }

    fn cancel(&mut self, listening: &Listening, driver: &mut Driver) -> bool {
        let mut listeners = self.listeners.iter();
        let at = listeners.position(|own| own.listening == *listening);
        at.is_some_and(|at| self.remove(at, driver).is_some())
    }

    /// Gives up a request to listen whose port an older connection still holds. Only one without a
    /// reply can be cancelled: nothing is read before the other replies.
    fn cancel_claim(&mut self, listening: &Listening, driver: &mut Driver) -> bool {
        let claim = self.claim.take_if(|claim| claim.listening == *listening);
        claim.map(|claim| claim.close(driver)).is_some()
    }

    /// Ends the listener at this place of the list.
    fn remove(&mut self, at: usize, driver: &mut Driver) -> Option<Listening> {
        let listener = self.listeners.swap_remove(at);
        if let Some(rendezvous) = listener.rendezvous {
            rendezvous.close(driver);
        }
        let ended = self.forwards.cancel(listener.number, driver);
        ended.then_some(listener.listening)
    }

    /// Answers a request to listen, unless an older connection has to decide first.
    fn listen(
        &mut self,
        listening: Listening,
        want_reply: bool,
        driver: &mut Driver,
        context: &Context<'_>,
    ) {
        let answer = match self.bind(&listening, want_reply, context) {
            Ok(sockets) => self.serve(sockets, listening, driver, context),
            Err(BindError::Denied) => None,
            Err(BindError::Failed(port, error)) => {
                if error.kind() == ErrorKind::AddrInUse
                    && self.claim.is_none()
                    && let Some(wanted) = port_place(&listening, context)
                    && !self.has_place(&wanted, context)
                {
                    let grant = &context.grant;
                    self.claim =
                        PortClaim::make(listening.clone(), &wanted, want_reply, grant, driver);
                    if self.claim.is_some() {
                        return;
                    }
                }
                log_bind_error(&error, port, context);
                None
            }
        };
        if want_reply {
            let _ = driver.connection().global_reply(answer.as_deref());
        }
    }

    /// True if this connection listens on the port for connections, at the same addresses.
    fn has_place(&self, wanted: &PortPlace, context: &Context<'_>) -> bool {
        let mut listeners = self.listeners.iter();
        listeners.any(|own| port_place(&own.listening, context).as_ref() == Some(wanted))
    }

    /// Checks the request and makes its sockets.
    fn bind(
        &self,
        listening: &Listening,
        want_reply: bool,
        context: &Context<'_>,
    ) -> Result<ListeningSockets, BindError> {
        let (options, grant) = (&context.options, &context.grant);
        let is_rooted = options.session.sftp_root.is_some();
        let restrictions = &grant.restrictions;
        if !permits::may_listen(&options.forwarding, restrictions, is_rooted, listening) {
            let from = context.peer();
            context.log.info(&match listening {
                Listening::Tcp { address, port } => format!(
                    "Received request from {from} to remote forward to host {address} port {port}, but the request was denied."
                ),
                Listening::Udp { address, port } => format!(
                    "Received request from {from} to remote forward datagrams to host {address} port {port}, but the request was denied."
                ),
                Listening::Unix(path) => format!(
                    "Received request from {from} to remote forward to path \"{}\", but the request was denied.",
                    path.display()
                ),
            });
            return Err(BindError::Denied);
        }
        if self.listeners.len() >= MAX_LISTENERS {
            context
                .log
                .info("too many listeners for one client; denied.");
            return Err(BindError::Denied);
        }
        allow_open_files();
        match listening {
            Listening::Tcp { address, port } | Listening::Udp { address, port } => {
                let port = *port;
                let is_privileged = (1..FIRST_FREE_PORT).contains(&port) && grant.uid != 0;
                if is_privileged || (port == 0 && !want_reply) {
                    context.log.info(&format!(
                        "listening on port {port} is not permitted; denied."
                    ));
                    return Err(BindError::Denied);
                }
                let is_udp = matches!(listening, Listening::Udp { .. });
                bind_port(is_udp, address, port, context)
                    .map_err(|error| BindError::Failed(port, error))
            }
            Listening::Unix(path) => bind_unix(path, context).ok_or(BindError::Denied),
        }
    }

    /// Accepts connections; returns the fields of the answer, or `None`, which refuses.
    fn serve(
        &mut self,
        sockets: ListeningSockets,
        mut listening: Listening,
        driver: &mut Driver,
        context: &Context<'_>,
    ) -> Option<Vec<u8>> {
        let mut answer = Vec::new();
        if let Listening::Tcp { port, .. } | Listening::Udp { port, .. } = &mut listening {
            if *port == 0 {
                answer.put_u32(u32::from(sockets.port));
            }
            *port = sockets.port;
        }
        let opens = Opens::Forwarded(listening.clone());
        match self.forwards.listen(sockets, opens, driver) {
            Ok(number) => {
                let rendezvous = port_place(&listening, context)
                    .and_then(|port| Rendezvous::open(&context.grant, &port, number, driver));
                self.listeners.push(ClientListener {
                    listening,
                    number,
                    rendezvous,
                });
                Some(answer)
            }
            Err(error) => {
                context.log.error(&format!("listening: {error}"));
                None
            }
        }
    }

    /// A new connection of the same user and key wants the port of this listener.
    pub(super) fn port_wanted(&mut self, number: u64, driver: &mut Driver, context: &Context<'_>) {
        let mut listeners = self.listeners.iter_mut();
        let Some(listener) = listeners.find(|listener| listener.number == number) else {
            return;
        };
        let accepted = listener.rendezvous.as_ref();
        match accepted.map(|rendezvous| rendezvous.accept(&context.grant)) {
            Some(Ok(Some(claimant))) => self.probe.ask(claimant, number, driver),
            Some(Ok(None)) | None => {}
            Some(Err(error)) => {
                context.log.debug(&format!("rendezvous of a port: {error}"));
                // It would be ready again at once.
                if let Some(rendezvous) = listener.rendezvous.take() {
                    rendezvous.close(driver);
                }
            }
        }
    }

    /// Looks for a sign of life of the client; without one, ports that are wanted become free.
    /// Returns true if any did.
    pub(super) fn look(&mut self, driver: &mut Driver, context: &Context<'_>) -> bool {
        let Some((verdict, claimants)) = self.probe.look(driver) else {
            return false;
        };
        let mut has_given = false;
        for (claimant, number) in claimants {
            if verdict == Liveness::Lives {
                takeover::keep(&claimant);
                continue;
            }
            let mut listeners = self.listeners.iter();
            let at = listeners.position(|listener| listener.number == number);
            if let Some(Listening::Tcp { port, .. }) = at.and_then(|at| self.remove(at, driver)) {
                context.log.info(&format!(
                    "port {port} passes to a new connection of the same key: {} has not answered for {} s",
                    context.whose(),
                    SILENCE_MS / 1000
                ));
                has_given = true;
            }
        }
        has_given
    }

    /// Carries out or refuses a request whose port an older connection held.
    pub(super) fn claim_decided(&mut self, driver: &mut Driver, context: &Context<'_>) {
        let Some(claim) = self.claim.take() else {
            return;
        };
        let is_free = match claim.decision(driver.now()) {
            PortDecision::Pending => {
                self.claim = Some(claim);
                return;
            }
            PortDecision::Free => true,
            PortDecision::Kept => false,
        };
        let want_reply = claim.want_reply;
        let listening = claim.close(driver);
        let answer = match self.bind(&listening, want_reply, context) {
            Ok(sockets) => {
                if is_free {
                    let text = format!(
                        "port {} taken back from an earlier connection of the same key, whose client does not answer",
                        sockets.port
                    );
                    context.log.info(&text);
                    let _ = driver.connection().tell_peer(&text);
                }
                self.serve(sockets, listening, driver, context)
            }
            Err(BindError::Denied) => None,
            Err(BindError::Failed(port, error)) => {
                log_bind_error(&error, port, context);
                None
            }
        };
        if want_reply {
            let _ = driver.connection().global_reply(answer.as_deref());
        }
    }

    /// Listens for the user's programs on behalf of the client's agent; one socket serves all
    /// sessions of a connection. `standard`: see [`Opens::Agent`]. False refuses.
    pub(super) fn listen_for_agent(
        &mut self,
        standard: bool,
        driver: &mut Driver,
        context: &Context<'_>,
    ) -> bool {
        let (options, grant) = (&context.options, &context.grant);
        let is_rooted = options.session.sftp_root.is_some();
        if !permits::may_forward_agent(&options.forwarding, &grant.restrictions, is_rooted) {
            context.log.debug("agent forwarding disabled");
            return false;
        }
        if self.agent.is_some() {
            context
                .log
                .debug("authentication forwarding requested twice.");
            return false;
        }
        let made = agent::listen(&options.forwarding.agent_socket_path, grant);
        let listening = made.and_then(|(sockets, socket)| {
            let opens = Opens::Agent { standard };
            match self.forwards.listen(sockets, opens, driver) {
                Ok(_) => Ok(socket),
                Err(error) => {
                    socket.remove_folder();
                    Err(error)
                }
            }
        });
        match listening {
            Ok(socket) => {
                let path = socket.path.clone().into_os_string();
                context.agent_socket.get_or_init(|| path.into_vec());
                if options.forwarding.agent_socket_link && grant.forced_command.is_none() {
                    agent::link_newest(&socket, grant.uid, &context.log);
                    self.agent_link_of = Some(grant.uid);
                }
                self.agent = Some(socket);
                true
            }
            Err(error) => {
                context.log.error(&format!(
                    "Agent forwarding disabled: couldn't create listener socket: {error}"
                ));
                false
            }
        }
    }

    /// Listens for X programs of a session; `None` refuses.
    pub(super) fn listen_for_x11(
        &mut self,
        request: &X11Request,
        driver: &mut Driver,
        context: &Context<'_>,
    ) -> Option<X11Display> {
        let (options, grant) = (&context.options, &context.grant);
        let is_rooted = options.session.sftp_root.is_some();
        if !permits::may_forward_x11(&options.forwarding, &grant.restrictions, is_rooted) {
            context.log.debug("X11 forwarding disabled");
            return None;
        }
        if !request.is_plain() {
            context.log.error("Invalid X11 forwarding data");
            return None;
        }
        allow_open_files();
        let opens = Opens::X11 {
            single_connection: request.single_connection,
        };
        let made = x11::listen(&options.forwarding, family(options));
        let listening = made.and_then(|(sockets, number)| {
            let listener = self.forwards.listen(sockets, opens, driver)?;
            let is_local = options.forwarding.x11_use_localhost;
            Ok(X11Display::new(request, number, is_local, listener))
        });
        listening
            .inspect_err(|error| {
                context.log.error(&format!(
                    "Failed to allocate internet-domain X11 display socket: {error}"
                ));
            })
            .ok()
    }

    /// Ends the listener of a session's display.
    pub(super) fn close_display(&mut self, listener: u64, driver: &mut Driver) {
        self.forwards.cancel(listener, driver);
    }

    /// Ends all listeners.
    pub(super) fn close(&mut self, driver: &mut Driver) {
        for listener in std::mem::take(&mut self.listeners) {
            if let Some(rendezvous) = listener.rendezvous {
                rendezvous.close(driver);
            }
        }
        self.forwards.cancel_all(driver);
        if let Some(socket) = self.agent.take() {
            if let Some(uid) = self.agent_link_of.take() {
                agent::unlink(&socket, uid);
            }
            socket.remove_folder();
        }
    }
}

/// Why a listener could not be made.
enum BindError {
    /// Logged already.
    Denied,
    /// The port, and the system's error.
    Failed(u16, io::Error),
}

fn gateway(context: &Context<'_>) -> Gateway {
    match context.options.forwarding.gateway_ports {
        GatewayPorts::No => Gateway::Loopback,
        GatewayPorts::Yes => Gateway::Everywhere,
        GatewayPorts::ClientSpecified => Gateway::AsRequested,
    }
}

/// The place of a listener for connections.
fn port_place(listening: &Listening, context: &Context<'_>) -> Option<PortPlace> {
    match listening {
        Listening::Tcp { address, port } => Some((gateway(context).place(Some(address)), *port)),
        Listening::Udp { .. } | Listening::Unix(_) => None,
    }
}

/// Listens on a port of TCP or UDP.
fn bind_port(
    is_udp: bool,
    address: &str,
    port: u16,
    context: &Context<'_>,
) -> io::Result<ListeningSockets> {
    let gateway = gateway(context);
    let failed = |address: std::net::SocketAddr, error: &io::Error| {
        let (ip, port) = (address.ip(), address.port());
        context.log.verbose(&format!("bind [{ip}]:{port}: {error}"));
    };
    let family = family(&context.options);
    ListeningSockets::on_port(Some(address), (port, is_udp), gateway, family, failed)
}

fn log_bind_error(error: &io::Error, port: u16, context: &Context<'_>) {
    context
        .log
        .error(&format!("cannot listen to port {port}: {error}"));
}

/// Each connection needs two descriptors. The user's commands get the limit that this process
/// started with.
fn allow_open_files() {
    // Without it, fewer connections are possible at a time.
    let _ = sys::process::raise_open_files();
}

/// Returns the device and the name of its interface; the error is for the log.
fn open_device(
    request: &TunnelRequest,
    context: &Context<'_>,
) -> Result<(OwnedFd, String), String> {
    let asked = TunnelOpen {
        ethernet: request.kind == TunKind::Ethernet,
        unit: request.unit,
        with_header: request.with_segments,
    };
    let (frame, descriptors) = context
        .rpc
        .ask_frame(&asked)
        .map_err(|error| error.to_string())?;
    if frame.number == TunnelRefused::NUMBER {
        let refused = frame.decode::<TunnelRefused>();
        return Err(refused.map_err(|error| error.to_string())?.reason);
    }
    let granted: TunnelGranted = frame.decode().map_err(|error| error.to_string())?;
    let device = descriptors.into_iter().next();
    let device = device.ok_or("a tunnel device came without its descriptor")?;
    Ok((device, granted.interface))
}

fn bind_unix(path: &Path, context: &Context<'_>) -> Option<ListeningSockets> {
    let options = &context.options;
    let (mask, unlink) = (
        options.forwarding.stream_local_bind_mask,
        options.forwarding.stream_local_bind_unlink,
    );
    ListeningSockets::unix(path, mask, unlink)
        .inspect_err(|error| {
            let path = path.display();
            context
                .log
                .error(&format!("cannot bind to path {path}: {error}"));
        })
        .ok()
}
