//! Logins with keys: every type, certificates with their options, options of authorized_keys,
//! agents and passphrases.

use interop::account::current_user;
use interop::agent::RealAgent;
use interop::fixture::{self, KEY_TYPES, PRINCIPAL};
use interop::peers::ours::Kind;
use interop::process::{Input, Outcome};
use interop::scratch::Scratch;
use interop::site::{HOST, Site, each, finish, terminals};

/// Lines that accept only `key`.
fn identity(key: &std::path::Path) -> String {
    format!("IdentityFile {}\n", key.display())
}

fn assert_in(outcome: &Outcome, what: &str) {
    outcome.assert_in(what);
    assert_eq!(outcome.status, 0, "{what}");
}

fn assert_out(outcome: &Outcome, what: &str) {
    assert_eq!(outcome.stdout.length, 0, "{what}: {}", outcome.summary());
    assert_eq!(outcome.status, 255, "{what}: {}", outcome.summary());
    let said = outcome.stderr.text();
    assert!(said.contains("Permission denied"), "{what}: {said}");
}

/// A server that accepts certificates of the fixture's authority, and no plain keys.
fn certified(client: Kind, server: Kind, extra: &str) -> Site {
    let ca = fixture::file("user_ca.pub");
    let lines = format!(
        "TrustedUserCAKeys {}\nAuthorizedKeysFile none\n{extra}",
        ca.display()
    );
    Site::new(client, server, &lines)
}

#[test]
fn every_type_of_key_and_its_certificate_lets_in() {
    each(|client, server| {
        let site = Site::new(client, server, "");
        let with_ca = certified(client, server, "");
        let user = current_user();
        for (name, _, _) in KEY_TYPES {
            let key = fixture::file(&format!("user_{name}"));
            // Plain: the file has no certificate beside it.
            let scratch = Scratch::new();
            let plain = scratch.write("key", fixture::text(&format!("user_{name}")));
            assert_in(&site.login_with("", &plain), name);
            assert_out(&with_ca.login_with("", &plain), name);
            if user == "root" {
                assert_in(
                    &with_ca.login_with("", &key),
                    &format!("{name} certificate"),
                );
            }
        }
    });
}

#[test]
fn only_accepted_algorithms_let_in() {
    each(|client, server| {
        let lines = "PubkeyAcceptedAlgorithms rsa-sha2-512,ecdsa-sha2-nistp521\n";
        let site = Site::new(client, server, lines);
        let scratch = Scratch::new();
        let key = |name: &str| scratch.write(name, fixture::text(&format!("user_{name}")));
        assert_in(&site.login_with("", &key("rsa")), "rsa-sha2-512");
        assert_in(
            &site.login_with("", &key("ecdsa521")),
            "ecdsa-sha2-nistp521",
        );
        assert_out(
            &site.login_with("", &key("ecdsa256")),
            "ecdsa-sha2-nistp256",
        );
        assert_out(&site.login_with("", &key("ed25519")), "ssh-ed25519");
        let only_256 = "PubkeyAcceptedAlgorithms rsa-sha2-256\n";
        assert_out(&site.login_with(only_256, &key("rsa")), "rsa-sha2-256");
    });
}

/// Algorithms of a Match block are announced with the answer to the first request.
#[test]
fn a_user_may_sign_by_more_algorithms_than_everybody() {
    each(|client, server| {
        // OpenSSH's client requests this since 9.6.
        if client == Kind::OpenSsh {
            return;
        }
        let lines = format!(
            "PubkeyAcceptedAlgorithms ssh-ed25519\nMatch User {}\n\
             PubkeyAcceptedAlgorithms +rsa-sha2-512\nMatch all\n",
            current_user()
        );
        let site = Site::new(client, server, &lines);
        let scratch = Scratch::new();
        let key = scratch.write("key", fixture::text("user_rsa"));
        assert_in(&site.login_with("", &key), "rsa-sha2-512");
    });
}

#[test]
fn certificates_let_in_only_as_they_say() {
    each(|client, server| {
        let site = certified(client, server, "");
        let user = current_user();
        let user = user.as_str();
        let try_with = |options: &[&str]| {
            let scratch = Scratch::new();
            let key = fixture::certificate(&scratch, "user_ed25519", options);
            site.login_with("", &key)
        };
        assert_in(&try_with(&["-n", user]), "its principal");
        assert_out(&try_with(&["-n", "somebody-else"]), "another principal");
        assert_out(&try_with(&[]), "no principals");
        assert_out(
            &try_with(&["-n", user, "-V", "20200101:20200102"]),
            "expired",
        );
        assert_out(
            &try_with(&["-n", user, "-V", "20400101:20410101"]),
            "not yet valid",
        );
        let far = ["-n", user, "-O", "source-address=192.0.2.0/24"];
        assert_out(&try_with(&far), "another address");
        let near = ["-n", user, "-O", "source-address=127.0.0.0/8"];
        assert_in(&try_with(&near), "this address");
        let unknown = ["-n", user, "-O", "critical:unheard-of@example.com=1"];
        assert_out(&try_with(&unknown), "an unknown critical option");
        assert_out(&try_with(&["-h", "-n", user]), "a host's certificate");
        let forced = try_with(&["-n", user, "-O", "force-command=echo forced"]);
        assert_eq!(forced.stdout.text(), "forced\n", "{}", forced.summary());
    });
}

