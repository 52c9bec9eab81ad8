//! Text for the operator's log, which may hold what a peer said.

/// Longest text of a line, in bytes.
pub const MAX_LOG_TEXT_BYTES: usize = 1024;

/// Printable ASCII as it is, everything else as `\ooo`, cut to about [`MAX_LOG_TEXT_BYTES`]: one
/// line stays one line and no terminal is driven by it. Escaping twice changes nothing more, so
/// that the monitor can escape again what a half that it does not trust says it has escaped.
#[must_use]
pub fn log_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len().min(MAX_LOG_TEXT_BYTES));
    for byte in text.bytes() {
        if out.len() >= MAX_LOG_TEXT_BYTES {
            break;
        }
        match byte {
            0x20..=0x7e => out.push(char::from(byte)),
            other => out.push_str(&format!("\\{other:03o}")),
        }
    }
    out
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
