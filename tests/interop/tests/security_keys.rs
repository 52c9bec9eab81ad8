//! Security keys without hardware: the dummy token of OpenSSH's package of tests as provider of both
//! suites. Keys made by each keygen log in with each client to each server and sign files.

use std::path::{Path, PathBuf};

use interop::agent::program;
use interop::peers::ours::{self, Kind};
use interop::process::{Input, Outcome, installed};
use interop::report::skipped;
use interop::scratch::Scratch;
use interop::site::{Site, each, finish};

/// The dummy token; another place may be named.
const DUMMY: &str = "/usr/lib/openssh/regress/misc/sk-dummy/sk-dummy.so";
const DUMMY_VARIABLE: &str = "FULMAR_SK_DUMMY";
const TYPES: [&str; 2] = ["ed25519-sk", "ecdsa-sk"];

fn dummy() -> Option<PathBuf> {
    let path = std::env::var_os(DUMMY_VARIABLE).map_or_else(|| PathBuf::from(DUMMY), PathBuf::from);
    let found = path.canonicalize().ok();
    if found.is_none() {
        skipped("OpenSSH's dummy token", &"openssh-tests is not installed");
    }
    found.filter(|_| installed("ssh-keygen").is_some())
}

fn keygen(
    of: Kind,
    scratch: &Scratch,
    provider: &Path,
    arguments: &[&str],
    input: &str,
) -> Outcome {
    let mut command = match of {
        Kind::Fulmar => {
            let mut command = std::process::Command::new(ours::binary());
            command.arg("keygen");
            command
        }
        Kind::OpenSsh => program(of, "keygen").expect("ssh-keygen"),
    };
    command
        .args(arguments)
        .env("SSH_SK_PROVIDER", provider)
        .env_remove("SSH_AUTH_SOCK")
        .current_dir(scratch.path());
    finish(&mut command, Input::Bytes(input.as_bytes()))
}

/// A key of this type, made by this suite, in a file of that name.
fn made(of: Kind, scratch: &Scratch, provider: &Path, name: &str, options: &[&str]) -> PathBuf {
    let mut arguments = vec!["-q", "-N", "", "-f", name];
    arguments.extend(options);
    let outcome = keygen(of, scratch, provider, &arguments, "");
    assert_eq!(outcome.status, 0, "{of:?} {name}: {}", outcome.summary());
    scratch.path().join(name)
}

fn login(site: &Site, provider: &Path, key: &Path) -> Outcome {
    let lines = format!(
        "IdentitiesOnly yes\nIdentityAgent none\nSecurityKeyProvider {}\n",
        provider.display()
    );
    site.login_with(&lines, key)
}

#[test]
fn keys_of_each_suite_log_in_with_each() {
    let Some(provider) = dummy() else { return };
    each(|client, server| {
        for maker in [Kind::Fulmar, Kind::OpenSsh] {
            for of_type in TYPES {
                let scratch = Scratch::new();
                let key = made(maker, &scratch, &provider, "key", &["-t", of_type]);
                let line = std::fs::read_to_string(key.with_extension("pub")).expect("a key");
                let authorized = scratch.write("authorized", &line);
                let strict = scratch.write("strict", format!("verify-required {line}"));
                let lines = |file: &Path| format!("AuthorizedKeysFile {}\n", file.display());
                let site = Site::new(client, server, &lines(&authorized));
                let outcome = login(&site, &provider, &key);
                assert_eq!(
                    outcome.stdout.text(),
                    "in\n",
                    "{maker:?} {of_type}: {}",
                    outcome.summary()
                );
                // The token did not verify its user.
                let site = Site::new(client, server, &lines(&strict));
                let outcome = login(&site, &provider, &key);
                assert_eq!(
                    outcome.status,
                    255,
                    "{maker:?} {of_type}: {}",
                    outcome.summary()
                );
            }
        }
    });
}

#[test]
fn a_key_without_touch_logs_in_only_where_the_server_says_so() {
    let Some(provider) = dummy() else { return };
    each(|client, server| {
        let scratch = Scratch::new();
        let options = ["-t", "ed25519-sk", "-O", "no-touch-required"];
        let key = made(Kind::Fulmar, &scratch, &provider, "key", &options);
        let line = std::fs::read_to_string(key.with_extension("pub")).expect("a key");
        for (options, is_in) in [("", false), ("no-touch-required ", true)] {
            let authorized = scratch.write("authorized", format!("{options}{line}"));
            let site = Site::new(
                client,
                server,
                &format!("AuthorizedKeysFile {}\n", authorized.display()),
            );
            let outcome = login(&site, &provider, &key);
            assert_eq!(
                outcome.status == 0,
                is_in,
                "{options}: {}",
                outcome.summary()
            );
        }
    });
}

#[test]
fn signatures_over_files_are_good_for_each() {
    let Some(provider) = dummy() else { return };
    let both = [Kind::Fulmar, Kind::OpenSsh];
    for (maker, signer, verifier) in both
        .into_iter()
        .flat_map(|maker| both.map(|signer| (maker, signer)))
        .flat_map(|(maker, signer)| both.map(|verifier| (maker, signer, verifier)))
    {
        for of_type in TYPES {
            let scratch = Scratch::new();
            let what = format!("{maker:?} {signer:?} {verifier:?} {of_type}");
            let key = made(maker, &scratch, &provider, "key", &["-t", of_type]);
            let line = std::fs::read_to_string(key.with_extension("pub")).expect("a key");
            let _ = scratch.write("allowed", format!("me {line}"));
            let _ = scratch.write("file", "text\n");
            let sign = ["-Y", "sign", "-f", "key", "-n", "file", "file"];
            let signed = keygen(signer, &scratch, &provider, &sign, "");
            assert_eq!(signed.status, 0, "{what}: {}", signed.summary());
            let said = signed.stderr.text();
            assert!(
                said.contains("Confirm user presence for key "),
                "{what}: {said}"
            );
            let verify = [
                "-Y", "verify", "-f", "allowed", "-I", "me", "-n", "file", "-s", "file.sig",
            ];
            let good = keygen(verifier, &scratch, &provider, &verify, "text\n");
            assert_eq!(good.status, 0, "{what}: {}", good.summary());
            let bad = keygen(verifier, &scratch, &provider, &verify, "other\n");
            assert_ne!(bad.status, 0, "{what}: {}", bad.summary());
        }
    }
}
