//! Adds the keys of files to the agent, and removes them.

use std::io::Read;
use std::path::{Path, PathBuf};

use agent::request::lifetime_of_certificate;
use agent::{AddRequest, Constraints};
use keys::certificate::Certificate;
use keys::private_file::{self, HeldKey, MAX_FILE_BYTES, PrivateFileError, PrivateKeyFile};
use keys::{KeyError, PresentedKey, public_file};
use zeroize::Zeroizing;

use crate::options::AddOptions;
use crate::{AgentConnection, Failed, debug, reason};

/// Files in ~/.ssh that are added if none is named.
const DEFAULT_FILES: [&str; 6] = [
    "id_rsa",
    "id_ecdsa",
    "id_ecdsa_sk",
    "id_ed25519",
    "id_ed25519_sk",
    "id_mldsa44_ed25519",
];

/// Adds or removes the keys of the options' files; an error if one could not be.
pub(crate) fn add_or_remove(
    connection: &mut AgentConnection,
    options: &AddOptions,
    constraints: Constraints,
) -> Result<(), Failed> {
    let mut work = FileWork {
        connection,
        options,
        constraints,
        passphrase: None,
    };
    let mut all_done = true;
    if options.files.is_empty() {
        let folder = keygen::home().join(".ssh");
        let files: Vec<PathBuf> = DEFAULT_FILES
            .iter()
            .map(|name| folder.join(name))
            .filter(|path| path.exists())
            .collect();
        let mut count = 0;
        for file in &files {
            match work.file(file) {
                Ok(()) => count += 1,
                Err(Failed) => all_done = false,
            }
        }
        all_done &= count > 0;
    }
    for file in &options.files {
        all_done &= work.file(file).is_ok();
    }
    if all_done { Ok(()) } else { Err(Failed) }
}

/// Adds the keys that a security key stores (`-K`).
pub(crate) fn add_resident(
    connection: &mut AgentConnection,
    options: &AddOptions,
    constraints: &Constraints,
) -> Result<(), Failed> {
    let failed = |message: String| {
        eprintln!("{message}");
        Failed
    };
    let provider = keygen::security_key_provider(options.provider.as_deref()).map_err(failed)?;
    let pin = keygen::ask_passphrase("Enter PIN for authenticator: ").map_err(failed)?;
    let keys = provider
        .resident_keys(None, Some(&pin))
        .map_err(|error| failed(format!("Unable to load resident keys: {error}")))?;
    drop(pin);
    let mut done = Ok(());
    for resident in keys {
        let label = resident.key.key_type().label();
        let blob = resident.key.public().blob();
        let fingerprint = keys::fingerprint::of_blob(&blob, options.fingerprint_hash);
        let request = AddRequest {
            key: HeldKey {
                key: resident.key,
                certificate: None,
            },
            comment: String::new(),
            constraints: Constraints {
                provider: Some(provider.name().to_owned()),
                ..constraints.clone()
            },
        };
        match connection.add(&request) {
            Ok(()) => report(
                options,
                &format!("Resident identity added: {label} {fingerprint}"),
                &request,
            ),
            Err(error) => {
                eprintln!("Unable to add key {label} {fingerprint}: {error}");
                done = Err(Failed);
            }
        }
    }
    done
}

struct FileWork<'a> {
    connection: &'a mut AgentConnection,
    options: &'a AddOptions,
    constraints: Constraints,
    /// The last passphrase that opened a key, tried for the next one.
    passphrase: Option<Zeroizing<Vec<u8>>>,
}

