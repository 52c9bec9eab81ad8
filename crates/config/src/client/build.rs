//! Builds typed [`ClientOptions`] from values by keyword: defaults, expansion, and checks between
//! keywords.

use crate::algorithms::Side;
use crate::client::knowledge::Knowledge;
use crate::client::options::SessionType;
use crate::client::options::{
    ForwardAgent, IdentityAgent, IdentityFile, Proxy, RequestTty, Tunnel,
};
use crate::client::table::{CLIENT_TABLE, ClientOptions, Row, jumps};
use crate::client::types::{AgentName, JumpHost, NameOrVariable, YesNoAsk};
use crate::client::{ClientConfig, CommandLine, methods};
use crate::destination;
use crate::environment::Environment;
use crate::error::{ConfigError, MISTYPED, Warning};
use crate::forward::{ForwardListen, ForwardTo};
use crate::printing::{self, Letters};
use crate::tokens::{self, BAD_USER, ExpandError, Purpose, Tokens};
use crate::types::LogLevel;
use crate::value::{Repeat, Value, Values};

/// Private keys that are tried if none is named, in OpenSSH's order.
pub const DEFAULT_IDENTITY_FILES: &[&str] = &[
    "~/.ssh/id_rsa",
    "~/.ssh/id_ecdsa",
    "~/.ssh/id_ecdsa_sk",
    "~/.ssh/id_ed25519",
    "~/.ssh/id_ed25519_sk",
    "~/.ssh/id_mldsa44_ed25519",
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

    /// As [`path`](Self::path), of a forwarding's socket: `-G` shows `~user` of an unknown user as it
    /// is written. OpenSSH gives `~` no meaning there.
    fn forwarded_path(
        &self,
        keyword: &str,
        template: &str,
        command_line: &CommandLine,
    ) -> Result<String, ConfigError> {
        match tokens::expand_tilde(template, self.environment) {
            Err(_) if command_line.only_prints => self.plain(keyword, template),
            _ => self.path(keyword, template),
        }
    }

    fn paths(&self, row: Row, values: &Values) -> Result<Vec<String>, ConfigError> {
        let templates = values.words(row.index()).iter();
        templates
            .map(|template| self.path(row.name(), template))
            .collect()
    }

    /// Expands a text: `%` tokens and `${NAME}`.
    fn plain(&self, keyword: &str, template: &str) -> Result<String, ConfigError> {
        self.tokens
            .expand_with_variables(template, Purpose::Plain, self.environment)
            .map_err(|error| refused(keyword, &error))
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
    let is_quiet = matches!(
        values.get(Row::LogLevel.index()),
        Some(LogLevel::Quiet | LogLevel::Fatal | LogLevel::Error)
    );
    command_line.command.is_none()
        && !is_quiet
        && values
            .word_unless_none(Row::RemoteCommand.index())
            .is_none()
        && values.get(Row::RequestTTY.index()) != Some(RequestTty::No)
}

/// Makes the typed options of values that hold only what was set.
pub(crate) fn build(
    config: &ClientConfig,
    mut values: Values,
    warnings: Vec<Warning>,
    knowledge: &Knowledge,
    invocation: Invocation<'_>,
    environment: &dyn Environment,
) -> Result<ClientOptions, ConfigError> {
    let command_line = invocation.command_line;
    let explicit_identities = values.at(Row::IdentityFile.index()).is_some();
    // A list that only adds to the default or takes from it leaves the order to what known_hosts contains.
    let host_key_algorithms_set = matches!(
        values.at(Row::HostKeyAlgorithms.index()),
        Some(Value::Word(spec)) if !spec.starts_with(['+', '-'])
    );
    let kex_algorithms_set = values.at(Row::KexAlgorithms.index()).is_some();
    let default_user_files = values.at(Row::UserKnownHostsFile.index()).is_none();
    if command_line.forwards_stdio {
        for row in [Row::ExitOnForwardFailure, Row::ClearAllForwardings] {
            values.enter(row.index(), Repeat::First, Value::Flag(true));
        }
    }
    fill(config, &mut values, knowledge);
    check(&values)?;
    let row = Row::UpdateHostKeys.index();
    let update = match values.get(row) {
        None if default_user_files
            && values.get(Row::VerifyHostKeyDNS.index()) == Some(YesNoAsk::No) =>
        {
            YesNoAsk::Yes
        }
        Some(YesNoAsk::Ask) if may_ask(&values, command_line) => YesNoAsk::Ask,
        None | Some(YesNoAsk::Ask) => YesNoAsk::No,
        Some(update) => update,
    };
    values.put(row, Value::Choice(update.choice()));
    clear_forwardings(&mut values);
    let hostname = values.word(Row::HostName.index()).to_owned();
    if !invocation.user_is_literal {
        expand_user(&mut values, knowledge, &hostname, environment)?;
    }
    let mut tokens = knowledge.tokens(&values, &hostname);
    let expander = Expander {
        tokens: &tokens,
        environment,
    };
    let expanded = expand(&mut values, command_line, explicit_identities, &expander)?;
    let (mut options, mistyped) = ClientOptions::of(|row| values.at(row.index()).cloned());
    if mistyped.is_some() {
        return Err(MISTYPED);
    }
    expand_forwards(&mut options, &mut values, &expander, command_line)?;
    options.host_argument = knowledge.host_argument.clone();
    options.algorithms.host_key_algorithms_set = host_key_algorithms_set;
    options.algorithms.kex_algorithms_set = kex_algorithms_set;
    options.user_keys.certificate_files = expanded.certificate_files;
    options.host_keys.global_known_hosts_files = expanded.global_known_hosts_files;
    options.user_keys.identity_agent = expanded.identity_agent;
    options.forwarding.agent = expanded.forward_agent;
    options.user_keys.identity_files = expanded.identity_files;
    options.connection.proxy = expanded.proxy;
    options.connection.connect_timeout_s = options
        .connection
        .connect_timeout_s
        .filter(|seconds| *seconds != 0);
    options.session.local_command = options
        .session
        .local_command
        .filter(|_| options.session.permit_local_command);
    options.authentication.preferred_authentications =
        methods::supported(options.authentication.preferred_authentications);
    options.algorithms.required_rsa_size = options.algorithms.required_rsa_size.max(LEAST_RSA_BITS);
    // LocalCommand accepts every token; `%T` is known when the tunnel is open.
    tokens.set('T', "NONE");
    options.tokens = tokens;
    options.warnings = warnings;
    options.values = values;
    Ok(options)
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

/// Expanded paths and commands that the dump shows as they are written.
struct Expanded {
    certificate_files: Vec<String>,
    global_known_hosts_files: Vec<String>,
    identity_agent: IdentityAgent,
    forward_agent: ForwardAgent,
    identity_files: Vec<IdentityFile>,
    proxy: Proxy,
}

/// Expands paths, commands and names; those that OpenSSH's dump shows expanded are put back into
/// `values`.
fn expand(
    values: &mut Values,
    command_line: &CommandLine,
    explicit_identities: bool,
    expander: &Expander<'_>,
) -> Result<Expanded, ConfigError> {
    let global = values.words(Row::GlobalKnownHostsFile.index()).iter();
    let global_known_hosts_files = global
        .map(|file| expander.tilde("GlobalKnownHostsFile", file))
        .collect::<Result<_, _>>()?;
    if let Some(text) = values.word_unless_none(Row::VersionAddendum.index()) {
        let text = expander.plain("VersionAddendum", &text)?;
        values.put(Row::VersionAddendum.index(), Value::Word(text));
    }
    if let Some(path) = values.word_unless_none(Row::ControlPath.index()) {
        let path = expander.path("ControlPath", &path)?;
        values.put(Row::ControlPath.index(), Value::Word(path));
    }
    let mut certificate_files = match values.words(Row::CertificateFile.index()) {
        [only] if only.eq_ignore_ascii_case("none") => Ok(Vec::new()),
        _ => expander.paths(Row::CertificateFile, values),
    };
    let mut identity_files = identity_files(values, explicit_identities, expander);
    if command_line.only_prints {
        // `-G` shows the names of key files as written, so an error of expansion does not matter;
        // only a connection needs the expanded names.
        certificate_files = certificate_files.or_else(|_| Ok(Vec::new()));
        identity_files = identity_files.or_else(|_| Ok(Vec::new()));
    }
    let proxy = match proxy(values, expander.tokens) {
        // `-G` shows the command and the hops unexpanded.
        Err(_) if command_line.only_prints => Proxy::Direct,
        proxy => proxy?,
    };
    let expanded = Expanded {
        certificate_files: certificate_files?,
        global_known_hosts_files,
        identity_agent: identity_agent(values, expander)?,
        forward_agent: forward_agent(values, expander)?,
        identity_files: identity_files?,
        proxy,
    };
    if let Some(command) = remote_command(values, command_line, expander.tokens)? {
        values.put(Row::RemoteCommand.index(), Value::Word(command));
    }
    set_env(values, expander)?;
    for row in [Row::RevokedHostKeys, Row::UserKnownHostsFile] {
        if values.at(row.index()).is_some() {
            let paths = expander.paths(row, values)?;
            values.put(row.index(), Value::Words(paths));
        }
    }
    Ok(expanded)
}

fn fill(config: &ClientConfig, values: &mut Values, knowledge: &Knowledge) {
    if values.at(Row::User.index()).is_none() {
        values.put(Row::User.index(), Value::Word(knowledge.local.name.clone()));
    }
    values.complete(CLIENT_TABLE, Side::Client, config.aes_hardware);
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
            return Err(ConfigError::Refused(format!(
                "{} leaves no algorithm",
                key.name()
            )));
        }
    }
    if values.number(Row::ConnectionAttempts.index()) == 0 {
        return Err(ConfigError::Refused(
            "Invalid number of ConnectionAttempts".to_owned(),
        ));
    }
    Ok(())
}

