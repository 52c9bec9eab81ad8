//! The files of a machine that decide what a migration changes, below a root directory. Files in
//! homes belong to users: only regular ones are opened, no link is followed in their last part, and
//! what cannot be read counts as absent.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use config::{Files, SystemFiles};
use keys::{PresentedKey, PublicKey};
use sys::file::FollowLinks;
use zeroize::Zeroizing;

/// Largest file of keys that is read, bytes.
const MAX_KEYS_BYTES: u64 = 4 << 20;
/// Largest program that is searched for its version, bytes.
const MAX_PROGRAM_BYTES: u64 = 64 << 20;
/// Most homes that are looked into.
const MAX_HOMES: usize = 10_000;
/// Precedes the number in OpenSSH's version.
const VERSION: &[u8] = b"OpenSSH_";

/// A machine's file system.
#[derive(Clone, Debug)]
pub struct Machine {
    root: PathBuf,
    files: SystemFiles,
}

impl Machine {
    /// The machine whose root directory is `root`: `/`, or where a system is being put together.
    #[must_use]
    pub fn at(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            files: SystemFiles::default(),
        }
    }

    /// The place of a path of the machine.
    #[must_use]
    pub fn place(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// True if something is at `path`.
    #[must_use]
    pub fn has(&self, path: impl AsRef<Path>) -> bool {
        self.place(path).exists()
    }

    /// True if the configuration reads `CONFIG.d/*.conf` for all connections.
    #[must_use]
    pub fn reads_drop_ins(&self, config: &str) -> bool {
        let wanted = format!("{config}.d/*.conf");
        let text = self.read(Path::new(config)).unwrap_or_default();
        for line in String::from_utf8_lossy(&text).lines() {
            let Ok(Some(line)) = config::lexer::read_line(line) else {
                continue;
            };
            match line.keyword.to_ascii_lowercase().as_str() {
                "match" | "host" => return false,
                "include" => {
                    let patterns = config::lexer::split_words(line.rest, true).unwrap_or_default();
                    if patterns
                        .iter()
                        .any(|pattern| Path::new("/etc/ssh").join(pattern) == Path::new(&wanted))
                    {
                        return true;
                    }
                }
                _ => {}
            }
        }
        false
    }

    /// The major version of the machine's OpenSSH server, from its program's text.
    pub(super) fn openssh_version(&self) -> Option<u32> {
        self.openssh_servers()
            .find_map(|program| version_in(&program))
    }

    /// False if the program of the machine's OpenSSH server has no such keyword in its text: it does
    /// not start with a configuration that has it.
    #[must_use]
    pub fn openssh_knows(&self, keyword: &str) -> bool {
        let is_openssh = |program: &Vec<u8>| version_in(program).is_some();
        // OpenSSH's table has most keywords in small letters, but PAMServiceName as it is written here.
        self.openssh_servers().find(is_openssh).is_none_or(|text| {
            text.windows(keyword.len())
                .any(|window| window.eq_ignore_ascii_case(keyword.as_bytes()))
        })
    }

    fn openssh_servers(&self) -> impl Iterator<Item = Vec<u8>> {
        let places = ["/usr/sbin/sshd.openssh", "/usr/sbin/sshd", "/usr/bin/sshd"];
        places.into_iter().filter_map(|path| {
            sys::file::read_bounded(self.place(path), MAX_PROGRAM_BYTES, FollowLinks::Refuse).ok()
        })
    }

    /// Homes of the accounts in /etc/passwd, each once. Accounts of other databases are not listed:
    /// there may be very many, on other machines.
    pub(super) fn homes(&self) -> Vec<PathBuf> {
        let passwd = self.read(Path::new("/etc/passwd")).unwrap_or_default();
        let users = passwd
            .split(|byte| *byte == b'\n')
            .filter_map(sys::users::files::parse_user);
        let mut homes: Vec<PathBuf> = users
            .map(|user| user.home)
            .filter(|home| {
                home.is_absolute() && home != Path::new("/") && self.has(home.join(".ssh"))
            })
            .collect();
        homes.sort();
        homes.dedup();
        homes.truncate(MAX_HOMES);
        homes
    }

    /// Keys in a user's known_hosts.
    pub(super) fn known_hosts(&self, home: &Path) -> Vec<PublicKey> {
        let files = [".ssh/known_hosts", ".ssh/known_hosts2"];
        files
            .into_iter()
            .flat_map(|file| self.keys_in(home.join(file)))
            .collect()
    }

    /// Keys in the files of a user that AuthorizedKeysFile names. Of the tokens, `%h` is known and
    /// `%u`, if the home is called as the user.
    pub(super) fn authorized_keys(&self, home: &Path, files: &[String]) -> Vec<PublicKey> {
        let home_text = home.to_string_lossy();
        let user = home.file_name().unwrap_or_default().to_string_lossy();
        let place = |file: &String| home.join(file.replace("%h", &home_text).replace("%u", &user));
        files
            .iter()
            .flat_map(|file| self.keys_in(place(file)))
            .collect()
    }

    /// The public half of a host key: in the file of the private key, if that is readable and not
    /// encrypted, else in PATH.pub.
    pub(super) fn host_key(&self, path: &str) -> Option<PublicKey> {
        let limit = keys::private_file::MAX_FILE_BYTES;
        let bytes = sys::file::read_bounded(self.place(path), limit, FollowLinks::Follow)
            .map(Zeroizing::new);
        let parsed = bytes
            .ok()
            .and_then(|bytes| keys::private_file::parse(&bytes, None).ok());
        parsed
            .map(|file| file.key.public().clone())
            .or_else(|| self.keys_in(format!("{path}.pub")).pop())
    }

    /// Plain keys of a file in which a key is two words, a type and base64, anywhere in a line:
    /// public keys, known_hosts, authorized_keys.
    pub(super) fn keys_in(&self, path: impl AsRef<Path>) -> Vec<PublicKey> {
        let text = sys::file::read_bounded(self.place(path), MAX_KEYS_BYTES, FollowLinks::Refuse);
        let text = text.unwrap_or_default();
        let lines = text
            .split(|byte| *byte == b'\n')
            .filter_map(|line| std::str::from_utf8(line).ok());
        lines
            .filter(|line| !line.trim_start().starts_with('#'))
            .filter_map(key_in)
            .collect()
    }
}

