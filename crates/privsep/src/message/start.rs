//! What the listener gives a monitor at its start.

use super::reply::HostKey;
use crate::field::{Secret, record};

record! {
    /// What the monitor starts with: the body of this message in a sealed memfd
    /// ([`crate::roles::MONITOR_CONFIG_FD`]), one for all connections until a reload.
    MonitorStart {
        /// The whole configuration with its Match blocks, in `config`'s encoding.
        config: Vec<u8>,
        /// Lines go to standard error and not to syslog.
        log_to_stderr: bool,
        /// Level in force instead of the configured one (`-d`, `-q`): 0 for none, else 1 for
        /// quiet and 2 upwards for [`LogLevel::Fatal`] upwards.
        log_override: u32,
        /// Host keys and certificates in the configured order.
        host_keys: Vec<HostKey>,
        /// Empty directory for the auth process; none when not started as root.
        chroot: Option<String>,
        /// Uid and gid of the auth process; none when not started as root.
        auth_ids: Option<(u32, u32)>,
    }
}

record! {
    /// What must not stand in a file that others could open: the body of this message on a
    /// pipe ([`crate::roles::MONITOR_KEYS_FD`]).
    MonitorSecrets {
        /// When the connection was accepted, milliseconds of the monotonic clock; none where it
        /// is still to come, by [`MonitorConnection`].
        accepted_ms: Option<u64>,
        /// As in [`crate::AuthConnection::greeted`].
        greeted: Option<Vec<u8>>,
        /// 32 random bytes of this listener, for delays that do not average out.
        delay_secret: Secret,
        /// Private host key files without passphrase, by [`HostKey::index`].
        private_keys: Vec<Secret>,
    }
}

record! {
    /// The connection of a monitor that was started ahead of it, with its descriptor, on the
    /// socket that is [`crate::roles::MONITOR_NEWS_FD`] then.
    MonitorConnection {
        /// As in [`MonitorSecrets`].
        accepted_ms: u64,
        /// As in [`crate::AuthConnection::greeted`].
        greeted: Option<Vec<u8>>,
    }
}
