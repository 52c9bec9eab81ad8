//! Servers for the tests, as root or as an ordinary user, and OpenSSH's client set up for them.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use interop::account::{Guest, is_root};
use interop::fixture;
pub use interop::peers::ours::development_binary as binary;
use interop::process::{COMMAND_LIMIT, Daemon, Input, Outcome, descendants, installed, run};
use interop::report::skipped;
use interop::scratch::{Scratch, free_port, until};
use keys::PrivateKey;
use sys::signals::Signal;

use crate::facts::Facts;

/// Time limit for an expected event.
pub const LIMIT: Duration = Duration::from_secs(60);

/// True if a test of the whole chain can run, which needs root and OpenSSH's client. Prints once
/// why not.
#[must_use]
pub fn possible(what: &str) -> bool {
    let reason = if !is_root() {
        "not root"
    } else if installed("ssh").is_none() {
        "no OpenSSH client"
    } else if installed("useradd").is_none() {
        "no useradd"
    } else {
        return true;
    };
    skipped(what, &reason);
    false
}

/// A user's key pair, made from a number, so that tests are repeatable.
#[derive(Debug, Clone)]
pub struct UserKey {
    /// The pair.
    pub private: PrivateKey,
    /// The line of authorized_keys, without options or line end.
    pub line: String,
}

impl UserKey {
    /// The pair of this number.
    ///
    /// # Panics
    /// Never.
    #[must_use]
    pub fn new(number: u8) -> Self {
        let private = PrivateKey::from_ed25519_seed(&[number; 32]);
        let line = private.public().to_line().trim_end().to_owned();
        Self { private, line }
    }

    /// Writes the private key for a client.
    ///
    /// # Panics
    /// If it cannot be written.
    #[must_use]
    pub fn write(&self, scratch: &Scratch, name: &str) -> PathBuf {
        let text = keys::private_file::write_openssh(&self.private, name, None).expect("a file");
        scratch.write(&format!("{name}.pub"), format!("{}\n", self.line));
        scratch.write(name, text.as_bytes())
    }
}

/// A server with the files of its clients. It ends with all its processes when this value is
/// dropped.
#[derive(Debug)]
pub struct Sshd {
    /// The listener process.
    pub daemon: Daemon,
    config: PathBuf,
    known_hosts: PathBuf,
}

/// The parts of a configuration: `first` lines precede the usual ones and so take precedence;
/// `blocks` (Match) follow them.
#[derive(Debug, Clone, Copy, Default)]
pub struct Config<'a> {
    /// Lines before the usual ones.
    pub first: &'a str,
    /// Lines after them.
    pub blocks: &'a str,
}

impl<'a> Config<'a> {
    /// Lines with precedence, without Match blocks.
    #[must_use]
    pub fn new(first: &'a str) -> Self {
        Self { first, blocks: "" }
    }

    /// The usual lines, followed by Match blocks.
    #[must_use]
    pub fn blocks(blocks: &'a str) -> Self {
        Self { first: "", blocks }
    }

    /// The text for a server with this host key.
    #[must_use]
    pub fn text(&self, host_key: &Path) -> String {
        format!(
            "{}\nListenAddress 127.0.0.1\nHostKey {}\nUsePAM no\nPidFile none\n\
             PerSourcePenalties no\nMaxStartups 1000\nPreauthSpares 0\nLogLevel DEBUG1\n{}\n",
            self.first,
            host_key.display(),
            self.blocks
        )
    }
}

impl Sshd {
    /// Starts a server as the user who runs the test.
    ///
    /// # Panics
    /// If it does not listen.
    #[must_use]
    pub fn start(config: Config<'_>) -> Self {
        Self::start_with(config, |_, _| Command::new(binary()))
    }

    /// Starts a server with the command that `prepare` makes from the scratch directory and the
    /// port; the arguments of `sshd` are added.
    ///
    /// # Panics
    /// If it does not listen.
    #[must_use]
    pub fn start_with(config: Config<'_>, prepare: impl FnOnce(&Scratch, u16) -> Command) -> Self {
        let scratch = Scratch::new();
        let port = free_port();
        let mut command = prepare(&scratch, port);
        command.args(["sshd", "-D", "-e", "-p", &port.to_string(), "-f"]);
        Self::run(config, scratch, port, command)
    }

    fn run(config: Config<'_>, scratch: Scratch, port: u16, command: Command) -> Self {
        let host_key = fixture::file("host_ed25519");
        let config = scratch.write("sshd_config", config.text(&host_key));
        let public = fixture::text("host_ed25519.pub");
        Self::listen(command, port, scratch, config, &public)
    }

