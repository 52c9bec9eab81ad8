//! What sshd_config comes to for one connection (or for the listener): one typed field per keyword that the
//! server carries out, with OpenSSH's defaults.
//!
//! File names stay templates where sshd_config(5) TOKENS allows tokens; [`crate::tokens`] expands them.

use std::net::IpAddr;

use crate::types::{
    AddressFamily, FingerprintHash, HwCompression, IpQos, LogLevel, RekeyLimit, SyslogFacility,
    Variable,
};

words! {
    /// `PermitRootLogin`.
    PermitRootLogin {
        /// As any user.
        Yes = "yes",
        /// Not with a password or keyboard-interactive.
        ProhibitPassword = "without-password",
        /// Only with a public key that forces a command.
        ForcedCommandsOnly = "forced-commands-only",
        /// Not at all.
        No = "no",
    } default No
}

words! {
    /// What is done with a source when the table of penalties is full.
    PenaltyOverflow {
        /// Forget an old entry.
        Permissive = "permissive",
        /// Refuse every source that is not exempt.
        DenyAll = "deny-all",
    } default DenyAll
}

words! {
    /// `AllowTcpForwarding`, `AllowStreamLocalForwarding`.
    AllowForwarding {
        /// In both directions.
        Yes = "yes",
        /// Not at all.
        No = "no",
        /// Connections that the client asks for.
        Local = "local",
        /// Listening on the client's behalf.
        Remote = "remote",
    } default No
}

impl AllowForwarding {
    /// May the client ask for connections (`direct-tcpip`)?
    pub fn is_local(self) -> bool {
        matches!(self, AllowForwarding::Yes | AllowForwarding::Local)
    }

    /// May the client ask to listen (`tcpip-forward`)?
    pub fn is_remote(self) -> bool {
        matches!(self, AllowForwarding::Yes | AllowForwarding::Remote)
    }
}

/// `PermitUserEnvironment`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UserEnvironment {
    /// No variable of the user's files is taken.
    No,
    /// Every variable is.
    Yes,
    /// Those whose names match the pattern-list.
    Matching(String),
}

impl UserEnvironment {
    /// May a variable of this name be taken from the user's files?
    pub fn permits(&self, name: &str) -> bool {
        match self {
            UserEnvironment::No => false,
            UserEnvironment::Yes => true,
            UserEnvironment::Matching(list) => {
                crate::pattern::match_list(name, list, crate::pattern::Case::Sensitive).is_yes()
            }
        }
    }
}

/// Where the listener listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenAddress {
    /// Host name, address, or none for every local address of the families allowed.
    pub host: Option<String>,
    /// Port; 0 takes any free one (only from the command line).
    pub port: u16,
}

/// `MaxStartups`: refuse with a rising probability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaxStartups {
    /// Below this many unauthenticated connections none is refused.
    pub start: u32,
    /// Per cent refused at `start`.
    pub rate: u32,
    /// From this many on, all are refused.
    pub full: u32,
}

/// `PerSourcePenalties`: times in milliseconds that a source is locked out after an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PerSourcePenalties {
    /// Whether any are given.
    pub enabled: bool,
    /// The connection's process crashed.
    pub crash_ms: u64,
    /// Authentication was tried and failed.
    pub auth_fail_ms: u64,
    /// A login for a user who does not exist.
    pub invalid_user_ms: u64,
    /// `RefuseConnection` ended it.
    pub refuse_connection_ms: u64,
    /// The connection ended without trying to authenticate.
    pub no_auth_ms: u64,
    /// `LoginGraceTime` ran out.
    pub grace_exceeded_ms: u64,
    /// Penalties add up to at most this.
    pub max_ms: u64,
    /// A source is refused only once its penalties exceed this.
    pub min_ms: u64,
    /// Most IPv4 sources remembered.
    pub max_sources4: u32,
    /// Most IPv6 sources remembered.
    pub max_sources6: u32,
    /// When the IPv4 table is full.
    pub overflow: PenaltyOverflow,
    /// When the IPv6 table is full.
    pub overflow6: PenaltyOverflow,
}

/// `PubkeyAuthOptions`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PubkeyAuthOptions {
    /// Security keys must attest user presence whatever the key line says.
    pub touch_required: bool,
    /// Security keys must attest user verification.
    pub verify_required: bool,
    /// How many questions whether a key would do are answered yes; each further one is a failure.
    pub max_pk_ok: u32,
}

/// A subsystem and the command behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subsystem {
    /// Name that the client asks for.
    pub name: String,
    /// Command with its arguments as one string for the user's shell; `internal-sftp …` is the built-in one.
    pub command: String,
}

