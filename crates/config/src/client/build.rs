//! Builds typed [`ClientOptions`] from values by keyword: defaults, expansion, and checks between
//! keywords.

use crate::algorithms::{Class, Side};
use crate::client::options::{
    ClientOptions, EscapeChar, IdentityAgent, IdentityFile, PipelineLogin, Proxy,
    PubkeyAuthentication, RequestTty, SessionType, StrictHostKeyChecking, YesNoAsk,
};
use crate::client::pass::BAD_USER;
use crate::client::resolve::Knowledge;
use crate::client::table::{CLIENT_TABLE, Row};
use crate::client::{ClientConfig, CommandLine};
use crate::destination;
use crate::environment::Environment;
use crate::error::{ConfigError, Warning};
use crate::tokens::{self, ExpandError, Purpose, Tokens};
use crate::types::{
    AddressFamily, FingerprintHash, HwCompression, IpQos, LogLevel, RekeyLimit, SyslogFacility,
    libraries, number_at, thread_count, variables,
};
use crate::value::{self, Repeat, Value, Values};

/// Private keys that are tried if none is named, in OpenSSH's order.
pub const DEFAULT_IDENTITY_FILES: &[&str] = &[
    "~/.ssh/id_rsa",
    "~/.ssh/id_ecdsa",
    "~/.ssh/id_ecdsa_sk",
    "~/.ssh/id_ed25519",
    "~/.ssh/id_ed25519_sk",
];

/// The methods that this client supports, in the order of preference.
const METHODS: &[&str] = &["publickey", "keyboard-interactive", "password"];

const ALGORITHM_KEYS: &[(Row, Class)] = &[
    (Row::Ciphers, Class::Cipher),
    (Row::MACs, Class::Mac),
    (Row::KexAlgorithms, Class::Kex),
    (Row::CASignatureAlgorithms, Class::CaSignature),
    (Row::HostbasedAcceptedAlgorithms, Class::Signature),
    (Row::HostKeyAlgorithms, Class::HostKey),
    (Row::PubkeyAcceptedAlgorithms, Class::Signature),
];

/// Expands words with the tokens of one host.
struct Expander<'a> {
    tokens: &'a Tokens,
    environment: &'a dyn Environment,
}

impl Expander<'_> {
    /// Expands a path: `~`, `%` tokens and `${NAME}`.
    fn path(&self, keyword: &str, template: &str) -> Result<String, ConfigError> {
        tokens::expand_tilde(template, self.environment)
            .and_then(|path| {
                self.tokens
                    .expand_with_variables(&path, Purpose::Plain, self.environment)
            })
            .map_err(|error| refused(keyword, &error))
    }

    fn paths(&self, keyword: &str, templates: &[String]) -> Result<Vec<String>, ConfigError> {
        templates
            .iter()
            .map(|template| self.path(keyword, template))
            .collect()
    }

    fn tilde(&self, keyword: &str, path: &str) -> Result<String, ConfigError> {
        tokens::expand_tilde(path, self.environment).map_err(|error| refused(keyword, &error))
    }
}

fn refused(keyword: &str, error: &ExpandError) -> ConfigError {
    ConfigError::Refused(format!("{keyword}: {error}"))
}

/// The parts of the command line other than its settings.
#[derive(Clone, Copy)]
pub(crate) struct Invocation<'a> {
    pub(crate) command_line: &'a CommandLine,
    /// `User` comes from a flag or the destination, where tokens and variables have no meaning.
    pub(crate) user_is_literal: bool,
}

/// Whether `UpdateHostKeys ask` may ask: with OpenSSH only a login shell is interrupted, and none that
/// is to be quiet.
fn may_ask(values: &Values, command_line: &CommandLine) -> bool {
    let level = values.words(Row::LogLevel.index()).first();
    let is_quiet =
        level.is_some_and(|level| matches!(level.as_str(), "SILENT" | "FATAL" | "ERROR"));
    command_line.command.is_none()
        && !is_quiet
        && values
            .word_unless_none(Row::RemoteCommand.index())
            .is_none()
        && values.word(Row::RequestTTY.index()) != "false"
}

