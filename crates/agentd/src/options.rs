//! The command line of `fulmar agent`, as ssh-agent(1) has it.

use std::ffi::OsString;
use std::path::PathBuf;

use crypto::hash::HashAlgorithm;
use flags::{CommandLine, Word};
use keys::fingerprint;
use keys::time::parse_interval;

/// The task that the command line selects.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// Holds keys.
    Serve(Box<ServeOptions>),
    /// Ends the agent of `SSH_AGENT_PID`.
    Kill { shell: Option<Shell> },
    /// Removes sockets without an agent; those of all hosts too.
    Clean { of_any_host: bool },
    /// Prints the version.
    Version,
}

/// The shell whose commands are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shell {
    Bourne,
    C,
}

/// How long the agent runs, and where it writes messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RunMode {
    Background,
    Foreground,
    Debug,
    /// Until this program ends, which it starts.
    Command(Vec<OsString>),
}

/// Where the socket is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SocketChoice {
    /// In ~/.ssh/agent, or from the service manager.
    Default,
    /// At this path (`-a`).
    Path(PathBuf),
    /// At this place (`-A`).
    Place(String),
    /// In a new directory below `TMPDIR` (`-T`).
    Temporary,
}

/// The options of an agent that holds keys.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ServeOptions {
    pub(crate) mode: RunMode,
    pub(crate) shell: Option<Shell>,
    pub(crate) socket: SocketChoice,
    pub(crate) keeps_stale_sockets: bool,
    /// `-t`: lifetime in seconds of keys that are added without one; `None` for no limit.
    pub(crate) lifetime: Option<u64>,
    pub(crate) fingerprint_hash: HashAlgorithm,
    pub(crate) allows_remote_providers: bool,
    pub(crate) providers: ProviderRules,
}

/// Which libraries and which applications of security keys are permitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProviderRules {
    /// Patterns of the canonical paths of libraries for security keys and tokens (`-P`).
    pub(crate) allowed: String,
    /// Patterns of the applications whose keys sign any data (`-O websafe-allow`); `None` for all
    /// (`-O no-restrict-websafe`).
    pub(crate) websafe: Option<String>,
}

/// The libraries that are permitted without `-P`, as in OpenSSH.
const DEFAULT_PROVIDERS: &str = "/usr/lib*/*,/usr/local/lib*/*";
/// The applications that are permitted without `-O`, as in OpenSSH.
const DEFAULT_WEBSAFE: &str = "ssh:*";

/// A command line that is refused: the message, and whether the usage follows it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BadUsage {
    pub(crate) message: String,
    pub(crate) shows_usage: bool,
}

fn usage(message: impl Into<String>) -> BadUsage {
    BadUsage {
        message: message.into(),
        shows_usage: true,
    }
}

fn wrong(message: impl Into<String>) -> BadUsage {
    BadUsage {
        message: message.into(),
        shows_usage: false,
    }
}

#[derive(Default)]
struct Read {
    shell: Option<Shell>,
    mode: Option<RunMode>,
    socket: Option<SocketChoice>,
    kills: bool,
    cleans: u8,
    version: bool,
    keeps_stale_sockets: bool,
    lifetime: Option<u64>,
    fingerprint_hash: Option<HashAlgorithm>,
    allows_remote_providers: bool,
    providers: Option<String>,
    websafe: Option<String>,
    allows_any_application: bool,
    command: Vec<OsString>,
}

/// Reads the arguments, without the program's name.
pub(crate) fn parse(args: Vec<OsString>) -> Result<Task, BadUsage> {
    let mut line = CommandLine::new(flags::AGENT, args);
    let mut read = Read::default();
    while let Some(word) = line.next().map_err(|error| usage(error.to_string()))? {
        match word {
            Word::Flag(flag, value) => read.apply(flag, value)?,
            Word::Operand(operand) => read.command.push(operand),
        }
    }
    read.task()
}

impl Read {
    fn apply(&mut self, flag: &'static str, value: OsString) -> Result<(), BadUsage> {
        match flag {
            "c" => self.choose_shell(Shell::C)?,
            "s" => self.choose_shell(Shell::Bourne)?,
            "D" => self.choose_mode(RunMode::Foreground)?,
            "d" => self.choose_mode(RunMode::Debug)?,
            "k" => self.kills = true,
            "u" => self.cleans = self.cleans.saturating_add(1),
            "U" => self.keeps_stale_sockets = true,
            "V" => self.version = true,
            "T" => self.choose_socket(SocketChoice::Temporary)?,
            "a" => self.choose_socket(SocketChoice::Path(value.into()))?,
            _ => {
                let text = value
                    .into_string()
                    .map_err(|_| wrong(format!("-{flag}: value is not UTF-8")))?;
                self.apply_text(flag, text)?;
            }
        }
        Ok(())
    }

