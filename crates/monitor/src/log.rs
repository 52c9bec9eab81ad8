//! Log lines for the operator, written to syslog or standard error according to LogLevel. The
//! wording equals OpenSSH's where log-reading tools search for it. Text from a peer is escaped
//! before it is written.

use std::cell::{Cell, RefCell};
use std::panic::Location;

use config::log_verbose;
use config::server::LoggingOptions;
use privsep::LogLevel;
use sys::syslog::Facility;

/// Suffix of log lines from the unprivileged process before the login, and of lines that OpenSSH's
/// unprivileged process writes.
pub(crate) const PREAUTH: &str = " [preauth]";

#[derive(Debug)]
enum LogSink {
    Stderr,
    Syslog(RefCell<sys::syslog::Syslog>),
    #[cfg(test)]
    Memory(RefCell<Vec<String>>),
}

/// The log's destination and level.
#[derive(Debug)]
pub(crate) struct Log {
    level: Cell<LogLevel>,
    /// LogVerbose: places in the source whose lines are written at any level.
    places: RefCell<Vec<String>>,
    /// True if the command line has set the level, which [`Log::follow`] then keeps.
    is_forced: bool,
    sink: LogSink,
}

impl Log {
    /// A log that writes to standard error.
    pub(crate) fn to_stderr(level: LogLevel) -> Self {
        Self {
            level: Cell::new(level),
            places: RefCell::default(),
            is_forced: false,
            sink: LogSink::Stderr,
        }
    }

    /// A log that writes to syslog with the identifier `sshd`, as OpenSSH's daemon does.
    pub(crate) fn to_syslog(level: LogLevel, facility: config::types::SyslogFacility) -> Self {
        Self {
            level: Cell::new(level),
            places: RefCell::default(),
            is_forced: false,
            sink: LogSink::Syslog(RefCell::new(sys::syslog::Syslog::open(
                "sshd",
                facility_of(facility),
            ))),
        }
    }

    /// A log that keeps its lines in memory.
    #[cfg(test)]
    pub(crate) fn to_memory(level: LogLevel) -> Self {
        Self {
            level: Cell::new(level),
            places: RefCell::default(),
            is_forced: false,
            sink: LogSink::Memory(RefCell::default()),
        }
    }

    /// The lines written so far.
    #[cfg(test)]
    pub(crate) fn lines(&self) -> Vec<String> {
        match &self.sink {
            LogSink::Memory(lines) => lines.borrow().clone(),
            _ => Vec::new(),
        }
    }

    /// The finest level that is written.
    pub(crate) fn level(&self) -> LogLevel {
        self.level.get()
    }

    /// The same log. With `is_forced`, [`Log::follow`] no longer changes the level, because the
    /// command line has set it.
    pub(crate) fn forced(self, is_forced: bool) -> Self {
        Self { is_forced, ..self }
    }

    /// Sets the level and LogVerbose that the configuration gives for a client or a user, which a Match
    /// block may change.
    pub(crate) fn follow(&self, logging: &LoggingOptions) {
        if !self.is_forced {
            self.level.set(logging.log_level);
        }
        self.places.replace(logging.log_verbose.clone());
    }

    /// LogVerbose, for the processes that log through this one.
    pub(crate) fn forced_places(&self) -> Vec<String> {
        self.places.borrow().clone()
    }

    /// Writes `text`, escaped and truncated, if `level` is enabled or LogVerbose names the caller.
    #[track_caller]
    pub(crate) fn line(&self, level: LogLevel, text: &str) {
        self.marked(level, text, "");
    }

    /// As [`Log::line`], followed by `mark`. Truncation of `text` never removes the mark, because
    /// the mark names the process that the text came from.
    #[track_caller]
    pub(crate) fn marked(&self, level: LogLevel, text: &str, mark: &str) {
        let tag = log_verbose::tag(&self.places.borrow(), Location::caller());
        if tag.is_none() && level > self.level() {
            return;
        }
        let tag = tag.map_or_else(String::new, |tag| format!("{tag}: "));
        let text = format!("{tag}{}", privsep::log_text(text));
        self.write(level, &text, mark);
    }

