//! From values by keyword to typed [`ServerOptions`], and what must hold between keywords.

use crate::algorithms::{Class, Side};
use crate::error::ConfigError;
use crate::server::options::{
    ListenAddress, MaxStartups, PenaltyOverflow, PerSourcePenalties, PermitRootLogin,
    PubkeyAuthOptions, ServerOptions, Subsystem, UserEnvironment,
};
use crate::server::table::{Key, SERVER_TABLE};
use crate::types::{
    AddressFamily, FingerprintHash, IpQos, LogLevel, RekeyLimit, SyslogFacility, number_at,
    variables,
};
use crate::units;
use crate::value::{Value, Values};

/// Host keys that are looked for when the file names none. Those that do not exist are skipped by the listener.
pub const DEFAULT_HOST_KEYS: &[&str] =
    &["/etc/ssh/ssh_host_ed25519_key", "/etc/ssh/ssh_host_rsa_key"];

/// Keywords that hold a list of algorithms.
const ALGORITHM_KEYS: &[(Key, Class)] = &[
    (Key::Ciphers, Class::Cipher),
    (Key::MACs, Class::Mac),
    (Key::KexAlgorithms, Class::Kex),
    (Key::CASignatureAlgorithms, Class::CaSignature),
    (Key::HostbasedAcceptedAlgorithms, Class::Signature),
    (Key::HostKeyAlgorithms, Class::HostKey),
    (Key::PubkeyAcceptedAlgorithms, Class::Signature),
];

/// Fills in defaults, resolves algorithm lists and gives every value its type.
pub(crate) fn build(mut values: Values, aes_hardware: bool) -> ServerOptions {
    fill(&mut values, aes_hardware);
    let v = &values;
    let flag = |key: Key| v.flag(key.row());
    let count = |key: Key| v.count(key.row()).unwrap_or(0);
    let word = |key: Key| v.word(key.row()).to_owned();
    let first = |key: Key| v.words(key.row()).first().map_or("", String::as_str);
    let words = |key: Key| v.words(key.row()).to_vec();
    let unless_none = |key: Key| v.word_unless_none(key.row());
    let address_family = AddressFamily::from_word(v.word(Key::AddressFamily.row()));
    ServerOptions {
        accept_env: words(Key::AcceptEnv),
        address_family,
        allow_groups: words(Key::AllowGroups),
        allow_users: words(Key::AllowUsers),
        deny_groups: words(Key::DenyGroups),
        deny_users: words(Key::DenyUsers),
        authentication_methods: methods(v.words(Key::AuthenticationMethods.row())),
        authorized_keys_command: unless_none(Key::AuthorizedKeysCommand),
        authorized_keys_command_user: unless_none(Key::AuthorizedKeysCommandUser),
        authorized_keys_files: v.words_unless_none(Key::AuthorizedKeysFile.row()),
        authorized_principals_file: unless_none(Key::AuthorizedPrincipalsFile),
        banner: unless_none(Key::Banner),
        ca_signature_algorithms: words(Key::CASignatureAlgorithms),
        chroot_directory: unless_none(Key::ChrootDirectory),
        ciphers: words(Key::Ciphers),
        client_alive_count_max: count(Key::ClientAliveCountMax),
        client_alive_interval_s: count(Key::ClientAliveInterval),
        compression: v.word(Key::Compression.row()) == "yes",
        disable_forwarding: flag(Key::DisableForwarding),
        expose_auth_info: flag(Key::ExposeAuthInfo),
        fingerprint_hash: FingerprintHash::from_word(v.word(Key::FingerprintHash.row())),
        force_command: unless_none(Key::ForceCommand),
        host_certificates: v.words_unless_none(Key::HostCertificate.row()),
        host_keys: v.words_unless_none(Key::HostKey.row()),
        host_key_algorithms: words(Key::HostKeyAlgorithms),
        ip_qos: IpQos::from_words(v.words(Key::IPQoS.row())),
        kbd_interactive_authentication: flag(Key::KbdInteractiveAuthentication),
        kex_algorithms: words(Key::KexAlgorithms),
        listen_addresses: listen_addresses(v, address_family),
        log_level: LogLevel::from_word(first(Key::LogLevel)),
        login_grace_time_s: count(Key::LoginGraceTime),
        macs: words(Key::MACs),
        max_auth_tries: count(Key::MaxAuthTries),
        max_sessions: count(Key::MaxSessions),
        max_startups: max_startups(first(Key::MaxStartups)),
        moduli_file: word(Key::ModuliFile),
        pam_service_name: word(Key::PAMServiceName),
        password_authentication: flag(Key::PasswordAuthentication),
        permit_empty_passwords: flag(Key::PermitEmptyPasswords),
        permit_root_login: PermitRootLogin::from_word(v.word(Key::PermitRootLogin.row())),
        permit_tty: flag(Key::PermitTTY),
        permit_user_environment: match first(Key::PermitUserEnvironment) {
            "yes" => UserEnvironment::Yes,
            "no" | "" => UserEnvironment::No,
            list => UserEnvironment::Matching(list.to_owned()),
        },
        permit_user_rc: flag(Key::PermitUserRC),
        per_source_max_startups: first(Key::PerSourceMaxStartups).parse().ok(),
        per_source_net_block_size: net_block_size(first(Key::PerSourceNetBlockSize)),
        per_source_penalties: penalties(v.words(Key::PerSourcePenalties.row())),
        per_source_penalty_exempt_list: match first(Key::PerSourcePenaltyExemptList) {
            "none" => String::new(),
            list => list.to_owned(),
        },
        pid_file: unless_none(Key::PidFile),
        print_last_log: flag(Key::PrintLastLog),
        print_motd: flag(Key::PrintMotd),
        pubkey_accepted_algorithms: words(Key::PubkeyAcceptedAlgorithms),
        pubkey_authentication: flag(Key::PubkeyAuthentication),
        pubkey_auth_options: pubkey_options(v.words(Key::PubkeyAuthOptions.row())),
        refuse_connection: flag(Key::RefuseConnection),
        rekey_limit: RekeyLimit::from_words(v.words(Key::RekeyLimit.row())),
        required_rsa_size: count(Key::RequiredRSASize),
        revoked_keys: unless_none(Key::RevokedKeys),
        set_env: variables(v.words(Key::SetEnv.row())),
        strict_modes: flag(Key::StrictModes),
        subsystems: subsystems(v.words(Key::Subsystem.row())),
        syslog_facility: SyslogFacility::from_word(first(Key::SyslogFacility)),
        tcp_keep_alive: flag(Key::TCPKeepAlive),
        trusted_user_ca_keys: unless_none(Key::TrustedUserCAKeys),
        use_dns: flag(Key::UseDNS),
        use_pam: flag(Key::UsePAM),
        version_addendum: unless_none(Key::VersionAddendum),
        values,
        aes_hardware,
    }
}