/// Carries `ClearAllForwardings` out.
fn clear_forwardings(values: &mut Values) {
    if !values.flag(Row::ClearAllForwardings.index()) {
        return;
    }
    for key in [Row::LocalForward, Row::RemoteForward, Row::DynamicForward] {
        values.clear(key.index());
    }
    values.put(Row::Tunnel.index(), Value::Choice(Tunnel::No.choice()));
}

/// Expands the paths of sockets in forwardings, also for the dump.
fn expand_forwards(
    options: &mut ClientOptions,
    values: &mut Values,
    expander: &Expander<'_>,
    command_line: &CommandLine,
) -> Result<(), ConfigError> {
    let lists = [
        (Row::LocalForward, &mut options.forwarding.local_forwards),
        (Row::RemoteForward, &mut options.forwarding.remote_forwards),
        (
            Row::DynamicForward,
            &mut options.forwarding.dynamic_forwards,
        ),
    ];
    for (row, specs) in lists {
        let keyword = row.name();
        let mut has_paths = false;
        for spec in specs.iter_mut() {
            let listen = match &mut spec.listen {
                ForwardListen::Unix(path) => Some(path),
                ForwardListen::Tcp { .. } | ForwardListen::Udp { .. } => None,
            };
            let to = match &mut spec.to {
                ForwardTo::Unix(path) => Some(path),
                ForwardTo::Tcp { .. } | ForwardTo::Udp { .. } | ForwardTo::Socks => None,
            };
            for path in [listen, to].into_iter().flatten() {
                *path = expander.forwarded_path(keyword, path, command_line)?;
                has_paths = true;
            }
        }
        if has_paths && row != Row::DynamicForward {
            values.put(row.index(), Value::Forwards(specs.clone()));
        }
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
    if has_command && values.get(Row::SessionType.index()) != Some(SessionType::Subsystem) {
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

fn identity_agent(
    values: &mut Values,
    expander: &Expander<'_>,
) -> Result<IdentityAgent, ConfigError> {
    Ok(match values.get(Row::IdentityAgent.index()) {
        None | Some(AgentName::Usual(_)) => IdentityAgent::FromEnvironment,
        Some(AgentName::None(_)) => IdentityAgent::None,
        Some(AgentName::Socket(socket)) => {
            let path = expand_socket(Row::IdentityAgent, socket, values, expander)?;
            path.map_or(IdentityAgent::None, IdentityAgent::Socket)
        }
    })
}

fn forward_agent(
    values: &mut Values,
    expander: &Expander<'_>,
) -> Result<ForwardAgent, ConfigError> {
    Ok(match values.get(Row::ForwardAgent.index()) {
        None | Some(AgentName::None(_)) => ForwardAgent::No,
        Some(AgentName::Usual(_)) => ForwardAgent::Yes,
        Some(AgentName::Socket(socket)) => {
            let path = expand_socket(Row::ForwardAgent, socket, values, expander)?;
            path.map_or(ForwardAgent::No, ForwardAgent::Socket)
        }
    })
}

/// The path of an agent's socket, expanded, also for the dump unless a variable holds it; `None` if
/// the variable is not set.
fn expand_socket(
    row: Row,
    socket: NameOrVariable,
    values: &mut Values,
    expander: &Expander<'_>,
) -> Result<Option<String>, ConfigError> {
    match socket {
        NameOrVariable::Variable(name) => {
            let path = expander.environment.variable(&name);
            Ok(path.filter(|path| !path.is_empty()))
        }
        NameOrVariable::Name(template) => {
            let path = expander.path(row.name(), &template)?;
            let shown = AgentName::Socket(NameOrVariable::Name(path.clone()));
            values.put(row.index(), Value::Agent(shown));
            Ok(Some(path))
        }
    }
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

fn proxy(values: &Values, tokens: &Tokens) -> Result<Proxy, ConfigError> {
    let hops = jumps(values);
    if !hops.is_empty() {
        let tokens = tokens.only("hnpr");
        let last = hops.len() - 1;
        let hops = hops.iter().enumerate();
        let hops = hops.map(|(index, hop)| expand_hop(hop, index == last, &tokens));
        return hops.collect::<Result<_, _>>().map(Proxy::Jump);
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

/// Expands the values of `SetEnv`.
fn set_env(values: &mut Values, expander: &Expander<'_>) -> Result<(), ConfigError> {
    let Some(Value::Variables(written)) = values.at(Row::SetEnv.index()) else {
        return Ok(());
    };
    let mut variables = written.clone();
    for variable in &mut variables {
        variable.value = expander.plain("SetEnv", &variable.value)?;
    }
    values.put(Row::SetEnv.index(), Value::Variables(variables));
    Ok(())
}

/// A hop with the tokens of its user and host expanded.
fn expand_hop(hop: &JumpHost, is_last: bool, tokens: &Tokens) -> Result<JumpHost, ConfigError> {
    let expand = |template: &String| {
        tokens
            .expand(template, Purpose::Plain)
            .map_err(|error| refused("ProxyJump", &error))
    };
    let hop = JumpHost {
        user: hop.user.as_ref().map(expand).transpose()?,
        host: expand(&hop.host)?,
        port: hop.port,
    };
    match destination::is_safe_hop(&hop, is_last) {
        true => Ok(hop),
        false => Err(ConfigError::Refused(format!(
            "Invalid ProxyJump \"{}\"",
            escape::one_line(hop.to_string())
        ))),
    }
}

/// Smallest RSA key accepted, bits, whatever `RequiredRSASize` says, as in OpenSSH.
const LEAST_RSA_BITS: u32 = 1024;

impl ClientOptions {
    /// Frees what only [`ClientOptions::dump`] and the report of warnings read: they show nothing
    /// afterwards.
    pub fn forget_words(&mut self) {
        self.values = Values::empty(0);
        self.warnings = Vec::new();
    }

    /// The options as `ssh -G` prints them.
    pub fn dump(&self) -> String {
        format!(
            "host {}\n{}",
            self.host_argument,
            printing::dump(CLIENT_TABLE, &self.values, Letters::Lower)
        )
    }
}
