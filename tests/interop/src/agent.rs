//! An agent with keys of the fixture, of OpenSSH or of Fulmar.

use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::fixture;
use crate::peers::ours::{self, Kind};
use crate::process::{Background, COMMAND_LIMIT, Input, installed};
use crate::report::skipped;
use crate::scratch::{Scratch, until};
use crate::site::finish;

/// The `agent` or `add` of a suite.
///
/// # Errors
/// If it is not installed.
pub fn program(of: Kind, name: &str) -> Result<Command, String> {
    match of {
        Kind::Fulmar => {
            let mut command = Command::new(ours::binary());
            command.arg(name);
            Ok(command)
        }
        Kind::OpenSsh => installed(&format!("ssh-{name}"))
            .map(Command::new)
            .ok_or_else(|| format!("ssh-{name} is not installed")),
    }
}

/// A running agent.
#[derive(Debug)]
pub struct RealAgent {
    /// Its socket.
    pub socket: PathBuf,
    _process: Background,
    scratch: Scratch,
}

impl RealAgent {
    /// Starts OpenSSH's agent with these user keys of the fixture; `None` if none is installed.
    ///
    /// # Panics
    /// If it does not start.
    #[must_use]
    pub fn start(keys: &[&str]) -> Option<Self> {
        Self::start_of(Kind::OpenSsh, keys)
    }

    /// As [`Self::start`], of either suite.
    ///
    /// # Panics
    /// If it does not start.
    #[must_use]
    pub fn start_of(of: Kind, keys: &[&str]) -> Option<Self> {
        let mut command = match program(of, "agent") {
            Ok(command) => command,
            Err(why) => {
                skipped("ssh-agent", &why);
                return None;
            }
        };
        let scratch = Scratch::new();
        let socket = scratch.join("agent");
        command
            .args(["-D", "-a"])
            .arg(&socket)
            .stdout(Stdio::null());
        let process = Background::start(&mut command).expect("an agent");
        assert!(until(COMMAND_LIMIT, || UnixStream::connect(&socket).is_ok()));
        let agent = Self {
            socket,
            _process: process,
            scratch,
        };
        agent.add(keys);
        Some(agent)
    }

    /// Adds these user keys of the fixture.
    ///
    /// # Panics
    /// If that fails.
    pub fn add(&self, keys: &[&str]) {
        self.add_files(keys.iter().map(|name| format!("user_{name}")));
    }

    /// Adds the keys of these files of the fixture.
    ///
    /// # Panics
    /// If that fails.
    pub fn add_files(&self, names: impl IntoIterator<Item = String>) {
        for name in names {
            let path = self.scratch.write(&name, fixture::text(&name));
            let mut add = program(Kind::OpenSsh, "add")
                .or_else(|_| program(Kind::Fulmar, "add"))
                .expect("an ssh-add");
            add.arg("-q").arg(path).env("SSH_AUTH_SOCK", &self.socket);
            let added = finish(&mut add, Input::Nothing);
            assert_eq!(added.status, 0, "{}", added.summary());
        }
    }

    /// The line of a client's configuration that selects this agent.
    #[must_use]
    pub fn line(&self) -> String {
        format!("IdentityAgent {}\n", self.socket.display())
    }
}
