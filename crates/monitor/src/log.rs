//! Lines for the operator: to syslog or standard error, by LogLevel, in OpenSSH's words where
//! tools look for them. What a peer said is escaped before it comes near a line.

use std::cell::{Cell, RefCell};

use privsep::LogLevel;
use sys::syslog::{Facility, Level};

/// Stands behind lines of the unprivileged process before a login, and behind what others say in
/// OpenSSH from there.
pub(crate) const PREAUTH: &str = " [preauth]";

#[derive(Debug)]
enum Sink {
    Stderr,
    Syslog(RefCell<sys::syslog::Syslog>),
    #[cfg(test)]
    Memory(RefCell<Vec<String>>),
}

/// Where lines go and which.
#[derive(Debug)]
pub(crate) struct Log {
    /// None writes nothing at all (LogLevel QUIET).
    level: Cell<Option<LogLevel>>,
    /// The command line has set the level.
    is_forced: bool,
    sink: Sink,
}

impl Log {
    /// To standard error.
    pub(crate) fn to_stderr(level: Option<LogLevel>) -> Self {
        Self {
            level: Cell::new(level),
            is_forced: false,
            sink: Sink::Stderr,
        }
    }

    /// To syslog under the name that OpenSSH's daemon has.
    pub(crate) fn to_syslog(
        level: Option<LogLevel>,
        facility: config::types::SyslogFacility,
    ) -> Self {
        Self {
            level: Cell::new(level),
            is_forced: false,
            sink: Sink::Syslog(RefCell::new(sys::syslog::Syslog::open(
                "sshd",
                facility_of(facility),
            ))),
        }
    }

    /// Keeps the lines.
    #[cfg(test)]
    pub(crate) fn to_memory(level: LogLevel) -> Self {
        Self {
            level: Cell::new(Some(level)),
            is_forced: false,
            sink: Sink::Memory(RefCell::default()),
        }
    }

    /// What was written so far.
    #[cfg(test)]
    pub(crate) fn lines(&self) -> Vec<String> {
        match &self.sink {
            Sink::Memory(lines) => lines.borrow().clone(),
            _ => Vec::new(),
        }
    }

    /// The finest level that is written.
    pub(crate) fn level(&self) -> Option<LogLevel> {
        self.level.get()
    }

    /// The same log, whose level stays what it is where the command line has set it.
    pub(crate) fn forced(self, is_forced: bool) -> Self {
        Self { is_forced, ..self }
    }

    /// Takes the level of what holds for a client or a user: Match may have another one for them.
    pub(crate) fn follow(&self, level: config::types::LogLevel) {
        if !self.is_forced {
            self.level.set(level_of(level));
        }
    }

    /// Writes `text`, escaped and cut, when its level is wanted.
    pub(crate) fn line(&self, level: LogLevel, text: &str) {
        self.marked(level, text, "");
    }

    /// The same with `mark` behind it, which stays however long the text is: it says whose
    /// words these are.
    pub(crate) fn marked(&self, level: LogLevel, text: &str, mark: &str) {
        if self.level().is_none_or(|finest| level > finest) {
            return;
        }
        let text = format!("{}{}{mark}", prefix(level), privsep::log_text(text));
        match &self.sink {
            Sink::Stderr => {
                // A terminal in raw mode needs the carriage return, as OpenSSH writes it.
                let _ = sys::io::write_all(sys::io::stderr(), format!("{text}\r\n").as_bytes());
            }
            Sink::Syslog(syslog) => {
                // A log that takes nothing must not stop a login.
                let _ = syslog.borrow_mut().write(priority_of(level), &text);
            }
            #[cfg(test)]
            Sink::Memory(lines) => lines.borrow_mut().push(text),
        }
    }

    /// What ends the process.
    pub(crate) fn fatal(&self, text: &str) {
        self.line(LogLevel::Fatal, text);
    }

    /// What failed.
    pub(crate) fn error(&self, text: &str) {
        self.line(LogLevel::Error, text);
    }

