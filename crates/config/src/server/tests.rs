use super::*;
use crate::address::ExemptList;
use crate::environment::MemoryFiles;
use crate::error::ConfigError;
use crate::permit::PortKind;
use crate::types::{Compression, TcpKeepAlive, WarnWeakCrypto};
use crate::value::Support;

#[path = "codec_tests.rs"]
mod codec;
#[path = "match_tests.rs"]
mod matching;

fn load_with(files: MemoryFiles, arguments: &ServerArguments) -> Result<ServerConfig, ConfigError> {
    ServerConfig::load(
        std::path::Path::new("/etc/ssh/sshd_config"),
        &files,
        arguments,
    )
}

pub(super) fn try_load(text: &str) -> Result<ServerConfig, ConfigError> {
    load_with(
        MemoryFiles::default().with("/etc/ssh/sshd_config", text),
        &ServerArguments::default(),
    )
}

pub(super) fn load(text: &str) -> ServerConfig {
    try_load(text).unwrap()
}

fn refusal(text: &str) -> String {
    try_load(text).unwrap_err().to_string()
}

pub(super) fn ann() -> ConnectionSpec {
    let mut spec =
        ConnectionSpec::parse("user=ann,host=h.example,addr=192.0.2.7,laddr=10.0.0.1,lport=22")
            .unwrap();
    spec.groups = vec!["ann".to_owned(), "staff".to_owned()];
    spec
}

