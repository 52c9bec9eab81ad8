//! The keywords of sshd_config, in the order of `sshd -T`.
//!
//! `Support` says what this server does with each: see [`crate::value::Support`]. To carry a keyword out, read
//! it in `server::build` and change its row here.

use crate::algorithms::Class;
use crate::forms;
use crate::value::Support::{self, Carried, Deprecated, Fulfilled, Ignored, Unsupported};
use crate::value::{Dump, Keyword, Kind, Repeat, Scope};

const COUNT: Kind = Kind::Integer {
    min: 0,
    max: 0x7fff_ffff,
};
const ADDRESS_FAMILY: Kind = Kind::Choice(&[("any", "any"), ("inet", "inet"), ("inet6", "inet6")]);
const ROOT_LOGIN: Kind = Kind::Choice(&[
    ("without-password", "without-password"),
    ("prohibit-password", "without-password"),
    ("forced-commands-only", "forced-commands-only"),
    ("yes", "yes"),
    ("no", "no"),
]);
/// "no-pq-kex" turns one warning off, and there is no other. The words are those that OpenSSH 10.6 prints.
const WARN_WEAK: Kind = Kind::Choice(&[
    ("yes", "true"),
    ("true", "true"),
    ("no", "false"),
    ("false", "false"),
    ("no-pq-kex", "false"),
]);
const KEEP_ALIVE: Kind = Kind::Choice(&[
    ("yes", "yes"),
    ("transport", "yes"),
    ("all", "all"),
    ("no", "no"),
]);
const HW_COMPRESSION: Kind = Kind::Choice(&[("no", "no"), ("yes", "yes"), ("require", "require")]);
const COMPRESSION: Kind = Kind::Choice(&[
    ("yes", "yes"),
    ("delayed", "yes"),
    ("no", "no"),
    ("zstd", "zstd"),
]);
const GATEWAY: Kind = Kind::Choice(&[
    ("yes", "yes"),
    ("no", "no"),
    ("clientspecified", "clientspecified"),
]);
const FORWARDING: Kind = Kind::Choice(&[
    ("yes", "yes"),
    ("all", "yes"),
    ("no", "no"),
    ("local", "local"),
    ("remote", "remote"),
]);
const RHOSTS: Kind = Kind::Choice(&[("yes", "yes"), ("no", "no"), ("shosts-only", "shosts-only")]);
const HASH: Kind = Kind::Choice(&[("md5", "MD5"), ("sha256", "SHA256")]);
/// Connections on the client's behalf (`direct-tcpip`) are carried out; listening for it is not.
const TCP_FORWARDING: Support =
    Support::Partly(&["no", "local"], "is carried out for local forwarding only");
const ENABLES: Support = Support::Enabling(&["no"]);

use Dump::{Comma, Line, Never, Octal, OrWord, PerWord};

