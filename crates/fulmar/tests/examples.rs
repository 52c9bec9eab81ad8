//! The examples of the public documentation, run: each against a server of the library or as one.

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use common::{Fixture, PATIENCE, Scratch};
use fulmar::client::{Auth, Config, FixedKey, Session};
use fulmar::keys::sshsig::{self, FileSignature};
use fulmar::keys::{CertificateKind, KeySpec, PresentedKey, PrivateKey, private_file, public_file};
use fulmar::server::Channel;
use fulmar::{Error, Exit};
use sftp::server::Permits;
use sftp::server::{Log, LogLevel, Serve, stdio};
use sys::fs::PathRoot;

/// Sessions of the example with many hosts.
const HOSTS: usize = 100;

/// Cargo's folder of examples, which is next to the folder of the tests.
fn example(name: &str) -> Command {
    let test = std::env::current_exe().unwrap();
    let folder = test.parent().and_then(|deps| deps.parent()).unwrap();
    let path = folder.join("examples").join(name);
    assert!(path.exists(), "cargo test -p fulmar builds the examples");
    Command::new(path)
}

/// Each example fits on a page.
#[test]
fn the_examples_are_short() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("examples");
    for name in [
        "run_everywhere",
        "transfer",
        "embed_server",
        "socks_proxy",
        "own_agent",
        "sign_file",
        "certify",
    ] {
        let text = std::fs::read_to_string(folder.join(format!("{name}.rs"))).unwrap();
        let lines = text.lines().count();
        assert!(lines < 60, "{name}: {lines} lines");
    }
}

/// A home directory that knows the fixture's host key, and the user's key file.
fn home(fixture: &Fixture, name: &str) -> (Scratch, PathBuf) {
    let scratch = Scratch::new(name);
    std::fs::create_dir(scratch.path(".ssh")).unwrap();
    let host = format!("[127.0.0.1]:{}", fixture.port);
    let line = format!("{host} {}\n", fixture.host_key.to_line());
    scratch.write(".ssh/known_hosts", line);
    let key = private_file::write_openssh(&fixture.user_key, "", None).unwrap();
    let key = scratch.write("key", key.as_bytes());
    (scratch, key)
}

#[test]
fn a_command_runs_on_a_hundred_hosts() {
    let fixture = Fixture::start();
    let (home, key) = home(&fixture, "everywhere");
    let host = format!("127.0.0.1:{}", fixture.port);
    let run = |command: &str, hosts: usize| {
        example("run_everywhere")
            .arg("mia")
            .arg(&key)
            .arg(command)
            .args(std::iter::repeat_n(&host, hosts))
            .env("HOME", &home.0)
            .output()
            .unwrap()
    };
    let output = run("echo good day", HOSTS);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let expected = format!("{host}: good day\n").repeat(HOSTS);
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        expected,
        "{errors}"
    );
    assert_eq!(output.status.code(), Some(0), "{errors}");
    assert_eq!(run("nonsense", 2).status.code(), Some(1));
}

struct Silent;

impl Log for Silent {
    fn wants(&self, _: LogLevel) -> bool {
        false
    }

    fn line(&self, _: LogLevel, _: &str) {}
}

/// Serves SFTP on a channel: the server of the crate `transfer` between two socket pairs.
fn sftp_server(channel: &Channel) -> std::io::Result<()> {
    let (input, their_input) = UnixStream::pair()?;
    let (output, their_output) = UnixStream::pair()?;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let (mut from, mut to) = (channel, &input);
            let _ = std::io::copy(&mut from, &mut to);
            let _ = input.shutdown(Shutdown::Write);
        });
        let server = scope.spawn(move || {
            let place = PathRoot::everywhere(b"/").unwrap();
            let mut serve = Serve::new(place, Permits::everything(), 64, Box::new(Silent));
            let _ = stdio::run(&mut serve, &their_input, &their_output);
        });
        let (mut from, mut to) = (&output, channel);
        let copied = std::io::copy(&mut from, &mut to).map(|_| ());
        let _ = server.join();
        copied
    })
}

