//! What the monitor sends.

use wire::{DecodeError, Put, Reader};

use super::request::LogLevel;
use crate::field::{Field, record};

record! {
    /// One host key that a client may be offered.
    HostKey {
        /// By which requests name it. A certificate has the index of its key.
        index: u32,
        /// Public key or certificate blob.
        blob: Vec<u8>,
        /// Host key algorithm names that it serves, in order of preference.
        algorithms: Vec<String>,
    }
}

record! {
    /// What the auth process starts with: the body of this message in a sealed memfd
    /// ([`crate::roles::AUTH_START_FD`]), not sent on the socket.
    AuthStart {
        /// Configuration without what only the monitor needs, in `config`'s encoding.
        options: Vec<u8>,
        /// Host keys and certificates in the configured order.
        host_keys: Vec<HostKey>,
        /// The connection at [`crate::roles::NETWORK_FD`]; none for a process that was started
        /// ahead of it, which is told once its sandbox is closed.
        connection: Option<AuthConnection>,
        /// Directory to chroot to before the sandbox closes; none when not started as root.
        chroot: Option<String>,
        /// User to become, with its group; none when not started as root.
        uid_gid: Option<(u32, u32)>,
        /// The most verbose level that is written, so that finer lines need not be sent.
        log_level: LogLevel,
    }
}

record! {
    /// Whom the auth process speaks to. To one that was started ahead it is sent with the
    /// descriptor of the connection.
    AuthConnection {
        /// What holds for this connection in place of [`AuthStart`]'s options, where they were
        /// made before it came and Match says otherwise.
        options: Option<Vec<u8>>,
        /// The cookie, 16 bytes, of the version line and KEXINIT that the listener has sent already;
        /// none where this process says both.
        greeted: Option<Vec<u8>>,
        /// Text of the client's address.
        remote_address: String,
        /// Port of the client.
        remote_port: u16,
        /// Text of our address.
        local_address: String,
        /// Our port.
        local_port: u16,
        /// Seconds until the monitor ends an unfinished login; 0 for never.
        login_grace_seconds: u32,
    }
}

record! {
    /// Reply to [`ChooseGroup`]; both empty when no group is in the range.
    Group {
        /// Safe prime, big-endian magnitude.
        p: Vec<u8>,
        /// Generator, big-endian magnitude.
        g: Vec<u8>,
    }
}

record! {
    /// Reply to [`SignExchangeHash`].
    Signature {
        /// Signature blob (RFC 4253 §6.6).
        blob: Vec<u8>,
    }
}

