//! `EnableHwCompression`: libraries that work and libraries that fail, at both ends.

use std::path::{Path, PathBuf};
use std::process::Command;

use interop::account::is_root;
use interop::peers::ours::Kind;
use interop::process::{Input, tool};
use interop::scratch::Scratch;
use interop::site::{HOST, Site};

const ZLIBS: &[&str] = &[
    "/usr/lib/x86_64-linux-gnu/libz.so.1",
    "/usr/lib/aarch64-linux-gnu/libz.so.1",
];

fn zlib() -> &'static str {
    let found = ZLIBS.iter().find(|path| Path::new(path).exists());
    found.expect("install zlib1g")
}

/// The library that goes wrong in one way, in `scratch`.
fn faulty(scratch: &Scratch, at: &str, how: &str, after: u32) -> PathBuf {
    let path = scratch.join(&format!("lib{at}{how}.so"));
    let source = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../crates/compress/tests/fake_zlib.c"
    );
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-w", "-o"])
        .arg(&path)
        .args([
            source,
            &format!("-DAT={at}"),
            &format!("-DHOW={how}"),
            &format!("-DAFTER={after}"),
        ])
        .status();
    assert!(built.expect("a C compiler").success());
    path
}

fn options(mode: &str, library: &Path) -> String {
    format!(
        "Compression yes\nEnableHwCompression {mode}\nHwCompressionLibrary {}\n",
        library.display()
    )
}

/// Bytes that compress, of which no two packets are alike.
fn data() -> Vec<u8> {
    let mut text = Vec::new();
    for number in 0..200_000_u32 {
        text.extend_from_slice(format!("line {number} of many\n").as_bytes());
    }
    text
}

fn sha256(data: &[u8]) -> String {
    let scratch = Scratch::new();
    let path = scratch.write("data", data);
    let sum = tool(Path::new("/usr/bin/sha256sum"), &[path]).expect("sha256sum");
    sum.split_whitespace().next().unwrap_or_default().to_owned()
}

#[test]
fn a_library_compresses_what_our_client_sends_to_anybody() {
    for server in [Kind::Fulmar, Kind::OpenSsh] {
        let site = Site::new(Kind::Fulmar, server, "");
        let config = options("require", Path::new(zlib()));
        let data = data();
        let outcome = site.run_with(&config, &["-v", HOST, "cat"], Input::Bytes(&data));
        assert_eq!(
            outcome.stdout.sha256,
            sha256(&data),
            "{}",
            outcome.summary()
        );
        let said = outcome.stderr.text();
        assert!(said.contains("IN USE"), "{said}");
        assert!(!said.contains(" 0 hardware"), "{said}");
    }
}

#[test]
fn a_library_that_fails_in_the_middle_costs_nothing_but_a_warning() {
    let scratch = Scratch::new();
    let data = data();
    let sum = sha256(&data);
    for server in [Kind::Fulmar, Kind::OpenSsh] {
        let site = Site::new(Kind::Fulmar, server, "");
        for how in [
            "FAIL", "CRASH", "WILD", "HANG", "WRONG", "GROW", "LESS", "FINAL",
        ] {
            let library = faulty(&scratch, "DEFLATE", how, 30);
            let config = options("yes", &library);
            let outcome = site.run_with(&config, &["-v", HOST, "cat"], Input::Bytes(&data));
            assert_eq!(outcome.stdout.sha256, sum, "{how}: {}", outcome.summary());
            let said = outcome.stderr.text();
            let warnings = said.matches("Warning: hardware compression failed").count();
            assert_eq!(warnings, 1, "{how}: {said}");
        }
    }
}

#[test]
fn what_cannot_be_had_is_a_warning_or_a_refusal() {
    let scratch = Scratch::new();
    let site = Site::new(Kind::Fulmar, Kind::Fulmar, "");
    let library = faulty(&scratch, "LOAD", "CRASH", 0);
    let yes = site.run_with(
        &options("yes", &library),
        &["-o", "LogLevel=INFO", HOST, "echo here"],
        Input::Nothing,
    );
    assert_eq!(yes.stdout.text(), "here\n");
    let said = yes.stderr.text();
    assert_eq!(
        said.matches("Warning: EnableHwCompression").count(),
        1,
        "{said}"
    );
    assert!(said.contains("killed by"), "{said}");
    let require = options("require", &library);
    let refused = site.run_with(&require, &["-v", HOST, "echo here"], Input::Nothing);
    assert_eq!(refused.stdout.text(), "");
    let said = refused.stderr.text();
    assert!(said.contains("EnableHwCompression require"), "{said}");
    assert!(!said.contains("Connecting to"), "{said}");
}

#[test]
fn a_server_tries_the_library_first_and_then_uses_it() {
    let site = Site::new(
        Kind::Fulmar,
        Kind::Fulmar,
        &(options("require", Path::new(zlib())) + "LogLevel DEBUG1\n"),
    );
    let data = data();
    let outcome = site.run_with("Compression yes\n", &[HOST, "cat"], Input::Bytes(&data));
    assert_eq!(
        outcome.stdout.sha256,
        sha256(&data),
        "{}",
        outcome.summary()
    );
    let log = site.running.daemon.log();
    assert!(log.contains("compression: hardware library"), "{log}");
    // Anybody could have put it there.
    let scratch = Scratch::new();
    let library = faulty(&scratch, "LOAD", "CRASH", 0);
    let refused = interop::peers::openssh::start(Kind::Fulmar, &options("require", &library));
    let Err(why) = refused else {
        panic!("a server that starts");
    };
    assert!(why.contains("EnableHwCompression require"), "{why}");
    if is_root() {
        assert!(!why.contains("killed by"), "{why}");
    }
}
