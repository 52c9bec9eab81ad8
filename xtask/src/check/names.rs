//! One name, one meaning: how many types of the product may share a bare name.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::sources::rust_files;

/// Most definitions of one bare name.
const MAX_DEFINITIONS: usize = 2;

/// Names with more definitions, and how many they may have.
const EXCEPTIONS: &[(&str, usize)] = &[
    // A crate's error type is `Error` by custom.
    ("Error", 3),
];

/// Whether a file belongs to a crate's product and not to its tests.
pub(super) fn is_product(shown: &str) -> bool {
    let is_test = |part: &str| {
        let stem = part.strip_suffix(".rs").unwrap_or(part);
        stem == "tests" || stem == "test_support" || stem.ends_with("_tests")
    };
    shown.starts_with("crates/") && shown.contains("/src/") && !shown.split('/').any(is_test)
}

/// The name of the type that a line defines. Types of traits and their implementations do not
/// count: they are indented, and `type` is their keyword.
fn defined(line: &str) -> Option<&str> {
    let code = line.trim_start();
    let is_indented = code.len() < line.len();
    let code = match code.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(") ")?.1,
        Some(rest) => rest.trim_start(),
        None => code,
    };
    let code = code.strip_prefix("unsafe ").unwrap_or(code);
    let (keyword, rest) = code.split_once(' ')?;
    let counts = match keyword {
        "struct" | "enum" | "trait" | "union" => true,
        "type" => !is_indented,
        _ => false,
    };
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
    let name = rest.get(..end.unwrap_or(rest.len()))?;
    (counts && name.starts_with(char::is_uppercase)).then_some(name)
}

/// The names of the types that a source defines before its tests.
fn defined_in(text: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if line == "#[cfg(test)]" && lines.peek().is_some_and(|next| next.ends_with('{')) {
            break;
        }
        names.extend(defined(line));
    }
    names
}

/// One line for each name that too many types have.
pub(super) fn broken(root: &Path) -> Vec<String> {
    let mut files: Vec<PathBuf> = Vec::new();
    rust_files(&root.join("crates"), &mut files);
    files.sort();
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for path in files {
        let shown = path.strip_prefix(root).unwrap_or(&path).to_string_lossy();
        if !is_product(&shown) {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        for name in defined_in(&text) {
            let known = places.entry(name.to_owned()).or_default();
            known.push(shown.clone().into_owned());
        }
    }
    let mut lines = Vec::new();
    for (name, places) in places {
        let exception = EXCEPTIONS.iter().find(|(known, _)| *known == name);
        let most = exception.map_or(MAX_DEFINITIONS, |(_, most)| *most);
        if places.len() > most {
            lines.push(format!(
                "{} types are called {name}, more than {most}; a name says of what: {}",
                places.len(),
                places.join(" ")
            ));
        } else if let Some((_, most)) = exception
            && places.len() < *most
        {
            lines.push(format!(
                "{} types are called {name}: lower its exception from {most}",
                places.len()
            ));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_are_found() {
        let text = "pub(crate) struct Reader<'a> {\n    type Item = u8;\nenum Part;\npub unsafe trait \
                    Entry {}\nlet type_name = 1;\n// struct Comment\ntype Key = u8;\n    pub struct \
                    Inner(u8);\n#[cfg(test)]\nmod tests {\n    struct State;\n}\n";
        let names = ["Reader", "Part", "Entry", "Key", "Inner"];
        assert_eq!(defined_in(text), names);
    }

    #[test]
    fn tests_are_no_product() {
        assert!(is_product("crates/sys/src/fs/mod.rs"));
        assert!(!is_product("crates/sys/src/fs/tests.rs"));
        assert!(!is_product("crates/sys/src/file_tests.rs"));
        assert!(!is_product("crates/sys/tests/roles/main.rs"));
    }
}
