//! Why a login or a session ended otherwise than well, and the one sentence for the user.
//!
//! Texts of peers inside are escaped when they are shown.

use std::fmt;
use std::io;
use std::net::SocketAddr;

use driver::DriverError;

use crate::text::one_line;

/// Who is at the other end, for messages.
#[derive(Debug, Clone)]
pub struct Peer {
    /// The host as it is known to the user.
    pub host: String,
    /// The port asked for.
    pub port: u16,
    /// The address connected to; none through a proxy.
    pub address: Option<SocketAddr>,
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

/// A failure of the client. `Display` is what the user reads; it may have several lines.
#[derive(Debug)]
pub enum ClientError {
    /// A sentence that says it all.
    Refused(String),
    /// The host's name has no address.
    Resolve {
        /// The name.
        host: String,
        /// The resolver's words.
        reason: String,
    },
    /// No address of the host could be connected to.
    Connect {
        /// The host.
        host: String,
        /// Its port.
        port: u16,
        /// The reason, of the address that failed last.
        reason: String,
    },
    /// The connection ended before it was secured.
    Handshake {
        /// With whom.
        peer: Peer,
        /// Why.
        error: DriverError,
    },
    /// The server's host key was not accepted; why has been said.
    HostKey,
    /// No method is left to try.
    Denied {
        /// `user@host`.
        who: String,
        /// The methods that the server would still take.
        methods: Vec<String>,
    },
    /// The connection ended after it was secured.
    Lost {
        /// With whom.
        peer: Peer,
        /// Why.
        error: DriverError,
    },
    /// The server closed the connection.
    Closed(Peer),
    /// `ConnectTimeout` passed.
    TimedOut(Peer),
    /// The system refused something that the client needs.
    System {
        /// What was being done.
        what: &'static str,
        /// What the system said.
        error: io::Error,
    },
    /// The connection ended, perhaps because the server's first packet of the key exchange was
    /// guessed: another connection, without a guess, may do better. Holds why it ended.
    Guess(Box<ClientError>),
    /// The connection ended, perhaps because of what was sent ahead of the server's answers:
    /// another one, step by step, may do better. Holds why it ended.
    Ahead(Box<ClientError>),
    /// The connection broke with a command sent ahead on its way: it may have run, so nothing is
    /// tried again. Holds why it ended.
    Unanswered(Box<ClientError>),
    /// Everything has been said already.
    Said,
}

impl ClientError {
    /// For `map_err`: a system error with what was being done.
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
            Self::TimedOut(peer) => {
                write!(
                    f,
                    "Connection to {peer} timed out before the session was secured"
                )
            }
            Self::System { what, error } => write!(f, "ssh: {what}: {error}"),
            Self::Guess(error) | Self::Ahead(error) | Self::Unanswered(error) => error.fmt(f),
            Self::Said => Ok(()),
        }
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
        DriverError::Proto(proto::Error::NotSsh(line)) => write!(
            f,
            "{peer} does not speak SSH-2; it began with: {}",
            one_line(line)
        ),
        DriverError::Proto(proto::Error::HostKeyAuthority) => write!(
            f,
            "The host certificate of {peer} is signed with an algorithm that CASignatureAlgorithms \
             does not permit.\nHost key verification failed."
        ),
        DriverError::Proto(proto::Error::HostKeySignature) => write!(
            f,
            "{peer} could not prove that it holds its host key: its signature is wrong. \
             Someone may be between you and the server."
        ),
        other => lost(f, peer, other),
    }
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
