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

/// Longest name of a user in the field of a JSON line, in bytes.
const MAX_USER_BYTES: usize = 256;

#[derive(Debug)]
enum LogSink {
    Stderr,
    Syslog(RefCell<sys::syslog::Syslog>),
    #[cfg(test)]
    Memory(RefCell<Vec<String>>),
}

/// Whom the lines of a log are about; only JSON lines have it as fields.
#[derive(Debug, Default)]
struct LogSubject {
    /// The client's address and port.
    client: Option<(String, u16)>,
    /// The name that the client has given, escaped.
    user: Option<String>,
}

/// The log's destination and level.
#[derive(Debug)]
pub(crate) struct Log {
    level: Cell<LogLevel>,
    /// Lines are JSON objects (LogFormat).
    is_json: Cell<bool>,
    subject: RefCell<LogSubject>,
    /// LogVerbose: places in the source whose lines are written at any level.
    places: RefCell<Vec<String>>,
    /// True if the command line has set the level, which [`Log::follow`] then keeps.
    is_forced: bool,
    sink: LogSink,
}

impl Log {
    /// A log that writes to standard error.
    pub(crate) fn to_stderr(level: LogLevel) -> Self {
        Self::to(LogSink::Stderr, level)
    }

    /// A log that writes to syslog with the identifier `sshd`, as OpenSSH's daemon does.
    pub(crate) fn to_syslog(level: LogLevel, facility: config::types::SyslogFacility) -> Self {
        let syslog = sys::syslog::Syslog::open("sshd", facility_of(facility));
        Self::to(LogSink::Syslog(RefCell::new(syslog)), level)
    }

    /// A log that keeps its lines in memory.
    #[cfg(test)]
    pub(crate) fn to_memory(level: LogLevel) -> Self {
        Self::to(LogSink::Memory(RefCell::default()), level)
    }

    fn to(sink: LogSink, level: LogLevel) -> Self {
        Self {
            level: Cell::new(level),
            is_json: Cell::new(false),
            subject: RefCell::default(),
            places: RefCell::default(),
            is_forced: false,
            sink,
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

    /// True if lines of `level` may be written: LogVerbose may name any place.
    pub(crate) fn can_write(&self, level: LogLevel) -> bool {
        level <= self.level() || !self.places.borrow().is_empty()
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

    /// Chooses the form of the lines from now on (LogFormat).
    pub(crate) fn set_json(&self, is_json: bool) {
        self.is_json.set(is_json);
    }

    /// The lines from now on are about this client.
    pub(crate) fn name_client(&self, address: &str, port: u16) {
        self.subject.borrow_mut().client = Some((privsep::log_text(address), port));
    }

    /// The lines from now on are about this user of the client, who need not exist.
    pub(crate) fn name_user(&self, user: &str) {
        let user = escape::escape_at_most(user, escape::Style::Ascii, MAX_USER_BYTES);
        self.subject.borrow_mut().user = Some(user);
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
        let is_json = self.is_json.get();
        let text = match is_json {
            true => json(level, text, mark, &self.subject.borrow()),
            false => format!("{}{text}{mark}", self.sink.prefix(level)),
        };
        match &self.sink {
            LogSink::Stderr => {
                // A terminal in raw mode needs the carriage return, as OpenSSH writes it.
                let end = if is_json { "\n" } else { "\r\n" };
                let _ = sys::io::write_all(sys::io::stderr(), format!("{text}{end}").as_bytes());
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

/// A line as a JSON object; `text` has been escaped.
fn json(level: LogLevel, text: &str, mark: &str, subject: &LogSubject) -> String {
    let (seconds, micros) = sys::time::realtime();
    let time = sys::time::to_rfc3339(seconds, micros);
    let level = level.name().to_ascii_lowercase();
    let pid = sys::process::pid();
    let mut line =
        format!("{{\"time\":\"{time}\",\"level\":\"{level}\",\"program\":\"sshd\",\"pid\":{pid}");
    if mark == PREAUTH {
        line.push_str(",\"preauth\":true");
    }
    if let Some((address, port)) = &subject.client {
        let address = json_string(address);
        line.push_str(&format!(",\"client\":{address},\"port\":{port}"));
    }
    if let Some(user) = &subject.user {
        line.push_str(&format!(",\"user\":{}", json_string(user)));
    }
    line.push_str(&format!(",\"message\":{}}}", json_string(text)));
    line
}

/// A JSON string (RFC 8259 §7) of escaped text: printable ASCII, of which JSON escapes two characters.
fn json_string(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{text}\"")
}

impl LogSink {
    /// What precedes a line. As OpenSSH, it names an error in syslog only.
    fn prefix(&self, level: LogLevel) -> &'static str {
        match level {
            LogLevel::Fatal | LogLevel::Error if matches!(self, Self::Stderr) => "",
            LogLevel::Fatal => "fatal: ",
            LogLevel::Error => "error: ",
            other => other.debug_prefix(),
        }
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
    fn json_lines_are_objects_whatever_a_peer_sends() {
        let log = Log::to_memory(LogLevel::Verbose);
        log.set_json(true);
        log.error("plain");
        log.name_client("192.0.2.7", 4000);
        log.name_user("a\"b\\c\nd\u{e9}");
        log.marked(LogLevel::Verbose, "said \"x\",\n{}", PREAUTH);
        let lines = log.lines();
        let after_time = |line: &str| {
            let (time, rest) = line.split_once(",\"level\"").unwrap();
            assert!(
                time.starts_with("{\"time\":\"20") && time.ends_with("Z\""),
                "{time}"
            );
            rest.to_owned()
        };
        let pid = sys::process::pid();
        assert_eq!(
            after_time(&lines[0]),
            format!(":\"error\",\"program\":\"sshd\",\"pid\":{pid},\"message\":\"plain\"}}")
        );
        assert_eq!(
            after_time(&lines[1]),
            format!(
                ":\"verbose\",\"program\":\"sshd\",\"pid\":{pid},\"preauth\":true,\
                 \"client\":\"192.0.2.7\",\"port\":4000,\
                 \"user\":\"a\\\"b\\\\c\\\\012d\\\\303\\\\251\",\
                 \"message\":\"said \\\"x\\\",\\\\012{{}}\"}}"
            )
        );
        // What syslog carries holds the longest line.
        log.name_user(&"\"".repeat(10_000));
        log.info(&"\\".repeat(10_000));
        let longest = log.lines().pop().unwrap();
        assert!(
            longest.len() < 4096 && longest.ends_with("...\"}"),
            "{}",
            longest.len()
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
