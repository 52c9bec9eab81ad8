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

use ::flags::{CommandLine, Word};
use config::forward::{ForwardKind, ForwardSpec};
use destination::Destination;
use driver::forward::ForwardTarget;
use escape::LogLevel;
pub use usage::USAGE;

/// One setting from the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Setting {
    /// `-o`: a line in the form of a configuration file.
    Line(String),
    /// A flag that sets a keyword; the value is taken whole, never split or unquoted.
    Keyword(&'static str, String),
    /// A flag that sets a keyword with several values.
    Words(&'static str, Vec<String>),
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
    /// `-Z`: list the keys that would be tried.
    ListKeys,
    /// `-V`: print the version.
    Version,
    /// `-Q`: list names.
    Query(String),
}

/// A request of `-O` to the master of a shared connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MasterCommand {
    /// Is it there?
    Check,
    /// Add the forwardings of the command line.
    Forward,
    /// End them.
    Cancel,
    /// End the connection.
    Exit,
    /// Take no more sessions.
    Stop,
    /// Addresses, algorithms and traffic.
    Conninfo,
    /// The open channels.
    Channels,
    /// Sessions, forwardings, bytes, round trip and age.
    Status {
        /// As JSON (`--json`).
        json: bool,
    },
    /// Pass on the messages of a session of this process.
    Proxy,
}

impl MasterCommand {
    fn parse(word: &str) -> Result<Self, FlagError> {
        Ok(match word {
            "check" => Self::Check,
            "forward" => Self::Forward,
            "cancel" => Self::Cancel,
            "exit" => Self::Exit,
            "stop" => Self::Stop,
            "conninfo" => Self::Conninfo,
            "channels" => Self::Channels,
            "status" => Self::Status { json: false },
            "proxy" => Self::Proxy,
            _ => return Err(FlagError::Refused("Invalid multiplex command.".into())),
        })
    }
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
    /// `-W`: the host and port, or socket, to which standard input and output are forwarded.
    pub stdio_forward: Option<ForwardTarget>,
    /// `-s`: the command is a subsystem's name.
    pub subsystem: bool,
    /// `-n`: standard input is not read.
    pub null_stdin: bool,
    /// `-O`: the request to a master.
    pub sharing: Option<MasterCommand>,
    /// `--json`: the status is printed as JSON.
    pub json: bool,
}

/// Why a command line is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FlagError {
    /// Show the usage text.
    Usage,
    /// It cannot be read: `ssh: unknown option -- x`, then usage.
    Unreadable(::flags::Error),
    /// A complete sentence for the user.
    Refused(String),
}

