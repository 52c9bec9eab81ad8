//! Lines and words of ssh_config and sshd_config.
//!
//! A line is a keyword, blanks or one `=`, and arguments. Arguments may be in single or double
//! quotes; a backslash escapes a quote, a backslash or (outside quotes) a blank. A `#` at the start
//! of a word begins a comment. CRLF and trailing blanks are dropped.

/// Longest line, bytes; a longer one is an error.
pub const MAX_LINE_BYTES: usize = 64 << 10;
/// Most words of one line; more are an error. Readers may compare each with each.
pub const MAX_WORDS: usize = 4096;

/// A line that is neither empty nor a comment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// The keyword as written.
    pub keyword: String,
    /// The text after the keyword and its separator, without trailing blanks.
    pub rest: &'a str,
}

/// Why a line or its words cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LexError {
    /// Quotes are not balanced.
    InvalidQuotes,
    /// Longer than [`MAX_LINE_BYTES`].
    TooLong,
    /// More than [`MAX_WORDS`] arguments.
    TooManyWords,
}

impl std::fmt::Display for LexError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            LexError::InvalidQuotes => "invalid quotes",
            LexError::TooLong => "line too long",
            LexError::TooManyWords => "too many arguments",
        })
    }
}

impl std::error::Error for LexError {}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n' | '\x0c')
}

fn separates_keyword(c: char) -> bool {
    is_blank(c) && c != '\x0c'
}

fn separates_words(c: char) -> bool {
    matches!(c, ' ' | '\t')
}

/// Takes the keyword off a line. `None` for an empty line or a comment; as in OpenSSH, nothing but `=` is empty too.
///
/// # Errors
/// [`LexError`] if the line is too long or a quoted keyword does not end.
pub fn read_line(line: &str) -> Result<Option<Line<'_>>, LexError> {
    if line.len() > MAX_LINE_BYTES {
        return Err(LexError::TooLong);
    }
    // A form feed is white space at the end of a line only.
    let line = line
        .trim_end_matches(is_blank)
        .trim_start_matches(separates_keyword);
    let is_empty = line.chars().all(|c| separates_keyword(c) || c == '=');
    if is_empty || line == "\"\"" || line.starts_with('#') {
        return Ok(None);
    }
    // OpenSSH passes over one empty keyword (`sshd -o=Port=22`), and over a line with two of them.
    let is_keywordless = |line: &str| line.starts_with(['=', '#']) || line.starts_with("\"\"");
    let line = match line.strip_prefix('=').or_else(|| line.strip_prefix("\"\"")) {
        Some(rest) => match rest.trim_start_matches(separates_keyword) {
            rest if is_keywordless(rest) => return Ok(None),
            rest => rest,
        },
        None => line,
    };
    if let Some(quoted) = line.strip_prefix('"') {
        // After a quoted keyword `=` belongs to the arguments, as in OpenSSH.
        let (keyword, after) = quoted.split_once('"').ok_or(LexError::InvalidQuotes)?;
        return Ok(Some(Line {
            keyword: keyword.to_owned(),
            rest: after.trim_start_matches(separates_keyword),
        }));
    }
    let end = line
        .find(|c: char| separates_keyword(c) || c == '=')
        .unwrap_or(line.len());
    let (keyword, after) = line.split_at(end);
    let after = after.trim_start_matches(separates_keyword);
    let rest = after
        .strip_prefix('=')
        .unwrap_or(after)
        .trim_start_matches(separates_keyword);
    Ok(Some(Line {
        keyword: keyword.to_owned(),
        rest,
    }))
}

/// Splits arguments into words; with `comments`, a `#` at the start of a word ends them.
///
/// # Errors
/// [`LexError`] if quotes are not balanced or there are too many words.
pub fn split_words(text: &str, comments: bool) -> Result<Vec<String>, LexError> {
    let mut words = Vec::new();
    let mut letters = text.chars().peekable();
    loop {
        while letters.next_if(|c| separates_words(*c)).is_some() {}
        match letters.peek() {
            None => return Ok(words),
            Some('#') if comments => return Ok(words),
            Some(_) => {}
        }
        let mut word = String::new();
        let mut quote: Option<char> = None;
        while let Some(c) = letters.next_if(|c| quote.is_some() || !separates_words(*c)) {
            match (c, quote) {
                ('\\', _) => {
                    let plain = |next: &char| {
                        matches!(next, '\'' | '"' | '\\') || (quote.is_none() && *next == ' ')
                    };
                    word.push(letters.next_if(plain).unwrap_or('\\'));
                }
                ('\'' | '"', None) => quote = Some(c),
                (_, Some(open)) if open == c => quote = None,
                _ => word.push(c),
            }
        }
        if quote.is_some() {
            return Err(LexError::InvalidQuotes);
        }
        if words.len() >= MAX_WORDS {
            return Err(LexError::TooManyWords);
        }
        words.push(word);
    }
}

