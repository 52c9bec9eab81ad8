//! The tests in documentation: rustdoc reads a whole library to find them, so it is given only the
//! libraries that have some.

use std::ffi::OsString;
use std::path::Path;

use super::record::Program;
use crate::check::{self, rust_files};

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

/// The names of the workspace's packages whose libraries have such tests: cargo finds none in programs.
fn packages(root: &Path) -> Vec<OsString> {
    let folders = check::packages(root).into_iter();
    let named = folders.filter_map(|folder| {
        let folder = root.join(folder);
        let source = folder.join("src");
        let mut files = Vec::new();
        if source.join("lib.rs").exists() {
            rust_files(&source, &mut files);
        }
        let texts = files.iter().map(std::fs::read_to_string);
        texts.flatten().find(|text| has_test(text))?;
        let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).ok()?;
        check::package_name(&manifest).map(OsString::from)
    });
    named.collect()
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
    fn libraries_are_found_wherever_they_are_and_by_their_names() {
        let name = format!("xtask-documentation-{}", std::process::id());
        let root = std::env::temp_dir().join(name);
        for (folder, package, source) in [
            ("crates/one", "one", "lib.rs"),
            ("crates/program", "program", "main.rs"),
            ("tests/two", "two-tests", "lib.rs"),
            ("xtask/three", "three", "lib.rs"),
        ] {
            let folder = root.join(folder);
            std::fs::create_dir_all(folder.join("src")).unwrap();
            let manifest = format!("[package]\nversion = \"1\"\nname = \"{package}\"\n");
            std::fs::write(folder.join("Cargo.toml"), manifest).unwrap();
            let text = "/// ```\n/// f();\n/// ```\nfn f() {}\n";
            std::fs::write(folder.join("src").join(source), text).unwrap();
        }
        let found = packages(&root);
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!(found, ["one", "two-tests", "three"]);
    }

    #[test]
    fn the_library_is_among_the_crates() {
        let found = packages(&super::super::root());
        assert!(found.contains(&OsString::from("fulmar")), "{found:?}");
        assert!(!found.contains(&OsString::from("wire")), "{found:?}");
    }
}
