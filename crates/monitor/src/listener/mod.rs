//! `sshd`: reads the command line and the configuration, opens the sockets, and runs the loop
//! ([`serve`]) that starts a monitor for each connection. Reads no byte of the protocol; sends only
//! the early banner, which is the same for every client ([`early_banner`]).

mod accelerate;
mod args;
mod block;
mod confinement;
mod daemon;
mod early_banner;
mod gss_probe;
mod hostkeys;
mod inetd;
mod launch;
mod metrics;
mod penalties;
mod preforked;
mod reader;
mod rexec;
mod serve;
mod sockets;
mod startups;
mod successor;

pub use args::USAGE;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use config::server::{
    ConnectionOptions, ConnectionSpec, ServerArguments, ServerConfig, ServerOptions,
};
use config::{ConfigError, Severity, SystemFiles};
use privsep::{LogLevel, Secret};
use sys::process::SelfExe;
use sys::signals::{Signal, SignalFd};

use crate::connection::recording;
use crate::log::{self, Log};
use accelerate::Trial;
use args::{Args, ListenerMode};
use confinement::Confinement;
use daemon::Daemon;
pub use early_banner::Greet;
use launch::{Kept, Launch, Shape};
use serve::{Listener, NewConfiguration, Reloaded, Reloads, Stop};
use sockets::Socket;
use successor::{Handover, Origin, Successor};

/// Path of the configuration file without `-f`.
const DEFAULT_CONFIG: &str = "/etc/ssh/sshd_config";

/// OpenSSH's exit status for a configuration that it refuses, and if it can listen at no address.
/// Service files written for OpenSSH (`RestartPreventExitStatus=255`) do not restart the server
/// after this status.
const STATUS_NO_RESTART: i32 = 255;

/// Runs the program `sshd` and returns its exit status. `arguments` excludes the program's name.
/// `greet` makes the early banner that the listener sends.
#[must_use]
pub fn sshd_main(arguments: Vec<OsString>, greet: Greet) -> i32 {
    if let Some(error) = rexec::become_openssh(&arguments) {
        eprintln!("fulmar sshd: OpenSSH's program for a connection of its listener: {error}");
        return STATUS_NO_RESTART;
    }
    match run(arguments, greet) {
        Ok(status) => status,
        Err(ListenerFailure::Usage(text)) => {
            let text = escape::escape(&text, escape::Style::Lines);
            eprint!("{text}\n{}", args::USAGE);
            1
        }
        Err(ListenerFailure::Start(text)) => {
            eprintln!("{}", escape::escape(&text, escape::Style::Lines));
            1
        }
        Err(ListenerFailure::Configuration(text)) => {
            eprintln!("{}", escape::escape(&text, escape::Style::Lines));
            STATUS_NO_RESTART
        }
    }
}

enum ListenerFailure {
    Usage(String),
    Start(String),
    /// The configuration cannot be used, or nothing listens: a restart would fail in the same way.
    Configuration(String),
}

impl From<String> for ListenerFailure {
    fn from(text: String) -> Self {
        Self::Start(text)
    }
}

impl From<ConfigError> for ListenerFailure {
    fn from(error: ConfigError) -> Self {
        match error {
            // As in OpenSSH: the file may exist at the next start.
            ConfigError::Unreadable { .. } => Self::Start(error.to_string()),
            _ => Self::Configuration(error.to_string()),
        }
    }
}

fn text_of(error: impl std::fmt::Display) -> ListenerFailure {
    ListenerFailure::Start(error.to_string())
}

/// The configuration file and the command line's options, for the first load and every reload.
struct ConfigOrigin {
    file: PathBuf,
    arguments: ServerArguments,
}

impl ConfigOrigin {
    /// Relative paths of the command line are in `here`.
    fn of(args: &Args, here: Option<PathBuf>) -> Self {
        let file = args
            .config_file
            .clone()
            .unwrap_or_else(|| PathBuf::from(DEFAULT_CONFIG));
        let file = match &here {
            Some(here) => here.join(file),
            None => file,
        };
        Self {
            file,
            arguments: ServerArguments {
                options: args.overrides.clone(),
                ports: args.ports.clone(),
                working_directory: here,
                aes_hardware: crypto::arch::has_fast_aes(),
            },
        }
    }