    /// Writes a line of another process, whose own place LogVerbose names if it `is_forced`: that counts
    /// where LogVerbose names any.
    pub(crate) fn relay(&self, level: LogLevel, is_forced: bool, text: &str, mark: &str) {
        let is_forced = is_forced && !self.places.borrow().is_empty();
        if is_forced || level <= self.level() {
            self.write(level, &privsep::log_text(text), mark);
        }
    }

    fn write(&self, level: LogLevel, text: &str, mark: &str) {
        // No line has the level QUIET; a process without privileges could claim it.
        if level == LogLevel::Quiet {
            return;
        }
        let text = format!("{}{text}{mark}", prefix(level));
        match &self.sink {
            LogSink::Stderr => {
                // A terminal in raw mode needs the carriage return, as OpenSSH writes it.
                let _ = sys::io::write_all(sys::io::stderr(), format!("{text}\r\n").as_bytes());
            }
            LogSink::Syslog(syslog) => {
                // A failing log must not stop a login.
                let _ = syslog.borrow_mut().write(level, &text);
            }
            #[cfg(test)]
            LogSink::Memory(lines) => lines.borrow_mut().push(text),
        }
    }

    /// Logs an error that ends the process.
    #[track_caller]
    pub(crate) fn fatal(&self, text: &str) {
        self.line(LogLevel::Fatal, text);
    }

    privsep::line_levels!(error, info, verbose, debug);
}

fn prefix(level: LogLevel) -> &'static str {
    match level {
        LogLevel::Fatal => "fatal: ",
        LogLevel::Error => "error: ",
        other => other.debug_prefix(),
    }
}

fn facility_of(facility: config::types::SyslogFacility) -> Facility {
    Facility::from_name(facility.word()).unwrap_or(Facility::Auth)
}

/// Decodes `MonitorStart::log_override`: the level that the command line forces, if any.
pub(crate) fn forced_level(number: u32) -> Option<LogLevel> {
    let level = number.checked_sub(1)?;
    Some(LogLevel::from_number(
        u8::try_from(level).unwrap_or(u8::MAX),
    ))
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
        assert_eq!(forced_level(1), Some(LogLevel::Quiet));
        assert_eq!(forced_level(6), Some(LogLevel::Debug1));
        assert_eq!(forced_level(99), Some(LogLevel::Debug3));
    }

    #[test]
    fn lines_of_places_that_are_named_are_written_at_any_level() {
        let log = Log::to_memory(LogLevel::Quiet);
        log.debug("no");
        log.places
            .replace(vec!["kex.c:*,monitor/log.rs:*".to_owned()]);
        log.debug("x\u{1b}");
        log.error("yes");
        log.relay(LogLevel::Debug3, true, "relayed", PREAUTH);
        log.relay(LogLevel::Debug3, false, "no", PREAUTH);
        log.relay(LogLevel::Quiet, true, "no", PREAUTH);
        log.places.replace(vec!["client/*".to_owned()]);
        log.error("no");
        let lines = log.lines();
        let starts = [
            "debug1: monitor/log.rs:",
            "error: monitor/log.rs:",
            "debug3: relayed [preauth]",
        ];
        assert_eq!(lines.len(), starts.len(), "{lines:?}");
        for (line, start) in lines.iter().zip(starts) {
            assert!(line.starts_with(start), "{lines:?}");
        }
        assert!(lines[0].ends_with(": x\\033"), "{lines:?}");
        // Without places a process of less trust forces nothing.
        log.places.replace(Vec::new());
        log.relay(LogLevel::Error, true, "no", PREAUTH);
        assert_eq!(log.lines().len(), starts.len());
    }
}
