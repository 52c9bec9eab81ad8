//! Errors, with file and line, for a configuration that cannot be used, and warnings.
//!
//! A configuration is refused as a whole: each bad line is reported, then their number. Warnings
//! are part of the resolved options, so the program decides where to print them.

use std::fmt;

/// The position of a line: a file name (or `command-line`) and a line number from 1 (0 for `-o`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The file's name as opened, or `command-line`.
    pub file: String,
    /// Line number in that file; 0 for the command line.
    pub line: u32,
}

impl Place {
    /// True if the position is in a file, not on the command line.
    pub fn is_file(&self) -> bool {
        self.line > 0
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} line {}", self.file, self.line)
    }
}

/// The log level of a [`Warning`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Log it at the default level.
    Notice,
    /// A later version will carry out the keyword, which is the first word of the text: all such
    /// keywords share one line at the default level.
    Later,
    /// Log it only with `-v` (deprecated and unsupported keywords, as in OpenSSH).
    Debug,
}

/// A setting that was accepted but is not carried out as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The position of the keyword.
    pub place: Place,
    /// The text for the user, without the position.
    pub text: String,
    /// The log level.
    pub severity: Severity,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.text)
    }
}

/// Why a configuration cannot be used. `Display` prints one line per error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// Bad lines: a complete message with its position for each, and the name of the file.
    BadLines {
        /// One message per bad line, in the order of the file.
        messages: Vec<String>,
        /// The file named in the closing line.
        file: String,
    },
    /// A file could not be opened or read.
    Unreadable {
        /// The file.
        file: String,
        /// The system's reason.
        reason: String,
    },
    /// The lines are valid, but contradict each other.
    Refused(String),
    /// The encoded form of a configuration is damaged.
    Damaged(&'static str),
}

/// A value is of another type than its keyword's option.
pub(crate) const MISTYPED: ConfigError =
    ConfigError::Damaged("a value is of another type than its keyword");

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigError::BadLines { messages, file } => {
                write!(f, "{}", messages.join("\n"))?;
                match messages.len() {
                    // The message is complete already.
                    1 => Ok(()),
                    count => write!(
                        f,
                        "\n{file}: terminating, {count} bad configuration options"
                    ),
                }
            }
            ConfigError::Unreadable { file, reason } => {
                write!(f, "Can't open configuration file {file}: {reason}")
            }
            ConfigError::Refused(text) => f.write_str(text),
            ConfigError::Damaged(what) => write!(f, "damaged configuration blob: {what}"),
        }
    }
}

impl std::error::Error for ConfigError {}