#[test]
fn no_name_stands_twice() {
    for table in [SERVER_TABLE, crate::client::CLIENT_TABLE] {
        let mut names: Vec<String> = table
            .iter()
            .flat_map(|keyword| keyword.aliases.iter().copied().chain([keyword.name]))
            .map(|name| name.to_ascii_lowercase())
            .collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}

#[test]
fn defaults() {
    let options = load("").global();
    assert_eq!(
        options.authentication.permit_root_login,
        PermitRootLogin::ProhibitPassword
    );
    assert_eq!(
        options.algorithms.kex_algorithms,
        wire::algorithms::SERVER_KEX
    );
    assert_eq!(options.host_keys.files, DEFAULT_HOST_KEYS);
    assert_eq!(options.limits.login_grace_time_s, 120);
    assert_eq!(
        options.limits.max_startups,
        MaxStartups {
            start: 10,
            rate: 30,
            full: 100
        }
    );
    assert!(options.authentication.authentication_methods.is_empty());
    assert!(
        options.session.accept_env.is_empty()
            && options.session.permit_user_environment == UserEnvironment::No
    );
    assert!(options.limits.per_source_penalties.enabled);
    assert_eq!(options.limits.per_source_penalties.auth_fail_ms, 5000);
    assert_eq!(
        options.limits.per_source_penalties.overflow6,
        PenaltyOverflow::Permissive
    );
    let shown: Vec<String> = options
        .connection
        .listen_addresses
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(shown, ["[::]:22", "0.0.0.0:22"]);
    assert_eq!(
        options.user_keys.authorized_keys_files,
        [".ssh/authorized_keys", ".ssh/authorized_keys2"]
    );
    assert!(
        options.user_keys.strict_modes
            && options.authentication.pubkey_authentication
            && !options.authentication.use_pam
    );
    assert!(
        options.session.chroot_directory.is_none()
            && options.session.force_command.is_none()
            && options.authentication.banner.is_none()
    );
}

#[test]
fn the_level_of_compression_is_the_one_asked_for() {
    assert_eq!(load("").global().compression.level, 6);
    for level in 1..=9 {
        let options = load(&format!("CompressionLevel {level}")).global();
        assert_eq!(options.compression.level, level);
    }
}

#[test]
fn compression_is_off_zlib_or_zstd_and_nothing_else() {
    let methods = |line: &str| {
        let options = load(line).global();
        (
            options.compression.method.is_on(),
            options.compression.method == Compression::Zstd,
        )
    };
    assert_eq!(methods(""), (true, false));
    assert_eq!(methods("Compression no"), (false, false));
    assert_eq!(methods("Compression delayed"), (true, false));
    assert_eq!(methods("Compression zstd"), (true, true));
    let said = refusal("Compression lz4\n");
    assert!(
        said.contains("line 1: unsupported option \"lz4\"."),
        "{said}"
    );
}

#[test]
fn first_value_wins_and_match_outweighs_global() {
    let config = load(
        "MaxSessions 1\nMaxSessions 2\nPasswordAuthentication no\n\
         Match User ann\n MaxSessions 3\nMatch Group staff\n MaxSessions 4\n PasswordAuthentication yes\n",
    );
    assert_eq!(config.global().limits.max_sessions, 1);
    assert!(!config.global().authentication.password_authentication);
    let options = config.for_connection(&ann());
    assert_eq!(options.limits.max_sessions, 3);
    assert!(options.authentication.password_authentication);
    let mut other = ann();
    other.user = Some("bob".to_owned());
    assert_eq!(config.for_connection(&other).limits.max_sessions, 4);
    assert_eq!(
        config.for_connection(&ConnectionSpec::default()),
        config.global()
    );
}

#[test]
fn weak_algorithms_are_logged_unless_told_otherwise() {
    for (text, wanted) in [
        ("", WarnWeakCrypto::Yes),
        ("WarnWeakCrypto yes\n", WarnWeakCrypto::Yes),
        ("WarnWeakCrypto TRUE\n", WarnWeakCrypto::Yes),
        ("WarnWeakCrypto no\n", WarnWeakCrypto::No),
        ("WarnWeakCrypto no-pq-kex\n", WarnWeakCrypto::NoPqKex),
    ] {
        assert_eq!(
            load(text).global().algorithms.warn_weak_crypto,
            wanted,
            "{text}"
        );
    }
    assert!(refusal("WarnWeakCrypto maybe\n").contains("unsupported option"));
    assert!(refusal("WarnWeakCrypto no yes\n").contains("extra arguments"));
}

#[test]
fn includes_keep_conditions_apart() {
    let files = MemoryFiles::default()
        .with(
            "/etc/ssh/sshd_config",
            "Include sshd_config.d/*.conf\nMaxAuthTries 9\nMatch User ann\nInclude inner\nMaxSessions 5\n",
        )
        .with("/etc/ssh/sshd_config.d/a.conf", "MaxAuthTries 1\nMatch User bob\nMaxSessions 2\n")
        .with("/etc/ssh/sshd_config.d/b.conf", "LoginGraceTime 7\n")
        .with("/etc/ssh/inner", "PermitTTY no\nMatch Address 192.0.2.7\nMaxSessions 3\nMatch All\nPermitUserRC no\n");
    let config = load_with(files, &ServerArguments::default()).unwrap();
    let global = config.global();
    // The Match block of a.conf ends with its file.
    assert_eq!(
        (
            global.authentication.max_auth_tries,
            global.limits.login_grace_time_s,
            global.limits.max_sessions
        ),
        (1, 7, 10)
    );
    let options = config.for_connection(&ann());
    assert_eq!(
        (
            options.limits.max_sessions,
            options.session.permit_tty,
            options.session.permit_user_rc
        ),
        (3, false, false)
    );
    let mut elsewhere = ann();
    elsewhere.address = "203.0.113.1".parse().ok();
    assert_eq!(config.for_connection(&elsewhere).limits.max_sessions, 5);
    let mut bob = ann();
    bob.user = Some("bob".to_owned());
    let options = config.for_connection(&bob);
    assert_eq!(
        (
            options.limits.max_sessions,
            options.session.permit_tty,
            options.session.permit_user_rc
        ),
        (2, true, true)
    );
}

#[test]
fn recursion_ends() {
    let files = MemoryFiles::default().with("/etc/ssh/sshd_config", "Include sshd_config\n");
    let error = load_with(files, &ServerArguments::default()).unwrap_err();
    assert!(error.to_string().contains("Too many recursive"), "{error}");
}

#[test]
fn the_command_line_outweighs_the_file() {
    let arguments = ServerArguments {
        options: vec!["MaxSessions=7".to_owned(), "Port 2222".to_owned()],
        ports: Vec::new(),
        working_directory: Some("/srv".into()),
        aes_hardware: true,
    };
    let files = MemoryFiles::default().with(
        "/etc/ssh/sshd_config",
        "MaxSessions 1\nPort 22\nHostKey keys/a\nHostKey /b\nBanner none\nPidFile x\nChrootDirectory %h\n",
    );
    let options = load_with(files, &arguments).unwrap().global();
    assert_eq!(options.limits.max_sessions, 7);
    assert_eq!(options.host_keys.files, ["/srv/keys/a", "/b"]);
    assert_eq!(
        (
            options.authentication.banner,
            options.connection.pid_file.as_deref()
        ),
        (None, Some("/srv/x"))
    );
    assert_eq!(options.session.chroot_directory.as_deref(), Some("%h"));
    let ports: Vec<u16> = options
        .connection
        .listen_addresses
        .iter()
        .map(|listen| listen.port)
        .collect();
    assert_eq!(ports, [2222, 22, 2222, 22]);
    assert_eq!(options.algorithms.ciphers[0], "aes128-gcm@openssh.com");
    assert_eq!(
        load("").global().algorithms.ciphers[0],
        "chacha20-poly1305@openssh.com"
    );
}

#[test]
fn ports_of_p_replace_those_of_the_file() {
    let arguments = ServerArguments {
        ports: vec![7701, 7702],
        ..ServerArguments::default()
    };
    let files = MemoryFiles::default().with(
        "/etc/ssh/sshd_config",
        "Port 22\nListenAddress 127.0.0.1\nListenAddress 127.0.0.2:99\n",
    );
    let options = load_with(files, &arguments).unwrap().global();
    let listens: Vec<(Option<&str>, u16)> = options
        .connection
        .listen_addresses
        .iter()
        .map(|listen| (listen.host.as_deref(), listen.port))
        .collect();
    assert_eq!(
        listens,
        [
            (Some("127.0.0.1"), 7701),
            (Some("127.0.0.1"), 7702),
            (Some("127.0.0.2"), 99)
        ]
    );
}

#[test]
fn none_in_capitals_names_no_file() {
    let config =
        load("Banner NONE\nTrustedUserCAKeys None\nRevokedKeys NONE\nChrootDirectory NONE\n");
    let global = config.global();
    assert_eq!(global.authentication.banner, None);
    assert_eq!(global.user_keys.trusted_user_ca_keys, None);
    assert!(global.user_keys.revoked_keys.is_empty());
    assert!(
        global.dump().contains("\nBanner none\n"),
        "{}",
        global.dump()
    );
}

#[test]
fn words_that_openssh_refuses_are_refused_with_file_and_line() {
    for keyword in SERVER_TABLE.iter() {
        if matches!(keyword.kind, crate::value::Kind::YesNo) {
            for word in ["true", "false", "TRUE", "on", "1"] {
                let error = refusal(&format!("{} {word}\n", keyword.name));
                let expected =
                    format!("/etc/ssh/sshd_config line 1: unsupported option \"{word}\".");
                assert!(error.starts_with(&expected), "{}: {error}", keyword.name);
            }
        }
    }
    for line in [
        "PermitOpen *",
        "PermitOpen 8080",
        "PermitOpen h",
        "PermitOpen h/80",
        "PermitOpen h:1 *",
        "PermitListen h/80",
        "AuthorizedKeysFile .ssh/a ~/.ssh/b",
        "AuthorizedPrincipalsFile ~/p",
        "HostKey ~/key",
        "RevokedKeys ~root/revoked",
        "PermitOpen h:0",
        "PerSourceMaxStartups NONE",
        "PermitTunnel NO",
        "PermitTunnel true",
        "IgnoreRhosts true",
        "PerSourcePenalties true",
        "ListenAddress \"\"",
        "ListenAddress :22",
        "HostKeyAlgorithms !ssh-ed25519",
        "HostKeyAlgorithms *,!ssh-ed25519",
        "PubkeyAcceptedAlgorithms *,!ssh-ed25519",
        "PubkeyAcceptedAlgorithms +!ssh-ed25519",
        "PubkeyAcceptedAlgorithms foo*",
        "HostbasedAcceptedAlgorithms !ssh-ed25519",
        "CASignatureAlgorithms !ssh-ed25519",
        "CASignatureAlgorithms foo,bar*",
    ] {
        let error = refusal(&format!("Port 22\n# a comment\n{line}\n"));
        assert!(
            error.starts_with("/etc/ssh/sshd_config line 3: "),
            "{line}: {error}"
        );
    }
}

#[test]
fn what_openssh_takes_for_a_pattern_or_none_is_one() {
    for (line, shown) in [
        ("PermitUserEnvironment TRUE", "PermitUserEnvironment TRUE"),
        ("PermitUserEnvironment NO", "PermitUserEnvironment NO"),
        ("PermitUserEnvironment yes", "PermitUserEnvironment yes"),
        ("PermitUserEnvironment no", "PermitUserEnvironment no"),
        ("Banner NONE", "Banner none"),
        ("ForceCommand NONE", "ForceCommand none"),
        ("ChrootDirectory None", "ChrootDirectory none"),
        ("TrustedUserCAKeys NONE", "TrustedUserCAKeys none"),
        ("PerSourceMaxStartups 07", "PerSourceMaxStartups 7"),
        ("MaxStartups 10", "MaxStartups 10:30:10"),
        ("PasswordAuthentication NO", "PasswordAuthentication no"),
        ("PermitOpen h:1 [::1]:* *:2", "PermitOpen h:1 [::1]:* *:2"),
        (
            "Subsystem a x\nSubsystem a y\nSubsystem b z",
            "Subsystem a x\nSubsystem b z",
        ),
    ] {
        let dump = load(&format!("{line}\n")).global().dump();
        assert!(dump.contains(&format!("\n{shown}\n")), "{line}: {dump}");
    }
    let silent = load("RevokedKeys NONE\nAuthorizedKeysFile NONE\nSshdAuthPath /x\nRDomain none\n");
    let dump = silent.global().dump();
    for keyword in [
        "RevokedKeys",
        "AuthorizedKeysFile",
        "SshdAuthPath",
        "RDomain",
    ] {
        assert!(!dump.contains(&format!("\n{keyword} ")), "{keyword}");
    }
    let wanted = |line: &str| load(line).global().session.permit_user_environment;
    assert!(!wanted("PermitUserEnvironment TRUE\n").permits("LD_PRELOAD"));
    assert!(!wanted("PermitUserEnvironment Yes\n").permits("LD_PRELOAD"));
    assert!(wanted("PermitUserEnvironment TRUE\n").permits("TRUE"));
}

#[test]
fn what_restricts_and_is_not_carried_out_refuses_to_start() {
    for keyword in SERVER_TABLE.iter() {
        if let Support::Restricting(harmless) = keyword.support {
            assert!(!harmless.is_empty(), "{}", keyword.name);
        }
    }
    let text = refusal("\nRDomain vrf1\n");
    assert!(
        text.contains("line 2: ") && text.contains("would restrict"),
        "{text}"
    );
    let inside = refusal("Match User ann\nRDomain vrf1\n");
    assert!(inside.contains("line 2: "), "{inside}");
    let harmless = "RDomain none\nPubkeyAuthOptions none\nRefuseConnection no\n";
    assert!(load(harmless).warnings().is_empty());
}

#[test]
fn what_only_enables_is_named_with_its_place() {
    let config = load(
        "X11Forwarding yes\nAllowTcpForwarding remote\nPermitTunnel yes\nLogVerbose kex.c:*:1\nSshdAuthPath /x\nSshdSessionPath /y\nKerberosGetAFSToken yes\n",
    );
    let shown: Vec<String> = config.warnings().iter().map(ToString::to_string).collect();
    assert_eq!(shown.len(), 1, "{shown:#?}");
    assert!(shown[0].starts_with("/etc/ssh/sshd_config line 7: "));
    assert!(shown[0].contains("Unsupported option KerberosGetAFSToken"));
    let quiet = "X11Forwarding yes\nAllowTcpForwarding no\nPermitTunnel no\nGatewayPorts no\nDisableForwarding yes\n\
        AllowAgentForwarding no\nAllowStreamLocalForwarding no\nPermitOpen none\nPermitListen 80\n";
    assert!(load(quiet).warnings().is_empty());
    assert!(load(quiet).global().forwarding.disable_forwarding);
}

#[test]
fn a_root_of_sftp_that_confines_nothing_is_named_with_its_place() {
    let shown = |text: &str| -> Vec<String> {
        let config = load(text);
        config.warnings().iter().map(ToString::to_string).collect()
    };
    let internal = "Subsystem sftp internal-sftp\n";
    for quiet in [
        "SftpRoot none\n".to_owned(),
        "SftpRoot /srv\nForceCommand internal-sftp -R\n".to_owned(),
        format!("{internal}Match User a\nForceCommand internal-sftp\nSftpRoot /srv\n"),
        // The block does not set ForceCommand, so the global one applies.
        format!("{internal}ForceCommand internal-sftp\nMatch User a\nSftpRoot /srv\n"),
    ] {
        assert_eq!(shown(&quiet), Vec::<String>::new(), "{quiet}");
    }
    for (text, line, words) in [
        (
            format!("{internal}SftpRoot /srv\n"),
            2,
            "shells and commands",
        ),
        (
            "SftpRoot /srv\n".to_owned(),
            1,
            "no Subsystem is internal-sftp",
        ),
        (
            "Subsystem sftp /usr/lib/openssh/sftp-server\nMatch Group g\nSftpRoot /srv\n"
                .to_owned(),
            3,
            "no Subsystem is internal-sftp",
        ),
        (
            format!("{internal}SftpRoot /srv\nForceCommand echo\n"),
            2,
            "the forced command is not internal-sftp",
        ),
        // Another block's ForceCommand applies to other users.
        (
            format!(
                "{internal}Match User a\nSftpRoot /srv\nMatch User b\nForceCommand internal-sftp\n"
            ),
            3,
            "shells and commands",
        ),
    ] {
        let shown = shown(&text);
        assert_eq!(shown.len(), 1, "{text}: {shown:?}");
        let place = format!("/etc/ssh/sshd_config line {line}: SftpRoot ");
        assert!(
            shown[0].starts_with(&place) && shown[0].contains(words),
            "{shown:?}"
        );
    }
}

#[test]
fn what_is_permitted_of_forwarding() {
    let options = load("AllowTcpForwarding local\nPermitOpen a:1 b:*\n").global();
    assert!(
        options.forwarding.allow_tcp_forwarding.is_local()
            && !options.forwarding.allow_tcp_forwarding.is_remote()
    );
    let open = &options.forwarding.permit_open;
    assert_eq!(open.words(), ["a:1", "b:*"]);
    assert!(open.opens(PortKind::Tcp, "b", 7) && !open.opens(PortKind::Tcp, "a", 7));
    assert!(load("").global().forwarding.permit_open.is_any());
    let strict =
        load("PubkeyAuthOptions touch-required\nRefuseConnection yes\nExposeAuthInfo yes\n")
            .global();
    assert!(
        strict.user_keys.pubkey_auth_options.touch_required
            && !strict.user_keys.pubkey_auth_options.verify_required
    );
    assert!(strict.connection.refuse_connection && strict.session.expose_auth_info);
    assert_eq!(strict.user_keys.pubkey_auth_options.free_queries(), 6);
    let few = load("PubkeyAuthOptions verify-required max-pk-ok:2\n").global();
    assert!(few.user_keys.pubkey_auth_options.verify_required);
    assert_eq!(few.user_keys.pubkey_auth_options.free_queries(), 2);
    for (word, of_client, of_all) in [
        ("yes", true, false),
        ("transport", true, false),
        ("all", true, true),
        ("no", false, false),
    ] {
        let options = load(&format!("TCPKeepAlive {word}\n")).global();
        let found = (
            options.connection.tcp_keep_alive != TcpKeepAlive::No,
            options.connection.tcp_keep_alive == TcpKeepAlive::All,
        );
        assert_eq!(found, (of_client, of_all), "{word}");
    }
}

#[test]
fn complaints_name_every_bad_line() {
    let text =
        refusal("Frob x\nPort x\nPasswordAuthentication maybe\nMaxSessions -1\nPort\nPort 1 2\n");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines,
        [
            "/etc/ssh/sshd_config: line 1: Bad configuration option: Frob",
            "/etc/ssh/sshd_config line 2: Badly formatted port number.",
            "/etc/ssh/sshd_config line 3: unsupported option \"maybe\".",
            "/etc/ssh/sshd_config line 4: MaxSessions integer value too small.",
            "/etc/ssh/sshd_config line 5: no argument after keyword \"Port\"",
            "/etc/ssh/sshd_config line 6: keyword Port extra arguments at end of line",
            "/etc/ssh/sshd_config: terminating, 6 bad configuration options",
        ]
    );
    let escaped = refusal("Fr\u{1b}[2Job x\n");
    assert!(!escaped.contains('\u{1b}'));
}