/// Makes the typed options of values that hold only what was set.
pub(crate) fn build(
    config: &ClientConfig,
    mut values: Values,
    mut warnings: Vec<Warning>,
    knowledge: &Knowledge,
    invocation: Invocation<'_>,
    environment: &dyn Environment,
) -> Result<ClientOptions, ConfigError> {
    let command_line = invocation.command_line;
    let explicit_identities = values.at(Row::IdentityFile.index()).is_some();
    let host_key_algorithms_set = values.at(Row::HostKeyAlgorithms.index()).is_some();
    let default_user_files = values.at(Row::UserKnownHostsFile.index()).is_none();
    if command_line.forwards_stdio {
        for row in [Row::ExitOnForwardFailure, Row::ClearAllForwardings] {
            values.enter(row.index(), Repeat::First, Value::Flag(true));
        }
    }
    fill(config, &mut values, knowledge);
    check(&values)?;
    if values.at(Row::UpdateHostKeys.index()).is_none() {
        let learn = default_user_files && values.word(Row::VerifyHostKeyDNS.index()) == "false";
        let word = if learn { "true" } else { "false" };
        values.put(Row::UpdateHostKeys.index(), Value::Word(word.to_owned()));
    }
    if values.word(Row::UpdateHostKeys.index()) == "ask" && !may_ask(&values, command_line) {
        values.put(Row::UpdateHostKeys.index(), Value::Word("false".to_owned()));
    }
    forwardings(&mut values, &mut warnings, command_line.only_prints)?;
    let hostname = values.word(Row::HostName.index()).to_owned();
    if !invocation.user_is_literal {
        expand_user(&mut values, knowledge, &hostname, environment)?;
    }
    let mut tokens = knowledge.tokens(&values, &hostname);
    let expander = Expander {
        tokens: &tokens,
        environment,
    };
    let expanded = expand(&values, command_line, explicit_identities, &expander)?;
    show_expanded(&mut values, &expanded);
    // LocalCommand accepts every token; tunnels are not implemented.
    tokens.set('T', "NONE");
    Ok(typed(
        values,
        expanded,
        knowledge,
        host_key_algorithms_set,
        tokens,
        warnings,
    ))
}

/// `User` of a file or of `-o`, expanded. An expanded name is checked like one of the command line,
/// since its parts may come from there; a name without tokens and variables stays unchanged.
fn expand_user(
    values: &mut Values,
    knowledge: &Knowledge,
    hostname: &str,
    environment: &dyn Environment,
) -> Result<(), ConfigError> {
    let template = values.word(Row::User.index());
    let user = knowledge
        .tokens(values, hostname)
        .only("Ldhijklnpu")
        .expand_with_variables(template, Purpose::Plain, environment)
        .map_err(|error| refused("User", &error))?;
    if user == template {
        return Ok(());
    }
    if user.is_empty() || !tokens::is_valid_user(&user) {
        return Err(ConfigError::Refused(BAD_USER.to_owned()));
    }
    values.put(Row::User.index(), Value::Word(user));
    Ok(())
}

/// The values with paths, commands and names, expanded.
struct Expanded {
    certificate_files: Vec<String>,
    /// For the dump only: connection sharing is not implemented.
    control_path: Option<String>,
    global_known_hosts_files: Vec<String>,
    identity_agent: IdentityAgent,
    identity_files: Vec<IdentityFile>,
    proxy: Proxy,
    remote_command: Option<String>,
    revoked_host_keys: Vec<String>,
    set_env: Vec<String>,
    user_known_hosts_files: Vec<String>,
    version_addendum: Option<String>,
}

fn expand(
    values: &Values,
    command_line: &CommandLine,
    explicit_identities: bool,
    expander: &Expander<'_>,
) -> Result<Expanded, ConfigError> {
    let list = |key: Row| values.words_unless_none(key.index());
    let global_known_hosts_files = list(Row::GlobalKnownHostsFile)
        .iter()
        .map(|file| expander.tilde("GlobalKnownHostsFile", file))
        .collect::<Result<_, _>>()?;
    let version_addendum = match values.word_unless_none(Row::VersionAddendum.index()) {
        Some(text) => Some(
            expander
                .tokens
                .expand_with_variables(&text, Purpose::Plain, expander.environment)
                .map_err(|error| refused("VersionAddendum", &error))?,
        ),
        None => None,
    };
    let control_path = match values.word_unless_none(Row::ControlPath.index()) {
        Some(path) => Some(expander.path("ControlPath", &path)?),
        None => None,
    };
    let mut certificate_files = expander.paths("CertificateFile", &list(Row::CertificateFile));
    let mut identity_files = identity_files(values, explicit_identities, expander);
    if command_line.only_prints {
        // `-G` shows the names of key files as written, so an error of expansion does not matter;
        // only a connection needs the expanded names.
        certificate_files = certificate_files.or_else(|_| Ok(Vec::new()));
        identity_files = identity_files.or_else(|_| Ok(Vec::new()));
    }
    let proxy = match proxy(values, expander.tokens) {
        // `-G` shows the command unexpanded.
        Err(_) if command_line.only_prints && jumps(values).is_none() => Proxy::Direct,
        proxy => proxy?,
    };
    Ok(Expanded {
        certificate_files: certificate_files?,
        control_path,
        global_known_hosts_files,
        identity_agent: identity_agent(values, expander)?,
        identity_files: identity_files?,
        proxy,
        remote_command: remote_command(values, command_line, expander.tokens)?,
        set_env: set_env(values, expander)?,
        revoked_host_keys: expander.paths("RevokedHostKeys", &list(Row::RevokedHostKeys))?,
        user_known_hosts_files: expander
            .paths("UserKnownHostsFile", &list(Row::UserKnownHostsFile))?,
        version_addendum,
    })
}

