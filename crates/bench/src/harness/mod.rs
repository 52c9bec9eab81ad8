//! A private server with fresh keys, Fulmar's or a peer's, and its clients, for `demo` and `bench`.
//! Needs no root and leaves no files or processes.

mod account;
mod place;
mod server;
mod suite;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use keys::{KeySpec, PresentedKey, PrivateKey};

pub(crate) use place::ServerHost;
use server::BenchServer;
pub(crate) use server::{Cost, Tree};
pub(crate) use suite::{Suite, SuiteKind, Wishes, program};

/// The user's key in dropbear's format.
const DROPBEAR_KEY: &str = "user_key.dropbear";

/// A directory that goes away with its value.
#[derive(Debug)]
pub(crate) struct Directory(PathBuf);

impl Directory {
    /// A new one, for this user alone.
    pub(crate) fn new(parent: &Path) -> io::Result<Self> {
        let random: [u8; 8] = crypto::random::bytes();
        let name: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let path = parent.join(format!("fulmar-harness-{name}"));
        fs::create_dir(&path)?;
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o700))?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // A directory that cannot be removed is in the temporary directory: the system's broom
        // takes it.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Keys and configuration of one server, with what its clients need. The server itself comes and
/// goes.
#[derive(Debug)]
pub(crate) struct Harness {
    directory: Directory,
    suite: Suite,
    place: ServerHost,
    server: Option<BenchServer>,
    port: u16,
    user: String,
}

fn make_key(path: &Path, spec: KeySpec) -> io::Result<()> {
    let key = PrivateKey::generate(spec).map_err(io::Error::other)?;
    let text = keys::private_file::write_openssh(&key, "", None).map_err(io::Error::other)?;
    sys::file::write_private(path, text.as_ref())?;
    let public = PresentedKey::Plain(key.public().clone());
    fs::write(
        path.with_extension("pub"),
        keys::public_file::to_line(&public, "") + "\n",
    )
}

impl Harness {
    /// Starts the server of `suite` on the loopback, with lines added to its configuration.
    pub(crate) fn start(suite: &Suite, server_lines: &str) -> io::Result<Self> {
        let mut harness = Self::new(suite, &ServerHost::here(), server_lines)?;
        harness.serve()?;
        Ok(harness)
    }

    /// Prepares a server of `suite` at `place`, with lines added to its configuration.
    pub(crate) fn new(suite: &Suite, place: &ServerHost, server_lines: &str) -> io::Result<Self> {
        Self::with_host_key(KeySpec::Ed25519, suite, place, server_lines)
    }

    /// As [`Harness::new`], with a host key of this kind.
    pub(crate) fn with_host_key(
        host_key: KeySpec,
        suite: &Suite,
        place: &ServerHost,
        server_lines: &str,
    ) -> io::Result<Self> {
        let directory = Directory::new(&std::env::temp_dir())?;
        let path = |name: &str| directory.path().join(name);
        make_key(&path("host_key"), host_key)?;
        make_key(&path("user_key"), KeySpec::Ed25519)?;
        fs::copy(path("user_key.pub"), path("authorized_keys"))?;
        let host_public = fs::read_to_string(path("host_key.pub"))?;
        let address = place.address();
        let port = place.run(sys::socket::free_port)??;
        fs::write(
            path("known_hosts"),
            format!("[{address}]:{port} {host_public}"),
        )?;
        let shown = directory.path().display();
        fs::write(
            path("sshd_config"),
            format!(
                "Port {port}\nListenAddress {address}\nHostKey {shown}/host_key\n\
                 AuthorizedKeysFile {shown}/authorized_keys\nPidFile {shown}/pid\n\
                 StrictModes no\nUsePAM no\nPasswordAuthentication no\n\
                 KbdInteractiveAuthentication no\nPermitRootLogin prohibit-password\n\
                 LogLevel ERROR\nPrintMotd no\nPrintLastLog no\n{server_lines}\n"
            ),
        )?;
        fs::write(
            path("ssh_config"),
            format!(
                "IgnoreUnknown ObscureKeystrokeTiming,CryptoThreads\n\
                 Host *\n IdentityFile {shown}/user_key\n IdentitiesOnly yes\n IdentityAgent none\n\
                 UserKnownHostsFile {shown}/known_hosts\n GlobalKnownHostsFile /dev/null\n\
                 StrictHostKeyChecking yes\n BatchMode yes\n UpdateHostKeys no\n LogLevel ERROR\n\
                 ObscureKeystrokeTiming no\n"
            ),
        )?;
        if let Some(account) = place.account() {
            // The only file that dropbear looks into.
            let mut known = fs::File::options()
                .create(true)
                .append(true)
                .open(account.home().join(".ssh/authorized_keys"))?;
            known.write_all(&fs::read(path("user_key.pub"))?)?;
        }
        let user = current_user()?;
        if sys::process::effective_uid() == 0 {
            // Where OpenSSH's server locks its unprivileged half in.
            fs::create_dir_all("/run/sshd")?;
        }
        Ok(Self {
            directory,
            suite: suite.clone(),
            place: place.clone(),
            server: None,
            port,
            user,
        })
    }

