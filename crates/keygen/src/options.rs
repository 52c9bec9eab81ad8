//! The command line of `keygen`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use crypto::hash::HashAlgorithm;
use flags::{CommandLine, Word};
use keys::fingerprint;
use keys::private_file::FileCipher;
use zeroize::Zeroizing;

use moduli::ModuliMode;

/// The action that the flags select.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Task {
    Generate,
    HostKeys,
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
}

/// The command line, understood.
#[derive(Debug)]
pub(super) struct KeygenOptions {
    pub(super) task: Task,
    /// -t
    pub(super) key_type: Option<String>,
    /// -b
    pub(super) bits: Option<usize>,
    /// -f
    pub(super) file: Option<PathBuf>,
    /// -N
    pub(super) new_passphrase: Option<Zeroizing<Vec<u8>>>,
    /// -P
    pub(super) old_passphrase: Option<Zeroizing<Vec<u8>>>,
    /// -C
    pub(super) comment: Option<String>,
    /// -q
    pub(super) quiet: bool,
    /// -v
    pub(super) verbose: bool,
    /// -l, also beside -F
    pub(super) fingerprint: bool,
    /// -B: fingerprints as pronounceable words
    pub(super) bubblebabble: bool,
    /// -H, also beside -F
    pub(super) hash: bool,
    /// -E
    pub(super) fingerprint_hash: HashAlgorithm,
    /// -m
    pub(super) format: Option<Format>,
    /// -a
    pub(super) rounds: Option<u32>,
    /// -Z
    pub(super) cipher: FileCipher,
    /// -I
    pub(super) key_id: Option<String>,
    /// -s, also beside -k
    pub(super) authority: Option<PathBuf>,
    /// -u
    pub(super) update: bool,
    /// -r: the name in DNS records; with -Y the list of revoked keys
    pub(super) record_name: Option<String>,
    /// -g: DNS records in the generic format
    pub(super) generic: bool,
    /// -n
    pub(super) principals: Vec<String>,
    /// -n, unchanged; the last one counts
    pub(super) namespace: Option<String>,
    /// -U: the key must be in the agent
    pub(super) use_agent: bool,
    /// -V
    pub(super) validity: Option<String>,
    /// -O, each
    pub(super) certificate_options: Vec<String>,
    /// -h
    pub(super) host_certificate: bool,
    /// -z
    pub(super) serial: u64,
    /// -z +N: each certificate gets the next serial
    pub(super) serial_counts: bool,
    /// The operands.
    pub(super) operands: Vec<PathBuf>,
}

impl KeygenOptions {
    /// Reads the arguments.
    ///
    /// # Errors
    /// The error text for the user.
    pub(super) fn parse(args: Vec<OsString>) -> Result<Self, String> {
        let mut options = Self {
            task: Task::Generate,
            key_type: None,
            bits: None,
            file: None,
            new_passphrase: None,
            old_passphrase: None,
            comment: None,
            quiet: false,
            verbose: false,
            fingerprint: false,
            bubblebabble: false,
            hash: false,
            fingerprint_hash: HashAlgorithm::Sha256,
            format: None,
            rounds: None,
            cipher: FileCipher::Aes256Ctr,
            key_id: None,
            authority: None,
            update: false,
            record_name: None,
            generic: false,
            principals: Vec::new(),
            namespace: None,
            use_agent: false,
            validity: None,
            certificate_options: Vec::new(),
            host_certificate: false,
            serial: 0,
            serial_counts: false,
            operands: Vec::new(),
        };
        let mut tasks = Vec::new();
        let mut line = CommandLine::new(flags::KEYGEN, args);
        while let Some(word) = line.next()? {
            match word {
                Word::Flag(flag, value) => tasks.extend(options.apply(flag, value)?),
                Word::Operand(operand) => options.operands.push(operand.into()),
            }
        }
        options.task = choose_task(tasks, &options)?;
        let operands = match options.task {
            Task::Certify(_) => 1..=usize::MAX,
            Task::MakeRevocationList | Task::CheckRevocationList | Task::FileSignature(_) => {
                0..=usize::MAX
            }
            Task::Moduli(_) => 1..=1,
            _ => 0..=0,
        };
        match options.operands.len() {
            count if count < *operands.start() => Err("Too few arguments.".to_owned()),
            count if count > *operands.end() => Err("Too many arguments.".to_owned()),
            _ => Ok(options),
        }
    }