/// Converts each value to its type.
fn typed(
    values: Values,
    expanded: Expanded,
    knowledge: &Knowledge,
    host_key_algorithms_set: bool,
    tokens: Tokens,
    warnings: Vec<Warning>,
) -> ClientOptions {
    let v = &values;
    let flag = |key: Row| v.flag(key.index());
    let count = |key: Row| v.count(key.index()).unwrap_or(0);
    let words = |key: Row| v.words(key.index()).to_vec();
    let word = |key: Row| v.word(key.index());
    let first = |key: Row| v.words(key.index()).first().map_or("", String::as_str);
    let unless_none = |key: Row| v.word_unless_none(key.index());
    ClientOptions {
        host_argument: knowledge.host_argument.clone(),
        hostname: word(Row::HostName).to_owned(),
        user: word(Row::User).to_owned(),
        port: u16::try_from(v.number(Row::Port.index())).unwrap_or(22),
        address_family: AddressFamily::from_word(word(Row::AddressFamily)),
        batch_mode: flag(Row::BatchMode),
        bind_address: unless_none(Row::BindAddress),
        bind_interface: unless_none(Row::BindInterface),
        ca_signature_algorithms: words(Row::CASignatureAlgorithms),
        certificate_files: expanded.certificate_files,
        ciphers: words(Row::Ciphers),
        compression: word(Row::Compression) != "no",
        compression_zstd: word(Row::Compression) == "zstd",
        connection_attempts: count(Row::ConnectionAttempts).max(1),
        connect_timeout_s: v.count(Row::ConnectTimeout.index()).filter(|s| *s != 0),
        escape_char: escape_char(first(Row::EscapeChar)),
        fingerprint_hash: FingerprintHash::from_word(word(Row::FingerprintHash)),
        fork_after_authentication: flag(Row::ForkAfterAuthentication),
        global_known_hosts_files: expanded.global_known_hosts_files,
        hash_known_hosts: flag(Row::HashKnownHosts),
        host_key_algorithms: words(Row::HostKeyAlgorithms),
        host_key_algorithms_set,
        host_key_alias: unless_none(Row::HostKeyAlias),
        identities_only: flag(Row::IdentitiesOnly),
        identity_agent: expanded.identity_agent,
        identity_files: expanded.identity_files,
        ip_qos: IpQos::from_words(v.words(Row::IPQoS.index())),
        kbd_interactive_authentication: flag(Row::KbdInteractiveAuthentication),
        kex_algorithms: words(Row::KexAlgorithms),
        known_hosts_command: unless_none(Row::KnownHostsCommand),
        local_command: unless_none(Row::LocalCommand).filter(|_| flag(Row::PermitLocalCommand)),
        log_level: LogLevel::from_name(first(Row::LogLevel)).unwrap_or_default(),
        macs: words(Row::MACs),
        no_host_authentication_for_localhost: flag(Row::NoHostAuthenticationForLocalhost),
        number_of_password_prompts: count(Row::NumberOfPasswordPrompts),
        obscure_keystrokes_ms: keystrokes(first(Row::ObscureKeystrokeTiming)),
        password_authentication: flag(Row::PasswordAuthentication),
        preferred_authentications: methods(word(Row::PreferredAuthentications)),
        proxy: expanded.proxy,
        proxy_use_fdpass: flag(Row::ProxyUseFdpass),
        pubkey_accepted_algorithms: words(Row::PubkeyAcceptedAlgorithms),
        pubkey_authentication: PubkeyAuthentication::from_word(word(Row::PubkeyAuthentication)),
        rekey_limit: RekeyLimit::from_words(v.words(Row::RekeyLimit.index())),
        remote_command: expanded.remote_command,
        request_tty: RequestTty::from_word(word(Row::RequestTTY)),
        required_rsa_size: count(Row::RequiredRSASize).max(LEAST_RSA_BITS),
        revoked_host_keys: expanded.revoked_host_keys,
        send_env: words(Row::SendEnv),
        server_alive_count_max: count(Row::ServerAliveCountMax),
        server_alive_interval_s: count(Row::ServerAliveInterval),
        session_type: SessionType::from_word(word(Row::SessionType)),
        set_env: variables(&expanded.set_env),
        stdin_null: flag(Row::StdinNull),
        strict_host_key_checking: StrictHostKeyChecking::from_word(word(
            Row::StrictHostKeyChecking,
        )),
        syslog_facility: SyslogFacility::from_word(first(Row::SyslogFacility)),
        tcp_keep_alive: flag(Row::TCPKeepAlive),
        update_host_keys: YesNoAsk::from_word(word(Row::UpdateHostKeys)),
        user_known_hosts_files: expanded.user_known_hosts_files,
        use_mptcp: flag(Row::UseMPTCP),
        hw_compression: HwCompression::from_word(word(Row::EnableHwCompression)),
        hw_compression_libraries: libraries(v.words(Row::HwCompressionLibrary.index())),
        hw_compression_verify: flag(Row::HwCompressionVerify),
        version_addendum: expanded.version_addendum,
        warn_weak_crypto: word(Row::WarnWeakCrypto) == "yes",
        visual_host_key: flag(Row::VisualHostKey),
        crypto_threads: thread_count(v.words(Row::CryptoThreads.index())),
        compression_level: u8::try_from(v.number(Row::CompressionLevel.index())).unwrap_or(6),
        compression_adaptive: v.flag(Row::CompressionAdaptive.index()),
        compression_threads: thread_count(v.words(Row::CompressionThreads.index())),
        window_memory_bytes: number_at(v.words(Row::WindowMemory.index()), 0).unwrap_or(0),
        login_cache: flag(Row::LoginCache),
        pipeline_login: PipelineLogin::from_word(word(Row::PipelineLogin)),
        tcp_fast_open: flag(Row::TCPFastOpen),
        tokens,
        warnings,
        values,
    }
}

