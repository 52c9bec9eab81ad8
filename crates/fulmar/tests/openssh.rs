//! The library against OpenSSH's programs, where they are installed.

mod common;

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use common::{
    CHEAP_KEX, Fixture, MIB, Scratch, Sshd, digest, hex, program, ssh, ssh_command, write_pattern,
};
use crypto::hash::HashAlgorithm;
use fulmar::client::{Auth, Config, FixedKey, Session};
use fulmar::keys::{KeySpec, PrivateKey, private_file};
use fulmar::{Error, Exit};

const BULK: usize = 100 * MIB;

#[test]
fn openssh_logs_in_to_our_server_and_gets_its_streams_and_status() {
    let Some(program) = ssh() else { return };
    let scratch = Scratch::new("ssh-login");
    let fixture = Fixture::start();
    let run = |command: &str| {
        ssh_command(program.clone(), &fixture, &scratch)
            .arg(command)
            .stdin(Stdio::null())
            .output()
            .unwrap()
    };
    let output = run("echo hello");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.stdout, b"hello\n", "{errors}");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(run("nonsense").status.code(), Some(127));
    let both = run("both");
    assert_eq!(both.stdout.len(), 3 * MIB);
    assert_eq!(both.stderr.len(), 3 * MIB);
}

#[test]
fn openssh_sends_and_gets_bulk_with_new_keys_every_mebibyte() {
    let Some(program) = ssh() else { return };
    let scratch = Scratch::new("ssh-bulk");
    let fixture = Fixture::start();
    let mut child = ssh_command(program.clone(), &fixture, &scratch)
        .args(["-o", "RekeyLimit=1M", "-o"])
        .args([&format!("KexAlgorithms={CHEAP_KEX}"), "sha256"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let sent = write_pattern(child.stdin.take().unwrap(), BULK).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text, format!("{sent} {BULK}"));

    let output = ssh_command(program, &fixture, &scratch)
        .args(["-o", "RekeyLimit=1M", "-o"])
        .args([
            &format!("KexAlgorithms={CHEAP_KEX}"),
            &format!("pattern {BULK}"),
        ])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(output.stdout.len(), BULK);
    let hash = hex(HashAlgorithm::Sha256.digest(&output.stdout).as_ref());
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(told, format!("{hash} {BULK}"));
}

#[test]
fn we_run_commands_on_a_stock_sshd() {
    let Some(sshd) = Sshd::find("sshd-run") else {
        return;
    };
    let session = sshd.connect();
    assert!(session.peer_version().contains("OpenSSH"));
    let output = session.run("echo out; echo err >&2; exit 3").unwrap();
    assert_eq!(output.stdout, b"out\n");
    assert_eq!(output.stderr, b"err\n");
    assert_eq!(output.exit, Exit::Status(3));
    let killed = session.run("kill -KILL $$").unwrap().exit;
    assert!(matches!(killed, Exit::Signal { name, .. } if name == "KILL"));

    let refused = session.subsystem("no-such-subsystem").unwrap_err();
    assert!(matches!(refused, Error::RequestRefused("subsystem")));

    let mut shell = session.shell(&fulmar::Pty::new("dumb", 71, 33)).unwrap();
    shell.write_all(b"stty size; exit 7\n").unwrap();
    let output = shell.output(MIB).unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("33 71"), "{text:?}");
    assert_eq!(output.exit, Exit::Status(7));
}

#[test]
fn a_stock_sshd_refuses_a_strange_key() {
    let Some(sshd) = Sshd::find("sshd-wrong-key") else {
        return;
    };
    let config = Config::new(FixedKey(sshd.host_key.public().clone()));
    let mut session = Session::over(sshd.start(), "sshd", 22, config).unwrap();
    let stranger = PrivateKey::generate(KeySpec::Ed25519).unwrap();
    assert!(matches!(
        session.authenticate(&sshd.user, Auth::Key(&stranger)),
        Err(Error::AuthRefused { .. })
    ));
    let config = Config::new(FixedKey(stranger.public().clone()));
    let wrong = Session::over(sshd.start(), "sshd", 22, config);
    assert!(matches!(wrong, Err(Error::HostKey(_))));
}

#[test]
fn bulk_to_and_from_a_stock_sshd_with_new_keys_every_mebibyte() {
    let Some(sshd) = Sshd::find("sshd-bulk") else {
        return;
    };
    let session = sshd.connect();
    let channel = session.exec("cat").unwrap();
    let writer = channel.clone();
    let writing = std::thread::spawn(move || {
        let hash = write_pattern(&writer, BULK).unwrap();
        writer.send_eof();
        hash
    });
    let (hash, total) = digest(&channel).unwrap();
    assert_eq!(total, BULK);
    assert_eq!(hash, writing.join().unwrap());
    assert!(channel.wait().unwrap().is_success());
}

#[test]
fn the_agents_keys_are_tried_until_one_fits() {
    let (Some(agent), Some(add)) = (
        program(&["/usr/bin/ssh-agent", "/usr/local/bin/ssh-agent"]),
        program(&["/usr/bin/ssh-add", "/usr/local/bin/ssh-add"]),
    ) else {
        println!("skipped: no ssh-agent is installed");
        return;
    };
    let scratch = Scratch::new("agent");
    let socket = scratch.path("socket");
    let mut agent = Command::new(agent)
        .args(["-D", "-a"])
        .arg(&socket)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    while UnixStream::connect(&socket).is_err() {
        assert!(agent.try_wait().unwrap().is_none(), "ssh-agent has ended");
        std::thread::yield_now();
    }
    let fixture = Fixture::start();
    let stranger = PrivateKey::generate(KeySpec::Ed25519).unwrap();
    let mut session = fixture.connect();
    assert!(matches!(
        session.authenticate("mia", Auth::AgentAt(&socket)),
        Err(Error::Agent(_))
    ));
    for (name, key) in [("stranger", &stranger), ("mias", &fixture.user_key)] {
        let text = private_file::write_openssh(key, name, None).unwrap();
        let added = Command::new(&add)
            .arg("-q")
            .arg(scratch.write(name, text.as_bytes()))
            .env("SSH_AUTH_SOCK", &socket)
            .status()
            .unwrap();
        assert!(added.success());
        let outcome = session.authenticate("mia", Auth::AgentAt(&socket));
        match name {
            "stranger" => assert!(matches!(outcome, Err(Error::AuthRefused { .. }))),
            _ => assert!(outcome.is_ok(), "{outcome:?}"),
        }
    }
    assert_eq!(session.run("echo in").unwrap().stdout, b"in\n");
    agent.kill().unwrap();
    agent.wait().unwrap();
}
