//! The files of keys: where they are by default, how they are loaded and saved.

use std::io;
use std::path::{Path, PathBuf};

use keys::private_file::{
    self, DEFAULT_KDF_ROUNDS, OpensshProtection, PrivateFileError, PrivateKeyFile,
};
use keys::public_file::{self, PublicKeyFile};
use keys::{KeyType, PresentedKey, PrivateKey};
use sys::file::RewriteMode;
use zeroize::Zeroizing;

use super::options::{Format, IdentityChoice, KeyFileForm};
use super::{KeygenFailure, console, reason};
use transfer::plan::shown;

/// Permissions of public keys, certificates and other files without a secret.
pub(super) const PUBLIC: RewriteMode = RewriteMode::Kept(0o644);

/// Shortest passphrase for a file in one of OpenSSL's formats, in bytes, as in ssh-keygen.
const MIN_PEM_PASSPHRASE_BYTES: usize = 5;

/// The home directory: the account's, as ssh-keygen takes it, else `HOME`.
pub(super) fn home() -> PathBuf {
    sys::users::by_uid(sys::process::effective_uid())
        .ok()
        .flatten()
        .map(|user| user.home)
        .or_else(std::env::home_dir)
        .unwrap_or_else(|| PathBuf::from("/"))
}

/// `user@host`, the comment of keys that get no other.
pub(super) fn default_comment() -> String {
    let user = sys::users::by_uid(sys::process::effective_uid())
        .ok()
        .flatten()
        .map_or_else(|| "user".to_owned(), |user| user.name);
    format!("{user}@{}", sys::socket::host_name())
}

/// The default identity file for a type of key.
pub(super) fn default_identity(key_type: Option<&str>) -> PathBuf {
    let name = match key_type {
        Some("rsa") => "id_rsa",
        Some("ecdsa") => "id_ecdsa",
        Some("mldsa44-ed25519") => "id_mldsa44_ed25519",
        Some("ecdsa-sk") => "id_ecdsa_sk",
        Some("ed25519-sk") => "id_ed25519_sk",
        _ => "id_ed25519",
    };
    home().join(".ssh").join(name)
}

/// The identity file that `-f` names or the person does.
pub(super) fn identity(identity: IdentityChoice<'_>) -> Result<PathBuf, KeygenFailure> {
    let default = default_identity(identity.key_type);
    console::file(identity.file, "Enter file in which the key is", &default)
}

/// `path` followed by `.pub`.
pub(super) fn public_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".pub");
    name.into()
}

/// Reads a file whole; also a pipe, which a command line may name (`<(...)`, `/dev/stdin`).
pub(super) fn read(path: &Path) -> io::Result<Zeroizing<Vec<u8>>> {
    KeyFile::read(path).map(|file| file.bytes)
}

/// A key file that has been read: once only, because a pipe gives its content once.
pub(super) struct KeyFile<'a> {
    path: &'a Path,
    bytes: Zeroizing<Vec<u8>>,
    /// The mode of a file of this user that others can read.
    too_open: Option<u32>,
    /// False for a pipe or a device, which a changed key cannot be written back to.
    pub(super) is_regular: bool,
}

impl<'a> KeyFile<'a> {
    pub(super) fn read(path: &'a Path) -> io::Result<Self> {
        let handle = sys::file::open_named(path)?;
        Ok(Self {
            path,
            too_open: sys::file::too_open_for_a_key(&handle)?,
            is_regular: handle.metadata()?.is_file(),
            bytes: sys::file::read_file_bounded(&handle, private_file::MAX_FILE_BYTES)
                .map(Zeroizing::new)?,
        })
    }

    /// A file's bytes, of which only the public key is wanted, and the mode if others can read it.
    pub(super) fn of(path: &'a Path, bytes: Zeroizing<Vec<u8>>, too_open: Option<u32>) -> Self {
        Self {
            path,
            bytes,
            too_open,
            is_regular: false,
        }
    }

    pub(super) fn is_private_key(&self) -> bool {
        private_file::is_private_key(&self.bytes)
    }

