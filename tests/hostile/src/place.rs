//! The real server and the real client, started for one test and ended with it.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use interop::account::{Guest, current_user, is_root};
use interop::fixture;
pub use interop::peers::ours::development_binary as binary;
use interop::process::{Daemon, Input, Outcome, descendants, run};
use interop::scratch::{Scratch, free_port, until};
use keys::PrivateKey;
use proto::Role;

use crate::adversary::{Adversary, Offer};
use crate::subject::{Subject, Tcp};

/// Time limit for a client to end the connection to an adversary.
const CLIENT_LIMIT: Duration = Duration::from_secs(120);

/// The key that the server accepts.
#[must_use]
pub fn user_key() -> PrivateKey {
    PrivateKey::from_ed25519_seed(&[21; 32])
}

/// A running `fulmar sshd`: with privilege separation for a guest account if the tests run as root,
/// else for the user who runs them.
pub struct Server {
    /// The listener process.
    pub daemon: Daemon,
    /// The user whom [`user_key`] logs in.
    pub user: String,
    /// The user's password, if there is one.
    pub password: Option<String>,
    _guest: Option<Guest>,
}

impl Server {
    /// Starts a server; `lines` of sshd_config precede the usual ones and so take precedence.
    ///
    /// # Panics
    /// If it does not start.
    #[must_use]
    pub fn start(lines: &[&str]) -> Self {
        Self::with_key_options("", lines)
    }

    /// The same with options of the user's key in authorized_keys.
    ///
    /// # Panics
    /// If it does not start.
    #[must_use]
    pub fn with_key_options(options: &str, lines: &[&str]) -> Self {
        Self::with_environment(options, lines, &[])
    }

    /// The same with variables of the server's environment.
    ///
    /// # Panics
    /// If it does not start.
    #[must_use]
    pub fn with_environment(options: &str, lines: &[&str], variables: &[(&str, &Path)]) -> Self {
        let mut guest = is_root().then(|| Guest::new().expect("a guest"));
        let mut password = None;
        if let Some(guest) = &mut guest {
            guest.set_password("correct-horse-7").expect("a password");
            password.clone_from(&guest.password);
        }
        let user = guest
            .as_ref()
            .map_or_else(current_user, |guest| guest.name.clone());
        let scratch = Scratch::new();
        let line = format!("{options}{}\n", user_key().public().to_line().trim_end());
        let authorized = scratch.write("authorized_keys", line);
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
        fs::set_permissions(&authorized, mode).expect("its mode");
        let port = free_port();
        let mut config = String::new();
        for line in lines {
            config.push_str(line);
            config.push('\n');
        }
        for (name, value) in [
            ("ListenAddress", "127.0.0.1".to_owned()),
            (
                "HostKey",
                fixture::file("host_ed25519").display().to_string(),
            ),
            ("AuthorizedKeysFile", authorized.display().to_string()),
            ("StrictModes", "no".into()),
            ("UsePAM", "no".into()),
            ("PidFile", "none".into()),
            ("PerSourcePenalties", "no".into()),
            ("MaxStartups", "1000".into()),
            // The test counts processes.
            ("PreauthSpares", "0".into()),
            ("LogLevel", "VERBOSE".into()),
        ] {
            config.push_str(&format!("{name} {value}\n"));
        }
        let config = scratch.write("sshd_config", config);
        let mut command = Command::new(binary());
        command
            .args(["sshd", "-D", "-e", "-p", &port.to_string(), "-f"])
            .arg(config)
            .envs(variables.iter().copied());
        let daemon = Daemon::start(&mut command, port, scratch).expect("fulmar sshd");
        Self {
            daemon,
            user,
            password,
            _guest: guest,
        }
    }

    /// A connection that has exchanged nothing.
    #[must_use]
    pub fn connect(&self) -> Adversary<Tcp> {
        Adversary::new(Tcp::connect(self.daemon.port), Role::Client)
    }

    /// A connection that may authenticate.
    #[must_use]
    pub fn ready(&self) -> Adversary<Tcp> {
        let mut adversary = self.connect();
        adversary.exchange(&Offer::default());
        adversary.service();
        adversary
    }

    /// A connection that has logged in.
    #[must_use]
    pub fn logged_in(&self) -> Adversary<Tcp> {
        let mut adversary = self.ready();
        adversary.login_publickey(self.user.as_bytes(), &user_key());
        adversary
    }

    /// An honest login runs a command.
    ///
    /// # Panics
    /// If it does not.
    pub fn still_serves(&self) {
        let out = self.logged_in().run(0, b"echo still here");
        assert_eq!(
            String::from_utf8_lossy(&out),
            "still here\n",
            "{}",
            self.daemon.log()
        );
    }

    /// Checks that all processes of earlier connections have ended.
    ///
    /// # Panics
    /// If they have not.
    pub fn leaves_nothing_behind(&self) {
        self.daemon.comes_to_rest();
    }

