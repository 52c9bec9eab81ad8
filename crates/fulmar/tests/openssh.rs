//! The library against OpenSSH's programs, where they are installed.

mod common;

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use common::{Fixture, MIB, Scratch, digest, hex, program, write_pattern};
use crypto::hash::HashAlgorithm;
use fulmar::client::{Auth, Config, FixedKey, Session};
use fulmar::keys::{KeySpec, PrivateKey, private_file};
use fulmar::{Error, Exit};

const BULK: usize = 100 * MIB;
/// OpenSSH's default key exchange takes it tens of milliseconds, too long for hundreds of them.
const CHEAP_KEX: &str = "curve25519-sha256";

fn ssh() -> Option<PathBuf> {
    let found = program(&["/usr/bin/ssh", "/usr/local/bin/ssh"]);
    if found.is_none() {
        println!("skipped: no ssh is installed");
    }
    found
}

/// `ssh` with the options to reach the fixture as `mia`, without this machine's configuration.
fn ssh_command(program: PathBuf, fixture: &Fixture, scratch: &Scratch) -> Command {
    let key = private_file::write_openssh(&fixture.user_key, "", None).unwrap();
    let key = scratch.write("key", key.as_bytes());
    let name = format!("[127.0.0.1]:{}", fixture.port);
    let line = format!("{name} {}\n", fixture.host_key.to_line());
    let known = scratch.write("known_hosts", line);
    let mut command = Command::new(program);
    command
        .args(["-F", "none", "-T", "-o", "BatchMode=yes"])
        .args([
            "-o",
            "IdentitiesOnly=yes",
            "-o",
            "StrictHostKeyChecking=yes",
        ])
        .args(["-o", "GlobalKnownHostsFile=none"])
        .arg("-o")
        .arg(format!("UserKnownHostsFile={}", known.display()))
        .arg("-i")
        .arg(key)
        .args(["-p", &fixture.port.to_string(), "mia@127.0.0.1"]);
    command
}

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

/// An unmodified sshd on a socket pair: it serves one connection on its standard input.
struct Sshd {
    program: PathBuf,
    scratch: Scratch,
    user: String,
    user_key: PrivateKey,
    host_key: PrivateKey,
}

impl Sshd {
    fn find(name: &str) -> Option<Self> {
        let Some(program) = program(&["/usr/sbin/sshd", "/usr/local/sbin/sshd"]) else {
            println!("skipped: no sshd is installed");
            return None;
        };
        let id = |flag: &str| {
            let output = Command::new("id").arg(flag).output().unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            text.trim().to_owned()
        };
        if id("-u") == "0" && std::fs::create_dir_all("/run/sshd").is_err() {
            println!("skipped: sshd's folder /run/sshd cannot be made");
            return None;
        }
        let make = || PrivateKey::generate(KeySpec::Ed25519).unwrap();
        Some(Self {
            program,
            scratch: Scratch::new(name),
            user: id("-un"),
            user_key: make(),
            host_key: make(),
        })
    }

    fn start(&self) -> UnixStream {
        let host_key = private_file::write_openssh(&self.host_key, "", None).unwrap();
        let host_key = self.scratch.write("host_key", host_key.as_bytes());
        let keys = self
            .scratch
            .write("authorized_keys", self.user_key.public().to_line());
        let config = self.scratch.write(
            "sshd_config",
            format!(
                "HostKey {}\nAuthorizedKeysFile {}\nStrictModes no\nUsePAM no\n\
                 PermitRootLogin yes\nPasswordAuthentication no\nPrintMotd no\nRekeyLimit 1M\n",
                host_key.display(),
                keys.display()
            ),
        );
        let (ours, theirs) = UnixStream::pair().unwrap();
        let input = theirs.try_clone().unwrap();
        let log = std::fs::File::create(self.scratch.path("log")).unwrap();
        let mut command = Command::new(&self.program);
        command
            .arg0(&self.program)
            .args(["-i", "-e", "-f"])
            .arg(config)
            .stdin(Stdio::from(std::os::fd::OwnedFd::from(input)))
            .stdout(Stdio::from(std::os::fd::OwnedFd::from(theirs)))
            .stderr(Stdio::from(log));
        let mut child = command.spawn().unwrap();
        std::thread::spawn(move || child.wait());
        ours
    }

    fn connect(&self) -> Session {
        let mut config = Config::new(FixedKey(self.host_key.public().clone()));
        config.transport.rekey_bytes = Some(MIB as u64);
        config.transport.kex = vec![CHEAP_KEX.to_owned()];
        let mut session = Session::over(self.start(), "sshd", 22, config).unwrap();
        session
            .authenticate(&self.user, Auth::Key(&self.user_key))
            .unwrap();
        session
    }
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