impl Files for Machine {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.files.read(&self.place(path))
    }

    fn list(&self, directory: &Path) -> Vec<OsString> {
        self.files.list(&self.place(directory))
    }

    fn exists(&self, path: &Path) -> bool {
        self.files.exists(&self.place(path))
    }

    fn check_owner(&self, path: &Path) -> Result<(), String> {
        self.files.check_owner(&self.place(path))
    }
}

fn key_in(line: &str) -> Option<PublicKey> {
    let words: Vec<&str> = line.split_whitespace().collect();
    words.windows(2).find_map(|pair| {
        let [kind, blob] = pair else {
            return None;
        };
        // All types in base64 begin with the length of their name.
        if !blob.starts_with("AAAA") {
            return None;
        }
        match keys::public_file::parse_line(format!("{kind} {blob}").as_bytes())
            .ok()?
            .key
        {
            PresentedKey::Plain(key) => Some(key),
            PresentedKey::Certificate(_) => None,
        }
    })
}

fn version_in(program: &[u8]) -> Option<u32> {
    let starts = program
        .windows(VERSION.len())
        .enumerate()
        .filter(|(_, window)| *window == VERSION);
    let numbers = starts.filter_map(|(at, _)| {
        let rest = program.get(at + VERSION.len()..)?;
        let digits: String = rest
            .iter()
            .map(|byte| char::from(*byte))
            .take_while(char::is_ascii_digit)
            .take(4)
            .collect();
        digits.parse().ok()
    });
    numbers.max()
}
