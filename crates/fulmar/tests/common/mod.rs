//! A server of the library on a loopback port, and helpers for tests.
#![allow(dead_code)] // Each test file uses a part.

use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crypto::hash::{HashAlgorithm, Hasher};
use fulmar::client::{Auth, FixedKey, Session};
use fulmar::keys::{KeySpec, PrivateKey, PublicKey, private_file};
use fulmar::proto::Prompt;
use fulmar::server::{
    Attempt, Authenticator, Channel, Config, Decision, Dialogue, Forward, Handler, Login, Method,
    Server, Start, Stopper,
};
use fulmar::{Exit, client, server};
use zeroize::Zeroizing;

pub const PASSWORD: &str = "correct horse";
pub const MIB: usize = 1024 * 1024;
/// Long enough for a loaded machine, short enough to end a test that hangs.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Accepts `mia` by password or key, `kim` by questions, `tom` by key and password, and `nobody`
/// without proof.
pub struct Doorkeeper {
    pub key: PublicKey,
}

impl Authenticator for Doorkeeper {
    fn methods(&self, attempt: &Attempt<'_>) -> Vec<Method> {
        match (attempt.user, attempt.passed) {
            ("tom", []) => vec![Method::PublicKey],
            ("tom", _) => vec![Method::Password],
            ("kim", _) => vec![Method::KeyboardInteractive],
            _ => vec![Method::PublicKey, Method::Password],
        }
    }

    fn none(&self, attempt: &Attempt<'_>) -> Decision {
        (attempt.user == "nobody").into()
    }

    fn password(&self, attempt: &Attempt<'_>, password: &[u8]) -> Decision {
        let known = ["mia", "tom"].contains(&attempt.user);
        (known && password == PASSWORD.as_bytes()).into()
    }

    fn public_key(&self, attempt: &Attempt<'_>, key: &PublicKey) -> Decision {
        match (*key == self.key, attempt.user) {
            (true, "mia") => Decision::Accept,
            (true, "tom") => Decision::Partial,
            _ => Decision::Reject,
        }
    }

    fn keyboard_interactive(
        &self,
        _attempt: &Attempt<'_>,
        round: u32,
        answers: &[Zeroizing<Vec<u8>>],
    ) -> Dialogue {
        if round == 0 {
            let prompt = |text: &str, echo| Prompt {
                text: text.into(),
                echo,
            };
            return Dialogue::Ask {
                name: "Two questions".into(),
                instruction: String::new(),
                prompts: vec![prompt("Colour: ", true), prompt("Word: ", false)],
            };
        }
        let right = matches!(answers, [a, b] if &a[..] == b"blue" && &b[..] == b"sesame");
        Dialogue::Done(right.into())
    }
}

/// The commands of the test server.
#[derive(Default)]
pub struct Commands {
    /// Number of bytes that a `flood` has written.
    pub flooded: Mutex<Option<u64>>,
    /// The error with which the last `hold` ended.
    pub held: Mutex<Option<String>>,
    pub served: AtomicU32,
}

impl Commands {
    fn serve(&self, login: &Login, start: &Start, channel: &mut Channel) -> u32 {
        self.served.fetch_add(1, Ordering::SeqCst);
        let Start::Exec(line) = start else {
            let _ = write!(channel, "{start} for {}", login.user);
            return 3;
        };
        let line = String::from_utf8_lossy(line).into_owned();
        let (word, rest) = line.split_once(' ').unwrap_or((&line, ""));
        let done = match word {
            "cat" => copy(channel),
            "echo" => writeln!(channel, "{rest}"),
            "sha256" => sha256(channel),
            "pattern" => pattern(channel, rest.parse().unwrap_or(0)),
            "flood" => self.flood(channel),
            "stream" => stream(channel),
            "hold" => self.hold(channel),
            "both" => both(channel),
            "panic" => panic!("a handler's mistake, on purpose"),
            "env" => {
                let text = format!("{:?} {:?}", channel.env(), channel.pty());
                channel.write_all(text.as_bytes())
            }
            _ => return 127,
        };
        u32::from(done.is_err())
    }

    /// Writes 64 MiB, or until the client has accepted nothing for two seconds.
    fn flood(&self, channel: &mut Channel) -> io::Result<()> {
        channel.set_write_timeout(Some(Duration::from_secs(2)))?;
        *self.flooded.lock().unwrap() = Some(offer(channel));
        Ok(())
    }