    fn load(&self) -> Result<ServerConfig, ConfigError> {
        let files = SystemFiles::default();
        if self.file == Path::new("/dev/null") || self.file == Path::new("none") {
            return ServerConfig::parse("none", b"", &files, &self.arguments);
        }
        ServerConfig::load(&self.file, &files, &self.arguments)
    }
}

fn run(arguments: Vec<OsString>, greet: Greet) -> Result<i32, ListenerFailure> {
    let args = Args::parse(arguments).map_err(ListenerFailure::Usage)?;
    if args.mode == ListenerMode::Version {
        eprintln!("{}", flags::VERSION);
        return Ok(0);
    }
    sys::io::ensure_stdio().map_err(text_of)?;
    let start = ListenerStart::from_environment().map_err(text_of)?;
    if start.is_daemon() {
        daemon::keep_name();
    }
    let source = ConfigOrigin::of(&args, start.directory.clone());
    let mut config = source.load()?;
    let options = config.global();
    sockets::check(&options.connection).map_err(ListenerFailure::Configuration)?;
    let shape_level = launch::log_override(args.debug, args.quiet);
    let level = log::forced_level(shape_level).unwrap_or(options.logging.log_level);
    match args.mode {
        ListenerMode::Print | ListenerMode::Dump | ListenerMode::Test => {
            return check(&args, &config, level);
        }
        ListenerMode::Serve | ListenerMode::Inetd | ListenerMode::Version => {}
    }
    if let Some(path) = &args.log_file {
        let path = &start.path(path);
        let file = sys::file::open_append(path, 0o600).map_err(|error| {
            ListenerFailure::Start(format!("Couldn't open logfile {}: {error}", path.display()))
        })?;
        sys::io::replace_stdio(&file, 2).map_err(text_of)?;
    }
    let log_to_stderr = args.log_to_stderr || args.log_file.is_some();
    if args.mode == ListenerMode::Serve && !args.foreground && !start.is_daemon() {
        // The daemon loads everything itself and reports on a pipe when it listens.
        return daemon::start().map_err(text_of);
    }
    let log = if log_to_stderr {
        Log::to_stderr(level)
    } else {
        Log::to_syslog(level, options.logging.syslog_facility)
    };
    log.set_json(options.logging.is_json);
    let log = log.forced(log::forced_level(shape_level).is_some());
    log.follow(&options.logging);
    // Whoever starts the server reads standard error; the details go to the log.
    let startup = if args.debug > 0 {
        Log::to_stderr(level)
    } else {
        Log::to_stderr(level.min(LogLevel::Info))
    };
    warn_about(&config, if log_to_stderr { &log } else { &startup });
    let shape = Shape {
        log_to_stderr,
        log_override: shape_level,
        confinement: if sys::process::is_root() {
            Some(Confinement::find()?)
        } else {
            None
        },
        oom_score: if args.mode == ListenerMode::Serve {
            launch::protect_from_oom(&log)
        } else {
            None
        },
        greet: (args.mode == ListenerMode::Serve).then_some(greet),
    };
    let ids = shape
        .confinement
        .as_ref()
        .map(|confinement| confinement.ids);
    // With `-i` each connection would wait for it.
    if args.mode == ListenerMode::Serve {
        gss_probe::probe(&mut config, ids, &startup);
    }
    let options = config.global();
    if let Some(text) = launch::without_privilege(&options.authentication) {
        log.verbose(text);
    }
    // This process holds the private keys until it ends: no core file and no debugger of the same
    // user may read its memory.
    sys::process::set_dumpable(false).map_err(text_of)?;
    let host_keys = hostkeys::load(&options, &startup)?;
    // With `-i`, the connection's own process probes the library; only a `require` that fails must
    // be known here.
    let required = options
        .compression
        .hardware()
        .is_some_and(|wish| wish.required);
    if args.mode == ListenerMode::Serve || required {
        let confinement = shape.confinement.as_ref();
        accelerate::probe(&options, confinement, &startup, LogLevel::Debug1)?;
    }
    let executable = SelfExe::open().map_err(text_of)?;
    let delay_secret = Secret::new(crypto::random::bytes::<32>().to_vec());
    let kept = Kept::new(executable, delay_secret);
    let launch = Launch::new(kept, &config, host_keys, &shape).map_err(text_of)?;
    if args.mode == ListenerMode::Inetd {
        return inetd::serve(&launch, &options, &log).map_err(text_of);
    }
    listen(&args, &source, &config, launch, shape, start, &log)
}

