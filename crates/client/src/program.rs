//! The program `ssh`: flags, configuration, login, session, exit code.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::path::Path;

use config::client::{ClientConfig, ClientOptions, CommandLine};
use config::error::Severity;
use config::tokens::Purpose;
use config::{Environment, SystemFiles};

use sys::syslog::{Facility, Syslog};

use crate::error::ClientError;
use crate::flags::{self, Action, Flags, Setting, destination, query};
use crate::host_key::HostKeyChecker;
use crate::interaction::Interaction;
use crate::local::{self, Here};
use crate::log::{self, Level, debug1, error, info};
use crate::prompt::Person;
use crate::session::{FAILURE, Plan, Session, StdioFlags, Streams, What};
use crate::{connect, login};

/// Our version as `-V` prints it.
pub const VERSION: &str = concat!("Fulmar_", env!("CARGO_PKG_VERSION"));

/// Runs `ssh` with the arguments after the program's name and gives its exit code.
#[must_use]
pub fn ssh_main(args: Vec<OsString>) -> i32 {
    // A closed descriptor 0, 1 or 2 would be taken by the connection's socket.
    if sys::io::ensure_stdio().is_err() {
        return FAILURE;
    }
    let _ = sys::signals::ignore(sys::signals::Signal::PIPE);
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
        Action::PrintConfig | Action::Connect => match run(&flags) {
            Ok(code) => code,
            Err(ClientError::Said) => FAILURE,
            Err(reason) => {
                error!("{reason}");
                FAILURE
            }
        },
    }
}

fn run(flags: &Flags) -> Result<i32, ClientError> {
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
    let options = resolve(flags, &here)?;
    if flags.action == Action::PrintConfig {
        let text = options.dump();
        return match sys::io::write_all(sys::io::stdout(), text.as_bytes()) {
            Ok(()) => Ok(0),
            Err(_) => Ok(FAILURE),
        };
    }
    if let Some(level) = Level::from_name(options.log_level.word()) {
        log::set_level(level);
    }
    if flags.syslog {
        let facility =
            Facility::from_name(options.syslog_facility.word()).unwrap_or(Facility::User);
        log::set_syslog(Syslog::open("ssh", facility));
    }
    warn(flags, &options);
    connect_and_run(flags, &options)
}

/// Settings from the command line and the files, checked.
fn resolve(flags: &Flags, here: &Here) -> Result<ClientOptions, ClientError> {
    let Some(destination) = &flags.destination else {
        return Err(ClientError::Refused(flags::USAGE.to_owned()));
    };
    let mut line = CommandLine::new();
    if let Some(level) = flags.level {
        line.set("LogLevel", level.name());
    }
    for setting in &flags.settings {
        match setting {
            Setting::Line(text) => line.option(text.clone()),
            Setting::Keyword(keyword, value) => line.set(keyword, value.clone()),
            Setting::Identity(path) => line.set("IdentityFile", path.clone()),
        }
    }
    line.command = flags
        .command
        .as_ref()
        .map(|command| String::from_utf8_lossy(command).into_owned());
    let user = here.local_user();
    let home = Path::new(&user.home);
    let config = match &flags.config_file {
        Some(file) => ClientConfig::from_file(Path::new(file), home),
        None => ClientConfig::standard(home),
    };
    let config = config
        .with_files(SystemFiles {
            uid: Some(user.uid),
        })
        .with_aes_hardware(crypto::arch::has_fast_aes());
    let options = config
        .resolve(&destination.host, &line, here)
        .map_err(|reason| ClientError::Refused(reason.to_string()))?;
    let refused = |reason: flags::FlagError| ClientError::Refused(reason.to_string());
    destination::check_host(&options.hostname).map_err(refused)?;
    destination::check_user(&options.user).map_err(refused)?;
    Ok(options)
}

/// Says once what is accepted and not carried out, and which `-i` files are missing.
fn warn(flags: &Flags, options: &ClientOptions) {
    for warning in &options.warnings {
        match warning.severity {
            Severity::Notice => info!("{warning}"),
            Severity::Debug => debug1!("{warning}"),
        }
    }
    for setting in &flags.settings {
        if let Setting::Identity(path) = setting
            && let Some(file) = options
                .identity_files
                .iter()
                .find(|file| file.path.ends_with(path.trim_start_matches('~')))
            && let Err(reason) = std::fs::metadata(&file.path)
        {
            info!(
                "Warning: Identity file {} not accessible: {reason}.",
                crate::text::one_line(path)
            );
        }
    }
}

fn connect_and_run(flags: &Flags, options: &ClientOptions) -> Result<i32, ClientError> {
    let plan = Plan::decide(options, flags.command.clone(), flags.stdio_forward.clone())
        .map_err(ClientError::Refused)?;
    let mut person = Person::new(options.batch_mode);
    let mut checker = HostKeyChecker::new(options);
    let link = connect::dial(options, flags.config_file.as_deref())?;
    let (streams, peer, mut proxy) = login::split(link);
    let outcome = serve(streams, peer, options, plan, &mut checker, &mut person);
    if let Some(child) = &mut proxy {
        connect::proxy::stop(child);
    }
    outcome
}

fn serve(
    streams: (std::os::fd::OwnedFd, Option<std::os::fd::OwnedFd>),
    peer: crate::error::Peer,
    options: &ClientOptions,
    plan: Plan,
    checker: &mut HostKeyChecker,
    person: &mut dyn Interaction,
) -> Result<i32, ClientError> {
    let socket = sys::io::dup(&streams.0).map_err(ClientError::system("dup"))?;
    let mut secured = login::handshake(streams, peer, options, checker, person)?;
    login::authenticate(&mut secured, options, person)?;
    connect::set_quality(&socket, options, plan.pty.is_some());
    drop(socket);
    local_command(options)?;
    let flags = StdioFlags::remember();
    let locals = Streams::standard().map_err(ClientError::system("dup"))?;
    if options.fork_after_authentication && !matches!(plan.what, What::Forward { .. }) {
        go_to_background()?;
    }
    let peer = secured.peer.clone();
    let mut session = Session::new(&mut secured.driver, plan, locals, peer, person);
    session.rotate_host_keys(checker, options.update_host_keys);
    let outcome = session.run();
    drop(session);
    drop(flags);
    debug1!("crypto threads: {}", secured.driver.lane_report());
    if !matches!(
        outcome,
        Err(ClientError::Lost { .. } | ClientError::Closed(_))
    ) {
        login::disconnect(&mut secured.driver);
    }
    outcome
}

/// `LocalCommand`, where `PermitLocalCommand` allows it.
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

/// `-f`: the parent ends with 0 here; standard error stays for what may go wrong.
fn go_to_background() -> Result<(), ClientError> {
    debug1!("forking to background");
    sys::process::daemonize().map_err(ClientError::system("fork to the background"))
}
