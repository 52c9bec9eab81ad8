//! Paths of files that documents name.

use std::path::Path;

/// The documents whose paths are checked.
const DOCUMENTS: &[&str] = &[
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "README.md",
    "docs/privsep.md",
    "docs/walks.md",
];
/// First parts of paths that begin with a folder of the root; other paths begin with a crate.
const ROOT_FOLDERS: &[&str] = &[
    "benches",
    "completion",
    "crates",
    "docs",
    "fuzz",
    "man",
    "tests",
    "xtask",
];

/// The words in backticks of a line.
fn code(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// The path that a word names; `None` if it is no path. A file ends with a known ending, a folder is
/// below `src` or a folder of the root.
fn path(word: &str) -> Option<&str> {
    let is_path = word
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"/_.-".contains(&byte));
    let (first, rest) = word.split_once('/')?;
    let is_file = [
        ".rs",
        ".md",
        ".py",
        ".snapshot",
        ".txt",
        ".toml",
        ".keywords",
    ]
    .iter()
    .any(|ending| word.ends_with(ending));
    let is_below = rest.starts_with("src/") || rest.starts_with("tests/");
    let is_rooted = ROOT_FOLDERS.contains(&first);
    (is_path && !first.is_empty() && (is_file || is_below || is_rooted)).then_some(word)
}

/// Whether a file or folder with this path exists: below the root, below `crates/`, or, as short forms
/// in the same line do, below the folder of an earlier path of the line.
fn exists(root: &Path, earlier: &[&str], word: &str) -> bool {
    let below = |folder: &str| root.join(folder).join(word).exists();
    let beside = |full: &&str| {
        Path::new(full).ancestors().skip(1).any(|folder| {
            below(&format!("crates/{}", folder.display())) || below(&folder.display().to_string())
        })
    };
    below("") || below("crates") || earlier.iter().any(beside)
}

/// One line for each path that no longer exists.
pub(super) fn broken(root: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    for document in DOCUMENTS {
        let text = std::fs::read_to_string(root.join(document)).unwrap_or_default();
        for (index, line) in text.lines().enumerate() {
            let mut earlier = Vec::new();
            for word in code(line).filter_map(path) {
                if exists(root, &earlier, word) {
                    earlier.push(word);
                } else {
                    lines.push(format!("{document}:{}: {word} does not exist", index + 1));
                }
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_told_from_other_words() {
        for (word, is_path) in [
            ("client/src/plan.rs", true),
            ("transport/outbound.rs", true),
            ("proto/src/channel", true),
            ("tests/sim", true),
            ("topic.field", false),
            ("user/name", false),
            ("/etc/ssh/sshd_config", false),
            ("Master::wish", false),
        ] {
            assert_eq!(path(word).is_some(), is_path, "{word}");
        }
    }

    #[test]
    fn a_path_that_is_gone_is_found() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        assert!(exists(&root, &[], "wire/src/names.rs"));
        assert!(exists(
            &root,
            &["client/src/session/mod.rs"],
            "session/input.rs"
        ));
        assert!(!exists(&root, &[], "session/input.rs"));
        assert!(!exists(&root, &[], "wire/src/gone.rs"));
    }
}
