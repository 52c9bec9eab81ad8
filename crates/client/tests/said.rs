//! The client's messages: levels, warnings, and the reasons why it ends.

mod support;

use std::fs;
use std::path::Path;
use std::process::Command;

use keys::CertificateKind;

use support::{Scratch, client_program, installed, key, run, stderr, stdout};

const SSHD: &str = "/usr/sbin/sshd";

/// An sshd for one connection, run by a proxy command; it accepts key 1 and certificates of key 9.
struct Site {
    scratch: Scratch,
    config: String,
}

fn site(more: &str) -> Option<Site> {
    if !installed(SSHD) {
        return None;
    }
    let _ = fs::create_dir_all("/run/sshd");
    let scratch = Scratch::new();
    let host_key = scratch.key("host", &key(100), None);
    let authorized = scratch.write(
        "authorized_keys",
        format!(
            "{}\ncert-authority {}\n",
            key(1).public().to_line(),
            key(9).public().to_line()
        ),
    );
    let config = scratch.write(
        "sshd_config",
        format!(
            "HostKey {}\nAuthorizedKeysFile {}\nPidFile none\nStrictModes no\nUsePAM no\n\
             PermitRootLogin yes\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n\
             AcceptEnv TEST_*\n{more}\n",
            host_key.display(),
            authorized.display()
        ),
    );
    scratch.write(
        "known_hosts",
        format!("h {}\n", key(100).public().to_line()),
    );
    scratch.key("identity", &key(1), None);
    let config = config.display().to_string();
    Some(Site { scratch, config })
}

impl Site {
    /// The client without the identity, with its own configuration file.
    fn bare(&self, file: &str) -> Command {
        let file = self.scratch.write("config", file);
        let mut command = offline(&file);
        command.arg("-o").arg(format!(
            "ProxyCommand={SSHD} -i -f {} -E /dev/null",
            self.config
        ));
        command.arg("-o").arg(format!(
            "UserKnownHostsFile={}",
            self.scratch.path("known_hosts").display()
        ));
        command
    }

    fn ssh(&self, file: &str) -> Command {
        let mut command = self.bare(file);
        command.arg("-i").arg(self.scratch.path("identity"));
        command
    }
}

/// The client with this configuration file and nobody to ask.
fn offline(file: &Path) -> Command {
    let mut command = Command::new(client_program());
    command.arg("-F").arg(file);
    command.args([
        "-o",
        "IdentityAgent=none",
        "-o",
        "GlobalKnownHostsFile=none",
    ]);
    command.args(["-o", "LoginCache=no"]);
    command.env_remove("SSH_AUTH_SOCK").env_remove("DISPLAY");
    command.stdin(std::process::Stdio::null());
    command
}

#[test]
fn quiet_in_a_file_and_by_o_is_as_quiet_as_q() {
    let scratch = Scratch::new();
    let loud = scratch.write("loud", "ProxyCommand false\n");
    let quiet = scratch.write("quiet", "LogLevel QUIET\nProxyCommand false\n");
    let said = |file: &Path, more: &[&str]| {
        let output = run(offline(file).args(more).arg("h"));
        assert_eq!(output.status.code(), Some(255));
        stderr(&output)
    };
    assert!(!said(&loud, &[]).is_empty());
    assert_eq!(said(&quiet, &[]), "");
    for more in [
        &["-q"][..],
        &["-o", "LogLevel=QUIET"],
        &["-o", "loglevel=silent"],
    ] {
        assert_eq!(said(&loud, more), "", "{more:?}");
    }
}

#[test]
fn places_that_log_verbose_names_are_logged_at_any_level() {
    let Some(site) = site("") else { return };
    for lines in ["", "LogVerbose none\n", "LogVerbose kex.c:*:1\n"] {
        let output = run(site.ssh(lines).args(["h", "echo in"]));
        let both = (stdout(&output), stderr(&output));
        assert_eq!(both, ("in\n".to_owned(), String::new()), "{lines}");
    }
    let lines = "LogLevel QUIET\nLogVerbose kex.c:*:1 client/auth/*:*\n";
    let output = run(site.ssh(lines).args(["h", "echo in"]));
    assert_eq!(stdout(&output), "in\n");
    let said = stderr(&output);
    assert!(!said.is_empty());
    for line in said.lines() {
        // Lines of the levels down to INFO have no level in front.
        let place = match line.split_once(": ") {
            Some((level, place)) if level.starts_with("debug") => place,
            _ => line,
        };
        assert!(place.starts_with("client/auth/"), "{said}");
        assert!(place.contains(" (pid="), "{said}");
    }
}

#[test]
fn flags_of_later_versions_say_so() {
    let Some(site) = site("") else { return };
    for (flag, said) in [("-K", ""), ("-g", "")] {
        let output = run(site.ssh("").args([flag, "h", "echo in"]));
        assert_eq!(
            (stdout(&output).as_str(), stderr(&output).as_str()),
            ("in\n", said)
        );
    }
}

