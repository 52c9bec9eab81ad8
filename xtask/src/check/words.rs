//! Habits of speech that comments must not have (CONTRIBUTING.md).

use std::path::Path;

use super::sources::named_files;

/// Phrases that name neither the thing nor the time, each with a hint. Case counts.
const HABITS: &[(&str, &str)] = &[
    ("behind", "say after"),
    ("What is", "name the thing"),
    ("What was", "name the thing"),
    ("What has", "name the thing"),
    ("What comes", "name the thing"),
    ("What came", "name the thing"),
    ("What stands", "name the thing"),
    ("so many", "name the number"),
    ("so much", "name the number"),
    ("is told", "name who reports what"),
    ("are told", "name who reports what"),
    ("stands", "say is, or name the place"),
    ("in vain", "say what failed"),
];

/// Folders and files whose comments are not checked yet.
const UNCHECKED: &[&str] = &[
    "crates/copy/src/link/",
    "crates/copy/src/scp/options.rs",
    "crates/copy/src/sftp/options.rs",
];

/// The text of a line's comment, without code in backticks.
fn comment(line: &str) -> Option<String> {
    let line = line.trim_start();
    let text = match line.strip_prefix("//") {
        Some(text) => text,
        None => line.split_once(" // ")?.1,
    };
    Some(text.split('`').step_by(2).collect::<Vec<_>>().join("`"))
}

/// Whether `text` has `phrase` as whole words.
fn has(text: &str, phrase: &str) -> bool {
    let is_word = |letter: Option<char>| letter.is_some_and(|letter| letter.is_alphanumeric());
    text.match_indices(phrase).any(|(at, _)| {
        let before = text.get(..at).unwrap_or_default().chars().next_back();
        let after = text.get(at + phrase.len()..).unwrap_or_default();
        !is_word(before) && !is_word(after.chars().next())
    })
}

/// One line for each habit in a comment.
pub(super) fn broken(root: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    for (shown, path) in named_files(root) {
        if UNCHECKED.iter().any(|folder| shown.starts_with(folder)) {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        for (index, line) in text.lines().enumerate() {
            let Some(comment) = comment(line) else {
                continue;
            };
            for (phrase, hint) in HABITS.iter().filter(|(phrase, _)| has(&comment, phrase)) {
                lines.push(format!(
                    "{shown}:{}: \"{phrase}\" in a comment: {hint}",
                    index + 1
                ));
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn habits_are_found_in_comments_as_whole_words() {
        let is_found = |line: &str| {
            comment(line).is_some_and(|text| HABITS.iter().any(|(phrase, _)| has(&text, phrase)))
        };
        for line in [
            "// The byte behind it.",
            "    /// What is read.",
            concat!("let a = 1; /", "/ so many"),
        ] {
            assert!(is_found(line), "{line}");
        }
        for line in [
            "let behind = \"so many\";",
            "// The field `behind` counts.",
            "// Outstands nothing.",
            "// Explains what is read.",
        ] {
            assert!(!is_found(line), "{line}");
        }
    }
}
