//! Shared by the tests against real and hostile peers: a scratch directory, the client as a
//! program, and a server made of a script.
#![allow(dead_code)]

use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use keys::certificate::CertificateFields;
use keys::{CertificateKind, PrivateKey, SignatureAlgorithm, private_file};

/// A directory that is removed with the test.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("fulmar-client-{}-{number}", std::process::id()));
        // Left by a killed process with the same id.
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        Self(path)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// Writes a private key (0600) and its public half beside it.
    pub fn key(&self, name: &str, key: &PrivateKey, passphrase: Option<&str>) -> PathBuf {
        let text = private_file::write_openssh(key, name, passphrase.map(str::as_bytes)).unwrap();
        let path = self.write(name, text.as_bytes());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        self.write(
            &format!("{name}.pub"),
            format!("{} {name}\n", key.public().to_line()),
        );
        path
    }

    /// An askpass program that gives `answers`, one line per question, and records the prompts.
    pub fn askpass(&self, answers: &str) -> PathBuf {
        self.write("answers", answers);
        let script = format!(
            "#!/bin/sh\ncd {}\nprintf '%s\\n' \"$1\" >> prompts\nhead -n 1 answers\nsed -i 1d answers\n",
            self.0.display()
        );
        let path = self.write("askpass", script);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    pub fn prompts(&self) -> String {
        fs::read_to_string(self.path("prompts")).unwrap_or_default()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub fn key(seed: u8) -> PrivateKey {
    PrivateKey::from_ed25519_seed(&[seed; 32])
}

/// The line of a certificate of an Ed25519 key by the authority key 9, for one principal and all times.
pub fn certificate(of: &PrivateKey, kind: CertificateKind, principal: &str) -> String {
    let fields = CertificateFields {
        key: of.public().clone(),
        kind,
        serial: 1,
        key_id: "test".into(),
        principals: vec![principal.to_owned()],
        valid_after: 0,
        valid_before: u64::MAX,
        critical_options: Vec::new(),
        extensions: Vec::new(),
    };
    let certificate = fields.sign(&key(9), SignatureAlgorithm::Ed25519).unwrap();
    let blob = keys::base64::encode(certificate.blob());
    format!("ssh-ed25519-cert-v01@openssh.com {blob} test\n")
}

/// The client as a program; cargo builds the examples together with the tests.
pub fn client_program() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let program = test
        .parent()
        .unwrap()
        .parent()
        .unwrap()
        .join("examples/ssh");
    assert!(
        program.exists(),
        "build the example first: {}",
        program.display()
    );
    program
}

/// The client without any configuration but the test's arguments, never asking.
pub fn ssh(scratch: &Scratch, port: u16) -> Command {
    let mut command = Command::new(client_program());
    command
        .args([
            "-F",
            "none",
            "-o",
            "StrictHostKeyChecking=accept-new",
            "-o",
            "IdentityAgent=none",
        ])
        .args(["-o", "GlobalKnownHostsFile=none", "-p"])
        .arg(port.to_string())
        .arg("-o")
        .arg(format!(
            "UserKnownHostsFile={}",
            scratch.path("known_hosts").display()
        ))
        .env_remove("SSH_AUTH_SOCK")
        .env_remove("DISPLAY")
        .env("SSH_ASKPASS_REQUIRE", "never")
        .stdin(Stdio::null());
    command
}

/// Lets the client ask through the scratch's askpass program.
pub fn asking<'c>(command: &'c mut Command, askpass: &Path) -> &'c mut Command {
    command
        .env("SSH_ASKPASS", askpass)
        .env("SSH_ASKPASS_REQUIRE", "force")
}

pub fn run(command: &mut Command) -> Output {
    command.output().unwrap()
}

