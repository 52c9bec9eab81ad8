//! A server for one row, with its own homes and `/etc` in a mount namespace.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use interop::agent::RealAgent;
use interop::fixture;
use interop::peers::Running;
use interop::peers::openssh::start_beside;
use interop::peers::ours::Kind;
use interop::process::{installed, tool};
use interop::scratch::{Scratch, free_port};

use crate::row::{Certificate, Row};
use crate::services::Services;

/// The ordinary user's name; it exists only in the server's own passwd file.
pub const USER: &str = "fulmar-row";

/// A supplementary group of the user.
pub const GROUP: &str = "fulmar-row-mates";

/// The number of user and groups, which nobody on the machine has.
pub const UID: u32 = 58_731;

/// A directory of the machine that is replaced by the row's own. ChrootDirectory needs one that
/// only root could have changed, from `/` down.
const JAIL: &str = "/mnt";

/// Files of the machine's `/etc` that are copied to the server's own: names of hosts and services,
/// libraries, and start-up files of login shells.
const COPIED: [&str; 9] = [
    "hosts",
    "host.conf",
    "ld.so.cache",
    "localtime",
    "login.defs",
    "nsswitch.conf",
    "profile",
    "protocols",
    "services",
];

/// A program that reports its environment in one line; its argument names its starter.
const REPORT: &str = r#"env=
for name in CLIENT SERVER KEY FILE; do
    eval "value=\$RESTRICT_$name"
    [ -z "$value" ] || env="$env$name "
done
tty=no; [ -t 0 ] && tty=yes
agent=no; [ -n "$SSH_AUTH_SOCK" ] && agent=yes
x11=no; [ -n "$DISPLAY" ] && x11=yes
printf '<<%s|%s|%s|%s|%s|%s|%s>>\n' "$1" "$(id -u)" "$tty" "${env:-none}" "$agent" "$x11" "$SSH_ORIGINAL_COMMAND"
"#;

/// Runs the rest of its arguments where the first is the machine's `/etc/ssh`, for ssh-keysign.
const BESIDE: &str = "mount --bind \"$1\" /etc/ssh || exit 90; shift; exec \"$@\"";

/// A server and its files; all of it ends when this is dropped.
#[derive(Debug)]
pub struct Place {
    /// The agent with the server's key, if it has one.
    _agent: Option<RealAgent>,
    /// True if clients log in by their host's key.
    by_host: bool,
    /// The server.
    pub running: Running,
    /// The directory of the row's files.
    pub here: PathBuf,
    /// Two ports for remote forwarding.
    pub listen: [u16; 2],
}

impl Place {
    /// Starts the server of this kind for this row.
    ///
    /// # Errors
    /// If it does not start; the text contains its log.
    ///
    /// # Panics
    /// If files cannot be written.
    pub fn start(row: &Row, kind: Kind, services: &Services) -> Result<Self, String> {
        let scratch = Scratch::new();
        let here = scratch.path().to_owned();
        let listen = [free_port(), free_port()];
        let fill = |text: &str| fill(text, row, &here, listen, services);
        write_homes(&here);
        write_accounts(&here, row.hash);
        let lines = ("authorized_keys", row.authorized.clone());
        for (name, contents) in row.files.iter().chain([&lines]) {
            // OpenSSH reads some of them as the user.
            let path = scratch.write(name, fill(contents));
            fs::set_permissions(path, fs::Permissions::from_mode(0o644)).expect("its mode");
        }
        for (name, owner, mode) in &row.modes {
            let path = here.join(name);
            // Debian's OpenSSH permits write access for a group whose only member is the owner.
            chown(&path, Some(*owner), Some(UID + 1)).expect("its owner");
            fs::set_permissions(path, fs::Permissions::from_mode(*mode)).expect("its mode");
        }
        write_identity(row, &here, &fill)?;
        if row.by_host {
            write_host(&here, row);
        }
        let agent = match row.has_host_key_agent {
            true => Some(host_key_agent()?),
            false => None,
        };
        let config = format!(
            "{}{}{}",
            fill(&row.first),
            usual(row, &here, kind, agent.as_ref()),
            fill(&row.blocks)
        );
        let (etc, jail) = (here.join("etc"), here.join("jail"));
        // The directory, not its files: a file that the machine replaces loses its mount.
        let places = [(jail.as_path(), Path::new(JAIL)), (&etc, Path::new("/etc"))];
        let running = start_beside(kind, scratch, &config, &places)?;
        write_client_config(row, &here, running.daemon.port);
        Ok(Self {
            _agent: agent,
            by_host: row.by_host,
            running,
            here,
            listen,
        })
    }

    /// The client `command`, where it finds what the row's logins need; set its streams afterwards.
    #[must_use]
    pub fn client(&self, command: Command) -> Command {
        if !self.by_host {
            return command;
        }
        let mut beside = Command::new("unshare");
        beside
            .args(["--mount", "sh", "-c", BESIDE, "sh"])
            .arg(self.here.join("etc/ssh"))
            .arg(command.get_program())
            .args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => beside.env(name, value),
                None => beside.env_remove(name),
            };
        }
        beside
    }
}

