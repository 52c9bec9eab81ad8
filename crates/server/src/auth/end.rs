//! How a connection ended before a login, and the line that the log gets for it (the monitor adds
//! `[preauth]`); the wording is
//! the one that log watchers (fail2ban and its like) know from OpenSSH.

use std::fmt;
use std::io;

use privsep::{LogLevel, roles};

use crate::log::Logger;
use crate::rpc::RpcError;

/// Why the process ends.
#[derive(Debug)]
pub(super) enum End {
    /// The client closed the connection or the network did.
    Closed,
    /// The socket failed.
    Io(io::Error),
    /// The protocol cannot go on.
    Proto(proto::Error),
    /// The monitor cannot be asked.
    Rpc(RpcError),
    /// LoginGraceTime is over.
    GraceExceeded,
    /// The monitor counted MaxAuthTries failures.
    TooManyFailures,
    /// The client changed its mind about who it is (RFC 4252 §5 lets a server refuse that).
    UserChanged,
    /// A service other than `ssh-connection` was asked for.
    UnknownService,
}

impl End {
    /// What the client is told (RFC 4253 §11.1), if anything.
    pub(super) fn disconnect(&self) -> Option<(u32, &'static str)> {
        use wire::message::reason;
        match self {
            Self::TooManyFailures => {
                Some((reason::PROTOCOL_ERROR, "Too many authentication failures"))
            }
            Self::UserChanged => Some((
                reason::PROTOCOL_ERROR,
                "Change of username or service not allowed",
            )),
            Self::UnknownService => Some((reason::SERVICE_NOT_AVAILABLE, "service not available")),
            Self::Proto(error) => error.disconnect_reason(),
            Self::Closed | Self::Io(_) | Self::Rpc(_) | Self::GraceExceeded => None,
        }
    }

    /// The exit status that tells the monitor whose fault it was.
    pub(super) fn exit_status(&self) -> i32 {
        match self {
            Self::Rpc(_) | Self::Proto(proto::Error::Bug(_) | proto::Error::Misuse(_)) => {
                roles::exit::FAILED
            }
            _ => roles::exit::DONE,
        }
    }

    /// Writes the line for it.
    pub(super) fn log(&self, log: &Logger<'_>, peer: &str, user: Option<&[u8]>) {
        let who = match user {
            Some(user) => format!(
                "authenticating user {} {peer}",
                String::from_utf8_lossy(user)
            ),
            None => peer.to_owned(),
        };
        match self {
            Self::Closed => log.info(&format!("Connection closed by {who}")),
            Self::Proto(proto::Error::Disconnected {
                reason,
                description,
            }) => {
                log.info(&format!(
                    "Received disconnect from {peer}:{reason}: {description}"
                ));
                log.info(&format!("Disconnected from {who}"));
            }
            Self::Proto(error @ proto::Error::NoCommonAlgorithm { .. }) => {
                log.info(&format!("Unable to negotiate with {peer}: {error}"));
            }
            Self::Proto(proto::Error::NotSsh(line)) => {
                log.info(&format!(
                    "Bad protocol version identification '{line}' from {peer}"
                ));
            }
            Self::TooManyFailures => log.line(
                LogLevel::Error,
                &format!("error: maximum authentication attempts exceeded for {who}"),
            ),
            Self::GraceExceeded => log.info(&format!("Timeout before authentication for {who}")),
            Self::Io(_)
            | Self::Proto(_)
            | Self::Rpc(_)
            | Self::UserChanged
            | Self::UnknownService => {
                log.info(&format!("Connection from {who}: {self}"));
            }
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("closed by the client"),
            Self::Io(error) => error.fmt(f),
            Self::Proto(error) => error.fmt(f),
            Self::Rpc(error) => error.fmt(f),
            Self::GraceExceeded => f.write_str("not logged in within LoginGraceTime"),
            Self::TooManyFailures => f.write_str("too many authentication failures"),
            Self::UserChanged => f.write_str("change of user name or service"),
            Self::UnknownService => f.write_str("a service that is not served"),
        }
    }
}

impl From<proto::Error> for End {
    fn from(error: proto::Error) -> Self {
        Self::Proto(error)
    }
}

impl From<RpcError> for End {
    fn from(error: RpcError) -> Self {
        Self::Rpc(error)
    }
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => Self::Closed,
            _ => Self::Io(error),
        }
    }
}