fn fill(config: &ClientConfig, values: &mut Values, knowledge: &Knowledge) {
    if values.at(Row::User.index()).is_none() {
        values.put(Row::User.index(), Value::Word(knowledge.local.name.clone()));
    }
    for (key, class) in ALGORITHM_KEYS {
        let spec = match values.at(key.index()) {
            Some(Value::Word(spec)) => spec.clone(),
            // Appending nothing gives the defaults.
            _ => "+".to_owned(),
        };
        let resolved = class.resolve(&spec, Side::Client, config.aes_hardware);
        values.put(key.index(), Value::Words(resolved));
    }
    values.put_defaults(CLIENT_TABLE);
    RekeyLimit::fill(values, Row::RekeyLimit.index());
    // As in OpenSSH, host names are compared, printed and kept in lower case.
    if let Some(Value::Word(alias)) = values.at(Row::HostKeyAlias.index()) {
        let alias = alias.to_ascii_lowercase();
        values.put(Row::HostKeyAlias.index(), Value::Word(alias));
    }
    let addendum = Row::VersionAddendum.index();
    if values.word(addendum).eq_ignore_ascii_case("none") {
        values.put(addendum, Value::Word(String::new()));
    }
    if values.at(Row::IdentityFile.index()).is_none() {
        let files = DEFAULT_IDENTITY_FILES
            .iter()
            .map(|file| (*file).to_owned())
            .collect();
        values.put(Row::IdentityFile.index(), Value::Words(files));
    }
}

/// Refuses values with which no connection is possible.
fn check(values: &Values) -> Result<(), ConfigError> {
    for key in [
        Row::KexAlgorithms,
        Row::Ciphers,
        Row::MACs,
        Row::HostKeyAlgorithms,
    ] {
        if values.words(key.index()).is_empty() {
            let name = CLIENT_TABLE.get(key.index()).map_or("", |row| row.name);
            return Err(ConfigError::Refused(format!("{name} leaves no algorithm")));
        }
    }
    if values.number(Row::ConnectionAttempts.index()) == 0 {
        return Err(ConfigError::Refused(
            "Invalid number of ConnectionAttempts".to_owned(),
        ));
    }
    Ok(())
}

