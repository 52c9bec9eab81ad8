//! known_hosts files: finding (`-F`), removing (`-R`) and hashing (`-H`) names.

use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use keys::known_hosts::edit::{self, Edited};
use keys::known_hosts::{KnownHosts, KnownHostsEntry, LineContent, Marker, hash_name};
use keys::{PresentedKey, fingerprint};

use super::options::{FingerprintForm, Flags};
use super::{KeygenFailure, files, reason};
use transfer::plan::shown;

/// What `-F` looks for, and how it shows what it finds.
pub(super) struct HostSearch<'a> {
    file: Option<&'a Path>,
    name: &'a str,
    shown_as: FoundForm,
    quiet: bool,
}

/// How a line that is found is shown.
enum FoundForm {
    AsItIs,
    Hashed,
    Fingerprint(FingerprintForm),
}

impl<'a> HostSearch<'a> {
    pub(super) fn new(name: &'a str, flags: &'a Flags) -> Self {
        Self {
            file: flags.file(),
            name,
            shown_as: if flags.has("H") {
                FoundForm::Hashed
            } else if flags.has("l") {
                FoundForm::Fingerprint(flags.fingerprint_form())
            } else {
                FoundForm::AsItIs
            },
            quiet: flags.has("q"),
        }
    }
}

fn load(file: Option<&Path>) -> Result<(PathBuf, KnownHosts), KeygenFailure> {
    let path = file.map_or_else(
        || files::home().join(".ssh").join("known_hosts"),
        Path::to_path_buf,
    );
    let cannot = |error: io::Error| {
        KeygenFailure::new(format!("Cannot stat {}: {}", shown(&path), reason(&error)))
    };
    let file = KnownHosts::load(&path).map_err(cannot)?;
    Ok((path, file))
}

/// Prints every line about a host; status 1 when there is none.
pub(super) fn find(search: &HostSearch<'_>) -> Result<(), KeygenFailure> {
    let (_, file) = load(search.file)?;
    let name = search.name;
    let wanted = name.to_ascii_lowercase();
    let mut found = false;
    for line in file.lines() {
        let LineContent::Entry(entry) = &line.content else {
            continue;
        };
        // ssh looks up names in lower case; a name hashed by another tool may be as it was typed.
        if !entry.has_known_type() || !(entry.matches(&wanted) || entry.matches(name)) {
            continue;
        }
        let key = key_of(entry);
        if matches!(search.shown_as, FoundForm::Fingerprint(_)) && key.is_none() {
            continue;
        }
        found = true;
        if !search.quiet {
            let mark = match entry.marker {
                Marker::None => "",
                Marker::CertAuthority => "CA",
                Marker::Revoked => "REVOKED",
            };
            println!("# Host {name} found: line {} {mark}", line.number);
        }
        match search.shown_as {
            FoundForm::Hashed => print_hashed(entry, line.raw),
            FoundForm::Fingerprint(form) => print_fingerprint(form, name, entry, key.as_ref()),
            FoundForm::AsItIs => print_raw(line.raw),
        }
    }
    if found {
        Ok(())
    } else {
        Err(KeygenFailure::refused(""))
    }
}

/// Prints a line of the file byte for byte; escaped if standard output is a terminal.
fn print_raw(raw: &[u8]) {
    let line = raw.strip_suffix(b"\n").unwrap_or(raw);
    if sys::io::is_terminal(sys::io::stdout()) {
        println!("{}", escape::one_line(line.trim_ascii_end()));
    } else {
        let mut out = io::stdout().lock();
        // Nobody reads any more: there is nothing to say it to.
        let _ = out.write_all(line).and_then(|()| out.write_all(b"\n"));
    }
}

fn print_hashed(entry: &KnownHostsEntry<'_>, raw: &[u8]) {
    if entry.is_hashed() || entry.has_patterns() || entry.marker != Marker::None {
        print_raw(raw);
        return;
    }
    let key = String::from_utf8_lossy(entry.key_and_comment);
    for name in String::from_utf8_lossy(entry.hosts).split(',') {
        println!("{} {key}", hash_name(&name.to_ascii_lowercase()));
    }
}