keyword_table! {
    /// Keywords of sshd_config.
    Row, SERVER_TABLE {
        Port [] Kind::Parsed(forms::server::ports), "22", Carried, Global, Add, PerWord;
        AddressFamily [] ADDRESS_FAMILY, "any", Carried, Global, First, Line;
        ListenAddress [] Kind::Parsed(forms::server::listen_address), "", Carried, Global, Add, Never;
        UsePAM [] Kind::YesNo, "no", Carried, Global, First, Line;
        PAMServiceName [] Kind::Text, "fulmar", Carried, Everywhere, First, Line;
        LoginGraceTime [] Kind::Seconds { none: false }, "120", Carried, Global, First, Line;
        X11DisplayOffset [] COUNT, "10", Fulfilled, Everywhere, First, Line;
        MaxAuthTries [] COUNT, "6", Carried, Everywhere, First, Line;
        MaxSessions [] COUNT, "10", Carried, Everywhere, First, Line;
        ClientAliveInterval [] Kind::Seconds { none: false }, "0", Carried, Everywhere, First, Line;
        ClientAliveCountMax [] COUNT, "3", Carried, Everywhere, First, Line;
        RequiredRSASize [] Kind::Integer { min: 1024, max: 16384 }, "2048", Carried, Everywhere, First, Line;
        StreamLocalBindMask [] Kind::Mode, "0177", Fulfilled, Everywhere, First, Octal;
        UnusedConnectionTimeout [] Kind::Parsed(forms::server::unused_timeout), "none", Support::Restricting(&["none"]), Everywhere, First, Line;
        PermitRootLogin [] ROOT_LOGIN, "prohibit-password", Carried, Everywhere, First, Line;
        IgnoreRhosts [] RHOSTS, "yes", Fulfilled, Everywhere, First, Line;
        IgnoreUserKnownHosts [] Kind::YesNo, "no", Fulfilled, Global, First, Line;
        HostbasedAuthentication [] Kind::YesNo, "no", ENABLES, Everywhere, First, Line;
        HostbasedUsesNameFromPacketOnly [] Kind::YesNo, "no", Fulfilled, Everywhere, First, Line;
        PubkeyAuthentication ["DSAAuthentication"] Kind::YesNo, "yes", Carried, Everywhere, First, Line;
        PasswordAuthentication [] Kind::YesNo, "yes", Carried, Everywhere, First, Line;
        KbdInteractiveAuthentication ["ChallengeResponseAuthentication" "SkeyAuthentication"] Kind::YesNo, "yes", Carried, Everywhere, First, Line;
        PrintMotd [] Kind::YesNo, "yes", Carried, Global, First, Line;
        PrintLastLog [] Kind::YesNo, "yes", Carried, Global, First, Line;
        X11Forwarding [] Kind::YesNo, "no", ENABLES, Everywhere, First, Line;
        X11UseLocalhost [] Kind::YesNo, "yes", Fulfilled, Everywhere, First, Line;
        PermitTTY [] Kind::YesNo, "yes", Carried, Everywhere, First, Line;
        PermitUserRC [] Kind::YesNo, "yes", Carried, Everywhere, First, Line;
        StrictModes [] Kind::YesNo, "yes", Carried, Global, First, Line;
        TCPKeepAlive ["KeepAlive"] KEEP_ALIVE, "yes", Carried, Global, First, Line;
        PermitEmptyPasswords [] Kind::YesNo, "no", Carried, Everywhere, First, Line;
        Compression [] COMPRESSION, "yes", Carried, Global, First, Line;
        GatewayPorts [] GATEWAY, "no", ENABLES, Everywhere, First, Line;
        UseDNS [] Kind::YesNo, "no", Carried, Global, First, Line;
        AllowTcpForwarding [] FORWARDING, "yes", TCP_FORWARDING, Everywhere, First, Line;
        AllowAgentForwarding [] Kind::YesNo, "yes", ENABLES, Everywhere, First, Line;
        DisableForwarding [] Kind::YesNo, "no", Carried, Everywhere, First, Line;
        AllowStreamLocalForwarding [] FORWARDING, "yes", ENABLES, Everywhere, First, Line;
        StreamLocalBindUnlink [] Kind::YesNo, "no", Fulfilled, Everywhere, First, Line;
        FingerprintHash [] HASH, "sha256", Carried, Global, First, Line;
        ExposeAuthInfo [] Kind::YesNo, "no", Carried, Everywhere, First, Line;
        RefuseConnection [] Kind::YesNo, "no", Carried, Everywhere, First, Line;
        PidFile [] Kind::Path, "/run/sshd.pid", Carried, Global, First, Line;
        ModuliFile [] Kind::Path, "/etc/ssh/moduli", Carried, Global, First, Line;
        XAuthLocation [] Kind::Path, "/usr/bin/xauth", Fulfilled, Global, First, Line;
        Ciphers [] Kind::Algorithms(Class::Cipher), "", Carried, Global, First, Comma;
        MACs [] Kind::Algorithms(Class::Mac), "", Carried, Global, First, Comma;
        Banner [] Kind::Path, "none", Carried, Everywhere, First, Line;
        ForceCommand [] Kind::Rest, "none", Carried, Everywhere, First, Line;
        ChrootDirectory [] Kind::Path, "none", Carried, Everywhere, First, Line;
        TrustedUserCAKeys [] Kind::Path, "none", Carried, Everywhere, First, Line;
        RevokedKeys [] Kind::Paths, "none", Carried, Everywhere, First, Line;
        SecurityKeyProvider [] Kind::Path, "internal", Fulfilled, Global, First, Line;
        AuthorizedPrincipalsFile [] Kind::Text, "none", Carried, Everywhere, First, Line;
        VersionAddendum [] Kind::Rest, "none", Carried, Global, First, Line;
        AuthorizedKeysCommand [] Kind::Rest, "none", Carried, Everywhere, First, Line;
        AuthorizedKeysCommandUser [] Kind::Text, "none", Carried, Everywhere, First, Line;
        AuthorizedPrincipalsCommand [] Kind::Rest, "none", Carried, Everywhere, First, Line;
        AuthorizedPrincipalsCommandUser [] Kind::Text, "none", Carried, Everywhere, First, Line;
        HostKeyAgent [] Kind::Text, "none", Support::Restricting(&["none"]), Global, First, Line;
        KexAlgorithms [] Kind::Algorithms(Class::Kex), "", Carried, Global, First, Comma;
        CASignatureAlgorithms [] Kind::Algorithms(Class::CaSignature), "", Carried, Everywhere, First, Comma;
        HostbasedAcceptedAlgorithms ["HostbasedAcceptedKeyTypes"] Kind::Algorithms(Class::Signature), "", Fulfilled, Everywhere, First, Comma;
        HostKeyAlgorithms [] Kind::Algorithms(Class::HostKey), "", Carried, Global, First, Comma;
        PubkeyAcceptedAlgorithms ["PubkeyAcceptedKeyTypes"] Kind::Algorithms(Class::Signature), "", Carried, Everywhere, First, Comma;
        RDomain [] Kind::Text, "none", Support::Restricting(&["none"]), Everywhere, First, Line;
        LogLevel [] Kind::Parsed(forms::log_level), "INFO", Carried, Everywhere, First, Line;
        SyslogFacility [] Kind::Parsed(forms::facility), "AUTH", Carried, Global, First, Line;
        AuthorizedKeysFile [] Kind::Parsed(forms::server::authorized_keys_files), ".ssh/authorized_keys .ssh/authorized_keys2", Carried, Everywhere, First, Line;
        HostKey ["HostDSAKey"] Kind::Path, "", Carried, Global, Add, PerWord;
        HostCertificate [] Kind::Path, "", Carried, Global, Add, PerWord;
        AllowUsers [] Kind::Parsed(forms::server::user_patterns), "", Carried, Everywhere, Add, PerWord;
        DenyUsers [] Kind::Parsed(forms::server::user_patterns), "", Carried, Everywhere, Add, PerWord;
        AllowGroups [] Kind::Words, "", Carried, Everywhere, Add, PerWord;
        DenyGroups [] Kind::Words, "", Carried, Everywhere, Add, PerWord;
        AcceptEnv [] Kind::Parsed(forms::environment_names), "", Carried, Everywhere, Add, PerWord;
        SetEnv [] Kind::Parsed(forms::set_env), "", Carried, Everywhere, First, PerWord;
        AuthenticationMethods [] Kind::Parsed(forms::server::authentication_methods), "any", Carried, Everywhere, First, Line;
        LogVerbose [] Kind::Words, "none", Support::Enabling(&["none"]), Everywhere, First, Line;
        ChannelTimeout [] Kind::Parsed(forms::channel_timeout), "none", Support::Restricting(&["none"]), Everywhere, First, Line;
        Subsystem [] Kind::Parsed(forms::server::subsystem), "", Carried, Everywhere, Add, PerWord;
        MaxStartups [] Kind::Parsed(forms::server::max_startups), "10:30:100", Carried, Global, First, Line;
        PerSourceMaxStartups [] Kind::Parsed(forms::server::source_startups), "none", Carried, Global, First, Line;
        PerSourceNetBlockSize [] Kind::Parsed(forms::server::net_block_size), "32:128", Carried, Global, First, Line;
        PermitTunnel [] Kind::Parsed(forms::server::tunnel), "no", ENABLES, Everywhere, First, Line;
        IPQoS [] Kind::Parsed(forms::ip_qos), "ef cs0", Carried, Everywhere, First, Line;
        RekeyLimit [] Kind::Parsed(forms::rekey_limit), "default none", Carried, Everywhere, Complete, Line;
        PermitOpen [] Kind::Parsed(forms::server::permitted_opens), "any", Carried, Everywhere, First, Line;
        PermitListen [] Kind::Parsed(forms::server::permitted_listeners), "any", Fulfilled, Everywhere, First, Line;
        PermitUserEnvironment [] Kind::Parsed(forms::server::user_environment), "no", Carried, Global, First, Line;
        PubkeyAuthOptions [] Kind::Parsed(forms::server::pubkey_options), "none", Carried, Everywhere, First, Line;
        PerSourcePenalties [] Kind::Parsed(forms::server::penalties), "yes", Carried, Global, Add, Never;
        PerSourcePenaltyExemptList [] Kind::Parsed(forms::server::exempt_list), "none", Carried, Global, First, OrWord("none");
        SshdSessionPath [] Kind::Path, "", Support::Enabling(&[]), Global, First, Line;
        WarnWeakCrypto [] WARN_WEAK, "true", Carried, Global, First, Never;
        AgentSocketPath [] Kind::Parsed(forms::server::agent_socket_path), "", Fulfilled, Everywhere, First, Never;
        SshdAuthPath [] Kind::Path, "", Support::Enabling(&[]), Global, First, Line;
        UseMPTCP [] Kind::YesNo, "no", Carried, Global, First, Line;
        EnableHwCompression [] HW_COMPRESSION, "no", Carried, Everywhere, First, Line;
        HwCompressionLibrary [] Kind::Parsed(forms::libraries), "none", Carried, Global, First, Line;
        HwCompressionVerify [] Kind::YesNo, "yes", Carried, Everywhere, First, Line;
        PreauthSpares [] Kind::Integer { min: 0, max: 100 }, "1", Carried, Global, First, Line;
        CryptoThreads [] Kind::Parsed(forms::crypto_threads), "auto", Carried, Everywhere, First, Line;
        WindowMemory [] Kind::Parsed(forms::window_memory), "256M", Carried, Everywhere, First, Line;
        SftpRoot [] Kind::Path, "none", Carried, Everywhere, First, Line;
        CompressionLevel [] Kind::Integer { min: 1, max: 9 }, "6", Carried, Everywhere, First, Line;
        CompressionAdaptive [] Kind::YesNo, "yes", Carried, Everywhere, First, Line;
        CompressionThreads [] Kind::Parsed(forms::crypto_threads), "auto", Carried, Everywhere, First, Line;
        DebianBanner [] Kind::YesNo, "", Fulfilled, Global, First, Never;
        Include [] Kind::Structure, "", Carried, Everywhere, First, Never;
        Match [] Kind::Structure, "", Carried, Everywhere, First, Never;
        Protocol [] Kind::Rest, "", Ignored, Global, First, Never;
        GSSAPIAuthentication ["KerberosAuthentication"] Kind::Rest, "", Unsupported, Everywhere, First, Never;
        GSSAPICleanupCredentials [
            "GSSAPICleanupCreds" "GSSAPIStrictAcceptorCheck" "GSSAPIKeyExchange" "GSSAPIStoreCredentialsOnRekey"
            "GSSAPIKexAlgorithms" "GSSAPIDelegateCredentials" "KerberosOrLocalPasswd" "KerberosTicketCleanup"
            "KerberosGetAFSToken" "KerberosTgtPassing" "AFSTokenPassing" "PAMAuthenticationViaKbdInt"
        ] Kind::Rest, "", Unsupported, Global, First, Never;
        UsePrivilegeSeparation [
            "UseLogin" "KeyRegenerationInterval" "ServerKeyBits" "RhostsAuthentication" "CheckMail"
            "ReverseMappingCheck" "VerifyReverseMapping"
        ] Kind::Rest, "", Deprecated, Global, First, Never;
        RSAAuthentication ["RhostsRSAAuthentication" "AuthorizedKeysFile2"] Kind::Rest, "", Deprecated, Everywhere, First, Never;
    }
}
