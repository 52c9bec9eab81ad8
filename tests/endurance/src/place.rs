//! What stays for the whole run: the server, an agent, a master, and the targets of forwarded
//! connections.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use interop::agent::RealAgent;
use interop::fixture;
use interop::forwarded::{self, Does};
use interop::peers::ours::{self, Kind};
use interop::process::{Background, COMMAND_LIMIT, Input, Outcome, descendants};
use interop::random::Random;
use interop::scratch::{Scratch, until};
use interop::site::{HOST, Site, finish};
use rustix::process::Signal;

/// Lines of the server's configuration: no work meets a limit that another one has used up, and a client
/// that was killed is noticed within 30 s.
const SERVER: &str = "MaxStartups 1000\nPerSourcePenalties no\nClientAliveInterval 10\nSubsystem sftp internal-sftp\n";
/// Bytes of the file that is copied.
const FILE_BYTES: usize = 3 << 20;

/// The processes and files of a run.
pub(crate) struct Place {
    pub(crate) site: Site,
    pub(crate) scratch: Scratch,
    agent: RealAgent,
    agent_pid: u32,
    master: Background,
    config: PathBuf,
    /// The same without a key.
    keyless: PathBuf,
    /// Port of a target that sends back what it gets.
    pub(crate) echo: u16,
    /// A file to copy.
    pub(crate) file: PathBuf,
}

impl Place {
    /// Starts everything.
    ///
    /// # Panics
    /// If something does not start.
    pub(crate) fn new() -> Self {
        let site = Site::new(Kind::Fulmar, Kind::Fulmar, SERVER);
        let config = site.config("ControlPath none\n");
        let scratch = Scratch::new();
        let before = own_children();
        let agent = RealAgent::start_of(Kind::Fulmar, &["ed25519"]).expect("an agent");
        let is_new = |pid: &u32| !before.contains(pid);
        let agent_pid = own_children().into_iter().find(is_new).expect("an agent");
        let socket = scratch.join("master");
        let mut command = ssh_with(&config);
        command
            .args([
                "-M",
                "-N",
                "-o",
                &format!("ControlPath={}", socket.display()),
                HOST,
            ])
            .stdin(Stdio::null());
        let master = Background::start(&mut command).expect("a master");
        let listens = until(COMMAND_LIMIT, || UnixStream::connect(&socket).is_ok());
        assert!(listens, "the master does not listen");
        let text = std::fs::read_to_string(&config).expect("the configuration");
        let is_kept = |line: &&str| !line.starts_with("IdentityFile");
        let kept: Vec<&str> = text.lines().filter(is_kept).collect();
        let bytes = Random::of_case(1, 0).bytes(FILE_BYTES);
        Self {
            keyless: scratch.write("keyless", kept.join("\n")),
            file: scratch.write("file", bytes),
            echo: forwarded::target(Does::Echo),
            site,
            scratch,
            agent,
            agent_pid,
            master,
            config,
        }
    }

    /// Our ssh, configured for the server; the caller adds flags, [`HOST`] and a command.
    pub(crate) fn ssh(&self) -> Command {
        ssh_with(&self.config)
    }

    /// The same with this key file and no other.
    pub(crate) fn ssh_by(&self, key: &Path) -> Command {
        let mut command = ssh_with(&self.keyless);
        command.arg("-i").arg(key);
        command
    }

    /// Our keygen.
    pub(crate) fn keygen(&self) -> Command {
        let mut command = Command::new(ours::binary());
        command.arg("keygen");
        command
    }

    /// Another program of ours, configured the same way.
    pub(crate) fn program(&self, name: &str) -> Command {
        let mut command = Command::new(ours::binary());
        command.arg(name).arg("-F").arg(&self.config);
        command
    }

    /// Runs a command that must succeed.
    ///
    /// # Panics
    /// If it fails.
    pub(crate) fn succeeds(&self, command: &mut Command, input: &[u8]) -> Outcome {
        let outcome = finish(command, Input::Bytes(input));
        assert_eq!(outcome.status, 0, "{}", outcome.summary());
        outcome
    }

    /// The master's socket.
    pub(crate) fn master_socket(&self) -> PathBuf {
        self.scratch.join("master")
    }

    /// The agent's socket.
    pub(crate) fn agent_socket(&self) -> &Path {
        &self.agent.socket
    }

    /// Has the server read its configuration again.
    pub(crate) fn reload(&self) {
        self.site.running.daemon.signal(Signal::HUP);
    }

    /// The user's key.
    pub(crate) fn key(&self) -> PathBuf {
        fixture::file("user_ed25519")
    }

    /// Processes by name, each with everything below it: the listener, the agent and the master.
    pub(crate) fn processes(&self) -> [(&'static str, Vec<u32>); 3] {
        let whole = |root: u32| {
            let mut all = vec![root];
            all.extend(descendants(root));
            all
        };
        [
            ("server", whole(self.site.running.daemon.pid())),
            ("agent", whole(self.agent_pid)),
            ("master", whole(self.master.0.id())),
        ]
    }

    /// Waits until the number of the server's processes has not changed for 8 s, so that connections of
    /// killed clients have ended.
    pub(crate) fn server_is_at_rest(&self) {
        let mut last = 0;
        let mut steady = 0;
        until(Duration::from_secs(120), || {
            std::thread::sleep(Duration::from_millis(500));
            let count = descendants(self.site.running.daemon.pid()).len();
            steady = if count == last { steady + 1 } else { 0 };
            last = count;
            steady >= 16
        });
    }
}

fn ssh_with(config: &Path) -> Command {
    let mut command = Command::new(ours::binary());
    command.arg("ssh").arg("-F").arg(config);
    command
}

fn own_children() -> Vec<u32> {
    let own = std::process::id();
    let all = interop::process::processes();
    all.filter(|pid| interop::process::parent(*pid) == Some(own))
        .collect()
}