record! {
    /// Reply to [`User`], of the same shape whether or not the user exists.
    UserPolicy {
        /// Methods that can continue.
        methods: Vec<String>,
        /// Banner to be sent before the first answer.
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
    /// USERAUTH_SUCCESS; next comes [`Snapshot`].
    Success,
    /// DISCONNECT: more than MaxAuthTries.
    TooManyFailures,
    /// As [`AuthOutcome::Failure`], to a user whose account is closed.
    Denied {
        /// Methods that can continue.
        methods: Vec<String>,
        /// What PAM says of it, for a banner before the answer; may be empty.
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
        /// Whether the answer may be seen while it is typed.
        echo: bool,
    }
}

record! {
    /// USERAUTH_INFO_REQUEST's content (RFC 4256 §3.2).
    KbdintPrompts {
        /// Name.
        name: String,
        /// Instruction.
        instruction: String,
        /// Prompts, perhaps none.
        prompts: Vec<Prompt>,
    }
}

record! {
    /// Reply to [`KeyQuery`].
    KeyAnswer {
        /// Whether USERAUTH_PK_OK is to be sent. When not, the answer counted as a failure.
        acceptable: bool,
        /// Methods that can continue, for the failure.
        methods: Vec<String>,
        /// True when that failure was one too many: DISCONNECT.
        too_many_failures: bool,
    }
}

record! {
    /// What a key's options or a certificate take away. `permit_*` of the configuration may
    /// take more away; nothing gives any of it back.
    Restrictions {
        /// No pseudo-terminal.
        no_pty: bool,
        /// ~/.ssh/rc is not run.
        no_user_rc: bool,
        /// No TCP or socket forwarding.
        no_port_forwarding: bool,
        /// No agent forwarding.
        no_agent_forwarding: bool,
        /// No X11 forwarding.
        no_x11_forwarding: bool,
        /// No tunnel devices.
        no_tunnel: bool,
        /// `permitopen`, when given: the only destinations of local forwarding.
        permit_open: Vec<String>,
        /// `permitlisten`, when given: the only addresses of remote forwarding.
        permit_listen: Vec<String>,
    }
}

impl Restrictions {
    /// Nothing taken away.
    #[must_use]
    pub fn none() -> Self {
        Self {
            no_pty: false,
            no_user_rc: false,
            no_port_forwarding: false,
            no_agent_forwarding: false,
            no_x11_forwarding: false,
            no_tunnel: false,
            permit_open: Vec::new(),
            permit_listen: Vec::new(),
        }
    }
}

record! {
    /// The login before this one.
    LastLogin {
        /// Seconds since 1970.
        time: u64,
        /// From where; empty when it was not recorded.
        host: String,
    }
}

record! {
    /// All that the session process needs and must not take from the snapshot. Sent once,
    /// before the [`Snapshot`].
    SessionGrant {
        /// Canonical user name.
        user: String,
        /// Uid to become.
        uid: u32,
        /// Primary group.
        gid: u32,
        /// Supplementary groups, the primary one included.
        groups: Vec<u32>,
        /// Home directory.
        home: String,
        /// Login shell, never empty.
        shell: String,
        /// True when the process starts as root and must become the user; false when it runs
        /// as the user already.
        change_user: bool,
        /// ChrootDirectory with its tokens expanded; checked by the session before use.
        chroot: Option<String>,
        /// Command that runs instead of whatever the client asks for (ForceCommand, key option
        /// or certificate).
        forced_command: Option<String>,
        /// What the key or certificate takes away.
        restrictions: Restrictions,
        /// From `environment=` of the key line (PermitUserEnvironment was applied).
        key_environment: Vec<(String, String)>,
        /// From PAM.
        pam_environment: Vec<(String, String)>,
        /// Session identifier: the first exchange hash.
        session_id: Vec<u8>,
        /// Text of the client's address.
        remote_address: String,
        /// Port of the client.
        remote_port: u16,
        /// Text of our address.
        local_address: String,
        /// Our port.
        local_port: u16,
        /// The client's version line without line end, as the auth process told it.
        client_version: String,
        /// Configuration after Match, in `config`'s encoding.
        options: Vec<u8>,
        /// Host keys and certificates.
        host_keys: Vec<HostKey>,
        /// What PAM's modules said (the message of the day for one), for a login shell.
        login_messages: String,
        /// Whether PAM shows the message of the day, so that the session must not.
        pam_shows_motd: bool,
        /// How the user authenticated, a line for each method, for ExposeAuthInfo.
        auth_info: String,
        /// The most verbose level that is written.
        log_level: LogLevel,
        /// True when the password has expired: only `passwd` may run, on a pty.
        password_expired: bool,
    }
}

record! {
    /// Reply to [`HostkeysProve`]: a signature for each key in their order.
    HostkeysProof {
        /// Signature blobs; empty when the rate was exceeded.
        signatures: Vec<Vec<u8>>,
    }
}

record! {
    /// Reply to [`PtyAllocate`].
    PtyGranted {
        /// Path of the slave.
        tty: String,
        /// The login before this one, when PrintLastLog asks for it.
        last_login: Option<LastLogin>,
    }
}

record! {
    /// Reply to [`PtyAllocate`] when there is none to be had.
    PtyRefused {
        /// Why, for the log.
        reason: String,
    }
}
