//! Flags of `sftp-server` and of `internal-sftp` (sftp-server(8)).

use std::fmt;

use escape::LogLevel;
use flags::{CommandLine, Word};

use super::permits::{Permits, REQUESTS};

/// Options of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Log to standard error (`-e`).
    pub to_stderr: bool,
    /// Facility of the system log (`-f`).
    pub facility: String,
    /// Log level (`-l`).
    pub level: LogLevel,
    /// Starting directory (`-d`), with `%d`, `%u` and `%%` not yet expanded.
    pub start: Option<String>,
    /// Refuse requests that change files (`-R`).
    pub read_only: bool,
    /// The umask (`-u`).
    pub umask: Option<u32>,
    /// Permit only these requests (`-p`).
    pub allowed: Option<Vec<String>>,
    /// Deny these requests (`-P`).
    pub denied: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            to_stderr: false,
            facility: "AUTH".to_owned(),
            level: LogLevel::Error,
            start: None,
            read_only: false,
            umask: None,
            allowed: None,
            denied: Vec::new(),
        }
    }
}

/// The action that the arguments select.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// Run the server.
    Serve(Box<Options>),
    /// List the names of requests (`-Q requests`).
    ListRequests,
    /// Print the usage (`-h`).
    Usage,
}

/// An error in the arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OptionsError {
    /// A flag that is unknown or lacks its value.
    Unreadable(flags::Error),
    /// The flag does not accept the value.
    BadValue {
        /// The flag.
        flag: &'static str,
        /// The value.
        value: String,
    },
    /// An argument that is not a flag's value.
    Extra(String),
}

impl fmt::Display for OptionsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(error) => error.fmt(f),
            Self::BadValue { flag: "f", value } => {
                write!(f, "Invalid log facility \"{value}\"")
            }
            Self::BadValue { flag: "l", value } => write!(f, "Invalid log level \"{value}\""),
            Self::BadValue { flag: "u", value } => write!(f, "Invalid umask \"{value}\""),
            Self::BadValue { flag: "Q", value } => write!(f, "Invalid query type \"{value}\""),
            Self::BadValue { flag, value } => {
                write!(
                    f,
                    "Invalid request \"{value}\" for -{flag} (see -Q requests)"
                )
            }
            Self::Extra(word) => write!(f, "unexpected argument {word}"),
        }
    }
}

impl std::error::Error for OptionsError {}

/// Facilities that `-f` takes.
const FACILITIES: &[&str] = &[
    "DAEMON", "USER", "AUTH", "AUTHPRIV", "LOCAL0", "LOCAL1", "LOCAL2", "LOCAL3", "LOCAL4",
    "LOCAL5", "LOCAL6", "LOCAL7",
];

impl Options {
    /// Parses the arguments after the program's name.
    ///
    /// # Errors
    /// [`OptionsError`].
    pub fn parse<S: AsRef<str>>(
        arguments: impl IntoIterator<Item = S>,
    ) -> Result<Wanted, OptionsError> {
        let arguments = arguments
            .into_iter()
            .map(|word| word.as_ref().into())
            .collect();
        let mut options = Self::default();
        let mut line = CommandLine::new(flags::SFTP_SERVER, arguments);
        while let Some(word) = line.next().map_err(OptionsError::Unreadable)? {
            let (flag, value) = match word {
                Word::Flag(flag, value) => (flag, value.to_string_lossy().into_owned()),
                Word::Operand(word) => {
                    return Err(OptionsError::Extra(word.to_string_lossy().into_owned()));
                }
            };
            match flag {
                "h" => return Ok(Wanted::Usage),
                "e" => options.to_stderr = true,
                "R" => options.read_only = true,
                // As a login shell, `sftp-server -c command`: the rest is the command.
                "c" => break,
                "Q" if value == "requests" => return Ok(Wanted::ListRequests),
                "Q" => return Err(OptionsError::BadValue { flag, value }),
                _ => options.set(flag, value)?,
            }
        }
        Ok(Wanted::Serve(Box::new(options)))
    }

