//! Rules that the compiler does not check.

use std::path::{Path, PathBuf};

mod arrows;
mod circles;
mod code;
mod manifest;
mod names;
mod paths;
mod sizes;
mod sources;
mod unused;
mod words;

pub(crate) use manifest::{package_name, packages};
pub(crate) use sources::rust_files;

/// The workspace's root.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Checks all rules; returns 0 if none is broken.
pub(crate) fn run() -> i32 {
    let root = root();
    let mut broken = arrows::broken(&root);
    broken.extend(unused::broken(&root));
    broken.extend(sources::broken(&root));
    broken.extend(sizes::broken(&root));
    broken.extend(circles::broken(&root));
    broken.extend(words::broken(&root));
    broken.extend(names::broken(&root));
    broken.extend(paths::broken(&root));
    for line in &broken {
        eprintln!("xtask check: {line}");
    }
    if broken.is_empty() {
        println!(
            "xtask check: dependencies, unsafe code, sizes, names, comments and paths follow the rules"
        );
        return 0;
    }
    1
}
