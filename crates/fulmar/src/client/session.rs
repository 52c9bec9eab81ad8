//! A client connection: key exchange, login, and channels for commands.

use std::fmt;
use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ::client::Peer;
use ::client::auth::LoggedIn;
use ::client::embedded::{Login, LoginSettings};
use ::client::host_key::{HostKeyRules, prefer_known};
use ::client::login::{LoginOpening, Precaution};
use ::client::pipelining::{Caution, ChannelStart, PipelineDepth, RetryPolicy};
use driver::forward::{ForwardTarget, Listening};
use proto::channel::Request;
use proto::{AuthProof, Negotiated};
use wire::names;

use super::agent_forwarding::AgentConnections;
use super::auth::{self, Auth};
use super::channel::{Channel, Output};
use super::config::Config;
use super::datagrams::Datagrams;
use super::host_key::Judge;
use super::listener::RemoteListener;
use super::role::ClientRole;
use crate::link::{self, ChannelCore, ChannelOpening, Command, EarlyOpen, Handle};
use crate::{Error, Pty};

/// Most output of a command that [`Session::run`] keeps, bytes.
const MAX_RUN_BYTES: usize = 64 * 1024 * 1024;

/// The stage of a session.
enum Stage {
    /// The keys are agreed on. The lock is never waited for: it lets threads share the session.
    Login(Mutex<Box<Login>>),
    Running(Arc<Handle>),
    Over,
}

/// A connection to a server. It is closed when the session, its channels and its listeners are
/// dropped; bytes written before are still sent, for at most 10 seconds.
pub struct Session {
    stage: Stage,
    banner: String,
    proof: Option<AuthProof>,
    peer_version: String,
    host_key: Vec<u8>,
    negotiated: Option<Negotiated>,
    auth_timeout_ms: Option<u64>,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("peer_version", &self.peer_version)
            .field("negotiated", &self.negotiated)
            .finish_non_exhaustive()
    }
}

/// Whole milliseconds, at least one.
fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1)
}

/// Connects to the host's addresses in order.
fn dial(host: &str, port: u16, config: &Config) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, config.connect_timeout) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

impl Session {
    /// Connects to a host, trying its addresses in order, exchanges keys (RFC 4253), and lets
    /// [`Config::host_key`] check the host key. `host` is a name, which the system looks up, or an IP
    /// address. ssh_config is not read.
    ///
    /// # Errors
    /// [`Error::HostKey`] if the policy refuses the key; [`Error::TimedOut`] after
    /// [`Config::handshake_timeout`]; [`Error::Io`] if the host has no address or none can be
    /// connected to within [`Config::connect_timeout`]; otherwise why the key exchange failed.
    pub fn connect(host: &str, port: u16, mut config: Config) -> Result<Self, Error> {
        let stream = dial(host, port, &config)?;
        match Self::begin(stream.into(), host, port, &mut config, Caution::None) {
            // A few servers break because of a wrong guess of the key exchange.
            Err((_, RetryPolicy::Safe(caution))) => {
                let stream = dial(host, port, &config)?;
                Self::begin(stream.into(), host, port, &mut config, caution)
            }
            outcome => outcome,
        }
        .map_err(|(error, _)| error)
    }

    /// As [`Session::connect`], over a stream that is connected already. The host key policy gets
    /// `host` and `port`. The key exchange is not guessed, because a second connection might be
    /// needed after a wrong guess.
    ///
    /// # Errors
    /// As [`Session::connect`].
    pub fn over(
        stream: impl Into<OwnedFd>,
        host: &str,
        port: u16,
        mut config: Config,
    ) -> Result<Self, Error> {
        let begun = Self::begin(stream.into(), host, port, &mut config, Caution::NoGuess);
        begun.map_err(|(error, _)| error)
    }