/// How this process was started.
struct ListenerStart {
    /// The program itself, to run in the background.
    daemon: Option<Daemon>,
    /// The program before this one in the same process.
    handover: Option<Handover>,
    /// Relative paths of the command line are here.
    directory: Option<PathBuf>,
}

impl ListenerStart {
    fn from_environment() -> std::io::Result<Self> {
        let handover = Handover::from_environment()?;
        let left = handover.as_ref().map(|left| left.directory.clone());
        Ok(Self {
            daemon: Daemon::from_environment(),
            directory: left.or_else(|| std::env::current_dir().ok()),
            handover,
        })
    }

    fn is_daemon(&self) -> bool {
        // Of OpenSSH's listener, too, whose place was taken, and which starts its program anew.
        self.daemon.is_some() || self.handover.is_some() || sys::process::is_daemon()
    }

    fn path(&self, path: &Path) -> PathBuf {
        let directory = self.directory.as_ref();
        directory.map_or_else(|| path.to_owned(), |directory| directory.join(path))
    }
}

/// `-t`, `-T` and `-G`.
fn check(args: &Args, config: &ServerConfig, level: LogLevel) -> Result<i32, ListenerFailure> {
    let log = Log::to_stderr(level);
    warn_about(config, &log);
    if args.mode != ListenerMode::Print {
        hostkeys::load(&config.global(), &log)?;
        let confinement = if sys::process::is_root() {
            Some(Confinement::find()?)
        } else {
            None
        };
        // A configuration test reports which library would be used.
        let confinement = confinement.as_ref();
        accelerate::probe(&config.global(), confinement, &log, LogLevel::Info)?;
    }
    if args.mode == ListenerMode::Test && config.global().limits.per_source_penalties.enabled {
        // OpenSSH before 9.8 does not have this option.
        log.info(
            "PerSourcePenalties is on: an address whose logins fail is refused for a while, good logins too",
        );
    }
    if args.mode == ListenerMode::Test {
        tell_unusable_places(config, &log);
    }
    if args.mode == ListenerMode::Test && is_openssh_s(args) {
        let machine = migrate::Machine::at(Path::new("/"));
        for consequence in migrate::of_configuration(&config.global(), &machine) {
            log.info(&consequence.to_string());
        }
    }
    if args.mode != ListenerMode::Test {
        let options = match &args.connection {
            // A connection with no known facts matches `Match all` only.
            None if args.mode == ListenerMode::Dump => {
                config.for_connection(&ConnectionSpec::default())
            }
            None => config.global(),
            Some(connection) => {
                let mut connection = connection.clone();
                connection.groups = groups_of(connection.user.as_deref());
                config.for_connection(&connection)
            }
        };
        print!("{}", options.dump());
    }
    Ok(0)
}

/// `-t`: logs which directories and files cannot be used. The test succeeds, since logins are served
/// without them.
fn tell_unusable_places(config: &ServerConfig, log: &Log) {
    for directory in config.recording_directories() {
        if let Err(why) = recording::checked_directory(Path::new(&directory)) {
            log.error(&format!(
                "RecordTerminals: {why}: recorded users will get no terminal"
            ));
        }
    }
    if let Some(fault) = metrics::fault_of_file(&config.global().logging) {
        log.error(&fault);
    }
}

/// True if the configuration is OpenSSH's, written for its defaults.
fn is_openssh_s(args: &Args) -> bool {
    let named = args.config_file.as_deref();
    named.is_none_or(|file| file.starts_with("/etc/ssh"))
}

fn groups_of(user: Option<&str>) -> Vec<String> {
    user.and_then(|name| sys::users::by_name(name).ok().flatten())
        .and_then(|user| sys::users::group_names_of(&user).ok())
        .unwrap_or_default()
}

fn warn_about(config: &ServerConfig, log: &Log) {
    for warning in config.warnings() {
        let level = match warning.severity {
            Severity::Notice | Severity::Later => LogLevel::Info,
            Severity::Debug => LogLevel::Debug1,
        };
        log.line(level, &warning.to_string());
    }
}