    /// Whether the private key's format has a comment, which may be empty.
    pub(super) fn has_comment(&self) -> bool {
        self.bytes.starts_with(b"-----BEGIN OPENSSH ")
    }

    /// The private key. `given` is its passphrase where the command line has one; otherwise the
    /// person is asked if it needs one.
    ///
    /// # Errors
    /// The text that ssh-keygen prints after `Load key "…": `.
    pub(super) fn private(&self, given: Option<&[u8]>) -> Result<PrivateKeyFile, LoadError> {
        let prompt = format!("Enter passphrase for \"{}\": ", shown(self.path));
        self.private_asking(given, &prompt)
    }

    /// As [`Self::private`], with another question.
    pub(super) fn private_asking(
        &self,
        given: Option<&[u8]>,
        prompt: &str,
    ) -> Result<PrivateKeyFile, LoadError> {
        if let Some(mode) = self.too_open {
            warn_too_open(self.path, mode);
            return Err(LoadError("bad permissions".to_owned()));
        }
        if let Some(warning) = private_file::slow_warning(&self.bytes) {
            eprintln!("Load key \"{}\": {warning}", shown(self.path));
        }
        match private_file::parse(&self.bytes, None) {
            Err(PrivateFileError::NeedsPassphrase) => match given {
                Some(passphrase) => private_file::parse(&self.bytes, Some(passphrase)),
                None => {
                    let passphrase = console::passphrase(prompt)
                        .map_err(|failure| LoadError(failure.message))?;
                    private_file::parse(&self.bytes, Some(&passphrase))
                }
            },
            other => other,
        }
        .map_err(|error| LoadError::from(&error))
    }

    /// As [`Self::public`], for `-l`, which opens a private key for its comment alone: one that others can
    /// read is left alone.
    pub(super) fn described(&self) -> Result<PublicKeyFile, LoadError> {
        let mut public = self.public()?;
        let is_known = || {
            load_public_file(&public_path(self.path))
                .is_ok_and(|beside| beside.key.key() == public.key.key())
        };
        if let Some(mode) = self.too_open
            && !is_known()
        {
            warn_too_open(self.path, mode);
            public.comment.clear();
        }
        Ok(public)
    }

    /// The public key of a file of either kind, without a passphrase: the private key's own public
    /// half, or the file with `.pub` appended.
    pub(super) fn public(&self) -> Result<PublicKeyFile, LoadError> {
        if !self.is_private_key() {
            return public_file::parse(&self.bytes)
                .map_err(|_| LoadError("invalid format".to_owned()));
        }
        let beside = load_public_file(&public_path(self.path));
        match (private_file::parse_public(&self.bytes), beside) {
            (Ok(key), Ok(beside)) if beside.key.key() == &key => Ok(beside),
            (Ok(key), _) => Ok(PublicKeyFile {
                key: key.into(),
                comment: private_file::parse(&self.bytes, None)
                    .map(|file| file.comment)
                    .unwrap_or_default(),
            }),
            (Err(_), Ok(beside)) => Ok(beside),
            (Err(error), Err(_)) => Err(LoadError::from(&error)),
        }
    }
}

/// Loads a private key, as [`KeyFile::private`].
pub(super) fn load_private(path: &Path, given: Option<&[u8]>) -> Result<PrivateKeyFile, LoadError> {
    KeyFile::read(path)?.private(given)
}

/// Why a key was not loaded, in ssh-keygen's words.
#[derive(Debug)]
pub(super) struct LoadError(pub(super) String);

impl From<io::Error> for LoadError {
    fn from(error: io::Error) -> Self {
        Self(reason(&error))
    }
}

impl From<&PrivateFileError> for LoadError {
    fn from(error: &PrivateFileError) -> Self {
        Self(match error {
            PrivateFileError::NotAPrivateKey | PrivateFileError::Malformed => {
                "invalid format".to_owned()
            }
            other => other.to_string(),
        })
    }
}

pub(super) fn warn_too_open(path: &Path, mode: u32) {
    let warning = private_file::unprotected_warning(&shown(path).to_string(), mode);
    eprintln!("{warning}");
}

