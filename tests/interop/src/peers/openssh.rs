//! `ssh` and `sshd`, both OpenSSH's and Fulmar's, with the same flags and files.

use std::path::Path;
use std::sync::OnceLock;

use wire::algorithms::{CLIENT_HOST_KEYS, KNOWN_CIPHERS, KNOWN_KEX, KNOWN_MACS};

use super::ours::Kind;
use super::{Client, Order, Running, Server};
use crate::fixture::{self, KEY_TYPES};
use crate::process::{COMMAND_LIMIT, Daemon, Input, Outcome, run};
use crate::scratch::{Scratch, free_port};
use crate::suite::Algorithms;

/// The client.
#[derive(Clone, Copy, Debug)]
pub struct Ssh(pub Kind);

/// The server.
#[derive(Clone, Copy, Debug)]
pub struct Sshd(pub Kind);

impl Client for Ssh {
    fn name(&self) -> String {
        format!("{} ssh", self.0.name())
    }

    fn offers(&self) -> Result<Algorithms, String> {
        query(self.0)
    }

    fn chooses(&self) -> bool {
        true
    }

    fn run(&self, order: &Order<'_>) -> Result<Outcome, String> {
        let scratch = Scratch::new();
        let mut config = client_config(order.known_hosts, order.identity);
        config.push_str(&algorithm_lines(order.offer, true));
        if let Some(bytes) = order.rekey_bytes {
            config.push_str(&format!("RekeyLimit {bytes}\n"));
        }
        let file = scratch.write("ssh_config", config);
        let mut command = self.0.ssh()?;
        command.arg("-F").arg(file).args([
            "-p",
            &order.port.to_string(),
            "-l",
            order.user,
            "127.0.0.1",
            order.command,
        ]);
        run(&mut command, order.input, COMMAND_LIMIT).map_err(|error| error.to_string())
    }
}

impl Server for Sshd {
    fn name(&self) -> String {
        format!("{} sshd", self.0.name())
    }

    fn offers(&self) -> Result<Algorithms, String> {
        query(self.0)
    }

    fn start(&self, offer: &Algorithms, rekey_bytes: Option<u64>) -> Result<Running, String> {
        let mut extra = algorithm_lines(offer, false);
        if let Some(bytes) = rekey_bytes {
            extra.push_str(&format!("RekeyLimit {bytes}\n"));
        }
        start(self.0, &extra)
    }
}

/// Lists from `ssh -Q`, with the names that Fulmar knows in its order of preference: `ssh -Q` lists them
/// in OpenSSH's, which begins with the weakest.
fn query(kind: Kind) -> Result<Algorithms, String> {
    let list = |what: &str, preferred: &[&str]| -> Result<Vec<String>, String> {
        let mut command = kind.ssh()?;
        command.args(["-Q", what]);
        let outcome =
            run(&mut command, Input::Nothing, COMMAND_LIMIT).map_err(|e| e.to_string())?;
        if outcome.status != 0 || outcome.stdout.length == 0 {
            return Err(format!("ssh -Q {what}: {}", outcome.summary()));
        }
        let text = outcome.stdout.text();
        let mut names: Vec<String> = text.lines().map(|line| line.trim().to_owned()).collect();
        if kind == Kind::Fulmar && !preferred.is_empty() {
            names.retain(|name| preferred.contains(&name.as_str()));
            names.sort_by_key(|name| preferred.iter().position(|known| known == name));
        }
        Ok(names)
    };
    let algorithms = Algorithms {
        kex: list("kex", KNOWN_KEX)?,
        host_keys: list("HostKeyAlgorithms", CLIENT_HOST_KEYS)?,
        ciphers: list("cipher", KNOWN_CIPHERS)?,
        macs: list("mac", KNOWN_MACS)?,
        compression: list("compression", &[])?,
    };
    Ok(fixture::with_host_keys(algorithms.usable()))
}

/// Configuration lines for lists of algorithms.
#[must_use]
pub fn algorithm_lines(offer: &Algorithms, client: bool) -> String {
    let mut lines = String::new();
    let mut list = |keyword: &str, names: &[String]| {
        if !names.is_empty() {
            lines.push_str(&format!("{keyword} {}\n", names.join(",")));
        }
    };
    list("KexAlgorithms", &offer.kex);
    list("HostKeyAlgorithms", &offer.host_keys);
    list("Ciphers", &offer.ciphers);
    list("MACs", &offer.macs);
    let is_ours = |name: &String| name.starts_with("zstd2@");
    let compression = match offer.compression.as_slice() {
        [only] if is_ours(only) => "zstd",
        [only] if only != "none" => "yes",
        // A server offers all, and the client selects.
        names if !client && names.len() > 1 => {
            if names.iter().any(is_ours) {
                "zstd"
            } else {
                "yes"
            }
        }
        _ => "no",
    };
    lines.push_str(&format!("Compression {compression}\n"));
    lines
}

/// A client's configuration that uses no files of the user.
#[must_use]
pub fn client_config(known_hosts: &Path, identity: &str) -> String {
    format!(
        "UserKnownHostsFile {}\n\
         GlobalKnownHostsFile /dev/null\n\
         StrictHostKeyChecking yes\n\
         UpdateHostKeys no\n\
         IdentityFile {}\n\
         IdentitiesOnly yes\n\
         IdentityAgent none\n\
         BatchMode yes\n\
         ControlPath none\n\
         LogLevel ERROR\n",
        known_hosts.display(),
        fixture::file(identity).display()
    )
}

