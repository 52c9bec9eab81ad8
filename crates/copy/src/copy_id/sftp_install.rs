//! The file changed over SFTP, for servers without a shell.

use std::os::unix::ffi::OsStrExt;

use sftp::Code;
use transfer::remote::RemoteError;

use super::options::CopyIdOptions;
use super::source::NewKey;
use super::{CopyIdError, Installed};
use crate::connector::finish;
use crate::{AnyRemote, Connector, CopyLinks, RemoteHost};

/// Largest authorized_keys file that is read, bytes.
const MAX_FILE_BYTES: usize = 16 << 20;
/// Modes of what is created.
const FILE_MODE: u32 = 0o600;
const FOLDER_MODE: u32 = 0o700;

/// Appends the keys that the file does not hold. Only what it creates gets its modes.
pub(super) fn install(options: &CopyIdOptions, keys: &[NewKey]) -> Result<Installed, CopyIdError> {
    let mut way = Connector::default();
    for (flag, value) in &options.settings {
        way.pass(flag, value.clone());
    }
    if let Some(port) = &options.port {
        way.pass("p", port.clone());
    }
    let server = RemoteHost {
        host: options.host.to_string_lossy().into_owned(),
        ..RemoteHost::default()
    };
    let connected = way.connect(&server, 1);
    let mut remote = connected.map_err(|why| CopyIdError::new(format!("ERROR: {why}")))?;
    let installed = append(&mut remote, options.target.as_bytes(), keys);
    finish(&mut remote, CopyLinks::finish);
    installed.map_err(|why| CopyIdError::new(format!("ERROR: {why}")))
}

fn append(remote: &mut AnyRemote, target: &[u8], keys: &[NewKey]) -> Result<Installed, String> {
    let shown = transfer::text::name(target);
    let said = |what: &str, why: &RemoteError| format!("{what} {shown}: {why}");
    make_folder(remote, target)?;
    let text = match remote.read_whole(target, MAX_FILE_BYTES + 1) {
        Ok(text) => text,
        Err(RemoteError::Status { code, .. }) if code == Code::NO_SUCH_FILE => Vec::new(),
        Err(why) => return Err(said("read", &why)),
    };
    if text.len() > MAX_FILE_BYTES {
        return Err(format!("{shown} is larger than {MAX_FILE_BYTES} bytes"));
    }
    let (lines, installed) = addition(&text, keys);
    if installed.added > 0 {
        let size = text.len() as u64;
        let appended = remote.append(target, size, lines.as_bytes(), FILE_MODE);
        appended.map_err(|why| said("write", &why))?;
    }
    Ok(installed)
}

/// Creates the missing folders on the way to the file.
fn make_folder(remote: &mut AnyRemote, target: &[u8]) -> Result<(), String> {
    let ends = target
        .iter()
        .enumerate()
        .filter(|(at, byte)| *at > 0 && **byte == b'/');
    for (end, _) in ends {
        let folder = target.get(..end).unwrap_or_default();
        let shown = transfer::text::name(folder);
        if remote
            .is_directory(folder)
            .map_err(|error| error.to_string())?
        {
            continue;
        }
        let made = remote.mkdir(folder, FOLDER_MODE);
        made.map_err(|why| format!("create directory {shown}: {why}"))?;
    }
    Ok(())
}

/// The bytes to append to `text`: first the newline that its last line lacks.
fn addition(text: &[u8], keys: &[NewKey]) -> (String, Installed) {
    let known = String::from_utf8_lossy(text);
    let holds = |blob: &str| {
        let active = known
            .lines()
            .filter(|line| !line.trim_start().starts_with('#'));
        active.into_iter().any(|line| line.contains(blob))
    };
    let mut lines = String::new();
    let mut installed = Installed::default();
    for key in keys {
        if holds(&key.blob) || lines.contains(&key.blob) {
            installed.present += 1;
            continue;
        }
        installed.added += 1;
        if lines.is_empty() && !text.is_empty() && !text.ends_with(b"\n") {
            lines.push('\n');
        }
        lines.push_str(&format!("{}\n", key.line));
    }
    (lines, installed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(blob: &str) -> NewKey {
        NewKey {
            line: format!("ssh-ed25519 {blob} comment"),
            blob: blob.to_owned(),
        }
    }

    #[test]
    fn a_key_is_added_once_and_to_a_whole_line() {
        let keys = [key("AAAA1"), key("AAAA2"), key("AAAA1")];
        let (lines, installed) = addition(b"from=\"h\" ssh-ed25519 AAAA2 x", &keys);
        assert_eq!(lines, "\nssh-ed25519 AAAA1 comment\n");
        assert_eq!((installed.added, installed.present), (1, 2));
        let (lines, _) = addition(b"# ssh-ed25519 AAAA1\n", &keys[..1]);
        assert_eq!(lines, "ssh-ed25519 AAAA1 comment\n");
        let (lines, installed) = addition(b"ssh-ed25519 AAAA1", &keys[..1]);
        assert_eq!((lines.as_str(), installed.added), ("", 0));
    }
}
