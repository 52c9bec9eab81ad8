//! Asking the user: on the controlling terminal, or through the program of `SSH_ASKPASS`.
//!
//! `SSH_ASKPASS_REQUIRE` chooses (ssh(1)): `never`, `prefer`, `force`, or, unset, askpass only
//! where there is no terminal and a display. In batch mode nothing is asked.

use std::ffi::OsString;
use std::sync::Arc;

use sys::terminal::{PromptError, prompt_line, prompt_secret};
use zeroize::Zeroizing;

use crate::interaction::{Interaction, Question};
use crate::log::{self, debug1, error};
use crate::session::Turns;

/// Longest answer of an askpass program, bytes.
const MAX_ANSWER: usize = 1024;
/// The program that is run when `SSH_ASKPASS` names none.
const DEFAULT_ASKPASS: &str = "/usr/bin/ssh-askpass";

/// Which way a question goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Terminal,
    Askpass,
    Nobody,
}

/// What the environment says about asking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Surroundings {
    require: Require,
    display: bool,
    terminal: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Require {
    Unset,
    Never,
    Prefer,
    Force,
}

impl Surroundings {
    fn look() -> Self {
        let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let require = match std::env::var("SSH_ASKPASS_REQUIRE").as_deref() {
            Ok("never") => Require::Never,
            Ok("prefer") => Require::Prefer,
            Ok("force") => Require::Force,
            _ => Require::Unset,
        };
        Self {
            require,
            display: set("DISPLAY") || set("WAYLAND_DISPLAY"),
            terminal: sys::terminal::open_controlling().is_ok(),
        }
    }

    fn way(self) -> Way {
        let or_nobody = |possible: bool, way: Way| if possible { way } else { Way::Nobody };
        match self.require {
            Require::Force => Way::Askpass,
            Require::Never => or_nobody(self.terminal, Way::Terminal),
            Require::Prefer if self.display => Way::Askpass,
            _ if self.terminal => Way::Terminal,
            _ => or_nobody(self.display, Way::Askpass),
        }
    }
}

/// The person at the terminal, or nobody in batch mode.
#[derive(Debug)]
pub struct Person {
    batch_mode: bool,
    /// Others may ask at the same time.
    turns: Option<Arc<dyn Turns>>,
}

impl Person {
    /// The user of this process.
    #[must_use]
    pub fn new(batch_mode: bool) -> Self {
        Self {
            batch_mode,
            turns: None,
        }
    }

    /// The same, asked by several connections in turn.
    #[must_use]
    pub fn in_turn(mut self, turns: Option<Arc<dyn Turns>>) -> Self {
        self.turns = turns;
        self
    }
}

impl Interaction for Person {
    fn ask(&mut self, prompt: &str, question: Question) -> Option<Zeroizing<Vec<u8>>> {
        if self.batch_mode {
            return None;
        }
        let way = Surroundings::look().way();
        if way != Way::Nobody
            && let Some(turns) = &self.turns
            && !turns.take()
        {
            return None;
        }
        match way {
            Way::Nobody => {
                debug1!("there is no terminal to ask on and no SSH_ASKPASS");
                None
            }
            Way::Askpass => askpass(prompt, question),
            Way::Terminal => {
                let answer = match question {
                    Question::Secret => prompt_secret(prompt),
                    Question::Line | Question::Confirm => prompt_line(prompt),
                };
                match answer {
                    Ok(answer) => Some(answer),
                    Err(PromptError::Interrupted | PromptError::EndOfFile) => None,
                    Err(reason) => {
                        error!("{reason}");
                        None
                    }
                }
            }
        }
    }

    fn tell(&mut self, text: &str) {
        if log::level() > log::Level::Quiet {
            log::tell(text);
        }
    }

    fn can_ask(&self) -> bool {
        !self.batch_mode && Surroundings::look().way() != Way::Nobody
    }
}

