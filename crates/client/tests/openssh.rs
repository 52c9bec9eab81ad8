//! Against OpenSSH's sshd: methods, keys, channels, exit codes, jumps, rotation of host keys.
//!
//! The server runs as the user who runs the tests, on a loopback port of its own.

mod support;

use std::fs;
use std::process::Stdio;

use keys::{CertificateKind, EcCurve, KeySpec, PrivateKey};

use support::{Scratch, Server, asking, installed, key, run, run_with_input, ssh, stderr, stdout};

const SSHD: &str = "/usr/sbin/sshd";

/// A server that accepts the keys `1` to `4` of [`support::key`] and certificates of key 9.
struct Sshd {
    server: Server,
    scratch: Scratch,
}

fn sshd(more: &str) -> Option<Sshd> {
    sshd_logging(more, None)
}

/// As [`server`], with its log appended to a file.
fn sshd_logging(more: &str, log: Option<&std::path::Path>) -> Option<Sshd> {
    if !installed(SSHD) {
        return None;
    }
    // Debian's sshd needs its empty directory, which only its service creates.
    let _ = fs::create_dir_all("/run/sshd");
    let scratch = Scratch::new();
    let host_key = scratch.key("host", &key(100), None);
    let lines: Vec<String> = (1..=4).map(|seed| key(seed).public().to_line()).collect();
    let authority = format!("cert-authority {}", key(9).public().to_line());
    let authorized = scratch.write(
        "authorized_keys",
        format!("{}\n{authority}\n", lines.join("\n")),
    );
    let server = Server::start(SSHD, |port| {
        let text = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\n\
             StrictModes no\nUsePAM no\nPermitRootLogin yes\nPasswordAuthentication no\n\
             KbdInteractiveAuthentication no\nAcceptEnv TEST_*\nMaxStartups 100\n{more}\n",
            host_key.display(),
            authorized.display()
        );
        let config = scratch.write("sshd_config", text);
        let mut arguments = vec!["-D".into(), "-f".into(), config.into_os_string()];
        if let Some(log) = log {
            arguments.extend(["-E".into(), log.as_os_str().to_owned()]);
        }
        arguments
    });
    Some(Sshd { server, scratch })
}

impl Sshd {
    fn ssh(&self, identity: &PrivateKey) -> std::process::Command {
        let path = self.scratch.key("identity", identity, None);
        let mut command = ssh(&self.scratch, self.server.port);
        command.arg("-i").arg(path);
        command
    }
}

#[test]
fn a_command_gives_its_output_errors_and_exit_code() {
    let Some(sshd) = sshd("") else { return };
    let output = run(sshd
        .ssh(&key(1))
        .args(["127.0.0.1", "echo out; echo err >&2; exit 7"]));
    assert_eq!(output.status.code(), Some(7), "{}", stderr(&output));
    assert_eq!(stdout(&output), "out\n");
    assert!(stderr(&output).ends_with("err\n"));
}

#[test]
fn bytes_pass_both_ways_unchanged() {
    let Some(sshd) = sshd("") else { return };
    let mut state = 1_u32;
    let bytes: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    })
    .take(8 << 20)
    .collect();
    for more in [&[][..], &["-C"][..], &["-o", "RekeyLimit=1M"][..]] {
        let output = run_with_input(
            sshd.ssh(&key(1)).args(more).args(["127.0.0.1", "cat"]),
            &bytes,
        );
        assert!(output.status.success(), "{}", stderr(&output));
        assert!(output.stdout == bytes, "{more:?}");
    }
}

#[test]
fn every_type_of_key_logs_in() {
    let Some(sshd) = sshd("") else { return };
    let specs = [
        KeySpec::Ed25519,
        KeySpec::Ecdsa(EcCurve::P256),
        KeySpec::Ecdsa(EcCurve::P384),
        KeySpec::Ecdsa(EcCurve::P521),
        KeySpec::Rsa { bits: 2048 },
    ];
    for spec in specs {
        let identity = PrivateKey::generate(spec).unwrap();
        sshd.scratch.write(
            "authorized_keys",
            format!("{}\n", identity.public().to_line()),
        );
        let output = run(sshd.ssh(&identity).args(["127.0.0.1", "echo in"]));
        assert_eq!(stdout(&output), "in\n", "{spec:?}: {}", stderr(&output));
    }
}