impl FileWork<'_> {
    fn file(&mut self, path: &Path) -> Result<(), Failed> {
        match (self.options.removes, path == Path::new("-")) {
            (true, true) => self.remove_listed(),
            (true, false) => self.remove(path),
            (false, is_stdin) => self.add(path, is_stdin),
        }
    }

    fn add(&mut self, path: &Path, is_stdin: bool) -> Result<(), Failed> {
        let path = if is_stdin { Path::new("(stdin)") } else { path };
        let shown = path.display();
        let bytes = read_private(path, is_stdin)?;
        let Ok(file) = self.open(path, &bytes) else {
            self.passphrase = None;
            return Err(Failed);
        };
        self.constraints.provider = match file.key.security_key() {
            None => None,
            Some(_) => {
                let provider = keygen::security_key_provider(self.options.provider.as_deref());
                let provider = provider.map_err(|error| {
                    eprintln!("Cannot load FIDO key {shown}: {error}");
                    Failed
                })?;
                Some(provider.name().to_owned())
            }
        };
        let comment = match file.comment.as_str() {
            "" => shown.to_string(),
            comment => comment.to_owned(),
        };
        let mut done = Ok(());
        if !self.options.certificates_only {
            let request = AddRequest {
                key: HeldKey {
                    key: file.key.clone(),
                    certificate: None,
                },
                comment: comment.clone(),
                constraints: self.constraints.clone(),
            };
            done = self.send(&request).map_err(|error| {
                eprintln!("Could not add identity \"{shown}\": {error}");
                Failed
            });
            if done.is_ok() {
                let text = format!("Identity added: {shown} ({comment})");
                report(self.options, &text, &request);
            }
        }
        if !self.options.keys_only {
            let certified = self.add_certificate(path, &file, comment);
            // A missing certificate is an error only if nothing else was asked for.
            if self.options.certificates_only {
                done = certified;
            }
        }
        done
    }

    /// Adds the key with the certificate beside its file.
    fn add_certificate(
        &mut self,
        path: &Path,
        file: &PrivateKeyFile,
        comment: String,
    ) -> Result<(), Failed> {
        let path = certificate_path(path);
        let shown = path.display();
        let (certificate, _) = self.load_certificate(&path)?;
        if certificate.key() != file.key.public() {
            eprintln!("Certificate {shown} does not match its private key");
            return Err(Failed);
        }
        let mut constraints = self.constraints.clone();
        if !self.options.certificates_stay {
            let now = sys::time::realtime_seconds();
            let lifetime = lifetime_of_certificate(&certificate, constraints.lifetime, now);
            let Ok(lifetime) = lifetime else {
                eprintln!("Certificate {shown} has expired; it is not added (-N adds it)");
                return Err(Failed);
            };
            constraints.lifetime = lifetime;
        }
        let key_id = escape::one_line(certificate.key_id());
        let request = AddRequest {
            key: HeldKey {
                key: file.key.clone(),
                certificate: Some(certificate),
            },
            comment,
            constraints,
        };
        self.send(&request).map_err(|error| {
            eprintln!("Certificate {shown} ({key_id}) add failed: {error}");
            Failed
        })?;
        let text = format!("Certificate added: {shown} ({key_id})");
        report(self.options, &text, &request);
        Ok(())
    }

    /// The certificate of a file, and the file's comment.
    fn load_certificate(&self, path: &Path) -> Result<(Certificate, String), Failed> {
        let shown = path.display();
        let bytes = match public_file::load(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                debug(self.options, format_args!("there is no {shown}"));
                return Err(Failed);
            }
            Err(error) => {
                let error = reason(&error.to_string());
                eprintln!("Failed to load certificate \"{shown}\": {error}");
                return Err(Failed);
            }
        };
        match public_file::parse(&bytes).map(|file| (file.key, file.comment)) {
            Ok((PresentedKey::Certificate(certificate), comment)) => Ok((*certificate, comment)),
            Ok((PresentedKey::Plain(_), _)) => {
                eprintln!("Failed to load certificate \"{shown}\": it holds a plain key");
                Err(Failed)
            }
            Err(error) => {
                eprintln!("Failed to load certificate \"{shown}\": {error}");
                Err(Failed)
            }
        }
    }

    fn send(&mut self, request: &AddRequest) -> Result<(), agent::AgentError> {
        self.connection.add(request)
    }

    /// Opens a private key: without a passphrase, with the last one, or with one that is asked for.
    fn open(&mut self, path: &Path, bytes: &[u8]) -> Result<PrivateKeyFile, Failed> {
        let shown = path.display();
        let failed = |error: PrivateFileError| {
            eprintln!("Error loading key \"{shown}\": {}", in_words(&error));
            Failed
        };
        match private_file::parse(bytes, None) {
            Err(PrivateFileError::NeedsPassphrase) => {}
            other => return other.map_err(failed),
        }
        if let Some(warning) = private_file::slow_warning(bytes) {
            eprintln!("\"{shown}\": {warning}");
        }
        if let Some(passphrase) = &self.passphrase {
            match private_file::parse(bytes, Some(passphrase)) {
                Err(PrivateFileError::WrongPassphrase) => {}
                other => return other.map_err(failed),
            }
        }
        let confirm = match self.options.confirm {
            true => " (will confirm each use)",
            false => "",
        };
        let mut prompt = format!("Enter passphrase for {shown}{confirm}: ");
        loop {
            let passphrase = keygen::ask_passphrase(&prompt).map_err(|error| {
                eprintln!("{error}");
                Failed
            })?;
            if passphrase.is_empty() {
                return Err(Failed);
            }
            match private_file::parse(bytes, Some(&passphrase)) {
                Ok(file) => {
                    self.passphrase = Some(passphrase);
                    return Ok(file);
                }
                Err(PrivateFileError::WrongPassphrase) => {}
                Err(error) => return Err(failed(error)),
            }
            prompt = format!("Bad passphrase, try again for {shown}{confirm}: ");
        }
    }

    fn remove(&mut self, path: &Path) -> Result<(), Failed> {
        let shown = path.display();
        let file = keygen::load_public_key(path).map_err(|error| {
            println!("Bad key file {shown}: {error}");
            Failed
        })?;
        let mut done = Err(Failed);
        if !self.options.certificates_only || file.key.certificate().is_some() {
            done = self.remove_key(&file.key, &file.comment, &shown.to_string());
        }
        if self.options.keys_only {
            return done;
        }
        let beside = certificate_path(path);
        match self.load_certificate(&beside) {
            Ok((certificate, comment)) if certificate.key() == file.key.key() => {
                let (key, shown) = (certificate.into(), beside.display().to_string());
                self.remove_key(&key, &comment, &shown).or(done)
            }
            Ok(_) => {
                let beside = beside.display();
                eprintln!("Certificate {beside} does not match private key {shown}");
                Err(Failed)
            }
            Err(Failed) => done,
        }
    }

    /// Removes the keys that standard input lists, one a line; an error if none was removed.
    fn remove_listed(&mut self) -> Result<(), Failed> {
        let mut text = Vec::new();
        let read = std::io::stdin().take(MAX_FILE_BYTES).read_to_end(&mut text);
        if let Err(error) = read {
            eprintln!("(stdin): {}", reason(&error.to_string()));
            return Err(Failed);
        }
        let mut done = Err(Failed);
        for (line, number) in text.split(|byte| *byte == b'\n').zip(1_usize..) {
            let line = line.trim_ascii();
            if line.is_empty() || line.starts_with(b"#") {
                continue;
            }
            match public_file::parse_line(line) {
                Ok(file) => {
                    let removed = self.remove_key(&file.key, &file.comment, "(stdin)");
                    done = removed.or(done);
                }
                Err(error) => eprintln!("(stdin):{number}: invalid key: {error}"),
            }
        }
        done
    }

    fn remove_key(&mut self, key: &PresentedKey, comment: &str, path: &str) -> Result<(), Failed> {
        self.connection.remove(&key.blob()).map_err(|error| {
            eprintln!("Could not remove identity \"{path}\": {error}");
            Failed
        })?;
        if !self.options.quiet {
            let comment = match comment {
                "" => "no comment".to_owned(),
                comment => escape::one_line(comment),
            };
            eprintln!("Identity removed: {path} {} ({comment})", key.label());
        }
        Ok(())
    }
}

