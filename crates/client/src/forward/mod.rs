//! Forwardings of a session: `LocalForward`, `DynamicForward` and `RemoteForward` with their flags
//! `-L`, `-D` and `-R`; of the agent (`-A`) and the X server (`-X`); and the tunnel of `-w`.
//!
//! [`SessionForwards::prepare`] listens, before the program goes to the background;
//! [`SessionForwards::start`] sends the requests for remote ones; `change` adds and ends forwardings
//! afterwards. The connections themselves are
//! [`driver::forward`]'s; messages equal those of OpenSSH.

pub(crate) mod agent;
mod change;
mod foreign;
mod remote;
mod report;
mod tunnel;
mod udp;
pub(crate) mod x11;

use std::path::Path;

use config::client::{ClientOptions, Tunnel};
use config::forward::{ForwardListen, ForwardSpec, ForwardTo, UDP_PREFIX};
use config::permit::PortKind;
use config::types::TcpKeepAlive;
use driver::forward::{ForwardSettings, ForwardTarget, Forwards, Gateway, ListeningSockets, Opens};
use driver::{Driver, Notice};
use proto::{ChannelId, Connection, Event};
use sys::socket::Family;

use crate::connect::{family, plain_reason};
use crate::error::ClientError;
use crate::log::{debug1, error, verbose};
use crate::plan::{Plan, What};
use crate::text::one_line;
use agent::ForwardedAgent;
pub(crate) use change::{Added, ForwardStatus};
use foreign::Foreign;
pub(crate) use foreign::{ForeignListener, ForeignOpen};
pub(crate) use remote::RemoteAnswer;
use remote::{RemoteChannel, Remotes};
pub(crate) use report::open_reason;
use tunnel::SessionTunnel;
use x11::ForwardedX11;

/// All forwardings of a session.
pub struct SessionForwards {
    forwards: Forwards,
    settings: ListenSettings,
    /// Listeners that the driver does not watch yet.
    prepared: Vec<(ListeningSockets, ForwardSpec)>,
    locals: Vec<LocalForward>,
    remotes: Remotes,
    /// Channels of the server before [`Self::start`], with the numbers of their listeners; none afterwards. The table of channels bounds
    /// their number.
    opened_before_start: Option<Vec<RemoteChannel>>,
    agent: Option<ForwardedAgent>,
    x11: Option<ForwardedX11>,
    tunnel: Option<SessionTunnel>,
    foreign: Foreign,
}

/// A local forwarding.
struct LocalForward {
    spec: ForwardSpec,
    /// The number of its listener.
    number: u64,
    /// False after its listener was closed.
    is_open: bool,
}

/// How local forwardings listen.
#[derive(Clone, Copy)]
struct ListenSettings {
    gateway: Gateway,
    family: Family,
    unlink: bool,
    mask: u32,
}

impl std::fmt::Debug for SessionForwards {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.forwards.fmt(f)
    }
}

/// The target of a channel to `to`; `None` if each connection names its own.
pub(crate) fn target(to: &ForwardTo) -> Option<ForwardTarget> {
    match to {
        ForwardTo::Tcp { host, port } => Some(ForwardTarget::Tcp {
            host: host.clone(),
            port: *port,
        }),
        ForwardTo::Unix(path) => Some(ForwardTarget::Unix(path.into())),
        ForwardTo::Udp { host, port } => Some(ForwardTarget::Udp {
            host: host.clone(),
            port: *port,
        }),
        ForwardTo::Socks => None,
    }
}

impl SessionForwards {
    /// True if the options ask for a forwarding beside the plan's channel.
    #[must_use]
    pub fn are_wanted(options: &ClientOptions, plan: &Plan) -> bool {
        let lists = [
            &options.forwarding.local_forwards,
            &options.forwarding.dynamic_forwards,
            &options.forwarding.remote_forwards,
        ];
        let is_any =
            lists.iter().any(|list| !list.is_empty()) || options.forwarding.tunnel != Tunnel::No;
        is_any && !matches!(plan.what, What::Forward(_))
    }

    /// Listens for local forwardings, and opens the device of a tunnel in the form that the server
    /// understands.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if one cannot be set up and `ExitOnForwardFailure` is set.
    pub fn prepare(options: &ClientOptions, connection: &Connection) -> Result<Self, ClientError> {
        let locals: Vec<&ForwardSpec> = options
            .forwarding
            .local_forwards
            .iter()
            .chain(&options.forwarding.dynamic_forwards)
            .collect();
        let settings = ListenSettings::new(options);
        let mut prepared = Vec::new();
        for spec in &locals {
            debug1!(
                "Local connections to {} forwarded to remote address {}",
                one_line(&shown_listener(&spec.listen, options)),
                one_line(&spec.to.to_string())
            );
            if !udp::is_possible(spec, connection) {
                continue;
            }
            if let Some(sockets) = settings.listen(&spec.listen) {
                prepared.push((sockets, ForwardSpec::clone(spec)));
            }
        }
        if prepared.len() < locals.len() {
            let text = "Could not request local forwarding.";
            if options.forwarding.exit_on_forward_failure {
                close_unwatched(prepared);
                return Err(ClientError::Refused(text.to_owned()));
            }
            if prepared.is_empty() {
                error!("{text}");
            }
        }
        let tunnel = match SessionTunnel::prepare(options, connection) {
            Ok(tunnel) => tunnel,
            Err(error) => {
                close_unwatched(prepared);
                return Err(error);
            }
        };
        let mut all = Self {
            prepared,
            remotes: Remotes::new(options.forwarding.exit_on_forward_failure),
            tunnel,
            ..Self::without_listeners(options)
        };
        for spec in &options.forwarding.remote_forwards {
            if udp::is_possible(spec, connection) {
                all.remotes.add(spec, &mut all.forwards);
            } else if all.remotes.must_succeed() {
                close_unwatched(all.prepared);
                return Err(ClientError::Refused(udp::NOT_REQUESTED.to_owned()));
            }
        }
        Ok(all)
    }