#[test]
fn a_tree_is_copied_there_and_back() {
    let fixture = Fixture::serving(|start, channel| {
        let is_sftp = matches!(start, fulmar::server::Start::Subsystem(name) if name == "sftp");
        Some(u32::from(!is_sftp || sftp_server(channel).is_err()))
    });
    let (home, key) = home(&fixture, "transfer");
    let tree = home.path("tree");
    std::fs::create_dir_all(tree.join("inner")).unwrap();
    let bulk: Vec<u8> = (0..3_000_000_u32).map(|n| n.to_be_bytes()[2]).collect();
    std::fs::write(tree.join("inner/bulk"), &bulk).unwrap();
    std::fs::write(tree.join("empty"), b"").unwrap();
    let copy = |direction: &str, from: PathBuf, to: PathBuf| {
        example("transfer")
            .arg("mia")
            .arg(&key)
            .args(["127.0.0.1", &fixture.port.to_string(), direction])
            .args([from, to])
            .env("HOME", &home.0)
            .output()
            .unwrap()
    };
    let there = copy("upload", tree, home.path("there"));
    let words = String::from_utf8_lossy(&there.stderr).into_owned();
    assert!(there.status.success(), "{words}");
    assert!(words.contains("100 %"), "{words}");
    let back = copy("download", home.path("there"), home.path("back"));
    assert!(
        back.status.success(),
        "{}",
        String::from_utf8_lossy(&back.stderr)
    );
    assert_eq!(std::fs::read(home.path("back/inner/bulk")).unwrap(), bulk);
    assert_eq!(std::fs::read(home.path("back/empty")).unwrap(), b"");

    let none = copy("download", home.path("missing"), home.path("nothing"));
    let words = String::from_utf8_lossy(&none.stderr).into_owned();
    assert!(
        !none.status.success() && words.contains("No such file"),
        "{words}"
    );
    assert!(!home.path("nothing").exists());
}

#[test]
fn a_proxy_connects_through_the_server() {
    let fixture = Fixture::forwarding(|_| true);
    let (home, key) = home(&fixture, "proxy");
    let mut proxy = example("socks_proxy")
        .arg("mia")
        .arg(&key)
        .args(["127.0.0.1", &fixture.port.to_string()])
        .env("HOME", &home.0)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut port = String::new();
    let mut said = BufReader::new(proxy.stdout.take().unwrap());
    said.read_line(&mut port).unwrap();
    let target = TcpListener::bind("127.0.0.1:0").unwrap();
    let [high, low] = target.local_addr().unwrap().port().to_be_bytes();
    let mut stream = TcpStream::connect(format!("127.0.0.1:{}", port.trim())).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // SOCKS 4, with the first bytes of the connection.
    let request = [&[4, 1, high, low, 127, 0, 0, 1, 0], &b"question"[..]].concat();
    stream.write_all(&request).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let (mut connection, _) = target.accept().unwrap();
    let mut question = String::new();
    connection.read_to_string(&mut question).unwrap();
    assert_eq!(question, "question");
    connection.write_all(b"answer").unwrap();
    drop(connection);
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert_eq!(
        answer,
        [&[0, 90, 0, 0, 0, 0, 0, 0], &b"answer"[..]].concat()
    );
    proxy.kill().unwrap();
    proxy.wait().unwrap();
}

/// A key file, and its public half beside it.
fn key_file(scratch: &Scratch, name: &str) -> (PrivateKey, PathBuf) {
    let key = PrivateKey::generate(KeySpec::Ed25519).unwrap();
    let text = private_file::write_openssh(&key, "", None).unwrap();
    let path = scratch.write(name, text.as_bytes());
    scratch.write(&format!("{name}.pub"), key.public().to_line());
    (key, path)
}

