//! Edits the text of a known_hosts file: adds, removes and hashes names. Lines that an edit does
//! not concern stay unchanged. Only [`append`] writes a file; for other edits the caller replaces
//! it.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use crate::known_hosts::{KnownHosts, KnownHostsLine, LineContent, Marker, hash_name};
use crate::public_key::PublicKey;

/// Formats the line of a host's key, with line end. With `hash` each name gets its own line,
/// because a hash holds one name. A name that is not a literal name in the file (`HostName` and
/// `HostKeyAlias` may be `*`, `a,b` or contain blanks) is always hashed.
#[must_use]
pub fn entry_line(names: &[&str], key: &PublicKey, hash: bool) -> String {
    let key = key.to_line();
    if hash || !names.iter().all(|name| is_literal_name(name)) {
        names
            .iter()
            .map(|name| format!("{} {key}\n", hash_name(name)))
            .collect()
    } else {
        format!("{} {key}\n", names.join(","))
    }
}

/// True if a field with this text matches this name and no other.
fn is_literal_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(['|', '@', '#'])
        && !name.contains(|c: char| {
            matches!(c, '*' | '?' | '!' | ',') || c.is_whitespace() || c.is_control()
        })
}

/// Appends `line` to the text; adds a missing line end before it.
#[must_use]
pub fn appended(text: &[u8], line: &str) -> Vec<u8> {
    let mut out = text.to_vec();
    if !out.is_empty() && !out.ends_with(b"\n") {
        out.push(b'\n');
    }
    out.extend_from_slice(line.as_bytes());
    out
}

/// Appends lines to a file; creates it (0644 less the umask) and its directories (0700) if needed.
///
/// # Errors
/// Errors of the file system.
pub fn append(path: &Path, lines: &str) -> io::Result<()> {
    if let Some(directory) = path.parent().filter(|each| !each.as_os_str().is_empty()) {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)?;
    }
    let mut file = OpenOptions::new()
        .read(true)
        .append(true)
        .create(true)
        .mode(0o644)
        .open(path)?;
    let mut text = String::new();
    // The new line must not be joined to an unterminated last line.
    if file.seek(SeekFrom::End(0))? > 0 {
        file.seek(SeekFrom::End(-1))?;
        let mut last = [0_u8; 1];
        file.read_exact(&mut last)?;
        if last != *b"\n" {
            text.push('\n');
        }
    }
    text.push_str(lines);
    file.write_all(text.as_bytes())
}

/// An edited text, with the lines that the edit changed or could not change.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Edited {
    /// The new text.
    pub text: Vec<u8>,
    /// Numbers of the lines that were changed or removed.
    pub changed_lines: Vec<usize>,
    /// Numbers of lines that are invalid, or that OpenSSH does not accept; they are kept. An
    /// interactive program refuses to replace the file if there are any.
    pub invalid_lines: Vec<usize>,
    /// Numbers of lines with patterns, which cannot be hashed; they are kept.
    pub pattern_lines: Vec<usize>,
}

/// Removes the lines without marker that match `name`.
#[must_use]
pub fn without_host(file: &KnownHosts, name: &str) -> Edited {
    edit(file, |edited, line| match &line.content {
        LineContent::Entry(entry) if entry.has_damaged_hash() => {
            edited.invalid_lines.push(line.number);
            keep(edited, line);
        }
        LineContent::Entry(entry) if entry.marker == Marker::None && entry.matches(name) => {
            edited.changed_lines.push(line.number);
        }
        _ => keep(edited, line),
    })
}

/// Removes the lines without marker that match `name` and contain one of `blobs` (UpdateHostKeys:
/// keys that the host no longer has).
#[must_use]
pub fn without_keys(file: &KnownHosts, name: &str, blobs: &[Vec<u8>]) -> Edited {
    edit(file, |edited, line| match &line.content {
        LineContent::Entry(entry)
            if entry.marker == Marker::None
                && entry.matches(name)
                && entry.key_blob().is_some_and(|blob| blobs.contains(&blob)) =>
        {
            edited.changed_lines.push(line.number);
        }
        _ => keep(edited, line),
    })
}

/// Replaces names by their hashes, one per line. Lines with markers, patterns or hashes are kept.
#[must_use]
pub fn hashed(file: &KnownHosts) -> Edited {
    edit(file, |edited, line| match &line.content {
        LineContent::Entry(entry) if entry.marker == Marker::None && !entry.is_hashed() => {
            if entry.has_patterns() {
                edited.pattern_lines.push(line.number);
                keep(edited, line);
                return;
            }
            edited.changed_lines.push(line.number);
            for name in entry.hosts.split(|byte| *byte == b',') {
                let name = String::from_utf8_lossy(name).to_ascii_lowercase();
                if name.is_empty() {
                    continue;
                }
                edited.text.extend_from_slice(hash_name(&name).as_bytes());
                edited.text.push(b' ');
                edited.text.extend_from_slice(entry.key_and_comment);
                let end: &[u8] = if line.raw.ends_with(b"\r\n") {
                    b"\r\n"
                } else {
                    b"\n"
                };
                edited.text.extend_from_slice(end);
            }
        }
        _ => keep(edited, line),
    })
}

fn edit(file: &KnownHosts, mut each: impl FnMut(&mut Edited, &KnownHostsLine<'_>)) -> Edited {
    let mut edited = Edited::default();
    for line in file.lines() {
        match &line.content {
            LineContent::Entry(entry) if entry.is_sound() => each(&mut edited, &line),
            LineContent::Comment => each(&mut edited, &line),
            LineContent::Entry(_) | LineContent::Invalid => {
                edited.invalid_lines.push(line.number);
                keep(&mut edited, &line);
            }
        }
    }
    edited
}

fn keep(edited: &mut Edited, line: &KnownHostsLine<'_>) {
    edited.text.extend_from_slice(line.raw);
    if !line.raw.ends_with(b"\n") {
        edited.text.push(b'\n');
    }
}