    /// Checks that no process of the open connections has ever used more than 64 MiB.
    ///
    /// # Panics
    /// If one has, or there is no connection.
    pub fn stays_small(&self) {
        let processes = descendants(self.daemon.pid());
        assert!(!processes.is_empty(), "no connection is open");
        for pid in processes {
            let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) else {
                continue;
            };
            let peak: u64 = status
                .lines()
                .find_map(|line| line.strip_prefix("VmHWM:"))
                .and_then(|line| line.trim().trim_end_matches(" kB").parse().ok())
                .unwrap_or_default();
            assert!(peak < 64 * 1024, "process {pid} holds {peak} KiB: {status}");
        }
    }
}

/// Runs `fulmar ssh` against a lying server, which `script` plays on the first connection; returns
/// the client's output and exit status. Connections that the script leaves open are closed after
/// it.
///
/// # Panics
/// If the client does not start or does not end.
pub fn client_against(
    arguments: &[&str],
    script: impl FnOnce(&mut Adversary<Tcp>) + Send,
) -> Outcome {
    client_at(&Scratch::new(), arguments, script)
}

/// The same with a known_hosts file and an identity in `scratch`.
///
/// # Panics
/// As [`client_against`].
pub fn client_at(
    scratch: &Scratch,
    arguments: &[&str],
    script: impl FnOnce(&mut Adversary<Tcp>) + Send,
) -> Outcome {
    client_through(scratch, arguments, vec![Box::new(script)])
}

/// The behaviour of a lying server on one connection.
pub type Script<'s> = Box<dyn FnOnce(&mut Adversary<Tcp>) + Send + 's>;

/// The same with one script per connection, in their order; a further connection is refused.
///
/// # Panics
/// As [`client_against`], and if the client makes fewer connections.
pub fn client_through(scratch: &Scratch, arguments: &[&str], scripts: Vec<Script<'_>>) -> Outcome {
    program_through("ssh", scratch, arguments, scripts)
}

/// The same with another program: `scp` or `sftp`.
///
/// # Panics
/// As [`client_through`].
pub fn program_through(
    program: &str,
    scratch: &Scratch,
    arguments: &[&str],
    scripts: Vec<Script<'_>>,
) -> Outcome {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let port = listener
        .local_addr()
        .expect("an address")
        .port()
        .to_string();
    let identity = scratch.join("identity");
    if !identity.exists() {
        let text = keys::private_file::write_openssh(&user_key(), "adversary", None)
            .expect("a private key file");
        scratch.write("identity", text.as_bytes());
    }
    let option = |name: &str, value: &dyn std::fmt::Display| format!("-o{name}={value}");
    let mut command = Command::new(binary());
    command
        .args([program, "-F", "none", "-i"])
        .arg(&identity)
        .arg(option("Port", &port))
        .arg(option(
            "UserKnownHostsFile",
            &scratch.join("known_hosts").display(),
        ))
        .arg(option("GlobalKnownHostsFile", &"none"))
        .arg(option("BatchMode", &"yes"));
    // The first setting takes precedence.
    for (name, value) in [
        ("StrictHostKeyChecking", "accept-new"),
        ("IdentitiesOnly", "yes"),
        ("IdentityAgent", "none"),
    ] {
        let given = format!("-o{name}=");
        if !arguments.iter().any(|each| each.starts_with(&given)) {
            command.arg(given + value);
        }
    }
    command
        .env_remove("SSH_AUTH_SOCK")
        .env_remove("DISPLAY")
        .args(arguments);
    thread::scope(|scope| {
        let server = scope.spawn(move || {
            listener.set_nonblocking(true).expect("a listener");
            let mut scripts = scripts.into_iter().peekable();
            let mut listener = Some(listener);
            while let Some(script) = scripts.next() {
                let mut accepted = None;
                until(CLIENT_LIMIT, || {
                    accepted = listener.as_ref().and_then(|each| each.accept().ok());
                    accepted.is_some()
                });
                let (stream, _) = accepted.expect("the client connects");
                if scripts.peek().is_none() {
                    listener = None;
                }
                stream.set_nonblocking(false).expect("a blocking socket");
                let mut adversary = Adversary::new(Tcp::new(stream), Role::Server);
                script(&mut adversary);
            }
        });
        let outcome = run(&mut command, Input::Nothing, CLIENT_LIMIT).expect("the client ends");
        server.join().expect("the adversary's script");
        outcome
    })
}

/// Checks that `text` contains no control characters for a terminal.
///
/// # Panics
/// If it does.
pub fn assert_harmless(text: &str) {
    let bad = text
        .chars()
        .find(|c| c.is_control() && !['\n', '\r', '\t'].contains(c));
    assert_eq!(bad, None, "control character in {text:?}");
}

impl<V: Subject> Adversary<V> {
    /// Server: everything up to the login, which always succeeds.
    pub fn serve_login(&mut self) {
        self.exchange(&Offer::default());
        self.let_in();
    }
}
