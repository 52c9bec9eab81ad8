//! The program `ssh`: flags, configuration, login, session, exit code.

use std::sync::Arc;

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::path::Path;

use config::client::{ClientConfig, ClientOptions, CommandLine, SessionType};
use config::error::{Severity, Warning};
use config::tokens;
use config::{Environment, SystemFiles};

use sys::syslog::{Facility, Syslog};

use crate::accelerate;
use crate::auth::identity::Keys;
use crate::connect;
use crate::connection::OneConnection;
use crate::error::ClientError;
use crate::flags::{self, Action, FlagError, Flags, MasterCommand, SessionRequest, Setting, query};
use crate::interaction::Interaction;
use crate::jumps;
use crate::local::Here;
use crate::log::{self, debug1, fatal, info};
use crate::pipelining::Caution;
use crate::prompt::Prompter;
use crate::proxy_mode;
use crate::session::{AnyLocalEnd, FAILURE, LocalEnd, Plan, What};
use crate::sharing::passenger::{self, Boarding, KeptPlace, Ride};
use crate::sharing::socket;
use crate::x11::X11Plan;

/// The version line that `-V` prints.
pub const VERSION: &str = concat!("Fulmar_", env!("CARGO_PKG_VERSION"));

/// Runs `ssh` with the arguments that follow the program's name and returns the exit code for the
/// process.
///
/// The descriptors 0, 1 and 2 must be open, or the connection's socket would take the number of one
/// of them, and SIGPIPE must be ignored. Fulmar's binary and the Rust runtime ensure both.
#[must_use]
pub fn ssh_main(args: Vec<OsString>) -> i32 {
    let flags = match flags::parse(args) {
        Ok(flags) => flags,
        Err(reason) => return refused(&reason),
    };
    match &flags.action {
        Action::Version => {
            log::tell(&format!("{}\n", ::flags::VERSION));
            0
        }
        Action::Query(what) => query::print(what),
        Action::PrintConfig | Action::ListKeys | Action::Connect => {
            exit_code(run(&flags, None, None))
        }
    }
}

/// Runs one session as `ssh` does, on this thread, with `local` in place of standard input and
/// output. Questions, messages and exit code equal those of `ssh`.
///
/// Meant for a program whose purpose is its connections (`scp`, `sftp`): messages go to the
/// destination that its first connection sets, and SIGPIPE must be ignored. Each connection sets
/// its own `LogLevel`, which is kept per thread: call this on a thread of its own.
#[must_use]
pub fn ssh_with(request: SessionRequest, local: &mut AnyLocalEnd) -> i32 {
    log::own_level();
    match request.into_flags() {
        Ok(flags) => exit_code(run(&flags, Some(local), None)),
        Err(reason) => refused(&reason),
    }
}

/// The conditions of one session among many of one program.
#[derive(Debug, Clone, Copy)]
pub struct SessionTerms {
    /// Time limit, milliseconds, of each step up to the login: the connection, the exchange of keys
    /// and each answer of the login. `None` for those of the options alone.
    pub step_timeout_ms: Option<u64>,
    /// False for more servers than the login cache keeps: their profiles are read, and only that a
    /// server needs care is stored.
    pub stores_profiles: bool,
    /// Number of connections of the program at once, which share `WindowMemory`.
    pub sharers: u64,
}

/// Runs one session as [`ssh_with`] does, one of many of this program: `interaction` answers its
/// questions, except in batch mode, and the caller reports the error. The connection is one of its own,
/// without a master. The memory of the process is not trimmed for it.
///
/// # Errors
/// [`ClientError`]; nothing has been said of it but what led to it.
pub fn session_with(
    request: SessionRequest,
    terms: SessionTerms,
    local: &mut AnyLocalEnd,
    interaction: &mut dyn Interaction,
) -> Result<i32, ClientError> {
    log::own_level();
    let flags = request
        .into_flags()
        .map_err(|reason| ClientError::Refused(reason.to_string().trim_end().to_owned()))?;
    let among_many = AmongMany { terms, interaction };
    run(&flags, Some(local), Some(among_many))
}

/// The caller of [`session_with`].
struct AmongMany<'a> {
    terms: SessionTerms,
    interaction: &'a mut dyn Interaction,
}

fn refused(reason: &FlagError) -> i32 {
    log::tell(&format!("{}\n", reason.to_string().trim_end()));
    FAILURE
}

/// Logs the error, if there is one, and returns the exit code.
fn exit_code(outcome: Result<i32, ClientError>) -> i32 {
    match outcome {
        Ok(code) => code,
        Err(ClientError::Said) => FAILURE,
        Err(reason) => {
            report(&reason);
            FAILURE
        }
    }
}