    /// No forwardings yet.
    #[must_use]
    pub fn without_listeners(options: &ClientOptions) -> Self {
        let list = options.forwarding.permit_remote_open.clone();
        let settings = ListenSettings::new(options);
        Self {
            forwards: Forwards::new(ForwardSettings {
                keep_alive: options.connection.tcp_keep_alive == TcpKeepAlive::All,
                family: settings.family,
                permits: Box::new(move |target| match target {
                    ForwardTarget::Tcp { host, port } => list.opens(PortKind::Tcp, host, *port),
                    // A request names neither.
                    ForwardTarget::Unix(_) | ForwardTarget::Udp { .. } => list.is_any(),
                }),
            }),
            settings,
            prepared: Vec::new(),
            locals: Vec::new(),
            remotes: Remotes::new(false),
            agent: None,
            x11: None,
            opened_before_start: Some(Vec::new()),
            tunnel: None,
            foreign: Foreign::default(),
        }
    }

    /// True if the program may go to the background only after the server's answers.
    #[must_use]
    pub fn defers_background(&self) -> bool {
        let awaits_tunnel = self
            .tunnel
            .as_ref()
            .is_some_and(SessionTunnel::awaits_answer);
        self.remotes.must_succeed() && (self.remotes.awaits_answers() || awaits_tunnel)
    }

    /// Counts on the server's listeners before it has answered.
    pub(crate) fn presume_answers(&mut self) {
        self.remotes.presume();
    }

    /// Name of the tunnel's interface on this machine.
    #[must_use]
    pub fn tunnel_interface(&self) -> Option<&str> {
        self.tunnel.as_ref().map(SessionTunnel::interface)
    }

    /// Requests the remote forwardings and the tunnel.
    ///
    /// # Errors
    /// Those of a connection before its login.
    pub fn request(&mut self, driver: &mut Driver) -> Result<(), ClientError> {
        self.remotes.request(driver)?;
        match &mut self.tunnel {
            Some(tunnel) => tunnel.request(&mut self.forwards, driver),
            None => Ok(()),
        }
    }

    /// Forwards connections from now on: accepts local ones, and connects those that the server has
    /// opened since [`Self::request`].
    ///
    /// # Errors
    /// Those of the system.
    pub fn start(&mut self, driver: &mut Driver) -> Result<(), ClientError> {
        // Each connection needs two descriptors; with fewer, listeners pause sooner.
        let _ = sys::process::raise_open_files();
        for (sockets, spec) in std::mem::take(&mut self.prepared) {
            self.watch(sockets, spec, driver)?;
        }
        for opened in self.opened_before_start.take().unwrap_or_default() {
            self.connect(opened, driver);
        }
        self.report()
    }

    /// Accepts the connections of a local forwarding from now on.
    fn watch(
        &mut self,
        sockets: ListeningSockets,
        spec: ForwardSpec,
        driver: &mut Driver,
    ) -> Result<(), ClientError> {
        let opens = target(&spec.to).map_or(Opens::Socks, Opens::Direct);
        let listening = self.forwards.listen(sockets, opens, driver);
        let number = listening.map_err(ClientError::system("listen"))?;
        self.forwards.count(number);
        let local = LocalForward {
            spec,
            number,
            is_open: true,
        };
        match self.locals.iter_mut().find(|local| !local.is_open) {
            Some(ended) => {
                self.forwards.count_no_more(ended.number);
                *ended = local;
            }
            None => self.locals.push(local),
        }
        Ok(())
    }

    /// True if a forwarded connection is open.
    #[must_use]
    pub fn has_connections(&self) -> bool {
        self.forwards.has_connections()
    }

    /// Number and description of each open channel.
    pub fn lines(&self) -> impl Iterator<Item = (ChannelId, &str)> {
        self.forwards.lines()
    }

