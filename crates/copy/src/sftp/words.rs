//! A line of `sftp` taken apart: quotes, backslashes and comments.
//!
//! Words stay patterns: what was quoted comes out escaped, so that it matches itself alone.

/// The words of a line.
///
/// # Errors
/// A description of the mistake in the quotes.
pub(super) fn split(line: &[u8]) -> Result<Vec<Vec<u8>>, &'static str> {
    let mut words = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    let mut quote: Option<u8> = None;
    let mut bytes = line.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        match (quote, byte) {
            (Some(open), byte) if byte == open => quote = None,
            (Some(open), b'\\') => {
                let word = word.get_or_insert_default();
                match bytes.next() {
                    None => return Err("Unterminated quoted argument"),
                    Some(next) if next == open => word.push(next),
                    Some(b'\\') => push_literal(word, b'\\'),
                    // Any other backslash in quotes is literal, and so is the next character.
                    Some(next) => {
                        word.extend_from_slice(b"\\\\");
                        push_literal(word, next);
                    }
                }
            }
            (Some(_), byte) => push_literal(word.get_or_insert_default(), byte),
            (None, b'"' | b'\'') => {
                word.get_or_insert_default();
                quote = Some(byte);
            }
            (None, b'\\') => {
                let word = word.get_or_insert_default();
                match bytes.next() {
                    None => return Err("Unterminated quoted argument"),
                    Some(next) => push_literal(word, next),
                }
            }
            (None, b'#') if word.is_none() => break,
            (None, b' ' | b'\t' | b'\r' | b'\n') => words.extend(word.take()),
            (None, byte) => word.get_or_insert_default().push(byte),
        }
    }
    if quote.is_some() {
        return Err("Unterminated quoted argument");
    }
    words.extend(word);
    Ok(words)
}

/// A byte that is no part of a pattern.
fn push_literal(word: &mut Vec<u8>, byte: u8) {
    if matches!(byte, b'*' | b'?' | b'[' | b'\\') {
        word.push(b'\\');
    }
    word.push(byte);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        let words = split(line.as_bytes()).unwrap();
        words
            .into_iter()
            .map(|word| String::from_utf8(word).unwrap())
            .collect()
    }

    #[test]
    fn words_are_parted_and_quotes_keep_them_together() {
        assert_eq!(words("get a b"), ["get", "a", "b"]);
        assert_eq!(words("get \"a b\" 'c\"d'"), ["get", "a b", "c\"d"]);
        assert_eq!(words("get a\\ b"), ["get", "a b"]);
        assert_eq!(words("get \"a\\\"b\""), ["get", "a\"b"]);
        assert_eq!(words("ls # all"), ["ls"]);
        assert_eq!(words("ls a#b"), ["ls", "a#b"]);
        assert_eq!(words("get ''"), ["get", ""]);
        assert!(words("  ").is_empty());
    }

    #[test]
    fn what_is_quoted_is_no_pattern() {
        assert_eq!(words("get *.c"), ["get", "*.c"]);
        assert_eq!(words("get \"*.c\""), ["get", "\\*.c"]);
        assert_eq!(words("get \\*"), ["get", "\\*"]);
        // Two backslashes are one, in quotes and outside; a pattern has it escaped.
        assert_eq!(
            words(r"get a\\b 'a\\b' 'a\\'"),
            ["get", r"a\\b", r"a\\b", r"a\\"]
        );
        assert_eq!(words(r"get 'a\b' 'a\*'"), ["get", r"a\\b", r"a\\\*"]);
    }

    #[test]
    fn an_open_quote_is_an_error() {
        assert!(split(b"get \"a").is_err());
        assert_eq!(split(b"get a\\"), Err("Unterminated quoted argument"));
    }
}
