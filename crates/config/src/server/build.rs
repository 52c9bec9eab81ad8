//! Builds typed [`ServerOptions`] from values by keyword, and checks between keywords.

use crate::algorithms::{Class, Side};
use crate::error::ConfigError;
use crate::server::codec;
use crate::server::options::{
    AllowForwarding, ListenAddress, MaxStartups, PenaltyOverflow, PerSourcePenalties,
    PermitRootLogin, PubkeyAuthOptions, ServerOptions, Subsystem, UserEnvironment,
};
use crate::server::table::{Row, SERVER_TABLE};
use crate::types::{
    AddressFamily, FingerprintHash, HwCompression, IpQos, LogLevel, RekeyLimit, SyslogFacility,
    libraries, number_at, thread_count, variables,
};
use crate::units;
use crate::value::{Value, Values};

/// Host keys that are used if the file names none. The listener skips those that do not exist.
pub const DEFAULT_HOST_KEYS: &[&str] =
    &["/etc/ssh/ssh_host_ed25519_key", "/etc/ssh/ssh_host_rsa_key"];

/// The keywords with a list of algorithms.
const ALGORITHM_KEYS: &[(Row, Class)] = &[
    (Row::Ciphers, Class::Cipher),
    (Row::MACs, Class::Mac),
    (Row::KexAlgorithms, Class::Kex),
    (Row::CASignatureAlgorithms, Class::CaSignature),
    (Row::HostbasedAcceptedAlgorithms, Class::Signature),
    (Row::HostKeyAlgorithms, Class::HostKey),
    (Row::PubkeyAcceptedAlgorithms, Class::Signature),
];

/// Adds defaults, resolves algorithm lists and converts each value to its type.
pub(crate) fn build(values: Values, aes_hardware: bool) -> ServerOptions {
    build_from(values, aes_hardware, |values| {
        codec::encoded_options(values, aes_hardware)
    })
}

/// As [`build`], for options that are only read.
pub(crate) fn build_to_read(values: Values, aes_hardware: bool) -> ServerOptions {
    build_from(values, aes_hardware, |_| Vec::new())
}

