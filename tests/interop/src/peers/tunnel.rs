//! Programs that forward connections, each as a client that stays until it is killed.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, Stdio};

use super::ours::Kind;
use super::{Running, Server, dropbear, openssh, putty, python};
use crate::fixture;
use crate::process::Background;
use crate::report::{panic_text, skipped};
use crate::scratch::Scratch;
use crate::suite::Algorithms;

/// A client that forwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forwarder {
    /// `ssh`.
    Suite(Kind),
    /// dropbear's client.
    Dbclient,
    /// PuTTY's.
    Plink,
    /// A script with asyncssh.
    Asyncssh,
    /// A script with paramiko.
    Paramiko,
    /// A program with Go's `golang.org/x/crypto/ssh`.
    Go,
}

/// A client that is logged in and forwards.
#[derive(Debug)]
pub struct Tunnel {
    client: Background,
    settings: Scratch,
}

impl Tunnel {
    /// Starts a client with these flags and specifications: `-L` and `-R` with ports, addresses and
    /// paths as [`python`]'s scripts read them, `-D` with a port. Its listeners may come later.
    ///
    /// # Errors
    /// One line with the reason why the program is unavailable.
    pub fn start(
        forwarder: Forwarder,
        running: &Running,
        flags: &[(&str, &str)],
    ) -> Result<Self, String> {
        let settings = Scratch::new();
        let mut command = forwarder.command(running, &settings)?;
        for (flag, spec) in flags {
            command.args([flag, spec]);
        }
        if !matches!(
            forwarder,
            Forwarder::Asyncssh | Forwarder::Paramiko | Forwarder::Go
        ) {
            command.args(["-N", "127.0.0.1"]);
        }
        let log = File::create(settings.join("log")).map_err(|error| error.to_string())?;
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        let client = Background::start(&mut command).map_err(|error| error.to_string())?;
        Ok(Self { client, settings })
    }

    /// Its messages so far.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.settings.join("log")).unwrap_or_default()
    }

    /// True until the client ends.
    pub fn is_running(&mut self) -> bool {
        matches!(self.client.0.try_wait(), Ok(None))
    }
}

impl Forwarder {
    /// Its name in reports.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::Suite(kind) => format!("{} ssh", kind.name()),
            other => format!("{other:?}").to_lowercase(),
        }
    }

    fn command(self, running: &Running, settings: &Scratch) -> Result<Command, String> {
        let script = |name| python::script_command(name).map(|each| with_options(each, running));
        match self {
            Self::Suite(kind) => {
                let config = openssh::client_config(&running.known_hosts, "user_ed25519");
                let config = format!("ExitOnForwardFailure yes\n{config}");
                let mut command = kind.ssh()?;
                command
                    .arg("-F")
                    .arg(settings.write("ssh_config", config))
                    .args(["-p", &running.daemon.port.to_string(), "-l", &running.user]);
                Ok(command)
            }
            Self::Dbclient => {
                dropbear::client(settings, &running.order(&Algorithms::default(), ""))
            }
            Self::Plink => putty::copier("plink", settings, running),
            Self::Asyncssh => script("asyncssh_tunnel.py"),
            Self::Paramiko => script("paramiko_tunnel.py"),
            Self::Go => {
                let path = fixture::target_folder().join("peers-go/tunnel");
                if !path.is_file() {
                    return Err("run .ci/peers to build it".into());
                }
                Ok(with_options(Command::new(path), running))
            }
        }
    }
}

fn with_options(mut command: Command, running: &Running) -> Command {
    command
        .arg(format!("port={}", running.daemon.port))
        .arg(format!("user={}", running.user))
        .arg(format!(
            "identity={}",
            fixture::file("user_ed25519").display()
        ))
        .arg(format!("known_hosts={}", running.known_hosts.display()));
    command
}

/// OpenSSH, and the suite to test unless that is OpenSSH.
fn suites() -> Vec<Kind> {
    let mut suites = vec![Kind::OpenSsh];
    suites.extend(Some(Kind::tested()).filter(|kind| *kind != Kind::OpenSsh));
    suites
}

/// Runs a test with this client and each suite's server, OpenSSH's first.
///
/// # Panics
/// If the test fails with any of them.
pub fn with_client(client: Forwarder, test: impl FnMut(Forwarder, &Running) -> Result<(), String>) {
    let servers: Vec<openssh::Sshd> = suites().into_iter().map(openssh::Sshd).collect();
    let pairs = servers.iter().map(|server| (client, server as &dyn Server));
    each(pairs.collect(), test);
}

/// Runs a test with this server and each suite's client, OpenSSH's first.
///
/// # Panics
/// If the test fails with any of them.
pub fn with_server(
    server: &dyn Server,
    test: impl FnMut(Forwarder, &Running) -> Result<(), String>,
) {
    let clients = suites().into_iter().map(Forwarder::Suite);
    each(clients.map(|client| (client, server)).collect(), test);
}

/// Runs a test with each pair of the two suites, OpenSSH's first.
///
/// # Panics
/// If the test fails with any of them.
pub fn with_suites(test: impl FnMut(Forwarder, &Running) -> Result<(), String>) {
    let servers: Vec<openssh::Sshd> = suites().into_iter().map(openssh::Sshd).collect();
    let with = |server| {
        suites()
            .into_iter()
            .map(move |kind| (Forwarder::Suite(kind), server))
    };
    each(
        servers
            .iter()
            .flat_map(|server| with(server as &dyn Server))
            .collect(),
        test,
    );
}

/// Runs a test with each pair, and fails with all failures. A test returns why a program is missing.
fn each(
    pairs: Vec<(Forwarder, &dyn Server)>,
    mut test: impl FnMut(Forwarder, &Running) -> Result<(), String>,
) {
    let mut failed = Vec::new();
    for (client, server) in pairs {
        let name = format!("{} -> {}", client.name(), server.name());
        let offers = server.offers();
        let running = match offers.and_then(|_| server.start(&Algorithms::default(), None)) {
            Ok(running) => running,
            Err(why) => {
                skipped(&name, &why);
                continue;
            }
        };
        match catch_unwind(AssertUnwindSafe(|| test(client, &running))) {
            Ok(Ok(())) => {}
            Ok(Err(why)) => skipped(&name, &why),
            Err(payload) => {
                let (text, log) = (panic_text(payload.as_ref()), running.daemon.log());
                failed.push(format!("{name}: {text}; the server: {log:?}"));
            }
        }
    }
    assert!(failed.is_empty(), "\n{}", failed.join("\n"));
}