/// Tells why the program ends.
fn report(reason: &ClientError) {
    let text = reason.to_string();
    let Some(level) = reason.level() else {
        log::tell(&format!("{text}\n"));
        if let ClientError::Ended {
            host,
            had_terminal: true,
            ..
        } = reason
        {
            info!("Connection to {} closed.", crate::text::one_line(host));
        }
        return;
    };
    match (reason, text.split_once('\n')) {
        (ClientError::Handshake { .. } | ClientError::Lost { .. }, Some((first, others))) => {
            log::write(level, format_args!("{first}"));
            info!("{others}");
        }
        _ => log::write(level, format_args!("{text}")),
    }
}

fn run(
    flags: &Flags,
    local: Option<&mut AnyLocalEnd>,
    among_many: Option<AmongMany<'_>>,
) -> Result<i32, ClientError> {
    if let Some(level) = flags.level {
        log::set_level(level);
    }
    if let Some(path) = &flags.log_file {
        match OpenOptions::new().append(true).create(true).open(path) {
            Ok(file) => log::set_file(file),
            Err(reason) => {
                let path = crate::text::one_line(path);
                fatal!("Couldn't open logfile {path}: {reason}");
                // OpenSSH's status for it.
                return Ok(1);
            }
        }
    }
    debug1!("{VERSION}");
    let here = Here::default();
    let config = configuration(flags, &here);
    let mut options = resolve(flags, &config, &here)?;
    if flags.action == Action::PrintConfig {
        warn(&options);
        return Ok(write_out(&options.dump()));
    }
    log::set_level(options.logging.log_level);
    log::force(&options.logging.log_verbose);
    if flags.syslog {
        let facility =
            Facility::from_name(options.logging.syslog_facility.word()).unwrap_or(Facility::User);
        log::set_syslog(Syslog::open("ssh", facility));
    }
    warn(&options);
    // The process that started this one as a proxy has checked the jumps already.
    if jumps::depth() == 0 {
        jumps::refuse_loops(&options.connection, &config, &here)?;
    }
    if let Some(command) = flags.sharing.filter(|each| *each != MasterCommand::Proxy) {
        return passenger::command(command, &options);
    }
    drop(config);
    if flags.action == Action::ListKeys {
        let lines = Keys::find(&options).lines(&options);
        return Ok(write_out(&lines.concat()));
    }
    let sharers = match (&among_many, local.as_deref()) {
        (Some(many), _) => many.terms.sharers,
        (None, Some(local)) => local.sharers(),
        (None, None) => 1,
    };
    share_memory(&mut options, sharers);
    if let Some(many) = &among_many {
        limit_step(&mut options, many.terms.step_timeout_ms);
        // One of thousands keeps only what it reads.
        options.forget_words();
    }
    connect_and_run(flags, &options, local, among_many)
}

/// Writes to standard output and returns the exit code.
fn write_out(text: &str) -> i32 {
    match sys::io::write_all(sys::io::stdout(), text.as_bytes()) {
        Ok(()) => 0,
        Err(_) => FAILURE,
    }
}

/// The configuration files that the command line selects.
#[inline(never)]
fn configuration(flags: &Flags, here: &Here) -> ClientConfig {
    let user = here.local_user();
    let home = Path::new(&user.home);
    let config = match &flags.config_file {
        Some(file) => ClientConfig::from_file(Path::new(file), home),
        None => ClientConfig::standard(home),
    };
    config
        .with_files(SystemFiles {
            uid: Some(user.uid),
        })
        .with_aes_hardware(crypto::arch::has_fast_aes())
}

/// Resolves the settings of the command line and the files, and checks them.
#[inline(never)]
fn resolve(
    flags: &Flags,
    config: &ClientConfig,
    here: &Here,
) -> Result<ClientOptions, ClientError> {
    let Some(destination) = &flags.destination else {
        return Err(ClientError::Refused(flags::USAGE.to_owned()));
    };
    let mut line = CommandLine::new();
    line.only_prints = flags.action == Action::PrintConfig;
    line.forwards_stdio = flags.stdio_forward.is_some();
    if let Some(level) = flags.level {
        line.set("LogLevel", level.name());
    }
    for setting in &flags.settings {
        match setting {
            Setting::Line(text) => line.option(text.clone()),
            Setting::Keyword(keyword, value) => line.set(keyword, value.clone()),
            Setting::Words(keyword, words) => line.set_words(keyword, words.clone()),
            Setting::Identity(path) if is_accessible(path, here) => {
                line.set("IdentityFile", path.clone());
            }
            // As OpenSSH: the default keys are still tried.
            Setting::Identity(_) => {}
        }
    }
    line.command = flags
        .command
        .as_ref()
        .map(|command| String::from_utf8_lossy(command).into_owned());
    let options = config
        .resolve(&destination.host, &line, here)
        .map_err(|reason| ClientError::Refused(reason.to_string()))?;
    jumps::refuse_own_host(&options)?;
    let has_command = line.command.is_some_and(|command| !command.is_empty());
    if options.session.fork_after_authentication
        && options.session.session_type != SessionType::None
        && options.session.remote_command.is_none()
        && !has_command
    {
        return Err(ClientError::Refused(
            "Cannot fork into background without a command to execute.".to_owned(),
        ));
    }
    Ok(options)
}

