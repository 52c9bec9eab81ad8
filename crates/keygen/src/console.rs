//! Questions to the person: passphrases without echo, lines with. When standard input is no
//! terminal, the answers are read from there, one a line; passphrases come from the program of
//! `SSH_ASKPASS` where the environment wants it.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use super::KeygenFailure;
use transfer::plan::shown;

/// Longest answer on standard input, in bytes.
const MAX_ANSWER_BYTES: usize = 8192;

/// A passphrase.
pub(super) fn passphrase(prompt: &str) -> Result<Zeroizing<Vec<u8>>, KeygenFailure> {
    if let Some(answer) = client::prompt::by_askpass(prompt) {
        Ok(answer.unwrap_or_default())
    } else if sys::io::is_terminal(sys::io::stdin()) {
        sys::terminal::prompt_secret(prompt)
            .map_err(|error| KeygenFailure::new(format!("Cannot read passphrase: {error}")))
    } else {
        eprint!("{prompt}");
        Ok(read_line()?.unwrap_or_default())
    }
}

/// A new passphrase, asked for twice until both are the same.
pub(super) fn new_passphrase(first_prompt: &str) -> Result<Zeroizing<Vec<u8>>, KeygenFailure> {
    loop {
        let first = passphrase(first_prompt)?;
        let second = passphrase("Enter same passphrase again: ")?;
        if first == second {
            return Ok(first);
        }
        println!("Passphrases do not match.  Try again.");
        if !sys::io::is_terminal(sys::io::stdin()) {
            return Err(KeygenFailure::refused(""));
        }
    }
}

/// A line; `None` at the end of input.
pub(super) fn line(prompt: &str) -> Result<Option<String>, KeygenFailure> {
    print!("{prompt}");
    io::stdout()
        .flush()
        .map_err(|error| KeygenFailure::new(format!("standard output: {error}")))?;
    Ok(read_line()?.map(|line| String::from_utf8_lossy(&line).into_owned()))
}

/// Yes or no; no at the end of input.
pub(super) fn confirm(prompt: &str) -> Result<bool, KeygenFailure> {
    Ok(line(prompt)?.is_some_and(|answer| answer.trim().starts_with(['y', 'Y'])))
}

/// The file of `-f`, or the answer to a question with a default.
pub(super) fn file(
    given: Option<&Path>,
    prompt: &str,
    default: &Path,
) -> Result<PathBuf, KeygenFailure> {
    if let Some(path) = given {
        return Ok(path.to_owned());
    }
    match line(&format!("{prompt} ({}): ", shown(default)))? {
        None => Err(KeygenFailure::refused("")),
        Some(answer) if answer.is_empty() => Ok(default.to_owned()),
        Some(answer) => Ok(answer.into()),
    }
}

/// Reads byte by byte, so that what follows is left for the next question.
fn read_line() -> Result<Option<Zeroizing<Vec<u8>>>, KeygenFailure> {
    let mut line = Zeroizing::new(Vec::with_capacity(MAX_ANSWER_BYTES));
    let mut input = sys_stdin()?;
    let mut byte = [0];
    loop {
        let count = input
            .read(&mut byte)
            .map_err(|error| KeygenFailure::new(format!("standard input: {error}")))?;
        if count == 0 {
            return Ok((!line.is_empty()).then_some(line));
        }
        match byte {
            [b'\n'] => return Ok(Some(line)),
            [_] if line.len() == MAX_ANSWER_BYTES => {
                return Err(KeygenFailure::new("answer is too long"));
            }
            [byte] => line.push(byte),
        }
    }
}

/// Standard input without Rust's buffer, which would keep secrets and read more than one line.
fn sys_stdin() -> Result<std::fs::File, KeygenFailure> {
    use std::os::fd::AsFd;
    io::stdin()
        .as_fd()
        .try_clone_to_owned()
        .map(std::fs::File::from)
        .map_err(|error| KeygenFailure::new(format!("standard input: {error}")))
}