/// Runs the command with these bytes on standard input.
pub fn run_with_input(command: &mut Command, input: &[u8]) -> Output {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let writer = std::thread::spawn(move || {
        let _ = stdin.write_all(&input);
    });
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    output
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A server program that is killed with the test.
pub struct Server {
    pub port: u16,
    child: Child,
}

impl Server {
    /// Starts `program` with the arguments that `arguments` makes for a free port.
    pub fn start<S: AsRef<OsStr>>(program: &str, arguments: impl Fn(u16) -> Vec<S>) -> Self {
        for _ in 0..10 {
            let port = free_port();
            let mut child = Command::new(program)
                .args(arguments(port))
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            // Until it listens or, if somebody else took the port, ends.
            while child.try_wait().unwrap().is_none() {
                if sys::socket::is_listening(port) {
                    return Self { port, child };
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        panic!("{program} does not start");
    }
}

/// A loopback port without listener that no other test gets.
pub fn free_port() -> u16 {
    sys::socket::free_port().unwrap()
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// True if a program is installed; prints one line if not.
pub fn installed(program: &str) -> bool {
    let there = Path::new(program).exists();
    if !there {
        eprintln!("skipped: {program} is not installed");
    }
    there
}

/// A server that follows a script for one connection after the key exchange, with host key
/// [`key`]`(200)`.
pub struct Scripted {
    pub port: u16,
    thread: Option<JoinHandle<()>>,
}

impl Scripted {
    /// Serves one connection with `script`.
    pub fn start(script: impl FnOnce(&mut driver::Driver) + Send + 'static) -> Self {
        Self::start_with(proto::TransportConfig::default(), script)
    }

    /// As [`Scripted::start`], with these transport settings.
    pub fn start_with(
        config: proto::TransportConfig,
        script: impl FnOnce(&mut driver::Driver) + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let thread = std::thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            stream.set_nodelay(true).unwrap();
            let host_key = key(200);
            let public = proto::ServerHostKey {
                algorithms: vec!["ssh-ed25519".into()],
                blob: host_key.public().blob(),
            };
            let connection =
                proto::Connection::server(config, vec![public], sys::time::monotonic_ms()).unwrap();
            let mut driver = driver::Driver::new(stream.into(), None, connection).unwrap();
            while !matches!(
                next_event(&mut driver),
                None | Some(proto::Event::KeysChanged { .. })
            ) {}
            script(&mut driver);
            let _ = driver.flush();
        });
        Self {
            port,
            thread: Some(thread),
        }
    }

    /// Waits until the script ends; a panic in it fails the test.
    pub fn finish(mut self) {
        self.thread.take().unwrap().join().unwrap();
    }
}

/// The next event; key exchanges are signed meanwhile. `None` if the client has gone.
pub fn next_event(driver: &mut driver::Driver) -> Option<proto::Event> {
    loop {
        match driver.next() {
            Ok(driver::Notice::Event(proto::Event::SignExchangeHash { hash, .. })) => {
                let signature = key(200)
                    .sign(keys::SignatureAlgorithm::Ed25519, hash.as_ref())
                    .unwrap();
                driver
                    .connection()
                    .provide_host_signature(&signature)
                    .unwrap();
            }
            Ok(driver::Notice::Event(event)) => return Some(event),
            Ok(driver::Notice::PeerClosed) | Err(_) => return None,
            Ok(_) => {}
        }
    }
}

/// The next authentication request; `None` if the client has gone.
pub fn next_request(driver: &mut driver::Driver) -> Option<proto::AuthRequest> {
    loop {
        if let proto::Event::AuthRequest(request) = next_event(driver)? {
            return Some(request);
        }
    }
}

/// Serves until the client disconnects: opens sessions, and answers a command by `exec`.
pub fn serve_session(
    driver: &mut driver::Driver,
    mut exec: impl FnMut(&mut driver::Driver, proto::ChannelId, proto::channel::Request),
) {
    while let Some(event) = next_event(driver) {
        match event {
            proto::Event::ChannelOpenRequest { channel, .. } => {
                driver.connection().accept_channel(channel).unwrap();
            }
            proto::Event::ChannelRequest {
                channel,
                request,
                want_reply,
            } => {
                if want_reply {
                    driver.connection().channel_reply(channel, true).unwrap();
                }
                exec(driver, channel, request);
            }
            _ => {}
        }
    }
}