/// An agent with the server's key.
fn host_key_agent() -> Result<RealAgent, String> {
    let agent = RealAgent::start(&[]).ok_or("ssh-agent is not installed")?;
    agent.add_files(["host_ed25519".to_owned()]);
    Ok(agent)
}

/// The key of the client's host, which is that of the server, and the lists in which the server trusts
/// that host for its user root.
fn write_host(here: &Path, row: &Row) {
    let write = |path: PathBuf, text: &str, mode: u32| {
        fs::write(&path, text).expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("its mode");
    };
    let etc = here.join("etc/ssh");
    let public = fixture::text("host_ed25519.pub");
    for (name, text, mode) in [
        ("ssh_host_ed25519_key", fixture::text("host_ed25519"), 0o600),
        ("ssh_host_ed25519_key.pub", public.clone(), 0o644),
        ("ssh_config", "EnableSSHKeysign yes\n".to_owned(), 0o644),
        ("shosts.equiv", "127.0.0.1 root\n".to_owned(), 0o644),
        ("ssh_known_hosts", format!("127.0.0.1 {public}"), 0o644),
    ] {
        write(etc.join(name), &text, mode);
    }
    // For root the list of the system does not count.
    if row.as_root {
        write(here.join("root/.shosts"), "127.0.0.1 root\n", 0o600);
    }
}

/// A text of the row with its placeholders replaced.
fn fill(text: &str, row: &Row, here: &Path, listen: [u16; 2], services: &Services) -> String {
    let user = if row.as_root { "root" } else { USER };
    let here = here.display();
    let public = |name: &str| fixture::text(name).trim_end().to_owned();
    text.replace("{forced}", "sh {here}/report forced")
        .replace("{user}", user)
        .replace("{group}", GROUP)
        .replace("{home}", &format!("{here}/{}", home_of(row)))
        .replace("{here}", &here.to_string())
        .replace("{jail}", JAIL)
        .replace("{a}", &services.ports[0].to_string())
        .replace("{b}", &services.ports[1].to_string())
        .replace("{la}", &listen[0].to_string())
        .replace("{lb}", &listen[1].to_string())
        .replace("{key}", &public(&format!("{}.pub", row.identity)))
        .replace("{ca}", &public("user_ca.pub"))
        .replace("{other}", &public("user_ecdsa256.pub"))
}

/// The name of the login's home below the row's directory.
#[must_use]
pub fn home_of(row: &Row) -> &'static str {
    if row.as_root { "root" } else { "home" }
}

/// The configuration lines of every server.
fn usual(row: &Row, here: &Path, kind: Kind, agent: Option<&RealAgent>) -> String {
    let mut key = fixture::file("host_ed25519").display().to_string();
    if let Some(agent) = agent {
        key = format!("{key}.pub\nHostKeyAgent {}", agent.socket.display());
    }
    let mut text = format!(
        "ListenAddress 127.0.0.1\nPidFile none\nHostKey {key}\n\
         AuthorizedKeysFile {}/authorized_keys\nStrictModes no\nUsePAM no\n\
         PasswordAuthentication no\nKbdInteractiveAuthentication no\n\
         PrintLastLog no\nPrintMotd no\nMaxStartups 1000\nLogLevel DEBUG1\n",
        here.display(),
    );
    // OpenSSH refuses a second subsystem of one name.
    if !row.first.contains("Subsystem sftp") {
        text.push_str("Subsystem sftp internal-sftp\n");
    }
    if kind == Kind::Fulmar {
        text.push_str("PerSourcePenalties no\nPreauthSpares 0\nPAMServiceName sshd\n");
    }
    text
}

/// Homes with rc file and environment, the directory for marks, the system's rc file, and the jail.
fn write_homes(here: &Path) {
    let write = |name: &str, contents: &str, owner: u32, mode: u32| {
        let path = here.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(&path, contents).expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("its mode");
        chown(&path, Some(owner), Some(owner)).expect("its owner");
    };
    // With X11 forwarding an rc file gets a cookie on standard input.
    let rc = |name: &str| format!("cat >/dev/null; : > {}/marks/{name}\n", here.display());
    for (home, owner) in [("home", UID), ("root", 0)] {
        write(&format!("{home}/.ssh/rc"), &rc("rc"), owner, 0o644);
        write(
            &format!("{home}/.ssh/environment"),
            "RESTRICT_FILE=yes\n",
            owner,
            0o644,
        );
        write(&format!("{home}/seen-home"), "", owner, 0o644);
        for folder in [home.to_owned(), format!("{home}/.ssh")] {
            chown(here.join(folder), Some(owner), Some(owner)).expect("its owner");
        }
    }
    write("report", REPORT, 0, 0o644);
    write("etc/ssh/sshrc", &rc("sshrc"), 0, 0o644);
    write("jail/seen-jail", "", 0, 0o644);
    fs::create_dir(here.join("marks")).expect("a folder");
    let all = fs::Permissions::from_mode(0o777);
    fs::set_permissions(here.join("marks"), all).expect("its mode");
}

