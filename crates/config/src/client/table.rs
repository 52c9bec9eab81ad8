//! The keywords of ssh_config, in the order of `ssh -G`.
//!
//! For the meaning of `Support` see [`crate::value::Support`]. To implement a keyword, read it in
//! `client::build` and change its row here.

use crate::algorithms::Class;
use crate::forms;
use crate::value::Support::{self, Carried, Deprecated, Fulfilled, Ignored, Unsupported};
use crate::value::{Dump, Keyword, Kind, Repeat, Scope};

const COUNT: Kind = Kind::Integer {
    min: 0,
    max: 0x7fff_ffff,
};
const ADDRESS_FAMILY: Kind = Kind::Choice(&[("any", "any"), ("inet", "inet"), ("inet6", "inet6")]);
const CANONICALIZE: Kind = Kind::Choice(&[
    ("true", "true"),
    ("yes", "true"),
    ("false", "false"),
    ("no", "false"),
    ("always", "always"),
]);
const YES_NO_ASK: Kind = Kind::Choice(&[
    ("true", "true"),
    ("yes", "true"),
    ("false", "false"),
    ("no", "false"),
    ("ask", "ask"),
]);
const CONTROL_MASTER: Kind = Kind::Choice(&[
    ("true", "true"),
    ("yes", "true"),
    ("false", "false"),
    ("no", "false"),
    ("auto", "auto"),
    ("ask", "ask"),
    ("autoask", "autoask"),
]);
const PUBKEY: Kind = Kind::Choice(&[
    ("true", "true"),
    ("yes", "true"),
    ("false", "false"),
    ("no", "false"),
    ("unbound", "unbound"),
    ("host-bound", "host-bound"),
]);
const YES_NO_AUTO: Kind = Kind::Choice(&[
    ("auto", "auto"),
    ("true", "true"),
    ("yes", "true"),
    ("false", "false"),
    ("no", "false"),
]);
const REQUEST_TTY: Kind = Kind::Choice(&[
    ("true", "true"),
    ("yes", "true"),
    ("false", "false"),
    ("no", "false"),
    ("force", "force"),
    ("auto", "auto"),
]);
const SESSION_TYPE: Kind = Kind::Choice(&[
    ("none", "none"),
    ("subsystem", "subsystem"),
    ("default", "default"),
]);
const STRICT: Kind = Kind::Choice(&[
    ("true", "true"),
    ("yes", "true"),
    ("false", "false"),
    ("no", "false"),
    ("off", "false"),
    ("ask", "ask"),
    ("accept-new", "accept-new"),
]);
const TUNNEL: Kind = Kind::Choice(&[
    ("no", "false"),
    ("false", "false"),
    ("yes", "point-to-point"),
    ("true", "point-to-point"),
    ("point-to-point", "point-to-point"),
    ("ethernet", "ethernet"),
]);
const COMPRESSION: Kind = Kind::Choice(&[("yes", "yes"), ("no", "no"), ("zstd", "zstd")]);
const HW_COMPRESSION: Kind = Kind::Choice(&[
    ("no", "no"),
    ("false", "no"),
    ("yes", "yes"),
    ("true", "yes"),
    ("require", "require"),
]);
// "no-pq-kex" disables one warning, which is the only one.
const WARN_WEAK: Kind = Kind::Choice(&[
    ("yes", "yes"),
    ("true", "yes"),
    ("no", "no"),
    ("false", "no"),
    ("no-pq-kex", "no"),
]);
const HASH: Kind = Kind::Choice(&[("md5", "MD5"), ("sha256", "SHA256")]);
const NO: Support = Support::Enabling(&["no"]);
const FALSE: Support = Support::Enabling(&["false"]);
const NONE: Support = Support::Enabling(&["none"]);

use Dump::{Comma, Line, Never, Octal, OrWord, PerWord, UnlessNone};