#[test]
fn combinations_that_cannot_work() {
    assert!(refusal("AuthorizedKeysCommand /bin/x\n").contains("AuthorizedKeysCommandUser"));
    let in_a_block = "Match all\nAuthorizedKeysCommand /bin/x\n";
    assert!(refusal(in_a_block).contains("AuthorizedKeysCommandUser"));
    assert!(refusal("AuthorizedKeysCommand x\n").contains("absolute path"));
    assert!(
        refusal("AuthorizedPrincipalsCommand /bin/x\n").contains("AuthorizedPrincipalsCommandUser")
    );
    assert!(refusal("AuthorizedPrincipalsCommand x\n").contains("absolute path"));
    assert!(
        refusal("AuthenticationMethods password\nPasswordAuthentication no\n")
            .contains("cannot be satisfied")
    );
    assert!(
        try_load("AuthenticationMethods publickey,password publickey\nPasswordAuthentication no\n")
            .is_ok()
    );
    for nobody in ["none", "publickey,none", "none publickey"] {
        assert!(try_load(&format!("AuthenticationMethods {nobody}\n")).is_ok());
    }
    assert!(refusal("AuthenticationMethods any password\n").contains("alone"));
    assert!(try_load("AuthenticationMethods gssapi-with-mic\n").is_err());
    let by_ticket = "AuthenticationMethods gssapi-with-mic\nGSSAPIAuthentication yes\n";
    assert!(try_load(by_ticket).is_ok());
    // gssapi-keyex needs such a key exchange, too.
    let by_exchange = "AuthenticationMethods gssapi-keyex\n";
    for one_is_off in ["GSSAPIAuthentication yes\n", "GSSAPIKeyExchange yes\n", ""] {
        let said = refusal(&format!("{by_exchange}{one_is_off}"));
        assert!(said.contains("cannot be satisfied"), "{one_is_off}");
    }
    let both = format!("{by_exchange}GSSAPIAuthentication yes\nGSSAPIKeyExchange yes\n");
    assert!(try_load(&both).is_ok());
    assert!(try_load("AuthenticationMethods hostbased\n").is_err());
    assert!(try_load("AuthenticationMethods hostbased\nHostbasedAuthentication yes\n").is_ok());
    assert!(refusal("Ciphers -*\n").contains("leaves no algorithm"));
    assert!(refusal("Ciphers rijndael-cbc@lysator.liu.se\n").contains("Bad SSH2 cipher spec"));
}

