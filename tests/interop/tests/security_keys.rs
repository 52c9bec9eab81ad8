//! Security keys without hardware: the dummy token of OpenSSH's package of tests as provider of both
//! suites. Keys made by each keygen log in with each client to each server and sign files.

use std::path::{Path, PathBuf};

use fulmar::Error;
use fulmar::client::{AcceptAny, Auth, Config, SecurityKeyAccess, Session};
use fulmar::keys::private_file;
use interop::agent::program;
use interop::fixture;
use interop::peers::openssh;
use interop::peers::ours::{self, Kind};
use interop::process::{Input, Outcome, installed};
use interop::report::skipped;
use interop::scratch::Scratch;
use interop::site::{HOST, Site, each, finish};

/// The dummy token where its package is installed, and the name of the copy that .ci/peers fetches into
/// target/; another place may be named.
const DUMMY: &str = "/usr/lib/openssh/regress/misc/sk-dummy/sk-dummy.so";
const COPY: &str = "sk-dummy.so";
const DUMMY_VARIABLE: &str = "FULMAR_SK_DUMMY";
const TYPES: [&str; 2] = ["ed25519-sk", "ecdsa-sk"];

fn dummy() -> Option<PathBuf> {
    let named = std::env::var_os(DUMMY_VARIABLE).map(PathBuf::from);
    let copy = fixture::target_folder().join(COPY);
    let mut places = named.into_iter().chain([PathBuf::from(DUMMY), copy]);
    let found = places.find_map(|path| path.canonicalize().ok());
    if found.is_none() {
        skipped("OpenSSH's dummy token", &"run .ci/peers to fetch it");
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

/// A program with the library, which starts our binary for the token.
#[test]
fn a_program_logs_in_with_a_key_file() {
    let Some(provider) = dummy() else { return };
    for server in [Kind::Fulmar, Kind::OpenSsh] {
        for of_type in TYPES {
            let scratch = Scratch::new();
            let path = made(Kind::OpenSsh, &scratch, &provider, "key", &["-t", of_type]);
            let line = std::fs::read_to_string(path.with_extension("pub")).expect("a key");
            let authorized = scratch.write("authorized", &line);
            let lines = format!("AuthorizedKeysFile {}\n", authorized.display());
            let site = Site::new(Kind::Fulmar, server, &lines);
            let file = std::fs::read(&path).expect("a key");
            let key = private_file::parse(&file, None).expect("a key").key;
            let port = site.running.daemon.port;
            let user = site.running.user.as_str();
            let mut session =
                Session::connect("127.0.0.1", port, Config::new(AcceptAny)).expect("a session");
            let alone = session.authenticate(user, Auth::Key(&key)).unwrap_err();
            assert!(matches!(alone, Error::UnusableKey(_)), "{alone}");
            assert!(alone.to_string().contains("Auth::SecurityKey"), "{alone}");
            let nowhere = SecurityKeyAccess::new(Path::new("/nonexistent")).library(&provider);
            let auth = Auth::SecurityKey(&key, None, nowhere);
            let missing = session.authenticate(user, auth).unwrap_err();
            assert!(matches!(missing, Error::UnusableKey(_)), "{missing}");
            assert!(missing.to_string().contains("ssh-sk-helper"), "{missing}");
            let access = SecurityKeyAccess::new(ours::binary()).library(&provider);
            let auth = Auth::SecurityKey(&key, None, access);
            session.authenticate(user, auth).expect("a login");
            let ran = session.run("echo in").expect("a command");
            assert_eq!(ran.stdout, b"in\n", "{server:?} {of_type}");
        }
    }
}

/// A server whose only keys, with a certificate for each, are in the token; the file that knows them.
fn served_from_a_token(client: Kind, server: Kind, provider: &Path) -> (Site, PathBuf) {
    let scratch = Scratch::new();
    let config = openssh::server_config(server, &scratch);
    let mut lines: Vec<String> = config
        .lines()
        .filter(|line| !line.starts_with("Host"))
        .map(str::to_owned)
        .collect();
    lines.push(format!("SecurityKeyProvider {}", provider.display()));
    let mut known = format!(
        "@cert-authority * {}\n",
        fixture::text("host_ca.pub").trim_end()
    );
    for of_type in TYPES {
        let key = made(Kind::OpenSsh, &scratch, provider, of_type, &["-t", of_type]);
        let public = key.with_extension("pub").display().to_string();
        let authority = fixture::file("host_ca").display().to_string();
        let sign = [
            "-q",
            "-s",
            &authority,
            "-I",
            "host",
            "-h",
            "-n",
            "127.0.0.1",
            &public,
        ];
        let signed = keygen(Kind::OpenSsh, &scratch, provider, &sign, "");
        assert_eq!(signed.status, 0, "{}", signed.summary());
        lines.push(format!("HostKey {}", key.display()));
        lines.push(format!("HostCertificate {}-cert.pub", key.display()));
        let line = std::fs::read_to_string(&public).expect("a key");
        known.push_str(&format!("* {line}"));
    }
    let known = scratch.write("known", known);
    let text = format!("{}\n", lines.join("\n"));
    let running = openssh::start_with(server, scratch, &text);
    let running = running.unwrap_or_else(|why| panic!("{why}"));
    (Site { client, running }, known)
}

#[test]
fn a_server_has_its_keys_in_security_keys() {
    let Some(provider) = dummy() else { return };
    each(|client, server| {
        let (site, known) = served_from_a_token(client, server, &provider);
        for algorithm in [
            "sk-ssh-ed25519@openssh.com",
            "sk-ecdsa-sha2-nistp256@openssh.com",
            "sk-ssh-ed25519-cert-v01@openssh.com",
            "sk-ecdsa-sha2-nistp256-cert-v01@openssh.com",
        ] {
            let extra = format!(
                "HostKeyAlgorithms {algorithm}\nUserKnownHostsFile {}\nRekeyLimit 64K\n",
                known.display()
            );
            let command = "head -c 300000 /dev/zero | cksum";
            let outcome = site.run_with(&extra, &[HOST, command], Input::Nothing);
            let what = format!("{client:?} {server:?} {algorithm}: {}", outcome.summary());
            assert_eq!(outcome.status, 0, "{what}");
            assert!(outcome.stdout.text().ends_with(" 300000\n"), "{what}");
        }
        let mut scan = program(client, "keyscan").expect("a scanner");
        let port = site.running.daemon.port.to_string();
        let types = "ed25519-sk,ecdsa-sk";
        let found = finish(
            scan.args(["-p", &port, "-t", types, "127.0.0.1"]),
            Input::Nothing,
        );
        let found = found.stdout.text();
        let lines: Vec<&str> = found
            .lines()
            .filter(|line| !line.starts_with('#'))
            .collect();
        assert_eq!(lines.len(), 2, "{client:?} {server:?} {found}");
    });
}

/// A token that nobody touches, and a library that has gone, end their own connections with a line of
/// the log.
#[test]
fn a_server_without_its_token_says_so() {
    let Some(provider) = dummy() else { return };
    let scratch = Scratch::new();
    let library = scratch.join("token.so");
    std::fs::copy(&provider, &library).expect("a library");
    let (site, known) = served_from_a_token(Kind::Fulmar, Kind::Fulmar, &library);
    let extra = format!("UserKnownHostsFile {}\n", known.display());
    assert_eq!(
        site.run_with(&extra, &[HOST, "true"], Input::Nothing)
            .status,
        0
    );
    std::fs::remove_file(&library).expect("a library");
    let outcome = site.run_with(&extra, &[HOST, "true"], Input::Nothing);
    assert_eq!(outcome.status, 255, "{}", outcome.summary());
    let log = site.running.daemon.log();
    assert!(log.contains("security key: provider "), "{log}");
}