impl fmt::Display for FlagError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage => f.write_str(USAGE),
            Self::Unreadable(error) => write!(f, "ssh: {error}\n{USAGE}"),
            Self::Refused(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for FlagError {}

impl From<::flags::Error> for FlagError {
    fn from(error: ::flags::Error) -> Self {
        Self::Unreadable(error)
    }
}

/// A session that another program in this process asks for: what a command line of `ssh` says, as
/// values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRequest {
    /// Names of flags, without dashes, and their values, empty for flags without one. The order
    /// counts as on a command line.
    pub flags: Vec<(&'static str, OsString)>,
    /// The destination, in the form of the command line's.
    pub host: String,
    /// The remote command, or the name of the subsystem with the flag `s`.
    pub command: OsString,
}

impl SessionRequest {
    /// Checks the values, as [`parse`] does.
    ///
    /// # Errors
    /// Those of [`parse`].
    pub fn into_flags(self) -> Result<Flags, FlagError> {
        let mut parser = Parser::new();
        for (flag, value) in &self.flags {
            parser.flag(flag, text(value)?)?;
        }
        parser.destination(Destination::parse(&self.host)?);
        finish(&mut parser.flags, &[self.command])?;
        Ok(parser.flags)
    }
}

/// Parses the arguments, without the program's name.
///
/// # Errors
/// [`FlagError`]: print it and end with 255.
pub fn parse(args: Vec<OsString>) -> Result<Flags, FlagError> {
    let mut line = CommandLine::new(::flags::SSH, args);
    let mut parser = Parser::new();
    let mut command = Vec::new();
    while let Some(word) = line.next()? {
        match word {
            Word::Flag(flag, value) => parser.flag(flag, text(&value)?)?,
            Word::Operand(operand) if parser.flags.destination.is_none() => {
                parser.destination(Destination::parse(text(&operand)?)?);
                line.resume_flags();
            }
            Word::Operand(operand) => command.push(operand),
        }
        // Flags may follow the destination, but none the first word of the command.
        let ends_here = line.has_ended_flags() && parser.flags.destination.is_some();
        if parser.is_done() || ends_here || !command.is_empty() {
            break;
        }
    }
    command.extend(line.rest());
    let mut flags = parser.flags;
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
    match &mut flags.sharing {
        Some(MasterCommand::Status { json }) => *json = flags.json,
        _ if flags.json => {
            return Err(FlagError::Refused("--json: only with -O status.".into()));
        }
        _ => {}
    }
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
    flags: Flags,
}

impl Parser {
    fn new() -> Self {
        Self {
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
                sharing: None,
                json: false,
            },
        }
    }

    fn is_done(&self) -> bool {
        matches!(self.flags.action, Action::Version | Action::Query(_))
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

    fn flag(&mut self, flag: &str, value: &str) -> Result<(), FlagError> {
        match flag {
            "1" => {
                return Err(FlagError::Refused(
                    "SSH protocol v.1 is not supported.".into(),
                ));
            }
            "4" => self.force("AddressFamily", "inet"),
            "6" => self.force("AddressFamily", "inet6"),
            "A" => self.force("ForwardAgent", "yes"),
            "a" => self.force("ForwardAgent", "no"),
            "x" => {
                self.force("ForwardX11", "no");
                self.force("ForwardX11Trusted", "no");
            }
            "k" => self.force("GSSAPIDelegateCredentials", "no"),
            "K" => {
                self.force("GSSAPIAuthentication", "yes");
                self.force("GSSAPIDelegateCredentials", "yes");
            }
            "C" => self.force("Compression", "yes"),
            "f" => {
                self.force("ForkAfterAuthentication", "yes");
                self.force("StdinNull", "yes");
            }
            "n" => {
                self.flags.null_stdin = true;
                self.force("StdinNull", "yes");
            }
            "N" => {
                self.force("SessionType", "none");
                self.force("RequestTTY", "no");
            }
            "s" => {
                self.flags.subsystem = true;
                self.force("SessionType", "subsystem");
            }
            "T" => self.force("RequestTTY", "no"),
            "t" => self.force_tty(),
            "G" => self.flags.action = Action::PrintConfig,
            "json" => self.flags.json = true,
            // As in OpenSSH, -G beside it prints the settings.
            "Z" if self.flags.action == Action::PrintConfig => {}
            "Z" => self.flags.action = Action::ListKeys,
            "V" => self.flags.action = Action::Version,
            "q" => self.flags.level = Some(LogLevel::Quiet),
            "v" => {
                self.flags.level = Some(match self.flags.level {
                    Some(level) if level >= LogLevel::Debug1 => level.louder(),
                    _ => LogLevel::Debug1,
                });
            }
            "M" => self.force_master(),
            "X" => self.force("ForwardX11", "yes"),
            "Y" => {
                self.force("ForwardX11", "yes");
                self.force("ForwardX11Trusted", "yes");
            }
            "y" => self.flags.syslog = true,
            "g" => self.force("GatewayPorts", "yes"),
            _ => self.valued(flag, value)?,
        }
        Ok(())
    }

    /// True if a setting so far has this keyword.
    fn sets(&self, name: &str) -> bool {
        self.flags.settings.iter().any(|setting| match setting {
            Setting::Keyword(keyword, _) | Setting::Words(keyword, _) => *keyword == name,
            Setting::Line(line) => line
                .get(..name.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(name)),
            Setting::Identity(_) => false,
        })
    }

    /// `-J`, a ProxyJump with OpenSSH's message of its own.
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
        if !config::destination::is_jump_list(value) {
            return refused("Invalid -J argument");
        }
        self.keyword("ProxyJump", value);
        Ok(())
    }

    /// `-L`, `-R` and `-D` add to the forwardings of the files.
    fn forwarding(&mut self, kind: ForwardKind, value: &str) -> Result<(), FlagError> {
        let (keyword, name) = match kind {
            ForwardKind::Local => ("LocalForward", "local"),
            ForwardKind::Remote => ("RemoteForward", "remote"),
            ForwardKind::Dynamic => ("DynamicForward", "dynamic"),
        };
        let spec = ForwardSpec::parse(value, kind).ok_or_else(|| {
            FlagError::Refused(format!(
                "Bad {name} forwarding specification '{}'",
                shown(value)
            ))
        })?;
        let words = Setting::Words(keyword, spec.words());
        self.flags.settings.push(words);
        Ok(())
    }

    /// `-t` asks for a terminal, a second one in a row for a terminal in any case; a
    /// third one counts as the first.
    fn force_tty(&mut self) {
        let settings = &self.flags.settings;
        let last = settings.iter().find_map(|setting| match setting {
            Setting::Keyword("RequestTTY", value) => Some(value.as_str()),
            _ => None,
        });
        let value = match last {
            Some("yes") => "force",
            _ => "yes",
        };
        self.force("RequestTTY", value);
    }

    /// `-M` makes this process a master, a second one in a row a master that asks.
    fn force_master(&mut self) {
        let settings = &self.flags.settings;
        let is_master = settings.iter().any(
            |setting| matches!(setting, Setting::Keyword("ControlMaster", value) if value == "yes"),
        );
        self.force("ControlMaster", if is_master { "ask" } else { "yes" });
    }

    fn master_command(&mut self, value: &str) -> Result<(), FlagError> {
        let refused = |text: &str| Err(FlagError::Refused(text.to_owned()));
        if self.flags.stdio_forward.is_some() {
            return refused("Cannot specify multiplexing command with -W");
        }
        if self.flags.sharing.is_some() {
            return refused("Multiplexing command already specified");
        }
        self.flags.sharing = Some(MasterCommand::parse(value)?);
        Ok(())
    }

    fn valued(&mut self, flag: &str, value: &str) -> Result<(), FlagError> {
        match flag {
            "B" => self.force("BindInterface", value),
            "b" => self.force("BindAddress", value),
            "c" => self.force("Ciphers", value),
            "m" => self.force("MACs", value),
            "e" => self.force("EscapeChar", escape_character(value)?),
            "I" => self.force("PKCS11Provider", value),
            "J" => self.jump(value)?,
            "l" => self.keyword("User", value),
            "P" => self.keyword("Tag", value),
            // As in OpenSSH, a second -p is ignored, whatever its value.
            "p" if self.sets("Port") => {}
            "p" => {
                let port = destination::port(value)
                    .ok_or_else(|| FlagError::Refused(format!("Bad port '{}'", shown(value))))?;
                self.keyword("Port", &port.to_string());
            }
            "i" => self
                .flags
                .settings
                .push(Setting::Identity(value.to_owned())),
            "o" => self.flags.settings.push(Setting::Line(value.to_owned())),
            "F" => self.flags.config_file = Some(value.to_owned()),
            "E" => self.flags.log_file = Some(value.to_owned()),
            "Q" => self.flags.action = Action::Query(value.to_owned()),
            "W" => {
                let target = match destination::host_and_port(value) {
                    Some((host, port)) => ForwardTarget::Tcp { host, port },
                    None if value.contains('/') => ForwardTarget::Unix(value.into()),
                    None => {
                        return Err(FlagError::Refused(format!(
                            "Bad stdio forwarding specification '{}': write host:port",
                            shown(value)
                        )));
                    }
                };
                if self.flags.stdio_forward.is_some() {
                    return Err(FlagError::Refused("-W may be given only once.".into()));
                }
                if self.flags.sharing.is_some() {
                    return Err(FlagError::Refused(
                        "Cannot specify stdio forward with -O".into(),
                    ));
                }
                self.flags.stdio_forward = Some(target);
                self.force("SessionType", "none");
                self.force("RequestTTY", "no");
            }
            "L" => self.forwarding(ForwardKind::Local, value)?,
            "R" => self.forwarding(ForwardKind::Remote, value)?,
            "D" => self.forwarding(ForwardKind::Dynamic, value)?,
            "w" => {
                let bad = || FlagError::Refused(format!("Bad tun device '{}'", shown(value)));
                config::client::TunnelDevice::parse(value).ok_or_else(bad)?;
                self.keyword("Tunnel", "point-to-point");
                self.force("TunnelDevice", value);
            }
            "O" => self.master_command(value)?,
            "S" => self.force("ControlPath", value),
            // The only version of the protocol.
            "2" => {}
            other => return Err(::flags::Error::Unknown(other.to_owned()).into()),
        }
        Ok(())
    }
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