fn listen(
    args: &Args,
    source: &ConfigOrigin,
    config: &ServerConfig,
    launch: Launch,
    shape: Shape,
    start: ListenerStart,
    log: &Log,
) -> Result<i32, ListenerFailure> {
    let signals =
        SignalFd::new(&[Signal::HUP, Signal::TERM, Signal::INT, Signal::CHLD]).map_err(text_of)?;
    // Before it serves anybody: an upgrade may follow at once.
    let directory = source.arguments.working_directory.clone();
    let origin = Origin::of_this(directory.unwrap_or_else(|| "/".into()));
    let options = config.global();
    let mut left = start
        .handover
        .map_or_else(Vec::new, |handover| handover.sockets);
    let mut sockets = match left.iter().any(|socket| socket.inherited) {
        true => std::mem::take(&mut left),
        // The variables of the service manager are still there, and its descriptors may not be.
        false if !left.is_empty() => Vec::new(),
        false => sockets::inherited()?,
    };
    if sockets.is_empty() {
        sockets = match sockets::open(&options.connection, &mut left, log) {
            Ok(opened) => opened,
            Err(why) if left.is_empty() => return Err(ListenerFailure::Configuration(why)),
            // As after a reload of the same program, it serves where it has served.
            Err(why) => {
                let why = why.replace('\n', "; ");
                log.error(&format!("the old sockets stay in use: {why}"));
                std::mem::take(&mut left)
            }
        };
    }
    drop(left);
    let mut listener =
        Listener::new(config, launch, sockets, signals, args.debug > 0, log).map_err(text_of)?;
    let pid_file = PidFile::write(&options, args, log);
    let mut reloader = Reloader {
        source,
        shape: shape.clone(),
        args,
        origin: origin.as_ref().ok(),
        pid_file,
        log,
    };
    if let Some(daemon) = start.daemon {
        daemon.ready(shape.log_to_stderr);
    }
    notify(sys::systemd::DaemonState::Ready, &status_of(&listener));
    let stop = loop {
        match listener.run(&mut reloader) {
            Ok(Stop::Successor(successor)) => {
                // The new program writes it, perhaps elsewhere.
                reloader.pid_file = PidFile(None);
                let error =
                    launch::unprotect_from_oom(shape.oom_score, || listener.hand_over(&successor));
                reloader.pid_file = PidFile::write(listener.options(), args, log);
                reloader.keep(&format_args!("{}: {error}", successor.path().display()));
                listener.begin_reload(&mut reloader).map_err(text_of)?;
            }
            stop => break stop,
        }
    };
    notify(
        sys::systemd::DaemonState::Stopping,
        "stopping; sessions continue",
    );
    drop(reloader);
    match stop.map_err(text_of)? {
        Stop::Signal | Stop::OnlyConnection | Stop::Successor(_) => Ok(0),
    }
}

fn status_of(listener: &Listener<'_>) -> String {
    let addresses: Vec<String> = listener
        .addresses()
        .iter()
        .map(ToString::to_string)
        .collect();
    format!(
        "listening on {}; at most {} logins in progress",
        addresses.join(", "),
        listener.options().limits.max_startups.full
    )
}

fn notify(state: sys::systemd::DaemonState, status: &str) {
    // Without a service manager this has no effect.
    let _ = sys::systemd::notify(state, status);
}

/// Reads the configuration and keys again; if any of it is invalid, the old configuration stays in
/// use.
struct Reloader<'a> {
    source: &'a ConfigOrigin,
    shape: Shape,
    args: &'a Args,
    /// `None` if the system does not tell where this program is.
    origin: Option<&'a Origin>,
    pid_file: PidFile,
    log: &'a Log,
}