/// `source` makes the encoded copy of the values, whose strings then move into the options.
fn build_from(
    mut values: Values,
    aes_hardware: bool,
    source: impl FnOnce(&Values) -> Vec<u8>,
) -> ServerOptions {
    fill(&mut values, aes_hardware);
    let source = source(&values);
    let v = &mut values;
    let address_family = AddressFamily::from_word(v.word(Row::AddressFamily.index()));
    ServerOptions {
        accept_env: words(v, Row::AcceptEnv),
        address_family,
        allow_groups: words(v, Row::AllowGroups),
        allow_tcp_forwarding: AllowForwarding::from_word(v.word(Row::AllowTcpForwarding.index())),
        allow_users: words(v, Row::AllowUsers),
        deny_groups: words(v, Row::DenyGroups),
        deny_users: words(v, Row::DenyUsers),
        authentication_methods: methods(v.words(Row::AuthenticationMethods.index())),
        authorized_keys_command: unless_none(v, Row::AuthorizedKeysCommand),
        authorized_keys_command_user: unless_none(v, Row::AuthorizedKeysCommandUser),
        authorized_keys_files: v.take_words_unless_none(Row::AuthorizedKeysFile.index()),
        authorized_principals_command: unless_none(v, Row::AuthorizedPrincipalsCommand),
        authorized_principals_command_user: unless_none(v, Row::AuthorizedPrincipalsCommandUser),
        authorized_principals_file: unless_none(v, Row::AuthorizedPrincipalsFile),
        banner: unless_none(v, Row::Banner),
        ca_signature_algorithms: words(v, Row::CASignatureAlgorithms),
        chroot_directory: unless_none(v, Row::ChrootDirectory),
        ciphers: words(v, Row::Ciphers),
        client_alive_count_max: count(v, Row::ClientAliveCountMax),
        client_alive_interval_s: count(v, Row::ClientAliveInterval),
        compression: v.word(Row::Compression.index()) != "no",
        compression_zstd: v.word(Row::Compression.index()) == "zstd",
        disable_forwarding: flag(v, Row::DisableForwarding),
        expose_auth_info: flag(v, Row::ExposeAuthInfo),
        fingerprint_hash: FingerprintHash::from_word(v.word(Row::FingerprintHash.index())),
        force_command: unless_none(v, Row::ForceCommand),
        host_certificates: v.take_words_unless_none(Row::HostCertificate.index()),
        host_keys: v.take_words_unless_none(Row::HostKey.index()),
        host_key_algorithms: words(v, Row::HostKeyAlgorithms),
        ip_qos: IpQos::from_words(v.words(Row::IPQoS.index())),
        kbd_interactive_authentication: flag(v, Row::KbdInteractiveAuthentication),
        kex_algorithms: words(v, Row::KexAlgorithms),
        listen_addresses: listen_addresses(v, address_family),
        log_level: LogLevel::from_name(first(v, Row::LogLevel)).unwrap_or_default(),
        login_grace_time_s: count(v, Row::LoginGraceTime),
        macs: words(v, Row::MACs),
        max_auth_tries: count(v, Row::MaxAuthTries),
        max_sessions: count(v, Row::MaxSessions),
        max_startups: max_startups(first(v, Row::MaxStartups)),
        moduli_file: word(v, Row::ModuliFile),
        pam_service_name: word(v, Row::PAMServiceName),
        password_authentication: flag(v, Row::PasswordAuthentication),
        permit_empty_passwords: flag(v, Row::PermitEmptyPasswords),
        permit_open: words(v, Row::PermitOpen),
        permit_root_login: PermitRootLogin::from_word(v.word(Row::PermitRootLogin.index())),
        permit_tty: flag(v, Row::PermitTTY),
        permit_user_environment: match first(v, Row::PermitUserEnvironment) {
            "yes" => UserEnvironment::Yes,
            "no" | "" => UserEnvironment::No,
            list => UserEnvironment::Matching(list.to_owned()),
        },
        permit_user_rc: flag(v, Row::PermitUserRC),
        preauth_spares: count(v, Row::PreauthSpares),
        per_source_max_startups: first(v, Row::PerSourceMaxStartups).parse().ok(),
        per_source_net_block_size: net_block_size(first(v, Row::PerSourceNetBlockSize)),
        per_source_penalties: penalties(v.words(Row::PerSourcePenalties.index())),
        per_source_penalty_exempt_list: match first(v, Row::PerSourcePenaltyExemptList) {
            "none" => String::new(),
            list => list.to_owned(),
        },
        pid_file: unless_none(v, Row::PidFile),
        print_last_log: flag(v, Row::PrintLastLog),
        print_motd: flag(v, Row::PrintMotd),
        pubkey_accepted_algorithms: words(v, Row::PubkeyAcceptedAlgorithms),
        pubkey_authentication: flag(v, Row::PubkeyAuthentication),
        pubkey_auth_options: pubkey_options(v.words(Row::PubkeyAuthOptions.index())),
        refuse_connection: flag(v, Row::RefuseConnection),
        rekey_limit: RekeyLimit::from_words(v.words(Row::RekeyLimit.index())),
        required_rsa_size: count(v, Row::RequiredRSASize),
        revoked_keys: v.take_words_unless_none(Row::RevokedKeys.index()),
        set_env: variables(v.words(Row::SetEnv.index())),
        warn_weak_crypto: word(v, Row::WarnWeakCrypto) == "true",
        strict_modes: flag(v, Row::StrictModes),
        subsystems: subsystems(v.words(Row::Subsystem.index())),
        syslog_facility: SyslogFacility::from_word(first(v, Row::SyslogFacility)),
        tcp_keep_alive: v.word(Row::TCPKeepAlive.index()) != "no",
        tcp_keep_alive_all: v.word(Row::TCPKeepAlive.index()) == "all",
        trusted_user_ca_keys: unless_none(v, Row::TrustedUserCAKeys),
        use_dns: flag(v, Row::UseDNS),
        use_pam: flag(v, Row::UsePAM),
        use_mptcp: flag(v, Row::UseMPTCP),
        hw_compression: HwCompression::from_word(v.word(Row::EnableHwCompression.index())),
        hw_compression_libraries: libraries(v.words(Row::HwCompressionLibrary.index())),
        hw_compression_verify: flag(v, Row::HwCompressionVerify),
        version_addendum: unless_none(v, Row::VersionAddendum),
        crypto_threads: thread_count(v.words(Row::CryptoThreads.index())),
        sftp_root: unless_none(v, Row::SftpRoot),
        compression_level: u8::try_from(v.number(Row::CompressionLevel.index())).unwrap_or(6),
        compression_adaptive: v.flag(Row::CompressionAdaptive.index()),
        compression_threads: thread_count(v.words(Row::CompressionThreads.index())),
        window_memory_bytes: number_at(v.words(Row::WindowMemory.index()), 0).unwrap_or(0),
        source,
    }
}