    /// Reads nothing until the channel ends.
    fn hold(&self, channel: &mut Channel) -> io::Result<()> {
        while channel.next_happening(None).is_some() {}
        let mut buffer = vec![0; MIB];
        let outcome = loop {
            match channel.read(&mut buffer) {
                Ok(0) => break "end".to_owned(),
                Ok(_) => {}
                Err(error) => break error.to_string(),
            }
        };
        *self.held.lock().unwrap() = Some(outcome);
        Ok(())
    }
}

/// Writes 64 MiB, or as much as is accepted before a write times out.
pub fn offer(mut target: impl Write) -> u64 {
    let piece = vec![7; 64 * 1024];
    let mut taken = 0;
    while taken < 64 * MIB as u64 {
        match target.write(&piece) {
            Ok(count) => taken += count as u64,
            Err(_) => break,
        }
    }
    taken
}

/// Writes until the channel is closed.
fn stream(channel: &mut Channel) -> io::Result<()> {
    let piece = vec![7; 64 * 1024];
    loop {
        channel.write_all(&piece)?;
    }
}

/// Deterministic bytes in which no two packets are equal.
pub fn fill(buffer: &mut [u8], offset: usize) {
    for (at, byte) in buffer.iter_mut().enumerate() {
        let n = (offset + at) as u64;
        *byte = n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()[3];
    }
}

