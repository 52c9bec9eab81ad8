//! Keys of ML-DSA-44 with Ed25519 (`ssh-mldsa44-ed25519`) between Fulmar and an OpenSSH that knows
//! them, which is 10.6: each makes keys for the other, in every place where a key counts.

use std::path::{Path, PathBuf};
use std::process::Command;

use interop::account::current_user;
use interop::agent::{RealAgent, program};
use interop::peers::ours::Kind;
use interop::process::Input;
use interop::report::skipped;
use interop::scratch::Scratch;
use interop::site::{HOST, Site, finish};

const BOTH: [Kind; 2] = [Kind::Fulmar, Kind::OpenSsh];
const NAME: &str = "ssh-mldsa44-ed25519";
const CERTIFICATE: &str = "ssh-mldsa44-ed25519-cert";

/// The tool of a suite, which must succeed; its standard output.
fn keygen(of: Kind, folder: &Path, arguments: &[&str]) -> String {
    let mut command = program(of, "keygen").expect("an ssh-keygen");
    let outcome = finish(command.args(arguments).current_dir(folder), Input::Nothing);
    let said = outcome.summary();
    assert_eq!(outcome.status, 0, "{of:?} {arguments:?}: {said}");
    outcome.stdout.text().to_owned()
}

/// True if the installed OpenSSH knows the type.
fn is_known() -> bool {
    let known = Kind::OpenSsh.ssh().is_ok_and(|mut ssh| {
        let outcome = finish(ssh.args(["-Q", "key"]), Input::Nothing);
        outcome.stdout.text().lines().any(|line| line == NAME)
    });
    if !known {
        skipped("openssh", &"it does not know ssh-mldsa44-ed25519");
    }
    known
}

/// A key `name` of the type, and its certificate by a `name_ca` of the type.
fn made_by(of: Kind, scratch: &Scratch, name: &str, for_host: bool) -> PathBuf {
    let folder = scratch.join("");
    let authority = format!("{name}_ca");
    for file in [name, &authority] {
        keygen(
            of,
            &folder,
            &[
                "-q",
                "-t",
                "mldsa44-ed25519",
                "-N",
                "",
                "-C",
                file,
                "-f",
                file,
            ],
        );
    }
    let public = format!("{name}.pub");
    let principals = match for_host {
        true => "127.0.0.1,localhost,target".to_owned(),
        false => current_user(),
    };
    let mut arguments = vec!["-q", "-s", &authority, "-I", "an id", "-n", &principals];
    arguments.extend(for_host.then_some("-h"));
    arguments.push(&public);
    keygen(of, &folder, &arguments);
    scratch.join(name)
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    PathBuf::from(format!("{}{ending}", path.display()))
}