#[test]
fn signatures_are_bound_to_the_host_key_unless_that_is_not_wanted() {
    let scratch = Scratch::new();
    let log = scratch.path("log");
    let Some(sshd) = sshd_logging("LogLevel DEBUG1", Some(&log)) else {
        return;
    };
    for (value, bound) in [("yes", true), ("host-bound", true), ("unbound", false)] {
        fs::write(&log, "").unwrap();
        let option = format!("PubkeyAuthentication={value}");
        let output = run(sshd
            .ssh(&key(1))
            .args(["-o", &option, "127.0.0.1", "echo in"]));
        assert_eq!(stdout(&output), "in\n", "{value}: {}", stderr(&output));
        let said = fs::read_to_string(&log).unwrap();
        assert!(said.contains("method publickey"), "{said}");
        let hostbound = said.contains("method publickey-hostbound-v00@openssh.com");
        assert_eq!(hostbound, bound, "{value}: {said}");
    }
}

#[test]
fn a_certificate_beside_its_key_logs_in() {
    let Some(sshd) = sshd("") else { return };
    let user = String::from_utf8(run(std::process::Command::new("id").arg("-un")).stdout).unwrap();
    let mut command = sshd.ssh(&key(50));
    let line = support::certificate(&key(50), CertificateKind::User, user.trim());
    sshd.scratch.write("identity-cert.pub", line);
    let output = run(command.args(["127.0.0.1", "echo in"]));
    assert_eq!(stdout(&output), "in\n", "{}", stderr(&output));
}

#[test]
fn a_locked_key_asks_for_its_passphrase_only_when_the_server_wants_it() {
    let Some(sshd) = sshd("") else { return };
    let askpass = sshd.scratch.askpass("wrong\nright\n");
    for (seed, code) in [(77, 255), (1, 0)] {
        let path = sshd.scratch.key("locked", &key(seed), Some("right"));
        let mut command = ssh(&sshd.scratch, sshd.server.port);
        command.arg("-i").arg(&path).args(["127.0.0.1", "true"]);
        let output = run(asking(&mut command, &askpass));
        assert_eq!(output.status.code(), Some(code), "{}", stderr(&output));
    }
    let prompts = sshd.scratch.prompts();
    assert_eq!(
        prompts.matches("Enter passphrase for key '").count(),
        2,
        "{prompts}"
    );
}

#[test]
fn a_refused_login_names_the_methods_left() {
    let Some(sshd) = sshd("") else { return };
    let output = run(sshd.ssh(&key(77)).args(["127.0.0.1", "true"]));
    assert_eq!(output.status.code(), Some(255));
    let said = stderr(&output);
    assert!(
        said.trim_end()
            .ends_with("@127.0.0.1: Permission denied (publickey)."),
        "{said}"
    );
}

/// ssh-copy-id reads the software's name; other programs look for the key and the end of the login.
#[test]
fn verbose_messages_have_the_words_that_programs_look_for() {
    let Some(sshd) = sshd("") else { return };
    let output = run(sshd.ssh(&key(1)).args(["-v", "127.0.0.1", "true"]));
    let said = stderr(&output);
    let port = sshd.server.port;
    for words in [
        "debug1: Remote protocol version 2.0, remote software version OpenSSH_",
        " ED25519 SHA256:",
        &format!("Authenticated to 127.0.0.1 ([127.0.0.1]:{port}) using \"publickey\"."),
    ] {
        assert!(said.contains(words), "{words:?}: {said}");
    }
}

