//! A running server and a client that is configured for it: the base of the tests by topic.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::account::is_root;
use crate::peers::ours::{self, Kind, couples};
use crate::peers::{Running, openssh};
use crate::process::{COMMAND_LIMIT, Input, Outcome, installed, quoted_command_line, run};
use crate::report::{panic_text, skipped};
use crate::scratch::Scratch;

/// The server's name in a client's configuration.
pub const HOST: &str = "target";

const OPENSSH_SFTP_SERVER: &str = "/usr/lib/openssh/sftp-server";

/// One server and one kind of client.
#[derive(Debug)]
pub struct Site {
    /// The suite of the client.
    pub client: Kind,
    /// The server.
    pub running: Running,
}

impl Site {
    /// A server whose configuration starts with `extra`.
    ///
    /// # Panics
    /// When it does not start.
    #[must_use]
    pub fn new(client: Kind, server: Kind, extra: &str) -> Self {
        let running = openssh::start(server, extra).unwrap_or_else(|why| panic!("{why}"));
        Self { client, running }
    }

    /// A server with `extra` before and a Match block after the rest, the files of both in
    /// `scratch`.
    ///
    /// # Panics
    /// When it does not start.
    #[must_use]
    pub fn with_match(client: Kind, server: Kind, extra: &str, blocks: &str) -> Self {
        let scratch = Scratch::new();
        let config = format!(
            "{extra}{}{blocks}",
            openssh::server_config(server, &scratch)
        );
        let running =
            openssh::start_with(server, scratch, &config).unwrap_or_else(|why| panic!("{why}"));
        Self { client, running }
    }

    /// The client's configuration with `extra` before the rest.
    #[must_use]
    pub fn config(&self, extra: &str) -> PathBuf {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let running = &self.running;
        let text = format!(
            "{extra}Host {HOST}\nHostName 127.0.0.1\nPort {}\nUser {}\nHost *\n{}",
            running.daemon.port,
            running.user,
            openssh::client_config(&running.known_hosts, "user_ed25519")
        );
        self.running
            .daemon
            .scratch()
            .write(&format!("ssh_config.{number}"), text)
    }

    /// The client with its configuration, `extra` first; the caller adds arguments.
    ///
    /// # Panics
    /// If the client is not installed.
    #[must_use]
    pub fn ssh(&self, extra: &str) -> Command {
        let mut command = self.client.ssh().unwrap_or_else(|why| panic!("{why}"));
        command.arg("-F").arg(self.config(extra));
        command
    }

    /// Logs in with this key file and no other, `extra` configuration first, and says `in` there.
    ///
    /// # Panics
    /// If the client is not installed or hangs.
    #[must_use]
    pub fn login_with(&self, extra: &str, key: &Path) -> Outcome {
        // Further IdentityFile lines add to the first one, so the fixture's is left out.
        let config = self.config(extra);
        let text = std::fs::read_to_string(&config).expect("the configuration");
        let kept: String = text
            .lines()
            .filter(|line| !line.starts_with("IdentityFile"))
            .map(|line| format!("{line}\n"))
            .collect();
        let text = format!("IdentityFile {}\n{kept}", key.display());
        std::fs::write(&config, text).expect("the configuration");
        let mut command = self.client.ssh().unwrap_or_else(|why| panic!("{why}"));
        command.arg("-F").arg(config).args([HOST, "echo in"]);
        finish(&mut command, Input::Nothing)
    }

    /// Runs a command there.
    ///
    /// # Panics
    /// If the client hangs.
    #[must_use]
    pub fn run(&self, command: &str) -> Outcome {
        self.run_with("", &[HOST, command], Input::Nothing)
    }

    /// Runs the client with `extra` configuration and these arguments.
    ///
    /// # Panics
    /// If the client hangs.
    #[must_use]
    pub fn run_with(&self, extra: &str, arguments: &[&str], input: Input<'_>) -> Outcome {
        finish(self.ssh(extra).args(arguments), input)
    }

