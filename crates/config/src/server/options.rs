//! The resolved options of sshd_config for one connection (or for the listener): one typed field
//! for each keyword that the server carries out, with OpenSSH's defaults.
//!
//! File names are kept as templates if sshd_config(5) allows tokens in them; [`crate::tokens`]
//! expands them.

use std::net::IpAddr;

use crate::types::{
    AddressFamily, FingerprintHash, HwCompression, IpQos, LogLevel, RekeyLimit, SyslogFacility,
    Variable,
};

words! {
    /// `PermitRootLogin`.
    PermitRootLogin {
        /// Permitted, as for any user.
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
    /// The reaction to a new source when the table of penalties is full.
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
        /// Only connections that the client requests.
        Local = "local",
        /// Only listening for the client.
        Remote = "remote",
    } default No
}

impl AllowForwarding {
    /// True if the client may request connections (`direct-tcpip`).
    pub fn is_local(self) -> bool {
        matches!(self, AllowForwarding::Yes | AllowForwarding::Local)
    }

    /// True if the client may request to listen (`tcpip-forward`).
    pub fn is_remote(self) -> bool {
        matches!(self, AllowForwarding::Yes | AllowForwarding::Remote)
    }
}

/// `PermitUserEnvironment`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UserEnvironment {
    /// No variable of the user's files is used.
    No,
    /// All variables are used.
    Yes,
    /// Variables whose names match this pattern-list are used.
    Matching(String),
}

impl UserEnvironment {
    /// True if a variable of this name may be used from the user's files.
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

/// An address on which the server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenAddress {
    /// Host name or address; `None` for every local address of the permitted families.
    pub host: Option<String>,
    /// Port; 0 uses any free one (only from the command line).
    pub port: u16,
}

/// `MaxStartups`: new connections are refused with a rising probability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaxStartups {
    /// Number of unauthenticated connections below which none is refused.
    pub start: u32,
    /// Probability of refusal at `start`, per cent.
    pub rate: u32,
    /// Number of unauthenticated connections from which all are refused.
    pub full: u32,
}

/// `PerSourcePenalties`: times for which a source is locked out after an event, milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PerSourcePenalties {
    /// True if penalties are applied.
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
    /// Limit of the sum of penalties.
    pub max_ms: u64,
    /// A source is refused only if the sum of its penalties exceeds this.
    pub min_ms: u64,
    /// Most IPv4 sources remembered.
    pub max_sources4: u32,
    /// Most IPv6 sources remembered.
    pub max_sources6: u32,
    /// The reaction to a full IPv4 table.
    pub overflow: PenaltyOverflow,
    /// The reaction to a full IPv6 table.
    pub overflow6: PenaltyOverflow,
}

/// `PubkeyAuthOptions`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PubkeyAuthOptions {
    /// Security keys must attest user presence whatever the key line says.
    pub touch_required: bool,
    /// Security keys must attest user verification.
    pub verify_required: bool,
    /// Number of queries about keys that are answered positively; each further one counts as a
    /// failure.
    pub max_pk_ok: u32,
}

/// A subsystem and its command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subsystem {
    /// The name that the client requests.
    pub name: String,
    /// Command with its arguments as one string for the user's shell; `internal-sftp …` is the built-in one.
    pub command: String,
}

/// Patterns, in the order of the file.
pub type Patterns = Vec<String>;

/// The resolved options, made by [`crate::server::ServerConfig`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerOptions {
    /// `AcceptEnv`: patterns of variables that are accepted from the client.
    pub accept_env: Patterns,
    /// `AddressFamily`.
    pub address_family: AddressFamily,
    /// `AllowGroups`: patterns, empty for no limit.
    pub allow_groups: Patterns,
    /// `AllowTcpForwarding`; `disable_forwarding` overrides it.
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
    /// `Compression zstd`: offer zstd, too.
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
    /// `HostKeyAlgorithms`: the algorithms that may be offered; those of the available keys are.
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
    /// `LoginGraceTime` in seconds; 0 means no limit.
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
    /// `PermitOpen`: `host:port`, where either may be `*`, or the single word `any` or `none`.
    pub permit_open: Vec<String>,
    /// `PermitRootLogin`.
    pub permit_root_login: PermitRootLogin,
    /// `PermitTTY`.
    pub permit_tty: bool,
    /// `PermitUserEnvironment`.
    pub permit_user_environment: UserEnvironment,
    /// `PermitUserRC`.
    pub permit_user_rc: bool,
    /// `PreauthSpares`: number of workers forked before a connection arrives.
    pub preauth_spares: u32,
    /// `PerSourceMaxStartups`; `None` means no limit.
    pub per_source_max_startups: Option<u32>,
    /// `PerSourceNetBlockSize`: prefix lengths, in bits, of the IPv4 and IPv6 networks that count
    /// as one source.
    pub per_source_net_block_size: (u8, u8),
    /// `PerSourcePenalties`.
    pub per_source_penalties: PerSourcePenalties,
    /// `PerSourcePenaltyExemptList`: a CIDR list, empty if none is exempt.
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
    /// `RevokedKeys`: files, each a list or KRL; a key that any of them lists is revoked.
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
    /// `TCPKeepAlive` for forwarded connections.
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
    /// `HwCompressionLibrary`: absolute paths, in the order of trial.
    pub hw_compression_libraries: Vec<String>,
    /// `HwCompressionVerify`: inflate and compare each compressed run before it is used.
    pub hw_compression_verify: bool,
    /// `VersionAddendum`: text after the version in the version line.
    pub version_addendum: Option<String>,
    /// `CryptoThreads`: most threads that encrypt and decrypt, the connection's own included;
    /// `None` is `auto`.
    pub crypto_threads: Option<usize>,
    /// `SftpRoot`: the directory that internal-sftp shows as `/`; template; tokens %% %h %U %u.
    pub sftp_root: Option<String>,
    /// `WindowMemory`: limit on the sum of all receive windows of a connection, bytes.
    pub window_memory_bytes: u64,
    /// `CompressionLevel`, 1 to 9.
    pub compression_level: u8,
    /// `CompressionAdaptive`: store data that does not compress, and adapt the level to the link.
    pub compression_adaptive: bool,
    /// `CompressionThreads`: most threads that compress; `None` is `auto`.
    pub compression_threads: Option<usize>,
    /// All values, encoded as by [`ServerOptions::encode`]; empty in options that are only read.
    pub(crate) source: Vec<u8>,
}

/// The facts of a connection against which Match blocks are evaluated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConnectionSpec {
    /// The requested user name; `None` before it is known.
    pub user: Option<String>,
    /// True if the account exists; `Match Invalid-User` is met if it does not.
    pub user_exists: bool,
    /// Names of the user's primary and supplementary groups.
    pub groups: Vec<String>,
    /// The peer's host name if `UseDNS` found one, otherwise its address.
    pub host: String,
    /// The peer's address.
    pub address: Option<IpAddr>,
    /// The local address of this connection.
    pub local_address: Option<IpAddr>,
    /// The local port of this connection.
    pub local_port: Option<u16>,
}
