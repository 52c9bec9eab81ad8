//! Reading the files that say which keys log in: those of the user as the user, so that a
//! link leads no further than the user could go; nothing but regular files; with StrictModes
//! nothing that others could have written.

use std::io;
use std::path::{Path, PathBuf};

use config::tokens::{Purpose, Tokens};
use keys::authorized_keys::KeyOptions;
use sys::file::Links;
use sys::process::AsUser;

use super::{Candidate, Lookup};

/// Longest file of keys or principals, in bytes; far above any real one.
const MAX_FILE_BYTES: u64 = 16 << 20;

impl Lookup<'_> {
    /// A file of AuthorizedKeysFile.
    pub(super) fn in_keys_file(&self, template: &str, candidate: &Candidate) -> Option<KeyOptions> {
        let (text, place) = self.read_user_file(template)?;
        self.search(&text, &place, candidate)
    }

    /// The content of a file of the user, and its name for the log.
    pub(super) fn read_user_file(&self, template: &str) -> Option<(Vec<u8>, String)> {
        let path = match self.expand(template) {
            Ok(path) => path,
            Err(reason) => {
                self.log.error(&format!("{template}: {reason}"));
                return None;
            }
        };
        let place = path.display().to_string();
        self.log.debug(&format!("trying public key file {place}"));
        match self.read_as_user(&path) {
            Ok(text) => Some((text, place)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                self.log
                    .info(&format!("Authentication refused: {place}: {error}"));
                None
            }
        }
    }

    /// The template with `%h %u %U %%`; a relative path starts at the home directory.
    fn expand(&self, template: &str) -> Result<PathBuf, String> {
        let name = &self.account.name;
        // A name like `../x` would lead out of the directory that the template means.
        if !super::super::accounts::is_plain_name(name) {
            return Err("user name does not fit into a path".to_owned());
        }
        let text = Tokens::new()
            .with('h', &self.account.home)
            .with('u', name)
            .with('U', self.account.uid.to_string())
            .expand(template, Purpose::Plain)
            .map_err(|error| error.to_string())?;
        Ok(Path::new(&self.account.home).join(text))
    }

    fn read_as_user(&self, path: &Path) -> io::Result<Vec<u8>> {
        // Without privilege the kernel holds us to our own rights anyway.
        let _as_user = sys::process::is_root()
            .then(|| AsUser::enter(&self.account.credentials()))
            .transpose()?;
        let file = sys::file::open_regular(path, Links::Follow)?;
        if self.options.strict_modes {
            let home = Path::new(&self.account.home);
            sys::file::secure_path(&file, path, home, self.account.uid)
                .map_err(io::Error::other)?;
        }
        sys::file::read_file_bounded(&file, MAX_FILE_BYTES)
    }
}

/// A file of the administrator.
pub(super) fn read_trusted(path: &str) -> io::Result<Vec<u8>> {
    sys::file::read_bounded(path, MAX_FILE_BYTES, Links::Follow)
}
