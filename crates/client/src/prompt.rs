//! Asks the user on the controlling terminal, or through the program of `SSH_ASKPASS`.
//!
//! `SSH_ASKPASS_REQUIRE` chooses (ssh(1)): `never`, `prefer` or `force`. If it is unset, askpass is
//! used only if there is a display and no terminal. In batch mode nothing is asked. The process of a
//! jump of a program with many connections has that program ask ([`crate::question_relay`]).

use std::sync::Arc;

use config::client::ClientOptions;
use sys::terminal::{PromptError, prompt_line, prompt_secret};
use zeroize::Zeroizing;

use crate::interaction::{Interaction, Question};
use crate::log::{self, debug1, error};
use crate::question_relay;

/// How a question reaches the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AskVia {
    Terminal,
    Askpass,
    Nobody,
}

/// The parts of the environment that choose the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct AskEnvironment {
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

impl AskEnvironment {
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

    fn way(self) -> AskVia {
        let or_nobody = |possible: bool, way: AskVia| if possible { way } else { AskVia::Nobody };
        match self.require {
            Require::Force => AskVia::Askpass,
            Require::Never => or_nobody(self.terminal, AskVia::Terminal),
            Require::Prefer if self.display => AskVia::Askpass,
            _ if self.terminal => AskVia::Terminal,
            _ => or_nobody(self.display, AskVia::Askpass),
        }
    }
}

/// Orders the questions of several connections to one user: one connection asks at a time.
pub trait Turns: std::fmt::Debug + Send + Sync {
    /// Waits until this connection may ask; false if its login is no longer wanted.
    fn take(&self) -> bool;
}

/// The user at the terminal; nobody in batch mode.
#[derive(Debug)]
pub struct Prompter {
    batch_mode: bool,
    /// Orders questions if other connections may ask at the same time.
    turns: Option<Arc<dyn Turns>>,
    /// Text that leads to the next question of a process whose questions another program asks.
    leading: String,
    /// The login that the questions belong to, for that program: `user@host:port`; empty if it is unknown.
    login: String,
}

impl Drop for Prompter {
    fn drop(&mut self) {
        tell(&std::mem::take(&mut self.leading));
    }
}

impl Prompter {
    /// A prompter for the user of this process; with `batch_mode` it never asks.
    #[must_use]
    pub fn new(batch_mode: bool) -> Self {
        Self {
            batch_mode,
            turns: None,
            leading: String::new(),
            login: String::new(),
        }
    }

    /// A prompter for the login that the options describe; in their batch mode it never asks.
    #[must_use]
    pub(crate) fn for_login(options: &ClientOptions) -> Self {
        let login = format!("{}@{}:{}", options.user, options.hostname, options.port);
        let mut prompter = Self::new(options.authentication.batch_mode);
        prompter.login = escape::escape(login.as_bytes(), escape::Style::Line);
        prompter
    }

    /// As [`Prompter::new`], with questions ordered by `turns` among several connections.
    #[must_use]
    pub fn in_turn(mut self, turns: Option<Arc<dyn Turns>>) -> Self {
        self.turns = turns;
        self
    }
}

impl Interaction for Prompter {
    fn ask(&mut self, prompt: &str, question: Question) -> Option<Zeroizing<Vec<u8>>> {
        if self.batch_mode {
            return None;
        }
        if question_relay::is_offered() {
            let leading = std::mem::take(&mut self.leading);
            if let Some(answer) = question_relay::ask(&leading, prompt, &self.login, question) {
                return answer;
            }
            tell(&leading);
        }
        let way = AskEnvironment::look().way();
        if way != AskVia::Nobody
            && let Some(turns) = &self.turns
            && !turns.take()
        {
            return None;
        }
        match way {
            AskVia::Nobody => {
                debug1!("there is no terminal to ask on and no SSH_ASKPASS");
                None
            }
            AskVia::Askpass => askpass(prompt, question),
            AskVia::Terminal => {
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

    /// An askpass program does: standard error may lead nowhere.
    fn asks_in_a_window(&self) -> bool {
        !question_relay::is_offered() && AskEnvironment::look().way() == AskVia::Askpass
    }

    fn tell(&mut self, text: &str) {
        match !self.batch_mode && question_relay::is_offered() {
            true => self.leading.push_str(text),
            false => tell(text),
        }
    }

    fn can_ask(&self) -> bool {
        !self.batch_mode
            && (question_relay::is_offered() || AskEnvironment::look().way() != AskVia::Nobody)
    }
}

fn tell(text: &str) {
    if !text.is_empty() && log::level() > escape::LogLevel::Quiet {
        log::tell(text);
    }
}

/// For a tool that reads secrets from standard input: asks through the askpass program if
/// `SSH_ASKPASS_REQUIRE` demands it, or if there is a display and standard input is not a terminal.
/// `None` if the tool must ask itself; `Some(None)` if the program gave no answer.
#[must_use]
pub fn by_askpass(prompt: &str) -> Option<Option<Zeroizing<Vec<u8>>>> {
    let surroundings = AskEnvironment {
        terminal: sys::io::is_terminal(sys::io::stdin()),
        ..AskEnvironment::look()
    };
    (surroundings.way() == AskVia::Askpass).then(|| askpass(prompt, Question::Secret))
}

/// Asks the user for a permission through the askpass program, as OpenSSH does: an empty answer or
/// `yes` grants it. Nobody is asked, and it is not granted, without a display and with
/// `SSH_ASKPASS_REQUIRE=never`.
pub(crate) fn permits(question: &str) -> bool {
    sys::terminal::askpass::confirms(question)
}

/// Runs the askpass program with the prompt as its argument; the first line of its output is the
/// answer.
fn askpass(prompt: &str, question: Question) -> Option<Zeroizing<Vec<u8>>> {
    let program = sys::terminal::askpass::program();
    // Not "confirm" for a question with another valid answer, such as a fingerprint.
    let hint = (question == Question::Confirm).then_some("");
    sys::terminal::askpass::ask(&program, prompt, hint).unwrap_or_else(|reason| {
        error!("askpass {}: {reason}", program.display());
        None
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn askpass_is_chosen_as_the_manual_says() {
        let way = |require, display, terminal| {
            AskEnvironment {
                require,
                display,
                terminal,
            }
            .way()
        };
        assert_eq!(way(Require::Unset, true, true), AskVia::Terminal);
        assert_eq!(way(Require::Unset, true, false), AskVia::Askpass);
        assert_eq!(way(Require::Unset, false, false), AskVia::Nobody);
        assert_eq!(way(Require::Never, true, false), AskVia::Nobody);
        assert_eq!(way(Require::Never, true, true), AskVia::Terminal);
        assert_eq!(way(Require::Prefer, true, true), AskVia::Askpass);
        assert_eq!(way(Require::Prefer, false, true), AskVia::Terminal);
        assert_eq!(way(Require::Force, false, true), AskVia::Askpass);
    }

    #[test]
    fn batch_mode_asks_nobody() {
        let mut prompter = Prompter::new(true);
        assert!(!prompter.can_ask());
        assert!(prompter.ask("? ", Question::Line).is_none());
    }
}
