//! The command line of `keygen`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use crypto::hash::HashAlgorithm;
use flags::{CommandLine, Word};
use keys::fingerprint;
use keys::private_file::FileCipher;
use zeroize::Zeroizing;

use moduli::ModuliMode;

/// A command line that cannot be carried out.
#[derive(Debug)]
pub(super) struct WrongUse {
    pub(super) message: String,
    /// True if the usage text follows the message; a bad value of a flag has a message alone.
    pub(super) with_usage: bool,
}

impl WrongUse {
    fn value(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            with_usage: false,
        }
    }
}

impl From<String> for WrongUse {
    fn from(message: String) -> Self {
        Self {
            message,
            with_usage: true,
        }
    }
}

/// The action that the flags select.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Task {
    Generate,
    HostKeys,
    DownloadResident,
    Fingerprint,
    Public,
    Export,
    Import,
    ShowCertificate,
    ChangePassphrase,
    ChangeComment,
    FindHost(String),
    RemoveHost(String),
    HashHosts,
    Certify(PathBuf),
    MakeRevocationList,
    CheckRevocationList,
    Moduli(ModuliMode),
    ResourceRecords,
    FileSignature(Operation),
    /// Lists the keys of the tokens of `-D`.
    ListTokens(PathBuf),
}

/// What `-Y` names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    Sign,
    Verify,
    CheckNoValidate,
    FindPrincipals,
    MatchPrincipals,
}

impl Operation {
    /// The operation with this name.
    pub(super) fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "sign" => Self::Sign,
            "verify" => Self::Verify,
            "check-novalidate" => Self::CheckNoValidate,
            "find-principals" => Self::FindPrincipals,
            "match-principals" => Self::MatchPrincipals,
            _ => return None,
        })
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Sign => "sign",
            Self::Verify => "verify",
            Self::CheckNoValidate => "check-novalidate",
            Self::FindPrincipals => "find-principals",
            Self::MatchPrincipals => "match-principals",
        }
    }
}

/// The format of `-m`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Rfc4716,
    Pkcs8,
    Pem,
    /// The bytes of a key, for people (-e only).
    HexDump,
}

/// The flags and operands as they were given. An action takes out of them what it needs.
#[derive(Debug, Default)]
pub(super) struct Flags {
    /// The flags without a value.
    switches: Vec<&'static str>,
    /// The values that are any text, by flag; the last one counts.
    texts: BTreeMap<&'static str, String>,
    /// -f
    file: Option<PathBuf>,
    /// -D
    token_library: Option<PathBuf>,
    /// -s, also beside -k and -Y
    authority: Option<PathBuf>,
    /// -N
    new_passphrase: Option<Zeroizing<Vec<u8>>>,
    /// -P
    old_passphrase: Option<Zeroizing<Vec<u8>>>,
    /// -b
    pub(super) bits: Option<usize>,
    /// -E
    pub(super) fingerprint_hash: Option<HashAlgorithm>,
    /// -m, -a and -Z
    pub(super) key_file_form: KeyFileForm,
    /// -z
    pub(super) serial: Serial,
    /// -O, each
    pub(super) settings: Vec<String>,
    /// The operands.
    pub(super) operands: Vec<PathBuf>,
}

/// The identity that an action is about.
#[derive(Debug, Clone, Copy)]
pub(super) struct IdentityChoice<'a> {
    /// -f
    pub(super) file: Option<&'a Path>,
    /// -t, which chooses the default file
    pub(super) key_type: Option<&'a str>,
}

/// How a private key file is written.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct KeyFileForm {
    /// -m
    pub(super) format: Option<Format>,
    /// -a
    pub(super) rounds: Option<u32>,
    /// -Z
    pub(super) cipher: Option<FileCipher>,
}

/// How a fingerprint is shown.
#[derive(Debug, Clone, Copy)]
pub(super) struct FingerprintForm {
    /// -B: as pronounceable words
    bubblebabble: bool,
    /// -E
    pub(super) hash: HashAlgorithm,
    /// -v: with the randomart image
    pub(super) verbose: bool,
}

impl FingerprintForm {
    /// A key's fingerprint in the form that `-E` and `-B` ask for.
    pub(super) fn fingerprint_of(self, blob: &[u8]) -> String {
        if self.bubblebabble {
            fingerprint::bubblebabble(blob)
        } else {
            fingerprint::of_blob(blob, self.hash)
        }
    }
}

/// How a private key that signs is reached.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeyAccess<'a> {
    /// -U: the key must be in the agent
    pub(super) use_agent: bool,
    /// -D: the key must be in a token that this library reaches
    pub(super) token_library: Option<&'a Path>,
    /// -P
    pub(super) passphrase: Option<&'a [u8]>,
    /// -w: the provider of a security key
    pub(super) provider: Option<&'a str>,
}

/// The serial of `-z`.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Serial {
    pub(super) number: u64,
    /// -z +N: each certificate gets the next serial
    pub(super) counts: bool,
}

