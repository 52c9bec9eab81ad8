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

/// Defines the methods of these names, which log one line at their level, for a type with a method
/// `line(level, text)`.
#[macro_export]
macro_rules! line_levels {
    (@ error) => {
        $crate::line_levels!(@ error Error "Logs a failure.");
    };
    (@ info) => {
        $crate::line_levels!(@ info Info "Logs an event at level INFO.");
    };
    (@ verbose) => {
        $crate::line_levels!(@ verbose Verbose "Logs an event at level VERBOSE.");
    };
    (@ debug) => {
        $crate::line_levels!(@ debug Debug1 "Logs a detail at level DEBUG1.");
    };
    (@ debug2) => {
        $crate::line_levels!(@ debug2 Debug2 "Logs a detail at level DEBUG2.");
    };
    (@ $method:ident $level:ident $text:literal) => {
        #[doc = $text]
        #[track_caller]
        pub(crate) fn $method(&self, text: &str) {
            self.line($crate::LogLevel::$level, text);
        }
    };
    ($($method:ident),*) => {
        $($crate::line_levels!(@ $method);)*
    };
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