/// Joins words so that [`split_words`] returns them: quotes words with blanks, and escapes quotes
/// and backslashes.
pub fn join_words(words: &[String]) -> String {
    let mut out = String::new();
    for (position, word) in words.iter().enumerate() {
        if position > 0 {
            out.push(' ');
        }
        let plain = !word.is_empty()
            && !word.contains(|c| is_blank(c) || matches!(c, '"' | '\'' | '\\' | '#'));
        if plain {
            out.push_str(word);
            continue;
        }
        out.push('"');
        for c in word.chars() {
            if matches!(c, '"' | '\'' | '\\') {
                out.push('\\');
            }
            out.push(c);
        }
        out.push('"');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        split_words(text, true).unwrap()
    }

    #[test]
    fn keywords_and_separators() {
        for line in [
            "Port 22",
            "Port=22",
            "Port = 22",
            "  Port\t22  ",
            "\"Port\" 22",
            "Port =22\r",
            "Port  22\x0c",
        ] {
            let read = read_line(line).unwrap().unwrap();
            assert_eq!(
                (read.keyword.as_str(), read.rest),
                ("Port", "22"),
                "{line:?}"
            );
        }
        for (line, keyword, rest) in [
            ("\"Port\"=22", "Port", "=22"),
            ("\"Port\" =22", "Port", "=22"),
            ("Port\x0c22", "Port\x0c22", ""),
            ("\x0cPort 22", "\x0cPort", "22"),
        ] {
            let read = read_line(line).unwrap().unwrap();
            assert_eq!((read.keyword.as_str(), read.rest), (keyword, rest));
        }
        assert_eq!(read_line("SetEnv A=b").unwrap().unwrap().rest, "A=b");
        assert_eq!(read_line("X ==b").unwrap().unwrap().rest, "=b");
        assert_eq!(read_line("Port").unwrap().unwrap().rest, "");
        assert_eq!(read_line("   # comment"), Ok(None));
        for empty in [" \t\r\n", "=", " =", "= =", "==", "\"\""] {
            assert_eq!(read_line(empty), Ok(None), "{empty:?}");
        }
        for line in ["= Port 22", "=Port=22", "\"\" Port 22"] {
            let read = read_line(line).unwrap().unwrap();
            assert_eq!((read.keyword.as_str(), read.rest), ("Port", "22"), "{line}");
        }
        for line in [
            "== Port 22",
            "= = Port 22",
            "\"\" \"\" Port 22",
            "=\"\"Port 22",
            "= # x",
        ] {
            assert_eq!(read_line(line), Ok(None), "{line}");
        }
        assert_eq!(read_line("\"Port 22"), Err(LexError::InvalidQuotes));
        assert_eq!(
            read_line(&"x".repeat(MAX_LINE_BYTES + 1)),
            Err(LexError::TooLong)
        );
    }

    #[test]
    fn quoting() {
        assert_eq!(words("a  b\tc"), ["a", "b", "c"]);
        assert_eq!(words("\"a b\" 'c d'"), ["a b", "c d"]);
        assert_eq!(words("a\"b c\"d"), ["ab cd"]);
        assert_eq!(words(r#"a\ b \"c\" \\ \x"#), ["a b", "\"c\"", "\\", "\\x"]);
        assert_eq!(words(r#""a\"b" "a\ b""#), ["a\"b", "a\\ b"]);
        assert_eq!(words("a\x0cb\rc"), ["a\x0cb\rc"]);
        assert_eq!(words("a # comment"), ["a"]);
        assert_eq!(words("a#b #"), ["a#b"]);
        assert_eq!(words("\"\""), [""]);
        assert_eq!(words("it\\'s"), ["it's"]);
        assert_eq!(split_words("#a", false).unwrap(), ["#a"]);
        assert_eq!(split_words("\"a", true), Err(LexError::InvalidQuotes));
        assert_eq!(split_words("a'", true), Err(LexError::InvalidQuotes));
        assert_eq!(words("a\\"), ["a\\"]);
    }

    #[test]
    fn joined_words_come_back() {
        for list in [
            vec!["a", "b c", ""],
            vec!["it's", "say \"x\"", "back\\slash", "\\ "],
            vec!["#x", "é"],
        ] {
            let list: Vec<String> = list.into_iter().map(str::to_owned).collect();
            assert_eq!(words(&join_words(&list)), list);
        }
    }
}
