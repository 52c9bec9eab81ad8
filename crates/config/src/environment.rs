//! The environment of a configuration, as two small traits, so that this crate starts no process,
//! looks up no name and opens only configuration files.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Read};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// The environment of ssh_config: variables, the local user, commands and names.
///
/// Every resolution calls `variable`, `local_user` and `local_hostname`; it calls the others only
/// if the configuration needs them.
pub trait Environment {
    /// An environment variable, for `${NAME}`.
    fn variable(&self, name: &str) -> Option<String>;
    /// The user who runs the program.
    fn local_user(&self) -> LocalUser;
    /// The machine's name, as gethostname(2) returns it.
    fn local_hostname(&self) -> String;
    /// Home directory of a user, for `~name/`; `None` if the user is unknown.
    fn home_of(&self, user: &str) -> Option<String>;
    /// Runs a command in the user's shell (`Match exec`); true when it exits with 0.
    ///
    /// # Errors
    /// Why the command could not be run; the configuration is then refused.
    fn run_shell(&self, command: &str) -> Result<bool, String>;
    /// Addresses of the active local interfaces (`Match localnetwork`).
    fn local_addresses(&self) -> Vec<IpAddr>;
    /// Looks a name up for `CanonicalizeHostname`: its canonical name (the end of its CNAME chain,
    /// or the name itself), or `None` if it does not exist.
    fn canonical_name(&self, name: &str) -> Option<String>;
}

/// The user who runs the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalUser {
    /// Login name (`%u`).
    pub name: String,
    /// Numeric user id (`%i`).
    pub uid: u32,
    /// Home directory (`%d`, `~`).
    pub home: String,
}

/// Most bytes of one configuration file; a larger one is an error.
pub const MAX_FILE_BYTES: u64 = 4 << 20;

/// Most names of one directory that patterns are compared with: users have directories of their own, and could fill
/// the memory of who looks for their keys there.
pub const MAX_NAMES: usize = 1 << 14;

/// How configuration files are read.
pub trait Files {
    /// Reads a whole file of at most [`MAX_FILE_BYTES`].
    ///
    /// # Errors
    /// The system's error; callers treat `NotFound` separately. `InvalidData` for a file that is
    /// too large.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;
    /// Names in a directory, unsorted, one more than [`MAX_NAMES`] at most; empty when it cannot be read.
    fn list(&self, directory: &Path) -> Vec<OsString>;
    /// Whether a path exists.
    fn exists(&self, path: &Path) -> bool;
    /// Refuses a file that other users could have written.
    ///
    /// # Errors
    /// The error text for the user.
    fn check_owner(&self, path: &Path) -> Result<(), String>;
}

/// The real file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemFiles {
    /// The user who may own the user's file, besides root; `None` does not check the owner.
    pub uid: Option<u32>,
}

impl Files for SystemFiles {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        // Most files are shorter, so that the second read finds the end.
        let mut bytes = Vec::with_capacity(4096);
        std::fs::File::open(path)?
            .take(MAX_FILE_BYTES + 1)
            .read_to_end(&mut bytes)?;
        if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > MAX_FILE_BYTES {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "file is larger than 4 MiB",
            ));
        }
        Ok(bytes)
    }

    fn list(&self, directory: &Path) -> Vec<OsString> {
        let Ok(entries) = std::fs::read_dir(directory) else {
            return Vec::new();
        };
        entries
            .take(MAX_NAMES + 1)
            .filter_map(|entry| Some(entry.ok()?.file_name()))
            .collect()
    }

    fn exists(&self, path: &Path) -> bool {
        path.symlink_metadata().is_ok()
    }

    fn check_owner(&self, path: &Path) -> Result<(), String> {
        use std::os::unix::fs::MetadataExt;
        let Ok(meta) = std::fs::metadata(path) else {
            return Ok(());
        };
        let foreign_owner = self
            .uid
            .is_some_and(|own| meta.uid() != 0 && meta.uid() != own);
        if foreign_owner || meta.mode() & 0o022 != 0 {
            return Err(format!("Bad owner or permissions on {}", path.display()));
        }
        Ok(())
    }
}

/// Files in memory, for tests and for configurations that a program makes.
#[derive(Clone, Debug, Default)]
pub struct MemoryFiles {
    files: BTreeMap<PathBuf, Vec<u8>>,
}

impl MemoryFiles {
    /// Adds a file.
    pub fn with(mut self, path: impl Into<PathBuf>, text: impl Into<Vec<u8>>) -> MemoryFiles {
        self.files.insert(path.into(), text.into());
        self
    }
}

impl Files for MemoryFiles {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.files
            .get(path)
            .cloned()
            .ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    }

    fn list(&self, directory: &Path) -> Vec<OsString> {
        let mut names: Vec<OsString> = Vec::new();
        for path in self.files.keys() {
            let Ok(below) = path.strip_prefix(directory) else {
                continue;
            };
            if let Some(name) = below.iter().next() {
                names.push(name.to_owned());
            }
        }
        names.dedup();
        names
    }

    fn exists(&self, path: &Path) -> bool {
        self.files.keys().any(|file| file.starts_with(path))
    }

    fn check_owner(&self, _path: &Path) -> Result<(), String> {
        Ok(())
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::*;

    #[test]
    fn files_that_others_can_write_are_refused() {
        let directory = std::env::temp_dir().join(format!("config-owner-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let path = directory.join("config");
        std::fs::write(&path, "Port 22\n").unwrap();
        let own = std::fs::metadata(&path).unwrap().uid();
        let set = |mode| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode));
        let files = SystemFiles { uid: Some(own) };
        for (mode, good) in [(0o600, true), (0o644, true), (0o620, false), (0o602, false)] {
            set(mode).unwrap();
            assert_eq!(files.check_owner(&path).is_ok(), good, "{mode:o}");
        }
        set(0o600).unwrap();
        let stranger = SystemFiles {
            uid: Some(own.wrapping_add(1)),
        };
        assert_eq!(stranger.check_owner(&path).is_ok(), own == 0);
        assert_eq!(files.read(&path).unwrap(), b"Port 22\n");
        assert_eq!(files.list(&directory), ["config"]);
        assert!(files.exists(&path) && !files.exists(&directory.join("none")));
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