impl Flags {
    /// Reads the arguments: the task that they name, and the flags.
    ///
    /// # Errors
    /// The error text for the user.
    pub(super) fn parse(args: Vec<OsString>) -> Result<(Task, Self), WrongUse> {
        let mut flags = Self::default();
        let mut tasks = Vec::new();
        let mut line = CommandLine::new(flags::KEYGEN, args);
        while let Some(word) = line.next().map_err(|error| error.to_string())? {
            match word {
                Word::Flag(flag, value) => tasks.extend(flags.apply(flag, value)?),
                Word::Operand(operand) => flags.operands.push(operand.into()),
            }
        }
        let task = choose_task(tasks, &flags)?;
        let operands = match task {
            Task::Certify(_) => 1..=usize::MAX,
            Task::MakeRevocationList | Task::CheckRevocationList | Task::FileSignature(_) => {
                0..=usize::MAX
            }
            Task::Moduli(_) => 1..=1,
            _ => 0..=0,
        };
        match flags.operands.len() {
            0 if matches!(task, Task::Moduli(_)) => {
                Err(WrongUse::value("No output file specified"))
            }
            count if count < *operands.start() => Err("Too few arguments.".to_owned().into()),
            count if count > *operands.end() => Err("Too many arguments.".to_owned().into()),
            _ => Ok((task, flags)),
        }
    }

    /// Whether a flag without a value was given.
    pub(super) fn has(&self, flag: &'static str) -> bool {
        debug_assert!(flags::KEYGEN.iter().any(|known| known.name == flag));
        self.switches.contains(&flag)
    }

    /// The value of a flag that takes any text.
    pub(super) fn text(&self, flag: &'static str) -> Option<&str> {
        debug_assert!(flags::KEYGEN.iter().any(|known| known.name == flag));
        self.texts.get(flag).map(String::as_str)
    }

    pub(super) fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    pub(super) fn authority(&self) -> Option<&Path> {
        self.authority.as_deref()
    }

    pub(super) fn new_passphrase(&self) -> Option<&[u8]> {
        self.new_passphrase.as_deref().map(Vec::as_slice)
    }

    pub(super) fn old_passphrase(&self) -> Option<&[u8]> {
        self.old_passphrase.as_deref().map(Vec::as_slice)
    }

    pub(super) fn identity(&self) -> IdentityChoice<'_> {
        IdentityChoice {
            file: self.file(),
            key_type: self.text("t"),
        }
    }

    pub(super) fn fingerprint_form(&self) -> FingerprintForm {
        FingerprintForm {
            bubblebabble: self.has("B"),
            hash: self.fingerprint_hash.unwrap_or(HashAlgorithm::Sha256),
            verbose: self.has("v"),
        }
    }

    pub(super) fn key_access(&self) -> KeyAccess<'_> {
        KeyAccess {
            use_agent: self.has("U"),
            token_library: self.token_library.as_deref(),
            passphrase: self.old_passphrase(),
            provider: self.text("w"),
        }
    }

    /// Takes one flag in; the task that it names, if it names one.
    fn apply(&mut self, flag: &'static str, value: OsString) -> Result<Option<Task>, WrongUse> {
        let secret = |value: OsString| Some(Zeroizing::new(value.into_vec()));
        let text = |value: OsString| {
            value
                .into_string()
                .map_err(|_| format!("-{flag}: value is not UTF-8"))
        };
        match flag {
            "A" => return Ok(Some(Task::HostKeys)),
            "c" => return Ok(Some(Task::ChangeComment)),
            "e" => return Ok(Some(Task::Export)),
            "i" | "X" => return Ok(Some(Task::Import)),
            "K" => return Ok(Some(Task::DownloadResident)),
            "L" => return Ok(Some(Task::ShowCertificate)),
            "p" => return Ok(Some(Task::ChangePassphrase)),
            "y" => return Ok(Some(Task::Public)),
            "F" => return Ok(Some(Task::FindHost(text(value)?))),
            "R" => return Ok(Some(Task::RemoveHost(text(value)?))),
            "s" => self.authority = Some(value.into()),
            "k" => return Ok(Some(Task::MakeRevocationList)),
            "Q" => return Ok(Some(Task::CheckRevocationList)),
            "Y" => {
                let name = text(value)?;
                let operation = Operation::from_name(&name);
                let operation =
                    operation.ok_or(format!("Unsupported operation for -Y: \"{name}\""))?;
                return Ok(Some(Task::FileSignature(operation)));
            }
            "M" => {
                let name = text(value)?;
                let mode = ModuliMode::from_name(&name);
                let mode =
                    mode.ok_or(WrongUse::value(format!("Unsupported moduli option {name}")))?;
                return Ok(Some(Task::Moduli(mode)));
            }
            "u" | "U" | "g" | "B" | "H" | "l" | "h" | "q" | "v" => self.switches.push(flag),
            // Asked for the format that is the default now.
            "o" => {}
            "D" => self.token_library = Some(value.into()),
            "f" => self.file = Some(value.into()),
            "N" => self.new_passphrase = secret(value),
            "P" => self.old_passphrase = secret(value),
            "O" => self.settings.push(text(value)?),
            "C" | "n" | "t" | "I" | "V" | "r" | "w" => {
                self.texts.insert(flag, text(value)?);
            }
            _ => self
                .apply_checked(flag, &text(value)?)
                .map_err(WrongUse::value)?,
        }
        Ok(None)
    }

    /// Flags whose value must make sense.
    fn apply_checked(&mut self, name: &'static str, value: &str) -> Result<(), String> {
        match name {
            "a" => {
                let rounds = number(value, keys::private_file::MAX_KDF_ROUNDS);
                let bad = |why| format!("Invalid number: {value} ({why})");
                self.key_file_form.rounds = Some(rounds.map_err(bad)?);
            }
            "b" => {
                let bits = number(value, u32::MAX);
                let bits = bits.map_err(|why| format!("Bits has bad value {value} ({why})"))?;
                self.bits = usize::try_from(bits).ok();
            }
            "E" => {
                let hash = fingerprint::algorithm_from_name(value);
                let hash = hash.ok_or(format!("Invalid hash algorithm \"{value}\""))?;
                self.fingerprint_hash = Some(hash);
            }
            "m" => {
                self.key_file_form.format = Some(match value.to_ascii_uppercase().as_str() {
                    "RFC4716" | "SSH2" => Format::Rfc4716,
                    "PKCS8" => Format::Pkcs8,
                    "PEM" => Format::Pem,
                    "HEXDUMP" => Format::HexDump,
                    _ => return Err(format!("Unsupported conversion format \"{value}\"")),
                });
            }
            "Z" => {
                let cipher = FileCipher::from_name(value.as_bytes());
                let cipher = cipher.ok_or(format!("Invalid OpenSSH-format cipher '{value}'"))?;
                self.key_file_form.cipher = Some(cipher);
            }
            "z" => {
                let digits = match value.strip_prefix('+') {
                    Some(digits) => {
                        self.serial.counts = true;
                        digits
                    }
                    None => value,
                };
                self.serial.number = digits
                    .parse()
                    .map_err(|_| format!("Invalid serial number \"{digits}\""))?;
            }
            _ => return Err(format!("unknown option -- {name}")),
        }
        Ok(())
    }
}

