//! The command line of `ssh`: parsed as getopt(3) does, and turned into settings in the order given
//! (the first value of a keyword wins).
//!
//! `config` defines the settings, [`destination`] the form of a destination, and [`query`] the
//! answers of `-Q`.

pub mod destination;
pub mod query;
mod usage;

#[cfg(test)]
mod tests;

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use destination::Destination;
use escape::LogLevel;
pub use usage::USAGE;

/// Flags without a value, as getopt writes them.
const PLAIN: &[u8] = b"1246AaCfGgKkMNnqsTtVvXxYy";
/// Flags with a value.
const VALUED: &[u8] = b"BbcDEeFIiJLlmOopPQRSWw";

/// One setting from the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Setting {
    /// `-o`: a line in the form of a configuration file.
    Line(String),
    /// A flag that sets a keyword; the value is taken whole, never split or unquoted.
    Keyword(&'static str, String),
    /// `-i`: an identity file.
    Identity(String),
}

/// What the program is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Log in.
    Connect,
    /// `-G`: print the settings for the host.
    PrintConfig,
    /// `-V`: print the version.
    Version,
    /// `-Q`: list names.
    Query(String),
}

/// A parsed command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flags {
    /// What to do.
    pub action: Action,
    /// The destination; `None` only for [`Action::Version`] and [`Action::Query`].
    pub destination: Option<Destination>,
    /// The remote command: the remaining arguments, joined by spaces.
    pub command: Option<Vec<u8>>,
    /// Settings in the order in which they take effect: the first value of a keyword wins. Includes
    /// those of the destination.
    pub settings: Vec<Setting>,
    /// `-F`: the only configuration file.
    pub config_file: Option<String>,
    /// `-E`: the file for messages.
    pub log_file: Option<String>,
    /// `-y`: messages go to syslog.
    pub syslog: bool,
    /// The level of `-v` (up to three) or `-q`.
    pub level: Option<LogLevel>,
    /// `-W`: the host and port to which standard input and output are forwarded.
    pub stdio_forward: Option<(String, u16)>,
    /// `-s`: the command is a subsystem's name.
    pub subsystem: bool,
    /// `-n`: standard input is not read.
    pub null_stdin: bool,
    /// Notices about flags whose feature is not implemented yet.
    pub unheeded: Vec<&'static str>,
}

/// Why a command line is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FlagError {
    /// Show the usage text.
    Usage,
    /// `ssh: unknown option -- x`, then usage.
    Unknown(char),
    /// The option needs a value; then usage.
    MissingValue(char),
    /// A complete sentence for the user.
    Refused(String),
}

