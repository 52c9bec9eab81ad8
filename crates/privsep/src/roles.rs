//! The command-line words and descriptor numbers that a role of the server inherits at exec.
//! Standard input and output are /dev/null; standard error receives messages until the RPC is up.

use wire::names;

/// First argument of the monitor, the privileged process that serves one connection.
pub const ROLE_MONITOR: &str = "sshd-monitor";
/// First argument of the auth process, which serves a client until it has logged in.
pub const ROLE_AUTH: &str = "sshd-auth";
/// First argument of the session process, which serves a client after its login.
pub const ROLE_SESSION: &str = "sshd-session";
/// The name of the monitor and the session process in `ps`, with which their titles begin: as of OpenSSH's process for a
/// connection, since 9.8. Scripts look for it above a command.
pub const PROCESS_NAME: &str = "sshd-session";
/// Second argument of the monitor and the session process: room for their titles, which are written over the arguments. A
/// name of 32 letters fits, with a terminal.
pub const TITLE_ROOM: &str = "                                                ";
/// First argument of a reader, which reads what the listener needs to know and must not read: the
/// PROXY headers of load balancers, and requests for metrics. Its further arguments are the empty
/// directory, uid and gid of its sandbox; none when not started as root.
pub const ROLE_READER: &str = "sshd-reader";

/// First argument of a recorder, which writes the output of a terminal to a file. Its further arguments
/// are the empty directory, uid and gid of its sandbox.
pub const ROLE_RECORDER: &str = "sshd-recorder";

/// The network socket, in every role. The monitor holds it but never reads from it. A pre-forked
/// monitor and its auth process receive it later, attached to a message.
pub const NETWORK_FD: i32 = 3;

/// Monitor: pipe on which it reports the state of the connection to the listener, one byte per
/// [`ConnectionNews`]. For a pre-forked monitor it is a socket, on which the connection arrives.
pub const MONITOR_NEWS_FD: i32 = 4;
/// Monitor: sealed memfd with the configuration, without secrets.
pub const MONITOR_CONFIG_FD: i32 = 5;
/// Monitor: pipe from which it reads the private host keys once.
pub const MONITOR_KEYS_FD: i32 = 6;
/// Monitor: the server's own executable, opened when the listener started.
pub const MONITOR_BINARY_FD: i32 = 7;

/// Monitor: pipe on which it reports to the listener what the metrics count; only with metrics
/// ([`crate::MonitorStart::reports`]). All monitors share it, so that each message is written at
/// once, in at most [`MAX_REPORT_BYTES`].
pub const MONITOR_REPORTS_FD: i32 = 8;
/// Longest message on [`MONITOR_REPORTS_FD`], in bytes: the kernel writes it as a whole (PIPE_BUF).
pub const MAX_REPORT_BYTES: usize = 4096;

/// Auth and session: the stream socket to the monitor.
pub const RPC_FD: i32 = 4;
/// Auth: sealed memfd that holds one [`crate::AuthStart`] body (no frame header).
pub const AUTH_START_FD: i32 = 5;
/// Session: the server's own executable, for its built-in subsystems.
pub const SESSION_BINARY_FD: i32 = 5;

/// Reader: the socket to the listener, which keeps message boundaries.
pub const READER_SOCKET_FD: i32 = 3;
/// Longest message to a reader, in bytes.
pub const MAX_READER_MESSAGE_BYTES: usize = 64 * 1024;
/// The answer to a request for metrics that no reader can take, by the listener or a full reader
/// (RFC 9110 §15.6.4). A reader gives up requests that are not whole after five seconds.
pub const METRICS_REFUSAL: &[u8] = b"HTTP/1.0 503 Service Unavailable\r\n\
    Content-Type: text/plain\r\nContent-Length: 66\r\nRetry-After: 5\r\nConnection: close\r\n\r\n\
    too many requests for metrics at once; ask again in a few seconds\n";

/// Recorder: the pipe from the session process.
pub const RECORDER_PIPE_FD: i32 = 3;
/// Bytes that this pipe holds, and that a recorder reads at once.
pub const RECORDER_PIPE_BYTES: usize = 512 * 1024;
/// Recorder: the new file.
pub const RECORDER_FILE_FD: i32 = 4;

/// The types of channels that [`crate::TrafficReport`] counts, in its order.
pub const COUNTED_CHANNELS: [&str; 12] = [
    names::CHANNEL_SESSION,
    names::CHANNEL_DIRECT_TCPIP,
    names::CHANNEL_FORWARDED_TCPIP,
    names::CHANNEL_DIRECT_STREAMLOCAL,
    names::CHANNEL_FORWARDED_STREAMLOCAL,
    names::CHANNEL_DIRECT_UDP,
    names::CHANNEL_FORWARDED_UDP,
    names::CHANNEL_TUN,
    names::CHANNEL_TUN_SEGMENTS,
    names::CHANNEL_X11,
    names::CHANNEL_AGENT_OPENSSH,
    names::CHANNEL_AGENT,
];

/// Exit statuses of the auth process and of recorders, which tell the monitor how they ended.
pub mod exit {
    /// The client disconnected or broke the protocol, or the login was handed over.
    pub const DONE: i32 = 0;
    /// An operation of the server failed.
    pub const FAILED: i32 = 1;
    /// The start record or the sandbox failed. The process neither read from nor wrote to the
    /// client, so that no client can cause this status.
    pub const NOT_STARTED: i32 = 2;
    /// The file system or quota of a recording is full.
    pub const NO_SPACE: i32 = 3;
}

/// A report from the monitor to the listener, one byte on [`MONITOR_NEWS_FD`]. If the pipe closes
/// without [`ConnectionNews::Authenticated`], the connection ended before a login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionNews {
    /// The client has logged in; it no longer counts as a start-up for MaxStartups.
    Authenticated,
    /// The client failed to authenticate and disconnected.
    AuthenticationFailed,
    /// As [`ConnectionNews::AuthenticationFailed`], for a user who does not exist.
    InvalidUser,
    /// The client disconnected without an attempt to authenticate.
    NoAttempt,
    /// The client did not log in within LoginGraceTime.
    GraceExceeded,
    /// The unprivileged process was killed by a signal or violated the RPC.
    Crashed,
    /// The configuration refuses this client (RefuseConnection).
    Refused,
    /// The client was not served because of a fault of the server.
    NotServed,
    /// The client reset the connection before the monitor read its address.
    Gone,
}

impl ConnectionNews {
    /// All reports.
    pub const ALL: [Self; 9] = [
        Self::Authenticated,
        Self::AuthenticationFailed,
        Self::InvalidUser,
        Self::NoAttempt,
        Self::GraceExceeded,
        Self::Crashed,
        Self::Refused,
        Self::NotServed,
        Self::Gone,
    ];

    /// Encodes the report as its byte on the pipe.
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

    /// Decodes a byte of the pipe; `None` for an unknown one.
    #[must_use]
    pub fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|news| news.byte() == byte)
    }
}

#[cfg(test)]
mod tests {
    use super::METRICS_REFUSAL;

    #[test]
    fn the_refusal_tells_its_length() {
        let text = str::from_utf8(METRICS_REFUSAL).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let length = format!("Content-Length: {}", body.len());
        assert!(head.lines().any(|line| line == length), "{head}");
    }
}
