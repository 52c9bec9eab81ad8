//! OpenSSH's client: its keys, its command line, and what it said.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use crate::fake_monitor::{Policy, Server};

/// A directory of the test's own, removed in the end, with a key and a home inside.
pub struct Place {
    pub path: PathBuf,
}

impl Place {
    /// None where OpenSSH's client is missing.
    pub fn new(name: &str) -> Option<Self> {
        if !Path::new("/usr/bin/ssh").exists() {
            println!("skipped {name}: /usr/bin/ssh is not installed");
            return None;
        }
        let path = std::env::temp_dir().join(format!("fulmar-chain-{}-{name}", std::process::id()));
        // That of a process of this number that was killed.
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(path.join("home/.ssh")).expect("a directory");
        let key = path.join("id");
        let made = Command::new("/usr/bin/ssh-keygen")
            .args(["-q", "-t", "ed25519", "-N", "", "-C", "test", "-f"])
            .arg(&key)
            .status()
            .expect("ssh-keygen");
        assert!(made.success());
        Some(Self { path })
    }

    pub fn home(&self) -> PathBuf {
        self.path.join("home")
    }

    /// A policy that lets this place's key in.
    pub fn policy(&self) -> Policy {
        let line = fs::read_to_string(self.path.join("id.pub")).expect("a public key");
        let encoded = line.split(' ').nth(1).expect("its blob");
        let blob = keys::base64::decode(encoded.as_bytes())
            .expect("base64")
            .to_vec();
        Policy::new(self.home().to_str().expect("text"), blob)
    }

    /// A server for this place's key, its policy changed.
    pub fn server(&self, change: impl FnOnce(&mut Policy)) -> Server {
        let mut policy = self.policy();
        change(&mut policy);
        Server::start(policy)
    }

    /// OpenSSH's option that names this place's known_hosts.
    pub fn known_hosts(&self) -> String {
        let file = self.path.join("known_hosts");
        format!("-oUserKnownHostsFile={}", file.display())
    }

    /// The client's command line up to the host, without a key.
    fn client(&self, server: &Server, flags: &[&str]) -> Command {
        let mut command = Command::new("/usr/bin/ssh");
        command
            .args(["-F", "none", "-oStrictHostKeyChecking=no"])
            .args([&self.known_hosts(), "-oGlobalKnownHostsFile=none"])
            .args(["-p", &server.address.port().to_string()])
            .args(flags);
        command
    }

    /// The client's command line up to the host.
    pub fn ssh(&self, server: &Server, flags: &[&str]) -> Command {
        let own = [
            "-oLogLevel=ERROR",
            "-oIdentitiesOnly=yes",
            "-oBatchMode=yes",
            "-i",
        ];
        let mut command = self.client(server, &own);
        command
            .arg(self.path.join("id"))
            .args(flags)
            .arg("tester@127.0.0.1")
            .env("LC_TEST", "from the client")
            .env("TERM", "vt220");
        command
    }

    /// The client's command line up to the host, without a key, asking a program for passwords.
    pub fn ssh_asking(&self, server: &Server, flags: &[&str], askpass: &Path) -> Command {
        let mut command = self.client(server, flags);
        command
            .arg("tester@127.0.0.1")
            .env("SSH_ASKPASS", askpass)
            .env("SSH_ASKPASS_REQUIRE", "force")
            .env("DISPLAY", ":0");
        command
    }

    /// Starts the client with a command that writes `ready` first, and waits for that.
    pub fn begin(&self, server: &Server, flags: &[&str], command: &str) -> Child {
        let mut client = self
            .ssh(server, flags)
            .arg(command)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a client");
        let stdout = client.stdout.as_mut().expect("its output");
        stdout.read_exact(&mut [0; 5]).expect("ready");
        client
    }

    /// Runs the client to its end.
    pub fn run(&self, server: &Server, flags: &[&str], command: &[&str], input: &[u8]) -> Output {
        run(self.ssh(server, flags).args(command), input)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// A place and a server for it; `None` where OpenSSH's client is missing.
pub fn served(name: &str, change: impl FnOnce(&mut Policy)) -> Option<(Place, Server)> {
    let place = Place::new(name)?;
    let server = place.server(change);
    Some((place, server))
}

/// Runs a program with this input to its end.
pub fn run(command: &mut Command, input: &[u8]) -> Output {
    use std::io::Write;
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a client");
    let mut stdin = child.stdin.take().expect("its input");
    let input = input.to_vec();
    let writer = std::thread::spawn(move || {
        let _ = stdin.write_all(&input);
    });
    let output = child.wait_with_output().expect("its output");
    writer.join().expect("no panic");
    output
}

/// Output as text.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A file with which a command reports that it runs; removed when this value is dropped.
pub struct Marker {
    pub path: PathBuf,
}

impl Marker {
    pub fn new(name: &str) -> Self {
        let name = format!("fulmar-{name}-{}", std::process::id());
        Self {
            path: std::env::temp_dir().join(name),
        }
    }
}

impl std::fmt::Display for Marker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.path.display().fmt(f)
    }
}

impl Drop for Marker {
    fn drop(&mut self) {
        // There is none where nobody made it.
        let _ = fs::remove_file(&self.path);
    }
}

/// Checks that standard error contains `words`.
pub fn complains(out: &Output, words: &str) {
    let said = text(&out.stderr);
    assert!(said.contains(words), "{words}: {said}");
}

/// The status of a client, and what it wrote to standard output.
pub fn ended(out: &Output) -> (Option<i32>, String) {
    (out.status.code(), text(&out.stdout))
}
