//! The passenger: a session, a forwarded stream or a request on the connection of a master that
//! listens at `ControlPath`. Messages and exit codes are OpenSSH's.
//!
//! A master that does not answer within [`PATIENCE`] is passed over, and this process logs in
//! itself. Once a session has been asked for it is not asked for elsewhere, unless the master says
//! that it did not begin: a command never runs twice.

use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use config::client::ClientOptions;
use config::forward::{ForwardKind, ForwardListen, ForwardSpec};
use crypto::hash::HashAlgorithm;
use driver::forward::ForwardTarget;
use sys::io::PollFd;
use sys::process::effective_uid;
use sys::signals::{Signal, SignalFd};

use super::line::{Line, LineEnd};
use super::message::{
    ForwardWish, INFO_CHANNELS, INFO_CONNECTION, INFO_STATUS, INFO_STATUS_JSON, MasterReply,
    SessionWish, Wish,
};
use super::socket;
use crate::connect::plain_reason;
use crate::error::{ClientError, FAILURE};
use crate::flags::MasterCommand;
use crate::log::{self, debug1, debug2, error, verbose};
use crate::plan::{Plan, What};
use crate::stdio::StdioFlags;
use crate::terminal::RawMode;
use crate::text::one_line;

/// Time for a master's first messages.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);

/// Most masters of a pool: the highest ControlConnections.
const MAX_CONNECTIONS: u32 = 64;
/// Bytes of the digest in the names of a pool's sockets: enough that no name meets it by chance, and short, because
/// a socket's path has 107 bytes at most.
const POOL_DIGEST_BYTES: usize = 6;

/// How an attempt to use a master ended.
pub(crate) enum Ride {
    /// The master carried it out; this is the exit code.
    Arrived(i32),
    /// No master was used: this process has to log in.
    PassedOver,
    /// The server accepts no further session on the master's connection: this process has to log in.
    /// The master has its forwardings, if there are any.
    Full(Option<KeptPlace>),
}

/// A place at a master that has forwardings of this process but not its session. A persisting master
/// does not end while somebody has it.
#[derive(Debug, Clone)]
pub(crate) struct KeptPlace(Arc<Mutex<Option<Line>>>);

impl KeptPlace {
    fn new(line: Line) -> Self {
        Self(Arc::new(Mutex::new(Some(line))))
    }

