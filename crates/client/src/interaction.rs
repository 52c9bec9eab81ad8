//! How the client asks the user: a trait, so that a program that embeds the client can answer
//! itself. [`crate::prompt`] implements it for a terminal.

use zeroize::Zeroizing;

use crate::text::{Style, escape};

/// The kind of a question. An implementation may treat kinds differently (an askpass program shows
/// a dialog with two buttons for a confirmation).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    /// A secret: the typed text is not shown.
    Secret,
    /// A line of text that may be shown while it is typed.
    Line,
    /// Yes or no, or the fingerprint of a host key.
    Confirm,
}

/// One round of `keyboard-interactive`.
#[derive(Debug)]
pub struct Round<'r> {
    /// Title; may be empty.
    pub name: &'r str,
    /// Text above the prompts; may be empty.
    pub instruction: &'r str,
    /// The prompts, in order; may be empty.
    pub prompts: &'r [proto::Prompt],
}

/// Asks the user and shows text to the user.
pub trait Interaction {
    /// Asks the user. `prompt` has been escaped already. `None` if nobody can be asked or the user
    /// gave up.
    fn ask(&mut self, prompt: &str, question: Question) -> Option<Zeroizing<Vec<u8>>>;

    /// True if questions appear in a window, where text that is shown elsewhere is missed.
    fn asks_in_a_window(&self) -> bool {
        false
    }

    /// As [`Interaction::ask`], after escaped text that ends with a newline and that the user must know to
    /// answer.
    fn ask_about(
        &mut self,
        text: &str,
        prompt: &str,
        question: Question,
    ) -> Option<Zeroizing<Vec<u8>>> {
        if self.asks_in_a_window() {
            return self.ask(&format!("{text}{prompt}"), question);
        }
        self.tell(text);
        self.ask(prompt, question)
    }

    /// Shows escaped text of one or more lines that ends with a newline.
    fn tell(&mut self, text: &str);

    /// Shows the server's banner (RFC 4252 §5.4), which is foreign text.
    fn banner(&mut self, text: &str) {
        if !text.is_empty() && crate::log::says(escape::LogLevel::Info) {
            let mut text = escape(text, Style::Lines);
            if !text.ends_with('\n') {
                text.push('\n');
            }
            self.tell(&text);
        }
    }

    /// Answers a whole round of `keyboard-interactive` (RFC 4256 §3.2), which is foreign text: one
    /// answer for each prompt. The default is `None`, and [`Interaction::ask`] gets the prompts one
    /// by one, marked as the server's.
    fn answer(&mut self, round: &Round<'_>) -> Option<Vec<Zeroizing<Vec<u8>>>> {
        let _ = round;
        None
    }

    /// True if [`Interaction::ask`] can get an answer; false in batch mode.
    fn can_ask(&self) -> bool;
}

/// An implementation without a user: every question fails. For batch mode and tests.
#[derive(Debug, Default, Clone, Copy)]
pub struct Nobody;

impl Interaction for Nobody {
    fn ask(&mut self, _prompt: &str, _question: Question) -> Option<Zeroizing<Vec<u8>>> {
        None
    }

    fn tell(&mut self, text: &str) {
        crate::log::tell(text);
    }

    fn can_ask(&self) -> bool {
        false
    }
}
