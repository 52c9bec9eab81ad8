//! The keywords of ssh_config, in the order of `ssh -G`.
//!
//! Each row is all that describes a keyword: its field of [`ClientOptions`] with the type, the
//! names, how it is read, the default, how far it is supported, scope, repetition and dump.
//! Tokens and tildes of the fields are expanded (`client::build`), except in templates that need
//! facts of the connection (`LocalCommand`, `KnownHostsCommand`): [`ClientOptions::tokens`] expands
//! those.
//!
//! To implement a keyword, give its row a field and change its [`Support`](crate::value::Support).

use crate::algorithms::Class;
use crate::channel_timeouts::ChannelTimeouts;
use crate::client::options::{
    Canonicalize, ControlMaster, ForwardAgent, IdentityAgent, IdentityFile, PipelineLogin, Proxy,
    PubkeyAuthentication, RequestTty, SessionType, StrictHostKeyChecking, Tunnel,
};
use crate::client::types::{
    AddKeysToAgent, ControlPersist, JumpHost, NameOrVariable, TunnelDevice, YesNoAsk,
};
use crate::error::Warning;
use crate::forms;
use crate::forward::ForwardSpec;
use crate::permit::PermitList;
use crate::tokens::Tokens;
use crate::types::{
    AddressFamily, Compression, EscapeChar, FingerprintHash, HwCompression, IpQos, LogLevel,
    RekeyLimit, SyslogFacility, TcpKeepAlive, Variable, WarnWeakCrypto,
};
use crate::value::Support::{Carried, Deprecated, Ignored, Unsupported};
use crate::value::{Choice, Dump, Keyword, Kind, Repeat, Scope, Value, Values};

const COUNT: Kind = Kind::Integer {
    min: 0,
    max: 0x7fff_ffff,
};
/// `ssh -G` of OpenSSH 10.6 prints `no` for `no-pq-kex`.
const WARN_WEAK: Kind = Kind::Choice(&[
    ("yes", WarnWeakCrypto::Yes.choice()),
    ("true", WarnWeakCrypto::Yes.choice()),
    ("no", WarnWeakCrypto::No.choice()),
    ("false", WarnWeakCrypto::No.choice()),
    (
        "no-pq-kex",
        Choice {
            word: WarnWeakCrypto::No.word(),
            ..WarnWeakCrypto::NoPqKex.choice()
        },
    ),
]);

use Dump::{Comma, Line, Never, Octal, OrWord, PerWord, UnlessNone};