fn flag(values: &Values, key: Row) -> bool {
    values.flag(key.index())
}

fn count(values: &Values, key: Row) -> u32 {
    values.count(key.index()).unwrap_or(0)
}

fn first(values: &Values, key: Row) -> &str {
    values.words(key.index()).first().map_or("", String::as_str)
}

fn word(values: &mut Values, key: Row) -> String {
    values.take_word(key.index())
}

fn words(values: &mut Values, key: Row) -> Vec<String> {
    values.take_words(key.index())
}

fn unless_none(values: &mut Values, key: Row) -> Option<String> {
    values.take_word_unless_none(key.index())
}

/// Refuses combinations of keywords with which no connection could be served.
pub(crate) fn check(options: &ServerOptions) -> Result<(), ConfigError> {
    let refuse = |text: &str| Err(ConfigError::Refused(text.to_owned()));
    if options.authorized_keys_command.is_some() && options.authorized_keys_command_user.is_none() {
        return refuse("AuthorizedKeysCommand set without AuthorizedKeysCommandUser");
    }
    if options.authorized_principals_command.is_some()
        && options.authorized_principals_command_user.is_none()
    {
        return refuse("AuthorizedPrincipalsCommand set without AuthorizedPrincipalsCommandUser");
    }
    for (list, name) in [
        (&options.kex_algorithms, "KexAlgorithms"),
        (&options.ciphers, "Ciphers"),
        (&options.macs, "MACs"),
        (&options.host_key_algorithms, "HostKeyAlgorithms"),
    ] {
        if list.is_empty() {
            return Err(ConfigError::Refused(format!("{name} leaves no algorithm")));
        }
    }
    let enabled = |method: &str| match method.split(':').next().unwrap_or_default() {
        "publickey" => options.pubkey_authentication,
        "password" => options.password_authentication,
        "keyboard-interactive" => options.kbd_interactive_authentication,
        // A chain with `none` is never complete, which can be intended: nobody logs in, except
        // users for whom a Match block names other methods.
        "none" => true,
        _ => false,
    };
    let chains = &options.authentication_methods;
    if !chains.is_empty() && !chains.iter().any(|chain| chain.iter().all(|m| enabled(m))) {
        return refuse(
            "AuthenticationMethods cannot be satisfied by enabled authentication methods",
        );
    }
    Ok(())
}

fn fill(values: &mut Values, aes_hardware: bool) {
    for (key, class) in ALGORITHM_KEYS {
        let resolved = match values.at(key.index()) {
            Some(Value::Word(spec)) => class.resolve(spec, Side::Server, aes_hardware),
            // Already resolved: an encoded configuration that was decoded.
            Some(Value::Words(_)) => continue,
            _ => class
                .defaults(Side::Server, aes_hardware)
                .iter()
                .map(|name| (*name).to_owned())
                .collect(),
        };
        values.put(key.index(), Value::Words(resolved));
    }
    let row = Row::Subsystem.index();
    if let Some(Value::Words(all)) = values.at(row) {
        // The first entry of a name counts; those of a Match block come before the others.
        let mut first: Vec<String> = Vec::new();
        let name = |entry: &str| entry.split(' ').next().map(str::to_owned);
        for entry in all {
            if !first.iter().any(|have| name(have) == name(entry)) {
                first.push(entry.clone());
            }
        }
        values.put(row, Value::Words(first));
    }
    values.put_defaults(SERVER_TABLE);
    RekeyLimit::fill(values, Row::RekeyLimit.index());
    if values.at(Row::HostKey.index()).is_none() {
        let defaults = DEFAULT_HOST_KEYS
            .iter()
            .map(|key| (*key).to_owned())
            .collect();
        values.put(Row::HostKey.index(), Value::Words(defaults));
    }
}

fn methods(words: &[String]) -> Vec<Vec<String>> {
    words
        .iter()
        .filter(|chain| *chain != "any")
        .map(|chain| chain.split(',').map(str::to_owned).collect())
        .collect()
}

fn listen_addresses(values: &Values, family: AddressFamily) -> Vec<ListenAddress> {
    let ports: Vec<u16> = values
        .words(Row::Port.index())
        .iter()
        .filter_map(|port| port.parse().ok())
        .collect();
    let mut out = Vec::new();
    let mut add = |host: Option<&str>, port: &str| {
        let own_port = port.parse::<u16>().ok();
        for port in own_port
            .iter()
            .chain(if own_port.is_some() { &[][..] } else { &ports })
        {
            out.push(ListenAddress {
                host: host.map(str::to_owned),
                port: *port,
            });
        }
    };
    let entries = values.words(Row::ListenAddress.index());
    for entry in entries {
        let mut parts = entry.split(' ');
        let host = parts.next().unwrap_or("*");
        let port = parts.next().unwrap_or("-");
        add(Some(host), port);
    }
    if entries.is_empty() {
        wildcard_hosts(family).for_each(|host| add(Some(host), "-"));
    }
    out
}