#[test]
fn chains_and_subsystems() {
    let config = load(
        "AuthenticationMethods publickey,password publickey,keyboard-interactive:pam\n\
         Subsystem sftp /usr/lib/sftp-server -l \"A B\"\nSubsystem sftp again\nSubsystem x internal-sftp\n\
         Match User ann\nSubsystem sftp internal-sftp -R\n",
    );
    let global = config.global();
    assert_eq!(
        global.authentication.authentication_methods,
        [
            vec!["publickey", "password"],
            vec!["publickey", "keyboard-interactive:pam"]
        ]
    );
    let shown = |options: &ServerOptions| -> Vec<String> {
        options
            .session
            .subsystems
            .iter()
            .map(|s| format!("{}={}", s.name, s.command))
            .collect()
    };
    assert_eq!(
        shown(&global),
        ["sftp=/usr/lib/sftp-server -l \"A B\"", "x=internal-sftp"]
    );
    assert_eq!(
        shown(&config.for_connection(&ann())),
        ["sftp=internal-sftp -R", "x=internal-sftp"]
    );
}

#[test]
fn limits_and_penalties() {
    let options = load(
        "MaxStartups 7\nPerSourceMaxStartups 3\nPerSourceNetBlockSize 24:56\n\
         PerSourcePenalties crash:1m authfail:0.5 max-sources4:10\nPerSourcePenalties crash:9 overflow:deny-all min:2\n\
         PerSourcePenaltyExemptList 10.0.0.0/8,::1\nLoginGraceTime 0\nRekeyLimit 1G 1h\nIPQoS lowdelay ef\n",
    )
    .global();
    assert_eq!(
        options.limits.max_startups,
        MaxStartups {
            start: 7,
            rate: 30,
            full: 7
        }
    );
    assert_eq!(options.limits.per_source_max_startups, Some(3));
    assert_eq!(options.limits.per_source_net_block_size, (24, 56));
    let penalties = options.limits.per_source_penalties;
    assert_eq!(
        (penalties.crash_ms, penalties.auth_fail_ms, penalties.min_ms),
        (60_000, 500, 2000)
    );
    assert_eq!(
        (penalties.max_sources4, penalties.max_sources6),
        (10, 65536)
    );
    assert_eq!(penalties.overflow6, PenaltyOverflow::DenyAll);
    let exempt = &options.limits.per_source_penalty_exempt_list;
    assert_eq!(exempt.to_string(), "10.0.0.0/8,::1");
    assert!(exempt.contains("10.1.2.3".parse().unwrap()));
    let nobody = load("PerSourcePenaltyExemptList NONE\n").global();
    let nobody = nobody.limits.per_source_penalty_exempt_list;
    assert_eq!(nobody, ExemptList::default());
    assert_eq!(options.limits.login_grace_time_s, 0);
    assert_eq!(
        (
            options.algorithms.rekey_limit.bytes,
            options.algorithms.rekey_limit.seconds
        ),
        (1 << 30, 3600)
    );
    assert_eq!(
        (
            options.connection.ip_qos.interactive,
            options.connection.ip_qos.bulk
        ),
        (None, Some(0xb8))
    );
    assert!(
        !load("PerSourcePenalties no\n")
            .global()
            .limits
            .per_source_penalties
            .enabled
    );
    for bad in [
        "MaxStartups 0",
        "MaxStartups 10:101:20",
        "MaxStartups 10:30:5",
        "MaxStartups 10:30",
        "PerSourcePenalties crash",
        "PerSourcePenalties crash:x",
        "PerSourcePenalties overflow:x",
        "PerSourcePenaltyExemptList 10.0.0.1/8",
        "PerSourceNetBlockSize 33",
        "PerSourceMaxStartups x",
    ] {
        assert!(try_load(&format!("{bad}\n")).is_err(), "{bad}");
    }
}

