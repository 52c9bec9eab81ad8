//! OpenSSH's `ssh-agent` with keys of the fixture.

use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::fixture;
use crate::process::{Background, COMMAND_LIMIT, Input, installed};
use crate::report::skipped;
use crate::scratch::{Scratch, until};
use crate::site::finish;

/// A running agent.
#[derive(Debug)]
pub struct RealAgent {
    /// Its socket.
    pub socket: PathBuf,
    _process: Background,
    _scratch: Scratch,
}

impl RealAgent {
    /// Starts an agent that holds these user keys of the fixture; `None` if none is installed.
    ///
    /// # Panics
    /// If it does not start.
    #[must_use]
    pub fn start(keys: &[&str]) -> Option<Self> {
        let Some(program) = installed("ssh-agent") else {
            skipped("ssh-agent", &"not installed");
            return None;
        };
        let scratch = Scratch::new();
        let socket = scratch.join("agent");
        let mut command = Command::new(&program);
        command
            .args(["-D", "-a"])
            .arg(&socket)
            .stdout(Stdio::null());
        let process = Background::start(&mut command).expect("ssh-agent");
        assert!(until(COMMAND_LIMIT, || UnixStream::connect(&socket).is_ok()));
        let mut add = Command::new("ssh-add");
        add.args(["-q"]).env("SSH_AUTH_SOCK", &socket);
        for name in keys {
            add.arg(scratch.write(name, fixture::text(&format!("user_{name}"))));
        }
        let added = finish(&mut add, Input::Nothing);
        assert_eq!(added.status, 0, "{}", added.summary());
        Some(Self {
            socket,
            _process: process,
            _scratch: scratch,
        })
    }

    /// The line of a client's configuration that selects this agent.
    #[must_use]
    pub fn line(&self) -> String {
        format!("IdentityAgent {}\n", self.socket.display())
    }
}