/// True if the file of `-i` can be accessed; logs a warning if not.
fn is_accessible(path: &str, here: &Here) -> bool {
    let expanded = match tokens::expand_tilde(path, here) {
        Ok(expanded) => expanded,
        // Resolving the option reports the error.
        Err(_) => return true,
    };
    match std::fs::metadata(&expanded) {
        Ok(_) => true,
        Err(reason) => {
            info!(
                "Warning: Identity file {} not accessible: {}.",
                crate::text::one_line(&expanded),
                connect::plain_reason(&reason)
            );
            false
        }
    }
}

/// Reports keywords that are accepted but not carried out: one line for all keywords of the files
/// that a later version will implement. Those of the command line are logged only with `-v`,
/// because programs that pass them (Ansible does) take text on standard error for part of the
/// answer.
fn warn(options: &ClientOptions) {
    let mut later: Vec<&Warning> = Vec::new();
    for warning in &options.warnings {
        match warning.severity {
            Severity::Notice => log::info_once(&warning.to_string()),
            Severity::Later if warning.place.is_file() => later.push(warning),
            Severity::Later | Severity::Debug => debug1!("{warning}"),
        }
    }
    // The process that started this one as a proxy reads the same files.
    if jumps::depth() == 0
        && let Some(text) = later_keywords(&later)
    {
        log::info_once(&text);
    }
}

/// One line that names the keywords of all `later` warnings.
fn later_keywords(later: &[&Warning]) -> Option<String> {
    let (first, others) = later.split_first()?;
    if others.is_empty() {
        return Some(first.to_string());
    }
    let keyword = |warning: &&Warning| warning.text.split(' ').next().map(str::to_owned);
    let keywords: Vec<String> = later.iter().filter_map(keyword).collect();
    Some(format!(
        "{}: {} are not supported yet; ignored",
        first.place,
        keywords.join(", ")
    ))
}

/// Least share of `WindowMemory`, in bytes, for one of several connections: the initial window and
/// as much for growth.
const LEAST_SHARE_BYTES: u64 = 4 << 20;

/// Divides `WindowMemory` by `sharers`, the number of connections that share it.
fn share_memory(options: &mut ClientOptions, sharers: u64) {
    let all = options.limits.window_memory_bytes;
    if sharers > 1 {
        options.limits.window_memory_bytes = (all / sharers).max(LEAST_SHARE_BYTES.min(all));
    }
}

/// Lowers `ConnectTimeout` to `limit_ms`, in whole seconds, rounded up; `None` changes nothing.
fn limit_step(options: &mut ClientOptions, limit_ms: Option<u64>) {
    let Some(limit_ms) = limit_ms else { return };
    let seconds = u32::try_from(limit_ms.div_ceil(1000)).unwrap_or(u32::MAX);
    let configured = options.connection.connect_timeout_s;
    options.connection.connect_timeout_s = Some(configured.map_or(seconds, |own| own.min(seconds)));
}

/// Uses the connection of a master, if the options name its socket. Otherwise returns the socket at
/// which this process may listen: that of the first connection that is not there; none if all are
/// full.
#[inline(never)]
fn ride(options: &ClientOptions, plan: &Plan) -> Result<Boarded, ClientError> {
    let connection = &options.connection;
    let mut kept = None;
    let not = |place, kept| Ok(Boarded::Not { place, kept });
    let Some(path) = connection.control_path.as_deref() else {
        return not(None, kept);
    };
    socket::check_length(path)?;
    if !connection.control_master.uses_master() {
        return not(Some(path.to_owned()), kept);
    }
    let pool = passenger::pool(path, options);
    let has_one = pool.len() == 1;
    for path in pool {
        socket::check_length(&path)?;
        let boarding = match kept {
            None => Boarding::Found,
            Some(_) => Boarding::FoundNext,
        };
        match passenger::ride(&path, options, plan, boarding)? {
            Ride::Arrived(code) => return Ok(Boarded::Arrived(code)),
            Ride::PassedOver => return not(Some(path), kept),
            Ride::Full(place) => kept = kept.or(place),
        }
        if has_one {
            return not(Some(path), kept);
        }
        debug1!("the connection of {path} is full");
    }
    not(None, kept)
}

