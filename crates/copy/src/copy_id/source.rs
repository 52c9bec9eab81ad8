//! The keys to install: those of the agent, or of a file.

use std::fs;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agent::AgentClient;
use keys::time::CivilTime;
use keys::{PresentedKey, base64};

use super::{CopyIdError, options::CopyIdOptions};

/// Largest file of keys, bytes.
const MAX_FILE_BYTES: u64 = 4 << 20;
/// Time for the agent to list its keys.
const AGENT_WAIT: Duration = Duration::from_secs(30);

/// A key to install.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NewKey {
    /// The line of authorized_keys.
    pub(super) line: String,
    /// The key in base64, by which it is found in a file.
    pub(super) blob: String,
}

/// The keys and where they are from.
#[derive(Debug)]
pub(super) struct KeySource {
    /// For messages: the quoted path of a file, or the command that lists the agent's keys.
    pub(super) name: String,
    /// The file of the private key; `None` for keys of the agent, and if it is not needed.
    pub(super) private: Option<PathBuf>,
    pub(super) keys: Vec<NewKey>,
}

/// The keys that the command line selects.
pub(super) fn find(options: &CopyIdOptions) -> Result<KeySource, CopyIdError> {
    match &options.identity {
        Some(path) if path.as_os_str().is_empty() => of_default_file(options),
        Some(path) => of_file(path, options.force),
        None => match of_agent() {
            keys if keys.is_empty() => of_default_file(options),
            keys => Ok(KeySource {
                name: "ssh-add -L".into(),
                private: None,
                keys,
            }),
        },
    }
}

/// The agent's plain keys; a certificate has no place in authorized_keys.
fn of_agent() -> Vec<NewKey> {
    let path = std::env::var_os("SSH_AUTH_SOCK").filter(|path| !path.is_empty());
    let Some(Ok(stream)) = path.map(UnixStream::connect) else {
        return Vec::new();
    };
    let _ = stream.set_read_timeout(Some(AGENT_WAIT));
    let listed = AgentClient::new(stream).list().unwrap_or_default();
    let plain = listed.into_iter().filter_map(|identity| {
        let Ok(PresentedKey::Plain(key)) = PresentedKey::from_blob(&identity.blob) else {
            return None;
        };
        let comment: String = identity
            .comment
            .chars()
            .filter(|each| !each.is_control())
            .collect();
        let line = format!("{} {comment}", key.to_line());
        Some(NewKey {
            line: line.trim_end().to_owned(),
            blob: base64::encode(&identity.blob),
        })
    });
    plain.collect()
}

/// The newest `~/.ssh/id*.pub` that is no certificate.
fn of_default_file(options: &CopyIdOptions) -> Result<KeySource, CopyIdError> {
    let folder = super::home().map(|home| home.join(".ssh"));
    let entries = folder.and_then(|folder| fs::read_dir(folder).ok());
    let newest = entries
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            name.starts_with("id") && name.ends_with(".pub") && !name.ends_with("-cert.pub")
        })
        .max_by_key(|entry| entry.metadata().and_then(|data| data.modified()).ok());
    match newest {
        Some(entry) => of_file(&entry.path(), options.force),
        None => Err(CopyIdError::new("ERROR: no ID file found")),
    }
}

/// The keys of a file; its private key must be readable unless it is not needed.
fn of_file(path: &Path, force: bool) -> Result<KeySource, CopyIdError> {
    let text = path.to_string_lossy();
    let public = match text.strip_suffix(".pub") {
        Some(_) => path.to_owned(),
        None => PathBuf::from(format!("{text}.pub")),
    };
    let private = public.with_extension("");
    let size = fs::metadata(&public)
        .map_err(|error| unreadable(&public, &error, ""))?
        .len();
    if size > MAX_FILE_BYTES {
        return Err(unreadable(&public, &io::ErrorKind::FileTooLarge.into(), ""));
    }
    let lines = fs::read(&public).map_err(|error| unreadable(&public, &error, ""))?;
    if !force {
        let hint = format!(
            "\n\t(to install the contents of '{}' anyway, look at the -f option)",
            public.display()
        );
        fs::File::open(&private).map_err(|error| unreadable(&private, &error, &hint))?;
    }
    Ok(KeySource {
        name: format!("\"{}\"", public.display()),
        private: (!force).then_some(private),
        keys: keys_of(&lines, &public)?,
    })
}

fn unreadable(path: &Path, error: &io::Error, hint: &str) -> CopyIdError {
    let reason = transfer::text::reason(error);
    let shown = path.display();
    CopyIdError::apart(format!(
        "ERROR: failed to open ID file '{shown}': {reason}{hint}"
    ))
}

fn keys_of(text: &[u8], path: &Path) -> Result<Vec<NewKey>, CopyIdError> {
    let text = String::from_utf8_lossy(text);
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let parsed = keys::authorized_keys::parse(line.as_bytes(), &CivilTime::utc_seconds).next();
        match parsed {
            Some(Ok(key)) => found.push(NewKey {
                line: line.to_owned(),
                blob: base64::encode(&key.key.blob()),
            }),
            Some(Err(refused)) => {
                return Err(CopyIdError::new(format!(
                    "ERROR: {}: line {number} is no public key: {}",
                    path.display(),
                    refused.reason
                )));
            }
            None => {}
        }
    }
    Ok(found)
}
