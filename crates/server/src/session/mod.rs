//! The session process, which serves a client that has logged in, as its user.
//!
//! The process starts with the monitor's privileges, irreversibly becomes the user ([`start`]), and
//! only then reads the snapshot of the connection. [`serve`] is its loop; [`channel`] a session
//! channel (RFC 4254 §6) and [`forward`] a `direct-tcpip` channel,
//! [`takeover`] the port of a connection whose client is lost. For a command: [`command`] (what
//! to run), [`environment`], [`stdio`] and [`terminal`] (its streams), [`launch`] (its start),
//! [`agent`] (the socket of a forwarded agent), [`text`] (messages before it) and [`exit`] (its exit status). [`sftp`] serves files in this
//! process, without a command.
//!
//! Invariant: user, forced command, restrictions and environment come from the monitor's
//! `SessionGrant`; the snapshot decides no permission.

mod accelerate;
mod agent;
mod channel;
mod chroot;
mod command;
mod context;
mod environment;
mod exit;
mod forward;
mod launch;
mod permits;
mod serve;
mod sftp;
mod start;
mod stdio;
mod takeover;
mod terminal;
mod text;
mod title;
mod token;
mod x11;

use std::fmt;
use std::io;

use privsep::{LogLevel, roles};
use sys::signals::Signal;

use crate::log::Logger;
use crate::rpc::{Rpc, RpcError};

/// Runs the role `sshd-session`; returns its exit status.
#[must_use]
pub fn session_main() -> i32 {
    sys::signals::began_with_defaults();
    let _ = sys::process::set_name(roles::PROCESS_NAME);
    let rpc = match sys::io::inherited(roles::RPC_FD) {
        Ok(socket) => Rpc::for_this_process(socket),
        Err(error) => {
            eprintln!(
                "{}: descriptor {}: {error}",
                roles::ROLE_SESSION,
                roles::RPC_FD
            );
            return roles::exit::FAILED;
        }
    };
    let (serve, log, who) = match start::begin(rpc) {
        Ok(started) => started,
        Err(error) => {
            Logger::new(rpc, LogLevel::Fatal).line(
                LogLevel::Fatal,
                &format!("cannot start the session: {error}"),
            );
            return roles::exit::FAILED;
        }
    };
    if let Err(error) = serve.run() {
        error.log(&log, &who);
    }
    // A disk that does not answer may keep this process and its open files in the kernel; the
    // monitor must not wait for that.
    rpc.finish();
    roles::exit::DONE
}

/// Why a session has ended.
#[derive(Debug)]
pub(crate) enum SessionError {
    /// The client closed the connection.
    PeerClosed,
    /// The network failed.
    Network(io::Error),
    /// The protocol failed.
    Proto(proto::Error),
    /// A system call of this process failed.
    Local(io::Error),
    /// The RPC failed.
    Rpc(RpcError),
    /// The monitor closed its end.
    MonitorGone,
    /// No channel was open for UnusedConnectionTimeout.
    Unused,
    /// This process was told to end, by this signal.
    Signalled(Signal),
    /// The session could not start; the text says why.
    Start(String),
    /// A session was opened after `no-more-sessions@openssh.com`.
    SessionAfterLast,
    /// The client is silent, and a new connection of its key has its port.
    PortTaken,
}

impl SessionError {
    fn log(&self, log: &Logger<'_>, who: &Who) {
        let Who { user, peer } = who;
        match self {
            Self::PeerClosed => {
                log.info(&format!("Connection closed by {peer}"));
                log.verbose(&format!("Closing connection to {peer}"));
            }
            Self::Network(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                log.info(&format!("Connection closed by {peer}"));
            }
            Self::Network(error) => {
                log.verbose(&format!("Read error from remote host {peer}: {error}"));
            }
            Self::Proto(proto::Error::Disconnected {
                reason,
                description,
            }) => {
                log.disconnect(peer, *reason, description);
                log.info(&format!("Disconnected from user {user} {peer}"));
            }
            Self::Proto(proto::Error::TimedOut(_)) => {
                log.info(&format!(
                    "Timeout, client not responding from user {user} {peer}"
                ));
            }
            Self::Unused => {
                log.info(&format!(
                    "terminating inactive connection from user {user} {peer}"
                ));
            }
            other => log.info(&format!("Connection from user {user} {peer}: {other}")),
        }
    }
}

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PeerClosed => f.write_str("closed by the client"),
            Self::Network(error) | Self::Local(error) => error.fmt(f),
            Self::Proto(error) => error.fmt(f),
            Self::Rpc(error) => error.fmt(f),
            Self::MonitorGone => f.write_str("ended by the monitor"),
            Self::Unused => f.write_str("unused for UnusedConnectionTimeout"),
            Self::Signalled(signal) => write!(f, "exiting on signal {}", signal.as_raw()),
            Self::Start(what) => f.write_str(what),
            Self::PortTaken => f.write_str(
                "client not responding; a new connection of the same key has taken its port",
            ),
            Self::SessionAfterLast => {
                f.write_str("a session was opened after the last one was announced")
            }
        }
    }
}

impl std::error::Error for SessionError {}

impl From<proto::Error> for SessionError {
    fn from(error: proto::Error) -> Self {
        Self::Proto(error)
    }
}

impl From<RpcError> for SessionError {
    fn from(error: RpcError) -> Self {
        Self::Rpc(error)
    }
}

impl From<io::Error> for SessionError {
    fn from(error: io::Error) -> Self {
        Self::Local(error)
    }
}

/// User and peer for log lines.
pub(crate) struct Who {
    user: String,
    peer: String,
}
