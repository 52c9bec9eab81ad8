//! Reasons why a connection ended before a login, and their log lines, to which the monitor adds
//! `[preauth]`. The wording is OpenSSH's, which log watchers (fail2ban and others) match.

use std::fmt;
use std::io;

use privsep::{LogLevel, roles};

use crate::log::Logger;
use crate::rpc::RpcError;

/// Why the process ends.
#[derive(Debug)]
pub(super) enum AuthEnd {
    /// The client closed the connection.
    Closed,
    /// The client or the network reset the connection.
    Reset,
    /// The socket failed.
    Io(io::Error),
    /// The protocol failed.
    Proto(proto::Error),
    /// The RPC failed.
    Rpc(RpcError),
    /// LoginGraceTime has passed.
    GraceExceeded,
    /// The monitor counted MaxAuthTries failures.
    TooManyFailures,
    /// The client changed the user name or service, which a server may refuse (RFC 4252 §5). The
    /// text has both, for the log.
    UserChanged(String),
    /// The client requested a service other than `ssh-connection`.
    UnknownService,
}

impl AuthEnd {
    /// Reason code and text of the DISCONNECT to send (RFC 4253 §11.1), if any.
    pub(super) fn disconnect(&self) -> Option<(u32, &'static str)> {
        use wire::message::reason;
        match self {
            Self::TooManyFailures => {
                Some((reason::PROTOCOL_ERROR, "Too many authentication failures"))
            }
            Self::UserChanged(_) => Some((
                reason::PROTOCOL_ERROR,
                "Change of username or service not allowed",
            )),
            Self::UnknownService => Some((reason::SERVICE_NOT_AVAILABLE, "service not available")),
            Self::Proto(error) => error.disconnect_reason(),
            Self::Closed | Self::Reset | Self::Io(_) | Self::Rpc(_) | Self::GraceExceeded => None,
        }
    }

    /// The exit status, which distinguishes a failure of the server from one of the client.
    pub(super) fn exit_status(&self) -> i32 {
        match self {
            Self::Rpc(_) | Self::Proto(proto::Error::Bug(_) | proto::Error::Misuse(_)) => {
                roles::exit::FAILED
            }
            _ => roles::exit::DONE,
        }
    }

    /// Writes the log lines. The monitor inserts the user.
    pub(super) fn log(&self, log: &Logger<'_>, peer: &str) {
        let about = |before: &str, after: &str| log.last_words(LogLevel::Info, before, after);
        match self {
            Self::Closed => about("Connection closed by ", ""),
            Self::Reset => about("Connection reset by ", ""),
            Self::Proto(proto::Error::Disconnected {
                reason,
                description,
            }) => {
                log.disconnect(peer, *reason, description);
                about("Disconnected from ", "");
            }
            Self::Proto(error @ proto::Error::NoCommonAlgorithm { .. }) => {
                log.info(&format!("Unable to negotiate with {peer}: {error}"));
            }
            Self::Proto(proto::Error::NotSsh(line)) => log_no_version(log, peer, line),
            // The monitor has logged it.
            Self::TooManyFailures => {}
            Self::UserChanged(how) => about(
                "Disconnecting ",
                &format!(": Change of username or service not allowed: {how}"),
            ),
            // The monitor and the listener log the same line when they end the connection.
            Self::GraceExceeded => log.line(
                LogLevel::Fatal,
                &format!("Timeout before authentication for {peer}"),
            ),
            Self::Io(_) | Self::Proto(_) | Self::Rpc(_) | Self::UnknownService => {
                about(
                    "ssh_dispatch_run_fatal: Connection from ",
                    &format!(": {self}"),
                );
            }
        }
    }
}

/// Logs a first line that is not an SSH-2 version line.
fn log_no_version(log: &Logger<'_>, peer: &str, line: &str) {
    let version = line.strip_prefix("SSH-").map(|rest| rest.split('.').next());
    let why = match version {
        Some(Some(major)) => {
            log.error(&format!("Protocol major versions differ: 2 vs. {major}"));
            "could not read protocol version"
        }
        _ => {
            log.error(&format!(
                "kex_exchange_identification: client sent invalid protocol identifier \"{line}\""
            ));
            "invalid format"
        }
    };
    log.info(&format!("banner exchange: Connection from {peer}: {why}"));
}

impl fmt::Display for AuthEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("closed by the client"),
            Self::Reset => f.write_str("reset by the client"),
            Self::Io(error) => error.fmt(f),
            Self::Proto(error) => error.fmt(f),
            Self::Rpc(error) => error.fmt(f),
            Self::GraceExceeded => f.write_str("not logged in within LoginGraceTime"),
            Self::TooManyFailures => f.write_str("too many authentication failures"),
            Self::UserChanged(_) => f.write_str("change of user name or service"),
            Self::UnknownService => f.write_str("a service that is not served"),
        }
    }
}

impl From<proto::Error> for AuthEnd {
    fn from(error: proto::Error) -> Self {
        Self::Proto(error)
    }
}

impl From<RpcError> for AuthEnd {
    fn from(error: RpcError) -> Self {
        Self::Rpc(error)
    }
}

impl From<io::Error> for AuthEnd {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::ConnectionReset => Self::Reset,
            io::ErrorKind::BrokenPipe => Self::Closed,
            _ => Self::Io(error),
        }
    }
}