/// The result of an attempt to use the connection of a master.
enum Boarded {
    /// The session has ended with this exit code.
    Arrived(i32),
    /// This process logs in.
    Not {
        /// It may listen at this path.
        place: Option<String>,
        /// Its forwardings are with this master, and are not to be made again.
        kept: Option<KeptPlace>,
    },
}

/// The options of a process that logs in beside masters, and may listen at `place`. `are_kept`: a master
/// has its forwardings.
#[inline(never)]
fn beside(options: &ClientOptions, place: Option<String>, are_kept: bool) -> Box<ClientOptions> {
    let mut own = Box::new(options.clone());
    own.connection.control_path = place;
    if are_kept {
        let forwarding = &mut own.forwarding;
        forwarding.local_forwards.clear();
        forwarding.dynamic_forwards.clear();
        forwarding.remote_forwards.clear();
    }
    own
}

/// Not inlined, like the steps below it: the stack stays small while the session waits.
#[inline(never)]
fn connect_and_run(
    flags: &Flags,
    options: &ClientOptions,
    mut local: Option<&mut AnyLocalEnd>,
    among_many: Option<AmongMany<'_>>,
) -> Result<i32, ClientError> {
    let step_timeout_ms = among_many
        .as_ref()
        .and_then(|many| many.terms.step_timeout_ms);
    let is_alone = among_many.is_none();
    let stores_profile = among_many
        .as_ref()
        .is_none_or(|many| many.terms.stores_profiles);
    let mut plan = Plan::decide(
        &options.session,
        flags.command.clone(),
        flags.stdio_forward.clone(),
    )
    .map_err(ClientError::Refused)?;
    plan.ends_here = local.is_some();
    plan.sends_nothing = local.as_deref().is_some_and(LocalEnd::has_no_input);
    if plan.ends_here && plan.what == What::Nothing {
        return Err(ClientError::Refused(
            "SessionType none: this needs a session; set it to another for this host".into(),
        ));
    }
    if flags.sharing == Some(MasterCommand::Proxy) {
        plan.agent = crate::forward::agent::socket(options)?;
        plan.x11 = X11Plan::prepare(options);
        let mut prompter = Prompter::for_login(options);
        return proxy_mode::run(options, &plan, &mut prompter);
    }
    plan.is_shared = local.is_none()
        && options.connection.control_master.listens()
        && options.connection.control_path.is_some();
    if let Some(local) = local.as_deref_mut() {
        // Several connections are for more speed than one has.
        if is_alone && local.sharers() <= 1 {
            let mut prompter = Prompter::for_login(options);
            if let Some(code) = proxy_mode::ride(options, &plan, local, &mut prompter)? {
                return Ok(code);
            }
        }
    }
    let own_options;
    let mut options = options;
    let mut kept = None;
    if local.is_none() {
        let place;
        (place, kept) = match ride(options, &plan)? {
            Boarded::Arrived(code) => return Ok(code),
            Boarded::Not { place, kept } => (place, kept),
        };
        if kept.is_some() || place != options.connection.control_path {
            plan.is_shared &= place.is_some();
            own_options = beside(options, place, kept.is_some());
            options = &own_options;
        }
    }
    if plan.is_shared || !matches!(plan.what, What::Nothing | What::Forward(_)) {
        plan.agent = crate::forward::agent::socket(options)?;
        plan.x11 = X11Plan::prepare(options).filter(|_| !plan.ends_here);
    }
    let turns = local.as_deref().and_then(|local| local.turns());
    let batch_mode = options.authentication.batch_mode;
    let mut prompter = Prompter::for_login(options).in_turn(turns);
    let interaction: &mut dyn Interaction = match among_many {
        Some(many) if !batch_mode => many.interaction,
        _ => &mut prompter,
    };
    let accelerator = accelerate::open(options)?.map(Arc::new);
    let accelerator = accelerator.as_ref();
    let one = OneConnection {
        flags,
        options,
        plan: &plan,
        accelerator,
        caution: Caution::None,
        is_alone,
        step_timeout_ms,
        stores_profile,
        kept: kept.as_ref(),
    };
    one.run_with_retries(local, interaction)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_of_one_copy_share_the_memory_of_their_windows() {
        let with = |memory: &str| {
            let mut line = CommandLine::new();
            line.option(format!("WindowMemory={memory}"));
            ClientConfig::none(Path::new("/nonexistent"))
                .resolve("host", &line, &Here::default())
                .unwrap()
        };
        let each = |memory, sharers| {
            let mut options = with(memory);
            share_memory(&mut options, sharers);
            options.limits.window_memory_bytes
        };
        assert_eq!(each("256M", 1), 256 << 20);
        assert_eq!(each("256M", 4), 64 << 20);
        // At least the initial window, and never more than a single connection would have.
        assert_eq!(each("16M", 8), 4 << 20);
        assert_eq!(each("1M", 8), 1 << 20);
    }
}
