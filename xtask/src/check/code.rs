//! The code of a Rust source without its comments and literals, and the items that are counted in it.

/// Replaces comments and the content of literals by spaces; lines stay where they are.
pub(super) fn without_literals(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut code = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = literal_end(bytes, at);
        for byte in &mut code[at..end.max(at)] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
        at = end.max(at + 1);
    }
    String::from_utf8_lossy(&code).into_owned()
}

/// The end of the comment or literal that begins at `at`; `at` if none does.
fn literal_end(bytes: &[u8], at: usize) -> usize {
    let rest = &bytes[at..];
    let after = |length: usize| at + length;
    if rest.starts_with(b"//") {
        return rest
            .iter()
            .position(|byte| *byte == b'\n')
            .map_or(bytes.len(), after);
    }
    if rest.starts_with(b"/*") {
        return block_comment_end(bytes, at);
    }
    let is_in_word = at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_');
    if rest[0] == b'r' && (!is_in_word || bytes[at - 1] == b'b') {
        let hashes = rest[1..].iter().take_while(|byte| **byte == b'#').count();
        if rest.get(1 + hashes) == Some(&b'"') {
            let close = [&b"\""[..], &b"#".repeat(hashes)].concat();
            let body = &rest[2 + hashes..];
            let found = body
                .windows(close.len())
                .position(|part| part == &close[..]);
            return found.map_or(bytes.len(), |found| after(2 + hashes + found + close.len()));
        }
    }
    let is_character = rest[0] == b'\''
        && (rest.get(1) == Some(&b'\\') || {
            let text = std::str::from_utf8(&rest[1..rest.len().min(6)])
                .or_else(|error| std::str::from_utf8(&rest[1..][..error.valid_up_to()]))
                .unwrap_or_default();
            text.chars().nth(1) == Some('\'')
        });
    if rest[0] == b'"' || is_character {
        let mut escaped = false;
        for (index, byte) in rest.iter().enumerate().skip(1) {
            if !escaped && *byte == rest[0] {
                return after(index + 1);
            }
            escaped = !escaped && *byte == b'\\';
        }
        return bytes.len();
    }
    at
}

/// The end of the block comment that begins at `at`; such comments nest.
fn block_comment_end(bytes: &[u8], at: usize) -> usize {
    let (mut depth, mut at) = (0, at);
    while at < bytes.len() {
        match &bytes[at..bytes.len().min(at + 2)] {
            b"/*" => depth += 1,
            b"*/" => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
        if depth == 0 {
            break;
        }
    }
    at
}

/// An item with a body in braces.
pub(super) struct Block<'t> {
    pub(super) name: &'t str,
    /// The line of the keyword, from 1.
    pub(super) line: usize,
    /// Lines from that of the keyword to that of the closing brace.
    pub(super) lines: usize,
    /// The text between the braces.
    pub(super) body: &'t str,
}

/// The items `KEYWORD NAME … { … }` of code without literals.
pub(super) fn blocks<'t>(code: &'t str, keyword: &str) -> Vec<Block<'t>> {
    let mut found = Vec::new();
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let opener = format!("{keyword} ");
    for (at, _) in code.match_indices(&opener) {
        if code[..at].ends_with(is_name) {
            continue;
        }
        let rest = &code[at + opener.len()..];
        let name = &rest[..rest.find(|c| !is_name(c)).unwrap_or(rest.len())];
        let Some((start, end)) = (!name.is_empty()).then(|| body_of(rest)).flatten() else {
            continue;
        };
        let lines = code[at..at + opener.len() + end].matches('\n').count() + 1;
        found.push(Block {
            name,
            line: code[..at].matches('\n').count() + 1,
            lines,
            body: &rest[start..end],
        });
    }
    found
}

/// The range between the first braces outside of parentheses; none if the item ends before.
fn body_of(code: &str) -> Option<(usize, usize)> {
    let (mut depth, mut start) = (0_usize, None);
    for (at, byte) in code.bytes().enumerate() {
        match byte {
            b'(' | b'[' => depth += 1,
            b'{' => {
                if depth == 0 && start.is_none() {
                    start = Some(at + 1);
                }
                depth += 1;
            }
            b')' | b']' | b'}' => {
                depth = depth.checked_sub(1)?;
                if let (0, b'}', Some(start)) = (depth, byte, start) {
                    return Some((start, at));
                }
            }
            b';' if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

/// The number of fields in the body of a struct: colons after a name outside of brackets.
pub(super) fn fields(body: &str) -> usize {
    let (mut depth, mut count) = (0_i32, 0);
    let bytes = body.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'(' | b'[' | b'{' | b'<' => depth += 1,
            b'>' if at > 0 && bytes[at - 1] == b'-' => {}
            b')' | b']' | b'}' | b'>' => depth -= 1,
            b':' if depth == 0 && bytes.get(at + 1) == Some(&b' ') => count += 1,
            _ => {}
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blank() {
        for (text, code) in [
            ("a // {\nb", "a     \nb"),
            ("a /* { /* { */ } */ b", "a                   b"),
            ("f(\"{\\\"{\") {", "f(      ) {"),
            ("r#\"{\"{\"# }", "         }"),
            ("br\"{\" }", "b     }"),
            ("'{' '\\'' 'ä' <'a> {", "              <'a> {"),
        ] {
            assert_eq!(without_literals(text), code, "{text}");
        }
    }

    #[test]
    fn the_lines_of_functions_are_counted() {
        let code = "fn a(\n    f: fn(u8) -> u8,\n) {\n    b\n}\ntrait T {\n    fn c(self);\n    \
                    fn d() -> [u8; 2] { e }\n}\n";
        let found: Vec<_> = blocks(code, "fn")
            .iter()
            .map(|block| (block.name.to_owned(), block.line, block.lines))
            .collect();
        assert_eq!(found, [("a".to_owned(), 1, 5), ("d".to_owned(), 8, 1)]);
    }

    #[test]
    fn the_fields_of_a_struct_are_counted() {
        let code = "struct S<T: Copy> {\n    a: std::vec::Vec<(u8, T)>,\n    pub(super) b: [u8; 2],\n    \
                    c: Box<dyn Fn(x: u8) -> u8>,\n}\nstruct U;\nstruct V(u8);\n";
        let found = blocks(code, "struct");
        let counts: Vec<_> = found
            .iter()
            .map(|block| (block.name, fields(block.body)))
            .collect();
        assert_eq!(counts, [("S", 3)]);
    }
}