/// A server's configuration, without port: every host key and certificate of the fixture, every
/// user key in the file `authorized_keys` beside it. (SHLVL prevents bash from reading the user's
/// own `.bashrc`, which it does for the outermost shell of an SSH session.)
#[must_use]
pub fn server_config(kind: Kind, scratch: &Scratch) -> String {
    scratch.write("authorized_keys", fixture::authorized_keys());
    let mut config = format!(
        "ListenAddress 127.0.0.1\n\
         PidFile none\n\
         AuthorizedKeysFile {}\n\
         StrictModes no\n\
         UsePAM no\n\
         PasswordAuthentication no\n\
         KbdInteractiveAuthentication no\n\
         PermitRootLogin prohibit-password\n\
         MaxStartups 1000\n\
         PrintLastLog no\n\
         PrintMotd no\n\
         SetEnv SHLVL=1\n",
        scratch.join("authorized_keys").display()
    );
    if kind == Kind::Fulmar {
        // Processes below the listener belong to connections.
        config.push_str("PreauthSpares 0\n");
    }
    if kind == Kind::Fulmar || knows_penalties() {
        // Tests of these settings have their own.
        config.push_str("PerSourcePenalties no\n");
    }
    for (name, _, _) in KEY_TYPES {
        let key = fixture::file(&format!("host_{name}"));
        let path = key.display();
        config.push_str(&format!(
            "HostKey {path}\nHostCertificate {path}-cert.pub\n"
        ));
    }
    config
}

/// True if the installed OpenSSH has penalties per source, as since 9.8.
fn knows_penalties() -> bool {
    static KNOWS: OnceLock<bool> = OnceLock::new();
    *KNOWS.get_or_init(|| {
        let said = Kind::OpenSsh
            .ssh()
            .ok()
            .and_then(|mut ssh| ssh.arg("-V").output().ok());
        let text = said.map_or_else(Vec::new, |output| output.stderr);
        let text = String::from_utf8_lossy(&text).into_owned();
        let version = text.strip_prefix("OpenSSH_").unwrap_or_default();
        let mut numbers = version
            .split(|letter: char| !letter.is_ascii_digit())
            .map_while(|number| number.parse::<u32>().ok());
        (numbers.next(), numbers.next()) >= (Some(9), Some(8))
    })
}

/// Starts a server of this kind with `extra` before the rest of its configuration (the first
/// value of a keyword wins), for the user whom the test runs as.
///
/// # Errors
/// When it does not start.
pub fn start(kind: Kind, extra: &str) -> Result<Running, String> {
    let scratch = Scratch::new();
    let config = format!("{extra}{}", server_config(kind, &scratch));
    start_with(kind, scratch, &config)
}

/// Starts a server of this kind with exactly `config`.
///
/// # Errors
/// When it does not start.
pub fn start_with(kind: Kind, scratch: Scratch, config: &str) -> Result<Running, String> {
    let command = kind.sshd()?;
    start_by(command, kind, scratch, config)
}

/// The same with files or directories that replace those of the machine for this server only: each
/// `(theirs, its own)`.
///
/// # Errors
/// If it does not start, or there are no mount namespaces.
pub fn start_beside(
    kind: Kind,
    scratch: Scratch,
    config: &str,
    places: &[(&Path, &Path)],
) -> Result<Running, String> {
    const SCRIPT: &str = "while [ \"$1\" != -- ]; do mount --bind \"$1\" \"$2\" || exit; shift 2; done; \
                          shift; exec \"$@\"";
    let command = in_mount_namespace(kind, SCRIPT, &[], places)?;
    start_by(command, kind, scratch, config)
}

/// The server of this kind in a mount namespace that `script` prepares from `arguments` and
/// `places`.
pub(crate) fn in_mount_namespace(
    kind: Kind,
    script: &str,
    arguments: &[&Path],
    places: &[(&Path, &Path)],
) -> Result<std::process::Command, String> {
    let sshd = kind.sshd()?;
    let mut command = std::process::Command::new("unshare");
    command
        .args(["--mount", "sh", "-c", script, "sh"])
        .args(arguments);
    for (theirs, own) in places {
        command.arg(theirs).arg(own);
    }
    command
        .arg("--")
        .arg(sshd.get_program())
        .args(sshd.get_args());
    Ok(command)
}

/// Starts this program, which is a server of this kind, with exactly `config`.
///
/// # Errors
/// When it does not start.
pub fn start_by(
    command: std::process::Command,
    kind: Kind,
    scratch: Scratch,
    config: &str,
) -> Result<Running, String> {
    start_logging(command, kind, scratch, config, true)
}

/// The same with a command to which its flags are appended; it logs to standard error or to syslog.
///
/// # Errors
/// When it does not start.
pub(crate) fn start_logging(
    mut command: std::process::Command,
    kind: Kind,
    scratch: Scratch,
    config: &str,
    to_stderr: bool,
) -> Result<Running, String> {
    if kind == Kind::OpenSsh && crate::account::is_root() {
        std::fs::create_dir_all("/run/sshd").map_err(|error| error.to_string())?;
    }
    let port = free_port();
    let file = scratch.write("sshd_config", config);
    let known = fixture::known_hosts(&format!("[127.0.0.1]:{port}"));
    let known_hosts = scratch.write("known_hosts", known);
    command
        .arg("-f")
        .arg(file)
        .args(["-D", "-p", &port.to_string()]);
    if to_stderr {
        command.arg("-e");
    }
    let daemon = Daemon::start(&mut command, port, scratch)?;
    Ok(Running::of_this_user(daemon, known_hosts))
}
