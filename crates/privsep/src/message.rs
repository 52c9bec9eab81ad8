//! One struct per message of the RPC and the table of all of them. Requests come from the
//! unprivileged side; each has the reply that its comment names, or none.

use wire::{DecodeError, Put, Reader};

use crate::field::{Field, Secret, record};
use crate::frame;

/// Who sends a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sender {
    /// The auth process, to the monitor.
    Auth,
    /// The session process, to the monitor.
    Session,
    /// Either of the two, to the monitor.
    AuthOrSession,
    /// The monitor.
    Monitor,
    /// The listener, to a monitor that it starts.
    Listener,
    /// The auth process to the monitor, which hands it to the session unread.
    Relayed,
}

/// A row of the table of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageInfo {
    /// Number on the wire.
    pub number: u8,
    /// Name for logs.
    pub name: &'static str,
    /// Who sends it.
    pub sender: Sender,
}

/// A message of the RPC.
pub trait Message: Sized {
    /// Number on the wire.
    const NUMBER: u8;
    /// Name for logs.
    const NAME: &'static str;

    /// The fields without the frame.
    fn encode_body(&self) -> Vec<u8>;

    /// Reads the fields; nothing may follow them.
    ///
    /// # Errors
    /// [`DecodeError`].
    fn decode_body(body: &[u8]) -> Result<Self, DecodeError>;

    /// The whole frame, ready to be written.
    fn encode_frame(&self) -> Vec<u8> {
        frame::frame(Self::NUMBER, &self.encode_body())
    }
}

macro_rules! messages {
    ($($number:literal $name:ident $sender:ident;)*) => {
        /// The table of messages, ascending by number.
        pub const MESSAGES: &[MessageInfo] = &[
            $(MessageInfo { number: $number, name: stringify!($name), sender: Sender::$sender },)*
        ];

        $(impl Message for $name {
            const NUMBER: u8 = $number;
            const NAME: &'static str = stringify!($name);
            fn encode_body(&self) -> Vec<u8> {
                let mut out = Vec::new();
                self.write(&mut out);
                out
            }
            fn decode_body(body: &[u8]) -> Result<Self, DecodeError> {
                let mut reader = Reader::new(body);
                let message = Self::read(&mut reader)?;
                reader.finish()?;
                Ok(message)
            }
        })*
    };
}

messages! {
    1 Log AuthOrSession;
    2 ChooseGroup Auth;
    3 SignExchangeHash AuthOrSession;
    4 User Auth;
    5 AuthNone Auth;
    6 AuthPassword Auth;
    7 KbdintStart Auth;
    8 KbdintRespond Auth;
    9 KeyQuery Auth;
    10 KeyVerify Auth;
    11 Snapshot Relayed;
    12 AuthOther Auth;
    20 HostkeysProve Session;
    21 PtyAllocate Session;
    22 PtyRelease Session;
    64 AuthStart Monitor;
    65 Group Monitor;
    66 Signature Monitor;
    67 UserPolicy Monitor;
    68 AuthOutcome Monitor;
    69 KbdintPrompts Monitor;
    70 KeyAnswer Monitor;
    80 SessionGrant Monitor;
    81 HostkeysProof Monitor;
    82 PtyGranted Monitor;
    83 PtyRefused Monitor;
    96 MonitorStart Listener;
    97 MonitorSecrets Listener;
}

/// The row of the message with this number.
#[must_use]
pub fn info(number: u8) -> Option<&'static MessageInfo> {
    MESSAGES.iter().find(|info| info.number == number)
}

macro_rules! to_monitor {
    ($($name:ident),*) => {
        /// Any message that the monitor can be sent.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum ToMonitor {
            $(#[allow(missing_docs)] $name($name),)*
        }

        impl ToMonitor {
            /// Reads the body of the message with this number.
            ///
            /// # Errors
            /// [`frame::FrameError`].
            pub fn decode(frame: &frame::Frame) -> Result<Self, frame::FrameError> {
                match frame.number {
                    $($name::NUMBER => Ok(Self::$name(frame.decode()?)),)*
                    other => Err(frame::FrameError::UnknownMessage(other)),
                }
            }
        }
    };
}

to_monitor!(
    Log,
    ChooseGroup,
    SignExchangeHash,
    User,
    AuthNone,
    AuthOther,
    AuthPassword,
    KbdintStart,
    KbdintRespond,
    KeyQuery,
    KeyVerify,
    Snapshot,
    HostkeysProve,
    PtyAllocate,
    PtyRelease
);

// ---- from the unprivileged halves ----

/// OpenSSH's levels of LogLevel, in which a line is written or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Cannot go on.
    Fatal,
    /// Something failed.
    Error,
    /// Logins and ends of connections.
    Info,
    /// Detail that an operator may want always.
    Verbose,
    /// Decisions.
    Debug1,
    /// Messages by name.
    Debug2,
    /// Internals.
    Debug3,
}

impl Field for LogLevel {
    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(match reader.u8()? {
            0 => Self::Fatal,
            1 => Self::Error,
            2 => Self::Info,
            3 => Self::Verbose,
            4 => Self::Debug1,
            5 => Self::Debug2,
            6 => Self::Debug3,
            _ => return Err(DecodeError::Malformed("unknown log level")),
        })
    }
    fn write(&self, out: &mut Vec<u8>) {
        out.put_u8(match self {
            Self::Fatal => 0,
            Self::Error => 1,
            Self::Info => 2,
            Self::Verbose => 3,
            Self::Debug1 => 4,
            Self::Debug2 => 5,
            Self::Debug3 => 6,
        });
    }
}

