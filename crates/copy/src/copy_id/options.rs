//! The command line of `copy-id`.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use flags::{Argument, CommandLine, Word};

/// The usage text.
pub const USAGE: &str = "\
Usage: ssh-copy-id [-h|-?|-f|-n|-s|-x] [-i [identity_file]] [-t target_path] [-F ssh_config] [[-o ssh_option] ...] [-p port] [user@]hostname
\t-f: force mode -- copy keys without trying to check if they are already installed
\t-n: dry run    -- no keys are actually copied
\t-s: use sftp   -- use sftp instead of executing remote-commands. Can be useful if the remote only allows sftp
\t-x: debug      -- print the commands that are run
\t-h|-?: print this help
";

/// Largest file that is looked into to tell a key from a host's name, bytes.
const MAX_PEEK_BYTES: u64 = 1 << 20;

/// The command line, understood.
#[derive(Debug, Default)]
pub(super) struct CopyIdOptions {
    /// `-f`
    pub(super) force: bool,
    /// `-n`
    pub(super) dry_run: bool,
    /// `-s`
    pub(super) sftp: bool,
    /// `-x`
    pub(super) trace: bool,
    /// `-i`: the file, or an empty path for the default one.
    pub(super) identity: Option<PathBuf>,
    /// `-t`, relative to the home there.
    pub(super) target: OsString,
    /// `-o` and `-F` with their values, in order.
    pub(super) settings: Vec<(&'static str, OsString)>,
    /// `-p`
    pub(super) port: Option<OsString>,
    /// `[user@]hostname`
    pub(super) host: OsString,
}

impl CopyIdOptions {
    /// Reads the arguments.
    ///
    /// # Errors
    /// What to print before the usage; empty for the usage alone.
    pub(super) fn parse(args: Vec<OsString>) -> Result<Self, String> {
        let mut options = Self {
            target: ".ssh/authorized_keys".into(),
            ..Self::default()
        };
        let mut hosts = Vec::new();
        let mut line = CommandLine::new(flags::COPY_ID, with_identities(args)?);
        while let Some(word) = line
            .next()
            .map_err(|error| format!("ssh-copy-id: {error}\n"))?
        {
            match word {
                Word::Flag(flag, value) => options.flag(flag, value)?,
                Word::Operand(host) => hosts.push(host),
            }
        }
        match <[OsString; 1]>::try_from(hosts) {
            Ok([host]) => options.host = host,
            Err(none) if none.is_empty() => return Err(String::new()),
            Err(many) => {
                let many: Vec<_> = many.iter().map(|host| host.to_string_lossy()).collect();
                return Err(format!(
                    "ssh-copy-id: ERROR: Too many arguments.  Expecting a target hostname, got: {}\n\n",
                    many.join(" ")
                ));
            }
        }
        Ok(options)
    }

