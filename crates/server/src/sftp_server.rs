//! `fulmar sftp-server`: serves one SFTP client on standard input and output, as an sshd starts
//! it. Flags, log lines and exit codes are those of OpenSSH's sftp-server.

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::sync::Mutex;

use sftp::server::{self, Log, LogLevel, Options, REQUESTS, Serve, Wanted, stdio};
use sys::fs::PathRoot;
use sys::syslog::{Facility, Syslog};

/// The usage text.
pub const USAGE: &str = "\
usage: sftp-server [-ehR] [-d start_directory] [-f log_facility]
\t[-l log_level] [-P denied_requests]
\t[-p allowed_requests] [-u umask]
       sftp-server -Q protocol_feature
";

/// Exit status of a server that could not serve, as OpenSSH's.
const STATUS_FAILED: i32 = 255;

/// Runs the program; gives its exit status.
#[must_use]
pub fn run(args: Vec<OsString>) -> i32 {
    let words = args.iter().map(|word| word.to_string_lossy().into_owned());
    let options = match Options::parse(words) {
        Ok(Wanted::Serve(options)) => *options,
        Ok(Wanted::ListRequests) => {
            let names: String = REQUESTS
                .iter()
                .map(|info| format!("{}\n", info.name))
                .collect();
            print!("{names}");
            return 0;
        }
        Ok(Wanted::Usage) => {
            eprint!("{USAGE}");
            return 1;
        }
        Err(error) => {
            eprint!("sftp-server: {error}\n{USAGE}");
            return 1;
        }
    };
    match serve_stdio(&options) {
        Ok(()) => 0,
        Err(error) => {
            logger(&options).line(LogLevel::Error, &error);
            STATUS_FAILED
        }
    }
}

fn serve_stdio(options: &Options) -> Result<(), String> {
    sys::io::ensure_stdio().map_err(|error| error.to_string())?;
    if let Some(mask) = options.umask {
        sys::process::set_umask(mask);
    }
    let log = logger(options);
    let uid = sys::process::effective_uid();
    let account = sys::users::by_uid(uid).ok().flatten();
    let (user, home) = account.map_or_else(
        || (uid.to_string(), String::from("/")),
        |account| (account.name, account.home.to_string_lossy().into_owned()),
    );
    let from = std::env::var("SSH_CONNECTION").unwrap_or_default();
    let from = from.split(' ').next().filter(|from| !from.is_empty());
    let from = server::shown(from.unwrap_or("UNKNOWN").as_bytes());
    log.line(
        LogLevel::Info,
        &format!("session opened for local user {user} from [{from}]"),
    );
    if options.start.is_some() {
        let start = options.start(&user, &home);
        if let Err(error) = std::env::set_current_dir(&start) {
            log.line(
                LogLevel::Error,
                &format!(
                    "chdir to \"{}\" failed: {error}",
                    server::shown(start.as_bytes())
                ),
            );
        }
    }
    let here = std::env::current_dir().map_err(|error| format!("current directory: {error}"))?;
    let place = PathRoot::everywhere(here.as_os_str().as_bytes())
        .map_err(|error| format!("{}: {error}", here.display()))?;
    let mut server = Serve::new(
        place,
        options.permits(),
        server::max_handles(),
        logger(options),
    );
    let ended = stdio::run(&mut server, std::io::stdin(), std::io::stdout());
    drop(server);
    log.line(
        LogLevel::Info,
        &format!("session closed for local user {user} from [{from}]"),
    );
    match ended {
        Ok(()) => Ok(()),
        // The client does not wait for answers: nothing is wrong.
        Err(stdio::StdioError::Io(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => {
            Ok(())
        }
        Err(error) => Err(error.to_string()),
    }
}

fn logger(options: &Options) -> Box<dyn Log> {
    let syslog = if options.to_stderr {
        None
    } else {
        let facility = Facility::from_name(&options.facility).unwrap_or(Facility::Auth);
        Some(Mutex::new(Syslog::open("sftp-server", facility)))
    };
    Box::new(SftpServerLog {
        level: options.level,
        syslog,
    })
}

/// Lines of the log, to standard error or to the system's log.
struct SftpServerLog {
    level: LogLevel,
    syslog: Option<Mutex<Syslog>>,
}

impl Log for SftpServerLog {
    fn wants(&self, level: LogLevel) -> bool {
        level <= self.level
    }

    fn line(&self, level: LogLevel, text: &str) {
        if !self.wants(level) {
            return;
        }
        // Nobody can be told that the log takes nothing.
        match &self.syslog {
            None => drop(writeln!(std::io::stderr(), "{text}\r")),
            Some(syslog) => {
                if let Ok(mut syslog) = syslog.lock() {
                    drop(syslog.write(level, text));
                }
            }
        }
    }
}
