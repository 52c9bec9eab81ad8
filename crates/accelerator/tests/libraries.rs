//! Real libraries with zlib's functions, each in a process of its own: their runs at every level
//! form one stream with packets of the software encoder in between. `.ci/zlibs` builds libraries
//! that distributions lack.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use accelerator::{Accelerator, LibraryRequest};
use bed::{data, encode, stream};
use compress::provider::Provider;

mod bed;

fn main() {
    let arguments = bed::arguments();
    for (name, candidates) in libraries() {
        if !bed::is_asked_for(name, &arguments) {
            continue;
        }
        let Some(path) = candidates.iter().find(|path| path.exists()) else {
            eprintln!("skipped: {name} (run .ci/zlibs to build it)");
            continue;
        };
        library(name, path);
        println!("test {name} ... ok");
    }
}

/// Names of libraries, and the paths of each.
fn libraries() -> Vec<(&'static str, Vec<PathBuf>)> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"),
        PathBuf::from,
    );
    let built = |name: &str| {
        let path = target.join("zlibs").join(name);
        vec![path.canonicalize().unwrap_or(path)]
    };
    vec![
        ("zlib", vec![bed::zlib()]),
        ("zlib-ng", built("libz-ng.so")),
        ("zlib-rs", built("libz-rs.so")),
        ("isal", built("libz-isal.so")),
    ]
}

fn library(name: &str, path: &Path) {
    let request = LibraryRequest {
        // The machine may be busy.
        start_limit: Duration::from_secs(60),
        run_limit: Duration::from_secs(60),
        ..bed::request(&[path], 2)
    };
    let accelerator = bed::open(&request);
    let accelerator = Arc::new(accelerator.unwrap_or_else(|why| panic!("{name}: {why}")));
    let described = accelerator.describe();
    println!("{described}");
    assert!(described.contains("self-test ok"), "{described}");
    assert_eq!(accelerator.path(), path, "{described}");
    let data = data();
    for level in 1..=9 {
        let begun = Instant::now();
        let bytes = hardware_stream(name, &accelerator, level, &data);
        let ratio = data.len() * 100 / bytes;
        let ms = begun.elapsed().as_millis();
        println!(
            "{name} level {level}: {}.{:02}, {ms} ms",
            ratio / 100,
            ratio % 100
        );
        // Every level of every library compresses text.
        assert!(bytes < data.len() * 3 / 4, "{name} {level}: {bytes}");
    }
    small_payloads(&accelerator);
    // Both lanes at once, levels mixed.
    std::thread::scope(|scope| {
        for level in [1, 6, 9] {
            let (accelerator, data) = (&accelerator, &data);
            scope.spawn(move || hardware_stream(name, accelerator, level, &data[..300_000]));
        }
    });
}

/// Checks a stream of the library; returns its length.
fn hardware_stream(name: &str, accelerator: &Arc<Accelerator>, level: u8, data: &[u8]) -> usize {
    let sent = stream(name, accelerator, level, data);
    assert_eq!(sent.failure, None, "{name} {level}");
    assert_eq!(sent.report.hardware, sent.payloads, "{name}");
    sent.bytes
}

/// Runs of payloads from one byte on, without and with history.
fn small_payloads(accelerator: &Arc<Accelerator>) {
    let data = data();
    let mut encoder = accelerator.encoder().unwrap();
    for history_bytes in [0, 1, 1000, 32_768] {
        for size in [1, 2, 7, 31, 64, 100, 1000] {
            encode(&mut *encoder, &data, (history_bytes, size, 6)).unwrap();
        }
    }
}