#[test]
fn each_keygen_takes_the_files_of_the_other() {
    if !is_known() {
        return;
    }
    for (maker, reader) in [(BOTH[0], BOTH[1]), (BOTH[1], BOTH[0])] {
        let scratch = Scratch::new();
        let folder = scratch.join("");
        let key = made_by(maker, &scratch, "key", false);
        let public = text(&beside(&key, ".pub"));
        let blob = |line: &str| {
            line.split(' ')
                .nth(1)
                .map(|blob| blob.trim_end().to_owned())
        };
        let derived = keygen(reader, &folder, &["-y", "-f", "key"]);
        assert_eq!(blob(&derived), blob(&public), "{maker:?}");
        let lists = [maker, reader].map(|of| keygen(of, &folder, &["-lv", "-f", "key.pub"]));
        assert_eq!(lists[0], lists[1]);
        assert!(lists[0].starts_with("512 SHA256:"), "{}", lists[0]);
        let shown = [maker, reader].map(|of| keygen(of, &folder, &["-L", "-f", "key-cert.pub"]));
        assert_eq!(shown[0], shown[1]);
        // A passphrase of the other, and back.
        for (of, old, new) in [(reader, "", "secret"), (maker, "secret", "")] {
            let words = ["-q", "-p", "-a", "1", "-P", old, "-N", new, "-f", "key"];
            keygen(of, &folder, &words);
        }
        // A signature of one is verified by the other.
        scratch.write("message", "a message");
        keygen(
            maker,
            &folder,
            &["-Y", "sign", "-f", "key", "-n", "file", "message"],
        );
        scratch.write("signers", format!("me {public}"));
        for (message, good) in [("a message", true), ("another", false)] {
            let mut verify = program(reader, "keygen").expect("an ssh-keygen");
            let words = [
                "-Y", "verify", "-f", "signers", "-I", "me", "-n", "file", "-s",
            ];
            verify.args(words).arg("message.sig").current_dir(&folder);
            let outcome = finish(&mut verify, Input::Bytes(message.as_bytes()));
            assert_eq!(outcome.status == 0, good, "{}", outcome.summary());
        }
        // A revocation list of one revokes for the other.
        keygen(maker, &folder, &["-q", "-k", "-f", "krl", "key.pub"]);
        for (file, status) in [("key.pub", 1), ("key-cert.pub", 1), ("key_ca.pub", 0)] {
            let mut query = program(reader, "keygen").expect("an ssh-keygen");
            query.args(["-Q", "-f", "krl", file]).current_dir(&folder);
            let outcome = finish(&mut query, Input::Nothing);
            assert_eq!(outcome.status, status, "{file}: {}", outcome.summary());
        }
    }
}

/// Runs a command through the server with this configuration of the client.
fn log_in(client: Kind, site: &Site, scratch: &Scratch, lines: &str) {
    let running = &site.running;
    let config = scratch.write(
        &format!("config_{client:?}"),
        format!(
            "HostName 127.0.0.1\nPort {}\nUser {}\nStrictHostKeyChecking yes\nBatchMode yes\n\
             GlobalKnownHostsFile /dev/null\nLogLevel VERBOSE\n{lines}",
            running.daemon.port, running.user
        ),
    );
    let mut command: Command = client.ssh().expect("a client");
    command
        .arg("-F")
        .arg(config)
        .args([HOST, "echo in; exit 3"]);
    let outcome = finish(&mut command, Input::Nothing);
    let said = outcome.summary();
    assert_eq!(
        (outcome.status, outcome.stdout.text().as_ref()),
        (3, "in\n"),
        "{client:?} at {}: {said}",
        running.daemon.port
    );
}