    /// A key's fingerprint in the form that `-E` and `-B` ask for.
    pub(super) fn fingerprint_of(&self, blob: &[u8]) -> String {
        if self.bubblebabble {
            fingerprint::bubblebabble(blob)
        } else {
            fingerprint::of_blob(blob, self.fingerprint_hash)
        }
    }

    /// Takes one flag in; the task that it names, if it names one.
    fn apply(&mut self, flag: &'static str, value: OsString) -> Result<Option<Task>, String> {
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
                let mode = mode.ok_or(format!("Unsupported moduli option {name}"))?;
                return Ok(Some(Task::Moduli(mode)));
            }
            "u" => self.update = true,
            "U" => self.use_agent = true,
            "g" => self.generic = true,
            "r" => self.record_name = Some(text(value)?),
            // Asked for the format that is the default now.
            "o" => {}
            "B" => self.bubblebabble = true,
            "H" => self.hash = true,
            "l" => self.fingerprint = true,
            "h" => self.host_certificate = true,
            "q" => self.quiet = true,
            "v" => self.verbose = true,
            "f" => self.file = Some(value.into()),
            "N" => self.new_passphrase = secret(value),
            "P" => self.old_passphrase = secret(value),
            "C" => self.comment = Some(text(value)?),
            "t" => self.key_type = Some(text(value)?),
            "I" => self.key_id = Some(text(value)?),
            "V" => self.validity = Some(text(value)?),
            "O" => self.certificate_options.push(text(value)?),
            "n" => {
                let all = text(value)?;
                let names = all.split(',').filter(|name| !name.is_empty());
                self.principals.extend(names.map(str::to_owned));
                self.namespace = Some(all);
            }
            _ => self.apply_checked(flag, &text(value)?)?,
        }
        Ok(None)
    }

    /// Flags whose value must make sense.
    fn apply_checked(&mut self, name: &'static str, value: &str) -> Result<(), String> {
        match name {
            "a" => {
                let permitted = 1..=keys::private_file::MAX_KDF_ROUNDS;
                let rounds = value.parse().ok();
                let rounds = rounds.filter(|rounds| permitted.contains(rounds));
                self.rounds = Some(rounds.ok_or(format!("Invalid number of rounds: {value}"))?);
            }
            "b" => {
                let bits = value.parse().ok().filter(|bits| *bits > 0);
                self.bits = Some(bits.ok_or(format!("Bits has bad value {value}"))?);
            }
            "E" => {
                self.fingerprint_hash = fingerprint::algorithm_from_name(value)
                    .ok_or(format!("Invalid hash algorithm \"{value}\""))?;
            }
            "m" => {
                self.format = Some(match value.to_ascii_uppercase().as_str() {
                    "RFC4716" | "SSH2" => Format::Rfc4716,
                    "PKCS8" => Format::Pkcs8,
                    "PEM" => Format::Pem,
                    _ => return Err(format!("Unsupported conversion format \"{value}\"")),
                });
            }
            "Z" => {
                self.cipher = FileCipher::from_name(value.as_bytes())
                    .ok_or(format!("Invalid OpenSSH-format cipher '{value}'"))?;
            }
            "z" => {
                let digits = match value.strip_prefix('+') {
                    Some(digits) => {
                        self.serial_counts = true;
                        digits
                    }
                    None => value,
                };
                self.serial = digits
                    .parse()
                    .map_err(|_| format!("Invalid serial number \"{value}\""))?;
            }
            _ => return Err(format!("unknown option -- {name}")),
        }
        Ok(())
    }
}

/// `-H` and `-l` are tasks only when no other is named, and `-s` beside `-k` and `-Y` is none.
fn choose_task(mut tasks: Vec<Task>, options: &KeygenOptions) -> Result<Task, String> {
    if let Some(authority) = &options.authority
        && !tasks
            .iter()
            .any(|task| matches!(task, Task::MakeRevocationList | Task::FileSignature(_)))
    {
        tasks.push(Task::Certify(authority.clone()));
    }
    let task = tasks.pop();
    if !tasks.is_empty() {
        return Err(
            "Too many tasks: give one of -A -c -e -F -i -k -L -M -p -Q -R -s -Y -y".to_owned(),
        );
    }
    Ok(match task {
        Some(task) => task,
        None if options.hash => Task::HashHosts,
        None if options.fingerprint || options.bubblebabble => Task::Fingerprint,
        None if options.record_name.is_some() => Task::ResourceRecords,
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
            let parsed = KeygenOptions::parse(args.map(OsString::from).to_vec());
            let is_unknown = |why: &String| why.starts_with("unknown option");
            assert!(!parsed.as_ref().is_err_and(is_unknown), "-{}", flag.name);
        }
    }
}
