//! The resolved options of ssh_config and the command line for one host: one typed field for each
//! keyword that the client carries out, tokens and tildes expanded, with OpenSSH's defaults.
//!
//! Templates that need facts of the connection (`LocalCommand`, `KnownHostsCommand`) are kept
//! unexpanded; [`ClientOptions::tokens`] expands them.

use std::fmt;

use crate::error::Warning;
use crate::tokens::Tokens;
use crate::types::{
    AddressFamily, FingerprintHash, HwCompression, IpQos, LogLevel, RekeyLimit, SyslogFacility,
    Variable,
};
use crate::value::Values;

words! {
    /// `StrictHostKeyChecking`.
    StrictHostKeyChecking {
        /// Unknown and changed keys are refused.
        Yes = "true",
        /// The user is asked about unknown keys; changed ones are refused.
        Ask = "ask",
        /// Unknown keys are added, changed ones refused.
        AcceptNew = "accept-new",
        /// Unknown keys are added, changed ones are let through with restrictions.
        No = "false",
    } default Ask
}

words! {
    /// `RequestTTY`.
    RequestTty {
        /// If standard input is a terminal and there is no command.
        Auto = "auto",
        /// Never (`-T`).
        No = "false",
        /// If standard input is a terminal (`-t`).
        Yes = "true",
        /// Always (`-tt`).
        Force = "force",
    } default Auto
}

words! {
    /// `SessionType`.
    SessionType {
        /// Shell or command.
        Default = "default",
        /// No session (`-N`).
        None = "none",
        /// The command names a subsystem (`-s`).
        Subsystem = "subsystem",
    } default Default
}

words! {
    /// A choice of yes, no or ask.
    YesNoAsk {
        /// Yes.
        Yes = "true",
        /// No.
        No = "false",
        /// Ask the user.
        Ask = "ask",
    } default Ask
}

words! {
    /// `PubkeyAuthentication`.
    PubkeyAuthentication {
        /// On; signatures are bound to the host key if the server supports that.
        Yes = "true",
        /// Off.
        No = "false",
        /// On; signatures are never bound to the host key.
        Unbound = "unbound",
        /// On, treated as `Yes`.
        HostBound = "host-bound",
    } default No
}

words! {
    /// `PipelineLogin`: the messages that are sent before the server's answers.
    PipelineLogin {
        /// Those that the server is known to accept.
        Auto = "auto",
        /// All.
        Yes = "true",
        /// None.
        No = "false",
    } default Auto
}

/// A private key file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityFile {
    /// Expanded path.
    pub path: String,
    /// True if the user or a configuration named it, false for a default.
    pub explicit: bool,
}

/// The agent to use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IdentityAgent {
    /// The agent at the socket that SSH_AUTH_SOCK names, if it is set.
    FromEnvironment,
    /// No agent.
    None,
    /// The agent at this socket.
    Socket(String),
}

/// One hop of `ProxyJump`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JumpHost {
    /// User, if given.
    pub user: Option<String>,
    /// Host or address, without brackets.
    pub host: String,
    /// Port, if given.
    pub port: Option<u16>,
}

/// Formats the hop as `ProxyJump` and `-J` accept it: `[user@]host[:port]`, an address with colons
/// in brackets.
impl fmt::Display for JumpHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(user) = &self.user {
            write!(f, "{user}@")?;
        }
        // OpenSSH prints addresses of both families in brackets.
        let is_number = self.host.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        if self.host.contains(':') || is_number {
            write!(f, "[{}]", self.host)?;
        } else {
            f.write_str(&self.host)?;
        }
        match self.port {
            Some(port) => write!(f, ":{port}"),
            None => Ok(()),
        }
    }
}

/// How to connect to the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proxy {
    /// Directly, by TCP.
    Direct,
    /// Through this command in the user's shell, with tokens expanded.
    Command(String),
    /// Through other hosts, in the order of connection.
    Jump(Vec<JumpHost>),
}

/// `EscapeChar`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EscapeChar {
    /// No escapes.
    None,
    /// This byte at the start of a line.
    Byte(u8),
}

