//! The only escaper of foreign text: text from a peer, a file, a certificate or another program
//! passes through this crate before it reaches a terminal, a log or a message.
//!
//! The contract of every [`Style`]:
//!
//! - Printable characters of any script, spaces and backslashes are not changed.
//! - Every other character is replaced byte by byte with a backslash and three octal digits, like
//!   OpenSSH's vis(3): ESC becomes `\033`, U+202E becomes `\342\200\256`, the byte 0xff `\377`.
//! - "Other" are characters for which [`is_harmless`] returns false and bytes that are not valid
//!   UTF-8.
//! - The result is valid UTF-8 and cannot control a terminal. Except for [`Style::Lines`] it is one
//!   line.
//! - Escaping is idempotent, so that a process may escape again the text that an untrusted process
//!   claims to have escaped. (Not for [`Style::Quoted`], which escapes the backslash.)
//!
//! [`LogLevel`] is here too, since every log needs both.
//!
//! Writers of formats with their own escapes (JSON, HTML) use only [`is_harmless`].
#![forbid(unsafe_code)]
#![no_std]

extern crate alloc;

use alloc::borrow::Cow;
use alloc::string::String;

mod log_level;

pub use log_level::LogLevel;

/// The kind of output that escaped text is meant for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// One line for a terminal.
    Line,
    /// Several lines for a terminal (banners, prompts): newlines and tabs are kept; a carriage
    /// return before a newline is dropped.
    Lines,
    /// One line for a log: of the printable characters only ASCII is kept.
    Ascii,
    /// As [`Style::Ascii`], for use between double quotes: also escapes `"` and the backslash.
    Quoted,
}