    /// Exchanges keys over `socket` and checks the host key.
    fn begin(
        socket: OwnedFd,
        host: &str,
        port: u16,
        config: &mut Config,
        caution: Caution,
    ) -> Result<Self, (Error, RetryPolicy)> {
        link::prepare_socket(&socket);
        let transport = config.transport.clone();
        let known = config.host_key.known_types(host, port);
        let offer = prefer_known(&transport.host_key_algorithms, &known);
        let mut judge = Judge {
            host,
            port,
            rules: HostKeyRules {
                host_key_algorithms: transport.host_key_algorithms.clone(),
                authority_algorithms: transport.authorities(),
                min_rsa_bits: transport.min_rsa_bits,
            },
            policy: &mut *config.host_key,
            problem: None,
        };
        let mut opening = LoginOpening::new(transport, offer, config.crypto_threads);
        opening.timeout_ms = Some(milliseconds(config.handshake_timeout));
        let settings = LoginSettings {
            opening,
            caution,
            pipelines: config.pipelines_login,
            profiles: config.login_cache.clone().map(|cache| cache.0),
        };
        let peer = Peer {
            host: host.to_owned(),
            port,
            address: None,
        };
        let begun = Login::begin(socket, peer, settings, &mut judge);
        let mut login = match (begun, judge.problem) {
            (Ok(login), _) => login,
            (Err(_), Some(problem)) => {
                return Err((Error::HostKey(problem), RetryPolicy::NotNeeded));
            }
            (Err(failure), None) => {
                let error = auth::failed(failure.error, "the key exchange");
                return Err((error, failure.retry));
            }
        };
        let connection = login.driver().connection();
        Ok(Self {
            banner: String::new(),
            proof: None,
            peer_version: connection.peer_version().unwrap_or_default().to_owned(),
            host_key: connection.host_key().unwrap_or_default().to_vec(),
            negotiated: connection.negotiated(),
            auth_timeout_ms: config.auth_timeout.map(milliseconds),
            stage: Stage::Login(Mutex::new(Box::new(login))),
        })
    }

    /// Logs in (RFC 4252). After [`Error::AuthRefused`], [`Error::PasswordExpired`], [`Error::UnusableKey`] or
    /// [`Error::Agent`] another method may be tried; after a partial success, with the same user
    /// name. After other errors the session is over.
    ///
    /// Returns what the user has proved. After [`AuthProof::Nothing`] the server lets anybody in,
    /// so do not trust it with secrets that it asks for later.
    ///
    /// # Errors
    /// [`Error::AuthRefused`] and the others named above; [`Error::Misuse`] if the login is
    /// complete or the session is over; otherwise why the connection ended.
    pub fn authenticate(&mut self, user: &str, auth: Auth<'_>) -> Result<AuthProof, Error> {
        let logged_in = self.log_in(user, auth, None)?;
        self.start_thread(None)?;
        Ok(logged_in.proof)
    }