/// The resolved options for one host, made by [`crate::client::ClientConfig::resolve`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientOptions {
    /// The host as typed (`%n`).
    pub host_argument: String,
    /// The host to connect to, after `HostName` and canonicalisation (`%h`).
    pub hostname: String,
    /// Remote user (`%r`).
    pub user: String,
    /// Remote port (`%p`).
    pub port: u16,
    /// `AddressFamily`.
    pub address_family: AddressFamily,
    /// `BatchMode`: never ask the user.
    pub batch_mode: bool,
    /// `BindAddress`.
    pub bind_address: Option<String>,
    /// `BindInterface`.
    pub bind_interface: Option<String>,
    /// `CASignatureAlgorithms`.
    pub ca_signature_algorithms: Vec<String>,
    /// `CertificateFile`: expanded.
    pub certificate_files: Vec<String>,
    /// `Ciphers`.
    pub ciphers: Vec<String>,
    /// `Compression`.
    pub compression: bool,
    /// `Compression zstd`: offer zstd before the other methods.
    pub compression_zstd: bool,
    /// `ConnectionAttempts`.
    pub connection_attempts: u32,
    /// `ConnectTimeout` in seconds; `None` leaves the limit to TCP.
    pub connect_timeout_s: Option<u32>,
    /// `EscapeChar`.
    pub escape_char: EscapeChar,
    /// `FingerprintHash`.
    pub fingerprint_hash: FingerprintHash,
    /// `ForkAfterAuthentication` (`-f`).
    pub fork_after_authentication: bool,
    /// `GlobalKnownHostsFile`: expanded.
    pub global_known_hosts_files: Vec<String>,
    /// `HashKnownHosts`.
    pub hash_known_hosts: bool,
    /// `HostKeyAlgorithms`, resolved; `host_key_algorithms_set` is true if the user chose them.
    pub host_key_algorithms: Vec<String>,
    /// True if `HostKeyAlgorithms` was set: its order is then kept, whatever known_hosts contains.
    pub host_key_algorithms_set: bool,
    /// `HostKeyAlias`: looked up in known_hosts instead of the host.
    pub host_key_alias: Option<String>,
    /// `IdentitiesOnly`.
    pub identities_only: bool,
    /// `IdentityAgent`.
    pub identity_agent: IdentityAgent,
    /// `IdentityFile`: expanded, or the defaults.
    pub identity_files: Vec<IdentityFile>,
    /// `IPQoS`.
    pub ip_qos: IpQos,
    /// `KbdInteractiveAuthentication`.
    pub kbd_interactive_authentication: bool,
    /// `KexAlgorithms`.
    pub kex_algorithms: Vec<String>,
    /// `KnownHostsCommand`: a command with arguments, not split; accepts all tokens, of which the
    /// caller sets %f %H %I %K %t.
    pub known_hosts_command: Option<String>,
    /// `LocalCommand`, if `PermitLocalCommand` allows it: a shell command that accepts all tokens,
    /// as above.
    pub local_command: Option<String>,
    /// `LogLevel`.
    pub log_level: LogLevel,
    /// `MACs`.
    pub macs: Vec<String>,
    /// `NoHostAuthenticationForLocalhost`.
    pub no_host_authentication_for_localhost: bool,
    /// `NumberOfPasswordPrompts`.
    pub number_of_password_prompts: u32,
    /// `ObscureKeystrokeTiming`: interval between the send times of keystrokes, milliseconds;
    /// `None` if their timing is not hidden.
    pub obscure_keystrokes_ms: Option<u32>,
    /// `PasswordAuthentication`.
    pub password_authentication: bool,
    /// `PreferredAuthentications`, in order.
    pub preferred_authentications: Vec<String>,
    /// `ProxyCommand` or `ProxyJump`.
    pub proxy: Proxy,
    /// `ProxyUseFdpass`: the proxy command passes a connected descriptor back.
    pub proxy_use_fdpass: bool,
    /// `PubkeyAcceptedAlgorithms`.
    pub pubkey_accepted_algorithms: Vec<String>,
    /// `PubkeyAuthentication`.
    pub pubkey_authentication: PubkeyAuthentication,
    /// `RekeyLimit`.
    pub rekey_limit: RekeyLimit,
    /// `RemoteCommand`, expanded.
    pub remote_command: Option<String>,
    /// `RequestTTY`.
    pub request_tty: RequestTty,
    /// `RequiredRSASize` in bits.
    pub required_rsa_size: u32,
    /// `RevokedHostKeys`: expanded; files, each a list or KRL. A key that any of them lists is
    /// revoked.
    pub revoked_host_keys: Vec<String>,
    /// `SendEnv`: patterns of local variables.
    pub send_env: Vec<String>,
    /// `ServerAliveCountMax`.
    pub server_alive_count_max: u32,
    /// `ServerAliveInterval` in seconds; 0 sends none.
    pub server_alive_interval_s: u32,
    /// `SessionType`.
    pub session_type: SessionType,
    /// `SetEnv`.
    pub set_env: Vec<Variable>,
    /// `StdinNull` (`-n`).
    pub stdin_null: bool,
    /// `StrictHostKeyChecking`.
    pub strict_host_key_checking: StrictHostKeyChecking,
    /// `SyslogFacility`.
    pub syslog_facility: SyslogFacility,
    /// `TCPKeepAlive`.
    pub tcp_keep_alive: bool,
    /// `UpdateHostKeys`.
    pub update_host_keys: YesNoAsk,
    /// `UserKnownHostsFile`: expanded; new keys go to the first.
    pub user_known_hosts_files: Vec<String>,
    /// `UseMPTCP`.
    pub use_mptcp: bool,
    /// `EnableHwCompression`.
    pub hw_compression: HwCompression,
    /// `HwCompressionLibrary`: absolute paths, in the order of trial.
    pub hw_compression_libraries: Vec<String>,
    /// `HwCompressionVerify`: inflate and compare each compressed run before it is used.
    pub hw_compression_verify: bool,
    /// `VersionAddendum`, expanded.
    pub version_addendum: Option<String>,
    /// `WarnWeakCrypto`: warn if the key exchange is not post-quantum.
    pub warn_weak_crypto: bool,
    /// `VisualHostKey`.
    pub visual_host_key: bool,
    /// `CryptoThreads`: most threads that encrypt and decrypt, the connection's own included;
    /// `None` is `auto`.
    pub crypto_threads: Option<usize>,
    /// `WindowMemory`: limit on the sum of all receive windows of a connection, bytes.
    pub window_memory_bytes: u64,
    /// `CompressionLevel`, 1 to 9.
    pub compression_level: u8,
    /// `CompressionAdaptive`: store data that does not compress, and adapt the level to the link.
    pub compression_adaptive: bool,
    /// `CompressionThreads`: most threads that compress; `None` is `auto`.
    pub compression_threads: Option<usize>,
    /// `LoginCache`: cache a profile of each server, so that the next login can be pipelined.
    pub login_cache: bool,
    /// `PipelineLogin`.
    pub pipeline_login: PipelineLogin,
    /// `TCPFastOpen`: send the first bytes with the SYN.
    pub tcp_fast_open: bool,
    /// The tokens of this host, which expand templates.
    pub tokens: Tokens,
    /// Warnings about settings that are accepted but not carried out, one for each keyword.
    pub warnings: Vec<Warning>,
    pub(crate) values: Values,
}
