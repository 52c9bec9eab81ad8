//! The files of keys: where they are by default, how they are loaded and saved.

use std::io;
use std::path::{Path, PathBuf};

use keys::private_file::{
    self, DEFAULT_KDF_ROUNDS, OpensshProtection, PrivateFileError, PrivateKeyFile,
};
use keys::public_file::{self, PublicKeyFile};
use keys::{KeyType, PresentedKey, PrivateKey};
use sys::file::FollowLinks;
use zeroize::Zeroizing;

use super::options::{Format, IdentityChoice, KeyFileForm};
use super::{KeygenFailure, console, reason};
use transfer::plan::shown;

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

/// Reads a file whole; regular files only, so that a FIFO does not block.
pub(super) fn read(path: &Path) -> io::Result<Zeroizing<Vec<u8>>> {
    sys::file::read_bounded(path, private_file::MAX_FILE_BYTES, FollowLinks::Follow)
        .map(Zeroizing::new)
}

/// Loads a private key. `given` is its passphrase where the command line has one; otherwise
/// the person is asked with `prompt` if it needs one.
///
/// # Errors
/// The text that ssh-keygen prints after `Load key "…": `.
pub(super) fn load_private(
    path: &Path,
    given: Option<&[u8]>,
    prompt: &str,
) -> Result<PrivateKeyFile, LoadError> {
    let handle = sys::file::open_regular(path, FollowLinks::Follow).map_err(LoadError::from)?;
    if let Some(mode) = sys::file::too_open_for_a_key(&handle).map_err(LoadError::from)? {
        warn_too_open(path, mode);
        return Err(LoadError("bad permissions".to_owned()));
    }
    let file = sys::file::read_file_bounded(&handle, private_file::MAX_FILE_BYTES)
        .map(Zeroizing::new)
        .map_err(LoadError::from)?;
    if let Some(warning) = private_file::slow_warning(&file) {
        eprintln!("Load key \"{}\": {warning}", path.display());
    }
    match private_file::parse(&file, None) {
        Err(PrivateFileError::NeedsPassphrase) => match given {
            Some(passphrase) => private_file::parse(&file, Some(passphrase)),
            None => {
                let passphrase =
                    console::passphrase(prompt).map_err(|failure| LoadError(failure.message))?;
                private_file::parse(&file, Some(&passphrase))
            }
        },
        other => other,
    }
    .map_err(|error| LoadError::from(&error))
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

/// The public key of a file of either kind, without a passphrase: the private key's own public
/// half, or the file with `.pub` appended, which may exist alone (the key is in an agent).
pub(super) fn load_public(path: &Path) -> Result<PublicKeyFile, LoadError> {
    let file = match read(path) {
        Ok(file) => file,
        Err(error) => {
            return load_public_file(&public_path(path)).map_err(|_| LoadError::from(error));
        }
    };
    if private_file::is_private_key(&file) {
        let beside = load_public_file(&public_path(path));
        return match (private_file::parse_public(&file), beside) {
            (Ok(key), Ok(beside)) if beside.key.key() == &key => Ok(beside),
            (Ok(key), _) => Ok(PublicKeyFile {
                key: key.into(),
                comment: private_file::parse(&file, None)
                    .map(|file| file.comment)
                    .unwrap_or_default(),
            }),
            (Err(_), Ok(beside)) => Ok(beside),
            (Err(error), Err(_)) => Err(LoadError::from(&error)),
        };
    }
    public_file::parse(&file).map_err(|_| LoadError("invalid format".to_owned()))
}

/// The text of a private key file in the form that the flags ask for.
pub(super) fn private_text(
    form: KeyFileForm,
    key: &PrivateKey,
    comment: &str,
    passphrase: &[u8],
) -> Result<Zeroizing<String>, KeygenFailure> {
    let passphrase = Some(passphrase);
    let written = match form.format {
        Some(Format::Pem) if keys_have_pem(key) => private_file::write_pem(key, passphrase),
        Some(Format::Pkcs8) if keys_have_pem(key) || key.key_type() == KeyType::Ed25519 => {
            private_file::write_pkcs8(key, passphrase)
        }
        _ => {
            let protection = OpensshProtection {
                cipher: form.cipher.unwrap_or_default(),
                rounds: form.rounds.unwrap_or(DEFAULT_KDF_ROUNDS),
            };
            private_file::write_openssh_with(key, comment, passphrase, &protection)
        }
    };
    written.map_err(|error| KeygenFailure::new(error.to_string()))
}

/// Types that OpenSSL's traditional format has; the others stay in OpenSSH's under `-m PEM`.
fn keys_have_pem(key: &PrivateKey) -> bool {
    matches!(
        key.key_type(),
        KeyType::Rsa | KeyType::EcdsaP256 | KeyType::EcdsaP384 | KeyType::EcdsaP521
    )
}

/// Writes a private key: 0600 from the first byte, in place of an old one at once.
pub(super) fn save_private(path: &Path, text: &str) -> io::Result<()> {
    if path.symlink_metadata().is_ok() {
        sys::file::replace(path, text.as_bytes(), 0o600)
    } else {
        sys::file::write_private(path, text.as_bytes())
    }
}

/// Writes a public key file.
pub(super) fn save_public(
    path: &Path,
    key: &PresentedKey,
    comment: &str,
) -> Result<(), KeygenFailure> {
    let line = format!("{}\n", public_file::to_line(key, comment));
    sys::file::replace(path, line.as_bytes(), 0o644).map_err(|error| {
        KeygenFailure::new(format!(
            "Unable to save public key to {}: {}",
            shown(path),
            reason(&error)
        ))
    })
}

/// Writes both files of a key pair, the public one beside `path`.
pub(super) fn save(
    form: KeyFileForm,
    path: &Path,
    key: &PrivateKey,
    comment: &str,
    passphrase: &[u8],
) -> Result<(), KeygenFailure> {
    let text = private_text(form, key, comment, passphrase)?;
    save_private(path, &text).map_err(|error| {
        KeygenFailure::refused(format!(
            "Saving key \"{}\" failed: {}",
            shown(path),
            reason(&error)
        ))
    })?;
    let public = PresentedKey::from(key.public().clone());
    save_public(&public_path(path), &public, comment)
}
