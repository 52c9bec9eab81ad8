//! Checks that each test that docs/privsep.md names exists.

use std::fs;
use std::path::Path;

/// All tests that it may name: those of this crate and of the crates in the document.
const PLACES: [&str; 19] = [
    "crates/sys/src/process",
    "tests/privsep/tests",
    "tests/privsep/tests/listener",
    "crates/privsep/src",
    "crates/sys/tests/roles",
    "crates/server/tests/chain",
    "crates/monitor/src/connection",
    "crates/monitor/src/listener",
    "crates/sys/src",
    "crates/server/src",
    "crates/accelerator/tests",
    "crates/accelerator/src",
    "crates/client/src",
    "crates/fido/tests",
    "crates/add/tests/agent",
    "tests/interop/tests",
    "tests/interop/tests/gssapi",
    "crates/sys/src/sandbox",
    "tests/hostile/tests",
];

#[test]
fn the_document_names_tests_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let document = fs::read_to_string(root.join("docs/privsep.md")).expect("docs/privsep.md");
    let mut sources = String::new();
    for place in PLACES {
        for entry in fs::read_dir(root.join(place)).expect(place).flatten() {
            if entry.path().extension().is_some_and(|end| end == "rs") {
                sources.push_str(&fs::read_to_string(entry.path()).expect("a source file"));
            }
        }
    }
    let named: Vec<&str> = document
        .split('`')
        .skip(1)
        .step_by(2)
        .filter(|word| word.matches('_').count() >= 3 && !word.contains(['/', ' ', '…']))
        .collect();
    assert!(named.len() > 30, "{named:?}");
    for name in named {
        let exists =
            sources.contains(&format!("fn {name}(")) || sources.contains(&format!("\"{name}\""));
        assert!(exists, "{name}");
    }
}
