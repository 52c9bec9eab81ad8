//! The asker of proxy mode (`-O proxy`, OpenSSH's PROTOCOL.mux §9): a whole session of this process on
//! a master's connection, whose messages pass over the master's socket instead of a transport.
//!
//! `scp` and `sftp` use a master in this way too. Terminal, escapes and forwardings are this process's own. The key exchange, the signs of life and
//! what the server announces of itself are the master's.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Instant;

use config::client::ClientOptions;
use driver::{Driver, DriverError};
use proto::{Connection, Quirks, TransportConfig};

use crate::connect::plain_reason;
use crate::error::{ClientError, Peer};
use crate::forward::SessionForwards;
use crate::interaction::Interaction;
use crate::log::{debug1, debug2, error};
use crate::login;
use crate::pipelining::{Caution, LoginStrategy};
use crate::plan::{Plan, What};
use crate::session::{AnyLocalEnd, ClientSession, ServerFacts, StdioFlags, Streams};
use crate::sharing::line::{Line, LineEnd};
use crate::sharing::message::{MasterReply, Wish};
use crate::sharing::passenger::{PATIENCE, check_owner, greet, pool, refused};
use crate::sharing::persist::Leave;
use crate::sharing::socket;
use crate::text::one_line;

/// Most bytes that the server may send ahead. A master of Fulmar closes the socket of a passenger that leaves
/// 64 MiB unread, and OpenSSH's ends at 128 MiB, with all its sessions: a passenger that the system lets wait
/// must not come near with messages of the usual sizes, headers included.
const MAX_WINDOW_BYTES: u64 = 32 << 20;

/// The settings of a connection without a transport of its own.
fn transport_config(options: &ClientOptions) -> TransportConfig {
    let mut config = login::transport_config(options);
    config.window_memory_bytes = config.window_memory_bytes.min(MAX_WINDOW_BYTES);
    config.max_channels = TransportConfig::channels_in(config.window_memory_bytes);
    config
}

/// Why proxy mode could not be entered.
enum NotShared {
    /// No process listens at the socket.
    Absent(io::Error),
    /// The master refuses, or its answer is malformed.
    Failed(LineEnd),
    /// The path is too long for a socket, or its socket belongs to another user.
    Refused(ClientError),
}

/// A master in proxy mode.
struct ProxyLine {
    socket: OwnedFd,
    /// What it has sent on the connection already.
    received: Vec<u8>,
    /// The server's identification line, if the master has told it.
    server_version: Option<String>,
}

/// Asks the master for proxy mode.
fn ask(path: &str) -> Result<ProxyLine, NotShared> {
    socket::check_length(path).map_err(NotShared::Refused)?;
    let deadline = Instant::now() + PATIENCE;
    let mut line = Line::connect(Path::new(path), deadline).map_err(NotShared::Absent)?;
    check_owner(&line, &one_line(path)).map_err(NotShared::Refused)?;
    let agreed = agree(&mut line, deadline);
    agreed.map_err(NotShared::Failed)?;
    debug1!("proxy mode of the master at {}", one_line(path));
    let server_version = line.master.server_version.take();
    let (socket, received) = line.into_parts();
    Ok(ProxyLine {
        socket,
        received,
        server_version,
    })
}

fn agree(line: &mut Line, deadline: Instant) -> Result<(), LineEnd> {
    greet(line, deadline)?;
    line.ask(Wish::Proxy, &[])?;
    // The master may ask its user.
    match line.next(None)? {
        MasterReply::Proxy(_) => Ok(()),
        MasterReply::Denied(_, reason) | MasterReply::Failed(_, reason) => {
            let reason = one_line(&reason);
            Err(LineEnd::Broken(format!("master returned error: {reason}")))
        }
        other => Err(LineEnd::Broken(format!(
            "unexpected response from master: {other:?}"
        ))),
    }
}

/// `-O proxy`: carries out the plan on the connection of the master that the options name. Not inlined, like
/// [`ride`]: a process that logs in waits without the stack of either.
#[inline(never)]
pub(crate) fn run(
    options: &ClientOptions,
    plan: &Plan,
    interaction: &mut dyn Interaction,
) -> Result<i32, ClientError> {
    let connection = &options.connection;
    let Some(path) = connection.control_path.as_deref() else {
        return refused("No ControlPath specified for \"-O\" command".into());
    };
    if !connection.control_master.uses_master() {
        return refused(
            "-O asks a master, and ControlMaster yes or ask makes this one: use ControlMaster no"
                .into(),
        );
    }
    if options.forwarding.tunnel != config::client::Tunnel::No {
        return refused("-O proxy: a tunnel needs a connection of its own (-S none)".into());
    }
    let shown = one_line(path);
    let shared = ask(path).map_err(|why| match why {
        NotShared::Absent(reason) => {
            let reason = plain_reason(&reason);
            ClientError::Refused(format!("Control socket connect({shown}): {reason}"))
        }
        NotShared::Failed(end) => ClientError::Refused(format!("master at {shown}: {end}")),
        NotShared::Refused(error) => error,
    })?;
    let shared = ProxyConnection::new(shared, options)?;
    shared.hold(options, plan, interaction)
}

/// A program that is the local end of its session (`scp`, `sftp`) uses the connection of the first
/// master of the ControlPath that has room; `None` if there is none, or if it does not share: then the
/// program logs in.
#[inline(never)]
pub(crate) fn ride(
    options: &ClientOptions,
    plan: &Plan,
    local: &mut AnyLocalEnd,
    interaction: &mut dyn Interaction,
) -> Result<Option<i32>, ClientError> {
    let Some(path) = options.connection.control_path.as_deref() else {
        return Ok(None);
    };
    for path in pool(path, options) {
        match ride_one(&path, options, plan, local, interaction)? {
            ProxyRide::Arrived(code) => return Ok(Some(code)),
            ProxyRide::Full => debug1!("the connection of {} is full", one_line(&path)),
            ProxyRide::PassedOver => break,
        }
    }
    Ok(None)
}