    /// Gives the place up, in a process that does not use the forwardings.
    pub(super) fn give_up(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// The text of a master when the server has refused a session; OpenSSH's words (`mux.c`).
pub(crate) const REFUSED_BY_SERVER: &str = "Session open refused by peer";

/// The sockets of the masters that share the sessions of one ControlPath (`ControlConnections`). The names of all but
/// the first contain a digest of the path: `PATH.1` may be another host's ControlPath.
pub(crate) fn pool(path: &str, options: &ClientOptions) -> Vec<String> {
    pool_of(path, options.connection.control_connections)
}

fn pool_of(path: &str, connections: u32) -> Vec<String> {
    let mut paths = vec![path.to_owned()];
    if connections > 1 {
        let digest = HashAlgorithm::Sha256.digest(path.as_bytes());
        let digest: String = digest
            .iter()
            .take(POOL_DIGEST_BYTES)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let numbers = 1..connections;
        let others = numbers.map(|number| format!("{path}.{digest}.{number}"));
        // With longer names than fit there is one connection, as without a pool.
        paths.extend(others.filter(|other| socket::check_length(other).is_ok()));
    }
    paths
}

/// Where a passenger comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Boarding {
    /// It found the master.
    Found,
    /// It found the master, and another one of the same ControlPath has its forwardings.
    FoundNext,
    /// Its process has just put the master into the background, forwardings included.
    Founder,
}

/// Sends a request of `-O`.
pub(crate) fn command(command: MasterCommand, options: &ClientOptions) -> Result<i32, ClientError> {
    let Some(path) = options.connection.control_path.as_deref() else {
        return refused("No ControlPath specified for \"-O\" command".into());
    };
    if !options.connection.control_master.uses_master() {
        // As OpenSSH, which then goes on to log in; here that is said.
        return refused(
            "-O asks a master, and ControlMaster yes or ask makes this one: use ControlMaster no"
                .into(),
        );
    }
    let outcome = command_one(command, path, options)?;
    if matches!(
        command,
        MasterCommand::Exit | MasterCommand::Stop | MasterCommand::Status { .. }
    ) {
        // The pool may be larger than this command's configuration says.
        for other in pool_of(path, MAX_CONNECTIONS).iter().skip(1) {
            if Path::new(other).exists()
                && let Err(reason) = command_one(command, other, options)
            {
                debug1!("{reason}");
            }
        }
    }
    Ok(outcome)
}

fn command_one(
    command: MasterCommand,
    path: &str,
    options: &ClientOptions,
) -> Result<i32, ClientError> {
    socket::check_length(path)?;
    let shown = one_line(path);
    let path = Path::new(path);
    let mut line = Line::connect(path, Instant::now() + PATIENCE).map_err(|reason| {
        let reason = plain_reason(&reason);
        ClientError::Refused(format!("Control socket connect({shown}): {reason}"))
    })?;
    check_owner(&line, &shown)?;
    let outcome = run_command(&mut line, command, options);
    outcome.map_err(|end| ClientError::Refused(format!("master at {shown}: {end}")))
}

pub(crate) fn refused<T>(text: String) -> Result<T, ClientError> {
    Err(ClientError::Refused(text))
}

fn run_command(
    line: &mut Line,
    command: MasterCommand,
    options: &ClientOptions,
) -> Result<i32, LineEnd> {
    let deadline = Instant::now() + PATIENCE;
    line.greet(None)?;
    line.greeted(deadline)?;
    let plainly = |text: &str| {
        if log::level() > escape::LogLevel::Quiet {
            log::tell(text);
        }
        Ok(0)
    };
    match command {
        MasterCommand::Check => {
            line.ask(Wish::Alive, &[])?;
            let pid = alive(line.next(Some(deadline))?)?;
            log::tell(&format!("Master running (pid={pid})\r\n"));
            Ok(0)
        }
        MasterCommand::Exit => {
            line.ask(Wish::Terminate, &[])?;
            match line.next(None) {
                // It is gone before its answer.
                Err(LineEnd::Closed | LineEnd::Unread) | Ok(MasterReply::Ok(_)) => {
                    plainly("Exit request sent.\r\n")
                }
                answer => Ok(refusal(&answer?, "termination request")),
            }
        }
        MasterCommand::Stop => {
            line.ask(Wish::StopListening, &[])?;
            match line.next(None)? {
                MasterReply::Ok(_) => plainly("Stop listening request sent.\r\n"),
                answer => Ok(refusal(&answer, "stop listening request")),
            }
        }
        MasterCommand::Conninfo => info(line, INFO_CONNECTION),
        MasterCommand::Channels => info(line, INFO_CHANNELS),
        MasterCommand::Status { json } => status(line, json, deadline),
        // `program` runs the session.
        MasterCommand::Proxy => Ok(FAILURE),
        MasterCommand::Forward => match forwardings(line, options, ForwardChange::Add, true)? {
            true => Ok(0),
            false => {
                error!("muxclient: master forward request failed");
                Ok(FAILURE)
            }
        },
        MasterCommand::Cancel => {
            if !forwardings(line, options, ForwardChange::Cancel, false)? {
                error!("muxclient: master cancel forward request failed");
            }
            // As in OpenSSH.
            Ok(0)
        }
    }
}

/// The text of this name; `None` if the master does not know it.
fn text(line: &mut Line, name: &str) -> Result<Option<String>, LineEnd> {
    line.ask(Wish::Info(name.into()), &[])?;
    match line.next(None)? {
        MasterReply::Info(_, true, text) => Ok(Some(text)),
        MasterReply::Info(_, false, reason) => {
            debug1!("{name}: {}", one_line(&reason));
            Ok(None)
        }
        MasterReply::Denied(_, reason) | MasterReply::Failed(_, reason) => Err(LineEnd::Broken(
            format!("master returned error: {}", one_line(&reason)),
        )),
        other => Err(unexpected(&other)),
    }
}

/// `-O conninfo` and `-O channels`. The text is printed as the master gives it, as by OpenSSH; both
/// make it of escaped lines.
fn info(line: &mut Line, name: &str) -> Result<i32, LineEnd> {
    if !line.master.has_info {
        return Err(LineEnd::Broken(
            "mux server does not support info request".into(),
        ));
    }
    match text(line, name)? {
        Some(text) => print_text(&text),
        None => Err(LineEnd::Broken("info request failed".into())),
    }
}

fn print_text(text: &str) -> Result<i32, LineEnd> {
    let text = escape::escape(text.as_bytes(), escape::Style::Lines);
    sys::io::write_all(sys::io::stdout(), text.as_bytes())?;
    Ok(0)
}

/// `-O status`: a Fulmar's words; of another master, what it has words for.
fn status(line: &mut Line, json: bool, deadline: Instant) -> Result<i32, LineEnd> {
    if line.master.has_info {
        let name = match json {
            true => INFO_STATUS_JSON,
            false => INFO_STATUS,
        };
        if let Some(text) = text(line, name)? {
            return print_text(&text);
        }
    }
    if json {
        return Err(LineEnd::Broken(
            "the master is not Fulmar's and has no status as JSON".into(),
        ));
    }
    error!("the master is not Fulmar's and has no status; what it tells follows");
    line.ask(Wish::Alive, &[])?;
    let pid = alive(line.next(Some(deadline))?)?;
    print_text(&format!("Master running (pid={pid})\n"))?;
    if line.master.has_info {
        for name in [INFO_CONNECTION, INFO_CHANNELS] {
            if let Some(text) = text(line, name)? {
                print_text(&text)?;
            }
        }
    }
    Ok(0)
}

/// Logs why a request was not carried out.
fn refusal(answer: &MasterReply, what: &str) -> i32 {
    match answer {
        MasterReply::Denied(_, reason) => error!("Master refused {what}: {}", one_line(reason)),
        MasterReply::Failed(_, reason) => error!("{what} failed: {}", one_line(reason)),
        other => error!("unexpected response from master: {other:?}"),
    }
    FAILURE
}

fn alive(answer: MasterReply) -> Result<u32, LineEnd> {
    match answer {
        MasterReply::Alive(_, pid) => Ok(pid),
        MasterReply::Denied(_, reason) | MasterReply::Failed(_, reason) => Err(LineEnd::Broken(
            format!("master returned error: {}", one_line(&reason)),
        )),
        other => Err(LineEnd::Broken(format!("expected ALIVE, got {other:?}"))),
    }
}

/// A socket of another user is no master: it would get this session's terminal.
pub(crate) fn check_owner(line: &Line, shown: &str) -> Result<(), ClientError> {
    let peer = sys::socket::peer_credentials(line.socket());
    let peer = peer.map_err(ClientError::system("SO_PEERCRED"))?;
    match peer.uid {
        0 => Ok(()),
        uid if uid == effective_uid() => Ok(()),
        uid => refused(format!(
            "ControlPath {shown}: the socket belongs to a process of user {uid}"
        )),
    }
}

/// Carries out the plan on the connection of the master at `path`.
pub(crate) fn ride(
    path: &str,
    options: &ClientOptions,
    plan: &Plan,
    boarding: Boarding,
) -> Result<Ride, ClientError> {
    let shown = one_line(path);
    if needs_datagrams(options, plan) {
        verbose!("a master forwards no datagrams for others; logging in without it");
        return Ok(Ride::PassedOver);
    }
    let deadline = Instant::now() + PATIENCE;
    let mut line = match Line::connect(Path::new(path), deadline) {
        Ok(line) => line,
        Err(reason) => {
            not_connected(path, &shown, &reason, options);
            return Ok(Ride::PassedOver);
        }
    };
    if let Err(reason) = check_owner(&line, &shown) {
        error!("{reason}; logging in without it");
        return Ok(Ride::PassedOver);
    }
    let pid = match greet(&mut line, deadline) {
        Ok(pid) => pid,
        Err(reason) => {
            error!("master at {shown}: {reason}; logging in without it");
            return Ok(Ride::PassedOver);
        }
    };
    let is_forward = matches!(plan.what, What::Forward(_));
    let adds = boarding == Boarding::Found && !is_forward;
    if adds {
        let added = forwardings(&mut line, options, ForwardChange::Add, false);
        if !added.unwrap_or_else(|reason| {
            debug1!("master at {shown}: {reason}");
            false
        }) {
            error!("muxclient: master forward request failed");
            return Ok(Ride::PassedOver);
        }
    }
    let forwarding = &options.forwarding;
    let lists = [
        &forwarding.local_forwards,
        &forwarding.dynamic_forwards,
        &forwarding.remote_forwards,
    ];
    let passenger = Passenger {
        line,
        path: Path::new(path),
        pid,
        plan,
        keeps: adds && lists.iter().any(|list| !list.is_empty()),
    };
    passenger.run(options)
}

/// True if the protocol of sharing cannot express what the caller wants.
fn needs_datagrams(options: &ClientOptions, plan: &Plan) -> bool {
    let forwarding = &options.forwarding;
    let mut specs = forwarding
        .local_forwards
        .iter()
        .chain(&forwarding.remote_forwards);
    matches!(plan.what, What::Forward(ForwardTarget::Udp { .. }))
        || specs.any(|spec| matches!(spec.listen, ForwardListen::Udp { .. }))
}

/// Logs why there is no master; a socket that nobody listens at is removed if this process is to
/// listen there.
fn not_connected(path: &str, shown: &str, reason: &io::Error, options: &ClientOptions) {
    match reason.kind() {
        io::ErrorKind::ConnectionRefused if options.connection.control_master.listens() => {
            debug1!("Stale control socket {shown}, unlinking");
            socket::remove_stale(Path::new(path));
        }
        io::ErrorKind::NotFound => debug1!("Control socket \"{shown}\" does not exist"),
        _ => error!("Control socket connect({shown}): {}", plain_reason(reason)),
    }
}

/// Exchanges the first messages; returns the master's process.
pub(crate) fn greet(line: &mut Line, deadline: Instant) -> Result<u32, LineEnd> {
    line.greet(Some(Wish::Alive))?;
    line.greeted(deadline)?;
    alive(line.next(Some(deadline))?)
}

/// True if no master answers at `path`. Its listener may outlive its sockets to passengers for a
/// moment when it is killed, and accept a connection that is closed next. A master that has no time
/// to answer, or answers oddly, is there.
fn is_gone(path: &Path) -> bool {
    let deadline = Instant::now() + PATIENCE;
    let Ok(mut line) = Line::connect(path, deadline) else {
        return true;
    };
    matches!(
        greet(&mut line, deadline),
        Err(LineEnd::Closed | LineEnd::Unread | LineEnd::Failed(_))
    )
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ForwardChange {
    Add,
    Cancel,
}

/// The result of a request for a forwarding.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Changed {
    Done,
    /// Done; the server listens at this port.
    Chosen(u32),
    Not,
}

/// Adds or cancels all forwardings of the options; false if one of them failed, which is logged.
/// `says_ports`: ports that the server chooses are printed.
fn forwardings(
    line: &mut Line,
    options: &ClientOptions,
    how: ForwardChange,
    says_ports: bool,
) -> Result<bool, LineEnd> {
    let forwarding = &options.forwarding;
    let lists = [
        (ForwardKind::Local, &forwarding.local_forwards),
        (ForwardKind::Dynamic, &forwarding.dynamic_forwards),
        (ForwardKind::Remote, &forwarding.remote_forwards),
    ];
    let mut are_done = true;
    for (kind, list) in lists {
        for spec in list {
            are_done &= match one_forwarding(line, kind, spec, how)? {
                Changed::Chosen(port) if says_ports => {
                    let text = format!("{port}\n");
                    sys::io::write_all(sys::io::stdout(), text.as_bytes())?;
                    true
                }
                changed => changed != Changed::Not,
            };
        }
    }
    Ok(are_done)
}

fn one_forwarding(
    line: &mut Line,
    kind: ForwardKind,
    spec: &ForwardSpec,
    how: ForwardChange,
) -> Result<Changed, LineEnd> {
    let words = one_line(&spec.words().join(" to "));
    let Some(wish) = ForwardWish::new(kind, spec) else {
        error!(
            "{words}: a master forwards no datagrams for others; use a connection of its own (-S none)"
        );
        return Ok(Changed::Not);
    };
    let wish = match how {
        ForwardChange::Add => {
            debug1!("Requesting forwarding of {words}");
            Wish::OpenForward(wish)
        }
        ForwardChange::Cancel => {
            debug1!("Requesting cancellation of {words}");
            Wish::CloseForward(wish)
        }
    };
    line.ask(wish, &[])?;
    match line.next(None)? {
        MasterReply::Ok(_) => Ok(Changed::Done),
        MasterReply::RemotePort(_, port) if how == ForwardChange::Add => {
            let to = one_line(&spec.to.to_string());
            verbose!("Allocated port {port} for remote forward to {to}");
            Ok(Changed::Chosen(port))
        }
        MasterReply::Denied(_, reason) => {
            error!("Master refused forwarding request: {}", one_line(&reason));
            Ok(Changed::Not)
        }
        MasterReply::Failed(_, reason) => {
            let reason = one_line(&reason);
            error!("mux_client_forward: forwarding request failed: {reason}");
            Ok(Changed::Not)
        }
        other => Err(unexpected(&other)),
    }
}

fn unexpected(reply: &MasterReply) -> LineEnd {
    LineEnd::Broken(format!("unexpected response from master: {reply:?}"))
}

/// A passenger that has found its master.
struct Passenger<'p> {
    line: Line,
    /// The master's socket.
    path: &'p Path,
    /// The master's process, which window changes are relayed to.
    pid: u32,
    plan: &'p Plan,
    /// The master has got forwardings of this process.
    keeps: bool,
}

