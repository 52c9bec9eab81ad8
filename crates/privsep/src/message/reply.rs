//! Messages from the monitor.

use wire::permissions::{Permission, Permissions, PermitTarget};
use wire::{DecodeError, Put, Reader};

use super::request::LogLevel;
use crate::field::{Field, record};

record! {
    /// A host key that may be offered to clients.
    HostKey {
        /// Index by which requests name the key. A certificate has the index of its key.
        index: u32,
        /// Public key or certificate blob.
        blob: Vec<u8>,
        /// Host key algorithms that the key supports, in order of preference.
        algorithms: Vec<String>,
    }
}

record! {
    /// The auth process's start record: the body of this message in a sealed memfd
    /// ([`crate::roles::AUTH_START_FD`]), not sent on the socket.
    AuthStart {
        /// Configuration without the options that only the monitor needs, in `config`'s encoding.
        options: Vec<u8>,
        /// Host keys and certificates in the configured order.
        host_keys: Vec<HostKey>,
        /// The connection at [`crate::roles::NETWORK_FD`]; none for a pre-forked process, which
        /// receives an [`AuthConnection`] message once its sandbox is closed.
        connection: Option<AuthConnection>,
        /// Directory to chroot to before the sandbox closes; none when not started as root.
        chroot: Option<String>,
        /// Uid and gid to change to; none when not started as root.
        uid_gid: Option<(u32, u32)>,
        /// The most verbose level that is logged; more verbose lines need not be sent.
        log_level: LogLevel,
        /// LogVerbose: places in the source whose lines are sent at any level.
        log_verbose: Vec<String>,
    }
}

record! {
    /// The connection that the auth process serves. A pre-forked process receives this message
    /// together with the connection's descriptor.
    AuthConnection {
        /// Replaces [`AuthStart`]'s options for this connection; present if these were made before
        /// the connection was accepted and Match blocks give it different values.
        options: Option<Vec<u8>>,
        /// Cookie (16 bytes) of the KEXINIT that the listener has already sent after the version
        /// line; none if the auth process sends both.
        greeted: Option<Vec<u8>>,
        /// The client's address as text.
        remote_address: String,
        /// The client's port.
        remote_port: u16,
        /// The server's address as text.
        local_address: String,
        /// The server's port.
        local_port: u16,
        /// Seconds until the monitor ends an unfinished login; 0 for no limit.
        login_grace_seconds: u32,
    }
}

record! {
    /// Reply to [`crate::ChooseGroup`]; both fields are empty if no group is in the range.
    Group {
        /// Safe prime, big-endian magnitude.
        p: Vec<u8>,
        /// Generator, big-endian magnitude.
        g: Vec<u8>,
    }
}

record! {
    /// Reply to [`crate::SignExchangeHash`].
    Signature {
        /// Signature blob (RFC 4253 §6.6).
        blob: Vec<u8>,
    }
}

record! {
    /// Reply to [`crate::User`]; it has the same shape for users who do not exist.
    UserPolicy {
        /// Methods that can continue.
        methods: Vec<String>,
        /// Banner to send before the first answer.
        banner: Option<String>,
        /// PubkeyAcceptedAlgorithms after Match, for `server-sig-algs` in authentication.
        pubkey_algorithms: Vec<String>,
        /// MaxAuthTries after Match.
        max_auth_tries: u32,
    }
}

/// Reply to each attempt to authenticate (RFC 4252 §5.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuthOutcome {
    /// USERAUTH_FAILURE, partial success false.
    Failure {
        /// Methods that can continue.
        methods: Vec<String>,
    },
    /// USERAUTH_FAILURE, partial success true.
    Partial {
        /// Methods that can continue.
        methods: Vec<String>,
    },
    /// USERAUTH_SUCCESS; the auth process sends [`crate::Snapshot`] next.
    Success,
    /// DISCONNECT: the client exceeded MaxAuthTries.
    TooManyFailures,
    /// As [`AuthOutcome::Failure`], if account management denies the user access.
    Denied {
        /// Methods that can continue.
        methods: Vec<String>,
        /// PAM's message about the denial, sent as a banner before the answer; may be empty.
        said: String,
    },
}