/// Asks for a secret through the askpass program of a tool that reads its standard input when that is
/// no terminal: where `SSH_ASKPASS_REQUIRE` wants the program, or where there is a display and no
/// terminal on standard input. `None` where the tool is to ask itself; `Some(None)` when the
/// program gave no answer.
#[must_use]
pub fn by_askpass(prompt: &str) -> Option<Option<Zeroizing<Vec<u8>>>> {
    let surroundings = Surroundings {
        terminal: sys::io::is_terminal(sys::io::stdin()),
        ..Surroundings::look()
    };
    (surroundings.way() == Way::Askpass).then(|| askpass(prompt, Question::Secret))
}

/// Runs the askpass program with the prompt as its argument; its first line is the answer.
fn askpass(prompt: &str, question: Question) -> Option<Zeroizing<Vec<u8>>> {
    let program = std::env::var_os("SSH_ASKPASS")
        .filter(|program| !program.is_empty())
        .unwrap_or_else(|| OsString::from(DEFAULT_ASKPASS));
    match run_askpass(&program, prompt, question) {
        Ok(answer) => answer,
        Err(reason) => {
            error!("askpass {}: {reason}", program.display());
            None
        }
    }
}

fn run_askpass(
    program: &OsString,
    prompt: &str,
    question: Question,
) -> Result<Option<Zeroizing<Vec<u8>>>, String> {
    let text = |error: std::io::Error| error.to_string();
    let (output, theirs) = sys::io::pipe().map_err(text)?;
    let mut command = sys::process::Command::new(program);
    command.arg(program).arg(prompt).inherit_env();
    if question == Question::Confirm {
        // Not SSH_ASKPASS_PROMPT=confirm: the fingerprint is an answer too.
        command.env("SSH_ASKPASS_PROMPT", "");
    }
    command
        .fd(sys::io::null().map_err(text)?, 0)
        .fd(theirs, 1)
        .fd_shared(sys::io::stderr(), 2);
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    drop(command);
    let mut answer = Zeroizing::new(vec![0_u8; MAX_ANSWER + 1]);
    let mut length = 0;
    while let Some(room) = answer.get_mut(length..).filter(|room| !room.is_empty()) {
        let count = sys::io::read(&output, room).map_err(text)?;
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
    if end > MAX_ANSWER {
        return Err("the answer is too long".into());
    }
    answer.truncate(end);
    Ok(Some(answer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn askpass_is_chosen_as_the_manual_says() {
        let way = |require, display, terminal| {
            Surroundings {
                require,
                display,
                terminal,
            }
            .way()
        };
        assert_eq!(way(Require::Unset, true, true), Way::Terminal);
        assert_eq!(way(Require::Unset, true, false), Way::Askpass);
        assert_eq!(way(Require::Unset, false, false), Way::Nobody);
        assert_eq!(way(Require::Never, true, false), Way::Nobody);
        assert_eq!(way(Require::Never, true, true), Way::Terminal);
        assert_eq!(way(Require::Prefer, true, true), Way::Askpass);
        assert_eq!(way(Require::Prefer, false, true), Way::Terminal);
        assert_eq!(way(Require::Force, false, true), Way::Askpass);
    }

    #[test]
    fn the_first_line_of_askpass_is_the_answer() {
        // /bin/echo prints the prompt, which stands for an answer.
        let program = OsString::from("/bin/echo");
        let answer = run_askpass(&program, "secret\nmore", Question::Secret)
            .unwrap()
            .unwrap();
        assert_eq!(&answer[..], b"secret");
        assert!(
            run_askpass(&OsString::from("/bin/false"), "p", Question::Secret)
                .unwrap()
                .is_none()
        );
        assert!(run_askpass(&OsString::from("/nonexistent"), "p", Question::Secret).is_err());
        let long = "x".repeat(MAX_ANSWER + 1);
        assert!(run_askpass(&program, &long, Question::Line).is_err());
    }

    #[test]
    fn batch_mode_asks_nobody() {
        let mut person = Person::new(true);
        assert!(!person.can_ask());
        assert!(person.ask("? ", Question::Line).is_none());
    }
}