    /// Starts the server, if it does not run, and waits until it listens.
    pub(crate) fn serve(&mut self) -> io::Result<()> {
        if self.server.is_none() {
            let log = fs::File::create(self.directory.path().join("server.log"))?;
            let mut command = self.server_command()?;
            command
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(log);
            let started = BenchServer::start(&self.place, command, self.port)
                .map_err(|error| io::Error::other(format!("{error}; {}", self.server_log())))?;
            self.server = Some(started);
        }
        Ok(())
    }

    fn server_command(&self) -> io::Result<Command> {
        let path = |name: &str| self.directory.path().join(name);
        let mut command = self.suite.server();
        if self.suite.kind != SuiteKind::Dropbear {
            command.args(["-D", "-e", "-f"]).arg(path("sshd_config"));
            return Ok(command);
        }
        if self.place.account().is_none() {
            let why = "dropbear looks for keys in the user's own home: needs root";
            return Err(io::Error::other(why));
        }
        self.suite
            .convert_key(&path("host_key"), &path("host_key.dropbear"))?;
        command
            .args(["-F", "-E", "-m", "-s", "-P"])
            .arg(path("pid"))
            .arg("-r")
            .arg(path("host_key.dropbear"))
            .args(["-p", &self.address().to_string()]);
        Ok(command)
    }

    /// Ends the server once its connections have ended, and gives the CPU time that they cost:
    /// everything since it listened. Zero when none runs.
    pub(crate) fn stop(&mut self) -> io::Result<Duration> {
        Ok(self.stop_and_count()?.cpu)
    }

    /// As [`Harness::stop`], with the memory.
    pub(crate) fn stop_and_count(&mut self) -> io::Result<Cost> {
        match self.server.take() {
            Some(server) => server.finish(),
            None => Ok(Cost::default()),
        }
    }

    /// The server that runs, by its process.
    pub(crate) fn server_pid(&self) -> Option<u32> {
        self.server.as_ref().map(BenchServer::pid)
    }

    /// The address and port of the server.
    pub(crate) fn address(&self) -> std::net::SocketAddr {
        (self.place.address(), self.port).into()
    }

    /// What the server logged.
    pub(crate) fn server_log(&self) -> String {
        let text = fs::read_to_string(self.directory.path().join("server.log"));
        text.unwrap_or_default().trim().to_string()
    }

    /// `why` a client failed; if it gives no reason after a colon, with the server's last log line.
    pub(crate) fn complaint(&self, why: String) -> String {
        match self.server_log().lines().last() {
            Some(line) if !why.contains(": ") => format!("{why}; the server: {line}"),
            _ => why,
        }
    }

    /// The client's configuration file.
    pub(crate) fn client_config(&self) -> PathBuf {
        self.directory.path().join("ssh_config")
    }

    /// `user@address`, as clients of this server want it.
    pub(crate) fn destination(&self) -> String {
        format!("{}@{}", self.user, self.place.address())
    }

    /// The user who logs in.
    pub(crate) fn user(&self) -> &str {
        &self.user
    }

    /// A file of the lab: `known_hosts`, `user_key`.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A client of `suite` (which was admitted) for this server: options, then the destination,
    /// then `command`.
    pub(crate) fn client(&self, suite: &Suite, options: &[&str], command: &str) -> Command {
        let mut client = suite.client();
        if suite.kind == SuiteKind::Dropbear {
            let home = self.directory.path();
            client
                .env("HOME", home)
                .arg("-T")
                .arg("-i")
                .arg(home.join(DROPBEAR_KEY));
        } else {
            client.arg("-F").arg(self.client_config());
        }
        client
            .args(["-p", &self.port.to_string()])
            .args(options)
            .arg(self.destination());
        if !command.is_empty() {
            client.arg(command);
        }
        client
    }

    /// Prepares what clients of `suite` need beyond the configuration file: dbclient, which has
    /// none, a home and a key in its own format.
    pub(crate) fn admit(&self, suite: &Suite) -> io::Result<()> {
        if suite.kind != SuiteKind::Dropbear {
            return Ok(());
        }
        let home = self.directory.path();
        suite.convert_key(&home.join("user_key"), &home.join(DROPBEAR_KEY))?;
        fs::create_dir_all(home.join(".ssh"))?;
        // It knows hosts without ports, and takes a comment for a part of the key.
        let line = fs::read_to_string(home.join("host_key.pub"))?;
        let key: Vec<&str> = line.split_ascii_whitespace().take(2).collect();
        let known = format!("{} {}\n", self.place.address(), key.join(" "));
        fs::write(home.join(".ssh/known_hosts"), known)
    }
}

fn current_user() -> io::Result<String> {
    sys::users::by_uid(sys::process::effective_uid())?
        .map(|user| user.name)
        .ok_or_else(|| io::Error::other("the user who runs this has no passwd entry"))
}

/// Runs `command`; gives its output and the time from start to exit.
pub(crate) fn timed(
    mut command: Command,
    input: &[u8],
) -> io::Result<(std::process::Output, Duration)> {
    let begun = Instant::now();
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // A command that reads nothing may be gone by now.
        let _ = stdin.write_all(input);
    }
    let output = child.wait_with_output()?;
    Ok((output, begun.elapsed()))
}

/// Our own binary's path, quoted for a shell.
pub(crate) fn own_binary_quoted() -> io::Result<String> {
    let path = std::env::current_exe()?;
    Ok(format!(
        "'{}'",
        path.display().to_string().replace('\'', "'\\''")
    ))
}