    /// As [`Session::authenticate`], together with a first command, shell or subsystem. With a key
    /// that signs without a person, to a server that is known to accept that (OpenSSH and Fulmar,
    /// others with a [`LoginCache`](super::LoginCache)), its requests leave with the login, which
    /// saves two round trips. In all other cases they follow the login. [`Session::proof`] has the
    /// user's proof.
    ///
    /// The errors of the login are those of [`Session::authenticate`]. If the connection ends before
    /// the channel is open, the command may have run; nothing is sent twice.
    #[must_use]
    pub fn authenticate_and_start<'s>(&'s mut self, user: &'s str, auth: Auth<'s>) -> Start<'s> {
        Start {
            session: StartTarget::LogIn(self, user, auth),
            requests: Vec::new(),
        }
    }

    fn log_in(
        &mut self,
        user: &str,
        auth: Auth<'_>,
        first: Option<&ChannelStart>,
    ) -> Result<LoggedIn, Error> {
        let Stage::Login(login) = &mut self.stage else {
            return Err(Error::Misuse("the session is not waiting for a login"));
        };
        let login = login.get_mut().unwrap_or_else(PoisonError::into_inner);
        let timeout_ms = self.auth_timeout_ms;
        match auth::run(login, user, auth, first, timeout_ms, &mut self.banner) {
            Ok(logged_in) => {
                self.proof = Some(logged_in.proof);
                Ok(logged_in)
            }
            Err(
                error @ (Error::AuthRefused { .. }
                | Error::PasswordExpired(_)
                | Error::UnusableKey(_)
                | Error::Agent(_)),
            ) => Err(error),
            Err(error) => {
                self.stage = Stage::Over;
                Err(error)
            }
        }
    }

    fn log_in_and_open(
        &mut self,
        user: &str,
        auth: Auth<'_>,
        opening: ChannelOpening,
    ) -> Result<Channel, Error> {
        let first = ChannelStart {
            kind: opening.kind.clone(),
            fields: opening.fields.clone(),
            requests: opening.requests.iter().map(|each| each.0.clone()).collect(),
            input_ended: false,
            is_only_session: false,
        };
        let logged_in = self.log_in(user, auth, Some(&first))?;
        let early = logged_in.early.map(|early| EarlyOpen {
            id: early.id(),
            with_requests: early.depth() == PipelineDepth::Whole,
        });
        let (done, answer) = sync_channel(1);
        let open = Command::Open {
            opening,
            early,
            done,
        };
        let precaution = self.start_thread(Some(open))?.filter(|_| early.is_some());
        let handle = self.handle()?;
        let opened = handle.await_answer(&answer).inspect_err(|error| {
            let is_answer = matches!(
                error,
                Error::ChannelRefused { .. } | Error::RequestRefused(_) | Error::ChannelClosed
            );
            if let Some(precaution) = precaution.filter(|_| !is_answer) {
                precaution.store();
            }
        });
        Ok(Channel::new(ChannelCore::new(opened?, Arc::clone(handle))))
    }

    /// Passes the connection to a thread of its own, after the login; `first` is its first command.
    fn start_thread(&mut self, first: Option<Command>) -> Result<Option<Precaution>, Error> {
        let Stage::Login(login) = std::mem::replace(&mut self.stage, Stage::Over) else {
            return Ok(None);
        };
        let mut login = login.into_inner().unwrap_or_else(PoisonError::into_inner);
        let (mut seed, handle) = link::prepare()?;
        seed.starts_at_once = login.starts_at_once();
        if let Some(first) = first {
            handle.send(first)?;
        }
        let (driver, precaution) = login.into_driver();
        std::thread::Builder::new()
            .name("fulmar-client".into())
            .spawn(move || {
                // `run` has reported the error to all waiting callers.
                let _ = link::run(seed, driver, &mut ClientRole);
            })?;
        self.stage = Stage::Running(Arc::new(handle));
        Ok(precaution)
    }

    fn handle(&self) -> Result<&Arc<Handle>, Error> {
        match &self.stage {
            Stage::Running(handle) => Ok(handle),
            Stage::Login(_) => Err(Error::Misuse("log in first")),
            Stage::Over => Err(Error::Closed),
        }
    }

    /// Prepares a command, shell or subsystem that needs a terminal or environment variables.
    #[must_use]
    pub fn start(&self) -> Start<'_> {
        Start {
            session: StartTarget::Running(self),
            requests: Vec::new(),
        }
    }

    /// Starts a command (RFC 4254 §6.5). The shell of the user at the server splits the command line:
    /// quote what it must not interpret.
    ///
    /// # Errors
    /// [`Error::ChannelRefused`] or [`Error::RequestRefused`] if the server refuses;
    /// [`Error::Misuse`] before the login; otherwise why the connection ended.
    pub fn exec(&self, command: impl AsRef<[u8]>) -> Result<Channel, Error> {
        self.start().exec(command)
    }

    /// Runs a command without input and collects its output, at most 64 MiB.
    ///
    /// # Errors
    /// [`Error::TooMuchOutput`]; otherwise as [`Session::exec`].
    pub fn run(&self, command: impl AsRef<[u8]>) -> Result<Output, Error> {
        self.start().run(command)
    }

    /// Starts the user's shell on a terminal (RFC 4254 §6.2, §6.5).
    ///
    /// # Errors
    /// As [`Session::exec`].
    pub fn shell(&self, pty: &Pty) -> Result<Channel, Error> {
        self.start().pty(pty).shell()
    }

    /// Starts a subsystem (RFC 4254 §6.5), such as `sftp`.
    ///
    /// # Errors
    /// As [`Session::exec`].
    pub fn subsystem(&self, name: &str) -> Result<Channel, Error> {
        self.start().subsystem(name)
    }

    /// Connects to a TCP port through the server, which looks `host` up (RFC 4254 §7.2). The channel
    /// carries the connection's bytes; [`Channel::send_eof`] ends its sending direction.
    ///
    /// # Errors
    /// [`Error::ChannelRefused`] if the server forbids it or cannot connect; [`Error::Misuse`] before
    /// the login; otherwise why the SSH connection ended.
    pub fn connect_tcp(&self, host: &str, port: u16) -> Result<Channel, Error> {
        let host = host.to_owned();
        self.connect_to(&ForwardTarget::Tcp { host, port })
    }

    /// Connects to a Unix socket on the server, by a path of at most 107 bytes (OpenSSH's PROTOCOL
    /// §2.4, `direct-streamlocal@openssh.com`).
    ///
    /// # Errors
    /// As [`Session::connect_tcp`].
    pub fn connect_unix(&self, path: impl AsRef<Path>) -> Result<Channel, Error> {
        self.connect_to(&ForwardTarget::Unix(path.as_ref().to_owned()))
    }

    /// Exchanges datagrams with a UDP port through the server, which looks `host` up (docs/PROTOCOL.md,
    /// `direct-udp`). Only Fulmar's servers do this.
    ///
    /// # Errors
    /// [`Error::ChannelRefused`] if the server forbids it, finds no address, or does not know
    /// datagrams; otherwise as [`Session::connect_tcp`].
    pub fn connect_udp(&self, host: &str, port: u16) -> Result<Datagrams, Error> {
        let host = host.to_owned();
        let channel = self.connect_to(&ForwardTarget::Udp { host, port })?;
        Ok(Datagrams::new(channel))
    }

    fn connect_to(&self, target: &ForwardTarget) -> Result<Channel, Error> {
        let (kind, fields) = target.open_request(None);
        self.open_channel(kind, &fields)
    }

    /// Lets the server listen on a TCP port (RFC 4254 §7.1). `address` is one of the server's
    /// addresses, `localhost`, or empty for all; servers may listen on loopback addresses only,
    /// whatever it is (OpenSSH's `GatewayPorts`). For port 0 the server chooses one:
    /// [`RemoteListener::port`].
    ///
    /// # Errors
    /// [`Error::RequestRefused`] if the server forbids it or cannot listen there; [`Error::Misuse`]
    /// before the login; otherwise why the SSH connection ended.
    pub fn listen_tcp(&self, address: &str, port: u16) -> Result<RemoteListener, Error> {
        let address = address.to_owned();
        self.listen(Listening::Tcp { address, port })
    }

    /// Lets the server listen on a Unix socket, by a path of at most 107 bytes (OpenSSH's PROTOCOL
    /// §2.4, `streamlocal-forward@openssh.com`). OpenSSH does not remove the socket's file at the end.
    ///
    /// # Errors
    /// As [`Session::listen_tcp`].
    pub fn listen_unix(&self, path: impl AsRef<Path>) -> Result<RemoteListener, Error> {
        self.listen(Listening::Unix(path.as_ref().to_owned()))
    }

    fn listen(&self, listening: Listening) -> Result<RemoteListener, Error> {
        let handle = self.handle()?;
        let listened = handle.call(|done| Command::Listen { listening, done })?;
        Ok(RemoteListener::new(Arc::clone(handle), listened))
    }

    /// Accepts the connections to the user's agent that programs on the server make, from now on, so
    /// call it before [`Start::forward_agent`]. Until the returned value is dropped; one at a time.
    ///
    /// # Errors
    /// [`Error::Misuse`] before the login, and while connections are accepted already; otherwise why the
    /// SSH connection ended.
    pub fn agent_connections(&self) -> Result<AgentConnections, Error> {
        let handle = self.handle()?;
        let channels = handle.call(|done| Command::AcceptAgents { done })?;
        Ok(AgentConnections::new(Arc::clone(handle), channels))
    }

    /// Opens a channel of any type (RFC 4254 §5.1), such as one of your own, `name@example.org`.
    /// `fields` are the encoded fields (RFC 4251 §5) that follow the maximum packet size in
    /// CHANNEL_OPEN.
    ///
    /// # Errors
    /// As [`Session::connect_tcp`].
    pub fn open_channel(&self, kind: &str, fields: &[u8]) -> Result<Channel, Error> {
        self.open(ChannelOpening {
            kind: kind.to_owned(),
            fields: fields.to_vec(),
            requests: Vec::new(),
        })
    }

    fn open(&self, opening: ChannelOpening) -> Result<Channel, Error> {
        let handle = self.handle()?;
        let opened = handle.call(|done| Command::Open {
            opening,
            early: None,
            done,
        })?;
        Ok(Channel::new(ChannelCore::new(opened, Arc::clone(handle))))
    }

    /// Starts a key exchange now (RFC 4253 §9), and does not wait for its end. Without this call, keys
    /// are exchanged at the limits in [`Config::transport`].
    ///
    /// # Errors
    /// [`Error::Misuse`] before the login; otherwise why the connection has ended.
    pub fn rekey(&self) -> Result<(), Error> {
        self.handle()?.send(Command::Rekey)
    }

    /// The banner that the server sent before the login (RFC 4252 §5.4), at most 64 KiB, the rest is
    /// dropped; empty if there was none. Escape it before printing.
    #[must_use]
    pub fn banner(&self) -> String {
        self.banner.clone()
    }

    /// What the user proved at the login; `None` before it. After [`AuthProof::Nothing`] the server
    /// lets anybody in, so do not trust it with secrets that it asks for later.
    #[must_use]
    pub fn proof(&self) -> Option<AuthProof> {
        self.proof
    }

    /// The server's version line without its line end (RFC 4253 §4.2), such as `SSH-2.0-OpenSSH_9.2`.
    /// Escape it before printing.
    #[must_use]
    pub fn peer_version(&self) -> &str {
        &self.peer_version
    }

    /// Blob of the server's key or certificate (RFC 4253 §6.6), which the policy has accepted.
    #[must_use]
    pub fn host_key(&self) -> &[u8] {
        &self.host_key
    }

    /// The algorithms that the first key exchange agreed on (RFC 4253 §7.1).
    #[must_use]
    pub fn negotiated(&self) -> Option<&Negotiated> {
        self.negotiated.as_ref()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Stage::Login(login) = &mut self.stage {
            let login = login.get_mut().unwrap_or_else(PoisonError::into_inner);
            login.disconnect();
        }
    }
}

