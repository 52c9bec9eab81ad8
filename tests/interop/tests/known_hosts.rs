//! The client's check of host keys.

use std::fs;

use interop::fixture::{self, KEY_TYPES};
use interop::peers::ours::Kind;
use interop::process::{Input, Outcome};
use interop::site::{HOST, Site, each};

/// Writes the site's known_hosts.
fn know(site: &Site, text: &str) {
    fs::write(&site.running.known_hosts, text).expect("known_hosts");
}

fn known(site: &Site) -> String {
    fs::read_to_string(&site.running.known_hosts).expect("known_hosts")
}

fn host(site: &Site) -> String {
    format!("[127.0.0.1]:{}", site.running.daemon.port)
}

fn login(site: &Site, extra: &str) -> Outcome {
    site.run_with(extra, &[HOST, "echo in"], Input::Nothing)
}

fn assert_out(outcome: &Outcome, what: &str) -> String {
    assert_eq!(outcome.stdout.length, 0, "{what}: {}", outcome.summary());
    assert_eq!(outcome.status, 255, "{what}");
    outcome.stderr.text()
}

const PLAIN: &str = "HostKeyAlgorithms -*cert*\n";

#[test]
fn a_key_of_any_type_is_enough() {
    each(|client, server| {
        let site = Site::new(client, server, "");
        for (name, _, _) in KEY_TYPES {
            // The client must request the type that it knows.
            know(
                &site,
                &format!(
                    "{} {}",
                    host(&site),
                    fixture::text(&format!("host_{name}.pub"))
                ),
            );
            login(&site, "").assert_in(name);
        }
    });
}

#[test]
fn an_rsa_key_smaller_than_required_is_refused_and_not_offered() {
    const RSA: &str = "HostKeyAlgorithms rsa-sha2-512,rsa-sha2-256\n";
    const LARGER: &str = "RequiredRSASize 8192\n";
    each(|client, server| {
        let site = Site::new(client, server, "");
        let key = fixture::text("host_rsa.pub");
        know(&site, &format!("{} {key}", host(&site)));
        login(&site, RSA).assert_in("by default");
        let said = assert_out(&login(&site, &format!("{RSA}{LARGER}")), "client");
        assert!(
            said.contains("Bad server host key: Invalid key length"),
            "{said}"
        );
        let site = Site::new(client, server, LARGER);
        let said = assert_out(&login(&site, &format!("{RSA}LogLevel INFO\n")), "server");
        assert!(said.contains("no matching host key type"), "{said}");
        login(&site, "").assert_in("with another key");
    });
}

#[test]
fn an_unknown_host_is_refused_or_learnt() {
    each(|client, server| {
        let site = Site::new(client, server, "");
        know(&site, "");
        let said = assert_out(&login(&site, PLAIN), "yes");
        assert!(
            said.contains("erification failed") || said.contains("not known"),
            "{said}"
        );
        assert_eq!(known(&site), "", "it was learnt all the same");
        let extra = format!("{PLAIN}StrictHostKeyChecking accept-new\n");
        login(&site, &extra).assert_in("accept-new");
        assert!(known(&site).starts_with(&host(&site)), "{}", known(&site));
        login(&site, PLAIN).assert_in("now it is known");
        know(&site, "");
        let extra = format!("{PLAIN}StrictHostKeyChecking no\nHashKnownHosts yes\n");
        login(&site, &extra).assert_in("no");
        assert!(known(&site).starts_with("|1|"), "{}", known(&site));
        login(&site, PLAIN).assert_in("its hashed name is known");
    });
}

#[test]
fn a_changed_key_is_refused_and_said_loudly() {
    each(|client, server| {
        let site = Site::new(client, server, "");
        // The user's key instead of the host's.
        know(
            &site,
            &format!("{} {}", host(&site), fixture::text("user_ed25519.pub")),
        );
        let said = assert_out(&login(&site, PLAIN), "changed");
        assert!(
            said.contains("REMOTE HOST IDENTIFICATION HAS CHANGED"),
            "{said}"
        );
        assert!(
            said.contains(&site.running.known_hosts.display().to_string()),
            "{said}"
        );
        let extra = format!("{PLAIN}StrictHostKeyChecking accept-new\n");
        assert_out(&login(&site, &extra), "accept-new takes no changed key");
    });
}

/// The window of the askpass program shows all that the user must know: standard error may lead nowhere.
#[test]
fn the_askpass_program_gets_the_whole_question_about_a_new_key() {
    each(|client, server| {
        let site = Site::new(client, server, "");
        know(&site, "");
        let scratch = site.running.daemon.scratch();
        let script = "#!/bin/sh\nprintf %s \"$1\" > \"$0.asked\"\necho yes\n";
        let askpass = scratch.write("askpass", script);
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        fs::set_permissions(&askpass, mode).expect("an executable");
        let extra = format!("{PLAIN}StrictHostKeyChecking ask\nBatchMode no\n");
        let mut command = site.ssh(&extra);
        command
            .args([HOST, "echo in"])
            .env("SSH_ASKPASS", &askpass)
            .env("SSH_ASKPASS_REQUIRE", "force");
        let outcome = interop::site::finish(&mut command, Input::Nothing);
        outcome.assert_in("askpass");
        let asked = fs::read_to_string(scratch.join("askpass.asked")).expect("a question");
        let begins = format!("The authenticity of host '{}", host(&site));
        assert!(asked.starts_with(&begins), "{asked}");
        assert!(asked.contains("key fingerprint is"), "{asked}");
        assert!(asked.ends_with("(yes/no/[fingerprint])? "), "{asked}");
        assert!(!outcome.stderr.text().contains("authenticity"));
    });
}

