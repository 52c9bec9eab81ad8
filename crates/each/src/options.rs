//! The command line: `fulmar each [flags] hosts... -- command...`.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

use flags::{CommandLine, Word};

/// Hosts that work at once without `-n`.
const DEFAULT_AT_ONCE: usize = 128;
/// Largest `-n`.
const MAX_AT_ONCE: usize = 10_000;

/// How the output of the hosts is written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum OutputForm {
    /// All of a host at once, when it ends.
    #[default]
    Grouped,
    /// Line by line, each with the host's name.
    Prefixed,
    /// JSON, at least one line for a host.
    Json,
    /// Files of this directory.
    Files(PathBuf),
}

/// The work at each host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HostTask {
    /// A command.
    Run(OsString),
    /// Local files are copied to the host.
    Put(Vec<OsString>, OsString),
    /// Files of the host are copied here.
    Get(Vec<OsString>, OsString),
}

/// The parsed command line.
#[derive(Debug, Clone)]
pub(crate) struct EachOptions {
    /// The hosts as they were written.
    pub(crate) hosts: Vec<String>,
    /// `-x`: hosts to leave out.
    pub(crate) excluded: Vec<String>,
    pub(crate) task: HostTask,
    pub(crate) form: OutputForm,
    /// `-n`: most hosts that are worked on at the same time, 1 to [`MAX_AT_ONCE`].
    pub(crate) at_once: usize,
    /// `--timeout`: limit on the whole work of one host, its login included; `None` for no limit.
    pub(crate) timeout: Option<Duration>,
    /// `--first-failure`: the run ends when a host fails.
    pub(crate) first_failure: bool,
    /// `--stdin`: standard input goes to each host.
    pub(crate) stdin: bool,
    /// `-q`: no progress, no summary of failures, no note about repeated names.
    pub(crate) quiet: bool,
    pub(crate) recursive: bool,
    pub(crate) preserve: bool,
    /// Flags for `ssh`, in order.
    pub(crate) ssh: Vec<(&'static str, OsString)>,
}

/// The flag that asks for a copy, and its operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CopyWay {
    Put,
    Get,
}

/// The command line while it is read.
#[derive(Debug, Default)]
struct Draft {
    options: EachOptions,
    copy: Option<CopyWay>,
}

impl Default for EachOptions {
    fn default() -> Self {
        Self {
            hosts: Vec::new(),
            excluded: Vec::new(),
            task: HostTask::Run(OsString::new()),
            form: OutputForm::default(),
            at_once: DEFAULT_AT_ONCE,
            timeout: None,
            first_failure: false,
            stdin: false,
            quiet: false,
            recursive: false,
            preserve: false,
            ssh: Vec::new(),
        }
    }
}

impl EachOptions {
    /// Reads the arguments.
    ///
    /// # Errors
    /// The message about the mistake; empty for the usage alone.
    pub(crate) fn parse(args: Vec<OsString>) -> Result<Self, String> {
        let mut draft = Draft::default();
        let mut rest = Vec::new();
        let mut line = CommandLine::mixed(flags::EACH, args);
        while let Some(word) = line.next()? {
            match word {
                Word::Flag(flag, value) => draft.flag(flag, value)?,
                Word::Operand(word) if line.has_ended_flags() => {
                    rest.push(word);
                    rest.extend(line.rest());
                    break;
                }
                Word::Operand(word) => draft.options.hosts.push(text(&word)?),
            }
        }
        draft.finish(rest)
    }
}

impl Draft {
    fn flag(&mut self, flag: &'static str, value: OsString) -> Result<(), String> {
        let options = &mut self.options;
        match flag {
            "4" | "6" | "A" | "C" | "F" | "J" | "b" | "c" | "i" | "l" | "m" | "o" | "p" | "v" => {
                options.ssh.push((flag, value));
            }
            "q" => {
                options.quiet = true;
                options.ssh.push((flag, value));
            }
            "connect-timeout" => {
                let seconds = seconds("connect-timeout", &value)?;
                let setting = format!("ConnectTimeout={seconds}");
                options.ssh.push(("o", setting.into()));
            }
            "timeout" => {
                let seconds = seconds("timeout", &value)?;
                options.timeout = Some(Duration::from_secs(u64::from(seconds)));
            }
            "n" => options.at_once = at_once(&text(&value)?)?,
            "x" => options.excluded.push(text(&value)?),
            "first-failure" => options.first_failure = true,
            "stdin" => options.stdin = true,
            "r" => options.recursive = true,
            "preserve" => options.preserve = true,
            "prefix" => self.form(OutputForm::Prefixed)?,
            "json" => self.form(OutputForm::Json)?,
            "output" => self.form(OutputForm::Files(value.into()))?,
            "put" => self.copy(CopyWay::Put)?,
            "get" => self.copy(CopyWay::Get)?,
            "h" | "help" => return Err(String::new()),
            other => return Err(flags::Error::Unknown(other.to_owned()).to_string()),
        }
        Ok(())
    }

