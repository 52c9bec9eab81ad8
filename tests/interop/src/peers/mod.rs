//! The programs, each behind the same two traits.

pub mod dropbear;
pub mod openssh;
pub mod ours;
pub mod putty;
pub mod python;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::account::Guest;
use crate::fixture;
use crate::process::{Daemon, Input, Outcome};
use crate::suite::Algorithms;

/// What a client is to do.
#[derive(Clone, Copy, Debug)]
pub struct Order<'a> {
    /// Port on 127.0.0.1.
    pub port: u16,
    /// Login name there.
    pub user: &'a str,
    /// Fixture's name of the key to log in with.
    pub identity: &'a str,
    /// File in which the server's keys are known.
    pub known_hosts: &'a Path,
    /// The names to offer.
    pub offer: &'a Algorithms,
    /// The command to run.
    pub command: &'a str,
    /// What to send it.
    pub input: Input<'a>,
    /// Change keys after so many bytes.
    pub rekey_bytes: Option<u64>,
}

/// A program that logs in.
pub trait Client: Send + Sync {
    /// Its name in reports.
    fn name(&self) -> String;

    /// What it can do.
    ///
    /// # Errors
    /// One line saying why it cannot be had.
    fn offers(&self) -> Result<Algorithms, String>;

    /// Whether it can be told what to offer; else the server must be told.
    fn chooses(&self) -> bool;

    /// Logs in and runs one command.
    ///
    /// # Errors
    /// When there was no login or no exit status.
    fn run(&self, order: &Order<'_>) -> Result<Outcome, String>;
}

/// A program that lets others log in.
pub trait Server: Send + Sync {
    /// Its name in reports.
    fn name(&self) -> String;

    /// What it can do.
    ///
    /// # Errors
    /// One line saying why it cannot be had.
    fn offers(&self) -> Result<Algorithms, String>;

    /// How many logins may go to one process of it at the same time.
    fn logins_at_once(&self) -> usize {
        usize::MAX
    }

    /// Starts it with the fixture's host keys, offering `offer` (as far as it can be told).
    ///
    /// # Errors
    /// When it does not start.
    fn start(&self, offer: &Algorithms, rekey_bytes: Option<u64>) -> Result<Running, String>;
}

/// A server under way.
#[derive(Debug)]
pub struct Running {
    /// The process.
    pub daemon: Daemon,
    /// Who can log in with the fixture's user keys.
    pub user: String,
    /// Where its host keys are known.
    pub known_hosts: PathBuf,
    /// The account, when it was made for this server.
    pub guest: Option<Guest>,
}

impl Running {
    /// An order for this server.
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

/// Makes a file from a fixture key by a peer's converter, once; the converter is given the path
/// to write.
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