impl fmt::Display for FlagError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage => f.write_str(USAGE),
            Self::Unknown(flag) => write!(f, "ssh: unknown option -- {flag}\n{USAGE}"),
            Self::MissingValue(flag) => {
                write!(f, "ssh: option requires an argument -- {flag}\n{USAGE}")
            }
            Self::Refused(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for FlagError {}

/// Parses the arguments, without the program's name.
///
/// # Errors
/// [`FlagError`]: print it and end with 255.
pub fn parse(args: Vec<OsString>) -> Result<Flags, FlagError> {
    let mut parser = Parser::new(args);
    loop {
        parser.take_flags()?;
        if parser.flags.destination.is_some() || parser.is_done() {
            break;
        }
        let Some(word) = parser.rest.next() else {
            break;
        };
        parser.destination(Destination::parse(text(&word)?)?);
        if parser.terminated {
            break;
        }
    }
    let mut flags = parser.flags;
    let command: Vec<OsString> = parser.rest.collect();
    finish(&mut flags, &command)?;
    Ok(flags)
}

fn finish(flags: &mut Flags, command: &[OsString]) -> Result<(), FlagError> {
    if matches!(flags.action, Action::Version | Action::Query(_)) {
        return Ok(());
    }
    if flags.destination.is_none() {
        return Err(FlagError::Usage);
    }
    let names_subsystem = |setting: &Setting| match setting {
        Setting::Line(line) => matches!(
            config::lexer::read_line(line),
            Ok(Some(line)) if line.keyword.eq_ignore_ascii_case("SessionType")
                && line.rest.eq_ignore_ascii_case("subsystem")
        ),
        _ => false,
    };
    let wants_subsystem = flags.subsystem || flags.settings.iter().any(names_subsystem);
    if wants_subsystem && command.is_empty() {
        return Err(FlagError::Refused(
            "-s: name the subsystem to start, after the host.".into(),
        ));
    }
    if !command.is_empty() {
        if flags.stdio_forward.is_some() {
            return Err(FlagError::Refused("-W takes no remote command.".into()));
        }
        flags.command = Some(command.join(OsStr::new(" ")).into_vec());
    }
    Ok(())
}

struct Parser {
    rest: std::vec::IntoIter<OsString>,
    flags: Flags,
    terminated: bool,
}

impl Parser {
    fn new(args: Vec<OsString>) -> Self {
        Self {
            rest: args.into_iter(),
            terminated: false,
            flags: Flags {
                action: Action::Connect,
                destination: None,
                command: None,
                settings: Vec::new(),
                config_file: None,
                log_file: None,
                syslog: false,
                level: None,
                stdio_forward: None,
                subsystem: false,
                null_stdin: false,
                unheeded: Vec::new(),
            },
        }
    }

    fn is_done(&self) -> bool {
        matches!(self.flags.action, Action::Version | Action::Query(_))
    }

    /// Parses flags until the first word that is not a flag (which is left) or `--` (which is
    /// consumed).
    fn take_flags(&mut self) -> Result<(), FlagError> {
        while let Some(word) = self.rest.as_slice().first() {
            let bytes = word.as_bytes();
            if bytes == b"--" {
                self.terminated = true;
                self.rest.next();
                return Ok(());
            }
            let Some(cluster) = bytes.strip_prefix(b"-").filter(|rest| !rest.is_empty()) else {
                return Ok(());
            };
            let cluster = cluster.to_vec();
            self.rest.next();
            self.take_cluster(&cluster)?;
            if self.is_done() {
                return Ok(());
            }
        }
        Ok(())
    }

    fn take_cluster(&mut self, mut cluster: &[u8]) -> Result<(), FlagError> {
        while let Some((&flag, rest)) = cluster.split_first() {
            cluster = rest;
            if PLAIN.contains(&flag) {
                self.plain(flag)?;
            } else if VALUED.contains(&flag) {
                let value = if cluster.is_empty() {
                    self.rest
                        .next()
                        .ok_or(FlagError::MissingValue(char::from(flag)))?
                } else {
                    OsString::from_vec(cluster.to_vec())
                };
                return self.valued(flag, text(&value)?);
            } else {
                return Err(FlagError::Unknown(if flag.is_ascii_graphic() {
                    char::from(flag)
                } else {
                    '?'
                }));
            }
        }
        Ok(())
    }

    /// User and port of a destination have the rank of flags: they count only if nothing before set
    /// them.
    fn destination(&mut self, destination: Destination) {
        if let Some(user) = &destination.user {
            self.keyword("User", user);
        }
        if let Some(port) = destination.port {
            self.keyword("Port", &port.to_string());
        }
        self.flags.destination = Some(destination);
    }

    /// A flag that counts only if nothing before set the keyword: `-l`, `-p`.
    fn keyword(&mut self, keyword: &'static str, value: &str) {
        self.flags
            .settings
            .push(Setting::Keyword(keyword, value.to_owned()));
    }

    /// A flag that overrides everything before it, `-o` included: the last of `-4 -6` or `-t -T`
    /// counts. The first value of a keyword wins, so it is inserted in front.
    fn force(&mut self, keyword: &'static str, value: &str) {
        self.flags
            .settings
            .insert(0, Setting::Keyword(keyword, value.to_owned()));
    }

    fn unheeded(&mut self, text: &'static str) {
        if !self.flags.unheeded.contains(&text) {
            self.flags.unheeded.push(text);
        }
    }

    fn plain(&mut self, flag: u8) -> Result<(), FlagError> {
        match flag {
            b'1' => {
                return Err(FlagError::Refused(
                    "SSH protocol v.1 is not supported.".into(),
                ));
            }
            b'4' => self.force("AddressFamily", "inet"),
            b'6' => self.force("AddressFamily", "inet6"),
            b'a' => self.force("ForwardAgent", "no"),
            b'x' => {
                self.force("ForwardX11", "no");
                self.force("ForwardX11Trusted", "no");
            }
            b'k' => self.keyword("GSSAPIDelegateCredentials", "no"),
            b'K' => self.unheeded("-K: GSSAPI is not carried out yet; ignored"),
            b'C' => self.force("Compression", "yes"),
            b'f' => {
                self.force("ForkAfterAuthentication", "yes");
                self.force("StdinNull", "yes");
            }
            b'n' => {
                self.flags.null_stdin = true;
                self.force("StdinNull", "yes");
            }
            b'N' => {
                self.force("SessionType", "none");
                self.force("RequestTTY", "no");
            }
            b's' => {
                self.flags.subsystem = true;
                self.force("SessionType", "subsystem");
            }
            b'T' => self.force("RequestTTY", "no"),
            b't' => self.force_tty(),
            b'G' => self.flags.action = Action::PrintConfig,
            b'V' => self.flags.action = Action::Version,
            b'q' => self.flags.level = Some(LogLevel::Quiet),
            b'v' => {
                self.flags.level = Some(match self.flags.level {
                    Some(level) if level >= LogLevel::Debug1 => level.louder(),
                    _ => LogLevel::Debug1,
                });
            }
            b'A' => return Err(later("-A", "agent forwarding")),
            b'M' => return Err(later("-M", "connection sharing")),
            b'X' => return Err(later("-X", "X11 forwarding")),
            b'Y' => return Err(later("-Y", "X11 forwarding")),
            b'y' => self.flags.syslog = true,
            b'g' => {
                self.unheeded("-g: forwardings are not carried out yet; ignored");
                self.force("GatewayPorts", "yes");
            }
            // `-2`: the only version of the protocol.
            _ => {}
        }
        Ok(())
    }

    /// True if a setting so far has this keyword.
    fn sets(&self, name: &str) -> bool {
        self.flags.settings.iter().any(|setting| match setting {
            Setting::Keyword(keyword, _) => *keyword == name,
            Setting::Line(line) => line
                .get(..name.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(name)),
            Setting::Identity(_) => false,
        })
    }

    /// `-J`: checked here, so that a bad hop is not reported as an error in a line of a file.
    fn jump(&mut self, value: &str) -> Result<(), FlagError> {
        let refused = |text: &str| Err(FlagError::Refused(text.to_owned()));
        if self.sets("ProxyJump") {
            return refused(
                "Only a single -J option is permitted (use commas to separate multiple jump hops)",
            );
        }
        if self.sets("ProxyCommand") {
            return refused("Cannot specify -J with ProxyCommand");
        }
        let is_hop = |hop: &str| config::destination::parse_hop(hop).is_some();
        if !value.eq_ignore_ascii_case("none") && !value.split(',').all(is_hop) {
            return refused("Invalid -J argument");
        }
        self.keyword("ProxyJump", value);
        Ok(())
    }

    /// `-t` asks for a terminal, a second one in a row for a terminal in any case.
    fn force_tty(&mut self) {
        let settings = &self.flags.settings;
        let last = settings.iter().find_map(|setting| match setting {
            Setting::Keyword("RequestTTY", value) => Some(value.as_str()),
            _ => None,
        });
        let value = match last {
            Some("yes" | "force") => "force",
            _ => "yes",
        };
        self.force("RequestTTY", value);
    }

    fn valued(&mut self, flag: u8, value: &str) -> Result<(), FlagError> {
        match flag {
            b'B' => self.force("BindInterface", value),
            b'b' => self.force("BindAddress", value),
            b'c' => self.force("Ciphers", value),
            b'm' => self.force("MACs", value),
            b'e' => self.force("EscapeChar", escape_character(value)?),
            b'I' => self.force("PKCS11Provider", value),
            b'J' => self.jump(value)?,
            b'l' => self.keyword("User", value),
            b'P' => self.keyword("Tag", value),
            // As in OpenSSH, a second -p is ignored, whatever its value.
            b'p' if self.sets("Port") => {}
            b'p' => {
                let port = destination::port(value)
                    .ok_or_else(|| FlagError::Refused(format!("Bad port '{}'", shown(value))))?;
                self.keyword("Port", &port.to_string());
            }
            b'i' => self
                .flags
                .settings
                .push(Setting::Identity(value.to_owned())),
            b'o' => self.flags.settings.push(Setting::Line(value.to_owned())),
            b'F' => self.flags.config_file = Some(value.to_owned()),
            b'E' => self.flags.log_file = Some(value.to_owned()),
            b'Q' => self.flags.action = Action::Query(value.to_owned()),
            b'W' => {
                let target = destination::host_and_port(value).ok_or_else(|| {
                    FlagError::Refused(format!(
                        "Bad stdio forwarding specification '{}': write host:port",
                        shown(value)
                    ))
                })?;
                if self.flags.stdio_forward.is_some() {
                    return Err(FlagError::Refused("-W may be given only once.".into()));
                }
                self.flags.stdio_forward = Some(target);
                self.force("SessionType", "none");
                self.force("RequestTTY", "no");
            }
            b'L' => return Err(later("-L", "forwarding of local ports")),
            b'R' => return Err(later("-R", "forwarding of remote ports")),
            b'D' => return Err(later("-D", "dynamic port forwarding")),
            b'w' => return Err(later("-w", "tunnel device forwarding")),
            b'O' => return Err(later("-O", "connection sharing")),
            // `-S none` asks for the only behaviour there is; it is common in scripts.
            b'S' if value.eq_ignore_ascii_case("none") => {}
            b'S' => return Err(later("-S", "connection sharing")),
            _ => return Err(FlagError::Unknown(char::from(flag))),
        }
        Ok(())
    }
}

fn later(flag: &str, what: &str) -> FlagError {
    FlagError::Refused(format!(
        "ssh: {flag} is not supported yet: {what} belongs to a later version of Fulmar. \
         Leave the flag out to log in without it."
    ))
}

fn escape_character(value: &str) -> Result<&str, FlagError> {
    let bytes = value.as_bytes();
    let good = value.eq_ignore_ascii_case("none")
        || bytes.len() == 1
        || matches!(bytes, [b'^', 0x40..=0x7e]);
    if good {
        Ok(value)
    } else {
        Err(FlagError::Refused(format!(
            "Bad escape character '{}'.",
            shown(value)
        )))
    }
}

fn text(word: &OsStr) -> Result<&str, FlagError> {
    word.to_str().ok_or_else(|| {
        FlagError::Refused(format!(
            "ssh: argument is not valid UTF-8: {}",
            crate::text::escape(word.as_bytes(), crate::text::Style::Line)
        ))
    })
}

fn shown(value: &str) -> String {
    crate::text::one_line(value)
}