/// A number from 1 to `most`.
///
/// # Errors
/// The word of strtonum(3) for what is wrong.
fn number(text: &str, most: u32) -> Result<u32, &'static str> {
    match text.parse::<i128>() {
        Ok(value) if value < 1 => Err("too small"),
        Ok(value) => u32::try_from(value)
            .ok()
            .filter(|value| *value <= most)
            .ok_or("too large"),
        Err(_) => Err("invalid"),
    }
}

/// `-H` and `-l` are tasks only when no other is named, and `-s` beside `-k` and `-Y` is none.
fn choose_task(mut tasks: Vec<Task>, flags: &Flags) -> Result<Task, WrongUse> {
    if let Some(authority) = &flags.authority
        && !tasks
            .iter()
            .any(|task| matches!(task, Task::MakeRevocationList | Task::FileSignature(_)))
    {
        tasks.push(Task::Certify(authority.clone()));
    }
    if let Some(library) = flags.token_library.as_ref().filter(|_| tasks.is_empty()) {
        tasks.push(Task::ListTokens(library.clone()));
    }
    let task = tasks.pop();
    if !tasks.is_empty() {
        return Err(
            "Too many tasks: give one of -A -c -e -F -i -K -k -L -M -p -Q -R -s -Y -y"
                .to_owned()
                .into(),
        );
    }
    Ok(match task {
        Some(task) => task,
        None if flags.has("H") => Task::HashHosts,
        None if flags.has("l") || flags.has("B") => Task::Fingerprint,
        None if flags.text("r").is_some() => Task::ResourceRecords,
        None => Task::Generate,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_flag_of_the_table_is_known() {
        for flag in flags::KEYGEN {
            let args = [format!("-{}", flag.name), "1".to_owned()];
            let parsed = Flags::parse(args.map(OsString::from).to_vec());
            let is_unknown = |why: &WrongUse| why.message.starts_with("unknown option");
            assert!(!parsed.as_ref().is_err_and(is_unknown), "-{}", flag.name);
        }
    }

    #[test]
    fn the_usage_names_each_type_of_keys() {
        let usage = super::super::USAGE;
        let types = usage
            .split_once("[-t ")
            .and_then(|(_, rest)| rest.split_once(']'));
        let mut named: Vec<&str> = types.map(|(types, _)| types.split('|').collect()).unwrap();
        let flag = flags::KEYGEN.iter().find(|flag| flag.name == "t").unwrap();
        let flags::Argument::Words(words) = flag.argument else {
            panic!("-t has words");
        };
        let mut words = words.to_vec();
        words.sort_unstable();
        named.sort_unstable();
        assert_eq!(named, words);
    }
}