#[test]
fn a_changed_key_without_checking_gets_no_password() {
    each(|client, server| {
        let site = Site::new(client, server, "PasswordAuthentication yes\n");
        know(
            &site,
            &format!("{} {}", host(&site), fixture::text("user_ed25519.pub")),
        );
        let extra =
            format!("{PLAIN}StrictHostKeyChecking no\nPubkeyAuthentication no\nBatchMode no\n");
        let scratch = site.running.daemon.scratch();
        let askpass = scratch.write("askpass", "#!/bin/sh\ntouch \"$0.asked\"\necho secret\n");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        fs::set_permissions(&askpass, mode).expect("an executable");
        let mut command = site.ssh(&extra);
        command
            .args([HOST, "echo in"])
            .env("SSH_ASKPASS", &askpass)
            .env("SSH_ASKPASS_REQUIRE", "force");
        let outcome = interop::site::finish(&mut command, Input::Nothing);
        assert_out(&outcome, "a password");
        assert!(
            !scratch.join("askpass.asked").exists(),
            "a password was asked for"
        );
        // Nor are this machine's networks open to it.
        let extra =
            format!("{PLAIN}StrictHostKeyChecking no\nRemoteForward 127.0.0.1:0 127.0.0.1:9\n");
        let outcome = login(&site, &extra);
        outcome.assert_in("a session");
        let said = outcome.stderr.text();
        let refusal = "Port forwarding is disabled to avoid man-in-the-middle attacks.";
        assert!(
            said.contains(refusal) && !said.contains("Allocated port"),
            "{said}"
        );
        let outcome = login(&site, &format!("{extra}ExitOnForwardFailure yes\n"));
        assert_out(&outcome, "a forwarding that must not fail");
    });
}

#[test]
fn a_master_of_a_changed_host_gives_its_passengers_sessions_only() {
    let site = Site::new(Kind::Fulmar, Kind::Fulmar, "");
    let other = fixture::text("user_ed25519.pub");
    know(&site, &format!("{} {other}", host(&site)));
    let path = site.running.daemon.scratch().join("master");
    let master = "StrictHostKeyChecking no\nControlMaster auto\nControlPersist yes\n";
    let extra = format!("{PLAIN}{master}ControlPath {}\n", path.display());
    login(&site, &extra).assert_in("the master");
    let passenger = login(&site, &extra);
    passenger.assert_in("a passenger");
    assert_eq!(passenger.stderr.text(), "");
    let ask = |arguments: &[&str]| {
        let arguments = [arguments, &[HOST]].concat();
        site.run_with(&extra, &arguments, Input::Nothing)
    };
    for arguments in [
        &["-O", "forward", "-R", "127.0.0.1:0:127.0.0.1:9"][..],
        &["-O", "forward", "-D", "127.0.0.1:1"],
        &["-W", "127.0.0.1:9"],
        &["-O", "proxy"],
    ] {
        let outcome = ask(arguments);
        let said = outcome.stderr.text();
        assert_eq!(outcome.status, 255, "{arguments:?}: {said}");
        assert!(
            said.contains("nothing is forwarded"),
            "{arguments:?}: {said}"
        );
    }
    assert_eq!(ask(&["-O", "exit"]).status, 0);
}

#[test]
fn the_name_without_the_port_counts_if_the_port_has_no_key() {
    each(|client, server| {
        let site = Site::new(client, server, "");
        let key = fixture::text("host_ed25519.pub");
        let other = fixture::text("user_ed25519.pub");
        let plain = format!("127.0.0.1 {key}");
        know(&site, &plain);
        for checking in ["yes", "accept-new"] {
            let extra = format!("{PLAIN}StrictHostKeyChecking {checking}\n");
            login(&site, &extra).assert_in(checking);
            assert_eq!(known(&site), plain, "{checking}");
        }
        know(
            &site,
            &format!("@cert-authority 127.0.0.1 {}", fixture::text("host_ca.pub")),
        );
        login(&site, "").assert_in("an authority");
        // That of another server of the machine; this one is new.
        know(&site, &format!("127.0.0.1 {other}"));
        let said = assert_out(&login(&site, PLAIN), "another key");
        assert!(!said.contains("HAS CHANGED"), "{said}");
    });
}

#[test]
fn a_failing_known_hosts_command_ends_the_login() {
    each(|client, server| {
        let site = Site::new(client, server, "");
        login(&site, "KnownHostsCommand /bin/true\n").assert_in("no further keys");
        let said = assert_out(&login(&site, "KnownHostsCommand /bin/false\n"), "a failure");
        assert!(said.contains("KnownHostsCommand failed"), "{said}");
    });
}

