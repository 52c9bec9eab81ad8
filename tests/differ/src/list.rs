//! The known differences with their reasons.

/// Why a difference is not reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// Intended: docs/differences.md contains this text.
    Said(&'static str),
    /// Not supported and therefore refused by name; the table of keywords lists it.
    NotCarried,
    /// A defect of OpenSSH on which nobody can rely.
    Theirs(&'static str),
    /// OpenSSH itself behaves like Fulmar since this version.
    Since(&'static str),
}

/// One line of a list: cases whose smallest form matches `pattern` may differ in this way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listed {
    /// The kind of case; empty for all.
    pub(crate) form: &'static str,
    /// How it differs, as named in the report; `*` and `?` are wildcards.
    pub(crate) how: &'static str,
    /// The smallest case, case-insensitive; lines are separated by `; `.
    pub(crate) pattern: &'static str,
    /// The reason.
    pub(crate) why: Why,
}

impl Listed {
    /// True if this line covers the difference.
    pub(crate) fn fits(&self, form: &str, how: &str, case: &str) -> bool {
        (self.form.is_empty() || self.form == form)
            && glob(&how.to_ascii_lowercase(), &self.how.to_ascii_lowercase())
            && glob(
                &case.to_ascii_lowercase(),
                &self.pattern.to_ascii_lowercase(),
            )
    }
}

/// True if `text` matches `pattern`, in which `*` is any text and `?` one character; a backslash
/// quotes either.
pub(crate) fn glob(text: &str, pattern: &str) -> bool {
    let text: Vec<char> = text.chars().collect();
    let mut parts = Vec::new();
    let mut letters = pattern.chars();
    while let Some(letter) = letters.next() {
        parts.push(match letter {
            '*' => Part::Any,
            '?' => Part::One,
            '\\' => Part::Letter(letters.next().unwrap_or('\\')),
            letter => Part::Letter(letter),
        });
    }
    let (mut at, mut of) = (0, 0);
    let mut star = None;
    while let Some(letter) = text.get(at) {
        match parts.get(of) {
            Some(Part::Any) => {
                star = Some((at, of + 1));
                of += 1;
            }
            Some(part) if *part == Part::One || *part == Part::Letter(*letter) => {
                at += 1;
                of += 1;
            }
            _ => {
                let Some((from, after)) = star else {
                    return false;
                };
                star = Some((from + 1, after));
                at = from + 1;
                of = after;
            }
        }
    }
    parts.iter().skip(of).all(|part| *part == Part::Any)
}

#[derive(PartialEq)]
enum Part {
    Any,
    One,
    Letter(char),
}

/// Reasons whose text docs/differences.md does not contain.
#[cfg(test)]
pub(crate) fn not_in_the_docs(lists: &[Listed]) -> Vec<&'static str> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/differences.md");
    let text = std::fs::read_to_string(path).expect("docs/differences.md");
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let text = words(&text);
    lists
        .iter()
        .filter_map(|listed| match listed.why {
            Why::Said(said) if !text.contains(&words(said)) => Some(said),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (text, pattern, fits) in [
            ("ciphers a,,b", "ciphers *,,*", true),
            ("ciphers a,b", "ciphers *,,*", false),
            ("port 22", "port ??", true),
            ("port 222", "port ??", false),
            ("abcbc", "a*bc", true),
            ("", "*", true),
            ("", "?", false),
            ("a*", "a\\*", true),
            ("ab", "a\\*", false),
        ] {
            assert_eq!(glob(text, pattern), fits, "{text} {pattern}");
        }
    }
}
