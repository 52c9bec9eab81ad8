//! `EnableHwCompression`: libraries that work and libraries that fail, at both ends.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use fakes::Fakes;
use interop::account::is_root;
use interop::peers::openssh;
use interop::peers::ours::{self, Kind};
use interop::process::{Background, COMMAND_LIMIT, Input, tool};
use interop::report::skipped;
use interop::scratch::{Scratch, until};
use interop::site::{HOST, Site, finish};
use rustix::process::Signal;

#[path = "../../../crates/compress/tests/fakes/mod.rs"]
mod fakes;

const ZLIBS: &[&str] = &[
    "/usr/lib/x86_64-linux-gnu/libz.so.1",
    "/usr/lib/aarch64-linux-gnu/libz.so.1",
];

fn zlib() -> &'static str {
    let found = ZLIBS.iter().find(|path| Path::new(path).exists());
    found.expect("install zlib1g")
}

fn options(mode: &str, library: &Path) -> String {
    format!(
        "Compression yes\nEnableHwCompression {mode}\nHwCompressionLibrary {}\n",
        library.display()
    )
}

/// Compressible bytes without equal packets.
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
    let fakes = Fakes::new("middle");
    let data = data();
    let sum = sha256(&data);
    for server in [Kind::Fulmar, Kind::OpenSsh] {
        let site = Site::new(Kind::Fulmar, server, "");
        for how in [
            "FAIL", "CRASH", "WILD", "HANG", "WRONG", "GROW", "LESS", "FINAL",
        ] {
            let library = fakes.faulty_zlib("DEFLATE", how, 30);
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
    let fakes = Fakes::new("refusal");
    let site = Site::new(Kind::Fulmar, Kind::Fulmar, "");
    let library = fakes.faulty_zlib("LOAD", "CRASH", 0);
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
    // Any user could have created it.
    let fakes = Fakes::new("anybody");
    let library = fakes.faulty_zlib("LOAD", "CRASH", 0);
    let refused = openssh::start(Kind::Fulmar, &options("require", &library));
    let Err(why) = refused else {
        panic!("a server that starts");
    };
    assert!(why.contains("EnableHwCompression require"), "{why}");
    if is_root() {
        assert!(!why.contains("killed by"), "{why}");
    }
}

#[test]
fn where_nothing_keeps_a_library_from_files_none_is_loaded() {
    let fakes = Fakes::new("cage");
    let source = Path::new(env!("CARGO_MANIFEST_DIR"));
    let launcher = fakes.program(&source.join("../../crates/accelerator/tests/without.c"));
    let site = Site::new(Kind::Fulmar, Kind::Fulmar, "");
    let run = |mode: &str, level: &str| {
        let client = site.ssh(&options(mode, Path::new(zlib())));
        let mut command = Command::new(&launcher);
        command.arg("landlock").arg(client.get_program());
        command.args(client.get_args());
        command.args(["-o", level, HOST, "echo here"]);
        finish(&mut command, Input::Nothing)
    };
    let yes = run("yes", "LogLevel=INFO");
    assert_eq!(yes.stdout.text(), "here\n", "{}", yes.summary());
    let said = yes.stderr.text();
    let warnings = said.matches("Warning: EnableHwCompression").count();
    assert_eq!(warnings, 1, "{said}");
    assert!(said.contains("this kernel has no Landlock"), "{said}");
    let refused = run("require", "LogLevel=DEBUG");
    assert_eq!(refused.stdout.text(), "");
    let said = refused.stderr.text();
    assert!(said.contains("EnableHwCompression require"), "{said}");
    assert!(!said.contains("Connecting to"), "{said}");
}

#[test]
fn a_reload_tries_the_library_and_keeps_what_was_in_use() {
    let site = Site::new(Kind::Fulmar, Kind::Fulmar, "LogLevel DEBUG1\n");
    let daemon = &site.running.daemon;
    let file = daemon.scratch().join("sshd_config");
    let before = std::fs::read_to_string(&file).expect("the configuration");
    let reload = |library: &Path, says: &str| {
        let text = options("require", library) + &before;
        std::fs::write(&file, text).expect("the configuration");
        daemon.signal(Signal::HUP);
        let said = until(COMMAND_LIMIT, || daemon.log().contains(says));
        assert!(said, "{}", daemon.log());
        assert_eq!(site.run("echo here").stdout.text(), "here\n");
    };
    reload(
        Path::new("/nonexistent/libz.so.1"),
        "the old configuration stays in use: EnableHwCompression require: /nonexistent/libz.so.1",
    );
    reload(Path::new(zlib()), "self-test ok");
}

#[test]
fn a_server_for_one_connection_refuses_before_it_says_anything() {
    let site = Site::new(Kind::Fulmar, Kind::Fulmar, "");
    let scratch = Scratch::new();
    let run = |library: &Path| {
        let config = options("require", library) + &openssh::server_config(Kind::Fulmar, &scratch);
        let file = scratch.write("sshd_config", config);
        let proxy = format!(
            "ProxyCommand {} sshd -i -f {}\nCompression yes\n",
            ours::binary().display(),
            file.display()
        );
        site.run_with(&proxy, &[HOST, "echo here"], Input::Nothing)
    };
    let served = run(Path::new(zlib()));
    assert_eq!(served.stdout.text(), "here\n", "{}", served.summary());
    let refused = run(Path::new("/nonexistent/libz.so.1"));
    assert_eq!(refused.status, 255, "{}", refused.summary());
    let said = refused.stderr.text();
    let reason = "EnableHwCompression require: /nonexistent/libz.so.1";
    assert!(said.contains(reason), "{said}");
}

/// Nobody can check whether a library separates the bytes of two channels, so it gets those of one.
#[test]
fn a_second_channel_with_data_ends_the_use_of_the_library_and_the_log_says_so() {
    if let Err(why) = Kind::OpenSsh.ssh() {
        return skipped("two sessions on one connection", &why);
    }
    let config = options("yes", Path::new(zlib())) + "LogLevel DEBUG1\n";
    let site = Site::new(Kind::OpenSsh, Kind::Fulmar, &config);
    let scratch = Scratch::new();
    let socket = scratch.join("control");
    let path = format!("-oControlPath={}", socket.display());
    let mut master = site.ssh("Compression yes\n");
    master.args(["-M", "-N", &path, HOST]);
    let _master = Background::start(&mut master).expect("ssh starts");
    let patience = Duration::from_secs(60);
    assert!(until(patience, || socket.exists()), "no master");
    let data = data();
    let sum = sha256(&data);
    let says = "a second channel has data: internal engine instead of";
    for session in 1..=2 {
        let mut command = site.ssh("");
        command.args([&path, HOST, "cat"]);
        let outcome = finish(&mut command, Input::Bytes(&data));
        assert_eq!(outcome.stdout.sha256, sum, "{}", outcome.summary());
        let log = || site.running.daemon.log();
        if session == 1 {
            assert!(
                log().contains("IN USE") && !log().contains(says),
                "{}",
                log()
            );
        } else {
            assert!(until(patience, || log().contains(says)), "{}", log());
        }
    }
}