    /// An executable that runs this client with its configuration, for programs that start one.
    ///
    /// # Panics
    /// When it cannot be written.
    #[must_use]
    pub fn wrapper(&self) -> PathBuf {
        let command = self.ssh("");
        let words = quoted_command_line(&command);
        let text = format!("#!/bin/sh\nexec {} \"$@\"\n", words);
        let path = self.running.daemon.scratch().write("client.sh", text);
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&path, mode).expect("an executable");
        path
    }
}

/// Our `name` (`scp`, `sftp`), configured for the site's server; the caller adds arguments.
#[must_use]
pub fn program(site: &Site, name: &str) -> Command {
    let mut command = Command::new(ours::binary());
    command.arg(name).arg("-F").arg(site.config(""));
    command
}

/// A program that gives these answers in order, and writes the questions, one per line, to
/// `askpass.asked` in `scratch`.
///
/// # Panics
/// When it cannot be written.
#[must_use]
pub fn askpass(scratch: &Scratch, answers: &[&str]) -> PathBuf {
    let lines: String = answers.iter().map(|line| format!("{line}\n")).collect();
    scratch.write("askpass.answers", lines);
    let script = "#!/bin/sh\n\
        printf '%s' \"$1\" | tr '\\n' ' ' >>\"$0.asked\"\n\
        echo >>\"$0.asked\"\n\
        sed -n \"$(wc -l <\"$0.asked\")p\" \"$0.answers\"\n";
    let path = scratch.write("askpass", script);
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(&path, mode).expect("an executable");
    path
}

/// Runs our `scp` with these arguments.
#[must_use]
pub fn scp(site: &Site, arguments: &[&str]) -> Outcome {
    finish(program(site, "scp").args(arguments), Input::Nothing)
}

/// A path on the server, as an argument of `scp`.
#[must_use]
pub fn there(path: &Path) -> String {
    format!("{HOST}:{}", path.display())
}

/// A local path.
#[must_use]
pub fn here(path: &Path) -> String {
    path.display().to_string()
}

/// Runs a command that must end by itself.
///
/// # Panics
/// If it does not, or cannot be started.
pub fn finish(command: &mut Command, input: Input<'_>) -> Outcome {
    run(command, input, COMMAND_LIMIT).unwrap_or_else(|why| panic!("{command:?}: {why}"))
}

/// Our client with each SFTP server, by name: our `internal-sftp`, and OpenSSH's sshd with its
/// `sftp-server` if they are installed.
///
/// # Panics
/// If a server does not start.
#[must_use]
pub fn sftp_sites() -> Vec<(&'static str, Site)> {
    let site = |server, command: &str| {
        let lines = format!("Subsystem sftp {command}\n");
        Site::new(Kind::Fulmar, server, &lines)
    };
    let mut sites = vec![("ours", site(Kind::Fulmar, "internal-sftp"))];
    if installed("sshd").is_some() && Path::new(OPENSSH_SFTP_SERVER).exists() {
        sites.push(("openssh's", site(Kind::OpenSsh, OPENSSH_SFTP_SERVER)));
    } else {
        skipped("openssh's SFTP server", &"not installed");
    }
    sites
}

/// Runs a test for every pair of client and server with at least one of ours, and fails with all
/// failures.
///
/// # Panics
/// If the test fails for any of them.
pub fn each(test: impl Fn(Kind, Kind)) {
    let mut failed = Vec::new();
    for (client, server) in couples() {
        let result = catch_unwind(AssertUnwindSafe(|| test(client, server)));
        if let Err(payload) = result {
            failed.push(format!(
                "{} ssh -> {} sshd: {}",
                client.name(),
                server.name(),
                panic_text(payload.as_ref())
            ));
        }
    }
    assert!(failed.is_empty(), "\n{}", failed.join("\n"));
}

/// [`each`] for the servers that give terminals to those who run these tests.
///
/// # Panics
/// If the test fails for any of them.
pub fn each_with_terminals(test: impl Fn(Kind, Kind)) {
    each(|client, server| {
        if terminals(server) {
            test(client, server);
        }
    });
}

/// True if this server can give a terminal to the user who started it: OpenSSH's can only as root.
#[must_use]
pub fn terminals(server: Kind) -> bool {
    let can = server == Kind::Fulmar || is_root();
    if !can {
        skipped("terminals of openssh sshd", &"needs root");
    }
    can
}