#[test]
fn an_agent_of_ones_own_signs_a_file() {
    let scratch = Scratch::new("own-agent");
    let (key, path) = key_file(&scratch, "key");
    let socket = scratch.path("socket");
    let mut agent = example("own_agent")
        .arg(&path)
        .arg(&socket)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut announced = String::new();
    let mut said = BufReader::new(agent.stdout.take().unwrap());
    said.read_line(&mut announced).unwrap();
    assert!(announced.starts_with("SSH_AUTH_SOCK="), "{announced}");
    let mut signer = example("sign_file")
        .env("SSH_AUTH_SOCK", &socket)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    signer.stdin.take().unwrap().write_all(b"a text\n").unwrap();
    let signed = signer.wait_with_output().unwrap();
    agent.kill().unwrap();
    agent.wait().unwrap();
    assert!(signed.status.success());
    let signature = FileSignature::from_armored(&signed.stdout).unwrap();
    assert_eq!(signature.key.key(), key.public());
    let digest = |text: &[u8]| sshsig::hash_from_name(b"sha512").unwrap().digest(text);
    assert_eq!(signature.verify(b"file", &digest(b"a text\n")), Ok(()));
    assert!(signature.verify(b"file", &digest(b"another\n")).is_err());
    assert!(signature.verify(b"git", &digest(b"a text\n")).is_err());
}

#[test]
fn an_authority_certifies_a_key() {
    let scratch = Scratch::new("certify");
    let (authority, authority_file) = key_file(&scratch, "authority");
    let (key, _) = key_file(&scratch, "key");
    let made = example("certify")
        .arg(&authority_file)
        .arg("mia")
        .arg(scratch.path("key.pub"))
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&made.stderr).into_owned();
    let PresentedKey::Certificate(certificate) = public_file::parse(&made.stdout).unwrap().key
    else {
        panic!("no certificate: {words}");
    };
    assert_eq!(certificate.key(), key.public());
    assert_eq!(certificate.authority(), authority.public());
    assert_eq!(certificate.kind(), CertificateKind::User);
    assert_eq!(certificate.principals(), ["mia"]);
    assert_eq!(certificate.valid_before() - certificate.valid_after(), 3600);
}

/// The example's server, which ends with its standard input.
struct Embedded {
    child: Child,
    port: u16,
    host_key: String,
}

impl Embedded {
    fn start() -> Self {
        let mut child = example("embed_server")
            .args(["mia", "a long password"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut value = |name: &str| {
            let line = lines.next().unwrap().unwrap();
            line.strip_prefix(name).unwrap().to_owned()
        };
        Self {
            port: value("port: ").parse().unwrap(),
            host_key: value("host key: "),
            child,
        }
    }

    fn connect(&self) -> Session {
        let PresentedKey::Plain(key) = public_file::parse(self.host_key.as_bytes()).unwrap().key
        else {
            panic!("the example has a certificate");
        };
        Session::connect("127.0.0.1", self.port, Config::new(FixedKey(key))).unwrap()
    }
}

#[test]
fn the_embedded_server_has_its_own_logins_and_channels() {
    let mut server = Embedded::start();
    let mut session = server.connect();
    for (user, password) in [
        ("mia", "a long passwore"),
        ("mia", ""),
        ("kim", "a long password"),
    ] {
        let refused = session.authenticate(user, Auth::Password(password));
        assert!(
            matches!(refused, Err(Error::AuthRefused { .. })),
            "{user} {password}: {refused:?}"
        );
    }
    session
        .authenticate("mia", Auth::Password("a long password"))
        .unwrap();
    let output = session.run("whoami").unwrap();
    assert_eq!(output.stdout, b"mia\n");
    assert_eq!(session.run("reboot").unwrap().exit, Exit::Status(127));

    let mut upper = session.open_channel("upper@example.org", b"").unwrap();
    upper.set_read_timeout(Some(PATIENCE));
    upper.write_all(b"good day").unwrap();
    upper.send_eof();
    let mut text = String::new();
    upper.read_to_string(&mut text).unwrap();
    assert_eq!(text, "GOOD DAY");
    let lower = session.open_channel("lower@example.org", b"");
    assert!(matches!(
        lower,
        Err(Error::ChannelRefused { reason: 3, .. })
    ));
    let forwarded = session.connect_tcp("127.0.0.1", 22);
    assert!(matches!(forwarded, Err(Error::ChannelRefused { .. })));

    drop(session);
    drop(server.child.stdin.take());
    assert!(server.child.wait().unwrap().success());
}
