//! The tests in documentation: rustdoc reads a whole crate to find them, so it is given only the crates
//! that have some.

use std::ffi::OsString;
use std::path::Path;

use super::record::Program;
use crate::check::rust_files;

/// Their name among the test programs.
pub(super) const NAME: &str = "documentation";

/// The program that compiles and runs them: cargo.
pub(super) fn program(root: &Path) -> Program {
    let cargo = super::cargo();
    let mut command: Vec<OsString> = vec![cargo.get_program().to_owned()];
    command.extend(["test", "--quiet", "--doc"].map(OsString::from));
    for package in packages(root) {
        command.extend(["--package".into(), package]);
    }
    Program {
        name: NAME.into(),
        directory: root.to_owned(),
        command,
        environment: std::env::vars_os().collect(),
    }
}

/// The crates with such tests. A crate's folder has its name.
fn packages(root: &Path) -> Vec<OsString> {
    let crates = std::fs::read_dir(root.join("crates"));
    let mut packages: Vec<OsString> = crates
        .into_iter()
        .flatten()
        .flatten()
        .filter(|folder| {
            let mut files = Vec::new();
            rust_files(&folder.path().join("src"), &mut files);
            files
                .iter()
                .any(|file| std::fs::read_to_string(file).is_ok_and(|text| has_test(&text)))
        })
        .map(|folder| folder.file_name())
        .collect();
    packages.sort();
    packages
}

/// True if a comment of documentation has a block of code, which is not marked as plain text, or
/// another file is part of it.
fn has_test(source: &str) -> bool {
    let mut is_inside = false;
    for line in source.lines().map(str::trim_start) {
        if line.starts_with("#[doc = include_str!") {
            return true;
        }
        let comment = ["///", "//!"]
            .iter()
            .find_map(|mark| line.strip_prefix(mark));
        let Some(kind) = comment.and_then(|text| text.trim().strip_prefix("```")) else {
            continue;
        };
        if !is_inside && kind != "text" {
            return true;
        }
        is_inside = !is_inside;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_of_code_is_a_test_and_one_of_text_is_not() {
        assert!(has_test(
            "/// As in\n///\n/// ```\n/// f();\n/// ```\nfn f() {}\n"
        ));
        assert!(has_test(
            "//! ```text\n//! a\n//! ```\n//! ```no_run\n//! f();\n//! ```\n"
        ));
        assert!(!has_test(
            "    //! ```text\n    //! a\n    //! ```\nfn f() {}\n"
        ));
        assert!(!has_test("// ```\nlet fence = \"```\";\n"));
    }

    #[test]
    fn the_library_is_among_the_crates() {
        let found = packages(&super::super::root());
        assert!(found.contains(&OsString::from("fulmar")), "{found:?}");
        assert!(!found.contains(&OsString::from("wire")), "{found:?}");
    }
}