/// Forwardings are not implemented: `ClearAllForwardings` makes that harmless,
/// `ExitOnForwardFailure` an error.
fn forwardings(
    values: &mut Values,
    warnings: &mut Vec<Warning>,
    only_prints: bool,
) -> Result<(), ConfigError> {
    let keys = [Row::LocalForward, Row::RemoteForward, Row::DynamicForward];
    if values.flag(Row::ClearAllForwardings.index()) {
        for key in keys {
            values.clear(key.index());
        }
        values.put(Row::Tunnel.index(), Value::Word("false".to_owned()));
        warnings.retain(|warning| {
            let word = warning.text.split(' ').next().unwrap_or_default();
            !["LocalForward", "RemoteForward", "DynamicForward", "Tunnel"]
                .iter()
                .any(|name| name.eq_ignore_ascii_case(word))
        });
    }
    let any = keys.iter().any(|key| values.at(key.index()).is_some());
    if any && !only_prints && values.flag(Row::ExitOnForwardFailure.index()) {
        return Err(ConfigError::Refused(
            "ExitOnForwardFailure is set and forwardings are not carried out yet; \
             remove the forwardings or set ClearAllForwardings"
                .to_owned(),
        ));
    }
    Ok(())
}

fn remote_command(
    values: &Values,
    command_line: &CommandLine,
    tokens: &Tokens,
) -> Result<Option<String>, ConfigError> {
    let Some(template) = values.word_unless_none(Row::RemoteCommand.index()) else {
        return Ok(None);
    };
    let has_command = command_line
        .command
        .as_ref()
        .is_some_and(|command| !command.is_empty());
    if has_command && values.word(Row::SessionType.index()) != "subsystem" {
        return Err(ConfigError::Refused(
            "Cannot execute command-line and remote command.".to_owned(),
        ));
    }
    // The remote shell interprets the command, so names must be as safe as for a local shell.
    tokens
        .expand(&template, Purpose::Shell)
        .map(Some)
        .map_err(|error| refused("RemoteCommand", &error))
}

fn identity_agent(values: &Values, expander: &Expander<'_>) -> Result<IdentityAgent, ConfigError> {
    let words = values.words(Row::IdentityAgent.index());
    Ok(match words.first().map_or("", String::as_str) {
        "" | "SSH_AUTH_SOCK" => IdentityAgent::FromEnvironment,
        "none" => IdentityAgent::None,
        word => match word.strip_prefix('$').filter(|name| !name.starts_with('{')) {
            Some(name) => match expander.environment.variable(name) {
                Some(path) if !path.is_empty() => IdentityAgent::Socket(path),
                _ => IdentityAgent::None,
            },
            None => IdentityAgent::Socket(expander.path("IdentityAgent", word)?),
        },
    })
}

fn identity_files(
    values: &Values,
    explicit: bool,
    expander: &Expander<'_>,
) -> Result<Vec<IdentityFile>, ConfigError> {
    let mut out: Vec<IdentityFile> = Vec::new();
    for template in values.words(Row::IdentityFile.index()) {
        if template.eq_ignore_ascii_case("none") {
            continue;
        }
        let path = expander.path("IdentityFile", template)?;
        if !out.iter().any(|have| have.path == path) {
            out.push(IdentityFile { path, explicit });
        }
    }
    Ok(out)
}

/// The hops of `ProxyJump` as written.
fn jumps(values: &Values) -> Option<&str> {
    match values.words(Row::ProxyJump.index()) {
        [hops] if hops != "none" => Some(hops),
        _ => None,
    }
}

fn proxy(values: &Values, tokens: &Tokens) -> Result<Proxy, ConfigError> {
    if let Some(hops) = jumps(values) {
        let expanded = tokens
            .only("hnpr")
            .expand(hops, Purpose::Plain)
            .map_err(|error| refused("ProxyJump", &error))?;
        let hops: Option<Vec<_>> = expanded.split(',').map(destination::parse_hop).collect();
        return hops.map(Proxy::Jump).ok_or_else(|| {
            ConfigError::Refused(format!(
                "Invalid ProxyJump \"{}\"",
                escape::one_line(expanded)
            ))
        });
    }
    match values.word_unless_none(Row::ProxyCommand.index()) {
        None => Ok(Proxy::Direct),
        Some(template) => tokens
            .only("hknpr")
            .expand(&template, Purpose::Shell)
            .map(Proxy::Command)
            .map_err(|error| refused("ProxyCommand", &error)),
    }
}