/// The exit status of the session, once the master has reported it, and the terminal's raw mode.
#[derive(Default)]
struct Journey {
    status: Option<u32>,
    /// A signal has ended this process's wait.
    is_interrupted: bool,
    raw: Option<RawMode>,
}

impl Passenger<'_> {
    fn run(mut self, options: &ClientOptions) -> Result<Ride, ClientError> {
        let plan = self.plan;
        let flags = [sys::io::stdin(), sys::io::stdout(), sys::io::stderr()];
        let flags = StdioFlags::of(flags.into_iter());
        if plan.what != What::Nothing
            && let Some(ride) = self.board(options)?
        {
            return Ok(match ride {
                Ride::Full(_) if self.keeps => Ride::Full(Some(KeptPlace::new(self.line))),
                other => other,
            });
        }
        let mut journey = Journey::default();
        let leaves =
            options.session.fork_after_authentication && !matches!(plan.what, What::Forward(_));
        if leaves {
            crate::local::go_to_background()?;
        } else if plan.pty.is_some() {
            journey.enter_raw_mode();
        }
        let outcome = self.wait(&mut journey);
        // A master that is killed leaves the flags of shared files as it has set them.
        drop(flags);
        journey.leave_raw_mode();
        outcome?;
        if plan.pty.is_some() && log::says(escape::LogLevel::Info) {
            log::tell(&format!(
                "Shared connection to {} closed.\r\n",
                one_line(&options.hostname)
            ));
        } else if plan.pty.is_none() && journey.has_no_end(&plan.what) {
            // The line closes the same way when a signal has ended the command.
            match is_gone(self.path) {
                false => debug2!("the session ended without an exit status"),
                true => error!(
                    "the master is gone or listens no longer: the session ended without an exit status"
                ),
            }
        }
        Ok(Ride::Arrived(journey.exit_code(&plan.what)))
    }

    /// Asks for the plan's channel; `None` if it is open.
    fn board(&mut self, options: &ClientOptions) -> Result<Option<Ride>, ClientError> {
        let null = self.plan.stdin_null.then(sys::io::null).transpose();
        let null = null.map_err(ClientError::system("/dev/null"))?;
        let stdin = null
            .as_ref()
            .map_or(sys::io::stdin(), std::os::fd::AsFd::as_fd);
        let streams = [stdin, sys::io::stdout(), sys::io::stderr()];
        let (wish, name) = self.wish(options);
        let fds: &[BorrowedFd<'_>] = streams.get(..wish.descriptors()).unwrap_or(&streams);
        // A session begins when the master has read the last descriptor's byte.
        let asked = self.line.ask(wish, fds);
        match asked.and_then(|_| self.line.next(None)) {
            Err(reason @ LineEnd::Unread) => {
                error!("the master ended before it took the {name} request: {reason}");
                Ok(Some(Ride::PassedOver))
            }
            Ok(MasterReply::Opened(_, session)) => {
                debug1!("master session id: {session}");
                Ok(None)
            }
            Ok(MasterReply::Denied(_, reason)) => {
                error!("Master refused {name} request: {}", one_line(&reason));
                Ok(Some(self.not_begun()))
            }
            Ok(MasterReply::Failed(_, reason)) => {
                let is_full = reason == REFUSED_BY_SERVER;
                let reason = one_line(&reason);
                let text = format!("mux_client_request_session: {name} request failed: {reason}");
                match is_full && options.connection.control_connections > 1 {
                    true => debug1!("{text}"),
                    false => error!("{text}"),
                }
                Ok(Some(match self.not_begun() {
                    Ride::PassedOver if is_full => Ride::Full(None),
                    other => other,
                }))
            }
            // Whether the session has begun is not known.
            Ok(other) => refused(format!("unexpected response from master: {other:?}")),
            Err(reason) => refused(format!(
                "the master ended before it answered ({reason}); the command may have run"
            )),
        }
    }

    /// After the master's word that the channel was not opened. A forwarded stream ends then, as in
    /// OpenSSH.
    fn not_begun(&self) -> Ride {
        match self.plan.what {
            What::Forward(_) => Ride::Arrived(FAILURE),
            _ => Ride::PassedOver,
        }
    }

    fn wish(&self, options: &ClientOptions) -> (Wish, &'static str) {
        let plan = self.plan;
        let command = match &plan.what {
            What::Forward(ForwardTarget::Tcp { host, port }) => {
                let (host, port) = (host.clone().into_bytes(), Some(u32::from(*port)));
                return (Wish::StdioForward { host, port }, "stdio forwarding");
            }
            What::Forward(ForwardTarget::Unix(path)) => {
                use std::os::unix::ffi::OsStrExt;
                let host = path.as_os_str().as_bytes().to_vec();
                return (Wish::StdioForward { host, port: None }, "stdio forwarding");
            }
            What::Exec(command) | What::Subsystem(command) => command.clone(),
            // `ride` has passed the master over.
            What::Forward(ForwardTarget::Udp { .. }) | What::Shell | What::Nothing => Vec::new(),
        };
        let variables = plan.environment.iter();
        let wish = SessionWish {
            tty: plan.pty.is_some(),
            x11: options.forwarding.x11,
            agent: options.forwarding.agent != config::client::ForwardAgent::No,
            subsystem: matches!(plan.what, What::Subsystem(_)),
            escape: plan.escape,
            term: crate::plan::term(&options.session),
            command,
            environment: variables
                .map(|(name, value)| [name.as_slice(), value].join(&b'='))
                .collect(),
        };
        (Wish::Session(wish), "session")
    }

    /// Waits until the master closes the socket or a signal ends this process.
    fn wait(&mut self, journey: &mut Journey) -> Result<(), ClientError> {
        let mut signals = vec![Signal::WINCH, Signal::CONT];
        for signal in [Signal::HUP, Signal::INT, Signal::TERM] {
            if !sys::signals::is_ignored(signal).unwrap_or(false) {
                signals.push(signal);
            }
        }
        let signals = SignalFd::new(&signals).map_err(ClientError::system("signalfd"))?;
        loop {
            loop {
                match self.line.take() {
                    Ok(Some(reply)) => journey.told(&reply)?,
                    Ok(None) => break,
                    Err(reason) => return refused(format!("master: {reason}")),
                }
            }
            let mut fds = [
                PollFd::new(std::os::fd::AsFd::as_fd(&signals), true, false),
                PollFd::new(self.line.socket(), true, false),
            ];
            sys::io::poll(&mut fds, None).map_err(ClientError::system("poll"))?;
            let has_message = fds[1].is_readable();
            while let Some(info) = signals.read().map_err(ClientError::system("signalfd"))? {
                match info.signal {
                    Signal::WINCH => self.relay_window_change(),
                    Signal::CONT => journey.resume(),
                    signal => {
                        debug2!("Exiting on signal: {}", signal.as_raw());
                        journey.status = None;
                        journey.is_interrupted = true;
                        return Ok(());
                    }
                }
            }
            if !has_message {
                continue;
            }
            match self.line.read() {
                Ok(()) => {}
                Err(LineEnd::Closed | LineEnd::Unread) => return Ok(()),
                Err(reason) => return refused(format!("master: {reason}")),
            }
        }
    }

    fn relay_window_change(&self) {
        // 1 and below are not processes of a master.
        if let Ok(pid @ 2..) = i32::try_from(self.pid) {
            let _ = sys::signals::send(pid, Signal::WINCH);
        }
    }
}