#[test]
fn too_many_keys_end_with_the_servers_words() {
    let Some(sshd) = sshd("MaxAuthTries 2") else {
        return;
    };
    let mut command = ssh(&sshd.scratch, sshd.server.port);
    for seed in 60..66 {
        let path = sshd.scratch.key(&format!("k{seed}"), &key(seed), None);
        command.arg("-i").arg(path);
    }
    let output = run(command.args(["127.0.0.1", "true"]));
    assert_eq!(output.status.code(), Some(255));
    assert!(
        stderr(&output).contains("Too many authentication failures"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn a_changed_host_key_is_refused_and_the_way_out_is_named() {
    let Some(sshd) = sshd("") else { return };
    let name = format!("[127.0.0.1]:{}", sshd.server.port);
    sshd.scratch.write(
        "known_hosts",
        format!("{name} {}\n", key(77).public().to_line()),
    );
    let output = run(sshd.ssh(&key(1)).args(["127.0.0.1", "true"]));
    assert_eq!(output.status.code(), Some(255));
    let said = stderr(&output);
    assert!(
        said.contains("HAS CHANGED") && said.contains(&format!("-R '{name}'")),
        "{said}"
    );
    assert!(said.trim_end().ends_with("Host key verification failed."));
}

#[test]
fn a_hosts_other_keys_are_learned_and_lost_ones_forgotten() {
    let Some(sshd) = sshd("") else { return };
    // Record the first key by hand, as after the answer yes; then the server gets a second one.
    let name = format!("[127.0.0.1]:{}", sshd.server.port);
    let lost = PrivateKey::generate(KeySpec::Ecdsa(EcCurve::P256)).unwrap();
    let text = format!(
        "{name} {}\n{name} {}\n",
        key(100).public().to_line(),
        lost.public().to_line()
    );
    sshd.scratch.write("known_hosts", text);
    let output = run(sshd
        .ssh(&key(1))
        .args([
            "-o",
            "UpdateHostKeys=yes",
            "-o",
            "HostKeyAlgorithms=ssh-ed25519,ecdsa-sha2-nistp256",
        ])
        .args(["127.0.0.1", "true"]));
    assert!(output.status.success(), "{}", stderr(&output));
    let now = fs::read_to_string(sshd.scratch.path("known_hosts")).unwrap();
    assert_eq!(now, format!("{name} {}\n", key(100).public().to_line()));
}

#[test]
fn a_hosts_new_key_is_learned_when_it_is_proven() {
    let scratch = Scratch::new();
    let second = PrivateKey::generate(KeySpec::Ecdsa(EcCurve::P256)).unwrap();
    let path = scratch.key("second", &second, None);
    let Some(sshd) = sshd(&format!("HostKey {}", path.display())) else {
        return;
    };
    let name = format!("[127.0.0.1]:{}", sshd.server.port);
    sshd.scratch.write(
        "known_hosts",
        format!("{name} {}\n", key(100).public().to_line()),
    );
    let output = run(sshd
        .ssh(&key(1))
        .args(["-o", "UpdateHostKeys=yes", "127.0.0.1", "true"]));
    assert!(output.status.success(), "{}", stderr(&output));
    let now = fs::read_to_string(sshd.scratch.path("known_hosts")).unwrap();
    assert!(
        now.ends_with(&format!("{name} {}\n", second.public().to_line())),
        "{now}"
    );
    assert_eq!(now.lines().count(), 2);
}

#[test]
fn standard_input_and_output_are_joined_with_a_port() {
    let Some(sshd) = sshd("") else { return };
    let target = format!("127.0.0.1:{}", sshd.server.port);
    let output = run_with_input(
        sshd.ssh(&key(1)).args(["-W", &target, "127.0.0.1"]),
        b"SSH-2.0-x\r\n",
    );
    assert!(
        stdout(&output).starts_with("SSH-2.0-OpenSSH"),
        "{}",
        stderr(&output)
    );
    let closed = run(sshd.ssh(&key(1)).args(["-W", "127.0.0.1:1", "127.0.0.1"]));
    assert_eq!(closed.status.code(), Some(255));
    assert!(
        stderr(&closed).contains("stdio forwarding failed"),
        "{}",
        stderr(&closed)
    );
}

#[test]
fn jumps_and_proxy_commands_carry_a_login() {
    let Some(sshd) = sshd("") else { return };
    let path = sshd.scratch.key("identity", &key(1), None);
    let config = sshd.scratch.write(
        "config",
        format!(
            "Host *\n Port {}\n IdentityFile {}\n UserKnownHostsFile {}\n StrictHostKeyChecking accept-new\n \
             IdentityAgent none\n",
            sshd.server.port,
            path.display(),
            sshd.scratch.path("known_hosts").display()
        ),
    );
    let program = support::client_program();
    let proxy = format!(
        "ProxyCommand={} -F {} -W %h:%p localhost",
        program.display(),
        config.display()
    );
    let ways: [&[&str]; 3] = [
        &["-J", "localhost"],
        &["-J", "127.0.0.1,localhost"],
        &["-o", &proxy],
    ];
    for way in ways {
        let mut command = std::process::Command::new(&program);
        command
            .arg("-F")
            .arg(&config)
            .args(way)
            .args(["127.0.0.1", "echo through"]);
        let output = run(command.stdin(Stdio::null()));
        assert_eq!(stdout(&output), "through\n", "{way:?}: {}", stderr(&output));
    }
}

#[test]
fn variables_travel_as_asked() {
    let Some(sshd) = sshd("") else { return };
    let output = run(sshd
        .ssh(&key(1))
        .args([
            "-o",
            "SendEnv=TEST_A*",
            "-o",
            "SetEnv=TEST_B=set TEST_AB=fixed",
        ])
        .args(["127.0.0.1", "echo $TEST_AA $TEST_AB $TEST_B $TEST_C"])
        .env("TEST_AA", "sent")
        .env("TEST_AB", "sent")
        .env("TEST_C", "kept"));
    assert_eq!(stdout(&output), "sent fixed set\n", "{}", stderr(&output));
}

#[test]
fn a_terminal_is_given_when_forced_and_its_session_says_goodbye() {
    let Some(sshd) = sshd("") else { return };
    let output = run(sshd
        .ssh(&key(1))
        .args(["-tt", "127.0.0.1", "tty; stty size"])
        .env("TERM", "vt100"));
    assert!(
        stdout(&output).starts_with("/dev/pts/"),
        "{}",
        stderr(&output)
    );
    // Standard input is no terminal, so that the size is not known; OpenSSH's client says the same.
    let second = stdout(&output).lines().nth(1).map(str::to_owned);
    assert_eq!(second.as_deref(), Some("0 0"));
    assert!(stderr(&output).contains("Connection to 127.0.0.1 closed."));
    let without = run(sshd.ssh(&key(1)).args(["-T", "127.0.0.1", "tty"]));
    assert_eq!(stdout(&without), "not a tty\n");
}

#[test]
fn a_command_that_dies_by_a_signal_gives_255_and_with_v_its_name() {
    let Some(sshd) = sshd("") else { return };
    for (flag, is_named) in [("-v", true), ("-x", false)] {
        let output = run(sshd.ssh(&key(1)).args([flag, "127.0.0.1", "kill -KILL $$"]));
        assert_eq!(output.status.code(), Some(255));
        let said = stderr(&output);
        assert_eq!(said.contains("signal KILL"), is_named, "{said}");
    }
}

#[test]
fn a_reader_that_leaves_ends_the_command() {
    let Some(sshd) = sshd("") else { return };
    let mut child = sshd
        .ssh(&key(1))
        .args(["127.0.0.1", "yes"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut output = child.stdout.take().unwrap();
    let mut bytes = [0_u8; 4096];
    std::io::Read::read_exact(&mut output, &mut bytes).unwrap();
    drop(output);
    assert_eq!(child.wait().unwrap().code(), Some(255));
}

#[test]
fn a_subsystem_starts_and_an_unknown_one_fails() {
    let Some(sshd) = sshd("Subsystem parrot /bin/cat") else {
        return;
    };
    let mut command = sshd.ssh(&key(1));
    let output = run_with_input(command.args(["-s", "127.0.0.1", "parrot"]), b"hello");
    assert_eq!(stdout(&output), "hello", "{}", stderr(&output));
    let unknown = run(sshd.ssh(&key(1)).args(["-s", "127.0.0.1", "nothing"]));
    assert_eq!(unknown.status.code(), Some(255));
    assert!(stderr(&unknown).contains("subsystem request failed"));
}

#[test]
fn going_to_the_background_keeps_the_output() {
    let Some(sshd) = sshd("") else { return };
    let output = run(sshd
        .ssh(&key(1))
        .args(["-f", "127.0.0.1", "sleep 0.2; echo late"]));
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stdout(&output), "late\n");
}

#[test]
fn each_algorithm_that_both_know_works() {
    let Some(sshd) = sshd("KexAlgorithms +diffie-hellman-group14-sha256\nMACs +hmac-sha1") else {
        return;
    };
    let lists = [
        ("KexAlgorithms", "kex"),
        ("Ciphers", "cipher"),
        ("MACs", "mac"),
    ];
    for (keyword, query) in lists {
        let ours = run(std::process::Command::new(support::client_program()).args(["-Q", query]));
        let theirs = run(std::process::Command::new("/usr/bin/ssh").args(["-Q", query]));
        let theirs = stdout(&theirs);
        for name in stdout(&ours)
            .lines()
            .filter(|name| theirs.lines().any(|other| other == *name))
        {
            let mut command = sshd.ssh(&key(1));
            command.args(["-o", &format!("{keyword}={name}")]);
            if keyword == "MACs" {
                command.args(["-o", "Ciphers=aes128-ctr"]);
            }
            let output = run(command.args(["127.0.0.1", "echo in"]));
            let said = stderr(&output);
            // An algorithm that the server does not offer by default is no failure of the client.
            if said.contains("no matching") {
                continue;
            }
            assert_eq!(stdout(&output), "in\n", "{name}: {said}");
        }
    }
}