fn wildcard_hosts(family: AddressFamily) -> impl Iterator<Item = &'static str> {
    let six = (family != AddressFamily::Inet).then_some("::");
    let four = (family != AddressFamily::Inet6).then_some("0.0.0.0");
    six.into_iter().chain(four)
}

fn max_startups(text: &str) -> MaxStartups {
    let mut numbers = text.split(':').map(|part| part.parse::<u32>().ok());
    let mut next = |otherwise| numbers.next().flatten().unwrap_or(otherwise);
    MaxStartups {
        start: next(10),
        rate: next(30),
        full: next(100),
    }
}

fn net_block_size(text: &str) -> (u8, u8) {
    let (four, six) = text.split_once(':').unwrap_or((text, ""));
    (four.parse().unwrap_or(32), six.parse().unwrap_or(128))
}

/// OpenSSH's default.
const DEFAULT_MAX_PK_OK: u32 = 6;

fn pubkey_options(words: &[String]) -> PubkeyAuthOptions {
    PubkeyAuthOptions {
        touch_required: words.iter().any(|word| word == "touch-required"),
        verify_required: words.iter().any(|word| word == "verify-required"),
        max_pk_ok: words
            .iter()
            .find_map(|word| word.strip_prefix("max-pk-ok:"))
            .and_then(|count| count.parse().ok())
            .unwrap_or(DEFAULT_MAX_PK_OK),
    }
}

fn subsystems(words: &[String]) -> Vec<Subsystem> {
    let mut out: Vec<Subsystem> = Vec::new();
    for entry in words {
        let (name, command) = entry.split_once(' ').unwrap_or((entry, ""));
        if !out.iter().any(|have| have.name == name) {
            out.push(Subsystem {
                name: name.to_owned(),
                command: command.to_owned(),
            });
        }
    }
    out
}

fn penalties(words: &[String]) -> PerSourcePenalties {
    let of = |key: &str, otherwise: &str| -> String {
        words
            .iter()
            .filter_map(|word| word.split_once(':'))
            .find(|(k, _)| *k == key)
            .map_or(otherwise, |(_, value)| value)
            .to_owned()
    };
    let time = |key: &str, otherwise: u64| number_at(&[of(key, "")], 0).unwrap_or(otherwise);
    let sources = |key: &str| of(key, "").parse::<u32>().unwrap_or(65_536);
    let overflow = of("overflow", PenaltyOverflow::Permissive.word());
    PerSourcePenalties {
        // As in OpenSSH: naming a penalty enables them, before or after `no`.
        enabled: words.first().is_none_or(|word| word != "no")
            || words.iter().any(|word| word.contains(':')),
        crash_ms: time("crash", 90_000),
        auth_fail_ms: time("authfail", 5_000),
        invalid_user_ms: time("invaliduser", 5_000),
        refuse_connection_ms: time("refuseconnection", 10_000),
        no_auth_ms: time("noauth", 1_000),
        grace_exceeded_ms: time("grace-exceeded", 10_000),
        max_ms: time("max", 600_000),
        min_ms: time("min", 15_000),
        max_sources4: sources("max-sources4"),
        max_sources6: sources("max-sources6"),
        overflow: PenaltyOverflow::from_word(&overflow),
        overflow6: PenaltyOverflow::from_word(&of("overflow6", &overflow)),
    }
}

/// Penalties as `sshd -T` prints them.
pub(crate) fn show_penalties(p: &PerSourcePenalties) -> String {
    if !p.enabled {
        return "no".to_owned();
    }
    let time = units::format_milliseconds;
    format!(
        "crash:{} authfail:{} noauth:{} invaliduser:{} grace-exceeded:{} refuseconnection:{} max:{} min:{} \
         max-sources4:{} max-sources6:{} overflow:{} overflow6:{}",
        time(p.crash_ms),
        time(p.auth_fail_ms),
        time(p.no_auth_ms),
        time(p.invalid_user_ms),
        time(p.grace_exceeded_ms),
        time(p.refuse_connection_ms),
        time(p.max_ms),
        time(p.min_ms),
        p.max_sources4,
        p.max_sources6,
        p.overflow.word(),
        p.overflow6.word(),
    )
}