keywords! {
    /// Keywords of ssh_config.
    Row, CLIENT_TABLE;
    /// The resolved options for one host, made by [`crate::client::ClientConfig::resolve`].
    ClientOptions {
        /// Remote user (`%r`).
        self.user: String = User [] Kind::Text, "", Carried, Everywhere, First, Line;
        /// The host to connect to, after `HostName` and canonicalisation (`%h`).
        self.hostname: String = HostName [] Kind::Text, "", Carried, Everywhere, First, Line;
        /// Remote port (`%p`).
        self.port: u16 = Port [] Kind::Port, "22", Carried, Everywhere, First, Line;
        /// `AddressFamily`.
        connection.address_family: AddressFamily = AddressFamily [] Kind::Choice(AddressFamily::SPELLINGS), "any", Carried, Everywhere, First, Line;
        /// `BatchMode`: never ask the user.
        authentication.batch_mode: bool = BatchMode [] Kind::Flag, "no", Carried, Everywhere, First, Line;
        CanonicalizeFallbackLocal [] Kind::Flag, "yes", Carried, Everywhere, First, Line;
        CanonicalizeHostname [] Kind::Choice(Canonicalize::SPELLINGS), "no", Carried, Everywhere, First, Line;
        /// `CheckHostIP`: the host's address is looked up in known_hosts too.
        host_keys.check_host_ip: bool = CheckHostIP [] Kind::Flag, "no", Carried, Everywhere, First, Line;
        /// `Compression`.
        compression.method: Compression = Compression [] Kind::Choice(Compression::SPELLINGS), "no", Carried, Everywhere, First, Line;
        /// `ControlMaster`.
        connection.control_master: ControlMaster = ControlMaster [] Kind::Choice(ControlMaster::SPELLINGS), "no", Carried, Everywhere, First, Line;
        EnableSSHKeysign [] Kind::Flag, "no", Carried, Everywhere, First, Line;
        ClearAllForwardings [] Kind::Flag, "no", Carried, Everywhere, First, Line;
        /// `ExitOnForwardFailure`: end if a forwarding cannot be set up.
        forwarding.exit_on_forward_failure: bool = ExitOnForwardFailure [] Kind::Flag, "no", Carried, Everywhere, First, Line;
        /// `FingerprintHash`.
        logging.fingerprint_hash: FingerprintHash = FingerprintHash [] Kind::Choice(FingerprintHash::SPELLINGS), "sha256", Carried, Everywhere, First, Line;
        /// `ForwardX11`.
        forwarding.x11: bool = ForwardX11 [] Kind::Flag, "no", Carried, Everywhere, First, Line;
        /// `ForwardX11Trusted`: remote programs get all rights at the X server.
        forwarding.x11_trusted: bool = ForwardX11Trusted [] Kind::Flag, "no", Carried, Everywhere, First, Line;
        /// `GatewayPorts` (`-g`): listeners without an address accept connections on all addresses.
        forwarding.gateway_ports: bool = GatewayPorts [] Kind::Flag, "no", Carried, Everywhere, First, Line;
        /// `GSSAPIAuthentication`: gssapi-with-mic with Kerberos.
        authentication.gssapi_authentication: bool = GSSAPIAuthentication [] Kind::Flag, "no", Carried, Everywhere, First, Line;
        /// `GSSAPIKeyExchange`: key exchanges with Kerberos, which prove the server without a host key.
        authentication.gssapi_key_exchange: bool = GSSAPIKeyExchange [] Kind::Flag, "no", Carried, Everywhere, First, Line;
        /// `GSSAPIDelegateCredentials`: the server gets the user's credentials.
        authentication.gssapi_delegate_credentials: bool = GSSAPIDelegateCredentials [] Kind::Flag, "no", Carried, Everywhere, First, Line;
        /// `GSSAPITrustDns`: the ticket is for the name that the DNS gives for the server's address.
        authentication.gssapi_trust_dns: bool = GSSAPITrustDns [] Kind::Flag, "no", Carried, Everywhere, First, Line;
        /// `GSSAPIRenewalForcesRekey`: credentials that were renewed are delegated in a rekey.
        authentication.gssapi_renewal_forces_rekey: bool = GSSAPIRenewalForcesRekey [] Kind::Flag, "no", Carried, Everywhere, First, Line;
        /// `GSSAPIClientIdentity`: the principal whose tickets are used.
        authentication.gssapi_client_identity: Option<String> = GSSAPIClientIdentity [] Kind::Text, "", Carried, Everywhere, First, Line;
        /// `GSSAPIServerIdentity`: the name after `host/` of the server's principal.
        authentication.gssapi_server_identity: Option<String> = GSSAPIServerIdentity [] Kind::Text, "", Carried, Everywhere, First, Line;
        /// `GSSAPIKexAlgorithms`, without the mechanism at their end.
        algorithms.gssapi_kex_algorithms: Vec<String> = GSSAPIKexAlgorithms [] Kind::Algorithms(Class::GssKex), "", Carried, Everywhere, First, Comma;
        /// `HashKnownHosts`.
        host_keys.hash_known_hosts: bool = HashKnownHosts [] Kind::Flag, "no", Carried, Everywhere, First, Line;
        /// `HostbasedAuthentication`: log in with the keys of this host.
        authentication.hostbased_authentication: bool = HostbasedAuthentication [] Kind::Flag, "no", Carried, Everywhere, First, Line;
        /// `IdentitiesOnly`.
        user_keys.identities_only: bool = IdentitiesOnly [] Kind::Flag, "no", Carried, Everywhere, First, Line;
        /// `KbdInteractiveAuthentication`.
        authentication.kbd_interactive_authentication: bool = KbdInteractiveAuthentication ["ChallengeResponseAuthentication" "SkeyAuthentication" "TISAuthentication"] Kind::Flag, "yes", Carried, Everywhere, First, Line;
        /// `NoHostAuthenticationForLocalhost`.
        host_keys.no_host_authentication_for_localhost: bool = NoHostAuthenticationForLocalhost [] Kind::Flag, "no", Carried, Everywhere, First, Line;
        /// `PasswordAuthentication`.
        authentication.password_authentication: bool = PasswordAuthentication [] Kind::Flag, "yes", Carried, Everywhere, First, Line;
        /// `PermitLocalCommand`.
        session.permit_local_command: bool = PermitLocalCommand [] Kind::Flag, "no", Carried, Everywhere, First, Line;
        /// `ProxyUseFdpass`: the proxy command passes a connected descriptor back.
        connection.proxy_use_fdpass: bool = ProxyUseFdpass [] Kind::Flag, "no", Carried, Everywhere, First, Line;
        /// `PubkeyAuthentication`.
        authentication.pubkey_authentication: PubkeyAuthentication = PubkeyAuthentication ["DSAAuthentication"] Kind::Choice(PubkeyAuthentication::SPELLINGS), "yes", Carried, Everywhere, First, Line;
        /// `RequestTTY`.
        session.request_tty: RequestTty = RequestTTY [] Kind::Choice(RequestTty::SPELLINGS), "auto", Carried, Everywhere, First, Line;
        /// `SessionType`.
        session.session_type: SessionType = SessionType [] Kind::Choice(SessionType::SPELLINGS), "default", Carried, Everywhere, First, Line;
        /// `StdinNull` (`-n`).
        session.stdin_null: bool = StdinNull [] Kind::Flag, "no", Carried, Everywhere, First, Line;
        /// `ForkAfterAuthentication` (`-f`).
        session.fork_after_authentication: bool = ForkAfterAuthentication [] Kind::Flag, "no", Carried, Everywhere, First, Line;
        /// `StreamLocalBindUnlink`: a socket of the user at the path is removed first.
        forwarding.stream_local_bind_unlink: bool = StreamLocalBindUnlink [] Kind::Flag, "no", Carried, Everywhere, First, Line;
        /// `StrictHostKeyChecking`.
        host_keys.strict_host_key_checking: StrictHostKeyChecking = StrictHostKeyChecking [] Kind::Choice(StrictHostKeyChecking::SPELLINGS), "ask", Carried, Everywhere, First, Line;
        /// `TCPKeepAlive`.
        connection.tcp_keep_alive: TcpKeepAlive = TCPKeepAlive ["KeepAlive"] Kind::Choice(TcpKeepAlive::SPELLINGS), "yes", Carried, Everywhere, First, Line;
        /// `Tunnel` (`-w`).
        forwarding.tunnel: Tunnel = Tunnel [] Kind::Choice(Tunnel::SPELLINGS), "no", Carried, Everywhere, First, Line;
        /// `VerifyHostKeyDNS`: fingerprints of the host's keys are looked up in the DNS.
        host_keys.verify_host_key_dns: YesNoAsk = VerifyHostKeyDNS [] Kind::Choice(YesNoAsk::SPELLINGS), "no", Carried, Everywhere, First, Line;
        /// `VisualHostKey`.
        host_keys.visual_host_key: bool = VisualHostKey [] Kind::Flag, "no", Carried, Everywhere, First, Line;
        /// `UpdateHostKeys`.
        host_keys.update_host_keys: YesNoAsk = UpdateHostKeys [] Kind::Choice(YesNoAsk::SPELLINGS), "", Carried, Everywhere, First, Line;
        /// `EnableEscapeCommandline`: the escape `~C` opens a command line.
        session.enable_escape_commandline: bool = EnableEscapeCommandline [] Kind::Flag, "no", Carried, Everywhere, First, Line;
        /// `WarnWeakCrypto`: the weak algorithms that are warned of.
        algorithms.warn_weak_crypto: WarnWeakCrypto = WarnWeakCrypto [] WARN_WEAK, "yes", Carried, Everywhere, First, Line;
        CanonicalizeMaxDots [] COUNT, "1", Carried, Everywhere, First, Line;
        /// `ConnectionAttempts`.
        connection.connection_attempts: u32 = ConnectionAttempts [] COUNT, "1", Carried, Everywhere, First, Line;
        /// `ForwardX11Timeout` in seconds; 0 means no limit.
        forwarding.x11_timeout_s: u32 = ForwardX11Timeout [] Kind::Seconds { none: true }, "1200", Carried, Everywhere, First, Line;
        /// `NumberOfPasswordPrompts`.
        authentication.number_of_password_prompts: u32 = NumberOfPasswordPrompts [] COUNT, "3", Carried, Everywhere, First, Line;
        /// `ServerAliveCountMax`.
        connection.server_alive_count_max: u32 = ServerAliveCountMax [] COUNT, "3", Carried, Everywhere, First, Line;
        /// `ServerAliveInterval` in seconds; 0 sends none.
        connection.server_alive_interval_s: u32 = ServerAliveInterval ["ProtocolKeepAlives"] Kind::Seconds { none: true }, "0", Carried, Everywhere, First, Line;
        /// `RequiredRSASize` in bits.
        algorithms.required_rsa_size: u32 = RequiredRSASize [] COUNT, "2048", Carried, Everywhere, First, Line;
        /// `ObscureKeystrokeTiming`: interval between the send times of keystrokes, milliseconds;
        /// `None` if their timing is not hidden.
        session.obscure_keystrokes_ms: Option<u32> = ObscureKeystrokeTiming [] Kind::Parsed(forms::client::obscure_keystrokes), "yes", Carried, Everywhere, First, Line;
        /// `BindAddress`.
        connection.bind_address: Option<String> = BindAddress [] Kind::Text, "", Carried, Everywhere, First, Line;
        /// `BindInterface`.
        connection.bind_interface: Option<String> = BindInterface [] Kind::Text, "", Carried, Everywhere, First, Line;
        /// `Ciphers`.
        algorithms.ciphers: Vec<String> = Ciphers [] Kind::Algorithms(Class::Cipher), "", Carried, Everywhere, First, Comma;
        /// `ControlPath`, expanded; `none` is a path of no socket.
        connection.control_path: Option<String> = ControlPath [] Kind::Text, "", Carried, Everywhere, First, UnlessNone;
        /// `HostKeyAlgorithms`, resolved; `host_key_algorithms_set` is true if the user chose them.
        algorithms.host_key_algorithms: Vec<String> = HostKeyAlgorithms [] Kind::Algorithms(Class::HostKey), "", Carried, Everywhere, First, Comma;
        /// `HostKeyAlias`: looked up in known_hosts instead of the host.
        host_keys.host_key_alias: Option<String> = HostKeyAlias [] Kind::Text, "", Carried, Everywhere, First, Line;
        /// `HostbasedAcceptedAlgorithms`: for the keys of this host, in the order of preference.
        algorithms.hostbased_accepted_algorithms: Vec<String> = HostbasedAcceptedAlgorithms ["HostbasedKeyTypes" "HostbasedAcceptedKeyTypes"] Kind::Algorithms(Class::Signature), "", Carried, Everywhere, First, Comma;
        IdentityAgent [] Kind::Parsed(forms::client::identity_agent), "", Carried, Everywhere, First, Line;
        IgnoreUnknown [] Kind::Text, "", Carried, Everywhere, First, Line;
        /// `KbdInteractiveDevices`: the submethods that keyboard-interactive asks for, with commas between.
        authentication.kbd_interactive_devices: Option<String> = KbdInteractiveDevices [] Kind::Text, "", Carried, Everywhere, First, Line;
        /// `KexAlgorithms`.
        algorithms.kex_algorithms: Vec<String> = KexAlgorithms [] Kind::Algorithms(Class::Kex), "", Carried, Everywhere, First, Comma;
        /// `CASignatureAlgorithms`.
        algorithms.ca_signature_algorithms: Vec<String> = CASignatureAlgorithms [] Kind::Algorithms(Class::CaSignature), "", Carried, Everywhere, First, Comma;
        /// `LocalCommand`, if `PermitLocalCommand` allows it: a shell command that accepts all tokens,
        /// as above.
        session.local_command: Option<String> = LocalCommand [] Kind::Rest, "", Carried, Everywhere, First, UnlessNone;
        /// `RemoteCommand`, expanded.
        session.remote_command: Option<String> = RemoteCommand [] Kind::Rest, "", Carried, Everywhere, First, UnlessNone;
        /// `LogLevel`.
        logging.log_level: LogLevel = LogLevel [] Kind::Parsed(forms::log_level), "INFO", Carried, Everywhere, First, Line;
        /// `MACs`.
        algorithms.macs: Vec<String> = MACs [] Kind::Algorithms(Class::Mac), "", Carried, Everywhere, First, Comma;
        /// `PKCS11Provider`: a library that reaches tokens.
        user_keys.pkcs11_provider: Option<NameOrVariable> = PKCS11Provider ["SmartcardDevice"] Kind::Parsed(forms::client::library), "", Carried, Everywhere, First, UnlessNone;
        /// `SecurityKeyProvider`: a library's path or `internal`.
        user_keys.security_key_provider: Option<NameOrVariable> = SecurityKeyProvider [] Kind::Parsed(forms::client::library), "internal", Carried, Everywhere, First, UnlessNone;
        /// `PreferredAuthentications`, in order.
        authentication.preferred_authentications: Vec<String> = PreferredAuthentications [] Kind::Text, "", Carried, Everywhere, First, Line;
        /// `PubkeyAcceptedAlgorithms`.
        algorithms.pubkey_accepted_algorithms: Vec<String> = PubkeyAcceptedAlgorithms ["PubkeyAcceptedKeyTypes"] Kind::Algorithms(Class::Signature), "", Carried, Everywhere, First, Comma;
        /// `RevokedHostKeys`: expanded; files, each a list or KRL. A key that any of them lists is
        /// revoked.
        host_keys.revoked_host_keys: Vec<String> = RevokedHostKeys [] Kind::Paths, "", Carried, Everywhere, First, OrWord("none");
        /// `XAuthLocation`: the program that reads and makes cookies.
        forwarding.xauth_location: String = XAuthLocation [] Kind::Text, "/usr/bin/xauth", Carried, Everywhere, First, Line;
        /// `KnownHostsCommand`: a command with arguments, not split; accepts all tokens, of which the
        /// caller sets %f %H %I %K %t.
        host_keys.known_hosts_command: Option<String> = KnownHostsCommand [] Kind::Rest, "", Carried, Everywhere, First, UnlessNone;
        Tag [] Kind::Text, "", Carried, Everywhere, First, Line;
        /// `VersionAddendum`, expanded.
        connection.version_addendum: Option<String> = VersionAddendum [] Kind::Rest, "", Carried, Everywhere, First, Line;
        /// `DynamicForward` (`-D`).
        forwarding.dynamic_forwards: Vec<ForwardSpec> = DynamicForward [] Kind::Parsed(forms::client::dynamic_forward), "", Carried, Everywhere, Add, PerWord;
        /// `LocalForward` (`-L`).
        forwarding.local_forwards: Vec<ForwardSpec> = LocalForward [] Kind::Parsed(forms::client::local_forward), "", Carried, Everywhere, Add, PerWord;
        /// `RemoteForward` (`-R`).
        forwarding.remote_forwards: Vec<ForwardSpec> = RemoteForward [] Kind::Parsed(forms::client::remote_forward), "", Carried, Everywhere, Add, PerWord;
        IdentityFile ["IdentityFile2"] Kind::Text, "", Carried, Everywhere, Add, PerWord;
        CanonicalDomains [] Kind::Parsed(forms::client::domains), "none", Carried, Everywhere, First, Line;
        /// `CertificateFile`: expanded.
        user_keys.certificate_files: Vec<String> = CertificateFile [] Kind::Text, "", Carried, Everywhere, Add, PerWord;
        /// `GlobalKnownHostsFile`: expanded.
        host_keys.global_known_hosts_files: Vec<String> = GlobalKnownHostsFile [] Kind::Parsed(forms::client::known_hosts_files), "/etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2", Carried, Everywhere, First, Line;
        /// `UserKnownHostsFile`: expanded; new keys go to the first.
        host_keys.user_known_hosts_files: Vec<String> = UserKnownHostsFile [] Kind::Parsed(forms::client::known_hosts_files), "~/.ssh/known_hosts ~/.ssh/known_hosts2", Carried, Everywhere, First, Line;
        /// `SendEnv`: patterns of local variables.
        session.send_env: Vec<String> = SendEnv [] Kind::Parsed(forms::environment_names), "", Carried, Everywhere, Add, PerWord;
        /// `SetEnv`.
        session.set_env: Vec<Variable> = SetEnv [] Kind::Parsed(forms::set_env), "", Carried, Everywhere, First, PerWord;
        /// `LogVerbose`: pattern-lists of places in the source ([`crate::log_verbose`]).
        logging.log_verbose: Vec<String> = LogVerbose [] Kind::Words, "", Carried, Everywhere, First, OrWord("none");
        /// `ChannelTimeout`.
        limits.channel_timeouts: ChannelTimeouts = ChannelTimeout [] Kind::Parsed(forms::channel_timeout), "none", Carried, Everywhere, First, Line;
        /// `PermitRemoteOpen`: `any`, `none`, or the targets that SOCKS requests from the server may
        /// name.
        forwarding.permit_remote_open: PermitList = PermitRemoteOpen [] Kind::Parsed(forms::permitted_remotes), "any", Carried, Everywhere, First, Line;
        /// `AddKeysToAgent`.
        user_keys.add_to_agent: AddKeysToAgent = AddKeysToAgent [] Kind::Parsed(forms::client::add_keys_to_agent), "no", Carried, Everywhere, First, Line;
        ForwardAgent [] Kind::Parsed(forms::client::forward_agent), "no", Carried, Everywhere, First, Line;
        /// `ConnectTimeout` in seconds; `None` leaves the limit to TCP.
        connection.connect_timeout_s: Option<u32> = ConnectTimeout ["SetupTimeOut"] Kind::Seconds { none: true }, "none", Carried, Everywhere, First, Line;
        /// `TunnelDevice`: the numbers of this machine's device and of the server's.
        forwarding.tunnel_device: TunnelDevice = TunnelDevice [] Kind::Parsed(forms::client::tunnel_device), "any:any", Carried, Everywhere, First, Line;
        CanonicalizePermittedCNAMEs [] Kind::Parsed(forms::client::cname_rules), "none", Carried, Everywhere, First, Line;
        /// `ControlPersist`.
        connection.control_persist: ControlPersist = ControlPersist [] Kind::Parsed(forms::client::control_persist), "no", Carried, Everywhere, First, Line;
        /// `EscapeChar`.
        session.escape_char: EscapeChar = EscapeChar [] Kind::Parsed(forms::client::escape_char), "~", Carried, Everywhere, First, Line;
        /// `IPQoS`.
        connection.ip_qos: IpQos = IPQoS [] Kind::Parsed(forms::ip_qos), "ef cs0", Carried, Everywhere, First, Line;
        /// `RekeyLimit`.
        algorithms.rekey_limit: RekeyLimit = RekeyLimit [] Kind::Parsed(forms::rekey_limit), "default none", Carried, Everywhere, Complete, Line;
        /// `StreamLocalBindMask`: umask of the sockets of listeners.
        forwarding.stream_local_bind_mask: u32 = StreamLocalBindMask [] Kind::Mode, "0177", Carried, Everywhere, First, Octal;
        /// `SyslogFacility`.
        logging.syslog_facility: SyslogFacility = SyslogFacility [] Kind::Parsed(forms::facility), "USER", Carried, Everywhere, First, Line;
        ProxyCommand [] Kind::Rest, "", Carried, Everywhere, First, UnlessNone;
        ProxyJump [] Kind::Parsed(forms::client::proxy_jump), "", Carried, Everywhere, First, UnlessNone;
        /// `UseMPTCP`.
        connection.use_mptcp: bool = UseMPTCP [] Kind::Flag, "no", Carried, Everywhere, First, Line;
        /// `EnableHwCompression`.
        compression.hw: HwCompression = EnableHwCompression [] Kind::Choice(HwCompression::SPELLINGS), "no", Carried, Everywhere, First, Line;
        /// `HwCompressionLibrary`: absolute paths, in the order of trial.
        compression.hw_libraries: Vec<String> = HwCompressionLibrary [] Kind::Parsed(forms::libraries), "none", Carried, Everywhere, First, Line;
        /// `HwCompressionVerify`: inflate and compare each compressed run before it is used.
        compression.hw_verify: bool = HwCompressionVerify [] Kind::Flag, "yes", Carried, Everywhere, First, Line;
        /// `CryptoThreads`: most threads that encrypt and decrypt, the connection's own included;
        /// `None` is `auto`.
        limits.crypto_threads: Option<usize> = CryptoThreads [] Kind::Parsed(forms::crypto_threads), "auto", Carried, Everywhere, First, Line;
        /// `WindowMemory`: limit on the sum of all receive windows of a connection, bytes.
        limits.window_memory_bytes: u64 = WindowMemory [] Kind::Parsed(forms::window_memory), "256M", Carried, Everywhere, First, Line;
        /// `CompressionLevel`, 1 to 9.
        compression.level: u8 = CompressionLevel [] Kind::Integer { min: 1, max: 9 }, "6", Carried, Everywhere, First, Line;
        /// `CompressionAdaptive`: store data that does not compress, and adapt the level to the link.
        compression.adaptive: bool = CompressionAdaptive [] Kind::Flag, "yes", Carried, Everywhere, First, Line;
        /// `CompressionThreads`: most threads that compress; `None` is `auto`.
        compression.threads: Option<usize> = CompressionThreads [] Kind::Parsed(forms::crypto_threads), "auto", Carried, Everywhere, First, Line;
        /// `ControlConnections`: the connections that share the sessions of one `ControlPath`.
        connection.control_connections: u32 = ControlConnections [] Kind::Integer { min: 1, max: 64 }, "1", Carried, Everywhere, First, Line;
        /// `LoginCache`: cache a profile of each server, so that the next login can be pipelined.
        authentication.login_cache: bool = LoginCache [] Kind::Flag, "yes", Carried, Everywhere, First, Line;
        /// `PipelineLogin`.
        authentication.pipeline_login: PipelineLogin = PipelineLogin [] Kind::Choice(PipelineLogin::SPELLINGS), "auto", Carried, Everywhere, First, Line;
        /// `TCPFastOpen`: send the first bytes with the SYN.
        connection.tcp_fast_open: bool = TCPFastOpen [] Kind::Flag, "no", Carried, Everywhere, First, Line;
        RefuseConnection [] Kind::Text, "", Carried, Everywhere, First, Never;
        Host [] Kind::Structure, "", Carried, Everywhere, First, Never;
        Match [] Kind::Structure, "", Carried, Everywhere, First, Never;
        Include [] Kind::Structure, "", Carried, Everywhere, First, Never;
        Protocol ["UseRoaming"] Kind::Rest, "", Ignored, Everywhere, First, Never;
        AFSTokenPassing [
            "KerberosAuthentication" "KerberosTgtPassing" "RSAAuthentication" "RhostsRSAAuthentication"
        ] Kind::Rest, "", Unsupported, Everywhere, First, Never;
        Cipher [
            "FallBackToRsh" "GlobalKnownHostsFile2" "RhostsAuthentication" "UserKnownHostsFile2" "UsePrivilegedPort"
            "UseRsh"
        ] Kind::Rest, "", Deprecated, Everywhere, First, Never;
    }
    and {
        /// The host as typed (`%n`).
        pub self.host_argument: String,
        /// True if `HostKeyAlgorithms` was set, and not with `+` or `-`: its order is then kept, whatever known_hosts contains.
        pub algorithms.host_key_algorithms_set: bool,
        /// True if `KexAlgorithms` was set: the user knows of the method then.
        pub algorithms.kex_algorithms_set: bool,
        /// `IdentityFile`: expanded, or the defaults.
        pub user_keys.identity_files: Vec<IdentityFile>,
        /// `IdentityAgent`: expanded.
        pub user_keys.identity_agent: IdentityAgent,
        /// `ForwardAgent`: expanded.
        pub forwarding.agent: ForwardAgent,
        /// `ProxyCommand` or `ProxyJump`: expanded.
        pub connection.proxy: Proxy,
        /// The tokens of this host, which expand templates.
        pub self.tokens: Tokens,
        /// Warnings about settings that are accepted but not carried out, one for each keyword.
        pub self.warnings: Vec<Warning>,
        pub(crate) self.values: Values,
    }
}

/// The hops of `ProxyJump` before expansion; none if it is not set or `none`.
pub(crate) fn jumps(values: &Values) -> &[JumpHost] {
    match values.at(Row::ProxyJump.index()) {
        Some(Value::Jumps(jumps)) => &jumps.hops,
        _ => &[],
    }
}