    fn listen(
        mut command: Command,
        port: u16,
        scratch: Scratch,
        config: PathBuf,
        host_key: &str,
    ) -> Self {
        // A server of another user reads it too.
        fs::set_permissions(&config, fs::Permissions::from_mode(0o644)).expect("its mode");
        let line = format!("[127.0.0.1]:{port} {}\n", host_key.trim_end());
        let known_hosts = scratch.write("known_hosts", line);
        command.arg(&config);
        let daemon = Daemon::start(&mut command, port, scratch).expect("fulmar sshd");
        Self {
            daemon,
            config,
            known_hosts,
        }
    }

    /// Starts a server as `guest`, with a host key that the guest may read.
    ///
    /// # Panics
    /// If it does not listen.
    #[must_use]
    pub fn start_as(guest: &Guest, first: &str) -> Self {
        let scratch = Scratch::new();
        let port = free_port();
        let host = UserKey::new(77);
        let text = keys::private_file::write_openssh(&host.private, "host", None).expect("a key");
        let host_key = guest.write("host_key", text.as_bytes(), 0o600);
        let config = scratch.write("sshd_config", Config::new(first).text(&host_key));
        let mut command = guest.command(binary());
        command.args(["sshd", "-D", "-e", "-p", &port.to_string(), "-f"]);
        Self::listen(command, port, scratch, config, &host.line)
    }

    /// A connection whose client has read the greeting and has not sent anything.
    ///
    /// # Panics
    /// If there is no greeting.
    #[must_use]
    pub fn silent_connection(&self) -> TcpStream {
        let mut stream = TcpStream::connect(("127.0.0.1", self.daemon.port)).expect("a connection");
        stream.set_read_timeout(Some(LIMIT)).expect("a limit");
        let mut begin = [0; 8];
        stream.read_exact(&mut begin).expect("a version line");
        assert_eq!(&begin, b"SSH-2.0-");
        stream
    }

    /// A connection whose client has sent only its version line: the auth process waits in its
    /// sandbox.
    ///
    /// # Panics
    /// If it does not appear.
    #[must_use]
    pub fn begun_connection(&self) -> TcpStream {
        let sandboxed = || -> Vec<u32> {
            let is_caged = |facts: &Facts| {
                facts.command_line == "fulmar sshd-auth" && facts.number("Seccomp") == 2
            };
            let all = self.processes().into_iter();
            all.filter(is_caged).map(|facts| facts.pid).collect()
        };
        let before = sandboxed();
        let mut stream = self.silent_connection();
        stream
            .write_all(b"SSH-2.0-tests\r\n")
            .expect("it takes a line");
        let is_new = |pid: &u32| !before.contains(pid);
        let there = until(LIMIT, || sandboxed().iter().any(is_new));
        assert!(there, "{}", self.daemon.log());
        stream
    }