#[test]
fn environment_of_the_users_files() {
    let options =
        load("PermitUserEnvironment LANG,LC_*,!LC_X\nSetEnv A=b A=c \"B=d e\"\n").global();
    assert!(options.session.permit_user_environment.permits("LANG"));
    assert!(!options.session.permit_user_environment.permits("LC_X"));
    assert!(
        !options
            .session
            .permit_user_environment
            .permits("LD_PRELOAD")
    );
    assert!(
        !load("")
            .global()
            .session
            .permit_user_environment
            .permits("LANG")
    );
    let pairs: Vec<_> = options
        .session
        .set_env
        .iter()
        .map(|v| (v.name.as_str(), v.value.as_str()))
        .collect();
    assert_eq!(pairs, [("A", "b"), ("B", "d e")]);
}

const RICH: &str = "Port 2201\nListenAddress [::1]:3\nHostKey /secret/path\nAllowUsers ann bob@10.0.0.0/8 zoe\n\
    Banner /before-login\nPubkeyAcceptedAlgorithms -rsa*\nForceCommand echo \"x y\"\nSubsystem sftp internal-sftp\n\
    MaxAuthTries 3\nVersionAddendum hi\nKexAlgorithms +ecdh-sha2-nistp256\n\
    Match User ann Address 192.0.2.0/24\nPasswordAuthentication no\nMaxAuthTries 2\nMatch LocalPort 22 Group staff\nPermitTTY no\n";