/// The words of `SetEnv` with their values expanded.
fn set_env(values: &Values, expander: &Expander<'_>) -> Result<Vec<String>, ConfigError> {
    let words = values.words(Row::SetEnv.index());
    let pairs = words.iter().filter_map(|word| word.split_once('='));
    pairs
        .map(|(name, value)| {
            expander
                .tokens
                .expand_with_variables(value, Purpose::Plain, expander.environment)
                .map(|value| format!("{name}={value}"))
                .map_err(|error| refused("SetEnv", &error))
        })
        .collect()
}

/// Stores expanded values for the dump, where OpenSSH's dump shows them expanded.
fn show_expanded(values: &mut Values, expanded: &Expanded) {
    if !expanded.set_env.is_empty() {
        values.put(Row::SetEnv.index(), Value::Words(expanded.set_env.clone()));
    }
    if !expanded.revoked_host_keys.is_empty() {
        values.put(
            Row::RevokedHostKeys.index(),
            Value::Words(expanded.revoked_host_keys.clone()),
        );
    }
    if let Some(text) = &expanded.version_addendum {
        values.put(Row::VersionAddendum.index(), Value::Word(text.clone()));
    }
    if let Some(path) = &expanded.control_path {
        values.put(Row::ControlPath.index(), Value::Word(path.clone()));
    }
    if let Some(command) = &expanded.remote_command {
        values.put(Row::RemoteCommand.index(), Value::Word(command.clone()));
    }
    let agent = values.words(Row::IdentityAgent.index()).first();
    let is_variable = agent.is_some_and(|word| word.starts_with('$') && !word.starts_with("${"));
    if let IdentityAgent::Socket(path) = &expanded.identity_agent
        && !is_variable
    {
        values.put(Row::IdentityAgent.index(), Value::Words(vec![path.clone()]));
    }
    // Of several hops, OpenSSH formats the last one and prints the others as written.
    if let (Proxy::Jump(hops), [written]) = (&expanded.proxy, values.words(Row::ProxyJump.index()))
        && let Some(last) = hops.last()
    {
        let shown = match written.rsplit_once(',') {
            Some((before, _)) => format!("{before},{last}"),
            None => last.to_string(),
        };
        values.put(Row::ProxyJump.index(), Value::Words(vec![shown]));
    }
    let user_files = &expanded.user_known_hosts_files;
    if !user_files.is_empty() {
        values.put(
            Row::UserKnownHostsFile.index(),
            Value::Words(user_files.clone()),
        );
    }
}

/// The warning about methods of `PreferredAuthentications` that this client lacks; as in OpenSSH
/// they are no error.
pub(crate) fn passed_over_methods(list: &str) -> Option<String> {
    let other = |name: &&str| !name.is_empty() && !METHODS.contains(name);
    let others: Vec<&str> = list.split(',').filter(other).collect();
    let said = || {
        format!(
            "{} not known to this version; ignored",
            escape::one_line(others.join(","))
        )
    };
    (!others.is_empty()).then(said)
}

fn methods(list: &str) -> Vec<String> {
    let names: Vec<&str> = match list {
        "" => METHODS.to_vec(),
        list => list
            .split(',')
            .filter(|name| METHODS.contains(name))
            .collect(),
    };
    names.into_iter().map(str::to_owned).collect()
}

/// Smallest RSA key accepted, bits, whatever `RequiredRSASize` says, as in OpenSSH.
const LEAST_RSA_BITS: u32 = 1024;

/// Default interval of `ObscureKeystrokeTiming`, milliseconds.
const KEYSTROKE_MS: u32 = 20;

fn keystrokes(word: &str) -> Option<u32> {
    match word {
        "no" => None,
        _ => word
            .strip_prefix("interval:")
            .map_or(Some(KEYSTROKE_MS), |ms| ms.parse().ok()),
    }
}

fn escape_char(word: &str) -> EscapeChar {
    match word.as_bytes() {
        [b'\\', b'^', letter] => EscapeChar::Byte(letter & 0x1f),
        b"\\\\" => EscapeChar::Byte(b'\\'),
        [byte] => EscapeChar::Byte(*byte),
        _ => EscapeChar::None,
    }
}

impl ClientOptions {
    /// The options as `ssh -G` prints them.
    pub fn dump(&self) -> String {
        format!(
            "host {}\n{}",
            self.host_argument,
            value::dump(CLIENT_TABLE, &self.values)
        )
    }
}
