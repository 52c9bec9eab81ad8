//! The command line.

use std::ffi::{OsStr, OsString};

use config::units;
use crypto::hash::HashAlgorithm;
use flags::{CommandLine, Word};
use keys::{fingerprint, sshfp};
use sys::socket::Family;

use crate::key_types::{self, KeyTypes};

/// Most `-v` that have a meaning.
const MAX_VERBOSITY: u8 = 3;

/// A list of hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HostList {
    /// Standard input, one entry a line.
    Stdin,
    /// A file, one entry a line.
    File(OsString),
    /// One entry.
    Entry(OsString),
}

/// The command line, understood.
#[derive(Debug, Clone)]
pub(crate) struct KeyscanOptions {
    /// Files first, in order.
    pub(crate) lists: Vec<HostList>,
    pub(crate) types: KeyTypes,
    /// `-c`: certificates instead of plain keys.
    pub(crate) certificates: bool,
    /// `-D`: SSHFP records, with these hashes.
    pub(crate) records: Option<Vec<HashAlgorithm>>,
    /// `-H`
    pub(crate) hash_names: bool,
    /// `-q`: no comments.
    pub(crate) quiet: bool,
    pub(crate) family: Family,
    pub(crate) port: u16,
    /// `-T`, milliseconds.
    pub(crate) timeout_ms: u64,
    /// Number of `-v`.
    pub(crate) verbosity: u8,
}

/// Why the program does not start.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// With the usage.
    Usage(String),
    /// A value that is wrong.
    Value(String),
    /// Anything else.
    Failed(String),
}

impl Refusal {
    pub(crate) fn message(&self) -> &str {
        match self {
            Self::Usage(message) | Self::Value(message) | Self::Failed(message) => message,
        }
    }
}

impl Default for KeyscanOptions {
    fn default() -> Self {
        Self {
            lists: Vec::new(),
            types: KeyTypes::ALL,
            certificates: false,
            records: None,
            hash_names: false,
            quiet: false,
            family: Family::Any,
            port: keys::known_hosts::DEFAULT_PORT,
            timeout_ms: 5000,
            verbosity: 0,
        }
    }
}

impl KeyscanOptions {
    /// Reads the arguments.
    pub(crate) fn parse(args: Vec<OsString>) -> Result<Self, Refusal> {
        let mut options = Self::default();
        let mut hashes = sshfp::HASHES.to_vec();
        let mut records = false;
        let mut entries = Vec::new();
        let mut line = CommandLine::new(flags::KEYSCAN, args);
        while let Some(word) = line
            .next()
            .map_err(|error| Refusal::Usage(error.to_string()))?
        {
            match word {
                Word::Flag("D", _) => records = true,
                Word::Flag("O", value) => hashes = vec![hash_of(&text(&value))?],
                Word::Flag(flag, value) => options.flag(flag, value)?,
                Word::Operand(entry) => entries.push(HostList::Entry(entry)),
            }
        }
        options.records = records.then_some(hashes);
        options.lists.extend(entries);
        if options.lists.is_empty() {
            return Err(Refusal::Usage(String::new()));
        }
        Ok(options)
    }

    fn flag(&mut self, flag: &str, value: OsString) -> Result<(), Refusal> {
        match flag {
            "4" => self.family = Family::V4,
            "6" => self.family = Family::V6,
            "c" => self.certificates = true,
            "f" if value == "-" => self.lists.push(HostList::Stdin),
            "f" => self.lists.push(HostList::File(value)),
            "H" => self.hash_names = true,
            "p" => {
                let port = units::parse_port(&text(&value)).filter(|port| *port != 0);
                let bad = || Refusal::Value(format!("Bad port '{}'", text(&value)));
                self.port = port.ok_or_else(bad)?;
            }
            "q" => self.quiet = true,
            "T" => {
                let seconds = units::parse_seconds(&text(&value)).filter(|seconds| *seconds != 0);
                let bad = || Refusal::Usage(format!("Bad timeout '{}'", text(&value)));
                self.timeout_ms = u64::from(seconds.ok_or_else(bad)?) * 1000;
            }
            "t" => self.types = types_of(&text(&value))?,
            "v" if self.verbosity < MAX_VERBOSITY => self.verbosity += 1,
            "v" => return Err(Refusal::Failed("Too high debugging level.".into())),
            other => return Err(Refusal::Usage(format!("unknown option -- {other}"))),
        }
        Ok(())
    }
}

