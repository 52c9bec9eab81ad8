//! Why a login or a session failed, and the text that the user reads.
//!
//! Text from peers is escaped when it is displayed.

use std::fmt;
use std::io;
use std::net::SocketAddr;

use driver::DriverError;
use escape::LogLevel;

use crate::text::one_line;

/// The exit code of every failure that is not the command's own.
pub const FAILURE: i32 = 255;

/// The server, for messages.
#[derive(Debug, Clone)]
pub struct Peer {
    /// The host's name as the user knows it.
    pub host: String,
    /// The requested port.
    pub port: u16,
    /// The connected address; `None` through a proxy.
    pub address: Option<SocketAddr>,
}

impl Peer {
    /// `HOST ([ADDRESS]:PORT)`, or `HOST (via proxy)`: OpenSSH's words, which programs look for.
    pub(crate) fn shown_with_address(&self) -> String {
        let host = one_line(&self.host);
        match self.address {
            Some(address) => format!("{host} ([{}]:{})", address.ip(), address.port()),
            None => format!("{host} (via proxy)"),
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address {
            Some(address) => write!(f, "{} port {}", address.ip(), address.port()),
            None => write!(
                f,
                "{} port {} (through a proxy)",
                one_line(&self.host),
                self.port
            ),
        }
    }
}

/// A failure of the client. `Display` gives the text for the user, which may have several lines.
#[derive(Debug)]
pub enum ClientError {
    /// A complete sentence for the user.
    Refused(String),
    /// The host name cannot be resolved.
    Resolve {
        /// The name.
        host: String,
        /// The resolver's error text.
        reason: String,
    },
    /// The connection to every address of the host failed.
    Connect {
        /// The host.
        host: String,
        /// Its port.
        port: u16,
        /// The error of the address that failed last.
        reason: String,
    },
    /// The connection ended before the key exchange and the host key check were done.
    Handshake {
        /// The server.
        peer: Peer,
        /// The cause.
        error: DriverError,
    },
    /// The server's host key was not accepted; the reason has been logged.
    HostKey,
    /// No authentication method is left to try.
    Denied {
        /// `user@host`.
        who: String,
        /// The methods that the server still accepts.
        methods: Vec<String>,
    },
    /// The connection ended after the key exchange and the host key check.
    Lost {
        /// The server.
        peer: Peer,
        /// The cause.
        error: DriverError,
    },
    /// The server closed the connection.
    Closed(Peer),
    /// The connection of a session ended without the server's DISCONNECT.
    Ended {
        /// The host.
        host: String,
        /// Why nothing can be read; `None` if the server closed it.
        reason: Option<io::Error>,
        /// The session had a terminal on the server.
        had_terminal: bool,
    },
    /// `ConnectTimeout` passed.
    TimedOut(Peer),
    /// A system call that the client needs failed.
    System {
        /// The operation that failed.
        what: &'static str,
        /// The system's error.
        error: io::Error,
    },
    /// The error has been logged already.
    Said,
}

impl ClientError {
    /// For `map_err`: wraps a system error and names the failed operation `what`.
    pub fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::System { what, error }
    }
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(text) => f.write_str(text),
            Self::Resolve { host, reason } => {
                write!(
                    f,
                    "ssh: Could not resolve hostname {}: {reason}",
                    one_line(host)
                )
            }
            Self::Connect { host, port, reason } => {
                write!(
                    f,
                    "ssh: connect to host {} port {port}: {reason}",
                    one_line(host)
                )
            }
            Self::Handshake { peer, error } => handshake(f, peer, error),
            Self::HostKey => f.write_str("Host key verification failed."),
            Self::Denied { who, methods } => {
                let methods: Vec<String> = methods.iter().map(|name| one_line(name)).collect();
                write!(
                    f,
                    "{}: Permission denied ({}).",
                    one_line(who),
                    methods.join(",")
                )
            }
            Self::Lost { peer, error } => lost(f, peer, error),
            Self::Closed(peer) => write!(f, "Connection closed by {peer}"),
            Self::Ended {
                host, reason: None, ..
            } => write!(f, "Connection to {} closed by remote host.", one_line(host)),
            Self::Ended {
                host,
                reason: Some(reason),
                ..
            } => write!(f, "Read from remote host {}: {reason}", one_line(host)),
            Self::TimedOut(peer) => {
                write!(f, "Connection to {peer} timed out")
            }
            Self::System { what, error } => write!(f, "ssh: {what}: {error}"),
            Self::Said => Ok(()),
        }
    }
}