    /// Replaces the configuration, for the next SIGHUP.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn rewrite(&self, config: Config<'_>) {
        let text = config.text(&fixture::file("host_ed25519"));
        fs::write(&self.config, text).expect("the configuration");
    }

    /// Replaces the configuration by exactly this text.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn rewrite_raw(&self, text: &str) {
        fs::write(&self.config, text).expect("the configuration");
    }

    /// What `sshd -t` says about the configuration.
    ///
    /// # Panics
    /// If it hangs.
    #[must_use]
    pub fn test_configuration(&self) -> Outcome {
        let mut command = Command::new(binary());
        finish(command.args(["sshd", "-t", "-f"]).arg(&self.config))
    }

    /// OpenSSH's client for `user` with the private key in `key`; the caller adds options, the
    /// address and the command.
    ///
    /// # Panics
    /// If the key cannot be written.
    #[must_use]
    pub fn ssh(&self, user: &str, keys: &[&UserKey]) -> Command {
        self.ssh_by(self.daemon.port, user, keys)
    }

    /// The same through another port that leads to this server.
    ///
    /// # Panics
    /// If the key cannot be written.
    #[must_use]
    pub fn ssh_by(&self, port: u16, user: &str, keys: &[&UserKey]) -> Command {
        let mut command = Command::new("ssh");
        command.args(["-F", "none", "-p", &port.to_string(), "-l", user]);
        let alias = format!("HostKeyAlias=[127.0.0.1]:{}", self.daemon.port);
        if port != self.daemon.port {
            command.args(["-o", &alias]);
        }
        for key in keys {
            let name = keys::fingerprint::sha256(&key.private.public().blob());
            let name: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
            // A client that runs may be reading the file: it is not written again.
            let scratch = self.daemon.scratch();
            let file = match scratch.join(&name) {
                written if written.exists() => written,
                _ => key.write(scratch, &name),
            };
            command.arg("-i").arg(file);
        }
        for option in [
            "IdentitiesOnly=yes",
            "IdentityAgent=none",
            "GlobalKnownHostsFile=/dev/null",
            "StrictHostKeyChecking=yes",
            "BatchMode=yes",
            "ConnectTimeout=60",
            "LogLevel=VERBOSE",
        ] {
            command.args(["-o", option]);
        }
        command
            .arg("-o")
            .arg(format!("UserKnownHostsFile={}", self.known_hosts.display()));
        command.env_remove("SSH_AUTH_SOCK").env_remove("DISPLAY");
        command
    }

    /// Runs a command for `user` with `key`.
    ///
    /// # Panics
    /// If the client hangs.
    #[must_use]
    pub fn run_command(&self, user: &str, key: &UserKey, remote: &str) -> Outcome {
        self.run_with(user, &[key], &[], remote)
    }

    /// The same with options for the client before the address.
    ///
    /// # Panics
    /// If the client hangs.
    #[must_use]
    pub fn run_with(
        &self,
        user: &str,
        keys: &[&UserKey],
        options: &[&str],
        remote: &str,
    ) -> Outcome {
        let mut command = self.ssh(user, keys);
        command.args(options).args(["127.0.0.1", remote]);
        finish(&mut command)
    }

    /// Asserts that the login works.
    ///
    /// # Panics
    /// If it does not.
    pub fn lets_in(&self, user: &str, key: &UserKey) {
        let outcome = self.run_command(user, key, "echo in");
        assert_eq!(
            (outcome.status, outcome.stdout.text().as_str()),
            (0, "in\n"),
            "{user} should get in: {}\n{}",
            outcome.summary(),
            self.daemon.log()
        );
    }

    /// Asserts that the login is refused like any other.
    ///
    /// # Panics
    /// If it is not.
    pub fn keeps_out(&self, user: &str, key: &UserKey) {
        let outcome = self.run_command(user, key, "echo in");
        assert!(
            outcome.status == 255
                && outcome.stdout.text().is_empty()
                && outcome.stderr.text().contains("Permission denied"),
            "{user} should be kept out: {}\n{}",
            outcome.summary(),
            self.daemon.log()
        );
    }

    /// Makes it read its configuration again.
    ///
    /// # Panics
    /// If it has ended.
    pub fn hang_up(&self) {
        let pid = i32::try_from(self.daemon.pid()).expect("a pid");
        let listener = sys::process::PidFd::open(pid).expect("the listener");
        listener.signal(Signal::HUP).expect("a signal to it");
    }

    /// Waits for a line of the log that contains `text`.
    ///
    /// # Panics
    /// If none appears.
    pub fn logs(&self, text: &str) {
        let found = until(LIMIT, || self.daemon.log().contains(text));
        assert!(found, "no {text:?} in the log:\n{}", self.daemon.log());
    }

    /// The processes of all connections, without the listener.
    #[must_use]
    pub fn processes(&self) -> Vec<Facts> {
        descendants(self.daemon.pid())
            .into_iter()
            .filter_map(Facts::of)
            .collect()
    }

    /// Waits until all processes of connections have ended.
    ///
    /// # Panics
    /// If one stays.
    pub fn leaves_nothing_behind(&self) {
        let gone = until(LIMIT, || descendants(self.daemon.pid()).is_empty());
        assert!(gone, "left: {:#?}\n{}", self.processes(), self.daemon.log());
    }
}

/// Runs a client that must end by itself.
///
/// # Panics
/// If it does not.
pub fn finish(command: &mut Command) -> Outcome {
    run(command, Input::Nothing, COMMAND_LIMIT).unwrap_or_else(|why| panic!("{command:?}: {why}"))
}

/// A guest account that accepts `key`, with these options.
///
/// # Panics
/// If there is no such account.
#[must_use]
pub fn guest_with(options: &str, key: &UserKey) -> Guest {
    let guest = Guest::new().expect("a guest");
    authorize(&guest, &[(options, key)]);
    guest
}

/// Writes the guest's authorized_keys.
pub fn authorize(guest: &Guest, lines: &[(&str, &UserKey)]) {
    let text: String = lines
        .iter()
        .map(|(options, key)| {
            let space = if options.is_empty() { "" } else { " " };
            format!("{options}{space}{}\n", key.line)
        })
        .collect();
    guest.write(".ssh/authorized_keys", text, 0o600);
}
