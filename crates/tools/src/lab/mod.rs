//! A private server on a loopback port with fresh keys, ours or the OpenSSH of this machine,
//! and clients for it: what `demo` and `bench` work with. Needs no root and leaves nothing
//! behind.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use keys::{KeySpec, PresentedKey, PrivateKey};

/// How long a server may take to answer its port.
const START_LIMIT: Duration = Duration::from_secs(10);

/// A suite of programs that is measured.
#[derive(Debug, Clone)]
pub(crate) struct Suite {
    /// What tables call it.
    pub(crate) name: String,
    ssh: Vec<OsString>,
    sshd: Vec<OsString>,
}

impl Suite {
    /// The running binary.
    pub(crate) fn ours() -> io::Result<Self> {
        let own = std::env::current_exe()?.into_os_string();
        let program = |name: &str| vec![own.clone(), OsString::from(name)];
        Ok(Self {
            name: "Fulmar".into(),
            ssh: program("ssh"),
            sshd: program("sshd"),
        })
    }

    /// The OpenSSH of this machine, if client and server are installed; else why not.
    pub(crate) fn openssh() -> Result<Self, String> {
        Self::in_directories(
            "OpenSSH",
            &["/usr/bin", "/usr/local/bin", "/usr/sbin", "/usr/local/sbin"],
        )
    }

    /// A suite by the names of OpenSSH's programs in one directory or its `bin` and `sbin`.
    pub(crate) fn in_directory(name: &str, directory: &str) -> Result<Self, String> {
        let below = |part: &str| format!("{directory}/{part}");
        let (bin, sbin) = (below("bin"), below("sbin"));
        Self::in_directories(name, &[directory, &bin, &sbin])
    }

    fn in_directories(name: &str, directories: &[&str]) -> Result<Self, String> {
        let find = |program: &str| {
            directories
                .iter()
                .map(|directory| Path::new(directory).join(program))
                .find(|path| path.is_file())
                .map(|path| vec![path.into_os_string()])
                .ok_or_else(|| format!("{name}: no {program} in {}", directories.join(", ")))
        };
        let mut suite = Self {
            name: name.into(),
            ssh: find("ssh")?,
            sshd: find("sshd")?,
        };
        if let Ok(output) = suite.client(&["-V"]).stdin(Stdio::null()).output() {
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            if let Some(version) = text
                .split([',', ' '])
                .next()
                .filter(|text| !text.is_empty())
            {
                suite.name = version.trim().to_string();
            }
        }
        Ok(suite)
    }

    fn command(words: &[OsString]) -> Command {
        let mut words = words.iter();
        let mut command = Command::new(words.next().cloned().unwrap_or_default());
        command.args(words);
        command
    }

    fn client(&self, args: &[&str]) -> Command {
        let mut command = Self::command(&self.ssh);
        command.args(args);
        command
    }
}

/// A directory that goes away with its value.
#[derive(Debug)]
struct Directory(PathBuf);

impl Directory {
    fn new() -> io::Result<Self> {
        let random: [u8; 8] = crypto::random::bytes();
        let name: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let path = std::env::temp_dir().join(format!("fulmar-lab-{name}"));
        fs::create_dir(&path)?;
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o700))?;
        Ok(Self(path))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // A directory that cannot be removed is in the temporary directory: the system's broom
        // takes it.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A server at work, with what its clients need.
#[derive(Debug)]
pub(crate) struct Lab {
    directory: Directory,
    server: Child,
    port: u16,
    user: String,
}

fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

fn make_key(path: &Path) -> io::Result<()> {
    let key = PrivateKey::generate(KeySpec::Ed25519).map_err(io::Error::other)?;
    let text = keys::private_file::write_openssh(&key, "", None).map_err(io::Error::other)?;
    sys::file::write_private(path, text.as_ref())?;
    let public = PresentedKey::Plain(key.public().clone());
    fs::write(
        path.with_extension("pub"),
        keys::public_file::to_line(&public, "") + "\n",
    )
}

impl Lab {
    /// Starts the server of `suite`, with lines added to its configuration.
    pub(crate) fn start(suite: &Suite, server_lines: &str) -> io::Result<Self> {
        let directory = Directory::new()?;
        let path = |name: &str| directory.0.join(name);
        for name in ["host_key", "user_key"] {
            make_key(&path(name))?;
        }
        fs::copy(path("user_key.pub"), path("authorized_keys"))?;
        let host_public = fs::read_to_string(path("host_key.pub"))?;
        let port = free_port()?;
        fs::write(
            path("known_hosts"),
            format!("[127.0.0.1]:{port} {host_public}"),
        )?;
        let shown = directory.0.display();
        fs::write(
            path("sshd_config"),
            format!(
                "Port {port}\nListenAddress 127.0.0.1\nHostKey {shown}/host_key\n\
                 AuthorizedKeysFile {shown}/authorized_keys\nPidFile {shown}/pid\n\
                 StrictModes no\nUsePAM no\nPasswordAuthentication no\n\
                 KbdInteractiveAuthentication no\nPermitRootLogin prohibit-password\n\
                 LogLevel ERROR\nPrintMotd no\nPrintLastLog no\n{server_lines}\n"
            ),
        )?;
        fs::write(
            path("ssh_config"),
            format!(
                "Host *\n IdentityFile {shown}/user_key\n IdentitiesOnly yes\n IdentityAgent none\n\
                 UserKnownHostsFile {shown}/known_hosts\n GlobalKnownHostsFile /dev/null\n\
                 StrictHostKeyChecking yes\n BatchMode yes\n UpdateHostKeys no\n LogLevel ERROR\n"
            ),
        )?;
        let user = current_user()?;
        if sys::process::effective_uid() == 0 {
            // Where OpenSSH's server locks its unprivileged half in.
            fs::create_dir_all("/run/sshd")?;
        }
        let log = fs::File::create(path("server.log"))?;
        let server = Suite::command(&suite.sshd)
            .args(["-D", "-e", "-f"])
            .arg(path("sshd_config"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()?;
        let mut lab = Self {
            directory,
            server,
            port,
            user,
        };
        lab.wait_until_it_answers()?;
        Ok(lab)
    }

    fn wait_until_it_answers(&mut self) -> io::Result<()> {
        let end = Instant::now() + START_LIMIT;
        loop {
            if TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
                return Ok(());
            }
            let ended = self.server.try_wait()?.is_some();
            if ended || Instant::now() > end {
                let log =
                    fs::read_to_string(self.directory.0.join("server.log")).unwrap_or_default();
                return Err(io::Error::other(format!(
                    "the server did not start: {}",
                    log.trim()
                )));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// What the server logged.
    pub(crate) fn server_log(&self) -> String {
        fs::read_to_string(self.directory.0.join("server.log")).unwrap_or_default()
    }

    /// A client of `suite` for this server: options, then the destination, then `command`.
    pub(crate) fn client(&self, suite: &Suite, options: &[&str], command: &str) -> Command {
        let mut client = Suite::command(&suite.ssh);
        client
            .arg("-F")
            .arg(self.directory.0.join("ssh_config"))
            .args(["-p", &self.port.to_string()])
            .args(options)
            .arg(format!("{}@127.0.0.1", self.user));
        if !command.is_empty() {
            client.arg(command);
        }
        client
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
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