impl ClientError {
    /// The level of the line that reports it, as in OpenSSH; `None` if every level shows it.
    /// Of several lines, each after the first has the level INFO.
    pub(crate) fn level(&self) -> Option<LogLevel> {
        match self {
            Self::Ended { .. } => None,
            Self::Resolve { .. } | Self::Connect { .. } => Some(LogLevel::Error),
            Self::Handshake { error, .. } | Self::Lost { error, .. } => Some(level(error)),
            Self::Closed(_) | Self::TimedOut(_) => Some(LogLevel::Info),
            Self::Refused(_)
            | Self::HostKey
            | Self::Denied { .. }
            | Self::System { .. }
            | Self::Said => Some(LogLevel::Fatal),
        }
    }
}

/// A violation of the protocol is shown at every level but QUIET: it may be an attack. A server without SSH 2 is none.
fn level(error: &DriverError) -> LogLevel {
    match error {
        DriverError::Proto(
            proto::Error::Disconnected { .. } | proto::Error::TimedOut(_) | proto::Error::NotSsh(_),
        ) => LogLevel::Error,
        DriverError::Proto(proto::Error::NoCommonAlgorithm { .. }) => LogLevel::Info,
        DriverError::Io(error) if error.kind() != io::ErrorKind::BrokenPipe => LogLevel::Info,
        _ => LogLevel::Fatal,
    }
}

fn handshake(f: &mut fmt::Formatter<'_>, peer: &Peer, error: &DriverError) -> fmt::Result {
    match error {
        DriverError::Proto(proto::Error::NoCommonAlgorithm { kind, theirs, .. }) => {
            let theirs: Vec<String> = theirs.iter().map(|name| one_line(name)).collect();
            write!(
                f,
                "Unable to negotiate with {peer}: no matching {kind} found. Their offer: {}",
                theirs.join(",")
            )
        }
        DriverError::Proto(proto::Error::NotSsh(line)) => not_ssh(f, peer, &one_line(line)),
        DriverError::Proto(proto::Error::HostKeySignature) => write!(
            f,
            "{peer} could not prove that it holds its host key: its signature is wrong. \
             Someone may be between you and the server."
        ),
        // OpenSSH's words, and the keyword that permits it.
        DriverError::Proto(proto::Error::HostKeyTooSmall { bits, minimum }) => write!(
            f,
            "Bad server host key: Invalid key length: the RSA key of {peer} has {bits} bits; \
             RequiredRSASize is {minimum}"
        ),
        other => lost(f, peer, other),
    }
}

/// The server's version line is of another protocol: OpenSSH's two lines.
fn not_ssh(f: &mut fmt::Formatter<'_>, peer: &Peer, line: &str) -> fmt::Result {
    let version = line.strip_prefix("SSH-").and_then(|rest| {
        let (numbers, _) = rest.split_once('-')?;
        let (major, minor) = numbers.split_once('.')?;
        minor.parse::<u32>().ok()?;
        major.parse::<u32>().ok()
    });
    let reason = match version {
        Some(major) if major != 2 => {
            writeln!(f, "Protocol major versions differ: 2 vs. {major}")?;
            "could not read protocol version"
        }
        _ => {
            writeln!(f, "Bad remote protocol version identification: '{line}'")?;
            "invalid format"
        }
    };
    write!(f, "banner exchange: Connection to {peer}: {reason}")
}

fn lost(f: &mut fmt::Formatter<'_>, peer: &Peer, error: &DriverError) -> fmt::Result {
    match error {
        DriverError::Proto(proto::Error::Disconnected {
            reason,
            description,
        }) => write!(
            f,
            "Received disconnect from {peer}:{reason}: {}\nDisconnected from {peer}",
            one_line(description)
        ),
        DriverError::Proto(proto::Error::TimedOut(_)) => {
            write!(
                f,
                "Timeout, server {} not responding.",
                one_line(&peer.host)
            )
        }
        DriverError::Proto(error) => {
            write!(f, "ssh: {peer}: {}", one_line(&error.to_string()))
        }
        DriverError::Io(error) if error.kind() == io::ErrorKind::BrokenPipe => {
            write!(f, "client_loop: send disconnect: Broken pipe")
        }
        DriverError::Io(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            write!(f, "Connection closed by {peer}")
        }
        DriverError::Io(error) if error.kind() == io::ErrorKind::ConnectionReset => {
            write!(f, "Connection reset by {peer}")
        }
        DriverError::Io(error) => write!(f, "Connection with {peer} failed: {error}"),
    }
}

impl std::error::Error for ClientError {}
