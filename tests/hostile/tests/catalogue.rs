//! Checks that each test that docs/security.md and docs/forwarding.md name exists, and which libraries the
//! binary loads.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn every_test_that_the_catalogue_names_exists() {
    let documents = ["docs/security.md", "docs/forwarding.md"];
    let text = documents.map(|path| fs::read_to_string(root().join(path)).expect(path));
    let text = text.concat();
    let mut count = 0;
    let mut missing = Vec::new();
    for name in text.split('`').skip(1).step_by(2) {
        let Some((path, function)) = name.split_once(".rs::") else {
            continue;
        };
        count += 1;
        let path = format!("{path}.rs");
        let source = fs::read_to_string(root().join(&path)).unwrap_or_default();
        // The replay of the fuzz bodies names its tests in a list.
        let exists = source.contains(&format!("fn {function}("))
            || (path.ends_with("replay.rs") && source.contains(&format!("    {function},")));
        if !exists {
            missing.push(name);
        }
    }
    assert!(count > 100, "{count} tests are named");
    assert!(missing.is_empty(), "{missing:#?}");
}

/// Names of the libraries that an ELF64 file of this byte order needs.
fn needed(file: &[u8]) -> Vec<String> {
    let number = |at: usize, len: usize| {
        let bytes = file.get(at..at + len).expect("inside the file");
        let mut wide = [0; 8];
        wide[..len].copy_from_slice(bytes);
        usize::try_from(u64::from_le_bytes(wide)).expect("64 bits")
    };
    assert!(file.starts_with(b"\x7fELF\x02\x01"), "an ELF64 file");
    let (headers, size, count) = (number(32, 8), number(54, 2), number(56, 2));
    let segments: Vec<(usize, usize, usize, usize)> = (0..count)
        .map(|index| {
            let at = headers + index * size;
            (
                number(at, 4),
                number(at + 8, 8),
                number(at + 16, 8),
                number(at + 32, 8),
            )
        })
        .collect();
    let offset_of = |address: usize| {
        segments
            .iter()
            .find(|(kind, _, start, len)| *kind == 1 && (*start..*start + *len).contains(&address))
            .map(|(_, offset, start, _)| address - start + offset)
    };
    let (_, dynamic, _, len) = segments
        .iter()
        .find(|(kind, ..)| *kind == 2)
        .expect("PT_DYNAMIC");
    let entries: Vec<(usize, usize)> = (0..len / 16)
        .map(|index| {
            (
                number(dynamic + index * 16, 8),
                number(dynamic + index * 16 + 8, 8),
            )
        })
        .collect();
    let strings = entries
        .iter()
        .find(|(tag, _)| *tag == 5)
        .and_then(|(_, address)| offset_of(*address))
        .expect("DT_STRTAB");
    entries
        .iter()
        .filter(|(tag, _)| *tag == 1)
        .map(|(_, name)| {
            let bytes = file.get(strings + name..).expect("inside the file");
            let end = bytes.iter().position(|byte| *byte == 0).expect("an end");
            String::from_utf8_lossy(&bytes[..end]).into_owned()
        })
        .collect()
}

#[test]
fn the_binary_needs_libc_alone() {
    let file = fs::read(hostile::place::binary()).expect("the binary");
    for library in needed(&file) {
        assert!(
            library.starts_with("libc.so.") || library.starts_with("ld-linux"),
            "it loads {library}"
        );
    }
}