    fn set(&mut self, flag: &'static str, value: String) -> Result<(), OptionsError> {
        let bad = |value: &str| OptionsError::BadValue {
            flag,
            value: value.to_owned(),
        };
        match flag {
            "d" => self.start = Some(value),
            "f" => {
                let known = |name: &&&str| name.eq_ignore_ascii_case(&value);
                let name = FACILITIES.iter().find(known);
                self.facility = (*name.ok_or_else(|| bad(&value))?).to_owned();
            }
            "l" => self.level = LogLevel::from_name(&value).ok_or_else(|| bad(&value))?,
            "u" => {
                let mask = u32::from_str_radix(&value, 8).ok();
                let mask = mask.filter(|mask| *mask <= 0o777);
                self.umask = Some(mask.ok_or_else(|| bad(&value))?);
            }
            "p" => self
                .allowed
                .get_or_insert_default()
                .extend(names(&value).map_err(|name| bad(&name))?),
            "P" => self
                .denied
                .extend(names(&value).map_err(|name| bad(&name))?),
            other => {
                return Err(OptionsError::Unreadable(flags::Error::Unknown(
                    other.into(),
                )));
            }
        }
        Ok(())
    }

    /// Returns the permitted requests.
    #[must_use]
    pub fn permits(&self) -> Permits {
        let allowed = self.allowed.as_ref();
        let allowed = allowed.map(|names| names.iter().map(String::as_str));
        let denied = self.denied.iter().map(String::as_str);
        Permits::new(self.read_only, allowed, denied)
            // The names were checked when they were parsed.
            .unwrap_or_else(|_| nothing())
    }

    /// Returns the starting directory with `%d` (home), `%u` (user) and `%%` expanded; the home
    /// directory without `-d`.
    #[must_use]
    pub fn start(&self, user: &str, home: &str) -> String {
        let Some(start) = &self.start else {
            return home.to_owned();
        };
        let mut out = String::new();
        let mut letters = start.chars();
        while let Some(letter) = letters.next() {
            if letter != '%' {
                out.push(letter);
                continue;
            }
            match letters.next() {
                Some('d') => out.push_str(home),
                Some('u') => out.push_str(user),
                Some('%') => out.push('%'),
                Some(other) => out.extend(['%', other]),
                None => out.push('%'),
            }
        }
        out
    }
}

/// Permits no request.
fn nothing() -> Permits {
    Permits::new(true, Some([""; 0]), []).unwrap_or_else(|_| Permits::everything())
}

/// Parses a list of request names.
fn names(list: &str) -> Result<Vec<String>, String> {
    list.split(',')
        .filter(|name| !name.is_empty())
        .map(|name| {
            if REQUESTS.iter().any(|info| info.name == name) {
                Ok(name.to_owned())
            } else {
                Err(name.to_owned())
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Options, OptionsError> {
        match Options::parse(words) {
            Ok(Wanted::Serve(options)) => Ok(*options),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error),
        }
    }

    #[test]
    fn flags_are_read_alone_joined_and_with_their_values() {
        let options = parse(&["-eR", "-lINFO", "-u", "027", "-f", "local3", "-d/srv/%u"]).unwrap();
        assert!(options.to_stderr && options.read_only);
        assert_eq!(options.level, LogLevel::Info);
        assert_eq!(options.umask, Some(0o027));
        assert_eq!(options.facility, "LOCAL3");
        assert_eq!(options.start("mia", "/home/mia"), "/srv/mia");
        assert_eq!(Options::default().start("mia", "/home/mia"), "/home/mia");
        let twice = parse(&["-P", "remove,rmdir", "-P", "mkdir"]).unwrap();
        assert_eq!(twice.denied, ["remove", "rmdir", "mkdir"]);
        assert!(matches!(
            Options::parse(["-Q", "requests"]),
            Ok(Wanted::ListRequests)
        ));
        // As a login shell.
        assert!(parse(&["-R", "-c", "anything --else"]).unwrap().read_only);
    }

    #[test]
    fn each_flag_of_the_table_is_known() {
        for flag in flags::SFTP_SERVER {
            let unknown = flags::Error::Unknown(flag.name.into());
            let parsed = Options::parse([&*format!("-{}", flag.name), "1"]);
            assert_ne!(parsed.err(), Some(OptionsError::Unreadable(unknown)));
        }
    }

    #[test]
    fn what_cannot_be_followed_is_named() {
        for (words, text) in [
            (&["-x"][..], "unknown option -- x"),
            (&["-u"], "option requires an argument -- u"),
            (&["-u", "1777"], "Invalid umask \"1777\""),
            (&["-l", "LOUD"], "Invalid log level \"LOUD\""),
            (
                &["-P", "open,steal"],
                "Invalid request \"steal\" for -P (see -Q requests)",
            ),
            (&["-Q", "colours"], "Invalid query type \"colours\""),
            (&["stray"], "unexpected argument stray"),
        ] {
            assert_eq!(parse(words).unwrap_err().to_string(), text);
        }
    }
}