#[test]
fn logins_with_keys_and_certificates_on_both_sides() {
    if !is_known() {
        return;
    }
    for (client, server) in [(0, 1), (1, 0), (0, 0)].map(|(one, two)| (BOTH[one], BOTH[two])) {
        let scratch = Scratch::new();
        let host = made_by(server, &scratch, "host", true);
        let user = made_by(client, &scratch, "user", false);
        let accepted = scratch.write("accepted", text(&beside(&user, ".pub")));
        let site = Site::new(
            client,
            server,
            &format!(
                "HostKey {host}\nHostCertificate {host}-cert.pub\nTrustedUserCAKeys {user}_ca.pub\n\
                 CASignatureAlgorithms +{NAME}\nAuthorizedKeysFile {accepted}\nStrictModes no\n",
                host = host.display(),
                user = user.display(),
                accepted = accepted.display(),
            ),
        );
        let (port, folder) = (site.running.daemon.port, scratch.join(""));
        let plain = text(&beside(&host, ".pub"));
        let ca = text(&beside(&host, "_ca.pub"));
        let known = scratch.write("known", format!("[127.0.0.1]:{port} {plain}"));
        let certified = scratch.write(
            "certified",
            format!("@cert-authority [127.0.0.1]:{port} {ca}"),
        );
        // Without a certificate beside it.
        let alone = scratch.write("alone", text(&user));
        for (algorithm, known) in [(NAME, &known), (CERTIFICATE, &certified)] {
            for key in [&alone, &user] {
                let lines = format!(
                    "HostKeyAlgorithms {algorithm}\nUserKnownHostsFile {}\nIdentitiesOnly yes\n\
                     CASignatureAlgorithms +{NAME}\nIdentityFile {}\nIdentityAgent none\n",
                    known.display(),
                    key.display()
                );
                // Twice: the second login knows the server.
                for _ in 0..2 {
                    log_in(client, &site, &scratch, &lines);
                }
            }
        }
        // From each agent, filled by each ssh-add.
        for (agent, adder) in BOTH
            .iter()
            .flat_map(|agent| BOTH.map(|adder| (*agent, adder)))
        {
            let Some(running) = RealAgent::start_of(agent, &[]) else {
                return;
            };
            let mut add = program(adder, "add").expect("an ssh-add");
            add.arg("-q").arg("user").current_dir(&folder);
            add.env("SSH_AUTH_SOCK", &running.socket);
            let outcome = finish(&mut add, Input::Nothing);
            assert_eq!(outcome.status, 0, "{adder:?}: {}", outcome.summary());
            let mut list = program(adder, "add").expect("an ssh-add");
            list.arg("-l").env("SSH_AUTH_SOCK", &running.socket);
            let outcome = finish(&mut list, Input::Nothing);
            let listed = outcome.stdout.text();
            assert!(listed.contains("(MLDSA44-ED25519)"), "{listed}");
            assert!(listed.contains("(MLDSA44-ED25519-CERT)"), "{listed}");
            for file in ["user.pub", "user-cert.pub"] {
                let lines = format!(
                    "HostKeyAlgorithms {NAME}\nUserKnownHostsFile {}\nIdentitiesOnly yes\n{}\
                     IdentityFile {}\n",
                    known.display(),
                    running.line(),
                    folder.join(file).display()
                );
                log_in(client, &site, &scratch, &lines);
            }
        }
        // The scan of each finds the host's key.
        for of in BOTH {
            let mut scan = program(of, "keyscan").expect("an ssh-keyscan");
            let port = port.to_string();
            scan.args(["-q", "-t", "mldsa44-ed25519", "-p", &port, "127.0.0.1"]);
            let outcome = finish(&mut scan, Input::Nothing);
            let blob = plain.split(' ').nth(1).expect("a blob");
            let found = outcome.stdout.text();
            assert!(found.contains(&format!("{NAME} {blob}")), "{of:?}: {found}");
        }
    }
}

/// An authority of the type signs for nobody unless it is permitted, as with OpenSSH.
#[test]
fn certificates_by_the_type_need_permission() {
    let scratch = Scratch::new();
    let user = made_by(Kind::Fulmar, &scratch, "user", false);
    let trusted = format!(
        "TrustedUserCAKeys {}_ca.pub\nAuthorizedKeysFile none\n",
        user.display()
    );
    for (extra, status) in [
        ("", 255),
        ("CASignatureAlgorithms +ssh-mldsa44-ed25519\n", 0),
    ] {
        let site = Site::new(Kind::Fulmar, Kind::Fulmar, &format!("{extra}{trusted}"));
        let identity = format!("IdentityFile {}\nIdentitiesOnly yes\n", user.display());
        let config = site.config("");
        let lines = text(&config);
        let lines: Vec<&str> = lines
            .lines()
            .filter(|line| !line.trim_start().starts_with("IdentityFile"))
            .filter(|line| !line.trim_start().starts_with("CertificateFile"))
            .collect();
        std::fs::write(&config, format!("{identity}{}\n", lines.join("\n"))).expect("written");
        let mut ssh = Kind::Fulmar.ssh().expect("our client");
        ssh.arg("-F")
            .arg(&config)
            .args(["-oBatchMode=yes", HOST, "true"]);
        let outcome = finish(&mut ssh, Input::Nothing);
        assert_eq!(outcome.status, status, "{extra}: {}", outcome.summary());
    }
}
