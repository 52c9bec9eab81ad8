//! How the client asks a person: a trait, so that a program that embeds the client can answer
//! for itself. The terminal's side is [`crate::prompt`].

use zeroize::Zeroizing;

/// What a question is for; an asker may treat kinds differently (an askpass program shows a
/// dialog with two buttons for a confirmation).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    /// A secret: what is typed is not shown.
    Secret,
    /// A line of text that may be shown while it is typed.
    Line,
    /// Yes or no, or the fingerprint of a host key.
    Confirm,
}

/// Someone who can be asked and told.
pub trait Interaction {
    /// Asks; `prompt` is harmless text (already escaped). `None` when nobody can be asked or
    /// the person gave up.
    fn ask(&mut self, prompt: &str, question: Question) -> Option<Zeroizing<Vec<u8>>>;

    /// Shows harmless text of one or more lines, ended by a newline.
    fn tell(&mut self, text: &str);

    /// Whether [`Interaction::ask`] has a chance of an answer: false in batch mode.
    fn can_ask(&self) -> bool;
}

/// Nobody: every question fails. For batch mode and tests.
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
