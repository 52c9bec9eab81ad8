//! Foreign text for the user's terminal and log: re-exports the crate `escape` and limits the
//! length of one message.

pub use ::escape::{Style, escape};

/// Most characters of foreign text in one message; the rest is cut.
const MAX_MESSAGE_CHARS: usize = 1024;

/// Escapes `text` to one line of at most 1,024 characters; a longer text is cut and ends with
/// `...`.
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
