//! Foreign text on one line: control characters and what is not UTF-8 stay visible and act on
//! nothing.

use std::fmt::Write as _;

fn is_harmless(character: char) -> bool {
    !character.is_control()
        && !matches!(
            character,
            '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
        )
}

/// `text` with every control character made visible.
#[must_use]
pub fn one_line(text: &str) -> String {
    name(text.as_bytes())
}

/// A name made visible: what is not UTF-8 as `\ooo`, as OpenSSH's vis(3) shows it.
#[must_use]
pub fn name(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            if is_harmless(character) {
                out.push(character);
            } else if character.is_ascii() {
                let _ = write!(out, "\\{:03o}", u32::from(character));
            } else {
                let _ = write!(out, "\\u{{{:x}}}", u32::from(character));
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(out, "\\{byte:03o}");
        }
    }
    out
}

/// The system's words for an error, without the number that Rust adds.
#[must_use]
pub fn reason(error: &std::io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((words, _)) => words.to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_names_acts_on_nothing() {
        assert_eq!(name(b"a\x1b[2Jb\n\xffz"), "a\\033[2Jb\\012\\377z");
        assert_eq!(name("Grüße\u{202e}".as_bytes()), "Grüße\\u{202e}");
    }
}