impl Field for AuthOutcome {
    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(match reader.u8()? {
            0 => Self::Failure {
                methods: Field::read(reader)?,
            },
            1 => Self::Partial {
                methods: Field::read(reader)?,
            },
            2 => Self::Success,
            3 => Self::TooManyFailures,
            4 => Self::Denied {
                methods: Field::read(reader)?,
                said: Field::read(reader)?,
            },
            _ => return Err(DecodeError::Malformed("unknown outcome")),
        })
    }
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Failure { methods } => {
                out.put_u8(0);
                methods.write(out);
            }
            Self::Partial { methods } => {
                out.put_u8(1);
                methods.write(out);
            }
            Self::Success => out.put_u8(2),
            Self::TooManyFailures => out.put_u8(3),
            Self::Denied { methods, said } => {
                out.put_u8(4);
                methods.write(out);
                said.write(out);
            }
        }
    }
}

record! {
    /// One prompt of `keyboard-interactive`.
    Prompt {
        /// Text to show.
        text: String,
        /// True if the answer may be shown while the user types it.
        echo: bool,
    }
}

record! {
    /// Content of USERAUTH_INFO_REQUEST (RFC 4256 §3.2).
    KbdintPrompts {
        /// Name of the request.
        name: String,
        /// Instruction to the user.
        instruction: String,
        /// Prompts; may be empty.
        prompts: Vec<Prompt>,
    }
}

record! {
    /// Reply to [`crate::GssapiStart`] and [`crate::GssapiToken`]: the exchange goes on.
    GssapiReady {
        /// The token for the client; empty if there is none.
        token: Vec<u8>,
    }
}

/// Reply to [`crate::GssExchange`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GssOutcome {
    /// KEXGSS_CONTINUE: the context needs a further token of the client.
    Continue {
        /// The token for the client.
        token: Vec<u8>,
    },
    /// KEXGSS_COMPLETE.
    Complete {
        /// The last token; empty if there is none.
        token: Vec<u8>,
        /// The MIC of the exchange hash.
        mic: Vec<u8>,
    },
    /// KEXGSS_ERROR.
    Refused {
        /// The mechanism's error token; empty if there is none.
        token: Vec<u8>,
    },
}

impl Field for GssOutcome {
    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(match reader.u8()? {
            0 => Self::Continue {
                token: Field::read(reader)?,
            },
            1 => Self::Complete {
                token: Field::read(reader)?,
                mic: Field::read(reader)?,
            },
            2 => Self::Refused {
                token: Field::read(reader)?,
            },
            _ => return Err(DecodeError::Malformed("unknown outcome")),
        })
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Continue { token } => {
                out.put_u8(0);
                token.write(out);
            }
            Self::Complete { token, mic } => {
                out.put_u8(1);
                token.write(out);
                mic.write(out);
            }
            Self::Refused { token } => {
                out.put_u8(2);
                token.write(out);
            }
        }
    }
}

record! {
    /// A token that tells the client of a failure; the [`AuthOutcome`] follows.
    GssapiErrorToken {
        /// The token.
        token: Vec<u8>,
    }
}

record! {
    /// Reply to [`crate::KeyQuery`].
    KeyAnswer {
        /// True if the auth process shall send USERAUTH_PK_OK; false if the query counted as a
        /// failure.
        acceptable: bool,
        /// Methods that can continue, for USERAUTH_FAILURE.
        methods: Vec<String>,
        /// True if that failure exceeded MaxAuthTries: DISCONNECT.
        too_many_failures: bool,
    }
}

record! {
    /// Rights that a key's options or a certificate remove. The configuration's `Permit*` options
    /// may remove more; nothing restores a right.
    Restrictions {
        /// The features that it leaves.
        permissions: Permissions,
        /// `permitopen`: if not empty, the only destinations of local forwarding.
        permit_open: Vec<PermitTarget>,
        /// `permitlisten`: if not empty, the only addresses of remote forwarding.
        permit_listen: Vec<PermitTarget>,
    }
}

