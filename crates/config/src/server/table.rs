//! The keywords of sshd_config, in the order of `sshd -T`.
//!
//! For the meaning of `Support` see [`crate::value::Support`]. To implement a keyword, give its row a
//! field and change its [`Support`].

use crate::address::ExemptList;
use crate::algorithms::Class;
use crate::channel_timeouts::ChannelTimeouts;
use crate::forms;
use crate::penalties::{MaxStartups, PerSourcePenalties};
use crate::permit::PermitList;
use crate::server::options::{
    AgentSocketPath, AllowForwarding, Gateway, IgnoreRhosts, ListenAddress, Patterns,
    PermitRootLogin, PermitTunnel, PubkeyAuthOptions, UserEnvironment,
};
use crate::types::{
    AddressFamily, Compression, FingerprintHash, HwCompression, IpQos, LogLevel, RekeyLimit,
    Subsystem, SyslogFacility, TcpKeepAlive, Variable, WarnWeakCrypto,
};
use crate::value::Support::{self, Carried, Deprecated, Fulfilled, Ignored, Unsupported};
use crate::value::{Choice, Dump, Keyword, Kind, Repeat, Scope};

const COUNT: Kind = Kind::Integer {
    min: 0,
    max: 0x7fff_ffff,
};
/// `sshd -T` of OpenSSH 10.6 prints `true` and `false`. It prints `false` for `no-pq-kex`, too, which is not the same here.
const WARN_WEAK: Kind = Kind::Choice(&[
    ("yes", WEAK_IS_TOLD),
    ("true", WEAK_IS_TOLD),
    ("no", WEAK_IS_NOT_TOLD),
    ("false", WEAK_IS_NOT_TOLD),
    ("no-pq-kex", WarnWeakCrypto::NoPqKex.choice()),
]);
const WEAK_IS_TOLD: Choice = Choice {
    word: "true",
    ..WarnWeakCrypto::Yes.choice()
};
const WEAK_IS_NOT_TOLD: Choice = Choice {
    word: "false",
    ..WarnWeakCrypto::No.choice()
};
const LOG_FORMAT: Kind = Kind::Choice(&[
    ("text", Choice::flag(false, "text")),
    ("json", Choice::flag(true, "json")),
]);
/// As OpenSSH's sshd, this server does not accept `true` and `false`.
const HW_COMPRESSION: Kind = Kind::Choice(&[
    ("no", HwCompression::No.choice()),
    ("yes", HwCompression::Yes.choice()),
    ("require", HwCompression::Require.choice()),
]);
const COMPRESSION: Kind = Kind::Choice(&[
    ("yes", Compression::Yes.choice()),
    ("delayed", Compression::Yes.choice()),
    ("no", Compression::No.choice()),
    ("zstd", Compression::Zstd.choice()),
]);

use Dump::{Comma, Line, Never, Octal, OrWord, PerWord, UnlessNone};

