//! The command line of `fulmar add`, as ssh-add(1) has it.

use std::ffi::OsString;
use std::path::PathBuf;

use crypto::hash::HashAlgorithm;
use flags::{CommandLine, Word};
use keys::fingerprint;
use keys::time::parse_interval;

use crate::{AddFailure, STATUS_FATAL};

/// The work that the flags select.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    AddOrRemove,
    Lock,
    Unlock,
    ListFingerprints,
    ListKeys,
    RemoveAll,
    Query,
    Test,
}

/// The command line.
#[derive(Debug)]
pub(crate) struct AddOptions {
    pub(crate) action: Action,
    pub(crate) removes: bool,
    pub(crate) keys_only: bool,
    /// Loads the keys that a security key stores.
    pub(crate) loads_resident: bool,
    /// The provider of security keys (`-S`).
    pub(crate) provider: Option<String>,
    pub(crate) certificates_only: bool,
    pub(crate) certificates_stay: bool,
    pub(crate) confirm: bool,
    pub(crate) quiet: bool,
    /// Number of `-v`.
    pub(crate) verbosity: u8,
    /// In seconds; `None` for the agent's default.
    pub(crate) lifetime: Option<u32>,
    pub(crate) fingerprint_hash: HashAlgorithm,
    pub(crate) destinations: Vec<String>,
    pub(crate) known_hosts: Vec<PathBuf>,
    pub(crate) files: Vec<PathBuf>,
    /// The library of `-s`, whose keys are added, or of `-e`.
    pub(crate) token_library: Option<OsString>,
}

/// Reads the arguments, without the program's name.
pub(crate) fn parse(args: Vec<OsString>) -> Result<AddOptions, AddFailure> {
    let mut options = AddOptions {
        action: Action::AddOrRemove,
        removes: false,
        keys_only: false,
        loads_resident: false,
        provider: None,
        certificates_only: false,
        certificates_stay: false,
        confirm: false,
        quiet: false,
        verbosity: 0,
        lifetime: None,
        fingerprint_hash: HashAlgorithm::Sha256,
        destinations: Vec::new(),
        known_hosts: Vec::new(),
        files: Vec::new(),
        token_library: None,
    };
    let mut line = CommandLine::new(flags::ADD, args);
    let mut actions = Vec::new();
    while let Some(word) = line.next().map_err(|error| AddFailure::usage(&error))? {
        match word {
            Word::Flag(flag, value) => actions.extend(options.apply(flag, value)?),
            Word::Operand(operand) => options.files.push(operand.into()),
        }
    }
    options.choose(&actions)?;
    Ok(options)
}

impl AddOptions {
    /// Takes a flag in; returns the action that it names, if it names one.
    fn apply(&mut self, flag: &'static str, value: OsString) -> Result<Option<Action>, AddFailure> {
        match flag {
            "l" => return Ok(Some(Action::ListFingerprints)),
            "L" => return Ok(Some(Action::ListKeys)),
            "x" => return Ok(Some(Action::Lock)),
            "X" => return Ok(Some(Action::Unlock)),
            "D" => return Ok(Some(Action::RemoveAll)),
            "Q" => return Ok(Some(Action::Query)),
            "T" => return Ok(Some(Action::Test)),
            "d" => self.removes = true,
            "k" => self.keys_only = true,
            "C" => self.certificates_only = true,
            "N" => self.certificates_stay = true,
            "c" => self.confirm = true,
            "q" => self.quiet = true,
            "v" => self.verbosity = self.verbosity.saturating_add(1),
            // No PIN is ever asked for.
            "P" => {}
            "H" => self.known_hosts.push(value.into()),
            "K" => self.loads_resident = true,
            "s" => self.token_library = Some(value),
            "e" => {
                self.removes = true;
                self.token_library = Some(value);
            }
            "M" | "m" => {
                let text = format!("-{flag}: keys of type XMSS are not supported");
                return Err(AddFailure::failed(text));
            }
            _ => self.apply_text(flag, value)?,
        }
        Ok(None)
    }

    fn apply_text(&mut self, flag: &'static str, value: OsString) -> Result<(), AddFailure> {
        let text = value
            .into_string()
            .map_err(|_| AddFailure::failed(format!("-{flag}: value is not UTF-8")))?;
        match flag {
            "E" => {
                let hash = fingerprint::algorithm_from_name(&text);
                let unknown = || format!("Invalid hash algorithm \"{text}\"");
                self.fingerprint_hash = hash.ok_or_else(|| AddFailure::fatal(unknown()))?;
            }
            "t" => {
                let seconds = parse_interval(&text).and_then(|seconds| u32::try_from(seconds).ok());
                let seconds = seconds.ok_or_else(|| AddFailure::failed("Invalid lifetime"))?;
                self.lifetime = (seconds > 0).then_some(seconds);
            }
            "h" => self.destinations.push(text),
            "S" => self.provider = Some(text),
            other => {
                let error = flags::Error::Unknown(other.to_owned());
                return Err(AddFailure::usage(&error));
            }
        }
        Ok(())
    }

    fn choose(&mut self, actions: &[Action]) -> Result<(), AddFailure> {
        let count = |pair: [Action; 2]| actions.iter().filter(|each| pair.contains(each)).count();
        let lists = [Action::ListFingerprints, Action::ListKeys];
        let locks = [Action::Lock, Action::Unlock];
        for (pair, letters) in [(lists, ['l', 'L']), (locks, ['x', 'X'])] {
            if count(pair) > 1 {
                let first = actions.iter().find(|each| pair.contains(each));
                let letter = if first == pair.first() {
                    letters[0]
                } else {
                    letters[1]
                };
                return Err(AddFailure {
                    message: format!("-{letter} flag already specified"),
                    status: STATUS_FATAL,
                    shows_usage: false,
                });
            }
        }
        let exclusive = [
            count(lists) > 0,
            count(locks) > 0,
            actions.contains(&Action::RemoveAll),
            actions.contains(&Action::Query),
        ];
        if exclusive.iter().filter(|is_set| **is_set).count() > 1 {
            return Err(AddFailure::fatal("Invalid combination of actions"));
        }
        let others = actions.iter().find(|action| **action != Action::Test);
        if let Some(action) = others.or(actions.first()) {
            self.action = *action;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<AddOptions, AddFailure> {
        parse(line.split_whitespace().map(OsString::from).collect())
    }

    #[test]
    fn each_flag_of_the_table_is_known() {
        for flag in flags::ADD {
            let args = [format!("-{}", flag.name), "1".to_owned()];
            let parsed = parse(args.map(OsString::from).to_vec());
            assert!(
                !parsed.is_err_and(|error| error.shows_usage),
                "-{}",
                flag.name
            );
        }
        assert!(read("-y").is_err_and(|error| error.shows_usage));
    }

    #[test]
    fn actions_exclude_each_other_as_in_openssh() {
        for line in ["-l -L", "-x -X", "-l -D", "-x -l", "-Q -D", "-t x", "-E x"] {
            assert!(read(line).is_err(), "{line}");
        }
        let removed = read("-e lib").unwrap();
        assert!(removed.removes && removed.token_library.is_some());
        assert!(!read("-s lib a-cert.pub").unwrap().removes);
        assert_eq!(read("-T a").unwrap().action, Action::Test);
        assert_eq!(read("-T -l").unwrap().action, Action::ListFingerprints);
        assert_eq!(read("-t 1h").unwrap().lifetime, Some(3600));
        assert_eq!(read("-t 0").unwrap().lifetime, None);
    }
}
