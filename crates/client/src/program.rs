//! The program `ssh`: flags, configuration, login, session, exit code.

use std::sync::Arc;

use accelerator::Accelerator;
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::path::Path;

use config::client::{ClientConfig, ClientOptions, CommandLine, SessionType};
use config::error::{Severity, Warning};
use config::tokens::{self, Purpose};
use config::{Environment, SystemFiles};

use driver::DriverError;
use sys::syslog::{Facility, Syslog};

use crate::accelerate;
use crate::auth::ahead::{self, Ahead};
use crate::auth::identity::Keys;
use crate::error::ClientError;
use crate::flags::{self, Action, Flags, Setting, query};
use crate::host_key::HostKeyChecker;
use crate::interaction::Interaction;
use crate::jumps;
use crate::local::{self, Here};
use crate::log::{self, debug1, error, fatal, info};
use crate::login_cache::LoginCache;
use crate::prompt::Prompter;
use crate::session::{
    AnyLocalEnd, FAILURE, LocalEnd, Plan, Reach, Session, StdioFlags, Streams, What,
};
use crate::{connect, login, login::LoginOpening};

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
        Err(reason) => {
            log::tell(&format!("{}\n", reason.to_string().trim_end()));
            return FAILURE;
        }
    };
    match &flags.action {
        Action::Version => {
            log::tell(&format!("{VERSION}\n"));
            0
        }
        Action::Query(what) => query::print(what),
        Action::PrintConfig | Action::Connect => exit_code(run(&flags, None)),
    }
}

/// Runs one session as `ssh` does with these arguments, on this thread, with `local` in place of
/// standard input and output. Questions, messages and exit code equal those of `ssh`.
///
/// Meant for a program whose purpose is its connections (`scp`, `sftp`): messages go to the
/// destination that its first connection sets, and SIGPIPE must be ignored. Each connection sets
/// its own `LogLevel`, which is kept per thread: call this on a thread of its own.
#[must_use]
pub fn ssh_with(args: Vec<OsString>, local: &mut AnyLocalEnd) -> i32 {
    log::own_level();
    match flags::parse(args) {
        Ok(flags) if flags.action == Action::Connect => exit_code(run(&flags, Some(local))),
        Ok(_) => exit_code(Err(ClientError::Refused(flags::USAGE.to_owned()))),
        Err(reason) => {
            log::tell(&format!("{}\n", reason.to_string().trim_end()));
            FAILURE
        }
    }
}

/// Logs the error, if there is one, and returns the exit code.
fn exit_code(outcome: Result<i32, ClientError>) -> i32 {
    match outcome {
        Ok(code) => code,
        Err(ClientError::Said) => FAILURE,
        Err(reason) => {
            fatal!("{reason}");
            FAILURE
        }
    }
}

fn run(flags: &Flags, local: Option<&mut AnyLocalEnd>) -> Result<i32, ClientError> {
    if let Some(level) = flags.level {
        log::set_level(level);
    }
    if let Some(path) = &flags.log_file {
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .open(path)
            .map_err(|reason| {
                ClientError::Refused(format!("Couldn't open logfile {path}: {reason}"))
            })?;
        log::set_file(file);
    }
    debug1!("{VERSION}");
    let here = Here::default();
    let config = configuration(flags, &here);
    let options = resolve(flags, &config, &here)?;
    if flags.action == Action::PrintConfig {
        warn(flags, &options);
        let text = options.dump();
        return match sys::io::write_all(sys::io::stdout(), text.as_bytes()) {
            Ok(()) => Ok(0),
            Err(_) => Ok(FAILURE),
        };
    }
    log::set_level(options.log_level);
    if flags.syslog {
        let facility =
            Facility::from_name(options.syslog_facility.word()).unwrap_or(Facility::User);
        log::set_syslog(Syslog::open("ssh", facility));
    }
    warn(flags, &options);
    // The process that started this one as a proxy has checked the jumps already.
    if jumps::depth() == 0 {
        jumps::refuse_loops(&options, &config, &here)?;
    }
    connect_and_run(flags, &options, local)
}

/// The configuration files that the command line selects.
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
    if options.fork_after_authentication
        && options.session_type != SessionType::None
        && options.remote_command.is_none()
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
fn warn(flags: &Flags, options: &ClientOptions) {
    for text in &flags.unheeded {
        log::info_once(text);
    }
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

/// How much of the login is sent before the server's answers arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LoginStrategy {
    /// Everything that the server is known to accept.
    Fast,
    /// As `Fast`, without the guessed key exchange packet.
    WithoutGuess,
    /// Nothing: each step waits for the server's answer.
    Careful,
}

/// The options with `WindowMemory` divided by `sharers`; `None` if there is one connection only.
fn sharing(options: &ClientOptions, sharers: u64) -> Option<ClientOptions> {
    let all = options.window_memory_bytes;
    (sharers > 1).then(|| {
        let mut options = options.clone();
        options.window_memory_bytes = (all / sharers).max(LEAST_SHARE_BYTES.min(all));
        options
    })
}