#[test]
fn hashed_names_and_patterns_are_found() {
    each(|client, server| {
        let site = Site::new(client, server, "");
        let key = fixture::text("host_ed25519.pub");
        know(&site, &format!("{} {key}", host(&site)));
        let file = site.running.known_hosts.display().to_string();
        fixture::run_keygen(&["-q", "-H", "-f", &file]).expect("-H");
        assert!(known(&site).starts_with("|1|"), "{}", known(&site));
        login(&site, "").assert_in("hashed");
        know(&site, &format!("other,[127.0.0.*]:* {key}"));
        login(&site, "").assert_in("a pattern");
        know(&site, &format!("[127.0.0.*]:*,!{} {key}", host(&site)));
        assert_out(&login(&site, ""), "a negated name");
    });
}

#[test]
fn a_revoked_key_is_never_taken() {
    each(|client, server| {
        let site = Site::new(client, server, "");
        let key = fixture::text("host_ed25519.pub");
        know(&site, &format!("{0} {key}@revoked * {key}", host(&site)));
        for checking in ["yes", "accept-new"] {
            let extra =
                format!("HostKeyAlgorithms ssh-ed25519\nStrictHostKeyChecking {checking}\n");
            let said = assert_out(&login(&site, &extra), checking);
            assert!(said.to_lowercase().contains("revoked"), "{said}");
        }
        // An authority too.
        let ca = fixture::text("host_ca.pub");
        know(&site, &format!("@cert-authority * {ca}@revoked * {ca}"));
        assert_out(&login(&site, ""), "a revoked authority");
    });
}

#[test]
fn an_authority_vouches_for_its_hosts() {
    each(|client, server| {
        let site = Site::new(client, server, "");
        let ca = fixture::text("host_ca.pub");
        know(&site, &format!("@cert-authority {} {ca}", host(&site)));
        login(&site, "").assert_in("by its name");
        know(&site, &format!("@cert-authority * {ca}"));
        for kind in ["ssh-ed25519", "ecdsa-sha2-nistp384", "rsa-sha2-512"] {
            let extra = format!("HostKeyAlgorithms {kind}-cert-v01@openssh.com\n");
            login(&site, &extra).assert_in(kind);
        }
        know(&site, &format!("@cert-authority *.example.com {ca}"));
        assert_out(&login(&site, ""), "an authority for others");
        know(
            &site,
            &format!("@cert-authority * {}", fixture::text("user_ca.pub")),
        );
        assert_out(&login(&site, ""), "another authority");
    });
}

#[test]
fn a_certificate_for_another_name_is_not_enough() {
    each(|client, server| {
        let site = Site::new(client, server, "");
        let ca = fixture::text("host_ca.pub");
        know(&site, &format!("@cert-authority * {ca}"));
        login(&site, "HostKeyAlias target\n").assert_in("a name in the certificate");
        assert_out(
            &login(&site, "HostKeyAlias elsewhere\n"),
            "a name not in it",
        );
        // The plain key decides then.
        let plain = |name: &str| -> String {
            let keys = ["host_ed25519.pub", "host_ecdsa384.pub", "host_rsa.pub"];
            let lines = keys.map(|key| format!("{name} {}", fixture::text(key)));
            lines.concat()
        };
        know(
            &site,
            &format!("@cert-authority * {ca}{}", plain("elsewhere")),
        );
        login(&site, "HostKeyAlias elsewhere\n").assert_in("a name with a plain key");
        assert_out(&login(&site, "HostKeyAlias other\n"), "a name without");
    });
}

#[test]
fn several_files_are_looked_into() {
    each(|client, server| {
        let site = Site::new(client, server, "");
        let second = site.running.daemon.scratch().write("second", known(&site));
        know(&site, "# nothing\n\n");
        let extra = format!(
            "UserKnownHostsFile /nonexistent {} {}\n",
            site.running.known_hosts.display(),
            second.display()
        );
        login(&site, &extra).assert_in("the third file");
    });
}

#[test]
fn new_keys_of_a_known_host_are_learnt() {
    each(|client, server| {
        let site = Site::new(client, server, "");
        know(
            &site,
            &format!("{} {}", host(&site), fixture::text("host_ed25519.pub")),
        );
        let extra = format!("UpdateHostKeys yes\n{PLAIN}");
        let outcome = site.run_with(&extra, &[HOST, "echo in"], Input::Nothing);
        outcome.assert_in("UpdateHostKeys");
        let rsa = fixture::text("host_rsa.pub");
        let rsa = rsa.split_ascii_whitespace().nth(1).expect("a key");
        assert!(known(&site).contains(rsa), "{}", known(&site));
        know(
            &site,
            &format!("{} {}", host(&site), fixture::text("host_ed25519.pub")),
        );
        login(&site, "HostKeyAlgorithms ssh-ed25519\n").assert_in("UpdateHostKeys no");
        assert!(!known(&site).contains(rsa));
    });
}