fn copy(channel: &Channel) -> io::Result<()> {
    let (mut input, mut output) = (channel, channel);
    io::copy(&mut input, &mut output).map(|_| ())
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads to the end; returns the hash and the length.
pub fn digest(mut source: impl Read) -> io::Result<(String, usize)> {
    let mut hasher = Hasher::new(HashAlgorithm::Sha256);
    let mut buffer = vec![0; 256 * 1024];
    let mut total = 0;
    loop {
        let count = source.read(&mut buffer)?;
        if count == 0 {
            return Ok((hex(hasher.finish().as_ref()), total));
        }
        total += count;
        hasher.update(&buffer[..count]);
    }
}

/// Writes `total` bytes of the pattern; returns their hash.
pub fn write_pattern(mut target: impl Write, total: usize) -> io::Result<String> {
    let mut hasher = Hasher::new(HashAlgorithm::Sha256);
    let mut buffer = vec![0; 256 * 1024];
    let mut offset = 0;
    while offset < total {
        let len = buffer.len().min(total - offset);
        fill(&mut buffer[..len], offset);
        hasher.update(&buffer[..len]);
        target.write_all(&buffer[..len])?;
        offset += len;
    }
    Ok(hex(hasher.finish().as_ref()))
}

fn sha256(channel: &Channel) -> io::Result<()> {
    let (hash, total) = digest(channel)?;
    let mut output = channel;
    write!(output, "{hash} {total}")
}

fn pattern(channel: &Channel, total: usize) -> io::Result<()> {
    let hash = write_pattern(channel, total)?;
    write!(channel.stderr(), "{hash} {total}")
}

/// Writes 3 MiB on each of the two streams, alternately.
fn both(channel: &mut Channel) -> io::Result<()> {
    let mut stderr = channel.stderr();
    for _ in 0..48 {
        channel.write_all(&[b'o'; 64 * 1024])?;
        stderr.write_all(&[b'e'; 64 * 1024])?;
    }
    Ok(())
}

type Serve = dyn Fn(&Start, &Channel) -> Option<u32> + Send + Sync;

struct Service {
    serve: Box<Serve>,
    permits: Box<dyn Fn(&Forward) -> bool + Send + Sync>,
    commands: Arc<Commands>,
}

impl Handler for Service {
    fn permits(&self, _: &Login, forward: &Forward) -> bool {
        (self.permits)(forward)
    }

    fn serve(&self, login: &Login, start: &Start, channel: &mut Channel) -> Exit {
        let status = (self.serve)(start, channel);
        status
            .unwrap_or_else(|| self.commands.serve(login, start, channel))
            .into()
    }
}

pub struct Fixture {
    pub port: u16,
    pub host_key: PublicKey,
    pub user_key: PrivateKey,
    pub commands: Arc<Commands>,
    pub server: Server,
    stopper: Stopper,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Fixture {
    pub fn start() -> Self {
        Self::with(|_| {})
    }

    pub fn with(change: impl FnOnce(&mut server::Config)) -> Self {
        Self::build(change, |_, _| None, |_| false)
    }

    /// A server that forwards where `permits` is true.
    pub fn forwarding(permits: impl Fn(&Forward) -> bool + Send + Sync + 'static) -> Self {
        Self::build(
            |config| config.transport.max_channels = 64,
            |_, _| None,
            permits,
        )
    }

    /// A server whose channels `serve` serves, where it returns their status.
    pub fn serving(
        serve: impl Fn(&Start, &Channel) -> Option<u32> + Send + Sync + 'static,
    ) -> Self {
        Self::build(|_| {}, serve, |_| false)
    }

    fn build(
        change: impl FnOnce(&mut server::Config),
        serve: impl Fn(&Start, &Channel) -> Option<u32> + Send + Sync + 'static,
        permits: impl Fn(&Forward) -> bool + Send + Sync + 'static,
    ) -> Self {
        let host_key = PrivateKey::generate(KeySpec::Ed25519).unwrap();
        let public = host_key.public().clone();
        let user_key = PrivateKey::generate(KeySpec::Ed25519).unwrap();
        let mut config = Config::new(vec![host_key]);
        change(&mut config);
        let commands = Arc::new(Commands::default());
        let service = Service {
            serve: Box::new(serve),
            permits: Box::new(permits),
            commands: Arc::clone(&commands),
        };
        let doorkeeper = Doorkeeper {
            key: user_key.public().clone(),
        };
        let server = Server::new(config, doorkeeper, service).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (stopper, running) = (server.stopper(), server.clone());
        let thread = std::thread::spawn(move || running.serve(listener).unwrap());
        Self {
            port,
            host_key: public,
            user_key,
            commands,
            server,
            stopper,
            thread: Some(thread),
        }
    }

    pub fn config(&self) -> client::Config {
        client::Config::new(FixedKey(self.host_key.clone()))
    }

    pub fn connect(&self) -> Session {
        Session::connect("127.0.0.1", self.port, self.config()).unwrap()
    }

    pub fn login(&self) -> Session {
        self.login_with(self.config())
    }

    pub fn login_with(&self, config: client::Config) -> Session {
        let mut session = Session::connect("127.0.0.1", self.port, config).unwrap();
        session
            .authenticate("mia", Auth::Password(PASSWORD))
            .unwrap();
        session
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.stopper.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A folder that is removed when dropped.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("fulmar-lib-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        use std::os::unix::fs::PermissionsExt;
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The first of the paths that exists.
pub fn program(paths: &[&str]) -> Option<PathBuf> {
    paths
        .iter()
        .map(Path::new)
        .find(|path| path.exists())
        .map(Path::to_path_buf)
}

/// OpenSSH's default key exchange takes it tens of milliseconds, too long for hundreds of them.
pub const CHEAP_KEX: &str = "curve25519-sha256";

/// An unmodified sshd on a socket pair: it serves one connection on its standard input.
pub struct Sshd {
    program: PathBuf,
    pub scratch: Scratch,
    pub user: String,
    user_key: PrivateKey,
    pub host_key: PrivateKey,
}

impl Sshd {
    pub fn find(name: &str) -> Option<Self> {
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

    pub fn start(&self) -> UnixStream {
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

    pub fn connect(&self) -> Session {
        let mut config = client::Config::new(FixedKey(self.host_key.public().clone()));
        config.transport.rekey_bytes = Some(MIB as u64);
        config.transport.kex = vec![CHEAP_KEX.to_owned()];
        let mut session = Session::over(self.start(), "sshd", 22, config).unwrap();
        session
            .authenticate(&self.user, Auth::Key(&self.user_key))
            .unwrap();
        session
    }
}

pub fn ssh() -> Option<PathBuf> {
    let found = program(&["/usr/bin/ssh", "/usr/local/bin/ssh"]);
    if found.is_none() {
        println!("skipped: no ssh is installed");
    }
    found
}

/// `ssh` with the options to reach the fixture as `mia`, without this machine's configuration.
pub fn ssh_command(program: PathBuf, fixture: &Fixture, scratch: &Scratch) -> Command {
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
