//! What is known to differ, and why.

/// Why a difference is none to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// On purpose: docs/differences.md says so in these words.
    Said(&'static str),
    /// It is not carried out and therefore refused by name; the table of keywords says which.
    NotCarried,
    /// What OpenSSH does is a defect of its own, which nobody can build on.
    Theirs(&'static str),
    /// OpenSSH itself does as ours since this version.
    Since(&'static str),
}

/// One line of a list: cases whose smallest form fits `pattern` may differ in this way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listed {
    /// What kind of case; empty for all.
    pub(crate) form: &'static str,
    /// How it differs, as the report names it; `*` and `?` stand for anything.
    pub(crate) how: &'static str,
    /// The smallest case, without regard to case; lines are divided by `; `.
    pub(crate) pattern: &'static str,
    /// The reason.
    pub(crate) why: Why,
}

impl Listed {
    /// Whether it stands for this difference.
    pub(crate) fn fits(&self, form: &str, how: &str, case: &str) -> bool {
        (self.form.is_empty() || self.form == form)
            && glob(&how.to_ascii_lowercase(), &self.how.to_ascii_lowercase())
            && glob(
                &case.to_ascii_lowercase(),
                &self.pattern.to_ascii_lowercase(),
            )
    }
}

/// Whether `text` is of the form `pattern`, in which `*` is any text and `?` one character; a
/// backslash takes the meaning of either.
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

/// Reasons that docs/differences.md does not have in these words.
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