/// How an attempt to use one master ended.
enum ProxyRide {
    /// With this exit code.
    Arrived(i32),
    /// The server takes no further session on this connection.
    Full,
    /// There is no master that shares.
    PassedOver,
}

fn ride_one(
    path: &str,
    options: &ClientOptions,
    plan: &Plan,
    local: &mut AnyLocalEnd,
    interaction: &mut dyn Interaction,
) -> Result<ProxyRide, ClientError> {
    let shown = one_line(path);
    let shared = match ask(path) {
        Ok(shared) => shared,
        Err(NotShared::Absent(reason)) => {
            match reason.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                    debug1!("Control socket \"{shown}\": {}", plain_reason(&reason));
                }
                _ => error!("Control socket connect({shown}): {}", plain_reason(&reason)),
            }
            return Ok(ProxyRide::PassedOver);
        }
        Err(NotShared::Failed(end)) => {
            error!("master at {shown}: {end}; logging in without it");
            return Ok(ProxyRide::PassedOver);
        }
        Err(NotShared::Refused(reason)) => {
            error!("{reason}; logging in without it");
            return Ok(ProxyRide::PassedOver);
        }
    };
    let server = shared.server_version.as_deref();
    let server = server.map(|version| facts(version, options));
    let mut shared = ProxyConnection::new(shared, options)?;
    let plan = shared_plan(plan);
    let (driver, peer) = (&mut shared.driver, shared.peer.clone());
    let mut session = ClientSession::new(driver, plan, Streams::default(), peer, interaction)
        .with_local_end(Some(local))
        .telling_of(server);
    let outcome = session.run();
    match session.is_refused() {
        true => Ok(ProxyRide::Full),
        false => outcome.map(ProxyRide::Arrived),
    }
}

/// Facts about a server with this identification line, for the local end.
fn facts(version: &str, options: &ClientOptions) -> ServerFacts {
    ServerFacts {
        reads_on: LoginStrategy::new(options, Caution::None, None).starts_at_once(version),
        is_fulmar: Quirks::of(version).is_fulmar,
    }
}

/// The plan of a session beside others: the server may not be told that no more come.
fn shared_plan(plan: &Plan) -> Plan {
    Plan {
        is_shared: true,
        ..plan.clone()
    }
}

/// The connection, without its transport.
struct ProxyConnection {
    driver: Driver,
    peer: Peer,
}

impl ProxyConnection {
    fn new(shared: ProxyLine, options: &ClientOptions) -> Result<Self, ClientError> {
        let ProxyLine {
            socket, received, ..
        } = shared;
        let peer = Peer {
            host: options.hostname.clone(),
            port: options.port,
            address: None,
        };
        let lost = |error: DriverError| ClientError::Lost {
            peer: peer.clone(),
            error,
        };
        let now = sys::time::monotonic_ms();
        let mut connection = Connection::shared(transport_config(options), now)
            .map_err(|error| lost(DriverError::Proto(error)))?;
        connection.receive_buffer().extend_from_slice(&received);
        sys::io::set_nonblocking(&socket, true).map_err(ClientError::system("fcntl"))?;
        let driver = Driver::new(socket, None, connection);
        let mut driver = driver.map_err(|error| lost(DriverError::Io(error)))?;
        driver.trim_memory();
        Ok(Self { driver, peer })
    }

    fn hold(
        mut self,
        options: &ClientOptions,
        plan: &Plan,
        interaction: &mut dyn Interaction,
    ) -> Result<i32, ClientError> {
        let driver = &mut self.driver;
        let forwards = forwards(options, plan, driver.connection())?;
        let streams = Streams::standard(plan).map_err(ClientError::system("dup"))?;
        let stdio = StdioFlags::remember(&streams);
        let leaves = options.session.fork_after_authentication;
        let mut leave = leaves.then_some(Leave::Background);
        let is_early = |forwards: &SessionForwards| !forwards.defers_background();
        if forwards.as_ref().is_none_or(is_early)
            && let Some(leave) = leave.take()
        {
            leave.go(None, driver)?;
        }
        let plan = shared_plan(plan);
        let mut session = ClientSession::new(driver, plan, streams, self.peer, interaction)
            .with_forwards(forwards, leave);
        let outcome = session.run();
        drop(session);
        drop(stdio);
        debug2!("proxy mode ends");
        outcome
    }
}

fn forwards(
    options: &ClientOptions,
    plan: &Plan,
    connection: &Connection,
) -> Result<Option<SessionForwards>, ClientError> {
    let none = || SessionForwards::without_listeners(options);
    let is_wanted = SessionForwards::are_wanted(options, plan) || plan.command_line;
    let mut forwards = match is_wanted {
        true => {
            let mut forwards = SessionForwards::prepare(options, connection)?;
            forwards.presume_answers();
            Some(forwards)
        }
        false => None,
    };
    if !matches!(plan.what, What::Nothing | What::Forward(_)) {
        if let Some(agent) = plan.agent.clone() {
            forwards = Some(forwards.unwrap_or_else(none).with_agent(agent));
        }
        if let Some(x11) = plan.x11.clone() {
            forwards = Some(forwards.unwrap_or_else(none).with_x11(x11));
        }
    }
    Ok(forwards)
}