    fn flag(&mut self, flag: &'static str, value: OsString) -> Result<(), String> {
        match flag {
            "f" => self.force = true,
            "n" => self.dry_run = true,
            "s" => self.sftp = true,
            "x" => self.trace = true,
            "i" if self.identity.is_some() => {
                let text = "-i option must not be specified more than once";
                return Err(format!("\nssh-copy-id: ERROR: {text}\n\n"));
            }
            "i" => self.identity = Some(value.into()),
            "t" => self.target = value,
            "o" | "F" => self.settings.push((flag, value)),
            "p" => self.port = Some(value),
            _ => return Err(String::new()),
        }
        Ok(())
    }
}

/// Gives each `-i` without a file an empty one, since the parser expects a value. As in ssh-copy-id,
/// the next word is its file unless it is an option or the last word, which is the host.
fn with_identities(args: Vec<OsString>) -> Result<Vec<OsString>, String> {
    let mut out = Vec::with_capacity(args.len() + 1);
    let mut rest = args.into_iter().peekable();
    while let Some(word) = rest.next() {
        let bytes = word.as_bytes();
        if bytes == b"--" || bytes.len() < 2 || !bytes.starts_with(b"-") {
            out.push(word);
            break;
        }
        // The first letter of the cluster that takes a value, or the last one.
        let taker = bytes.iter().skip(1).position(|letter| takes_value(*letter));
        let is_last = taker.is_none_or(|at| at + 2 == bytes.len());
        let letter = taker.and_then(|at| bytes.get(at + 1)).copied();
        out.push(word);
        match letter {
            Some(b'i') if is_last => {
                let next = rest.next();
                let is_file = next
                    .as_ref()
                    .is_some_and(|next| !next.as_bytes().starts_with(b"-"));
                match next {
                    Some(file) if is_file && rest.peek().is_some() => out.push(file),
                    Some(last) if is_file && looks_like_key(&last) => {
                        let shown = last.to_string_lossy();
                        return Err(format!(
                            "\nssh-copy-id: ERROR: Missing hostname. Use \"-i -- {shown}\" if you \
                             really mean to use this as the hostname\n\n"
                        ));
                    }
                    next => {
                        out.push(OsString::new());
                        // It is read again: an option or the host.
                        let left = next.into_iter().chain(rest).collect();
                        out.extend(with_identities(left)?);
                        return Ok(out);
                    }
                }
            }
            Some(_) if is_last => out.extend(rest.next()),
            _ => {}
        }
    }
    out.extend(rest);
    Ok(out)
}

fn takes_value(letter: u8) -> bool {
    let is_it = |flag: &&flags::Flag| flag.name.as_bytes() == [letter];
    flags::COPY_ID
        .iter()
        .find(is_it)
        .is_some_and(|flag| flag.argument != Argument::None)
}

/// True for a file that speaks of ssh.
fn looks_like_key(path: &OsStr) -> bool {
    let small = fs::metadata(path).is_ok_and(|data| data.is_file() && data.len() <= MAX_PEEK_BYTES);
    let text = small.then(|| fs::read(path).unwrap_or_default());
    text.is_some_and(|text| {
        text.to_ascii_lowercase()
            .windows(3)
            .any(|part| part == b"ssh")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<CopyIdOptions, String> {
        CopyIdOptions::parse(line.split(' ').map(OsString::from).collect())
    }

    #[test]
    fn every_flag_has_an_arm() {
        for flag in flags::COPY_ID.iter().filter(|flag| flag.is_offered()) {
            let value = if flag.argument == Argument::None {
                ""
            } else {
                " value"
            };
            let result = parsed(&format!("-{}{value} host", flag.name));
            assert!(result.is_ok(), "{}: {result:?}", flag.name);
        }
        assert_eq!(parsed("-h host").unwrap_err(), "");
    }

    #[test]
    fn the_file_of_an_identity_may_be_left_out() {
        let identity = |line: &str| parsed(line).unwrap().identity.map(PathBuf::into_os_string);
        assert_eq!(identity("host"), None);
        assert_eq!(identity("-i host"), Some("".into()));
        assert_eq!(identity("-i key host"), Some("key".into()));
        assert_eq!(identity("-fi key host"), Some("key".into()));
        assert_eq!(identity("-i -f host"), Some("".into()));
        assert_eq!(identity("-i -- host"), Some("".into()));
        assert_eq!(identity("-o i=-i -p 22 host"), None);
        assert_eq!(identity("-p 22 -i host"), Some("".into()));
        assert!(
            parsed("-i a -i b host")
                .unwrap_err()
                .contains("more than once")
        );
    }

    #[test]
    fn one_host_is_needed() {
        assert_eq!(parsed("-f").unwrap_err(), "");
        assert!(parsed("a b").unwrap_err().contains("Too many arguments"));
        assert!(
            parsed("-z host")
                .unwrap_err()
                .contains("unknown option -- z")
        );
        let options = parsed("-o A=b -F c -o D=e user@host").unwrap();
        let settings: Vec<_> = options.settings.iter().map(|(flag, _)| *flag).collect();
        assert_eq!(settings, ["o", "F", "o"]);
        assert_eq!(options.host, "user@host");
    }
}
