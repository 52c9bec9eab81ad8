//! Messages between the listener and the monitors and readers that it starts.

use super::reply::HostKey;
use crate::field::{Secret, record};

record! {
    /// The monitor's start record: the body of this message in a sealed memfd
    /// ([`crate::roles::MONITOR_CONFIG_FD`]). The same record serves all connections until a
    /// reload.
    MonitorStart {
        /// The whole configuration with its Match blocks, in `config`'s encoding.
        config: Vec<u8>,
        /// True if log lines go to standard error, not to syslog.
        log_to_stderr: bool,
        /// Log level that overrides the configured one (`-d`, `-q`): 0 for no override, 1 for
        /// quiet, from 2 on [`crate::LogLevel::Fatal`] and the following levels.
        log_override: u32,
        /// Host keys and certificates in the configured order.
        host_keys: Vec<HostKey>,
        /// Empty directory to chroot the auth process to; none when not started as root.
        chroot: Option<String>,
        /// Uid and gid of the auth process; none when not started as root.
        auth_ids: Option<(u32, u32)>,
        /// Path of the socket of HostKeyAgent; none without it.
        host_key_agent: Option<String>,
        /// True if the monitor reports to the listener what the metrics count
        /// ([`crate::roles::MONITOR_REPORTS_FD`]).
        reports: bool,
    }
}

record! {
    /// Secrets of a monitor, kept out of the memfd that others could open: the body of this message
    /// on a pipe ([`crate::roles::MONITOR_KEYS_FD`]).
    MonitorSecrets {
        /// Time at which the connection was accepted, in milliseconds of the monotonic clock; none
        /// for a pre-forked monitor, which gets it with [`MonitorConnection`].
        accepted_ms: Option<u64>,
        /// See [`crate::AuthConnection::greeted`].
        greeted: Option<Vec<u8>>,
        /// See [`MonitorConnection::client`].
        client: Option<(String, u16)>,
        /// 32 random bytes of this listener, from which the monitor derives the step to which it
        /// rounds up the time of refused attempts.
        delay_secret: Secret,
        /// Private host key files without passphrase, ordered by [`HostKey::index`]. An empty one is
        /// that of a key that HostKeyAgent holds.
        private_keys: Vec<Secret>,
    }
}

record! {
    /// The connection of a pre-forked monitor. It is sent with the connection's descriptor on the
    /// socket at [`crate::roles::MONITOR_NEWS_FD`].
    MonitorConnection {
        /// See [`MonitorSecrets`].
        accepted_ms: u64,
        /// See [`crate::AuthConnection::greeted`].
        greeted: Option<Vec<u8>>,
        /// Address and port of the client of a load balancer, as its PROXY header has them; none
        /// if the connection's peer is the client.
        client: Option<(String, u16)>,
    }
}

record! {
    /// Asks a reader for the PROXY header with which a connection begins; the reply is
    /// [`HeaderRead`]. The connection's descriptor is attached.
    ReadHeader {
        /// The listener's number of the connection.
        token: u64,
    }
}

record! {
    /// A PROXY header, or the reason why a connection has none. After a whole header the next byte
    /// of the connection is the client's first.
    HeaderRead {
        /// As in [`ReadHeader`].
        token: u64,
        /// The client's address and port; none if the load balancer speaks for itself, or does not
        /// tell whom it speaks for.
        client: Option<(String, u16)>,
        /// Why the connection must be closed; none after a whole header.
        failure: Option<String>,
    }
}

record! {
    /// Lets a reader answer the request for metrics on a connection, whose descriptor is attached;
    /// no reply.
    AnswerRequest {
        /// The metrics as they are sent.
        text: Vec<u8>,
    }
}

record! {
    /// Attempts to log in on one connection, which the monitor reports to the listener when somebody
    /// has logged in or the connection has ended.
    AttemptsReport {
        /// Numbers of attempts: for each method, those of each outcome.
        counts: Vec<u32>,
    }
}

record! {
    /// What a session has done since its last report, from its monitor to the listener.
    SessionReport {
        /// Bytes read from the client.
        received: u64,
        /// Bytes written to the client.
        sent: u64,
        /// Key exchanges after the first.
        rekeys: u32,
        /// Numbers of channels opened, in the order of [`crate::roles::COUNTED_CHANNELS`].
        channels: Vec<u64>,
    }
}