#[test]
fn a_certificate_of_another_authority_lets_nobody_in() {
    each(|client, server| {
        let ca = fixture::file("host_ca.pub");
        let lines = format!(
            "TrustedUserCAKeys {}\nAuthorizedKeysFile none\n",
            ca.display()
        );
        let site = Site::new(client, server, &lines);
        assert_out(
            &site.login_with("", &fixture::file("user_ed25519")),
            "the wrong authority",
        );
    });
}

#[test]
fn a_certificate_may_be_named_by_itself() {
    each(|client, server| {
        if current_user() != "root" {
            return;
        }
        let site = certified(client, server, "");
        let scratch = Scratch::new();
        let key = scratch.write("key", fixture::text("user_ecdsa256"));
        let cert = fixture::file("user_ecdsa256-cert.pub");
        let line = format!("CertificateFile {}\n", cert.display());
        assert_in(&site.login_with(&line, &key), "CertificateFile");
    });
}

#[test]
fn principals_can_come_from_a_file() {
    each(|client, server| {
        let scratch = Scratch::new();
        let file = scratch.write("principals", format!("nobody-we-know\n{PRINCIPAL}\n"));
        let line = format!("AuthorizedPrincipalsFile {}\n", file.display());
        let site = certified(client, server, &line);
        let key = fixture::file("user_ed25519");
        assert_in(&site.login_with("", &key), "listed");
        scratch.write("principals", "root-but-not-in-the-file\n");
        assert_out(&site.login_with("", &key), "not listed");
    });
}

#[test]
fn revoked_keys_and_certificates_let_nobody_in() {
    each(|client, server| {
        let scratch = Scratch::new();
        let list = scratch.write("revoked", fixture::text("user_ed25519.pub"));
        let lines = format!("RevokedKeys {}\n", list.display());
        let site = Site::new(client, server, &lines);
        let key = |name: &str| scratch.write(name, fixture::text(&format!("user_{name}")));
        assert_out(&site.login_with("", &key("ed25519")), "in a list");
        assert_in(&site.login_with("", &key("ecdsa256")), "not in the list");
        // A KRL that names a serial number of the authority.
        if interop::process::installed("ssh-keygen").is_none() {
            return;
        }
        let user = current_user();
        let serial = |serial: &str| {
            let scratch = Scratch::new();
            let key = fixture::certificate(&scratch, "user_ed25519", &["-n", &user, "-z", serial]);
            (scratch, key)
        };
        let spec = scratch
            .write("spec", "serial: 40-42\n")
            .display()
            .to_string();
        let krl = scratch.join("krl").display().to_string();
        let ca = fixture::file("user_ca.pub").display().to_string();
        let (_kept, good) = serial("43");
        let (_kept_too, bad) = serial("41");
        let make = ["-q", "-k", "-f", &krl, "-s", &ca, &spec];
        let ours = [&["keygen"][..], &make].concat();
        for maker in ["ssh-keygen", "fulmar keygen"] {
            let _ = std::fs::remove_file(&krl);
            match maker {
                "ssh-keygen" => fixture::run_keygen(&make),
                _ => interop::process::tool(interop::peers::ours::binary(), &ours),
            }
            .expect("a KRL");
            let site = certified(client, server, &format!("RevokedKeys {krl}\n"));
            assert_in(&site.login_with("", &good), &format!("serial 43, {maker}"));
            assert_out(&site.login_with("", &bad), &format!("serial 41, {maker}"));
        }
    });
}

