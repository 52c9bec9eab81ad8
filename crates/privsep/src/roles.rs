//! What a role of the server finds when it is executed: the words of its command line and the
//! numbers of the descriptors that it inherits. Standard input, output and error are
//! /dev/null, /dev/null and the place for messages before the RPC is up.

/// First argument of the process that serves one connection with privileges.
pub const ROLE_MONITOR: &str = "sshd-monitor";
/// First argument of the process that speaks to a client that is not logged in.
pub const ROLE_AUTH: &str = "sshd-auth";
/// First argument of the process that serves a client that is logged in.
pub const ROLE_SESSION: &str = "sshd-session";

/// The network socket, in every role. The monitor holds it but never reads it. A monitor and an
/// auth process that were started ahead of a connection get it later, beside a message.
pub const NETWORK_FD: i32 = 3;

/// Monitor: pipe on which it tells the listener how the connection goes, one byte each
/// ([`ConnectionNews`]). A socket where its connection is to come by it.
pub const MONITOR_NEWS_FD: i32 = 4;
/// Monitor: sealed memfd with the configuration, without secrets.
pub const MONITOR_CONFIG_FD: i32 = 5;
/// Monitor: pipe from which the private host keys are read once.
pub const MONITOR_KEYS_FD: i32 = 6;
/// Monitor: our own executable, opened when the listener started.
pub const MONITOR_BINARY_FD: i32 = 7;

/// Auth and session: the stream socket to the monitor.
pub const RPC_FD: i32 = 4;
/// Auth: sealed memfd holding one [`crate::AuthStart`] body (no frame header).
pub const AUTH_START_FD: i32 = 5;
/// Session: our own executable, for subsystems that are part of it.
pub const SESSION_BINARY_FD: i32 = 5;

/// Exit statuses by which the auth process tells the monitor how it ended.
pub mod exit {
    /// The client left or broke a rule, or the login was handed over.
    pub const DONE: i32 = 0;
    /// Something failed on our side.
    pub const FAILED: i32 = 1;
    /// It could not begin: the start record or the sandbox failed, and the client was neither
    /// heard nor answered. Nothing that a client sends leads here.
    pub const NOT_STARTED: i32 = 2;
}

/// What the monitor tells the listener, as one byte on [`MONITOR_NEWS_FD`]. The pipe's end
/// without [`ConnectionNews::Authenticated`] means the connection ended before a login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionNews {
    /// The client has logged in: it no longer counts as a start-up.
    Authenticated,
    /// The client failed to authenticate and left.
    AuthenticationFailed,
    /// As [`ConnectionNews::AuthenticationFailed`], for a user who does not exist.
    InvalidUser,
    /// The client left without trying to authenticate.
    NoAttempt,
    /// The client did not log in within LoginGraceTime.
    GraceExceeded,
    /// The unprivileged process was killed by a signal or broke the RPC's rules.
    Crashed,
    /// The configuration refuses this client (RefuseConnection).
    Refused,
    /// The client was not served, for a fault of our own.
    NotServed,
    /// The client had reset the connection before anybody asked who it was.
    Gone,
}

impl ConnectionNews {
    /// The byte on the pipe.
    #[must_use]
    pub fn byte(self) -> u8 {
        match self {
            Self::Authenticated => b'a',
            Self::AuthenticationFailed => b'f',
            Self::InvalidUser => b'i',
            Self::NoAttempt => b'n',
            Self::GraceExceeded => b'g',
            Self::Crashed => b'c',
            Self::Refused => b'r',
            Self::NotServed => b'o',
            Self::Gone => b'x',
        }
    }

    /// The news that `byte` stands for.
    #[must_use]
    pub fn from_byte(byte: u8) -> Option<Self> {
        [
            Self::Authenticated,
            Self::AuthenticationFailed,
            Self::InvalidUser,
            Self::NoAttempt,
            Self::GraceExceeded,
            Self::Crashed,
            Self::Refused,
            Self::NotServed,
            Self::Gone,
        ]
        .into_iter()
        .find(|news| news.byte() == byte)
    }
}
