//! A client connection: key exchange, login, and channels for commands.

use std::fmt;
use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ::client::Peer;
use ::client::embedded::Login;
use ::client::host_key::{HostKeyRules, prefer_known};
use ::client::login::LoginOpening;
use proto::channel::Request;
use proto::{AuthProof, Negotiated};
use wire::{Put, names};

use super::auth::{self, Auth};
use super::channel::{Channel, Output};
use super::config::Config;
use super::host_key::Judge;
use super::role::ClientRole;
use crate::link::{self, ChannelCore, Command, Handle};
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

/// A connection to a server. It is closed when the session and all its channels are dropped; bytes
/// written before are still sent, for at most 10 seconds.
pub struct Session {
    stage: Stage,
    banner: String,
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

impl Session {
    /// Connects to a host, trying its addresses in order, exchanges keys, and lets
    /// [`Config::host_key`] check the host key.
    ///
    /// # Errors
    /// [`Error::HostKey`] if the policy refuses the key; [`Error::TimedOut`] after
    /// [`Config::handshake_timeout`]; [`Error::Io`] if no address can be connected to; otherwise
    /// why the key exchange failed.
    pub fn connect(host: &str, port: u16, config: Config) -> Result<Self, Error> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
        for address in (host, port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, config.connect_timeout) {
                Ok(stream) => return Self::over(stream, host, port, config),
                Err(error) => last = error,
            }
        }
        Err(last.into())
    }

    /// As [`Session::connect`], over a stream that is connected already. The host key policy gets
    /// `host` and `port`.
    ///
    /// # Errors
    /// As [`Session::connect`].
    pub fn over(
        stream: impl Into<OwnedFd>,
        host: &str,
        port: u16,
        mut config: Config,
    ) -> Result<Self, Error> {
        let socket = stream.into();
        link::prepare_socket(&socket);
        let mut transport = config.transport;
        let known = config.host_key.known_types(host, port);
        let (names, expected) = prefer_known(&transport.host_key_algorithms, &known);
        transport.host_key_algorithms = names;
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
        let mut opening = LoginOpening::new(transport, expected, config.crypto_threads);
        opening.timeout_ms = Some(milliseconds(config.handshake_timeout));
        let peer = Peer {
            host: host.to_owned(),
            port,
            address: None,
        };
        let begun = Login::begin(socket, peer, opening, !config.pipelines_login, &mut judge);
        let mut login = match (begun, judge.problem) {
            (Ok(login), _) => login,
            (Err(_), Some(problem)) => return Err(Error::HostKey(problem)),
            (Err(error), None) => return Err(auth::failed(error, "the key exchange")),
        };
        let connection = login.driver().connection();
        Ok(Self {
            banner: String::new(),
            peer_version: connection.peer_version().unwrap_or_default().to_owned(),
            host_key: connection.host_key().unwrap_or_default().to_vec(),
            negotiated: connection.negotiated(),
            auth_timeout_ms: config.auth_timeout.map(milliseconds),
            stage: Stage::Login(Mutex::new(Box::new(login))),
        })
    }

    /// Logs in. After [`Error::AuthRefused`], [`Error::PasswordExpired`], [`Error::UnusableKey`] or
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
        let Stage::Login(login) = &mut self.stage else {
            return Err(Error::Misuse("the session is not waiting for a login"));
        };
        let login = login.get_mut().unwrap_or_else(PoisonError::into_inner);
        let outcome = auth::run(login, user, auth, self.auth_timeout_ms, &mut self.banner);
        match outcome {
            Ok(proof) => {
                self.start_thread()?;
                Ok(proof)
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

    /// Passes the connection to a thread of its own, after the login.
    fn start_thread(&mut self) -> Result<(), Error> {
        let Stage::Login(login) = std::mem::replace(&mut self.stage, Stage::Over) else {
            return Ok(());
        };
        let login = login.into_inner().unwrap_or_else(PoisonError::into_inner);
        let (seed, handle) = link::prepare()?;
        std::thread::Builder::new()
            .name("fulmar-client".into())
            .spawn(move || {
                // `run` has reported the error to all waiting callers.
                let _ = link::run(seed, login.into_driver(), &mut ClientRole);
            })?;
        self.stage = Stage::Running(Arc::new(handle));
        Ok(())
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
            session: self,
            requests: Vec::new(),
        }
    }

    /// Starts a command. The server's shell splits the command line.
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
        self.exec(command)?.output(MAX_RUN_BYTES)
    }

    /// Starts the user's shell on a terminal.
    ///
    /// # Errors
    /// As [`Session::exec`].
    pub fn shell(&self, pty: &Pty) -> Result<Channel, Error> {
        self.start().pty(pty).shell()
    }

    /// Starts a subsystem, such as `sftp`.
    ///
    /// # Errors
    /// As [`Session::exec`].
    pub fn subsystem(&self, name: &str) -> Result<Channel, Error> {
        self.start().subsystem(name)
    }

    /// Opens a channel to a TCP port that the server connects to; the server resolves `host` (RFC
    /// 4254 §7.2).
    ///
    /// # Errors
    /// [`Error::ChannelRefused`]; [`Error::Misuse`] before the login; otherwise why the connection
    /// ended.
    pub fn direct_tcpip(&self, host: &str, port: u16) -> Result<Channel, Error> {
        let mut fields = Vec::new();
        fields.put_string(host.as_bytes());
        fields.put_u32(u32::from(port));
        fields.put_string(b"127.0.0.1");
        fields.put_u32(0);
        self.open(names::CHANNEL_DIRECT_TCPIP, fields, Vec::new())
    }

    /// Opens a channel of any type (RFC 4254 §5.1), such as one of your own, `name@example.org`.
    /// `fields` are the encoded fields that follow the maximum packet size in CHANNEL_OPEN.
    ///
    /// # Errors
    /// As [`Session::direct_tcpip`].
    pub fn open_channel(&self, kind: &str, fields: &[u8]) -> Result<Channel, Error> {
        self.open(kind, fields.to_vec(), Vec::new())
    }

    fn open(
        &self,
        kind: &str,
        fields: Vec<u8>,
        requests: Vec<(Request, &'static str)>,
    ) -> Result<Channel, Error> {
        let handle = self.handle()?;
        let kind = kind.to_owned();
        let opened = handle.call(|done| Command::Open {
            kind,
            fields,
            requests,
            done,
        })?;
        Ok(Channel::new(ChannelCore::new(opened, Arc::clone(handle))))
    }

    /// Starts a key exchange now. Without this call, keys are exchanged at the limits in
    /// [`Config::transport`].
    ///
    /// # Errors
    /// [`Error::Misuse`] before the login; otherwise why the connection has ended.
    pub fn rekey(&self) -> Result<(), Error> {
        self.handle()?.send(Command::Rekey)
    }

    /// The banner that the server sent before the login, at most 64 KiB; escape it before printing.
    #[must_use]
    pub fn banner(&self) -> String {
        self.banner.clone()
    }

    /// The server's version line.
    #[must_use]
    pub fn peer_version(&self) -> &str {
        &self.peer_version
    }

    /// Blob of the server's key or certificate.
    #[must_use]
    pub fn host_key(&self) -> &[u8] {
        &self.host_key
    }

    /// The algorithms that the first key exchange agreed on.
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

/// A command, shell or subsystem to be started.
#[derive(Debug)]
pub struct Start<'s> {
    session: &'s Session,
    requests: Vec<(Request, &'static str)>,
}

impl Start<'_> {
    /// Requests a terminal; starting fails with [`Error::RequestRefused`] if the server refuses it.
    #[must_use]
    pub fn pty(mut self, pty: &Pty) -> Self {
        self.requests.push((pty.to_request(), names::REQUEST_PTY));
        self
    }

    /// Sends an environment variable; most servers accept only configured names, and do not report
    /// which they ignore.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        let request = Request::Env {
            name: name.as_bytes().to_vec(),
            value: value.as_bytes().to_vec(),
        };
        self.requests.push((request, names::REQUEST_ENV));
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
        self.session
            .open(names::CHANNEL_SESSION, Vec::new(), self.requests)
    }
}