    fn apply_text(&mut self, flag: &'static str, text: String) -> Result<(), BadUsage> {
        match flag {
            "A" => {
                let is_place = text.starts_with("user:") || text.starts_with("shared:/");
                if !is_place {
                    let text = "-A needs user:DIRECTORY or shared:/DIRECTORY";
                    return Err(wrong(text));
                }
                self.choose_socket(SocketChoice::Place(text))?;
            }
            "E" => {
                let hash = fingerprint::algorithm_from_name(&text);
                let hash = hash.ok_or(wrong(format!("Invalid hash algorithm \"{text}\"")))?;
                self.fingerprint_hash = Some(hash);
            }
            "t" => {
                let seconds = parse_interval(&text).ok_or(usage("Invalid lifetime"))?;
                self.lifetime = (seconds > 0).then_some(seconds);
            }
            "P" if self.providers.is_some() => return Err(wrong("-P option already specified")),
            "P" => self.providers = Some(text),
            "O" => match text.as_str() {
                "allow-remote-pkcs11" => self.allows_remote_providers = true,
                "no-restrict-websafe" => self.allows_any_application = true,
                other => match other.strip_prefix("websafe-allow=") {
                    Some(_) if self.websafe.is_some() => {
                        return Err(wrong("websafe-allow already set"));
                    }
                    Some(patterns) => self.websafe = Some(patterns.to_owned()),
                    None => return Err(wrong("Unknown -O option")),
                },
            },
            other => return Err(usage(format!("unknown option -- {other}"))),
        }
        Ok(())
    }

    fn choose_shell(&mut self, shell: Shell) -> Result<(), BadUsage> {
        match self.shell.replace(shell) {
            Some(other) if other != shell => Err(usage("")),
            _ => Ok(()),
        }
    }

    fn choose_mode(&mut self, mode: RunMode) -> Result<(), BadUsage> {
        match self.mode.replace(mode) {
            Some(_) => Err(usage("")),
            None => Ok(()),
        }
    }

    fn choose_socket(&mut self, socket: SocketChoice) -> Result<(), BadUsage> {
        match self.socket.replace(socket) {
            Some(_) => Err(usage("give one of -A, -a and -T")),
            None => Ok(()),
        }
    }

    fn task(self) -> Result<Task, BadUsage> {
        if self.version {
            return Ok(Task::Version);
        }
        let is_plain = self.shell.is_none() && self.mode.is_none() && !self.kills;
        if !self.command.is_empty() && (!is_plain || self.cleans > 0) {
            return Err(usage(""));
        }
        if self.kills {
            return Ok(Task::Kill { shell: self.shell });
        }
        if self.cleans > 0 {
            return Ok(Task::Clean {
                of_any_host: self.cleans > 1,
            });
        }
        let mode = match self.mode {
            Some(mode) => mode,
            None if self.command.is_empty() => RunMode::Background,
            None => RunMode::Command(self.command),
        };
        Ok(Task::Serve(Box::new(ServeOptions {
            mode,
            shell: self.shell,
            socket: self.socket.unwrap_or(SocketChoice::Default),
            keeps_stale_sockets: self.keeps_stale_sockets,
            lifetime: self.lifetime,
            fingerprint_hash: self.fingerprint_hash.unwrap_or(HashAlgorithm::Sha256),
            allows_remote_providers: self.allows_remote_providers,
            providers: ProviderRules {
                allowed: self
                    .providers
                    .unwrap_or_else(|| DEFAULT_PROVIDERS.to_owned()),
                websafe: (!self.allows_any_application)
                    .then(|| self.websafe.unwrap_or_else(|| DEFAULT_WEBSAFE.to_owned())),
            },
        })))
    }
}

impl Shell {
    /// The shell of `SHELL`.
    pub(crate) fn of_environment() -> Self {
        let shell = std::env::var_os("SHELL").unwrap_or_default();
        match shell.as_encoded_bytes().ends_with(b"csh") {
            true => Self::C,
            false => Self::Bourne,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Task, BadUsage> {
        parse(line.split_whitespace().map(OsString::from).collect())
    }

    fn served(line: &str) -> ServeOptions {
        match read(line) {
            Ok(Task::Serve(options)) => *options,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn each_flag_of_the_table_is_known() {
        for flag in flags::AGENT {
            let args = [format!("-{}", flag.name), "user:x".to_owned()];
            let parsed = parse(args.map(OsString::from).to_vec());
            let is_unknown = |error: &BadUsage| error.message.starts_with("unknown option");
            assert!(!parsed.as_ref().is_err_and(is_unknown), "-{}", flag.name);
        }
    }

    #[test]
    fn a_command_follows_the_flags_and_excludes_those_of_a_shell() {
        let options = served("-t 1h -T xterm -e -c x");
        let words = ["xterm", "-e", "-c", "x"].map(OsString::from).to_vec();
        assert_eq!(options.mode, RunMode::Command(words));
        assert_eq!(options.lifetime, Some(3600));
        for flag in ["-c", "-s", "-d", "-D", "-k"] {
            assert!(read(&format!("{flag} xterm")).is_err(), "{flag}");
        }
    }

    #[test]
    fn contradictions_are_refused() {
        for line in [
            "-c -s",
            "-d -D",
            "-D -D",
            "-a x -T",
            "-a x -A user:y",
            "-A /tmp",
            "-A shared:tmp",
            "-t 1x",
            "-E nothing",
            "-O nothing",
            "-P a -P b",
            "-x",
        ] {
            assert!(read(line).is_err(), "{line}");
        }
        assert_eq!(read("-uu"), Ok(Task::Clean { of_any_host: true }));
        assert_eq!(
            read("-c -k"),
            Ok(Task::Kill {
                shell: Some(Shell::C)
            })
        );
    }
}