/// True for a character that neither controls a terminal nor hides text. False for control
/// characters (C0, DEL, C1), line and paragraph separators, bidirectional marks, overrides and
/// isolates, and every character that Unicode lets a terminal draw as nothing (zero-width
/// characters, soft hyphens, fillers, variation selectors, tags, byte order marks).
#[must_use]
pub fn is_harmless(character: char) -> bool {
    // Unicode 16: Default_Ignorable_Code_Point, Bidi_Control, the separators Zl and Zp, and the
    // format characters (Cf) that are not drawn.
    !character.is_control()
        && !matches!(
            character,
            '\u{ad}'
                | '\u{34f}'
                | '\u{61c}'
                | '\u{115f}'..='\u{1160}'
                | '\u{17b4}'..='\u{17b5}'
                | '\u{180b}'..='\u{180f}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{3164}'
                | '\u{fe00}'..='\u{fe0f}'
                | '\u{feff}'
                | '\u{ffa0}'
                | '\u{fff0}'..='\u{fffb}'
                | '\u{13430}'..='\u{1343f}'
                | '\u{1bca0}'..='\u{1bca3}'
                | '\u{1d173}'..='\u{1d17a}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

/// Escapes `text` (a string or bytes) as one line for a terminal ([`Style::Line`]).
#[must_use]
pub fn one_line(text: impl AsRef<[u8]>) -> String {
    escape(text, Style::Line)
}

/// Escapes `text` (a string or bytes) for the given kind of output.
#[must_use]
pub fn escape(text: impl AsRef<[u8]>, style: Style) -> String {
    let text = text.as_ref();
    let mut out = String::with_capacity(text.len());
    let _ = write(&mut out, text, style, usize::MAX);
    out
}

/// As [`escape`], limited to `max_chars` characters of output and cut only between escapes; appends
/// `...` to a text that was cut. Reads no more of the text than it outputs.
#[must_use]
pub fn escape_at_most(text: impl AsRef<[u8]>, style: Style, max_chars: usize) -> String {
    let mut out = String::new();
    if write(&mut out, text.as_ref(), style, max_chars).is_err() {
        out.push_str("...");
    }
    out
}

/// Removes the ` (os error 2)` that Rust appends to the messages of system errors.
#[must_use]
pub fn system_words(text: &str) -> Cow<'_, str> {
    const MARK: &str = " (os error ";
    let mut rest = text;
    let mut out = String::new();
    while let Some((before, after)) = rest.split_once(MARK) {
        let tail = after.trim_start_matches(|c: char| c.is_ascii_digit());
        let has_number = tail.len() < after.len();
        match tail.strip_prefix(')').filter(|_| has_number) {
            Some(tail) => {
                out.push_str(before);
                rest = tail;
            }
            None => {
                out.push_str(before);
                out.push_str(MARK);
                rest = after;
            }
        }
    }
    if out.is_empty() {
        return Cow::Borrowed(text);
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// The text is longer than the limit.
struct Cut;

fn write(out: &mut String, text: &[u8], style: Style, max_chars: usize) -> Result<(), Cut> {
    let mut left = max_chars;
    let mut charge = |chars: usize| {
        left = left.checked_sub(chars).ok_or(Cut)?;
        Ok(())
    };
    for chunk in text.utf8_chunks() {
        let mut characters = chunk.valid().chars().peekable();
        while let Some(character) = characters.next() {
            if style == Style::Lines && character == '\r' && characters.peek() == Some(&'\n') {
                continue;
            }
            if stays(character, style) {
                charge(1)?;
                out.push(character);
            } else {
                charge(4 * character.len_utf8())?;
                push_octal(out, character.encode_utf8(&mut [0; 4]).as_bytes());
            }
        }
        charge(4 * chunk.invalid().len())?;
        push_octal(out, chunk.invalid());
    }
    Ok(())
}

fn stays(character: char, style: Style) -> bool {
    match style {
        Style::Line => is_harmless(character),
        Style::Lines => matches!(character, '\n' | '\t') || is_harmless(character),
        Style::Ascii => matches!(character, ' '..='~'),
        Style::Quoted => matches!(character, ' '..='~') && !matches!(character, '"' | '\\'),
    }
}

fn push_octal(out: &mut String, bytes: &[u8]) {
    for byte in bytes {
        out.push('\\');
        for shift in [6, 3, 0] {
            out.push(char::from(b'0' + (byte >> shift & 7)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STYLES: [Style; 4] = [Style::Line, Style::Lines, Style::Ascii, Style::Quoted];

    #[test]
    fn each_style_shows_foreign_text_and_obeys_none_of_it() {
        use Style::{Ascii, Line, Lines, Quoted};
        for (text, style, expected) in [
            ("plain text", Line, "plain text"),
            ("Grüße, 世界 🦭", Line, "Grüße, 世界 🦭"),
            ("Grüße", Ascii, "Gr\\303\\274\\303\\237e"),
            ("hi\x1b]0;owned\x07", Line, "hi\\033]0;owned\\007"),
            ("a\nAccepted", Line, "a\\012Accepted"),
            ("a\r\nb\tc\rd\n", Lines, "a\nb\tc\\015d\n"),
            ("a\r\nb", Line, "a\\015\\012b"),
            ("\u{7f}\u{9b}2J", Line, "\\177\\302\\2332J"),
            (
                "x\u{202e}y\u{2066}z",
                Lines,
                "x\\342\\200\\256y\\342\\201\\246z",
            ),
            ("ro\u{200b}ot", Line, "ro\\342\\200\\213ot"),
            ("a\u{2028}b", Lines, "a\\342\\200\\250b"),
            ("tag\u{e0041}", Line, "tag\\363\\240\\201\\201"),
            ("DOMAIN\\user \"x\"", Line, "DOMAIN\\user \"x\""),
            ("DOMAIN\\user \"x\"", Quoted, "DOMAIN\\134user \\042x\\042"),
        ] {
            assert_eq!(escape(text, style), expected, "{text:?} {style:?}");
        }
    }

    #[test]
    fn bytes_that_are_not_utf8_are_shown_in_octal() {
        assert_eq!(one_line(b"a\xff\x1bz\xc3"), "a\\377\\033z\\303");
        assert_eq!(one_line(b"\xed\xa0\x80"), "\\355\\240\\200");
    }

    #[test]
    fn every_character_keeps_the_contract_in_every_style() {
        for character in '\0'..=char::MAX {
            for style in STYLES {
                let once = escape(character.encode_utf8(&mut [0; 4]), style);
                let kept = once.chars().eq([character]);
                let shown = once.starts_with('\\') && once.len() == 4 * character.len_utf8();
                assert!(kept || shown, "{character:?} {style:?} {once:?}");
                assert!(
                    once.chars().all(|each| is_harmless(each)
                        || style == Style::Lines && matches!(each, '\n' | '\t')),
                    "{character:?} {style:?}"
                );
                if style != Style::Quoted {
                    assert_eq!(escape(&once, style), once);
                }
            }
        }
    }

    #[test]
    fn numbers_of_system_errors_are_left_out() {
        for (text, expected) in [
            (
                "open /x: No such file (os error 2)",
                "open /x: No such file",
            ),
            ("a (os error 2): b (os error 104)\n", "a: b\n"),
            (
                "a (os error x) (os error ) (os error 1",
                "a (os error x) (os error ) (os error 1",
            ),
            ("nothing", "nothing"),
        ] {
            assert_eq!(system_words(text), expected);
        }
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let cut = |text: &str, max| escape_at_most(text, Style::Line, max);
        assert_eq!(cut("é", 1), "é");
        assert_eq!(cut("éa", 1), "é...");
        assert_eq!(cut("a\x1bb", 4), "a...");
        assert_eq!(cut("a\x1bb", 6), "a\\033b");
        assert_eq!(cut("", 0), "");
        assert_eq!(cut(&"x".repeat(1 << 20), 10), "xxxxxxxxxx...");
    }
}