#[test]
fn names_that_are_not_known_are_passed_over() {
    let Some(site) = site("") else { return };
    let file = "KexAlgorithms new-kex,curve25519-sha256\nCiphers aes256-ctr,new-cipher\n\
                HostKeyAlgorithms ssh-new,ssh-ed25519\nPreferredAuthentications new,publickey\n\
                WarnWeakCrypto no\n";
    let output = run(site.ssh(file).args(["h", "echo in"]));
    assert_eq!(
        (stdout(&output).as_str(), stderr(&output).as_str()),
        ("in\n", "")
    );
    let output = run(site.ssh(file).args(["-v", "h", "echo in"]));
    for name in ["new-kex", "new-cipher", "ssh-new", "new"] {
        let said = format!(": {name} not known to this version; ignored");
        assert!(
            stderr(&output).contains(&said),
            "{name}: {}",
            stderr(&output)
        );
    }
    let output = run(site.ssh("KexAlgorithms new-kex\n").args(["h", "echo in"]));
    assert_eq!(output.status.code(), Some(255));
    assert!(stderr(&output).contains("Bad SSH2 KexAlgorithms 'new-kex'."));
}

#[test]
fn methods_that_are_not_known_leave_none_to_log_in_with() {
    let Some(site) = site("") else { return };
    let output = run(site
        .ssh("PreferredAuthentications new\n")
        .args(["h", "echo in"]));
    assert_eq!(output.status.code(), Some(255));
    assert!(
        stderr(&output).ends_with("Permission denied (publickey).\n"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn a_key_exchange_that_is_not_post_quantum_is_warned_of_in_openssh_s_words() {
    let Some(site) = site("KexAlgorithms curve25519-sha256") else {
        return;
    };
    let said = |file: &str, more: &[&str]| {
        let output = run(site.ssh(file).args(more).args(["h", "echo in"]));
        assert_eq!(stdout(&output), "in\n", "{}", stderr(&output));
        stderr(&output)
    };
    assert_eq!(
        said("", &[]),
        "** WARNING: connection is not using a post-quantum key exchange algorithm.\n\
         ** This session may be vulnerable to \"store now, decrypt later\" attacks.\n\
         ** The server may need to be upgraded. See https://openssh.com/pq.html\n"
    );
    assert_eq!(said("WarnWeakCrypto no\n", &[]), "");
    assert_eq!(said("", &["-o", "WarnWeakCrypto=no-pq-kex"]), "");
    assert_eq!(said("LogLevel ERROR\n", &[]), "");
    // Who chooses the methods knows of them.
    for list in [
        "curve25519-sha256",
        "+diffie-hellman-group14-sha1",
        "^curve25519-sha256",
    ] {
        assert_eq!(said(&format!("KexAlgorithms {list}\n"), &[]), "", "{list}");
    }
}

#[test]
fn a_post_quantum_key_exchange_is_not_warned_of() {
    let Some(site) = site("") else { return };
    let output = run(site.ssh("").args(["h", "echo in"]));
    assert_eq!(
        (stdout(&output).as_str(), stderr(&output).as_str()),
        ("in\n", "")
    );
}

#[test]
fn an_unknown_host_without_a_terminal_says_what_is_missing() {
    let Some(site) = site("") else { return };
    let said = |file: &str| {
        let mut command = site.ssh(file);
        command.env("SSH_ASKPASS_REQUIRE", "never");
        command.args(["-o", "HostKeyAlias=nobody", "h", "echo in"]);
        // A session of its own has no terminal.
        let mut command = in_own_session(command);
        let output = run(&mut command);
        assert_eq!(
            (output.status.code(), stdout(&output)),
            (Some(255), String::new())
        );
        stderr(&output)
    };
    assert_eq!(
        said(""),
        "No ED25519 host key is known for nobody, and there is no terminal to ask on: connect once \
         by hand, or set StrictHostKeyChecking=accept-new.\nHost key verification failed.\n"
    );
    assert!(said("BatchMode yes\n").contains(", and BatchMode forbids questions: "));
    assert_eq!(
        said("StrictHostKeyChecking yes\n"),
        "No ED25519 host key is known for nobody and you have requested strict checking.\n\
         Host key verification failed.\n"
    );
}

fn in_own_session(command: Command) -> Command {
    let mut wrapped = Command::new("setsid");
    wrapped
        .arg("-w")
        .arg(command.get_program())
        .args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => wrapped.env(name, value),
            None => wrapped.env_remove(name),
        };
    }
    wrapped.stdin(std::process::Stdio::null());
    wrapped
}

#[test]
fn the_type_of_the_terminal_is_what_setenv_says() {
    let Some(site) = site("") else { return };
    for (file, term) in [
        ("", "mine"),
        ("SetEnv TEST_A=1 TERM=other\n", "other"),
        ("SetEnv TERM=\n", "mine"),
    ] {
        let mut command = site.ssh(file);
        command.env("TERM", "mine");
        let output = run(command.args(["-tt", "h", "echo term $TERM $TEST_A"]));
        let text = stdout(&output);
        assert!(text.starts_with(&format!("term {term}")), "{file}: {text}");
    }
}

fn certificate(site: &Site, name: &str) -> std::path::PathBuf {
    let user = stdout(&run(Command::new("id").arg("-un")));
    let line = support::certificate(&key(50), CertificateKind::User, user.trim());
    site.scratch.write(name, line)
}

#[test]
fn a_certificate_may_be_named_where_a_key_is() {
    let Some(site) = site("") else { return };
    let certificate = certificate(&site, "signed.pub");
    let lone = site.scratch.key("lone", &key(50), None);
    // As Vault has it.
    let output = run(site
        .bare("")
        .arg("-i")
        .arg(&certificate)
        .arg("-i")
        .arg(&lone)
        .args(["h", "echo in"]));
    assert_eq!(
        (stdout(&output).as_str(), stderr(&output).as_str()),
        ("in\n", "")
    );
    let file = format!(
        "IdentityFile {}\nIdentityFile {}\n",
        lone.display(),
        certificate.display()
    );
    let output = run(site.bare(&file).args(["h", "echo in"]));
    assert_eq!(
        (stdout(&output).as_str(), stderr(&output).as_str()),
        ("in\n", "")
    );
    // Without its key there is nobody to sign.
    let output = run(site
        .bare("")
        .arg("-i")
        .arg(&certificate)
        .args(["h", "echo in"]));
    assert_eq!(output.status.code(), Some(255));
    assert!(
        stderr(&output)
            .contains("signed.pub\": it is a certificate, and its private key is neither"),
        "{}",
        stderr(&output)
    );
}

/// As in OpenSSH 10.6; 9.2 ends the connection.
#[test]
fn a_host_certificate_of_an_algorithm_off_the_list_leaves_the_plain_key() {
    let scratch = Scratch::new();
    let line = support::certificate(&key(100), CertificateKind::Host, "h");
    let path = scratch.write("host-cert.pub", line);
    let Some(site) = site(&format!("HostCertificate {}", path.display())) else {
        return;
    };
    let authority = format!("@cert-authority h {}\n", key(9).public().to_line());
    let plain = format!("h {}\n", key(100).public().to_line());
    let other = format!("h {}\n", key(8).public().to_line());
    let revoked = format!("@revoked h {}\n{plain}", key(100).public().to_line());
    let login = |known: &[&str], more: &str| {
        site.scratch.write("known_hosts", known.concat());
        let output = run(site.ssh(more).args(["h", "echo in"]));
        (stdout(&output), stderr(&output))
    };
    let fine = ("in\n".to_owned(), String::new());
    assert_eq!(login(&[&authority], ""), fine);
    let off = "CASignatureAlgorithms rsa-sha2-512\n";
    let reason = "signed with an algorithm that CASignatureAlgorithms does not permit";
    for (known, is_in) in [
        ([authority.as_str(), &plain], true),
        ([&authority, ""], false),
        ([&authority, &other], false),
        ([&authority, &revoked], false),
    ] {
        let (out, said) = login(&known, off);
        assert_eq!(out == "in\n", is_in, "{known:?} {said}");
        assert!(said.contains(reason), "{said}");
    }
    // Who permits certificates only does not get less.
    let only = format!("{off}HostKeyAlgorithms ssh-ed25519-cert-v01@openssh.com\n");
    let (out, said) = login(&[&authority, &plain], &only);
    assert_eq!(out, "");
    assert!(
        said.contains("certificate is signed with an algorithm that is not permitted"),
        "{said}"
    );
}

#[test]
fn a_command_that_no_packet_takes_is_refused_before_the_login() {
    let scratch = Scratch::new();
    let file = scratch.write("config", "ProxyCommand echo started >&2\n");
    // A program's argument may have 128 KiB.
    let word = "a".repeat(131_000);
    let output = run(offline(&file).args(["h", "true", &word, &word]));
    assert_eq!(output.status.code(), Some(255));
    assert_eq!(
        stderr(&output),
        "The command has 262006 bytes, and SSH carries at most 261120 in one. Send it by standard \
         input instead: ssh host sh < file\n"
    );
}

#[test]
fn a_server_with_too_many_host_keys_is_told_and_served() {
    let scratch = Scratch::new();
    let lines: Vec<String> = (101..=170)
        .map(|seed| {
            let path = scratch.key(&format!("host{seed}"), &key(seed), None);
            format!("HostKey {}\n", path.display())
        })
        .collect();
    let Some(site) = site(&lines.concat()) else {
        return;
    };
    let before = fs::read(site.scratch.path("known_hosts")).unwrap();
    let login = |file: &str| {
        let output = run(site.ssh(file).args(["h", "echo in"]));
        (stdout(&output), stderr(&output))
    };
    let said =
        "Warning: the server announced too many host keys; all are ignored (UpdateHostKeys)\n";
    let (out, err) = login("UpdateHostKeys yes\n");
    assert_eq!((out.as_str(), err.as_str()), ("in\n", said));
    let (out, err) = login("UpdateHostKeys no\n");
    assert_eq!((out.as_str(), err.as_str()), ("in\n", ""));
    assert_eq!(fs::read(site.scratch.path("known_hosts")).unwrap(), before);
}