impl Journey {
    fn enter_raw_mode(&mut self) {
        if let Some(raw) = RawMode::of_stdin() {
            self.raw = Some(raw);
        }
    }

    fn leave_raw_mode(&mut self) {
        if self.raw.take().is_some() {
            log::set_raw_terminal(false);
        }
    }

    /// Continued after a stop: the shell may have changed the terminal's modes.
    fn resume(&mut self) {
        if let Some(raw) = &mut self.raw
            && let Err(error) = raw.resume()
        {
            debug1!("the terminal cannot be made raw again: {error}");
        }
    }

    fn told(&mut self, reply: &MasterReply) -> Result<(), ClientError> {
        match reply {
            MasterReply::NoTerminal(_) => self.leave_raw_mode(),
            MasterReply::Exit(_, status) if self.status.is_none() => self.status = Some(*status),
            MasterReply::Denied(_, reason) | MasterReply::Failed(_, reason) => {
                return refused(format!("master returned error: {}", one_line(reason)));
            }
            other => return refused(format!("unexpected message of the master: {other:?}")),
        }
        Ok(())
    }

    /// True if the command's end is not known: the master has ended, or the session without a status.
    fn has_no_end(&self, what: &What) -> bool {
        let has_command = !matches!(what, What::Nothing | What::Forward(_));
        has_command && self.status.is_none() && !self.is_interrupted
    }

    fn exit_code(&self, what: &What) -> i32 {
        match (self.status, what) {
            (Some(status), _) => i32::try_from(status).unwrap_or(FAILURE),
            (None, What::Forward(_)) => 0,
            (None, _) => FAILURE,
        }
    }
}
