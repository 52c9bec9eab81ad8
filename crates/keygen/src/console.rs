//! Questions to the person: passphrases without echo at the controlling terminal, lines with echo at
//! standard input. Passphrases come from the program of `SSH_ASKPASS` where the environment wants it,
//! and from standard input, one a line, where there is no terminal.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use super::KeygenFailure;
use sys::terminal::PromptError;
use transfer::plan::shown;

/// Longest answer on standard input, in bytes.
const MAX_ANSWER_BYTES: usize = 8192;

/// A passphrase; empty if there is no answer.
pub(super) fn passphrase(prompt: &str) -> Result<Zeroizing<Vec<u8>>, KeygenFailure> {
    Ok(answer(prompt)?.unwrap_or_default())
}

/// A passphrase; `None` if standard input has ended or askpass gave none. The terminal comes before
/// standard input, which may be the data to sign or a list that a loop reads (`... | while read`).
fn answer(prompt: &str) -> Result<Option<Zeroizing<Vec<u8>>>, KeygenFailure> {
    if let Some(answer) = client::prompt::by_askpass(prompt) {
        return Ok(answer);
    }
    let answered = match sys::terminal::prompt_secret(prompt) {
        Err(PromptError::NoTerminal) if sys::io::is_terminal(sys::io::stdin()) => {
            sys::terminal::prompt::ask_on(sys::io::stdin(), prompt, false)
        }
        Err(PromptError::NoTerminal) => {
            eprint!("{prompt}");
            // As readpassphrase(3), which leaves the LF of a CR LF for the next question.
            return read_until(b"\n\r");
        }
        answered => answered,
    };
    let failed = |error| KeygenFailure::new(format!("Cannot read passphrase: {error}"));
    answered.map(Some).map_err(failed)
}

/// The new passphrase of the key at `path`, asked for twice until both are the same. Where nobody
/// answers any more, there is no key: ssh-keygen takes two missing answers for an empty passphrase,
/// also after others that did not match.
pub(super) fn new_passphrase(path: &Path) -> Result<Zeroizing<Vec<u8>>, KeygenFailure> {
    let name = shown(path);
    let prompt = format!("Enter passphrase for \"{name}\" (empty for no passphrase): ");
    let mut first = answer(&prompt)?;
    loop {
        let second = answer("Enter same passphrase again: ")?;
        let is_over = second.is_none();
        if first.clone().unwrap_or_default() == second.unwrap_or_default() {
            return Ok(first.unwrap_or_default());
        }
        println!("Passphrases do not match.  Try again.");
        if is_over {
            return Err(KeygenFailure::refused(""));
        }
        first = answer(&prompt)?;
        if first.is_none() {
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
    Ok(read_until(b"\n")?.map(|line| String::from_utf8_lossy(&line).into_owned()))
}

/// Yes or no, by the first letter of the answer; no at the end of input.
pub(super) fn confirm(prompt: &str) -> Result<bool, KeygenFailure> {
    Ok(line(prompt)?.is_some_and(|answer| answer.starts_with(['y', 'Y'])))
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
fn read_until(ends: &[u8]) -> Result<Option<Zeroizing<Vec<u8>>>, KeygenFailure> {
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
            [end] if ends.contains(&end) => return Ok(Some(line)),
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