#[test]
fn options_of_authorized_keys_hold() {
    each(|client, server| {
        let site = Site::new(client, server, "PermitUserEnvironment yes\n");
        let authorize = |options: &str| {
            let key = fixture::text("user_ed25519.pub");
            site.running
                .daemon
                .scratch()
                .write("authorized_keys", format!("{options} {key}"));
        };
        let scratch = Scratch::new();
        let key = scratch.write("key", fixture::text("user_ed25519"));
        authorize("command=\"echo forced; echo $SSH_ORIGINAL_COMMAND\"");
        assert_eq!(site.login_with("", &key).stdout.text(), "forced\necho in\n");
        authorize("from=\"192.0.2.*,!127.0.0.1,*\"");
        assert_out(&site.login_with("", &key), "from elsewhere only");
        authorize("from=\"127.0.0.0/8\"");
        assert_in(&site.login_with("", &key), "from here");
        authorize("expiry-time=\"20200101\"");
        assert_out(&site.login_with("", &key), "expired");
        authorize("expiry-time=\"29990101\"");
        assert_in(&site.login_with("", &key), "not expired");
        authorize("environment=\"FLM=set here\",command=\"echo $FLM\"");
        assert_eq!(site.login_with("", &key).stdout.text(), "set here\n");
        authorize("unheard-of-option");
        assert_out(&site.login_with("", &key), "an unknown option");
        if !terminals(server) {
            return;
        }
        for options in ["restrict", "no-pty"] {
            authorize(options);
            let fatal = "LogLevel FATAL\n";
            let outcome = site.run_with(fatal, &["-tt", HOST, "echo in"], Input::Nothing);
            assert!(
                outcome.stderr.text().contains("PTY"),
                "{options}: {}",
                outcome.summary()
            );
            // The command is not left to run without its terminal.
            assert_eq!((outcome.status, outcome.stdout.length), (255, 0));
        }
        authorize("restrict,pty");
        let outcome = site.run_with("", &["-tt", HOST, "tty"], Input::Nothing);
        assert!(
            outcome.stdout.text().contains("/dev/pts"),
            "{}",
            outcome.summary()
        );
    });
}

#[test]
fn a_command_names_the_keys() {
    each(|client, server| {
        if current_user() != "root" {
            return;
        }
        let with = |command: &str| {
            let lines = format!(
                "AuthorizedKeysFile none\n\
                 AuthorizedKeysCommand {command}\n\
                 AuthorizedKeysCommandUser nobody\n"
            );
            Site::new(client, server, &lines)
        };
        let scratch = Scratch::new();
        let key = scratch.write("key", fixture::text("user_ed25519"));
        let site = with("/bin/cat /nonexistent");
        assert_out(&site.login_with("", &key), "a command that fails");
        // printf repeats its format for each argument: the type, the key, the rest.
        let public = fixture::text("user_ed25519.pub");
        let site = with(&format!("/usr/bin/printf %%s\\040 {public}"));
        assert_in(&site.login_with("", &key), "a command that prints the key");
    });
}

#[test]
fn an_encrypted_key_is_opened_with_the_passphrase() {
    each(|client, server| {
        let site = Site::new(client, server, "");
        let scratch = Scratch::new();
        let key = scratch.write("key", fixture::text("user_ed25519"));
        let path = key.display().to_string();
        fixture::run_keygen(&["-q", "-p", "-P", "", "-N", "open sesame", "-f", &path]).expect("-p");
        scratch.write("key.pub", fixture::text("user_ed25519.pub"));
        assert_out(&site.login_with("", &key), "BatchMode asks nobody");
        let askpass = scratch.write(
            "askpass",
            "#!/bin/sh\necho \"$1\" >>\"$0.asked\"\necho 'open sesame'\n",
        );
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(&askpass, mode).expect("an executable");
        let extra = format!("BatchMode no\n{}", identity(&key));
        let mut command = site.ssh(&extra);
        command
            .args([HOST, "echo in"])
            .env("SSH_ASKPASS", &askpass)
            .env("SSH_ASKPASS_REQUIRE", "force");
        let outcome = finish(&mut command, Input::Nothing);
        assert_in(&outcome, "with SSH_ASKPASS");
        let asked = std::fs::read_to_string(scratch.join("askpass.asked")).expect("a question");
        assert!(
            asked.contains(&path) && asked.contains("assphrase"),
            "{asked}"
        );
    });
}

#[test]
fn an_agent_signs() {
    let names = KEY_TYPES.map(|(name, _, _)| name);
    let Some(agent) = RealAgent::start(&names) else {
        return;
    };
    each(|client, server| {
        let site = Site::new(client, server, "");
        let scratch = Scratch::new();
        for (name, _, _) in KEY_TYPES {
            // The public key selects the agent's key; there is no private key file.
            let public = scratch.write("only.pub", fixture::text(&format!("user_{name}.pub")));
            assert_in(&site.login_with(&agent.line(), &public), name);
        }
        let none = Scratch::new();
        let public = none.write("only.pub", fixture::text("user_rsa.pub"));
        assert_out(&site.login_with("", &public), "without the agent");
    });
}
