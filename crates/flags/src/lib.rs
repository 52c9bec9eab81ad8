//! The command lines of all programs: one row of a table for each flag ([`tables`]), and the only
//! parser, [`CommandLine`]. Completion is made from the same rows, and tests hold the manual pages
//! against them.
//!
//! A command line is read as getopt(3) reads it: letters alone or in clusters, a value in the same
//! word or in the next one, `--` before operands that begin with a dash. No flag follows the first
//! operand: a file's name that begins with a dash never becomes an option (`scp *`). Programs with
//! long flags take them as `--name value` or `--name=value`.
#![forbid(unsafe_code)]

mod tables;

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt;

/// What the programs print with `-V`: scripts look there for the word OpenSSH and for its version, to
/// know what options they can use.
pub const VERSION: &str = concat!(
    "Fulmar_",
    env!("CARGO_PKG_VERSION"),
    " (compatible with OpenSSH_10.6)"
);

pub use tables::{
    ADD, AGENT, BENCH, COPY_ID, DEMO, EACH, INSTALL, KEYGEN, KEYSCAN, PROGRAMS, SCP, SFTP,
    SFTP_SERVER, SPEED, SSH, SSHD,
};

/// What follows a flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Argument {
    /// Nothing.
    None,
    /// A file.
    File,
    /// A directory.
    Directory,
    /// A host.
    Host,
    /// A user.
    User,
    /// A keyword of ssh_config and its value.
    SshOption,
    /// A keyword of sshd_config and its value.
    SshdOption,
    /// One of the names that `fulmar ssh -Q` of this list prints.
    Query(&'static str),
    /// One of these words.
    Words(&'static [&'static str]),
    /// Anything else, described by these words.
    Free(&'static str),
}

/// A flag of a program.
#[derive(Debug, Clone, Copy)]
pub struct Flag {
    /// The name without dashes: of one letter for `-x`, longer for `--name`.
    pub name: &'static str,
    /// What follows it.
    pub argument: Argument,
    /// One line for completion. Empty for a flag that completion does not offer, because the program
    /// refuses it by name or accepts it for old scripts only.
    pub help: &'static str,
}

impl Flag {
    /// True if completion offers the flag.
    #[must_use]
    pub fn is_offered(&self) -> bool {
        !self.help.is_empty()
    }
}

/// One program, by its subcommand of `fulmar`.
#[derive(Debug, Clone, Copy)]
pub struct Program {
    /// The subcommand.
    pub name: &'static str,
    /// One line for completion.
    pub help: &'static str,
    /// Its flags.
    pub flags: &'static [Flag],
    /// Its operands.
    pub operand: Argument,
    /// Only builds with the Cargo feature `bench` have it.
    pub is_bench: bool,
}

/// A part of a command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Word {
    /// The name of a flag and its value, which is empty if the flag has none.
    Flag(&'static str, OsString),
    /// A word that is neither a flag nor a flag's value.
    Operand(OsString),
}