/// A public key out of a one-line file.
pub(super) fn load_public_file(path: &Path) -> Result<PublicKeyFile, LoadError> {
    let file = read(path).map_err(LoadError::from)?;
    public_file::parse(&file).map_err(|_| LoadError("invalid format".to_owned()))
}

/// The public key of a file of either kind, as [`KeyFile::public`], or of the file with `.pub`
/// appended, which may exist alone (the key is in an agent).
pub(super) fn load_public(path: &Path) -> Result<PublicKeyFile, LoadError> {
    match KeyFile::read(path) {
        Ok(file) => file.public(),
        Err(error) => load_public_file(&public_path(path)).map_err(|_| LoadError::from(error)),
    }
}

/// Writes a private key file in the form that the flags ask for.
///
/// # Errors
/// If it cannot be written, or in OpenSSL's formats if the passphrase is short: they derive the key
/// from it with little work.
pub(super) fn write_private(
    form: KeyFileForm,
    path: &Path,
    key: &PrivateKey,
    comment: &str,
    passphrase: &[u8],
) -> Result<(), KeygenFailure> {
    let failed =
        |why: &str| KeygenFailure::refused(format!("Saving key \"{}\" failed: {why}", shown(path)));
    let format = form.format.filter(|format| has_format(key, *format));
    if format.is_some() && (1..MIN_PEM_PASSPHRASE_BYTES).contains(&passphrase.len()) {
        return Err(failed("passphrase is too short (minimum five characters)"));
    }
    let passphrase = Some(passphrase);
    let written = match format {
        Some(Format::Pem) => private_file::write_pem(key, passphrase),
        Some(_) => private_file::write_pkcs8(key, passphrase),
        None => {
            let protection = OpensshProtection {
                cipher: form.cipher.unwrap_or_default(),
                rounds: form.rounds.unwrap_or(DEFAULT_KDF_ROUNDS),
            };
            private_file::write_openssh_with(key, comment, passphrase, &protection)
        }
    };
    let text = written.map_err(|error| KeygenFailure::new(error.to_string()))?;
    // 0600 from the first byte, in place of an old file at once.
    let saved = if path.symlink_metadata().is_ok() {
        sys::file::rewrite(path, text.as_bytes(), RewriteMode::Exact(0o600))
    } else {
        sys::file::write_private(path, text.as_bytes())
    };
    saved.map_err(|error| failed(&reason(&error)))
}

/// Whether private keys of this type have one of OpenSSL's formats; the others stay in OpenSSH's.
fn has_format(key: &PrivateKey, format: Format) -> bool {
    match key.key_type() {
        KeyType::Rsa | KeyType::EcdsaP256 | KeyType::EcdsaP384 | KeyType::EcdsaP521 => {
            matches!(format, Format::Pem | Format::Pkcs8)
        }
        KeyType::Ed25519 => format == Format::Pkcs8,
        _ => false,
    }
}

/// Writes a public key file.
pub(super) fn save_public(
    path: &Path,
    key: &PresentedKey,
    comment: &str,
) -> Result<(), KeygenFailure> {
    save_public_as(PUBLIC, path, key, comment)
}

fn save_public_as(
    mode: RewriteMode,
    path: &Path,
    key: &PresentedKey,
    comment: &str,
) -> Result<(), KeygenFailure> {
    let line = format!("{}\n", public_file::to_line(key, comment));
    sys::file::rewrite(path, line.as_bytes(), mode).map_err(|error| {
        KeygenFailure::new(format!(
            "Unable to save public key to {}: {}",
            shown(path),
            reason(&error)
        ))
    })
}

/// Writes both files of a key pair, the public one with `mode` beside `path`.
pub(super) fn save(
    form: KeyFileForm,
    mode: RewriteMode,
    path: &Path,
    key: &PrivateKey,
    comment: &str,
    passphrase: &[u8],
) -> Result<(), KeygenFailure> {
    write_private(form, path, key, comment, passphrase)?;
    let public = PresentedKey::from(key.public().clone());
    save_public_as(mode, &public_path(path), &public, comment)
}