keyword_table! {
    /// Keywords of ssh_config.
    Row, CLIENT_TABLE {
        User [] Kind::Text, "", Carried, Everywhere, First, Line;
        HostName [] Kind::Text, "", Carried, Everywhere, First, Line;
        Port [] Kind::Port, "22", Carried, Everywhere, First, Line;
        AddressFamily [] ADDRESS_FAMILY, "any", Carried, Everywhere, First, Line;
        BatchMode [] Kind::Flag, "no", Carried, Everywhere, First, Line;
        CanonicalizeFallbackLocal [] Kind::Flag, "yes", Carried, Everywhere, First, Line;
        CanonicalizeHostname [] CANONICALIZE, "no", Carried, Everywhere, First, Line;
        CheckHostIP [] Kind::Flag, "no", Support::Restricting(&["no"]), Everywhere, First, Line;
        Compression [] COMPRESSION, "no", Carried, Everywhere, First, Line;
        ControlMaster [] CONTROL_MASTER, "no", FALSE, Everywhere, First, Line;
        EnableSSHKeysign [] Kind::Flag, "no", NO, Everywhere, First, Line;
        ClearAllForwardings [] Kind::Flag, "no", Carried, Everywhere, First, Line;
        ExitOnForwardFailure [] Kind::Flag, "no", Carried, Everywhere, First, Line;
        FingerprintHash [] HASH, "sha256", Carried, Everywhere, First, Line;
        ForwardX11 [] Kind::Flag, "no", NO, Everywhere, First, Line;
        ForwardX11Trusted [] Kind::Flag, "no", Fulfilled, Everywhere, First, Line;
        GatewayPorts [] Kind::Flag, "no", Fulfilled, Everywhere, First, Line;
        HashKnownHosts [] Kind::Flag, "no", Carried, Everywhere, First, Line;
        HostbasedAuthentication [] Kind::Flag, "no", NO, Everywhere, First, Line;
        IdentitiesOnly [] Kind::Flag, "no", Carried, Everywhere, First, Line;
        KbdInteractiveAuthentication ["ChallengeResponseAuthentication" "SkeyAuthentication" "TISAuthentication"] Kind::Flag, "yes", Carried, Everywhere, First, Line;
        NoHostAuthenticationForLocalhost [] Kind::Flag, "no", Carried, Everywhere, First, Line;
        PasswordAuthentication [] Kind::Flag, "yes", Carried, Everywhere, First, Line;
        PermitLocalCommand [] Kind::Flag, "no", Carried, Everywhere, First, Line;
        ProxyUseFdpass [] Kind::Flag, "no", Carried, Everywhere, First, Line;
        PubkeyAuthentication ["DSAAuthentication"] PUBKEY, "yes", Carried, Everywhere, First, Line;
        RequestTTY [] REQUEST_TTY, "auto", Carried, Everywhere, First, Line;
        SessionType [] SESSION_TYPE, "default", Carried, Everywhere, First, Line;
        StdinNull [] Kind::Flag, "no", Carried, Everywhere, First, Line;
        ForkAfterAuthentication [] Kind::Flag, "no", Carried, Everywhere, First, Line;
        StreamLocalBindUnlink [] Kind::Flag, "no", Fulfilled, Everywhere, First, Line;
        StrictHostKeyChecking [] STRICT, "ask", Carried, Everywhere, First, Line;
        TCPKeepAlive ["KeepAlive"] Kind::Flag, "yes", Carried, Everywhere, First, Line;
        Tunnel [] TUNNEL, "no", FALSE, Everywhere, First, Line;
        VerifyHostKeyDNS [] YES_NO_ASK, "no", FALSE, Everywhere, First, Line;
        VisualHostKey [] Kind::Flag, "no", Carried, Everywhere, First, Line;
        UpdateHostKeys [] YES_NO_ASK, "", Carried, Everywhere, First, Line;
        EnableEscapeCommandline [] Kind::Flag, "no", NO, Everywhere, First, Line;
        WarnWeakCrypto [] WARN_WEAK, "yes", Carried, Everywhere, First, Line;
        CanonicalizeMaxDots [] COUNT, "1", Carried, Everywhere, First, Line;
        ConnectionAttempts [] COUNT, "1", Carried, Everywhere, First, Line;
        ForwardX11Timeout [] Kind::Seconds { none: true }, "1200", Fulfilled, Everywhere, First, Line;
        NumberOfPasswordPrompts [] COUNT, "3", Carried, Everywhere, First, Line;
        ServerAliveCountMax [] COUNT, "3", Carried, Everywhere, First, Line;
        ServerAliveInterval ["ProtocolKeepAlives"] Kind::Seconds { none: true }, "0", Carried, Everywhere, First, Line;
        RequiredRSASize [] COUNT, "2048", Carried, Everywhere, First, Line;
        ObscureKeystrokeTiming [] Kind::Parsed(forms::client::obscure_keystrokes), "yes", Carried, Everywhere, First, Line;
        BindAddress [] Kind::Text, "", Carried, Everywhere, First, Line;
        BindInterface [] Kind::Text, "", Carried, Everywhere, First, Line;
        Ciphers [] Kind::Algorithms(Class::Cipher), "", Carried, Everywhere, First, Comma;
        ControlPath [] Kind::Text, "", NONE, Everywhere, First, UnlessNone;
        HostKeyAlgorithms [] Kind::Algorithms(Class::HostKey), "", Carried, Everywhere, First, Comma;
        HostKeyAlias [] Kind::Text, "", Carried, Everywhere, First, Line;
        HostbasedAcceptedAlgorithms ["HostbasedKeyTypes" "HostbasedAcceptedKeyTypes"] Kind::Algorithms(Class::Signature), "", Fulfilled, Everywhere, First, Comma;
        IdentityAgent [] Kind::Parsed(forms::client::identity_agent), "", Carried, Everywhere, First, Line;
        IgnoreUnknown [] Kind::Text, "", Carried, Everywhere, First, Line;
        KbdInteractiveDevices [] Kind::Text, "", Fulfilled, Everywhere, First, Line;
        KexAlgorithms [] Kind::Algorithms(Class::Kex), "", Carried, Everywhere, First, Comma;
        CASignatureAlgorithms [] Kind::Algorithms(Class::CaSignature), "", Carried, Everywhere, First, Comma;
        LocalCommand [] Kind::Rest, "", Carried, Everywhere, First, UnlessNone;
        RemoteCommand [] Kind::Rest, "", Carried, Everywhere, First, UnlessNone;
        LogLevel [] Kind::Parsed(forms::log_level), "INFO", Carried, Everywhere, First, Line;
        MACs [] Kind::Algorithms(Class::Mac), "", Carried, Everywhere, First, Comma;
        PKCS11Provider ["SmartcardDevice"] Kind::Text, "", NONE, Everywhere, First, UnlessNone;
        SecurityKeyProvider [] Kind::Text, "internal", Support::Enabling(&["internal"]), Everywhere, First, UnlessNone;
        PreferredAuthentications [] Kind::Text, "", Carried, Everywhere, First, Line;
        PubkeyAcceptedAlgorithms ["PubkeyAcceptedKeyTypes"] Kind::Algorithms(Class::Signature), "", Carried, Everywhere, First, Comma;
        RevokedHostKeys [] Kind::Paths, "", Carried, Everywhere, First, UnlessNone;
        XAuthLocation [] Kind::Text, "/usr/bin/xauth", Fulfilled, Everywhere, First, Line;
        KnownHostsCommand [] Kind::Rest, "", Carried, Everywhere, First, UnlessNone;
        Tag [] Kind::Text, "", Carried, Everywhere, First, Line;
        VersionAddendum [] Kind::Rest, "", Carried, Everywhere, First, Line;
        DynamicForward [] Kind::Parsed(forms::client::dynamic_forward), "", Support::Enabling(&[]), Everywhere, Add, PerWord;
        LocalForward [] Kind::Parsed(forms::client::local_forward), "", Support::Enabling(&[]), Everywhere, Add, PerWord;
        RemoteForward [] Kind::Parsed(forms::client::remote_forward), "", Support::Enabling(&[]), Everywhere, Add, PerWord;
        IdentityFile ["IdentityFile2"] Kind::Text, "", Carried, Everywhere, Add, PerWord;
        CanonicalDomains [] Kind::Parsed(forms::client::domains), "none", Carried, Everywhere, First, Line;
        CertificateFile [] Kind::Text, "", Carried, Everywhere, Add, PerWord;
        GlobalKnownHostsFile [] Kind::Parsed(forms::client::known_hosts_files), "/etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2", Carried, Everywhere, First, Line;
        UserKnownHostsFile [] Kind::Parsed(forms::client::known_hosts_files), "~/.ssh/known_hosts ~/.ssh/known_hosts2", Carried, Everywhere, First, Line;
        SendEnv [] Kind::Parsed(forms::environment_names), "", Carried, Everywhere, Add, PerWord;
        SetEnv [] Kind::Parsed(forms::set_env), "", Carried, Everywhere, First, PerWord;
        LogVerbose [] Kind::Words, "", NONE, Everywhere, First, OrWord("none");
        ChannelTimeout [] Kind::Parsed(forms::channel_timeout), "none", NONE, Everywhere, First, Line;
        PermitRemoteOpen [] Kind::Parsed(forms::permitted_remotes), "any", Fulfilled, Everywhere, First, Line;
        AddKeysToAgent [] Kind::Parsed(forms::client::add_keys_to_agent), "no", FALSE, Everywhere, First, Line;
        ForwardAgent [] Kind::Parsed(forms::client::forward_agent), "no", NO, Everywhere, First, Line;
        ConnectTimeout ["SetupTimeOut"] Kind::Seconds { none: true }, "none", Carried, Everywhere, First, Line;
        TunnelDevice [] Kind::Parsed(forms::client::tunnel_device), "any:any", Fulfilled, Everywhere, First, Line;
        CanonicalizePermittedCNAMEs [] Kind::Parsed(forms::client::cname_rules), "none", Carried, Everywhere, First, Line;
        ControlPersist [] Kind::Parsed(forms::client::control_persist), "no", NO, Everywhere, First, Line;
        EscapeChar [] Kind::Parsed(forms::client::escape_char), "~", Carried, Everywhere, First, Line;
        IPQoS [] Kind::Parsed(forms::ip_qos), "ef cs0", Carried, Everywhere, First, Line;
        RekeyLimit [] Kind::Parsed(forms::rekey_limit), "default none", Carried, Everywhere, Complete, Line;
        StreamLocalBindMask [] Kind::Mode, "0177", Fulfilled, Everywhere, First, Octal;
        SyslogFacility [] Kind::Parsed(forms::facility), "USER", Carried, Everywhere, First, Line;
        ProxyCommand [] Kind::Rest, "", Carried, Everywhere, First, UnlessNone;
        ProxyJump [] Kind::Parsed(forms::client::proxy_jump), "", Carried, Everywhere, First, UnlessNone;
        UseMPTCP [] Kind::Flag, "no", Carried, Everywhere, First, Line;
        EnableHwCompression [] HW_COMPRESSION, "no", Carried, Everywhere, First, Line;
        HwCompressionLibrary [] Kind::Parsed(forms::libraries), "none", Carried, Everywhere, First, Line;
        HwCompressionVerify [] Kind::Flag, "yes", Carried, Everywhere, First, Line;
        CryptoThreads [] Kind::Parsed(forms::crypto_threads), "auto", Carried, Everywhere, First, Line;
        WindowMemory [] Kind::Parsed(forms::window_memory), "256M", Carried, Everywhere, First, Line;
        CompressionLevel [] Kind::Integer { min: 1, max: 9 }, "6", Carried, Everywhere, First, Line;
        CompressionAdaptive [] Kind::Flag, "yes", Carried, Everywhere, First, Line;
        CompressionThreads [] Kind::Parsed(forms::crypto_threads), "auto", Carried, Everywhere, First, Line;
        LoginCache [] Kind::Flag, "yes", Carried, Everywhere, First, Line;
        PipelineLogin [] YES_NO_AUTO, "auto", Carried, Everywhere, First, Line;
        TCPFastOpen [] Kind::Flag, "no", Carried, Everywhere, First, Line;
        RefuseConnection [] Kind::Text, "", Carried, Everywhere, First, Never;
        Host [] Kind::Structure, "", Carried, Everywhere, First, Never;
        Match [] Kind::Structure, "", Carried, Everywhere, First, Never;
        Include [] Kind::Structure, "", Carried, Everywhere, First, Never;
        Protocol ["UseRoaming"] Kind::Rest, "", Ignored, Everywhere, First, Never;
        GSSAPIAuthentication [
            "GSSAPIDelegateCredentials" "GSSAPIKeyExchange" "GSSAPIClientIdentity" "GSSAPIServerIdentity"
            "GSSAPITrustDns" "GSSAPIRenewalForcesRekey" "GSSAPIKexAlgorithms" "AFSTokenPassing"
            "KerberosAuthentication" "KerberosTgtPassing" "RSAAuthentication" "RhostsRSAAuthentication"
        ] Kind::Rest, "", Unsupported, Everywhere, First, Never;
        Cipher [
            "FallBackToRsh" "GlobalKnownHostsFile2" "RhostsAuthentication" "UserKnownHostsFile2" "UsePrivilegedPort"
            "UseRsh"
        ] Kind::Rest, "", Deprecated, Everywhere, First, Never;
    }
}