keywords! {
    /// Keywords of sshd_config.
    Row, SERVER_TABLE;
    /// The resolved options, made by [`crate::server::ServerConfig`].
    ServerOptions {
        Port [] Kind::Parsed(forms::server::ports), "22", Carried, Global, Add, PerWord;
        /// `AddressFamily`.
        connection.address_family: AddressFamily = AddressFamily [] Kind::Choice(AddressFamily::SPELLINGS), "any", Carried, Global, First, Line;
        ListenAddress [] Kind::Parsed(forms::server::listen_address), "", Carried, Global, Add, Never;
        /// `UsePAM`.
        authentication.use_pam: bool = UsePAM [] Kind::YesNo, "no", Carried, Global, First, Line;
        /// `PAMServiceName`.
        authentication.pam_service_name: String = PAMServiceName [] Kind::Text, "fulmar", Carried, Everywhere, First, Line;
        /// `LoginGraceTime` in seconds; 0 means no limit.
        limits.login_grace_time_s: u32 = LoginGraceTime [] Kind::Seconds { none: false }, "120", Carried, Global, First, Line;
        /// `X11DisplayOffset`: the first number of a display.
        forwarding.x11_display_offset: u32 = X11DisplayOffset [] COUNT, "10", Carried, Everywhere, First, Line;
        /// `MaxAuthTries`.
        authentication.max_auth_tries: u32 = MaxAuthTries [] COUNT, "6", Carried, Everywhere, First, Line;
        /// `MaxSessions`; 0 refuses every session.
        limits.max_sessions: u32 = MaxSessions [] COUNT, "10", Carried, Everywhere, First, Line;
        /// `ClientAliveInterval` in seconds; 0 sends none.
        connection.client_alive_interval_s: u32 = ClientAliveInterval [] Kind::Seconds { none: false }, "0", Carried, Everywhere, First, Line;
        /// `ClientAliveCountMax`; 0 never ends a connection.
        connection.client_alive_count_max: u32 = ClientAliveCountMax [] COUNT, "3", Carried, Everywhere, First, Line;
        /// `RequiredRSASize` in bits.
        algorithms.required_rsa_size: u32 = RequiredRSASize [] Kind::Integer { min: 1024, max: 16384 }, "2048", Carried, Everywhere, First, Line;
        /// `StreamLocalBindMask`: umask of sockets that are made for the client.
        forwarding.stream_local_bind_mask: u32 = StreamLocalBindMask [] Kind::Mode, "0177", Carried, Everywhere, First, Octal;
        /// `UnusedConnectionTimeout` in seconds; `None` means no limit.
        limits.unused_connection_timeout_s: Option<u32> = UnusedConnectionTimeout [] Kind::Parsed(forms::server::unused_timeout), "none", Carried, Everywhere, First, Line;
        /// `PermitRootLogin`.
        authentication.permit_root_login: PermitRootLogin = PermitRootLogin [] Kind::Choice(PermitRootLogin::SPELLINGS), "prohibit-password", Carried, Everywhere, First, Line;
        /// `IgnoreRhosts`: which of the user's files host-based logins do not read.
        authentication.ignore_rhosts: IgnoreRhosts = IgnoreRhosts [] Kind::Choice(IgnoreRhosts::SPELLINGS), "yes", Carried, Everywhere, First, Line;
        /// `IgnoreUserKnownHosts`: host-based logins read no known_hosts of the user.
        authentication.ignore_user_known_hosts: bool = IgnoreUserKnownHosts [] Kind::YesNo, "no", Carried, Global, First, Line;
        /// `HostbasedAuthentication`.
        authentication.hostbased_authentication: bool = HostbasedAuthentication [] Kind::YesNo, "no", Carried, Everywhere, First, Line;
        /// `HostbasedUsesNameFromPacketOnly`: the client's word for its name counts, not its address.
        authentication.hostbased_uses_name_from_packet_only: bool = HostbasedUsesNameFromPacketOnly [] Kind::YesNo, "no", Carried, Everywhere, First, Line;
        /// `PubkeyAuthentication`.
        authentication.pubkey_authentication: bool = PubkeyAuthentication ["DSAAuthentication"] Kind::YesNo, "yes", Carried, Everywhere, First, Line;
        /// `KerberosAuthentication`: passwords are checked at the realm's KDC.
        authentication.kerberos_authentication: bool = KerberosAuthentication [] Kind::YesNo, "no", Carried, Everywhere, First, Line;
        /// `KerberosOrLocalPasswd`: a password that the KDC does not confirm may be that of PAM or the shadow file.
        authentication.kerberos_or_local_passwd: bool = KerberosOrLocalPasswd [] Kind::YesNo, "yes", Carried, Global, First, Line;
        /// `KerberosTicketCleanup`: the tickets for a password are removed at the end of the session.
        authentication.kerberos_ticket_cleanup: bool = KerberosTicketCleanup [] Kind::YesNo, "yes", Carried, Global, First, Line;
        /// `GSSAPIAuthentication`: gssapi-with-mic with Kerberos.
        authentication.gssapi_authentication: bool = GSSAPIAuthentication [] Kind::YesNo, "no", Carried, Everywhere, First, Line;
        /// `GSSAPICleanupCredentials`: delegated credentials are removed at the end of the session.
        authentication.gssapi_cleanup_credentials: bool = GSSAPICleanupCredentials ["GSSAPICleanupCreds"] Kind::YesNo, "yes", Carried, Global, First, Line;
        /// `GSSAPIKeyExchange`: key exchanges with Kerberos, which prove this server without a host key.
        authentication.gssapi_key_exchange: bool = GSSAPIKeyExchange [] Kind::YesNo, "no", Carried, Global, First, Line;
        /// `GSSAPIStrictAcceptorCheck`: only for the key of this machine's name.
        authentication.gssapi_strict_acceptor_check: bool = GSSAPIStrictAcceptorCheck [] Kind::YesNo, "yes", Carried, Global, First, Line;
        /// `GSSAPIStoreCredentialsOnRekey`: credentials that are delegated in a rekey replace the session's.
        authentication.gssapi_store_credentials_on_rekey: bool = GSSAPIStoreCredentialsOnRekey [] Kind::YesNo, "no", Carried, Global, First, Line;
        /// `GSSAPIKexAlgorithms`, without the mechanism at their end.
        algorithms.gssapi_kex_algorithms: Vec<String> = GSSAPIKexAlgorithms [] Kind::Algorithms(Class::GssKex), "", Carried, Global, First, Comma;
        /// `GSSAPIDelegateCredentials`: credentials that clients delegate are accepted.
        authentication.gssapi_delegate_credentials: bool = GSSAPIDelegateCredentials [] Kind::YesNo, "yes", Carried, Global, First, Line;
        /// `PasswordAuthentication`.
        authentication.password_authentication: bool = PasswordAuthentication [] Kind::YesNo, "yes", Carried, Everywhere, First, Line;
        /// `KbdInteractiveAuthentication`.
        authentication.kbd_interactive_authentication: bool = KbdInteractiveAuthentication ["ChallengeResponseAuthentication" "SkeyAuthentication"] Kind::YesNo, "yes", Carried, Everywhere, First, Line;
        /// `PrintMotd`.
        session.print_motd: bool = PrintMotd [] Kind::YesNo, "yes", Carried, Global, First, Line;
        /// `PrintLastLog`.
        session.print_last_log: bool = PrintLastLog [] Kind::YesNo, "yes", Carried, Global, First, Line;
        /// `X11Forwarding`; `disable_forwarding` overrides it.
        forwarding.x11_forwarding: bool = X11Forwarding [] Kind::YesNo, "no", Carried, Everywhere, First, Line;
        /// `X11UseLocalhost`: displays listen on loopback addresses only.
        forwarding.x11_use_localhost: bool = X11UseLocalhost [] Kind::YesNo, "yes", Carried, Everywhere, First, Line;
        /// `PermitTTY`.
        session.permit_tty: bool = PermitTTY [] Kind::YesNo, "yes", Carried, Everywhere, First, Line;
        /// `PermitUserRC`.
        session.permit_user_rc: bool = PermitUserRC [] Kind::YesNo, "yes", Carried, Everywhere, First, Line;
        /// `StrictModes`.
        user_keys.strict_modes: bool = StrictModes [] Kind::YesNo, "yes", Carried, Global, First, Line;
        /// `TCPKeepAlive`.
        connection.tcp_keep_alive: TcpKeepAlive = TCPKeepAlive ["KeepAlive"] Kind::Choice(TcpKeepAlive::SPELLINGS), "yes", Carried, Global, First, Line;
        /// `PermitEmptyPasswords`.
        authentication.permit_empty_passwords: bool = PermitEmptyPasswords [] Kind::YesNo, "no", Carried, Everywhere, First, Line;
        /// `Compression` (always delayed until after authentication).
        compression.method: Compression = Compression [] COMPRESSION, "yes", Carried, Global, First, Line;
        /// `GatewayPorts`.
        forwarding.gateway_ports: Gateway = GatewayPorts [] Kind::Choice(Gateway::SPELLINGS), "no", Carried, Everywhere, First, Line;
        /// `UseDNS`.
        connection.use_dns: bool = UseDNS [] Kind::YesNo, "no", Carried, Global, First, Line;
        /// `AllowTcpForwarding`; `disable_forwarding` overrides it.
        forwarding.allow_tcp_forwarding: AllowForwarding = AllowTcpForwarding [] Kind::Choice(AllowForwarding::SPELLINGS), "yes", Carried, Everywhere, First, Line;
        /// `AllowAgentForwarding`; `disable_forwarding` overrides it.
        forwarding.allow_agent_forwarding: bool = AllowAgentForwarding [] Kind::YesNo, "yes", Carried, Everywhere, First, Line;
        /// `DisableForwarding`: refuses every kind of forwarding.
        forwarding.disable_forwarding: bool = DisableForwarding [] Kind::YesNo, "no", Carried, Everywhere, First, Line;
        /// `AllowStreamLocalForwarding`; `disable_forwarding` overrides it.
        forwarding.allow_stream_local_forwarding: AllowForwarding = AllowStreamLocalForwarding [] Kind::Choice(AllowForwarding::SPELLINGS), "yes", Carried, Everywhere, First, Line;
        /// `StreamLocalBindUnlink`: a socket of the user at the path is removed first.
        forwarding.stream_local_bind_unlink: bool = StreamLocalBindUnlink [] Kind::YesNo, "no", Carried, Everywhere, First, Line;
        /// `FingerprintHash`.
        logging.fingerprint_hash: FingerprintHash = FingerprintHash [] Kind::Choice(FingerprintHash::SPELLINGS), "sha256", Carried, Global, First, Line;
        /// `ExposeAuthInfo`.
        session.expose_auth_info: bool = ExposeAuthInfo [] Kind::YesNo, "no", Carried, Everywhere, First, Line;
        /// `WarnWeakCrypto`: the weak algorithms that are logged.
        algorithms.warn_weak_crypto: WarnWeakCrypto = WarnWeakCrypto [] WARN_WEAK, "yes", Carried, Global, First, Line;
        /// `RefuseConnection`.
        connection.refuse_connection: bool = RefuseConnection [] Kind::YesNo, "no", Carried, Everywhere, First, Line;
        // Debian's version is never in the version line.
        DebianBanner [] Kind::YesNo, "no", Fulfilled, Global, First, Line;
        /// `PidFile`.
        connection.pid_file: Option<String> = PidFile [] Kind::Path, "/run/sshd.pid", Carried, Global, First, Line;
        /// `ModuliFile`.
        algorithms.moduli_file: String = ModuliFile [] Kind::Path, "/etc/ssh/moduli", Carried, Global, First, Line;
        /// `XAuthLocation`: the program that stores cookies; `none` if there is none.
        forwarding.xauth_location: String = XAuthLocation [] Kind::Path, "/usr/bin/xauth", Carried, Global, First, Line;
        /// `Ciphers`.
        algorithms.ciphers: Vec<String> = Ciphers [] Kind::Algorithms(Class::Cipher), "", Carried, Global, First, Comma;
        /// `MACs`.
        algorithms.macs: Vec<String> = MACs [] Kind::Algorithms(Class::Mac), "", Carried, Global, First, Comma;
        /// `Banner`: a file.
        authentication.banner: Option<String> = Banner [] Kind::Path, "none", Carried, Everywhere, First, Line;
        /// `ForceCommand`.
        session.force_command: Option<String> = ForceCommand [] Kind::Rest, "none", Carried, Everywhere, First, Line;
        /// `ChrootDirectory`: template; tokens %% %h %U %u.
        session.chroot_directory: Option<String> = ChrootDirectory [] Kind::Path, "none", Carried, Everywhere, First, Line;
        /// `TrustedUserCAKeys`: a file.
        user_keys.trusted_user_ca_keys: Option<String> = TrustedUserCAKeys [] Kind::Path, "none", Carried, Everywhere, First, Line;
        /// `SecurityKeyProvider`: the library of host keys in security keys, or `internal`.
        host_keys.security_key_provider: String = SecurityKeyProvider [] Kind::Path, "internal", Carried, Global, First, Line;
        /// `AuthorizedPrincipalsFile`: template; tokens %% %h %U %u.
        user_keys.authorized_principals_file: Option<String> = AuthorizedPrincipalsFile [] Kind::Text, "none", Carried, Everywhere, First, Line;
        /// `VersionNamesOpenSSH`: OpenSSH's name is the first one in the version line, before Fulmar's.
        connection.version_names_openssh: bool = VersionNamesOpenSSH [] Kind::YesNo, "no", Carried, Global, First, Line;
        /// `VersionAddendum`: text after the version in the version line.
        connection.version_addendum: Option<String> = VersionAddendum [] Kind::Rest, "none", Carried, Global, First, Line;
        /// `AuthorizedKeysCommand` with its arguments, not split; tokens %% %C %D %f %h %k %t %U %u.
        user_keys.authorized_keys_command: Option<String> = AuthorizedKeysCommand [] Kind::Rest, "none", Carried, Everywhere, First, Line;
        /// `AuthorizedKeysCommandUser`; set whenever the command is. Token %%, %u.
        user_keys.authorized_keys_command_user: Option<String> = AuthorizedKeysCommandUser [] Kind::Text, "none", Carried, Everywhere, First, Line;
        /// `AuthorizedPrincipalsCommand` with its arguments, not split; tokens %% %F %f %h %i %K %k %s %T %t %U %u.
        user_keys.authorized_principals_command: Option<String> = AuthorizedPrincipalsCommand [] Kind::Rest, "none", Carried, Everywhere, First, Line;
        /// `AuthorizedPrincipalsCommandUser`; set whenever the command is. Token %%, %u.
        user_keys.authorized_principals_command_user: Option<String> = AuthorizedPrincipalsCommandUser [] Kind::Text, "none", Carried, Everywhere, First, Line;
        /// `HostKeyAgent`: socket of an agent that signs with host keys, or `SSH_AUTH_SOCK` for the
        /// socket that this variable names.
        host_keys.agent: Option<String> = HostKeyAgent [] Kind::Path, "none", Carried, Global, First, Line;
        /// `KexAlgorithms`.
        algorithms.kex_algorithms: Vec<String> = KexAlgorithms [] Kind::Algorithms(Class::Kex), "", Carried, Global, First, Comma;
        /// `CASignatureAlgorithms`.
        algorithms.ca_signature_algorithms: Vec<String> = CASignatureAlgorithms [] Kind::Algorithms(Class::CaSignature), "", Carried, Everywhere, First, Comma;
        /// `HostbasedAcceptedAlgorithms`.
        algorithms.hostbased_accepted_algorithms: Vec<String> = HostbasedAcceptedAlgorithms ["HostbasedAcceptedKeyTypes"] Kind::Algorithms(Class::Signature), "", Carried, Everywhere, First, Comma;
        /// `HostKeyAlgorithms`: the algorithms that may be offered; those of the available keys are.
        algorithms.host_key_algorithms: Vec<String> = HostKeyAlgorithms [] Kind::Algorithms(Class::HostKey), "", Carried, Global, First, Comma;
        /// `PubkeyAcceptedAlgorithms`.
        algorithms.pubkey_accepted_algorithms: Vec<String> = PubkeyAcceptedAlgorithms ["PubkeyAcceptedKeyTypes"] Kind::Algorithms(Class::Signature), "", Carried, Everywhere, First, Comma;
        SshdSessionPath [] Kind::Path, "", Fulfilled, Global, First, Never;
        SshdAuthPath [] Kind::Path, "", Fulfilled, Global, First, Never;
        /// `PerSourcePenaltyExemptList`.
        limits.per_source_penalty_exempt_list: ExemptList = PerSourcePenaltyExemptList [] Kind::Parsed(forms::server::exempt_list), "none", Carried, Global, First, OrWord("none");
        /// `AgentSocketPath`.
        forwarding.agent_socket_path: AgentSocketPath = AgentSocketPath [] Kind::Parsed(forms::server::agent_socket_path), "", Carried, Everywhere, First, OrWord("user:.ssh/agent");
        RDomain [] Kind::Text, "none", Support::Restricting(&["none"]), Everywhere, First, Never;
        /// `LogLevel`.
        logging.log_level: LogLevel = LogLevel [] Kind::Parsed(forms::log_level), "INFO", Carried, Everywhere, First, Line;
        /// `LogFormat`: lines of the log are JSON objects.
        logging.is_json: bool = LogFormat [] LOG_FORMAT, "text", Carried, Global, First, Line;
        /// `SyslogFacility`.
        logging.syslog_facility: SyslogFacility = SyslogFacility [] Kind::Parsed(forms::facility), "AUTH", Carried, Global, First, Line;
        /// `AuthorizedKeysFile`: templates; tokens %% %h %U %u; relative ones start at the home directory.
        user_keys.authorized_keys_files: Vec<String> = AuthorizedKeysFile [] Kind::Parsed(forms::server::authorized_keys_files), ".ssh/authorized_keys .ssh/authorized_keys2", Carried, Everywhere, First, UnlessNone;
        /// `RevokedKeys`: files, each a list or KRL; a key that any of them lists is revoked.
        user_keys.revoked_keys: Vec<String> = RevokedKeys [] Kind::Paths, "none", Carried, Everywhere, First, UnlessNone;
        /// `HostKey`: files.
        host_keys.files: Vec<String> = HostKey ["HostDSAKey"] Kind::Path, "", Carried, Global, Add, PerWord;
        /// `HostCertificate`: files.
        host_keys.certificates: Vec<String> = HostCertificate [] Kind::Path, "", Carried, Global, Add, PerWord;
        /// `AllowUsers`: patterns `USER[@HOST]`, empty for no limit.
        authentication.allow_users: Patterns = AllowUsers [] Kind::Parsed(forms::server::user_patterns), "", Carried, Everywhere, Add, PerWord;
        /// `DenyUsers`.
        authentication.deny_users: Patterns = DenyUsers [] Kind::Parsed(forms::server::user_patterns), "", Carried, Everywhere, Add, PerWord;
        /// `AllowGroups`: patterns, empty for no limit.
        authentication.allow_groups: Patterns = AllowGroups [] Kind::Words, "", Carried, Everywhere, Add, PerWord;
        /// `DenyGroups`.
        authentication.deny_groups: Patterns = DenyGroups [] Kind::Words, "", Carried, Everywhere, Add, PerWord;
        /// `AcceptEnv`: patterns of variables that are accepted from the client.
        session.accept_env: Patterns = AcceptEnv [] Kind::Parsed(forms::environment_names), "", Carried, Everywhere, Add, PerWord;
        /// `SetEnv`.
        session.set_env: Vec<Variable> = SetEnv [] Kind::Parsed(forms::set_env), "", Carried, Everywhere, First, PerWord;
        /// `AuthenticationMethods`: each entry a chain of methods; empty means any one method.
        authentication.authentication_methods: Vec<Vec<String>> = AuthenticationMethods [] Kind::Parsed(forms::server::authentication_methods), "any", Carried, Everywhere, First, Line;
        /// `LogVerbose`: pattern-lists of places in the source ([`crate::log_verbose`]).
        logging.log_verbose: Vec<String> = LogVerbose [] Kind::Parsed(forms::server::log_verbose), "none", Carried, Everywhere, First, Line;
        /// `ChannelTimeout`.
        limits.channel_timeouts: ChannelTimeouts = ChannelTimeout [] Kind::Parsed(forms::channel_timeout), "none", Carried, Everywhere, First, Line;
        /// `Subsystem`, in order.
        session.subsystems: Vec<Subsystem> = Subsystem [] Kind::Parsed(forms::server::subsystem), "", Carried, Everywhere, Add, PerWord;
        /// `MaxStartups`.
        limits.max_startups: MaxStartups = MaxStartups [] Kind::Parsed(forms::server::max_startups), "10:30:100", Carried, Global, First, Line;
        /// `PerSourceMaxStartups`; `None` means no limit.
        limits.per_source_max_startups: Option<u32> = PerSourceMaxStartups [] Kind::Parsed(forms::server::source_startups), "none", Carried, Global, First, Line;
        /// `PerSourceNetBlockSize`: prefix lengths, in bits, of the IPv4 and IPv6 networks that count
        /// as one source.
        limits.per_source_net_block_size: (u8, u8) = PerSourceNetBlockSize [] Kind::Parsed(forms::server::net_block_size), "32:128", Carried, Global, First, Line;
        /// `PermitTunnel`; `disable_forwarding` overrides it.
        forwarding.permit_tunnel: PermitTunnel = PermitTunnel [] Kind::Parsed(forms::server::tunnel), "no", Carried, Everywhere, First, Line;
        /// `IPQoS`.
        connection.ip_qos: IpQos = IPQoS [] Kind::Parsed(forms::ip_qos), "ef cs0", Carried, Everywhere, First, Line;
        /// `RekeyLimit`.
        algorithms.rekey_limit: RekeyLimit = RekeyLimit [] Kind::Parsed(forms::rekey_limit), "default none", Carried, Everywhere, Complete, Line;
        /// `PermitOpen`: `host:port`, where either may be `*`, or the single word `any` or `none`.
        forwarding.permit_open: PermitList = PermitOpen [] Kind::Parsed(forms::server::permitted_opens), "any", Carried, Everywhere, First, Line;
        /// `PermitListen`: `any`, `none`, or the permitted addresses and ports.
        forwarding.permit_listen: PermitList = PermitListen [] Kind::Parsed(forms::server::permitted_listeners), "any", Carried, Everywhere, First, Line;
        /// `PermitUserEnvironment`.
        session.permit_user_environment: UserEnvironment = PermitUserEnvironment [] Kind::Parsed(forms::server::user_environment), "no", Carried, Global, First, Line;
        /// `PubkeyAuthOptions`.
        user_keys.pubkey_auth_options: PubkeyAuthOptions = PubkeyAuthOptions [] Kind::Parsed(forms::server::pubkey_options), "none max-pk-ok:6", Carried, Everywhere, First, Line;
        /// `AgentSocketLink`: a link beside the user's sockets leads to the newest forwarded agent.
        forwarding.agent_socket_link: bool = AgentSocketLink [] Kind::YesNo, "yes", Carried, Everywhere, First, Line;
        /// `UseMPTCP`.
        connection.use_mptcp: bool = UseMPTCP [] Kind::YesNo, "no", Carried, Global, First, Line;
        /// `EnableHwCompression`.
        compression.hw: HwCompression = EnableHwCompression [] HW_COMPRESSION, "no", Carried, Everywhere, First, Line;
        /// `HwCompressionLibrary`: absolute paths, in the order of trial.
        compression.hw_libraries: Vec<String> = HwCompressionLibrary [] Kind::Parsed(forms::libraries), "none", Carried, Global, First, Line;
        /// `HwCompressionVerify`: inflate and compare each compressed run before it is used.
        compression.hw_verify: bool = HwCompressionVerify [] Kind::YesNo, "yes", Carried, Everywhere, First, Line;
        /// `PreauthSpares`: number of workers forked before a connection arrives.
        limits.preauth_spares: u32 = PreauthSpares [] Kind::Integer { min: 0, max: 100 }, "1", Carried, Global, First, Line;
        /// `ProxyProtocolFrom`: a CIDR list of the load balancers that begin each connection with a
        /// header of the PROXY protocol; empty without any.
        connection.proxy_protocol_from: ExemptList = ProxyProtocolFrom [] Kind::Parsed(forms::server::proxy_protocol_from), "none", Carried, Global, First, OrWord("none");
        /// `MetricsListen`: a path or a loopback address with a port, where metrics are served; empty
        /// for none.
        logging.metrics_listen: String = MetricsListen [] Kind::Parsed(forms::server::metrics_listen), "none", Carried, Global, First, OrWord("none");
        /// `MetricsFile`: a file that metrics are written to.
        logging.metrics_file: Option<String> = MetricsFile [] Kind::Path, "none", Carried, Global, First, Line;
        /// `CryptoThreads`: most threads that encrypt and decrypt, the connection's own included;
        /// `None` is `auto`.
        limits.crypto_threads: Option<usize> = CryptoThreads [] Kind::Parsed(forms::crypto_threads), "auto", Carried, Everywhere, First, Line;
        /// `WindowMemory`: limit on the sum of all receive windows of a connection, bytes.
        limits.window_memory_bytes: u64 = WindowMemory [] Kind::Parsed(forms::window_memory), "256M", Carried, Everywhere, First, Line;
        /// `SftpRoot`: the directory that internal-sftp shows as `/`; template; tokens %% %h %U %u.
        session.sftp_root: Option<String> = SftpRoot [] Kind::Path, "none", Carried, Everywhere, First, Line;
        /// `RecordTerminals`: the directory of recordings of what terminals show.
        session.record_terminals: Option<String> = RecordTerminals [] Kind::Path, "none", Carried, Everywhere, First, Line;
        /// `CompressionLevel`, 1 to 9.
        compression.level: u8 = CompressionLevel [] Kind::Integer { min: 1, max: 9 }, "6", Carried, Everywhere, First, Line;
        /// `CompressionAdaptive`: store data that does not compress, and adapt the level to the link.
        compression.adaptive: bool = CompressionAdaptive [] Kind::YesNo, "yes", Carried, Everywhere, First, Line;
        /// `CompressionThreads`: most threads that compress; `None` is `auto`.
        compression.threads: Option<usize> = CompressionThreads [] Kind::Parsed(forms::crypto_threads), "auto", Carried, Everywhere, First, Line;
        /// `PerSourcePenalties`.
        limits.per_source_penalties: PerSourcePenalties = PerSourcePenalties [] Kind::Parsed(forms::server::penalties), "yes", Carried, Global, Add, Line;
        Include [] Kind::Structure, "", Carried, Everywhere, First, Never;
        Match [] Kind::Structure, "", Carried, Everywhere, First, Never;
        Protocol [] Kind::Rest, "", Ignored, Global, First, Never;
        KerberosGetAFSToken [
            "KerberosTgtPassing" "AFSTokenPassing" "PAMAuthenticationViaKbdInt"
        ] Kind::Rest, "", Unsupported, Global, First, Never;
        UsePrivilegeSeparation [
            "UseLogin" "KeyRegenerationInterval" "ServerKeyBits" "RhostsAuthentication" "CheckMail"
            "ReverseMappingCheck" "VerifyReverseMapping"
        ] Kind::Rest, "", Deprecated, Global, First, Never;
        RSAAuthentication ["RhostsRSAAuthentication" "AuthorizedKeysFile2"] Kind::Rest, "", Deprecated, Everywhere, First, Never;
    }
    and {
        /// Where to listen, with `Port` and `AddressFamily` applied.
        pub connection.listen_addresses: Vec<ListenAddress>,
        /// All values, encoded as by [`ServerOptions::encode`]; empty in options that are only read.
        pub(crate) self.source: Vec<u8>,
    }
}