/// Checks what one line cannot know: combinations that no connection could be served with.
pub(crate) fn check(options: &ServerOptions) -> Result<(), ConfigError> {
    let refuse = |text: &str| Err(ConfigError::Refused(text.to_owned()));
    if options.authorized_keys_command.is_some() && options.authorized_keys_command_user.is_none() {
        return refuse("AuthorizedKeysCommand set without AuthorizedKeysCommandUser");
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
        "none" => options.permit_empty_passwords,
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
        let resolved = match values.at(key.row()) {
            Some(Value::Word(spec)) => class.resolve(spec, Side::Server, aes_hardware),
            // Already resolved: an encoded configuration that was decoded.
            Some(Value::Words(_)) => continue,
            _ => class
                .defaults(Side::Server, aes_hardware)
                .iter()
                .map(|name| (*name).to_owned())
                .collect(),
        };
        values.put(key.row(), Value::Words(resolved));
    }
    for (index, keyword) in SERVER_TABLE.iter().enumerate() {
        if values.at(index).is_none()
            && let Some(value) = crate::value::default_of(keyword)
        {
            values.put(index, value);
        }
    }
    if values.at(Key::HostKey.row()).is_none() {
        let defaults = DEFAULT_HOST_KEYS
            .iter()
            .map(|key| (*key).to_owned())
            .collect();
        values.put(Key::HostKey.row(), Value::Words(defaults));
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
        .words(Key::Port.row())
        .iter()
        .filter_map(|port| port.parse().ok())
        .collect();
    let mut out = Vec::new();
    let mut add = |host: Option<&str>, port: &str, rdomain: Option<&str>| {
        let own_port = port.parse::<u16>().ok();
        for port in own_port
            .iter()
            .chain(if own_port.is_some() { &[][..] } else { &ports })
        {
            out.push(ListenAddress {
                host: host.map(str::to_owned),
                port: *port,
                rdomain: rdomain.map(str::to_owned),
            });
        }
    };
    let entries = values.words(Key::ListenAddress.row());
    for entry in entries {
        let mut parts = entry.split(' ');
        let host = parts.next().unwrap_or("*");
        let port = parts.next().unwrap_or("-");
        let rdomain = parts.next().filter(|r| *r != "-");
        match host {
            "*" => wildcard_hosts(family).for_each(|host| add(Some(host), port, rdomain)),
            host => add(Some(host), port, rdomain),
        }
    }
    if entries.is_empty() {
        wildcard_hosts(family).for_each(|host| add(Some(host), "-", None));
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

fn pubkey_options(words: &[String]) -> PubkeyAuthOptions {
    PubkeyAuthOptions {
        touch_required: words.iter().any(|word| word == "touch-required"),
        verify_required: words.iter().any(|word| word == "verify-required"),
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
        enabled: words.first().is_none_or(|word| word != "no"),
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
        "crash:{} authfail:{} invaliduser:{} noauth:{} grace-exceeded:{} refuseconnection:{} max:{} min:{} \
         max-sources4:{} max-sources6:{} overflow:{} overflow6:{}",
        time(p.crash_ms),
        time(p.auth_fail_ms),
        time(p.invalid_user_ms),
        time(p.no_auth_ms),
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