/// Why a command line cannot be read. The text is getopt(3)'s, without the program's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// The program has no such flag.
    Unknown(String),
    /// The flag needs a value, and the command line ends.
    NoValue(&'static str),
    /// The long flag takes no value, and `=` follows it.
    ExtraValue(&'static str),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(name) => write!(f, "unknown option -- {name}"),
            Self::NoValue(name) => write!(f, "option requires an argument -- {name}"),
            Self::ExtraValue(name) => write!(f, "option takes no argument -- {name}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<Error> for String {
    fn from(error: Error) -> Self {
        error.to_string()
    }
}

/// Reads the arguments of a program, without its name, word by word.
#[derive(Debug)]
pub struct CommandLine {
    flags: &'static [Flag],
    args: std::vec::IntoIter<OsString>,
    /// The letters of a cluster that are not read yet.
    letters: Vec<u8>,
    /// `--` was read.
    has_ended_flags: bool,
    /// An operand was read, and no flag may follow operands.
    at_operands: bool,
    mixes: bool,
}

impl CommandLine {
    /// Reads `args` by a table of flags.
    #[must_use]
    pub fn new(flags: &'static [Flag], args: Vec<OsString>) -> Self {
        Self {
            flags,
            args: args.into_iter(),
            letters: Vec::new(),
            has_ended_flags: false,
            at_operands: false,
            mixes: false,
        }
    }

    /// As [`CommandLine::new`], for programs whose operands are none of a stranger's names: flags may
    /// follow operands.
    #[must_use]
    pub fn mixed(flags: &'static [Flag], args: Vec<OsString>) -> Self {
        Self {
            mixes: true,
            ..Self::new(flags, args)
        }
    }

    /// Reads all words: gives each flag with its value to `take`, and returns the operands.
    ///
    /// # Errors
    /// [`Error`], and those of `take`.
    pub fn read_all<E: From<Error>>(
        mut self,
        mut take: impl FnMut(&'static str, OsString) -> Result<(), E>,
    ) -> Result<Vec<OsString>, E> {
        let mut operands = Vec::new();
        while let Some(word) = self.next()? {
            match word {
                Word::Flag(flag, value) => take(flag, value)?,
                Word::Operand(operand) => operands.push(operand),
            }
        }
        Ok(operands)
    }

    /// Lets flags follow the operand that was read last, unless `--` came before it (ssh's after the
    /// destination).
    pub fn resume_flags(&mut self) {
        self.at_operands = false;
    }

    /// The next flag or operand; `None` at the end.
    ///
    /// # Errors
    /// [`Error`].
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<Word>, Error> {
        if !self.letters.is_empty() {
            return self.letter().map(Some);
        }
        let Some(arg) = self.args.next() else {
            return Ok(None);
        };
        if self.has_ended_flags || self.at_operands {
            return Ok(Some(Word::Operand(arg)));
        }
        let bytes = arg.as_bytes();
        if bytes == b"--" {
            self.has_ended_flags = true;
            return self.next();
        }
        if let Some(long) = bytes.strip_prefix(b"--")
            && self.flags.iter().any(|flag| flag.name.len() > 1)
        {
            return self.long(long).map(Some);
        }
        match bytes.strip_prefix(b"-") {
            None | Some([]) => {
                self.at_operands = !self.mixes;
                Ok(Some(Word::Operand(arg)))
            }
            Some(letters) => {
                self.letters = letters.to_vec();
                self.letter().map(Some)
            }
        }
    }

    /// True once `--` was read: only operands follow.
    #[must_use]
    pub fn has_ended_flags(&self) -> bool {
        self.has_ended_flags
    }

    /// The arguments that were not read yet, unchanged.
    #[must_use]
    pub fn rest(self) -> Vec<OsString> {
        self.args.collect()
    }

    fn letter(&mut self) -> Result<Word, Error> {
        let letter = self.letters.remove(0);
        let known = self
            .flags
            .iter()
            .find(|flag| flag.name.as_bytes() == [letter]);
        let Some(flag) = known else {
            return Err(Error::Unknown(escape::one_line([letter])));
        };
        if flag.argument == Argument::None {
            return Ok(Word::Flag(flag.name, OsString::new()));
        }
        let value = match std::mem::take(&mut self.letters) {
            rest if rest.is_empty() => self.args.next().ok_or(Error::NoValue(flag.name))?,
            rest => OsStr::from_bytes(&rest).to_owned(),
        };
        Ok(Word::Flag(flag.name, value))
    }

    fn long(&mut self, text: &[u8]) -> Result<Word, Error> {
        let end = text.iter().position(|byte| *byte == b'=');
        let (name, value) = match end.and_then(|end| text.split_at_checked(end)) {
            Some((name, value)) => (name, Some(value.get(1..).unwrap_or_default())),
            None => (text, None),
        };
        let known = self
            .flags
            .iter()
            .find(|flag| flag.name.len() > 1 && flag.name.as_bytes() == name);
        let Some(flag) = known else {
            return Err(Error::Unknown(escape::one_line(name)));
        };
        let value = match (flag.argument, value) {
            (Argument::None, None) => OsString::new(),
            (Argument::None, Some(_)) => return Err(Error::ExtraValue(flag.name)),
            (_, Some(value)) => OsStr::from_bytes(value).to_owned(),
            (_, None) => self.args.next().ok_or(Error::NoValue(flag.name))?,
        };
        Ok(Word::Flag(flag.name, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: &[Flag] = &[
        tables::flag("a", Argument::None, "a"),
        tables::flag("b", Argument::None, "b"),
        tables::flag("o", Argument::Free("x"), "o"),
    ];
    const LONG: &[Flag] = &[
        tables::flag("a", Argument::None, "a"),
        tables::flag("o", Argument::Free("x"), "o"),
        tables::flag("json", Argument::None, "json"),
        tables::flag("limit", Argument::Free("rate"), "limit"),
    ];

    fn read(flags: &'static [Flag], text: &str) -> Result<String, String> {
        let args = text.split(' ').filter(|word| !word.is_empty());
        words(CommandLine::new(flags, args.map(OsString::from).collect()))
    }

    fn words(mut line: CommandLine) -> Result<String, String> {
        let mut words = Vec::new();
        while let Some(word) = line.next()? {
            words.push(match word {
                Word::Flag(name, value) if value.is_empty() => name.to_owned(),
                Word::Flag(name, value) => format!("{name}={}", value.to_string_lossy()),
                Word::Operand(operand) => format!("({})", operand.to_string_lossy()),
            });
        }
        Ok(words.join(" "))
    }

    #[test]
    fn flags_values_and_operands_come_in_their_order() {
        let all = read(SHORT, "-abox -o - -ba -- y -- -a --").unwrap();
        assert_eq!(all, "a b o=x o=- b a (y) (--) (-a) (--)");
        assert_eq!(read(SHORT, "- -").unwrap(), "(-) (-)");
        // getopt(3) takes the sign as a part of the value.
        assert_eq!(read(SHORT, "-o=x").unwrap(), "o==x");
        let all = read(LONG, "--json --limit 5 --limit=6 -ao1 x").unwrap();
        assert_eq!(all, "json limit=5 limit=6 a o=1 (x)");
    }

    #[test]
    fn no_flag_follows_an_operand_unless_the_program_mixes_them() {
        assert_eq!(read(SHORT, "-a x -ofoo y").unwrap(), "a (x) (-ofoo) (y)");
        assert_eq!(
            read(LONG, "x --json -- y").unwrap(),
            "(x) (--json) (--) (y)"
        );
        let args = || ["x", "--json", "--", "-a"].map(OsString::from).to_vec();
        assert_eq!(
            words(CommandLine::mixed(LONG, args())).unwrap(),
            "(x) json (-a)"
        );
        let mut line = CommandLine::new(LONG, args());
        assert_eq!(line.next(), Ok(Some(Word::Operand("x".into()))));
        line.resume_flags();
        assert_eq!(words(line).unwrap(), "json (-a)");
    }

    #[test]
    fn a_line_that_cannot_be_read_is_refused_in_getopts_words() {
        for (flags, line, why) in [
            (SHORT, "-ax", "unknown option -- x"),
            (SHORT, "-a\u{1}", "unknown option -- \\001"),
            (SHORT, "--json", "unknown option -- -"),
            (SHORT, "-ao", "option requires an argument -- o"),
            (LONG, "--Json", "unknown option -- Json"),
            (LONG, "--j\u{1b}", "unknown option -- j\\033"),
            (LONG, "--a", "unknown option -- a"),
            (LONG, "--json=1", "option takes no argument -- json"),
            (LONG, "--limit", "option requires an argument -- limit"),
        ] {
            assert_eq!(read(flags, line).unwrap_err(), why, "{line}");
        }
    }

    #[test]
    fn the_words_after_the_end_of_flags_are_left_as_they_are() {
        let args = ["-a", "--", "x", "-b"].map(OsString::from).to_vec();
        let mut line = CommandLine::new(SHORT, args);
        assert_eq!(line.next(), Ok(Some(Word::Flag("a", OsString::new()))));
        assert!(!line.has_ended_flags());
        assert_eq!(line.next(), Ok(Some(Word::Operand("x".into()))));
        assert!(line.has_ended_flags());
        assert_eq!(line.rest(), ["-b"]);
    }

    #[test]
    fn a_table_names_no_flag_twice() {
        for program in PROGRAMS {
            let mut names: Vec<&str> = program.flags.iter().map(|flag| flag.name).collect();
            let count = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), count, "{}", program.name);
        }
    }
}
