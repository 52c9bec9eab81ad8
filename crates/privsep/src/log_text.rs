//! Text for the operator's log, which may hold what a peer said.

/// Longest text of a line, in bytes.
pub const MAX_LOG_TEXT_BYTES: usize = 1024;

/// `text` by the rules of [`escape::Style::Ascii`], cut to [`MAX_LOG_TEXT_BYTES`], then
/// followed by `...`: one line stays one line and no terminal is driven by it. The monitor escapes again
/// what a process that it does not trust says it has escaped. Errors of the system are worded for people.
#[must_use]
pub fn log_text(text: &str) -> String {
    let text = escape::system_words(text);
    escape::escape_at_most(&*text, escape::Style::Ascii, MAX_LOG_TEXT_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_stays_one_line_and_drives_no_terminal() {
        let escaped = log_text("a\nAccepted\u{1b}[1m\\\u{e9}\u{85}");
        assert_eq!(escaped, "a\\012Accepted\\033[1m\\\\303\\251\\302\\205");
        assert_eq!(log_text(&escaped), escaped);
    }

    #[test]
    fn a_line_is_bounded() {
        assert!(log_text(&"\n".repeat(1 << 20)).len() < MAX_LOG_TEXT_BYTES + 4);
    }
}