    fn form(&mut self, form: OutputForm) -> Result<(), String> {
        if self.options.form != OutputForm::Grouped && self.options.form != form {
            return Err("give one of --prefix, --json and --output".to_owned());
        }
        self.options.form = form;
        Ok(())
    }

    fn copy(&mut self, way: CopyWay) -> Result<(), String> {
        if self.copy.is_some_and(|before| before != way) {
            return Err("give one of --put and --get".to_owned());
        }
        self.copy = Some(way);
        Ok(())
    }

    fn finish(self, mut rest: Vec<OsString>) -> Result<EachOptions, String> {
        let Self { mut options, copy } = self;
        if options.hosts.is_empty() && rest.is_empty() {
            return Err(String::new());
        }
        if options.hosts.is_empty() {
            return Err("name hosts in front of --".to_owned());
        }
        let Some(way) = copy else {
            if rest.is_empty() {
                return Err("write the command after --".to_owned());
            }
            if options.recursive || options.preserve {
                return Err("-r and --preserve belong to --put and --get".to_owned());
            }
            options.task = HostTask::Run(rest.join(OsStr::new(" ")));
            return Ok(options);
        };
        if options.stdin {
            return Err("--stdin is for a command, not for a copy".to_owned());
        }
        if matches!(options.form, OutputForm::Files(_)) {
            return Err("--output is for a command's output: a copy has none".to_owned());
        }
        let target = rest.pop().unwrap_or_default();
        if rest.is_empty() {
            return Err("write sources and a target after --".to_owned());
        }
        options.task = match way {
            CopyWay::Put => HostTask::Put(rest, target),
            CopyWay::Get => HostTask::Get(rest, target),
        };
        Ok(options)
    }
}

fn text(value: &OsStr) -> Result<String, String> {
    let text = value.to_str().map(str::to_owned);
    text.ok_or_else(|| {
        let shown = escape::one_line(value.as_encoded_bytes());
        format!("argument is not valid UTF-8: {shown}")
    })
}

/// A time of ssh_config's form, at least one second.
fn seconds(flag: &str, value: &OsStr) -> Result<u32, String> {
    let text = text(value)?;
    let seconds = config::units::parse_seconds(&text).filter(|seconds| *seconds != 0);
    seconds.ok_or_else(|| {
        let shown = escape::one_line(&text);
        format!("--{flag}: bad time \"{shown}\": write seconds, or for example 5m")
    })
}

fn at_once(text: &str) -> Result<usize, String> {
    let number = text.parse().ok();
    number
        .filter(|number| (1..=MAX_AT_ONCE).contains(number))
        .ok_or_else(|| {
            let shown = escape::one_line(text);
            format!("-n: bad number of hosts at once \"{shown}\": write 1 to {MAX_AT_ONCE}")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<EachOptions, String> {
        EachOptions::parse(line.split_whitespace().map(OsString::from).collect())
    }

    #[test]
    fn every_flag_has_an_arm() {
        for flag in flags::EACH {
            let dashes = if flag.name.len() == 1 { "-" } else { "--" };
            let value = match flag.argument {
                flags::Argument::None => "",
                _ => "1",
            };
            let copies = match flag.name {
                "r" | "preserve" => "--put",
                _ => "",
            };
            let result = parsed(&format!(
                "{copies} {dashes}{} {value} host -- a b",
                flag.name
            ));
            let is_unknown = |why: &String| why.starts_with("unknown");
            assert!(
                !result.as_ref().is_err_and(is_unknown),
                "{}: {result:?}",
                flag.name
            );
        }
    }

    #[test]
    fn flags_may_follow_hosts_and_the_command_begins_after_the_dashes() {
        let options = parsed("a b -n 5 c --prefix -- ls -l -- x").unwrap();
        assert_eq!(options.hosts, ["a", "b", "c"]);
        assert_eq!(options.task, HostTask::Run("ls -l -- x".into()));
        assert_eq!((options.at_once, options.form), (5, OutputForm::Prefixed));
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_words() {
        for (line, why) in [
            ("a b", "command after --"),
            ("-- ls", "name hosts"),
            ("a --json --prefix -- ls", "one of --prefix"),
            ("a --put --get -- x y", "one of --put"),
            ("a --put -- x", "sources and a target"),
            ("a --put --stdin -- x y", "--stdin"),
            ("a --put --output d -- x y", "--output"),
            ("a -r -- x", "-r"),
            ("a -n 0 -- x", "-n"),
            ("a --timeout 0 -- x", "--timeout"),
            ("a --nothing -- x", "unknown option"),
        ] {
            let found = parsed(line).unwrap_err();
            assert!(found.contains(why), "{line}: {found}");
        }
        assert_eq!(parsed("").unwrap_err(), "");
    }
}
