//! Escapes and shortens text for the operator's log, which may contain text from a peer.

/// Longest text of a log line, in bytes.
pub const MAX_LOG_TEXT_BYTES: usize = 1024;

/// Escapes `text` by [`escape::Style::Ascii`] and cuts it to [`MAX_LOG_TEXT_BYTES`], appending
/// `...` if it was longer. The result is one line and cannot control a terminal. The monitor
/// escapes the lines of untrusted processes again, which does not change escaped text. Removes `
/// (os error N)`.
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