/// Accounts: those of the machine with root's home and shell replaced, and the user's.
fn write_accounts(here: &Path, hash: &str) {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let at = here.display();
    let is_root = |line: &&str| !line.starts_with("root:");
    let passwd: Vec<String> = [
        format!("root:x:0:0:root:{at}/root:/bin/sh"),
        format!("{USER}:x:{UID}:{UID}::{at}/home:/bin/sh"),
    ]
    .into_iter()
    .chain(
        read("/etc/passwd")
            .lines()
            .filter(is_root)
            .map(str::to_owned),
    )
    .collect();
    let number = UID + 1;
    let group = format!(
        "{USER}:x:{UID}:\n{GROUP}:x:{number}:{USER},nobody\n{}",
        read("/etc/group")
    );
    let shadow = format!("root:{hash}:19000:0:99999:7:::\n{USER}:{hash}:19000:0:99999:7:::\n");
    let etc = here.join("etc");
    fs::create_dir(etc.join("pam.d")).expect("a folder");
    for name in COPIED {
        // Files that the machine does not have are left out.
        let _ = fs::copy(Path::new("/etc").join(name), etc.join(name));
    }
    for (name, text, mode) in [
        ("passwd", format!("{}\n", passwd.join("\n")), 0o644),
        ("group", group, 0o644),
        ("shadow", shadow, 0o600),
    ] {
        fs::write(etc.join(name), text).expect("a file");
        fs::set_permissions(etc.join(name), fs::Permissions::from_mode(mode)).expect("its mode");
    }
}

/// The user's key, and its certificate if the row has one.
fn write_identity(row: &Row, here: &Path, fill: &dyn Fn(&str) -> String) -> Result<(), String> {
    for (from, to) in [("", "id"), (".pub", "id.pub")] {
        let from = fixture::file(&format!("{}{from}", row.identity));
        fs::copy(&from, here.join(to)).map_err(|error| error.to_string())?;
    }
    let private = fs::Permissions::from_mode(0o600);
    fs::set_permissions(here.join("id"), private).map_err(|error| error.to_string())?;
    let Some(certificate) = &row.certificate else {
        return Ok(());
    };
    let keygen = installed("ssh-keygen").ok_or("ssh-keygen is not installed")?;
    let authority = fixture::file("user_ca").display().to_string();
    let arguments = certificate_arguments(certificate, &authority, fill);
    let file = here.join("id.pub").display().to_string();
    tool(&keygen, &[arguments, vec![file]].concat()).map(|_| ())
}

fn certificate_arguments(
    certificate: &Certificate,
    authority: &str,
    fill: &dyn Fn(&str) -> String,
) -> Vec<String> {
    let mut words: Vec<String> = ["-q", "-s", authority, "-I", "row"]
        .map(String::from)
        .into();
    if let Some(names) = certificate.principals {
        words.extend(["-n".into(), fill(names)]);
    }
    if let Some(validity) = certificate.validity {
        words.extend(["-V".into(), validity.into()]);
    }
    if certificate.is_host {
        words.push("-h".into());
    }
    for option in &certificate.options {
        words.extend(["-O".into(), fill(option)]);
    }
    words
}

/// Two hosts: `direct` logs in and serves others, `mux` only connects through it.
fn write_client_config(row: &Row, here: &Path, port: u16) {
    let at = here.display();
    let user = if row.as_root { "root" } else { USER };
    let certificate = match row.certificate {
        Some(_) => format!("CertificateFile {at}/id-cert.pub\n"),
        None => String::new(),
    };
    let style = row.style;
    let how = match &row.typed {
        None if row.by_host => {
            "BatchMode yes\nHostbasedAuthentication yes\nPreferredAuthentications hostbased\n"
                .to_owned()
        }
        None => "BatchMode yes\n".to_owned(),
        Some(typed) => {
            let path = here.join("askpass");
            let script = format!("#!/bin/sh\necho '{}'\n", typed.password);
            fs::write(&path, script).expect("what answers");
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("its mode");
            format!(
                "PreferredAuthentications {}\nNumberOfPasswordPrompts 1\n",
                typed.method
            )
        }
    };
    let text = format!(
        "Host direct\nForwardX11 yes\nControlMaster yes\nControlPath {at}/m\n\
         Host alone\nControlPath none\n\
         Host mux\nControlMaster no\nControlPath {at}/m\nProxyCommand /bin/false\n\
         Host *\nHostName 127.0.0.1\nPort {port}\nUser {user}{style}\n{how}\
         IdentityFile {at}/id\n{certificate}IdentitiesOnly yes\n\
         UserKnownHostsFile /dev/null\nGlobalKnownHostsFile /dev/null\n\
         StrictHostKeyChecking no\nUpdateHostKeys no\nLogLevel ERROR\n\
         ForwardAgent yes\nForwardX11Trusted yes\nSetEnv RESTRICT_CLIENT=yes\n"
    );
    fs::write(here.join("ssh_config"), text).expect("the client's configuration");
}