impl Restrictions {
    /// True if the key or certificate leaves the feature.
    #[must_use]
    pub fn permits(&self, permission: Permission) -> bool {
        self.permissions.permits(permission)
    }

    /// No restrictions.
    #[must_use]
    pub fn none() -> Self {
        Self {
            permissions: Permissions::ALL,
            permit_open: Vec::new(),
            permit_listen: Vec::new(),
        }
    }
}

record! {
    /// The user's previous login.
    LastLogin {
        /// Time of the login, in seconds since 1970.
        time: u64,
        /// The client's host; empty if it was not recorded.
        host: String,
    }
}

record! {
    /// Facts that the session process must not take from the snapshot. The monitor sends this once,
    /// before the [`crate::Snapshot`].
    SessionGrant {
        /// Canonical user name.
        user: String,
        /// Uid to change to.
        uid: u32,
        /// Gid of the primary group.
        gid: u32,
        /// Supplementary groups, including the primary group.
        groups: Vec<u32>,
        /// Home directory.
        home: String,
        /// Login shell; never empty.
        shell: String,
        /// True if the process runs as root and must change to the user; false if it already runs
        /// as the user.
        change_user: bool,
        /// ChrootDirectory with its tokens expanded; the session process checks it before use.
        chroot: Option<String>,
        /// Command to run instead of the client's (from ForceCommand, a key option or a
        /// certificate).
        forced_command: Option<String>,
        /// Rights that the key or certificate removes.
        restrictions: Restrictions,
        /// Variables from `environment=` options of the key line, filtered by
        /// PermitUserEnvironment.
        key_environment: Vec<(String, String)>,
        /// Variables set by PAM modules, and `KRB5CCNAME` of delegated credentials.
        pam_environment: Vec<(String, String)>,
        /// Session identifier: the first exchange hash.
        session_id: Vec<u8>,
        /// The client's address as text.
        remote_address: String,
        /// The client's port.
        remote_port: u16,
        /// The server's address as text.
        local_address: String,
        /// The server's port.
        local_port: u16,
        /// The client's version line without line end, as the auth process reported it.
        client_version: String,
        /// Configuration after Match, in `config`'s encoding.
        options: Vec<u8>,
        /// Host keys and certificates.
        host_keys: Vec<HostKey>,
        /// Messages of PAM modules (such as the message of the day), for display in a login shell.
        login_messages: String,
        /// True if PAM shows the message of the day, so that the session process must not.
        pam_shows_motd: bool,
        /// One line per completed authentication method, for ExposeAuthInfo.
        auth_info: String,
        /// The most verbose level that is logged.
        log_level: LogLevel,
        /// LogVerbose: places in the source whose lines are sent at any level.
        log_verbose: Vec<String>,
        /// True if the password has expired: only `passwd` may run, on a pty.
        password_expired: bool,
        /// SELinux context of the programs that the session starts; none where SELinux is off.
        selinux_context: Option<String>,
    }
}

record! {
    /// Reply to [`crate::HostkeysProve`]: one signature per key, in the order of the request.
    HostkeysProof {
        /// Signature blobs; empty if the rate limit was exceeded.
        signatures: Vec<Vec<u8>>,
    }
}

record! {
    /// Reply to [`crate::PtyAllocate`].
    PtyGranted {
        /// Path of the slave device.
        tty: String,
        /// The user's previous login; none unless PrintLastLog is on.
        last_login: Option<LastLogin>,
    }
}

record! {
    /// Reply to [`crate::PtyAllocate`] if no pseudo-terminal could be allocated.
    PtyRefused {
        /// Reason for the log.
        reason: String,
    }
}

record! {
    /// Reply to [`crate::TunnelOpen`].
    TunnelGranted {
        /// Name of the network interface.
        interface: String,
    }
}

record! {
    /// Reply to [`crate::TunnelOpen`] if there is no device for the user.
    TunnelRefused {
        /// Reason for the log.
        reason: String,
    }
}
