//! Rules that no compiler knows.

use std::path::{Path, PathBuf};

mod arrows;
mod manifest;
mod sources;
mod unused;

/// The workspace's root.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Checks all rules; 0 when none is broken.
pub(crate) fn run() -> i32 {
    let root = root();
    let mut broken = arrows::broken(&root);
    broken.extend(unused::broken(&root));
    broken.extend(sources::broken(&root));
    for line in &broken {
        eprintln!("xtask check: {line}");
    }
    if broken.is_empty() {
        println!("xtask check: arrows, dependencies, unsafe and sizes are as they should be");
        return 0;
    }
    1
}