impl Reloader<'_> {
    fn keep(&self, what: &dyn std::fmt::Display) {
        let what = what.to_string().replace('\n', "; ");
        self.log.error(&format!(
            "reload failed, the old configuration stays in use: {what}"
        ));
    }

    fn candidate(&mut self) -> Result<NewConfiguration, String> {
        let mut config = self.source.load().map_err(|error| error.to_string())?;
        if self.shape.confinement.is_some() {
            // The directory may have been removed, or the user.
            self.shape.confinement = Some(Confinement::find()?);
        }
        let confinement = self.shape.confinement.as_ref();
        gss_probe::probe(&mut config, confinement.map(|each| each.ids), self.log);
        let options = config.global();
        sockets::check(&options.connection)?;
        let host_keys = hostkeys::load(&options, self.log)?;
        let trial = Trial::begin(&options.compression, self.shape.confinement.as_ref());
        Ok(NewConfiguration {
            config,
            host_keys,
            trial,
        })
    }

    fn replace(
        &self,
        candidate: NewConfiguration,
        launch: &Launch,
        sockets: &mut Vec<Socket>,
    ) -> Result<Reloaded, String> {
        let NewConfiguration {
            config,
            host_keys,
            trial,
        } = candidate;
        let options = config.global();
        if let Some(trial) = trial {
            trial.settle(&options.compression, self.log, LogLevel::Debug1)?;
        }
        let failed = |error: std::io::Error| error.to_string();
        let kept = launch.kept().map_err(failed)?;
        let launch = Launch::new(kept, &config, host_keys, &self.shape);
        let launch = launch.map_err(failed)?;
        warn_about(&config, self.log);
        if sockets.iter().all(|socket| !socket.inherited) {
            // Sockets left in `sockets` are no longer configured and close when it is dropped.
            let opened = sockets::open(&options.connection, sockets, self.log);
            *sockets = opened.map_err(|error| error.to_string())?;
        }
        Ok(Reloaded {
            config,
            launch,
            sockets: std::mem::take(sockets),
        })
    }
}

impl Reloads for Reloader<'_> {
    fn successor(&mut self, running: &SelfExe) -> Option<Successor> {
        let origin = self.origin.filter(|_| self.args.debug == 0)?;
        let found = origin.successor(running).unwrap_or_else(|error| {
            self.log.error(&format!(
                "the program has been replaced, and the new one cannot take over; the old one stays: {error}"
            ));
            None
        });
        if let Some(successor) = &found {
            let path = successor.path().display();
            self.log.info(&format!(
                "The program has been replaced: going on as {path}."
            ));
            notify(
                sys::systemd::DaemonState::Reloading,
                "starting the new program",
            );
        }
        found
    }

    fn begin(&mut self) -> Option<NewConfiguration> {
        notify(
            sys::systemd::DaemonState::Reloading,
            "reading the configuration",
        );
        match self.candidate() {
            Ok(candidate) => Some(candidate),
            Err(why) => {
                self.keep(&why);
                notify(sys::systemd::DaemonState::Ready, "serving");
                None
            }
        }
    }

    fn finish(
        &mut self,
        candidate: NewConfiguration,
        launch: &Launch,
        mut sockets: Vec<Socket>,
    ) -> Result<Reloaded, Vec<Socket>> {
        let options = candidate.config.global();
        let reloaded = self.replace(candidate, launch, &mut sockets);
        if reloaded.is_ok() {
            // Scripts that wait for a restart delete the old file and wait for a new one.
            self.pid_file.renew(&options, self.args, self.log);
        }
        notify(sys::systemd::DaemonState::Ready, "serving");
        reloaded.map_err(|why| {
            self.keep(&why);
            sockets
        })
    }
}

/// The PidFile, which is deleted on drop.
struct PidFile(Option<String>);

impl PidFile {
    fn write(options: &ServerOptions, args: &Args, log: &Log) -> Self {
        Self::try_write(&options.connection, args, log).unwrap_or(Self(None))
    }

    /// Returns `None` if the file cannot be written, and logs the reason.
    fn try_write(connection: &ConnectionOptions, args: &Args, log: &Log) -> Option<Self> {
        let Some(path) = connection.pid_file.as_ref().filter(|_| args.debug == 0) else {
            return Some(Self(None));
        };
        let text = format!("{}\n", sys::process::pid());
        match sys::file::replace(path, text.as_bytes(), 0o644) {
            Ok(()) if sys::file::is_special(path) => Some(Self(None)),
            Ok(()) => Some(Self(Some(path.clone()))),
            Err(error) => {
                log.error(&format!("Couldn't create pid file \"{path}\": {error}"));
                None
            }
        }
    }

    /// Writes the file again, at its new path if the path has changed. If that fails, the old file
    /// stays: its content is still right.
    fn renew(&mut self, options: &ServerOptions, args: &Args, log: &Log) {
        let Some(renewed) = Self::try_write(&options.connection, args, log) else {
            return;
        };
        let old = core::mem::replace(self, renewed);
        if old.0 == self.0 {
            // The old value has the same path: dropping it would delete the new file.
            core::mem::forget(old);
        }
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            let _ = std::fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests;