/// Where a channel is started.
#[derive(Debug)]
enum StartTarget<'s> {
    Running(&'s Session),
    /// In the flight of the login of this user.
    LogIn(&'s mut Session, &'s str, Auth<'s>),
}

/// A command, shell or subsystem to be started, on a channel of its own. The requests are sent in the
/// order of the calls, when the last one starts it.
#[derive(Debug)]
pub struct Start<'s> {
    session: StartTarget<'s>,
    requests: Vec<(Request, &'static str)>,
}

impl Start<'_> {
    /// Requests a terminal (RFC 4254 §6.2). The command's standard error then arrives as standard
    /// output. Starting fails with [`Error::RequestRefused`] if the server refuses it.
    #[must_use]
    pub fn pty(mut self, pty: &Pty) -> Self {
        self.requests.push((pty.to_request(), names::REQUEST_PTY));
        self
    }

    /// Sends an environment variable (RFC 4254 §6.4). Most servers accept only configured names
    /// (OpenSSH's `AcceptEnv`) and do not report which they ignore.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        let request = Request::Env {
            name: name.as_bytes().to_vec(),
            value: value.as_bytes().to_vec(),
        };
        self.requests.push((request, names::REQUEST_ENV));
        self
    }

    /// Lets programs of this session use the agent that serves [`Session::agent_connections`]; starting
    /// fails with [`Error::RequestRefused`] if the server refuses it. Who is root on the server can use
    /// the agent too, as long as the session lives.
    #[must_use]
    pub fn forward_agent(mut self) -> Self {
        // The draft's name needs an announcement of the server; all know OpenSSH's.
        let request = Request::AgentForwarding { standard: false };
        self.requests.push((request, names::REQUEST_AGENT_OPENSSH));
        self
    }

    /// Starts a command.
    ///
    /// # Errors
    /// As [`Session::exec`].
    pub fn exec(self, command: impl AsRef<[u8]>) -> Result<Channel, Error> {
        let command = command.as_ref().to_vec();
        self.go(Request::Exec { command }, names::REQUEST_EXEC)
    }

    /// Runs a command without input and collects its output, at most 64 MiB.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub fn run(self, command: impl AsRef<[u8]>) -> Result<Output, Error> {
        self.exec(command)?.output(MAX_RUN_BYTES)
    }

    /// Starts the user's shell.
    ///
    /// # Errors
    /// As [`Session::exec`].
    pub fn shell(self) -> Result<Channel, Error> {
        self.go(Request::Shell, names::REQUEST_SHELL)
    }

    /// Starts a subsystem.
    ///
    /// # Errors
    /// As [`Session::exec`].
    pub fn subsystem(self, name: &str) -> Result<Channel, Error> {
        let name = name.as_bytes().to_vec();
        self.go(Request::Subsystem { name }, names::REQUEST_SUBSYSTEM)
    }

    fn go(mut self, request: Request, name: &'static str) -> Result<Channel, Error> {
        self.requests.push((request, name));
        let opening = ChannelOpening {
            kind: names::CHANNEL_SESSION.to_owned(),
            fields: Vec::new(),
            requests: self.requests,
        };
        match self.session {
            StartTarget::Running(session) => session.open(opening),
            StartTarget::LogIn(session, user, auth) => session.log_in_and_open(user, auth, opening),
        }
    }
}
