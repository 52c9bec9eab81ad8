//! Foreign text for the user's terminal and log: the rules of the crate `escape`, with this
//! program's limit for one message.

pub use ::escape::{Style, escape};

/// Most characters of foreign text in one message.
const MAX_MESSAGE_CHARS: usize = 1024;

/// `text` as one line of at most 1,024 characters.
#[must_use]
pub fn one_line(text: &str) -> String {
    ::escape::escape_at_most(text, Style::Line, MAX_MESSAGE_CHARS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_in_the_log() {
        let cut = one_line(&"é".repeat(5000));
        assert_eq!(cut.chars().count(), 1027);
        assert!(cut.ends_with("..."));
    }
}
