//! Foreign text made harmless for a terminal or a log.
//!
//! Whatever a peer or a file says passes through here before a person sees it: escape
//! sequences stay visible and act on nothing, and one message stays one line.

use std::fmt::Write as _;

/// Whether line ends and tabs may stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lines {
    /// One line: a newline is shown as `\n`.
    One,
    /// Many: newlines and tabs stay, a carriage return before a newline goes.
    Many,
}

/// `text` with every control character made visible. Printable characters of other scripts
/// stay; those that change the direction of writing do not.
#[must_use]
pub fn escape(text: &str, lines: Lines) -> String {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\n' | '\t' if lines == Lines::Many => out.push(character),
            '\r' if lines == Lines::Many && characters.peek() == Some(&'\n') => {}
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            character if is_harmless(character) => out.push(character),
            character => escape_one(&mut out, character),
        }
    }
    out
}

/// As [`escape`] for bytes that need not be UTF-8: others become `\xNN`.
#[must_use]
pub fn escape_bytes(bytes: &[u8], lines: Lines) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        out.push_str(&escape(chunk.valid(), lines));
        for byte in chunk.invalid() {
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    out
}

/// `text` as one line of at most `limit` characters, for logs.
#[must_use]
pub fn one_line(text: &str) -> String {
    const LIMIT: usize = 1024;
    let mut out = escape(text, Lines::One);
    if let Some((at, _)) = out.char_indices().nth(LIMIT) {
        out.truncate(at);
        out.push_str("...");
    }
    out
}

fn escape_one(out: &mut String, character: char) {
    let code = u32::from(character);
    let _ = if code < 0x100 {
        write!(out, "\\x{code:02x}")
    } else {
        write!(out, "\\u{{{code:x}}}")
    };
}

/// False for control characters, and for the invisible ones that reorder or hide text.
fn is_harmless(character: char) -> bool {
    !character.is_control()
        && !matches!(
            character,
            '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_of_a_peer_are_shown_not_obeyed() {
        let hostile = "hi\x1b]0;owned\x07\r\nfake: \u{9b}2J\u{202e}x";
        assert_eq!(
            escape(hostile, Lines::Many),
            "hi\\x1b]0;owned\\x07\nfake: \\x9b2J\\u{202e}x"
        );
        assert_eq!(escape("a\nAccepted", Lines::One), "a\\nAccepted");
        assert_eq!(escape("a\rb", Lines::Many), "a\\rb");
        assert_eq!(escape("Grüße, 世界", Lines::One), "Grüße, 世界");
    }

    #[test]
    fn bytes_outside_utf8_become_hexadecimal() {
        assert_eq!(escape_bytes(b"a\xff\x1bz", Lines::One), "a\\xff\\x1bz");
    }

    #[test]
    fn a_long_text_is_cut_in_the_log() {
        let cut = one_line(&"é".repeat(5000));
        assert_eq!(cut.chars().count(), 1027);
        assert!(cut.ends_with("..."));
    }
}