#[test]
fn the_manual_lists_every_keyword() {
    let rows = crate::value::manual_rows(SERVER_TABLE);
    assert_eq!(rows.len(), SERVER_TABLE.len());
    let row = rows.iter().find(|row| row[0] == "MaxSessions").unwrap();
    assert_eq!((row[1].as_str(), row[2].as_str()), ("10", "carried out"));
}

#[test]
fn the_file_that_debian_ships_loads_without_warnings() {
    let text = "Include /etc/ssh/sshd_config.d/*.conf\nKbdInteractiveAuthentication no\nUsePAM yes\n\
        X11Forwarding yes\nPrintMotd no\nAcceptEnv LANG LC_*\nSubsystem\tsftp\t/usr/lib/openssh/sftp-server\n";
    let config = load(text);
    let shown: Vec<String> = config.warnings().iter().map(ToString::to_string).collect();
    assert!(shown.is_empty(), "{shown:#?}");
    let options = config.global();
    assert!(
        options.authentication.use_pam && !options.authentication.kbd_interactive_authentication
    );
    assert_eq!(
        options.session.subsystems[0].command,
        "/usr/lib/openssh/sftp-server"
    );
}

#[test]
fn revoked_keys_may_stand_in_several_files() {
    let arguments = ServerArguments {
        working_directory: Some("/srv".into()),
        ..ServerArguments::default()
    };
    let files = MemoryFiles::default().with("/etc/ssh/sshd_config", "RevokedKeys /a krl\n");
    let options = load_with(files, &arguments).unwrap().global();
    assert_eq!(options.user_keys.revoked_keys, ["/a", "/srv/krl"]);
    assert!(
        load("RevokedKeys none\n")
            .global()
            .user_keys
            .revoked_keys
            .is_empty()
    );
    assert!(load("").global().user_keys.revoked_keys.is_empty());
    assert!(refusal("RevokedKeys /a none\n").contains("must appear alone"));
    assert!(refusal("LogVerbose NONE x\n").contains("must appear alone"));
}

/// OpenSSH once read a second file of keys by this keyword, and has long ignored it: an old file
/// with it must not select another file of keys.
#[test]
fn the_old_second_file_of_keys_is_passed_over() {
    let options = load("AuthorizedKeysFile2 /tmp/others\n").global();
    assert_eq!(
        options.user_keys.authorized_keys_files,
        load("\n").global().user_keys.authorized_keys_files
    );
}

#[test]
fn directories_of_recordings_are_those_of_all_blocks() {
    let directories =
        |text: &str| -> Vec<String> { load(text).recording_directories().into_iter().collect() };
    assert_eq!(directories("Port 22"), [""; 0]);
    let text = "RecordTerminals /b\n\
                Match User ann\nRecordTerminals none\n\
                Match User ben,cid\nRecordTerminals /a\n\
                Match Group staff\nRecordTerminals /b\nPermitTTY no\n";
    assert_eq!(directories(text), ["/a", "/b"]);
}
