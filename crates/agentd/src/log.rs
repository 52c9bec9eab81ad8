//! The agent's messages, to standard error or to the system's log.

use std::cell::RefCell;
use std::fmt;

use escape::LogLevel;
use sys::syslog::{Facility, Syslog};

/// Name of the program in the system's log.
const TAG: &str = "ssh-agent";

/// Where messages go, and from which level on.
pub(crate) struct AgentLog {
    level: LogLevel,
    sink: Option<RefCell<Syslog>>,
}

impl AgentLog {
    /// To standard error, all of them.
    pub(crate) fn debugging() -> Self {
        Self {
            level: LogLevel::Debug3,
            sink: None,
        }
    }

    /// To standard error, without those for debugging.
    pub(crate) fn foreground() -> Self {
        Self {
            level: LogLevel::Info,
            sink: None,
        }
    }

    /// To the system's log, which it connects to now.
    pub(crate) fn background() -> Self {
        Self {
            level: LogLevel::Info,
            sink: Some(RefCell::new(Syslog::open(TAG, Facility::Auth))),
        }
    }

    pub(crate) fn info(&self, message: fmt::Arguments<'_>) {
        self.write(LogLevel::Info, message);
    }

    pub(crate) fn debug(&self, message: fmt::Arguments<'_>) {
        self.write(LogLevel::Debug1, message);
    }

    fn write(&self, level: LogLevel, message: fmt::Arguments<'_>) {
        if level.number() > self.level.number() {
            return;
        }
        let text = escape::one_line(message.to_string());
        // A message that cannot be written cannot be reported anywhere.
        match &self.sink {
            Some(syslog) => {
                let _ = syslog.borrow_mut().write(level, &text);
            }
            None => eprintln!("{}{text}", level.debug_prefix()),
        }
    }
}