/// A pattern of `AllowUsers` and its kind, with the address or name that it was met from.
pub type Patterns = Vec<String>;

/// Typed sshd_config. Made by [`crate::server::ServerConfig`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerOptions {
    /// `AcceptEnv`: patterns of variables taken from the client.
    pub accept_env: Patterns,
    /// `AddressFamily`.
    pub address_family: AddressFamily,
    /// `AllowGroups`: patterns, empty for no limit.
    pub allow_groups: Patterns,
    /// `AllowTcpForwarding`; `disable_forwarding` outweighs it.
    pub allow_tcp_forwarding: AllowForwarding,
    /// `AllowUsers`: patterns `USER[@HOST]`, empty for no limit.
    pub allow_users: Patterns,
    /// `DenyGroups`.
    pub deny_groups: Patterns,
    /// `DenyUsers`.
    pub deny_users: Patterns,
    /// `AuthenticationMethods`: each entry a chain of methods; empty means any one method.
    pub authentication_methods: Vec<Vec<String>>,
    /// `AuthorizedKeysCommand` with its arguments, not split; tokens %% %C %D %f %h %k %t %U %u.
    pub authorized_keys_command: Option<String>,
    /// `AuthorizedKeysCommandUser`; set whenever the command is. Token %%, %u.
    pub authorized_keys_command_user: Option<String>,
    /// `AuthorizedKeysFile`: templates; tokens %% %h %U %u; relative ones start at the home directory.
    pub authorized_keys_files: Vec<String>,
    /// `AuthorizedPrincipalsCommand` with its arguments, not split; tokens %% %F %f %h %i %K %k %s %T %t %U %u.
    pub authorized_principals_command: Option<String>,
    /// `AuthorizedPrincipalsCommandUser`; set whenever the command is. Token %%, %u.
    pub authorized_principals_command_user: Option<String>,
    /// `AuthorizedPrincipalsFile`: template; tokens %% %h %U %u.
    pub authorized_principals_file: Option<String>,
    /// `Banner`: a file.
    pub banner: Option<String>,
    /// `CASignatureAlgorithms`.
    pub ca_signature_algorithms: Vec<String>,
    /// `ChrootDirectory`: template; tokens %% %h %U %u.
    pub chroot_directory: Option<String>,
    /// `Ciphers`.
    pub ciphers: Vec<String>,
    /// `ClientAliveCountMax`; 0 never ends a connection.
    pub client_alive_count_max: u32,
    /// `ClientAliveInterval` in seconds; 0 sends none.
    pub client_alive_interval_s: u32,
    /// `Compression` (always delayed until after authentication).
    pub compression: bool,
    /// `Compression zstd`: that method, too.
    pub compression_zstd: bool,
    /// `DisableForwarding`: refuses every kind of forwarding.
    pub disable_forwarding: bool,
    /// `ExposeAuthInfo`.
    pub expose_auth_info: bool,
    /// `FingerprintHash`.
    pub fingerprint_hash: FingerprintHash,
    /// `ForceCommand`.
    pub force_command: Option<String>,
    /// `HostCertificate`: files.
    pub host_certificates: Vec<String>,
    /// `HostKey`: files.
    pub host_keys: Vec<String>,
    /// `HostKeyAlgorithms`: those that may be offered; what is offered depends on the keys at hand.
    pub host_key_algorithms: Vec<String>,
    /// `IPQoS`.
    pub ip_qos: IpQos,
    /// `KbdInteractiveAuthentication`.
    pub kbd_interactive_authentication: bool,
    /// `KexAlgorithms`.
    pub kex_algorithms: Vec<String>,
    /// Where to listen, with `Port` and `AddressFamily` applied.
    pub listen_addresses: Vec<ListenAddress>,
    /// `LogLevel`.
    pub log_level: LogLevel,
    /// `LoginGraceTime` in seconds; 0 is no limit.
    pub login_grace_time_s: u32,
    /// `MACs`.
    pub macs: Vec<String>,
    /// `MaxAuthTries`.
    pub max_auth_tries: u32,
    /// `MaxSessions`; 0 refuses every session.
    pub max_sessions: u32,
    /// `MaxStartups`.
    pub max_startups: MaxStartups,
    /// `ModuliFile`.
    pub moduli_file: String,
    /// `PAMServiceName`.
    pub pam_service_name: String,
    /// `PasswordAuthentication`.
    pub password_authentication: bool,
    /// `PermitEmptyPasswords`.
    pub permit_empty_passwords: bool,
    /// `PermitOpen`: `host:port` where either may be `*`; the one word `any` or `none` says so.
    pub permit_open: Vec<String>,
    /// `PermitRootLogin`.
    pub permit_root_login: PermitRootLogin,
    /// `PermitTTY`.
    pub permit_tty: bool,
    /// `PermitUserEnvironment`.
    pub permit_user_environment: UserEnvironment,
    /// `PermitUserRC`.
    pub permit_user_rc: bool,
    /// `PreauthSpares`: connections that are prepared for before they come.
    pub preauth_spares: u32,
    /// `PerSourceMaxStartups`; none is no limit.
    pub per_source_max_startups: Option<u32>,
    /// `PerSourceNetBlockSize`: bits of IPv4 and of IPv6 that make one source.
    pub per_source_net_block_size: (u8, u8),
    /// `PerSourcePenalties`.
    pub per_source_penalties: PerSourcePenalties,
    /// `PerSourcePenaltyExemptList`: a CIDR list, empty when none is exempt.
    pub per_source_penalty_exempt_list: String,
    /// `PidFile`.
    pub pid_file: Option<String>,
    /// `PrintLastLog`.
    pub print_last_log: bool,
    /// `PrintMotd`.
    pub print_motd: bool,
    /// `PubkeyAcceptedAlgorithms`.
    pub pubkey_accepted_algorithms: Vec<String>,
    /// `PubkeyAuthentication`.
    pub pubkey_authentication: bool,
    /// `PubkeyAuthOptions`.
    pub pubkey_auth_options: PubkeyAuthOptions,
    /// `RefuseConnection`.
    pub refuse_connection: bool,
    /// `RekeyLimit`.
    pub rekey_limit: RekeyLimit,
    /// `RequiredRSASize` in bits.
    pub required_rsa_size: u32,
    /// `RevokedKeys`: files, each a list or KRL; a key that any of them names is revoked.
    pub revoked_keys: Vec<String>,
    /// `SetEnv`.
    pub set_env: Vec<Variable>,
    /// `WarnWeakCrypto`: log a key exchange that is not post-quantum.
    pub warn_weak_crypto: bool,
    /// `StrictModes`.
    pub strict_modes: bool,
    /// `Subsystem`, in order.
    pub subsystems: Vec<Subsystem>,
    /// `SyslogFacility`.
    pub syslog_facility: SyslogFacility,
    /// `TCPKeepAlive`.
    pub tcp_keep_alive: bool,
    /// The same for forwarded connections.
    pub tcp_keep_alive_all: bool,
    /// `TrustedUserCAKeys`: a file.
    pub trusted_user_ca_keys: Option<String>,
    /// `UseDNS`.
    pub use_dns: bool,
    /// `UsePAM`.
    pub use_pam: bool,
    /// `UseMPTCP`.
    pub use_mptcp: bool,
    /// `EnableHwCompression`.
    pub hw_compression: HwCompression,
    /// `HwCompressionLibrary`: absolute paths, in the order of trying.
    pub hw_compression_libraries: Vec<String>,
    /// `HwCompressionVerify`: inflate and compare each run before it is used.
    pub hw_compression_verify: bool,
    /// `VersionAddendum`: text behind the version line.
    pub version_addendum: Option<String>,
    /// `CryptoThreads`: how many threads may seal and open packets in all; none is `auto`.
    pub crypto_threads: Option<usize>,
    /// `SftpRoot`: template; tokens %% %h %U %u. What internal-sftp shows as `/`.
    pub sftp_root: Option<String>,
    /// `WindowMemory`: what all receive windows of a connection may be worth together, bytes.
    pub window_memory_bytes: u64,
    /// `CompressionLevel`, 1 to 9.
    pub compression_level: u8,
    /// `CompressionAdaptive`: store what does not gain, and follow the link.
    pub compression_adaptive: bool,
    /// `CompressionThreads`: how many threads may compress in all; none is `auto`.
    pub compression_threads: Option<usize>,
    /// All values as [`ServerOptions::encode`] writes them; empty where they are only read.
    pub(crate) source: Vec<u8>,
}

/// The facts of a connection that Match blocks are evaluated against. An empty string is "not known".
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConnectionSpec {
    /// User name asked for; none before a user is known.
    pub user: Option<String>,
    /// Does the account exist? `Match Invalid-User` is met when it does not.
    pub user_exists: bool,
    /// Names of the user's primary and supplementary groups.
    pub groups: Vec<String>,
    /// Peer's host name when `UseDNS` found one, otherwise its address.
    pub host: String,
    /// Peer's address.
    pub address: Option<IpAddr>,
    /// Our address of this connection.
    pub local_address: Option<IpAddr>,
    /// Our port of this connection.
    pub local_port: Option<u16>,
}
