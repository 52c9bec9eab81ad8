//! Reads the files that list keys and principals. Files of the user are read with the user's
//! rights, so that a link leads no further than the user could go. Only regular files are read;
//! with StrictModes, only files that nobody else could have written.

use std::io;
use std::path::{Path, PathBuf};

use config::tokens::{Purpose, Tokens};
use keys::authorized_keys::KeyOptions;
use privsep::LogLevel;
use sys::file::FollowLinks;
use sys::process::AsUser;

use keys::candidate::CandidateKey;

use super::Lookup;

/// Limit on a file of keys or principals, in bytes.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// Most files that one pattern may match, because each attempt with a key reads all of them.
const MAX_FILES: usize = 64;
/// Characters that make a template a pattern (glob(7)).
const WILDCARDS: [char; 3] = ['*', '?', '['];

impl Lookup<'_> {
    /// Searches the files of one word of AuthorizedKeysFile for the key.
    pub(super) fn in_keys_file(
        &self,
        template: &str,
        candidate: &CandidateKey,
    ) -> Option<KeyOptions> {
        self.places(template).iter().find_map(|path| {
            let (text, place) = self.read_user_file(path)?;
            self.search(&text, &place, candidate)
        })
    }

    /// Returns the files that a template names: one, or the sorted matches of its wildcards.
    pub(super) fn places(&self, template: &str) -> Vec<PathBuf> {
        let found = match template.contains(WILDCARDS) {
            // Names and homes are no patterns.
            true => self
                .expand(template, config::glob::escaped)
                .and_then(|path| self.matches(&path)),
            false => self
                .expand(template, str::to_owned)
                .map(|path| vec![path.into()]),
        };
        found.unwrap_or_else(|reason| {
            self.log.error(&format!("{template}: {reason}"));
            Vec::new()
        })
    }

    /// Returns the files that match the pattern, read with the user's rights.
    fn matches(&self, pattern: &str) -> Result<Vec<PathBuf>, String> {
        let as_user = self.as_user().map_err(|error| error.to_string())?;
        let mut found = config::include::expand(pattern, &config::SystemFiles::default())?;
        drop(as_user);
        if found.len() > MAX_FILES {
            self.log.error(&format!(
                "{pattern}: more than {MAX_FILES} files; the keys of the others let nobody in"
            ));
            found.truncate(MAX_FILES);
        }
        Ok(found)
    }

    /// Returns the content of a user's file and its path for the log.
    pub(super) fn read_user_file(&self, path: &Path) -> Option<(Vec<u8>, String)> {
        let place = path.display().to_string();
        self.log.debug(&format!("trying public key file {place}"));
        match self.read_as_user(path) {
            Ok(text) => Some((text, place)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                // For a user who does not exist, OpenSSH looks at no file and has no such line.
                let level = if self.valid {
                    LogLevel::Info
                } else {
                    LogLevel::Debug1
                };
                self.log
                    .line(level, &format!("Authentication refused: {place}: {error}"));
                None
            }
        }
    }

    /// Expands `%h %u %U %%`, and applies `put` to each value; a relative path starts at the home
    /// directory.
    fn expand(&self, template: &str, put: fn(&str) -> String) -> Result<String, String> {
        let name = &self.account.name;
        // A name like `../x` would lead out of the directory that the template means.
        if !super::super::accounts::is_plain_name(name) {
            return Err("user name does not fit into a path".to_owned());
        }
        let home = put(&self.account.home);
        let text = Tokens::new()
            .with('h', &home)
            .with('u', put(name))
            .with('U', self.account.uid.to_string())
            .expand(template, Purpose::Plain)
            .map_err(|error| error.to_string())?;
        Ok(match text.starts_with('/') {
            true => text,
            false => format!("{home}/{text}"),
        })
    }

    /// Takes on the user's ids if this process is root. Otherwise the process has only its own
    /// rights anyway.
    fn as_user(&self) -> io::Result<Option<AsUser>> {
        sys::process::is_root()
            .then(|| AsUser::enter(&self.account.credentials()))
            .transpose()
    }

    fn read_as_user(&self, path: &Path) -> io::Result<Vec<u8>> {
        let _as_user = self.as_user()?;
        let file = sys::file::open_regular(path, FollowLinks::Follow)?;
        if self.options.user_keys.strict_modes {
            let home = Path::new(&self.account.home);
            sys::file::secure_path(&file, path, home, self.account.uid)
                .map_err(io::Error::other)?;
        }
        sys::file::read_file_bounded(&file, MAX_FILE_BYTES)
    }
}

/// Reads a file of the administrator.
pub(super) fn read_trusted(path: &str) -> io::Result<Vec<u8>> {
    sys::file::read_bounded(path, MAX_FILE_BYTES, FollowLinks::Follow)
}