fn connect_and_run(
    flags: &Flags,
    options: &ClientOptions,
    mut local: Option<&mut AnyLocalEnd>,
) -> Result<i32, ClientError> {
    let shared = local
        .as_deref()
        .and_then(|local| sharing(options, local.sharers()));
    let options = shared.as_ref().unwrap_or(options);
    let mut plan = Plan::decide(options, flags.command.clone(), flags.stdio_forward.clone())
        .map_err(ClientError::Refused)?;
    plan.ends_here = local.is_some();
    if plan.ends_here && plan.what == What::Nothing {
        return Err(ClientError::Refused(
            "SessionType none: a copy needs a session; set it to another for this host".into(),
        ));
    }
    let turns = local.as_deref().and_then(|local| local.turns());
    let mut prompter = Prompter::new(options.batch_mode).in_turn(turns);
    let accelerator = accelerate::open(options)?.map(Arc::new);
    let accelerator = accelerator.as_ref();
    let mut strategy = LoginStrategy::Fast;
    let mut before = None;
    loop {
        let local = local.as_deref_mut();
        let attempted = attempt(
            flags,
            options,
            (&plan, local),
            strategy,
            accelerator,
            &mut prompter,
        );
        let (again, why) = match attempted {
            Err(ClientError::Guess(why)) => (LoginStrategy::WithoutGuess, why),
            Err(ClientError::Ahead(why)) => (LoginStrategy::Careful, why),
            // The server cannot be reached any more: the earlier attempt's error explains why.
            Err(error @ (ClientError::Connect { .. } | ClientError::Resolve { .. })) => {
                return Err(before.map_or(error, |before: Box<ClientError>| *before));
            }
            outcome => return outcome,
        };
        debug1!(
            "{}",
            crate::text::one_line(&why.to_string().replace('\n', "; "))
        );
        debug1!("Pipelined messages may be the cause: trying again with fewer of them");
        strategy = again;
        before = Some(why);
    }
}

/// One connection, from its first byte to its last.
fn attempt(
    flags: &Flags,
    options: &ClientOptions,
    (plan, mut local): (&Plan, Option<&mut AnyLocalEnd>),
    strategy: LoginStrategy,
    accelerator: Option<&Arc<Accelerator>>,
    prompter: &mut dyn Interaction,
) -> Result<i32, ClientError> {
    let dialing = connect::begin(options, flags.config_file.as_deref())?;
    let mut checker = HostKeyChecker::new(options);
    let mut cache = LoginCache::open(options);
    let learnt = cache.as_ref().and_then(LoginCache::learnt);
    if strategy != LoginStrategy::Careful
        && ahead::is_wanted(options, learnt)
        && learnt.is_some_and(|learnt| ahead::is_fulmar(&learnt.version))
        && let Some(local) = local.as_deref_mut()
    {
        local.expects_fulmar();
    }
    let (streams, peer, mut proxy) = login::split(dialing.finish()?);
    let outcome = serve(
        (streams, peer),
        options,
        (plan, local),
        strategy,
        accelerator,
        (&mut checker, cache.as_mut()),
        prompter,
    );
    if let Some(child) = &mut proxy {
        connect::proxy::stop(child);
    }
    outcome
}

/// The descriptor to read from and, if it differs, the one to write to.
type Link = (std::os::fd::OwnedFd, Option<std::os::fd::OwnedFd>);