fn key_of(entry: &KnownHostsEntry<'_>) -> Option<PresentedKey> {
    PresentedKey::from_blob(&entry.key_blob()?).ok()
}

fn print_fingerprint(
    form: FingerprintForm,
    name: &str,
    entry: &KnownHostsEntry<'_>,
    key: Option<&PresentedKey>,
) {
    let Some(key) = key else {
        return;
    };
    // Of a certificate that of its key, as everywhere.
    let blob = key.key().blob();
    let comment = escape::one_line(entry.comment);
    let space = if comment.is_empty() { "" } else { " " };
    let label = key.label();
    println!(
        "{name} {label} {}{space}{comment}",
        form.fingerprint_of(&blob)
    );
    if form.verbose {
        let bits = key.key().bits();
        println!("{}", fingerprint::randomart(&blob, form.hash, &label, bits));
    }
}

/// Takes a host's lines out.
pub(super) fn remove(file: Option<&Path>, name: &str, quiet: bool) -> Result<(), KeygenFailure> {
    let (path, file) = load(file)?;
    let edited = edit::without_host(&file, &name.to_ascii_lowercase());
    if !quiet {
        for line in &edited.changed_lines {
            println!("# Host {name} found: line {line}");
        }
    }
    refuse_invalid(&path, &edited)?;
    if edited.changed_lines.is_empty() {
        eprintln!("Host {name} not found in {}", shown(&path));
        return Ok(());
    }
    replace(&path, &edited)
}

/// Hashes every name that can be hashed.
pub(super) fn hash(file: Option<&Path>) -> Result<(), KeygenFailure> {
    let (path, file) = load(file)?;
    let edited = edit::hashed(&file);
    for entry in file.entries().filter(KnownHostsEntry::has_patterns) {
        let hosts = escape::escape_at_most(entry.hosts, escape::Style::Line, 64);
        eprintln!(
            "{}:{}: ignoring host name with wildcard: {hosts}",
            shown(&path),
            entry.line
        );
    }
    refuse_invalid(&path, &edited)?;
    replace(&path, &edited)?;
    if !edited.changed_lines.is_empty() {
        eprintln!(
            "WARNING: {} contains unhashed entries",
            shown(&old_path(&path))
        );
        eprintln!("Delete this file to ensure privacy of hostnames");
    }
    Ok(())
}

/// A file that holds something else is more likely not a known_hosts file at all.
fn refuse_invalid(path: &Path, edited: &Edited) -> Result<(), KeygenFailure> {
    if edited.invalid_lines.is_empty() {
        return Ok(());
    }
    for line in &edited.invalid_lines {
        eprintln!("{}:{line}: invalid line", shown(path));
    }
    Err(KeygenFailure::refused(format!(
        "{} is not a valid known_hosts file.\n\
         Not replacing existing known_hosts file because of errors",
        shown(path)
    )))
}

fn old_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".old");
    name.into()
}

/// Puts the new text in place; the old one stays under another name. Both are said with `-q`, too.
fn replace(path: &Path, edited: &Edited) -> Result<(), KeygenFailure> {
    // A new file in the place of `/dev/stdin` would be every program's standard input.
    if path.starts_with("/dev") || path.starts_with("/proc") {
        return Err(KeygenFailure::new(format!(
            "{} cannot be replaced",
            shown(path)
        )));
    }
    let old = old_path(path);
    let put = || -> io::Result<()> {
        let mode = path.metadata()?.permissions().mode() & 0o644;
        match std::fs::remove_file(&old) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        std::fs::hard_link(path, &old)?;
        sys::file::replace(path, &edited.text, mode)
    };
    put().map_err(|error| KeygenFailure::file(path, &error))?;
    println!("{} updated.", shown(path));
    println!("Original contents retained as {}", shown(&old));
    Ok(())
}