    /// Handles a notice of a forwarding; returns any other one.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if a remote forwarding or the tunnel failed and `ExitOnForwardFailure` is set.
    pub fn handle(
        &mut self,
        notice: Notice,
        driver: &mut Driver,
    ) -> Result<Option<Notice>, ClientError> {
        let other = self.forwards.handle(notice, driver);
        self.report()?;
        match other {
            Some(Notice::Event(Event::GlobalReply(fields))) => {
                if let Some(answer) = self.remotes.answered(fields)? {
                    self.foreign.answers.push_back(answer);
                }
                Ok(None)
            }
            Some(Notice::Event(Event::ChannelOpenRequest {
                channel,
                kind,
                fields,
            })) if remote::is_forwarded(&kind) => {
                self.opened_by_server(channel, &kind, &fields, driver)?;
                Ok(None)
            }
            Some(Notice::Event(Event::ChannelOpenRequest { channel, kind, .. }))
                if agent::is_agent(&kind) && self.expects_agent() =>
            {
                self.agent_opened(channel, driver)?;
                Ok(None)
            }
            Some(Notice::Event(Event::ChannelOpenRequest { channel, kind, .. }))
                if x11::is_x11(&kind) && self.expects_x11() =>
            {
                self.x11_opened(channel, driver);
                Ok(None)
            }
            other => Ok(other),
        }
    }

    /// Ends all listeners; sockets with a path are removed.
    pub fn close(&mut self, driver: &mut Driver) {
        self.report_totals(driver);
        close_unwatched(std::mem::take(&mut self.prepared));
        self.forwards.cancel_all(driver);
    }
}

fn close_unwatched(prepared: Vec<(ListeningSockets, ForwardSpec)>) {
    for (sockets, _) in prepared {
        sockets.discard();
    }
}

/// The listener for messages, in OpenSSH's words.
fn shown_listener(listen: &ForwardListen, options: &ClientOptions) -> String {
    match listen {
        ForwardListen::Unix(path) => path.clone(),
        ForwardListen::Tcp { address, port } => {
            let any = match options.forwarding.gateway_ports {
                true => "*",
                false => "LOCALHOST",
            };
            format!("{}:{port}", address.as_deref().unwrap_or(any))
        }
        ForwardListen::Udp { address, port } => {
            let (address, port) = (address.clone(), *port);
            let plain = shown_listener(&ForwardListen::Tcp { address, port }, options);
            format!("{UDP_PREFIX}{plain}")
        }
    }
}

impl ListenSettings {
    fn new(options: &ClientOptions) -> Self {
        Self {
            gateway: match options.forwarding.gateway_ports {
                true => Gateway::OpenClient,
                false => Gateway::Client,
            },
            family: family(&options.connection),
            unlink: options.forwarding.stream_local_bind_unlink,
            mask: options.forwarding.stream_local_bind_mask,
        }
    }

    /// True if both mean the same listener.
    fn is_same(&self, one: &ForwardListen, other: &ForwardListen) -> bool {
        match (one, other) {
            (
                ForwardListen::Tcp { address, port },
                ForwardListen::Tcp {
                    address: other,
                    port: other_port,
                },
            )
            | (
                ForwardListen::Udp { address, port },
                ForwardListen::Udp {
                    address: other,
                    port: other_port,
                },
            ) => port == other_port && self.gateway.is_same(address.as_deref(), other.as_deref()),
            _ => one == other,
        }
    }

    /// Listens; reports why if it cannot.
    fn listen(&self, listen: &ForwardListen) -> Option<ListeningSockets> {
        match listen {
            ForwardListen::Unix(path) => {
                ListeningSockets::unix(Path::new(path), self.mask, self.unlink)
                    .inspect_err(|reason| {
                        error!(
                            "unix_listener: cannot bind to path {}: {}",
                            one_line(path),
                            plain_reason(reason)
                        );
                    })
                    .ok()
            }
            ForwardListen::Tcp { address, port } => {
                self.listen_port(false, address.as_deref(), *port)
            }
            ForwardListen::Udp { address, port } => {
                self.listen_port(true, address.as_deref(), *port)
            }
        }
    }

    fn listen_port(
        &self,
        is_udp: bool,
        address: Option<&str>,
        port: u16,
    ) -> Option<ListeningSockets> {
        let mut failures = Vec::new();
        let failed = |address, reason: &std::io::Error| {
            let is_taken = reason.kind() == std::io::ErrorKind::AddrInUse;
            failures.push((address, is_taken, plain_reason(reason)));
        };
        let place = (port, is_udp);
        let sockets = ListeningSockets::on_port(address, place, self.gateway, self.family, failed);
        let is_lost = sockets.is_err();
        for (address, is_taken, reason) in &failures {
            let text = format!("bind [{}]:{}: {reason}", address.ip(), address.port());
            // Connections to this address reach another program; without IPv6 the other address is enough.
            match is_lost || *is_taken {
                true => error!("{text}"),
                false => verbose!("{text}"),
            }
        }
        if let Err(reason) = &sockets {
            if failures.is_empty() {
                error!(
                    "{}: {}",
                    one_line(address.unwrap_or_default()),
                    one_line(&reason.to_string())
                );
            }
            let shown = if is_udp { UDP_PREFIX } else { "" };
            error!("channel_setup_fwd_listener_tcpip: cannot listen to port: {shown}{port}");
        }
        sockets.ok()
    }
}
