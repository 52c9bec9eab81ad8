//! Asks a person through an askpass program (ssh-add(1), SSH_ASKPASS).

use std::ffi::{OsStr, OsString};
use std::time::Duration;

use zeroize::Zeroizing;

use super::prompt::{MAX_ANSWER_LEN, SIGNAL_CHECK_INTERVAL};
use crate::process::{Child, ChildCommand};
use crate::signals::{self, Signal};

/// The askpass program if `SSH_ASKPASS` is unset or empty.
const DEFAULT_PROGRAM: &str = "/usr/bin/ssh-askpass";

/// Time that a program has to take its notice away before it is killed.
const NOTICE_END: Duration = Duration::from_millis(500);

/// The askpass program of the environment.
#[must_use]
pub fn program() -> OsString {
    std::env::var_os("SSH_ASKPASS")
        .filter(|program| !program.is_empty())
        .unwrap_or_else(|| OsString::from(DEFAULT_PROGRAM))
}

/// Runs `program` with the prompt as its argument and waits for it. The first line of its output is
/// the answer; `None` if it fails or the person declines. `hint` is the value of
/// `SSH_ASKPASS_PROMPT`, with which the program chooses its form: `confirm` asks for yes or no.
///
/// # Errors
/// If the program cannot be started, or its answer is longer than [`MAX_ANSWER_LEN`] bytes; the
/// reason in words.
pub fn ask(
    program: &OsStr,
    prompt: &str,
    hint: Option<&str>,
) -> Result<Option<Zeroizing<Vec<u8>>>, String> {
    let text = |error: std::io::Error| error.to_string();
    let (output, theirs) = crate::io::pipe().map_err(text)?;
    let mut command = ChildCommand::new(program);
    command.arg(program).arg(prompt).inherit_env();
    if let Some(hint) = hint {
        command.env("SSH_ASKPASS_PROMPT", hint);
    }
    command
        .fd(crate::io::null().map_err(text)?, 0)
        .fd(theirs, 1)
        .fd_shared(crate::io::stderr(), 2);
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    drop(command);
    let mut answer = Zeroizing::new(vec![0_u8; MAX_ANSWER_LEN + 1]);
    let mut length = 0;
    while let Some(room) = answer.get_mut(length..).filter(|room| !room.is_empty()) {
        let waited = crate::io::wait_readable(&output, Some(SIGNAL_CHECK_INTERVAL));
        if signals::question_ends() {
            drop(Notification(child));
            return Ok(None);
        }
        if !waited.map_err(text)? {
            continue;
        }
        let count = crate::io::read(&output, room).map_err(text)?;
        if count == 0 {
            break;
        }
        length += count;
    }
    drop(output);
    let status = child.wait().map_err(text)?;
    if !status.is_success() {
        return Ok(None);
    }
    answer.truncate(length);
    let end = answer
        .iter()
        .position(|byte| matches!(byte, b'\n' | b'\r'))
        .unwrap_or(length);
    if end > MAX_ANSWER_LEN {
        return Err("the answer is too long".into());
    }
    answer.truncate(end);
    Ok(Some(answer))
}

/// Asks for a permission with `SSH_ASKPASS_PROMPT=confirm`: true if the program ends with 0 and
/// prints nothing or "yes". False without a display, unless `SSH_ASKPASS_REQUIRE` is `force`.
#[must_use]
pub fn confirms(question: &str) -> bool {
    may_ask()
        && match ask(&program(), question, Some("confirm")) {
            Ok(Some(answer)) => answer.is_empty() || answer.eq_ignore_ascii_case(b"yes"),
            Ok(None) | Err(_) => false,
        }
}

/// A notice without a question that an askpass program shows (`SSH_ASKPASS_PROMPT=none`) until this
/// value is dropped.
#[derive(Debug)]
pub struct Notification(Child);

impl Notification {
    /// Shows `text`. `None` without a display, unless `SSH_ASKPASS_REQUIRE` is `force`, and if the
    /// program cannot be started.
    #[must_use]
    pub fn show(text: &str) -> Option<Self> {
        if !may_ask() {
            return None;
        }
        let program = program();
        let mut command = ChildCommand::new(&program);
        command
            .arg(&program)
            .arg(text)
            .inherit_env()
            .env("SSH_ASKPASS_PROMPT", "none")
            .fd(crate::io::null().ok()?, 0)
            .fd(crate::io::null().ok()?, 1)
            .fd_shared(crate::io::stderr(), 2);
        command.spawn().ok().map(Self)
    }
}

impl Drop for Notification {
    fn drop(&mut self) {
        let _ = self.0.signal(Signal::TERM);
        let ended = crate::io::wait_readable(self.0.pidfd(), Some(NOTICE_END));
        if !ended.unwrap_or(false) {
            let _ = self.0.signal(Signal::KILL);
        }
        let _ = self.0.wait();
    }
}

/// True if an askpass program may be started.
#[must_use]
pub fn may_ask() -> bool {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    match std::env::var("SSH_ASKPASS_REQUIRE").as_deref() {
        Ok("force") => true,
        Ok("never") => false,
        _ => set("DISPLAY") || set("WAYLAND_DISPLAY"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signals::NOTED_TEST_LOCK;

    #[test]
    fn a_question_that_is_given_up_ends_its_program() {
        let _noted = NOTED_TEST_LOCK.lock();
        let folder = std::env::temp_dir().join(format!("askpass-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let program = folder.join("askpass");
        std::fs::write(&program, "#!/bin/sh\nexec sleep 1000\n").unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(&program, mode).unwrap();
        let begun = std::time::Instant::now();
        let is_late = move || begun.elapsed() > Duration::from_millis(300);
        let asked = || ask(program.as_os_str(), "p", None);
        let answer = signals::with_questions_until(is_late, asked).unwrap();
        assert!(answer.is_none());
        assert!(begun.elapsed() < Duration::from_secs(100));
        assert!(!signals::question_ends());
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn the_first_line_of_the_output_is_the_answer() {
        let _noted = NOTED_TEST_LOCK.lock();
        // /bin/echo prints the prompt, which serves as the answer.
        let program = OsStr::new("/bin/echo");
        let answer = ask(program, "secret\nmore", None).unwrap().unwrap();
        assert_eq!(&answer[..], b"secret");
        let declined = ask(OsStr::new("/bin/false"), "p", Some("confirm")).unwrap();
        assert!(declined.is_none());
        assert!(ask(OsStr::new("/nonexistent"), "p", None).is_err());
        let long = "x".repeat(MAX_ANSWER_LEN + 1);
        assert!(ask(program, &long, None).is_err());
    }
}
