//! What the config room says when a file cannot be used: errors with file and line, and warnings.
//!
//! A configuration is refused as a whole: every bad line is named, then the count. Warnings go with
//! the resolved options, so the program decides where they are printed.

use std::fmt;

/// Where a line stands: a file name (or `command-line`) and a line number that starts at 1 (0 for `-o`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// File as it was opened, or `command-line`.
    pub file: String,
    /// Line number in that file; 0 for the command line.
    pub line: u32,
}

impl Place {
    /// Whether it is in a file, not on the command line.
    pub fn is_file(&self) -> bool {
        self.line > 0
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} line {}", self.file, self.line)
    }
}

/// How loudly a [`Warning`] is to be said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Say it at the default log level.
    Notice,
    /// The keyword, which is the first word of the text, belongs to a later version: all of them are worth one line
    /// at the default log level.
    Later,
    /// Say it only with `-v` (deprecated and unsupported keywords, as OpenSSH does).
    Debug,
}

/// Something that was accepted but does not do what the file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// Where the keyword stands.
    pub place: Place,
    /// The sentence for the user, without the place.
    pub text: String,
    /// How loudly.
    pub severity: Severity,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.text)
    }
}

/// A configuration that cannot be used. `Display` gives one line per complaint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// Lines that could not be read, each a whole message with its place, and what they were found in.
    BadLines {
        /// One message per bad line, in the order of the file.
        messages: Vec<String>,
        /// The file named in the closing sentence.
        file: String,
    },
    /// A file could not be opened or read.
    Unreadable {
        /// The file.
        file: String,
        /// The system's reason.
        reason: String,
    },
    /// The lines are good, but together they cannot be carried out.
    Refused(String),
    /// An encoded configuration is damaged (see [`crate::codec`]).
    Damaged(&'static str),
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigError::BadLines { messages, file } => {
                write!(f, "{}", messages.join("\n"))?;
                match messages.len() {
                    // Nothing that the message has not said.
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
