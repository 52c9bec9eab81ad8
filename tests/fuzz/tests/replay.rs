//! The corpora, and mutations of them, through every body.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::Command;

use fuzz_bodies::mutate::{Generator, mutated};
use fuzz_bodies::{Body, TARGETS};

/// Mutations per target in a development build; fewer for targets with a key exchange.
const MUTATIONS: usize = 20_000;
const MUTATIONS_OF_CONNECTIONS: usize = 3_000;

fn folder(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(target)
}

fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = folder(target);
    let mut paths: Vec<PathBuf> = fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.sort();
    assert!(!paths.is_empty(), "{target} has seeds");
    paths
        .iter()
        .map(|path| fs::read(path).expect("a seed"))
        .collect()
}

/// Runs a body; an input that makes it panic is stored below `target/`.
fn run(target: &str, body: Body, input: &[u8]) {
    if catch_unwind(AssertUnwindSafe(|| body(input))).is_ok() {
        return;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/fuzz-failures");
    fs::create_dir_all(&folder).expect("a folder for the input");
    let path = folder.join(target);
    fs::write(&path, input).expect("the input");
    panic!("{target} panics; its input is kept as {}", path.display());
}

fn replay(target: &str) {
    let (name, body) = TARGETS
        .iter()
        .find(|(name, _)| *name == target)
        .expect("a target");
    let corpus = corpus(name);
    for input in &corpus {
        run(name, *body, input);
    }
    let count = match *name {
        "server_before_login" | "client_before_login" | "after_login" | "sntrup_exchange" => {
            MUTATIONS_OF_CONNECTIONS
        }
        _ => MUTATIONS,
    };
    let mut generator = Generator::new(count as u64);
    for _ in 0..count {
        let input = mutated(&mut generator, &corpus);
        run(name, *body, &input);
    }
}

macro_rules! targets {
    ($($name:ident),* $(,)?) => {
        const REPLAYED: &[&str] = &[$(stringify!($name)),*];
        $(#[test]
        fn $name() {
            replay(stringify!($name));
        })*
    };
}

targets!(
    wire_message,
    splitter,
    monitor_request,
    private_key_file,
    key_blob,
    known_hosts,
    authorized_keys,
    revocation_list,
    ssh_config,
    sshd_config,
    server_before_login,
    client_before_login,
    after_login,
    snapshot,
    deflate,
    inflate,
    zstd_deflate,
    zstd_inflate,
    sftp_stream,
    tunnel_packets,
    sntrup_exchange,
    socks_request,
    forward_fields,
    agent_request,
    agent_answer,
    datagrams,
    mux_message,
    dns_answer,
    ctap_cbor,
    allowed_signers,
    file_signature,
    token_reply,
);

/// The seeds as the code makes them now are in the corpora: those of formats that are ours alone as they are,
/// because an old one is refused at its first byte that has changed.
#[test]
fn the_corpora_have_every_seed() {
    for (target, _) in TARGETS {
        for (name, bytes) in fuzz_bodies::seeds::of(target) {
            let path = folder(target).join(&name);
            let how = "cargo run -p fuzz-bodies --example seeds writes it";
            let stored = fs::read(&path)
                .unwrap_or_else(|error| panic!("{}: {error}; {how}", path.display()));
            let is_stale = match *target {
                "monitor_request" | "token_reply" => stored != bytes,
                // With random numbers.
                "snapshot" => stored.len() != bytes.len(),
                _ => false,
            };
            assert!(!is_stale, "{}: {how}", path.display());
        }
    }
}

#[test]
fn the_lock_file_of_the_wrappers_is_current() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/Cargo.toml");
    let words = ["metadata", "--locked", "--offline", "--format-version=1"];
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(words).arg("--manifest-path").arg(manifest);
    let output = cargo.output().expect("cargo");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    // A crate that this machine has not downloaded is another error.
    assert!(!said.contains("--locked"), "{said}");
}

#[test]
fn every_target_is_replayed_and_wrapped() {
    let names: Vec<&str> = TARGETS.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, REPLAYED);
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/Cargo.toml");
    let manifest = fs::read_to_string(manifest).expect("fuzz/Cargo.toml");
    for name in names {
        assert!(
            manifest.contains(&format!("name = \"{name}\"")),
            "fuzz/ wraps {name}"
        );
    }
}