fn serve(
    (streams, peer): (Link, crate::error::Peer),
    options: &ClientOptions,
    (plan, mut local): (&Plan, Option<&mut AnyLocalEnd>),
    strategy: LoginStrategy,
    accelerator: Option<&Arc<Accelerator>>,
    (checker, mut cache): (&mut HostKeyChecker, Option<&mut LoginCache>),
    prompter: &mut dyn Interaction,
) -> Result<i32, ClientError> {
    let learnt = cache.as_deref().and_then(LoginCache::learnt).cloned();
    let guess = learnt.as_ref().filter(|_| strategy == LoginStrategy::Fast);
    let opening = LoginOpening::from_options(options, &peer, checker);
    let greeted = opening.send(streams, peer, guess)?;
    // Finding keys overlaps with the server's answer.
    let keys = Keys::find(options);
    let step_by_step =
        strategy == LoginStrategy::Careful || !ahead::is_wanted(options, learnt.as_ref());
    let mut on_version = |version: &str| {
        if !step_by_step
            && ahead::is_fulmar(version)
            && let Some(local) = local.as_deref_mut()
        {
            local.expects_fulmar();
        }
    };
    let mut secured = greeted.secure(step_by_step, checker, prompter, &mut on_version)?;
    // A cached profile of another server, or of another version of this one, no longer applies.
    let version = secured
        .driver
        .connection()
        .peer_version()
        .map(str::to_owned);
    let learnt = learnt.filter(|learnt| Some(&learnt.version) == version.as_ref());
    let data = local
        .as_deref_mut()
        .filter(|_| !step_by_step)
        .map(LocalEnd::early);
    let pipelining = (!step_by_step).then_some(Ahead {
        plan,
        learnt: learnt.as_ref(),
        data: data.as_deref().unwrap_or_default(),
    });
    let logged_in = login::authenticate(&mut secured, options, keys, pipelining.as_ref(), prompter);
    let logged_in = match logged_in {
        Ok(logged_in) => logged_in,
        Err(ClientError::Unanswered(why)) => {
            // The command may have run and must not be sent again; the next login sends none early.
            if let Some(cache) = cache {
                cache.learn(secured.lesson(None, true));
            }
            return Err(*why);
        }
        Err(error) => return Err(error),
    };
    let careful =
        strategy == LoginStrategy::Careful || learnt.as_ref().is_some_and(|learnt| learnt.careful);
    connect::set_quality(secured.driver.socket(), options, plan.pty.is_some());
    local_command(options)?;
    let (flags, locals) = match &local {
        Some(_) => (None, Streams::default()),
        None => {
            let flags = StdioFlags::remember();
            let streams = Streams::standard().map_err(ClientError::system("dup"))?;
            (Some(flags), streams)
        }
    };
    // A program that is the session's local end leaves no terminal.
    let leaves = options.fork_after_authentication && local.is_none();
    if leaves && !matches!(plan.what, What::Forward { .. }) {
        go_to_background()?;
    }
    // Nothing is cached for a server whose changed host key was let through.
    cache = cache.filter(|_| !secured.without_secrets);
    if let Some(cache) = cache.as_deref_mut() {
        cache.learn(secured.lesson(logged_in.key.clone(), careful));
    }
    let connection = secured.driver.connection();
    if let (Some(accelerator), Some(compressor)) = (accelerator, connection.compressor()) {
        compressor.set_provider(Arc::<Accelerator>::clone(accelerator));
    }
    login::announce_compression(options, connection);
    // The process ends next and the system frees everything at once, so destructors are skipped.
    // They run where a proxy or a compression helper waits for its descriptor to close.
    let ends_with_process =
        local.is_none() && secured.peer.address.is_some() && accelerator.is_none();
    let peer = secured.peer.clone();
    let starts_at_once =
        !step_by_step && ahead::reads_on(options, version.as_deref().unwrap_or_default());
    let mut session = Session::new(&mut secured.driver, plan.clone(), locals, peer, prompter)
        .with_local_end(local)
        .with_early(logged_in.early)
        .starting_at_once(starts_at_once);
    session.rotate_host_keys(checker, options.update_host_keys);
    let outcome = session.run();
    let unconfirmed = session.unconfirmed();
    drop(session);
    drop(flags);
    debug1!("crypto threads: {}", secured.driver.lane_report());
    login::tell_compression(&mut secured.driver);
    match outcome {
        Err(error @ (ClientError::Lost { .. } | ClientError::Closed(_)))
            if unconfirmed > Reach::Nothing =>
        {
            // No command runs on an unconfirmed channel. That the channel was not confirmed is
            // certain only if the server itself disconnects, because an attacker cannot drop its
            // packets unnoticed.
            let said = matches!(
                &error,
                ClientError::Lost {
                    error: DriverError::Proto(proto::Error::Disconnected { .. }),
                    ..
                }
            );
            let nothing_ran = unconfirmed < Reach::Whole || said;
            // The local command and the change to the background happen at most once.
            let repeatable = options.local_command.is_none() && !leaves;
            if nothing_ran && repeatable {
                return Err(ClientError::Ahead(Box::new(error)));
            }
            // The command may have run and must not be sent again; the next login sends none early.
            if let Some(cache) = cache {
                cache.learn(secured.lesson(logged_in.key, true));
            }
            Err(error)
        }
        Err(error @ (ClientError::Lost { .. } | ClientError::Closed(_))) => Err(error),
        outcome => {
            login::disconnect(&mut secured.driver);
            if ends_with_process {
                core::mem::forget(secured);
            }
            outcome
        }
    }
}

/// Runs `LocalCommand`, if `PermitLocalCommand` allows it.
fn local_command(options: &ClientOptions) -> Result<(), ClientError> {
    let Some(template) = &options.local_command else {
        return Ok(());
    };
    // No tunnel device is ever opened.
    let command = options
        .tokens
        .clone()
        .with('T', "NONE")
        .expand(template, Purpose::Shell)
        .map_err(|reason| ClientError::Refused(format!("LocalCommand: {reason}")))?;
    debug1!(
        "Executing local command: {}",
        crate::text::one_line(&command)
    );
    if let Err(reason) = local::run_in_shell(&command) {
        error!("LocalCommand did not start: {reason}");
    }
    Ok(())
}

/// `-f`: the parent process ends with 0 here; standard error stays open for later errors.
fn go_to_background() -> Result<(), ClientError> {
    debug1!("forking to background");
    sys::process::daemonize().map_err(ClientError::system("fork to the background"))
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
            sharing(&with(memory), sharers).map(|options| options.window_memory_bytes)
        };
        assert_eq!(each("256M", 1), None);
        assert_eq!(each("256M", 4), Some(64 << 20));
        // At least the initial window, and never more than a single connection would have.
        assert_eq!(each("16M", 8), Some(4 << 20));
        assert_eq!(each("1M", 8), Some(1 << 20));
    }
}