    /// What an operator wants to see.
    pub(crate) fn info(&self, text: &str) {
        self.line(LogLevel::Info, text);
    }

    /// More of it.
    pub(crate) fn verbose(&self, text: &str) {
        self.line(LogLevel::Verbose, text);
    }

    /// Decisions.
    pub(crate) fn debug(&self, text: &str) {
        self.line(LogLevel::Debug1, text);
    }
}

fn prefix(level: LogLevel) -> &'static str {
    match level {
        LogLevel::Fatal => "fatal: ",
        LogLevel::Error => "error: ",
        LogLevel::Info | LogLevel::Verbose => "",
        LogLevel::Debug1 => "debug1: ",
        LogLevel::Debug2 => "debug2: ",
        LogLevel::Debug3 => "debug3: ",
    }
}

fn priority_of(level: LogLevel) -> Level {
    match level {
        LogLevel::Fatal => Level::Critical,
        LogLevel::Error => Level::Error,
        LogLevel::Info | LogLevel::Verbose => Level::Info,
        LogLevel::Debug1 | LogLevel::Debug2 | LogLevel::Debug3 => Level::Debug,
    }
}

fn facility_of(facility: config::types::SyslogFacility) -> Facility {
    Facility::from_name(facility.word()).unwrap_or(Facility::Auth)
}

/// The configured level as the RPC knows it; none for QUIET.
pub(crate) fn level_of(level: config::types::LogLevel) -> Option<LogLevel> {
    Some(match level {
        config::types::LogLevel::Quiet => return None,
        config::types::LogLevel::Fatal => LogLevel::Fatal,
        config::types::LogLevel::Error => LogLevel::Error,
        config::types::LogLevel::Info => LogLevel::Info,
        config::types::LogLevel::Verbose => LogLevel::Verbose,
        config::types::LogLevel::Debug1 => LogLevel::Debug1,
        config::types::LogLevel::Debug2 => LogLevel::Debug2,
        config::types::LogLevel::Debug3 => LogLevel::Debug3,
    })
}

/// A level that the command line forces, as it stands in `MonitorStart`; the outer option is
/// none when nothing is forced.
pub(crate) fn forced_level(number: u32) -> Option<Option<LogLevel>> {
    const LEVELS: [LogLevel; 7] = [
        LogLevel::Fatal,
        LogLevel::Error,
        LogLevel::Info,
        LogLevel::Verbose,
        LogLevel::Debug1,
        LogLevel::Debug2,
        LogLevel::Debug3,
    ];
    match number {
        0 => None,
        1 => Some(None),
        more => {
            let index = usize::try_from(more - 2).unwrap_or(usize::MAX);
            Some(Some(LEVELS.get(index).copied().unwrap_or(LogLevel::Debug3)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peers_text_cannot_forge_a_line() {
        let log = Log::to_memory(LogLevel::Info);
        log.info("user a\nAccepted password for root\u{1b}[1m\\\u{e9}");
        assert_eq!(
            log.lines(),
            ["user a\\012Accepted password for root\\033[1m\\\\303\\251"]
        );
    }

    #[test]
    fn a_long_text_does_not_push_its_mark_out() {
        let log = Log::to_memory(LogLevel::Info);
        log.marked(LogLevel::Info, &"x".repeat(10_000), " [preauth]");
        assert!(log.lines()[0].ends_with("x... [preauth]"));
    }

    #[test]
    fn only_wanted_levels_are_written() {
        let log = Log::to_memory(LogLevel::Info);
        log.verbose("no");
        log.debug("no");
        log.error("yes");
        assert_eq!(log.lines(), ["error: yes"]);
        assert_eq!(forced_level(0), None);
        assert_eq!(forced_level(1), Some(None));
        assert_eq!(forced_level(6), Some(Some(LogLevel::Debug1)));
        assert_eq!(forced_level(99), Some(Some(LogLevel::Debug3)));
    }
}