record! {
    /// A line for the log; no reply. The monitor escapes it, shortens it and bounds the rate.
    Log {
        /// Its level.
        level: LogLevel,
        /// The text, without a line end.
        text: String,
    }
}

record! {
    /// Asks for a group of the moduli file (RFC 4419 §3); the reply is [`Group`].
    ChooseGroup {
        /// Smallest size in bits that the client takes.
        min_bits: u32,
        /// Size in bits that the client wishes.
        preferred_bits: u32,
        /// Largest size in bits that the client takes.
        max_bits: u32,
    }
}

record! {
    /// Asks for the host's signature of an exchange hash (RFC 4253 §8); the reply is
    /// [`Signature`]. The first hash is the session identifier, which the monitor keeps.
    SignExchangeHash {
        /// Key exchange method that was negotiated: it gives the length that `hash` must have.
        kex_algorithm: String,
        /// Host key algorithm that was negotiated (`rsa-sha2-512`, `…-cert-v01@openssh.com`).
        host_key_algorithm: String,
        /// Which host key: [`HostKey::index`].
        key_index: u32,
        /// H.
        hash: Vec<u8>,
    }
}

record! {
    /// Names the user of the first USERAUTH_REQUEST (RFC 4252 §5), once; the reply is
    /// [`UserPolicy`]. A later change of name or service is refused by the auth process.
    User {
        /// User name as the client sent it, which must be UTF-8.
        user: String,
        /// Service, which must be `ssh-connection`.
        service: String,
        /// The client's version line without line end.
        client_version: String,
    }
}

record! {
    /// Method `none` (RFC 4252 §5.2); the reply is [`AuthOutcome`].
    AuthNone {}
}

record! {
    /// A method that is not known here, or a request to change a password: always a failure,
    /// with the delay and the count of any other; the reply is [`AuthOutcome`].
    AuthOther {
        /// Name of the method as the client sent it.
        method: String,
    }
}

record! {
    /// Method `password` (RFC 4252 §8); the reply is [`AuthOutcome`].
    AuthPassword {
        /// The password.
        password: Secret,
    }
}

record! {
    /// Method `keyboard-interactive` begins (RFC 4256 §3.1); the reply is [`KbdintPrompts`] or
    /// [`AuthOutcome`].
    KbdintStart {
        /// Submethods that the client hints at, as it sent them.
        devices: String,
    }
}

record! {
    /// Answers to the prompts (RFC 4256 §3.4); the reply is as for [`KbdintStart`]. The count
    /// must be that of the prompts.
    KbdintRespond {
        /// The answers in the order of the prompts.
        responses: Vec<Secret>,
    }
}

record! {
    /// Asks whether this key would do (RFC 4252 §7, no signature); the reply is [`KeyAnswer`].
    KeyQuery {
        /// Public key algorithm of the request.
        algorithm: String,
        /// Public key or certificate blob.
        key: Vec<u8>,
    }
}

record! {
    /// Method `publickey` with a signature; the reply is [`AuthOutcome`]. The monitor builds
    /// the signed data itself, from its own session identifier, user and service.
    KeyVerify {
        /// Public key algorithm of the request.
        algorithm: String,
        /// Public key or certificate blob.
        key: Vec<u8>,
        /// Signature blob.
        signature: Vec<u8>,
        /// The host key that the client saw, for `publickey-hostbound-v00@openssh.com`: must be
        /// the one that signed the first exchange.
        hostbound: Option<Vec<u8>>,
    }
}

/// The live connection as opaque bytes, after [`AuthOutcome::Success`] and as the last message
/// of the auth process, which then ends. The monitor hands it to the session unread.
#[derive(Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// What `proto` wrote.
    pub bytes: zeroize::Zeroizing<Vec<u8>>,
}

impl core::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Snapshot({} bytes)", self.bytes.len())
    }
}

impl Field for Snapshot {
    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            bytes: zeroize::Zeroizing::new(reader.string()?.to_vec()),
        })
    }
    fn write(&self, out: &mut Vec<u8>) {
        out.put_string(&self.bytes);
    }
}

record! {
    /// Asks for proofs of `hostkeys-prove-00@openssh.com`; the reply is [`HostkeysProof`].
    HostkeysProve {
        /// Which keys, by [`HostKey::index`], and the signature algorithm for each.
        keys: Vec<(u32, String)>,
    }
}

record! {
    /// Asks for a pseudo-terminal; the reply is [`PtyGranted`], with the descriptors of master
    /// and slave in this order beside its first byte, or [`PtyRefused`]. The monitor writes the
    /// login records.
    PtyAllocate {}
}

record! {
    /// Gives a pseudo-terminal back: logout records are written, its owner reset; no reply.
    PtyRelease {
        /// Name as granted.
        tty: String,
    }
}

// ---- from the monitor ----

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
        /// Text of the client's address.
        remote_address: String,
        /// Port of the client.
        remote_port: u16,
        /// Text of our address.
        local_address: String,
        /// Our port.
        local_port: u16,
        /// Directory to chroot to before the sandbox closes; none when not started as root.
        chroot: Option<String>,
        /// User to become, with its group; none when not started as root.
        uid_gid: Option<(u32, u32)>,
        /// The most verbose level that is written, so that finer lines need not be sent.
        log_level: LogLevel,
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
        /// Configuration after Match, reduced, in `config`'s encoding.
        options: Vec<u8>,
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

// ---- from the listener ----

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
        /// When the connection was accepted, milliseconds of the monotonic clock.
        accepted_ms: u64,
        /// 32 random bytes of this listener, for delays that do not average out.
        delay_secret: Secret,
        /// Private host key files without passphrase, by [`HostKey::index`].
        private_keys: Vec<Secret>,
    }
}