fn text(value: &OsStr) -> String {
    value.to_string_lossy().into_owned()
}

/// The hash of `-O hashalg=`.
fn hash_of(option: &str) -> Result<HashAlgorithm, Refusal> {
    let name = option
        .split_once('=')
        .filter(|(name, _)| name.eq_ignore_ascii_case("hashalg"))
        .map(|(_, name)| name)
        .ok_or_else(|| Refusal::Failed("Unsupported -O option".into()))?;
    let hash = fingerprint::algorithm_from_name(name);
    let hash = hash.filter(|hash| sshfp::HASHES.contains(hash));
    hash.ok_or_else(|| Refusal::Failed("Unsupported hash algorithm".into()))
}

/// The types of `-t`. Empty names between commas count for nothing.
fn types_of(list: &str) -> Result<KeyTypes, Refusal> {
    let mut types = KeyTypes::NONE;
    for name in list.split(',').filter(|name| !name.is_empty()) {
        let position = key_types::position_by_name(name)
            .ok_or_else(|| Refusal::Failed(format!("Unknown key type \"{name}\"")))?;
        types.insert(position);
    }
    Ok(types)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<KeyscanOptions, Refusal> {
        KeyscanOptions::parse(line.split_whitespace().map(OsString::from).collect())
    }

    #[test]
    fn every_flag_has_an_arm() {
        for flag in flags::KEYSCAN {
            let value = match flag.name {
                "O" => "hashalg=sha1",
                "t" => "rsa",
                "p" | "T" => "7",
                _ if flag.argument == flags::Argument::None => "",
                _ => "file",
            };
            let result = parsed(&format!("-{} {value} host", flag.name));
            assert!(result.is_ok(), "{}: {result:?}", flag.name);
        }
    }

    #[test]
    fn files_come_before_the_entries_of_the_command_line() {
        let options = parsed("-f list -f - host").unwrap();
        let file = HostList::File("list".into());
        let entry = HostList::Entry("host".into());
        assert_eq!(options.lists, [file, HostList::Stdin, entry]);
    }

    #[test]
    fn wrong_values_are_refused_in_the_words_of_ssh_keyscan() {
        let refusal = |line: &str| parsed(line).unwrap_err();
        let failed = |text: &str| Refusal::Failed(text.into());
        assert_eq!(
            refusal("-p 99999 h"),
            Refusal::Value("Bad port '99999'".into())
        );
        assert_eq!(refusal("-p 0 h"), Refusal::Value("Bad port '0'".into()));
        assert_eq!(refusal("-T 0 h"), Refusal::Usage("Bad timeout '0'".into()));
        assert_eq!(refusal("-t foo h"), failed("Unknown key type \"foo\""));
        assert_eq!(refusal("-O x h"), failed("Unsupported -O option"));
        assert_eq!(
            refusal("-O hashalg=md5 h"),
            failed("Unsupported hash algorithm")
        );
        assert_eq!(refusal("-vvvv h"), failed("Too high debugging level."));
        assert_eq!(refusal("-t rsa"), Refusal::Usage(String::new()));
        assert_eq!(
            refusal("-z h"),
            Refusal::Usage("unknown option -- z".into())
        );
    }

    #[test]
    fn the_last_hash_is_the_one_of_the_records() {
        let hashes = |line: &str| parsed(line).unwrap().records;
        assert_eq!(hashes("h"), None);
        assert_eq!(hashes("-O hashalg=sha1 h"), None);
        assert_eq!(hashes("-D h"), Some(sshfp::HASHES.to_vec()));
        assert_eq!(
            hashes("-D -O hashalg=sha1 -O HashAlg=sha256 h"),
            Some(vec![HashAlgorithm::Sha256])
        );
    }
}