fn report(options: &AddOptions, text: &str, request: &AddRequest) {
    if options.quiet {
        return;
    }
    eprintln!("{}", escape::one_line(text));
    if let Some(seconds) = request.constraints.lifetime {
        eprintln!("Lifetime set to {}", time_frame(seconds));
    }
    if request.constraints.confirm {
        eprintln!("The user must confirm each use of the key");
    }
}

/// Reads a private key file that only its owner can read, or standard input.
fn read_private(path: &Path, is_stdin: bool) -> Result<Zeroizing<Vec<u8>>, Failed> {
    let shown = path.display();
    let loading = |error: std::io::Error| {
        eprintln!(
            "Error loading key \"{shown}\": {}",
            reason(&error.to_string())
        );
        Failed
    };
    if is_stdin {
        // Full capacity at once: reallocation would leave copies in freed memory.
        let room = usize::try_from(MAX_FILE_BYTES).unwrap_or(0) + 1;
        let mut bytes = Zeroizing::new(Vec::with_capacity(room));
        let input = std::io::stdin().lock();
        let read = input.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes);
        read.map_err(loading)?;
        return Ok(bytes);
    }
    let file = sys::file::open_named(path).map_err(|error| {
        eprintln!("{shown}: {}", reason(&error.to_string()));
        Failed
    })?;
    if let Some(mode) = sys::file::too_open_for_a_key(&file).map_err(loading)? {
        keygen::warn_too_open(path, mode);
        return Err(Failed);
    }
    let bytes = sys::file::read_file_bounded(&file, MAX_FILE_BYTES).map_err(loading)?;
    Ok(Zeroizing::new(bytes))
}

/// The words of ssh-add for a file that holds no key.
fn in_words(error: &PrivateFileError) -> String {
    match error {
        PrivateFileError::NotAPrivateKey | PrivateFileError::Malformed => {
            "invalid format".to_owned()
        }
        PrivateFileError::Key(KeyError::UnknownType(name)) => {
            format!("unknown or unsupported key type ({name})")
        }
        other => other.to_string(),
    }
}

/// `path` followed by `-cert.pub`.
fn certificate_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-cert.pub");
    name.into()
}

/// A time as OpenSSH shows it: `1w02d03h`, `2d03h04m` or `03:04:05`.
fn time_frame(seconds: u32) -> String {
    let (minutes, s) = (seconds / 60, seconds % 60);
    let (hours, m) = (minutes / 60, minutes % 60);
    let (days, h) = (hours / 24, hours % 24);
    let (weeks, d) = (days / 7, days % 7);
    if weeks > 0 {
        format!("{weeks:02}w{d}d{h:02}h")
    } else if days > 0 {
        format!("{d}d{h:02}h{m:02}m")
    } else {
        format!("{h:02}:{m:02}:{s:02}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_shown_as_in_openssh() {
        for (seconds, text) in [
            (60, "00:01:00"),
            (86_399, "23:59:59"),
            (90_060, "1d01h01m"),
            (700_000, "01w1d02h"),
        ] {
            assert_eq!(time_frame(seconds), text);
        }
    }
}
