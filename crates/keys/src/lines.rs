//! Lines of a foreign text file, numbered. A line over the limit is skipped entirely: its rest is
//! not parsed as another line.

/// Longest line that is parsed, in bytes without line end: the largest key or certificate of
/// [`crate::MAX_BLOB_BYTES`], in base64, with 32 KiB of options and comment.
pub(crate) const MAX_LINE_BYTES: usize = 120 * 1024;

/// A line with its number, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NumberedLine<'a> {
    pub(crate) number: usize,
    /// The line without line end; `None` for a line over the limit.
    pub(crate) text: Option<&'a [u8]>,
    /// The bytes of the line, including its line end.
    pub(crate) raw: &'a [u8],
}

/// Splits `file` into lines.
pub(crate) fn lines(file: &[u8]) -> impl Iterator<Item = NumberedLine<'_>> {
    file.split_inclusive(|byte| *byte == b'\n')
        .zip(1..)
        .map(|(raw, number)| {
            let text = raw.strip_suffix(b"\n").unwrap_or(raw);
            let text = text.strip_suffix(b"\r").unwrap_or(text);
            NumberedLine {
                number,
                text: (text.len() <= MAX_LINE_BYTES).then_some(text),
                raw,
            }
        })
}

/// Splits off the first word and the blanks after it.
pub(crate) fn split_word(text: &[u8]) -> (&[u8], &[u8]) {
    let end = text
        .iter()
        .position(|byte| is_blank(*byte))
        .unwrap_or(text.len());
    let (word, rest) = text.split_at_checked(end).unwrap_or((text, &[]));
    (word, trim_start(rest))
}

/// Removes blanks at the start.
pub(crate) fn trim_start(text: &[u8]) -> &[u8] {
    let start = text
        .iter()
        .position(|byte| !is_blank(*byte))
        .unwrap_or(text.len());
    text.get(start..).unwrap_or_default()
}

pub(crate) fn is_blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_over_the_limit_is_passed_over_whole() {
        let mut file = b"first\n".to_vec();
        file.extend(vec![b'x'; MAX_LINE_BYTES + 5000]);
        file.extend(b" tail\r\nlast");
        let found: Vec<NumberedLine<'_>> = lines(&file).collect();
        assert_eq!(found.len(), 3);
        assert_eq!(found[0].text, Some(&b"first"[..]));
        assert_eq!(found[1].text, None);
        assert_eq!((found[2].number, found[2].text), (3, Some(&b"last"[..])));
    }

    #[test]
    fn words_end_at_blanks() {
        assert_eq!(split_word(b"a \t b c"), (&b"a"[..], &b"b c"[..]));
        assert_eq!(split_word(b"a"), (&b"a"[..], &b""[..]));
        assert_eq!(split_word(b""), (&b""[..], &b""[..]));
    }
}
