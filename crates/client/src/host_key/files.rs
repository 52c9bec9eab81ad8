//! Reads and writes known_hosts files, reads the file of revoked keys, and runs the known-hosts
//! command.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use config::tokens::{Purpose, Tokens};
use keys::PresentedKey;
use keys::known_hosts::{KnownHosts, MAX_FILE_BYTES};

use crate::children;
use crate::connect::plain_reason;
use crate::log::{debug1, debug3};

/// Most output of a known-hosts command, bytes.
const MAX_COMMAND_OUTPUT: usize = 4 << 20;

/// The files that the words of a keyword name; `none` names no file.
pub(crate) fn named(words: &[String]) -> Vec<PathBuf> {
    let files = words
        .iter()
        .filter(|word| !word.eq_ignore_ascii_case("none"));
    files.map(PathBuf::from).collect()
}

/// Reads those of the files that exist.
///
/// # Errors
/// The text for the user if a file is too large: to pass it over would make its hosts unknown, and its revoked
/// keys valid.
pub(super) fn load<'p>(paths: impl Iterator<Item = &'p PathBuf>) -> io::Result<Vec<KnownHosts>> {
    let mut files = Vec::new();
    for path in paths {
        match KnownHosts::load(path) {
            Ok(file) => files.push(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                debug3!("no known_hosts file {}", path.display());
            }
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                return Err(io::Error::other(format!(
                    "The known_hosts file {} is larger than {} MiB and is not read: remove lines that nobody needs, \
                     or divide it and name its parts in UserKnownHostsFile or GlobalKnownHostsFile.",
                    path.display(),
                    MAX_FILE_BYTES >> 20
                )));
            }
            Err(error) => debug1!("known_hosts file {}: {error}", path.display()),
        }
    }
    Ok(files)
}

/// Replaces a file by `text` atomically: readers see the old or the new text, never a part.
pub(super) fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    // A symbolic link is kept; its target is replaced.
    let path = fs::canonicalize(path)?;
    let mode = fs::metadata(&path)?.permissions().mode() & 0o777;
    sys::file::replace_unsynced(&path, text, mode)
}

/// True if a list or KRL revokes the key or the authority of its certificate.
pub(super) fn is_revoked(path: &Path, presented: &PresentedKey) -> Result<bool, String> {
    let list = keys::krl::RevocationList::load(path).map_err(|error| error.to_string())?;
    Ok(list.is_revoked(presented))
}

/// Why a known-hosts command gave nothing.
#[derive(Debug)]
pub(super) enum CommandError {
    /// There is no such program. The login goes on without it, as with OpenSSH.
    NotRun(String),
    /// It failed, so that what it would have printed is not known.
    Failed(String),
}

/// Runs the known-hosts command without a shell: splits it into words, then expands the tokens of
/// each. `what` names it in messages.
pub(super) fn run_command(
    what: &str,
    template: &str,
    tokens: &Tokens,
) -> Result<Vec<u8>, CommandError> {
    let words = words_of(template, tokens)
        .map_err(|reason| CommandError::NotRun(format!("{what} {reason}")))?;
    let program = words.first().map(String::as_str).unwrap_or_default();
    if let Err(reason) = fs::metadata(program) {
        let reason = plain_reason(&reason);
        return Err(CommandError::NotRun(format!(
            "Could not stat {what} \"{program}\": {reason}"
        )));
    }
    output_of(&words)
        .map_err(|reason| CommandError::Failed(format!("{what} {} {reason}", words.join(" "))))
}

fn words_of(template: &str, tokens: &Tokens) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    for word in split_words(template)? {
        words.push(
            tokens
                .expand(&word, Purpose::Plain)
                .map_err(|error| error.to_string())?,
        );
    }
    match words.first() {
        Some(program) if program.starts_with('/') => Ok(words),
        _ => Err("path is not absolute".into()),
    }
}

/// Runs the command of these words; what it prints.
fn output_of(words: &[String]) -> Result<Vec<u8>, String> {
    let program = words.first().map(String::as_str).unwrap_or_default();
    let (output, theirs) = sys::io::pipe().map_err(|error| error.to_string())?;
    let mut command = sys::process::ChildCommand::new(program);
    command
        .args(words)
        .inherit_env()
        .fd(theirs, 1)
        .fd_shared(sys::io::stderr(), 2);
    command.fd(sys::io::null().map_err(|error| error.to_string())?, 0);
    let mut child = children::spawn(&mut command).map_err(|error| error.to_string())?;
    drop(command);
    let text = sys::io::read_to_end(&output, MAX_COMMAND_OUTPUT).map_err(|error| error.to_string());
    drop(output);
    let status = child.wait().map_err(|error| error.to_string())?;
    if !status.is_success() {
        return Err(format!("failed, {status}"));
    }
    text
}

/// Splits a command into words; quotes and backslashes as in a shell, nothing else special.
fn split_words(text: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match (quote, character) {
            (Some(open), character) if open == character => quote = None,
            (None, '\'' | '"') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None | Some('"'), '\\') => {
                let next = characters.next().ok_or("a backslash ends the command")?;
                word.get_or_insert_default().push(next);
            }
            (None, ' ' | '\t') => words.extend(word.take()),
            (_, character) => word.get_or_insert_default().push(character),
        }
    }
    if quote.is_some() {
        return Err("a quote is not closed".into());
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_with_quotes_and_backslashes() {
        let split = |text: &str| split_words(text);
        assert_eq!(
            split(r#"/bin/x a "b c" 'd e'\ f """#).unwrap(),
            ["/bin/x", "a", "b c", "d e f", ""]
        );
        assert!(split("/bin/x 'a").is_err());
        assert!(split("/bin/x \\").is_err());
    }

    #[test]
    fn a_file_is_replaced_whole_and_keeps_its_mode() {
        let directory = std::env::temp_dir().join(format!("fulmar-known-{}", std::process::id()));
        let path = directory.join("known_hosts");
        fs::create_dir_all(&directory).unwrap();
        fs::write(&path, "before\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        replace(&path, b"whole\n").unwrap();
        replace(Path::new("/dev/null"), b"nothing\n").unwrap();
        assert!(sys::file::is_special("/dev/null"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "whole\n");
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
        fs::remove_dir_all(&directory).unwrap();
    }
}
