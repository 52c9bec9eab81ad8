//! The text of a recording: asciicast version 2, one JSON value a line
//! (docs.asciinema.org/manual/asciicast/v2). The first line describes the terminal, each other one is
//! `[seconds, "o", output]` or `[seconds, "r", "COLUMNSxROWS"]`.

use std::fmt::Write as _;

/// Appends the first line; `started` is in seconds since 1970.
pub(super) fn push_header(text: &mut String, size: (u16, u16), started: u64, term: &str) {
    let (columns, rows) = size;
    let _ = write!(
        text,
        "{{\"version\":2,\"width\":{columns},\"height\":{rows},\"timestamp\":{started},\"env\":{{\"TERM\":"
    );
    push_string(text, term);
    text.push_str("}}\n");
}

/// Appends an event of this kind, `at_us` microseconds after the first line.
pub(super) fn push_event(text: &mut String, at_us: u64, kind: char, data: &str) {
    let (seconds, micros) = (at_us / 1_000_000, at_us % 1_000_000);
    let _ = write!(text, "[{seconds}.{micros:06},\"{kind}\",");
    push_string(text, data);
    text.push_str("]\n");
}

/// Number of bytes at the end of `bytes` that begin a character and do not complete it, 0 to 3.
pub(super) fn incomplete(bytes: &[u8]) -> usize {
    for (index, byte) in bytes.iter().rev().take(3).enumerate() {
        let length = match byte {
            0x80..=0xbf => continue,
            0xc2..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf4 => 4,
            _ => return 0,
        };
        return if length > index + 1 { index + 1 } else { 0 };
    }
    0
}

/// Appends a JSON string (RFC 8259 §7).
fn push_string(text: &mut String, data: &str) {
    text.push('"');
    let mut rest = data;
    let is_escaped = |byte: u8| byte < 0x20 || matches!(byte, b'"' | b'\\' | 0x7f);
    while let Some(at) = rest.bytes().position(is_escaped) {
        let (plain, from) = rest.split_at(at);
        let (special, after) = from.split_at(1);
        text.push_str(plain);
        match special {
            "\"" => text.push_str("\\\""),
            "\\" => text.push_str("\\\\"),
            "\n" => text.push_str("\\n"),
            "\r" => text.push_str("\\r"),
            "\t" => text.push_str("\\t"),
            _ => {
                let code = special.bytes().next().unwrap_or_default();
                let _ = write!(text, "\\u{code:04x}");
            }
        }
        rest = after;
    }
    text.push_str(rest);
    text.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_the_format() {
        let mut text = String::new();
        push_header(&mut text, (80, 24), 1_700_000_000, "xterm\"\n");
        push_event(&mut text, 1_000_005, 'o', "a\x1b[1m\r\n\\\"\x7fé");
        push_event(&mut text, 2, 'r', "100x30");
        let lines: Vec<&str> = text.lines().collect();
        let head = "{\"version\":2,\"width\":80,\"height\":24,\"timestamp\":1700000000,\"env\":{\"TERM\":\"xterm\\\"\\n\"}}";
        let output = "[1.000005,\"o\",\"a\\u001b[1m\\r\\n\\\\\\\"\\u007fé\"]";
        assert_eq!(lines, [head, output, "[0.000002,\"r\",\"100x30\"]"]);
    }

    #[test]
    fn only_the_beginning_of_a_character_waits_for_its_rest() {
        for (bytes, waiting) in [
            (&b""[..], 0),
            (b"a", 0),
            ("é".as_bytes(), 0),
            (b"a\xc3", 1),
            (b"\xe4\xb8", 2),
            (b"\xf0\x9f\xa6", 3),
            ("🦭".as_bytes(), 0),
            (b"\xff", 0),
            (b"\xc3a", 0),
            (b"\x80\x80\x80\x80", 0),
        ] {
            assert_eq!(incomplete(bytes), waiting, "{bytes:?}");
        }
    }
}
