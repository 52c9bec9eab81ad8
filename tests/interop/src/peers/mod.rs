//! The programs, with two common traits.

pub mod dropbear;
pub mod openssh;
pub mod ours;
pub mod putty;
pub mod python;
pub mod tunnel;
pub mod unstable;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::account::Guest;
use crate::fixture;
use crate::process::{Daemon, Input, Outcome};
use crate::suite::Algorithms;

/// The task of a client.
#[derive(Clone, Copy, Debug)]
pub struct Order<'a> {
    /// Port on 127.0.0.1.
    pub port: u16,
    /// Login name there.
    pub user: &'a str,
    /// Fixture's name of the key to log in with.
    pub identity: &'a str,
    /// The known_hosts file with the server's keys.
    pub known_hosts: &'a Path,
    /// The algorithms to offer.
    pub offer: &'a Algorithms,
    /// The command to run.
    pub command: &'a str,
    /// Its input.
    pub input: Input<'a>,
    /// Bytes between key exchanges.
    pub rekey_bytes: Option<u64>,
}

/// A program that logs in.
pub trait Client: Send + Sync {
    /// Its name in reports.
    fn name(&self) -> String;

    /// Its algorithms.
    ///
    /// # Errors
    /// One line with the reason why it is unavailable.
    fn offers(&self) -> Result<Algorithms, String>;

    /// True if its algorithms can be configured; else those of the server are.
    fn chooses(&self) -> bool;

    /// Logs in and runs one command.
    ///
    /// # Errors
    /// If there was no login or no exit status.
    fn run(&self, order: &Order<'_>) -> Result<Outcome, String>;
}

/// A server program.
pub trait Server: Send + Sync {
    /// Its name in reports.
    fn name(&self) -> String;

    /// Its algorithms.
    ///
    /// # Errors
    /// One line with the reason why it is unavailable.
    fn offers(&self) -> Result<Algorithms, String>;

    /// Number of simultaneous logins that one process supports.
    fn logins_at_once(&self) -> usize {
        usize::MAX
    }

    /// Starts it with the fixture's host keys and the algorithms `offer`, as far as it can be
    /// configured.
    ///
    /// # Errors
    /// If it does not start.
    fn start(&self, offer: &Algorithms, rekey_bytes: Option<u64>) -> Result<Running, String>;
}

/// A running server.
#[derive(Debug)]
pub struct Running {
    /// The process.
    pub daemon: Daemon,
    /// The user who can log in with the fixture's user keys.
    pub user: String,
    /// The known_hosts file with its host keys.
    pub known_hosts: PathBuf,
    /// The account, if it was made for this server.
    pub guest: Option<Guest>,
}

impl Running {
    /// A server of this machine's user.
    #[must_use]
    pub fn of_this_user(daemon: Daemon, known_hosts: PathBuf) -> Self {
        Self {
            daemon,
            user: crate::account::current_user(),
            known_hosts,
            guest: None,
        }
    }

    /// A task for this server.
    #[must_use]
    pub fn order<'a>(&'a self, offer: &'a Algorithms, command: &'a str) -> Order<'a> {
        Order {
            port: self.daemon.port,
            user: &self.user,
            identity: "user_ed25519",
            known_hosts: &self.known_hosts,
            offer,
            command,
            input: Input::Nothing,
            rekey_bytes: None,
        }
    }
}

/// The clients that log in to our server.
#[must_use]
pub fn foreign_clients() -> Vec<Arc<dyn Client>> {
    vec![
        Arc::new(openssh::Ssh(ours::Kind::OpenSsh)),
        Arc::new(dropbear::Dbclient),
        Arc::new(putty::Plink),
        Arc::new(python::PythonClient::new("asyncssh")),
        Arc::new(python::PythonClient::new("paramiko")),
    ]
}

/// The servers that our client logs in to.
#[must_use]
pub fn foreign_servers() -> Vec<Arc<dyn Server>> {
    vec![
        Arc::new(openssh::Sshd(ours::Kind::OpenSsh)),
        Arc::new(dropbear::Dropbear),
        Arc::new(python::AsyncsshServer),
    ]
}

/// Converts a fixture key once with a peer's converter, which gets the path of the output.
pub(crate) fn converted(
    key: &str,
    suffix: &str,
    convert: impl FnOnce(&Path, &Path) -> Result<String, String>,
) -> Result<PathBuf, String> {
    let path = fixture::file(&format!("{key}.{suffix}"));
    if path.is_file() {
        return Ok(path);
    }
    let thread = format!("{:?}", std::thread::current().id());
    let fresh = format!(
        "{key}.{suffix}.{}.{}",
        std::process::id(),
        crate::process::hex(thread.as_bytes())
    );
    let fresh = fixture::file(&fresh);
    convert(&fixture::file(key), &fresh)?;
    std::fs::rename(&fresh, &path).map_err(|error| error.to_string())?;
    Ok(path)
}
