//! The sources of the tree, and the places that may have unsafe code.

use std::path::{Path, PathBuf};

/// Places that may have unsafe code, as prefixes of paths.
const UNSAFE_PLACES: &[&str] = &[
    // The exported name that the C library calls.
    "crates/cli/src/main.rs",
    "crates/compress/src/provider/library.rs",
    "crates/compress/src/provider/loader.rs",
    "crates/crypto/src/arch/",
    "crates/crypto/src/awslc/",
    "crates/compress/src/deflate/",
    "crates/fido/src/library.rs",
    "crates/packet/src/buf.rs",
    // The allocators that count allocations.
    "tests/counting_allocator.rs",
    "tests/sim/tests/allocations/",
    "crates/sys/",
];

/// Adds the Rust sources below a directory, except build output.
pub(crate) fn rust_files(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = entry.file_name();
        if path.is_dir() {
            if name != "target" && !name.to_string_lossy().starts_with('.') {
                rust_files(&path, found);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The Rust sources of the tree in order, each with its path from the root.
pub(super) fn named_files(root: &Path) -> Vec<(String, PathBuf)> {
    let mut files = Vec::new();
    rust_files(root, &mut files);
    files.sort();
    let named = |path: PathBuf| {
        let shown = path.strip_prefix(root).unwrap_or(&path).to_string_lossy();
        (shown.into_owned(), path)
    };
    files.into_iter().map(named).collect()
}

/// True if a line opens unsafe code, judged by this line alone; comments and attributes are
/// ignored.
fn opens_unsafe(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    [
        "unsafe {",
        "unsafe fn",
        "unsafe impl",
        "unsafe extern",
        "unsafe(no_mangle)",
    ]
    .iter()
    .any(|form| code.contains(form))
        && !code.contains('"')
}

/// One line for each broken rule.
pub(super) fn broken(root: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    for (shown, path) in named_files(root) {
        let Ok(text) = std::fs::read_to_string(&path) else {
            lines.push(format!("{shown}: not UTF-8"));
            continue;
        };
        let allowed = UNSAFE_PLACES.iter().any(|place| shown.starts_with(place));
        if let Some(index) = text.lines().position(|line| !allowed && opens_unsafe(line)) {
            lines.push(format!(
                "{shown}:{}: unsafe code outside its places",
                index + 1
            ));
        }
    }
    lines
}
