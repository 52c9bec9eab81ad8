//! The compared programs: Fulmar, the machine's OpenSSH, and one in a chroot.
//!
//! The chroot is entered from a private mount namespace ([`enter`]), in which it has the machine's
//! `/dev`, `/proc` and `/tmp` and an empty `/run`; nothing in it is changed.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use interop::account::is_root;
use interop::peers::ours::binary;
use interop::process::{COMMAND_LIMIT, Input, Outcome, installed, run};

/// Set in the process that runs in the namespace.
const INSIDE: &str = "DIFFER_INSIDE";

/// Prepares the chroot `$1` and executes the other arguments.
const SCRIPT: &str = "c=$1; shift; \
    mount --bind /dev \"$c/dev\" && mount --bind /proc \"$c/proc\" && mount --bind /tmp \"$c/tmp\" && \
    mount -t tmpfs run \"$c/run\" && mkdir -p \"$c/run/sshd\" && exec \"$@\"";

/// One of the compared programs.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    /// Its name in reports.
    pub(crate) name: String,
    place: Place,
}

#[derive(Clone, Debug)]
enum Place {
    Ours,
    Here,
    Chroot(PathBuf),
}

impl Program {
    /// Ours.
    pub(crate) fn ours() -> Self {
        Self {
            name: "ours".into(),
            place: Place::Ours,
        }
    }

    /// Runs `tool` (`ssh`, `sshd`, `ssh-keygen`) in `folder`, in an environment that is the same
    /// for every program.
    pub(crate) fn run(&self, tool: &str, arguments: &[String], folder: &Path) -> Outcome {
        let mut command = self.command(tool, folder);
        command.args(arguments).env_clear().current_dir(folder);
        command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command.env("HOME", home()).env("SHELL", "/bin/sh");
        command.env("LC_ALL", "C").env("DIFFER", "value");
        run(&mut command, Input::Nothing, COMMAND_LIMIT)
            .unwrap_or_else(|why| panic!("{}: {command:?}: {why}", self.name))
    }

    fn command(&self, tool: &str, folder: &Path) -> Command {
        match &self.place {
            Place::Ours => {
                let mut command = Command::new(binary());
                command.arg(tool.strip_prefix("ssh-").unwrap_or(tool));
                command
            }
            Place::Here => Command::new(installed(tool).unwrap_or_else(|| tool.into())),
            Place::Chroot(root) => {
                let folders = ["usr/bin", "usr/sbin"].into_iter();
                let path = folders
                    .map(|folder| Path::new("/").join(folder).join(tool))
                    .find(|path| root.join(path.strip_prefix("/").unwrap_or(path)).exists());
                let mut command = Command::new("chroot");
                command.arg(root);
                command.args(["/bin/sh", "-c", "cd \"$0\" && exec \"$@\""]);
                command.arg(folder).arg(path.unwrap_or_else(|| tool.into()));
                command
            }
        }
    }
}

fn home() -> std::ffi::OsString {
    std::env::var_os("HOME").unwrap_or_else(|| "/root".into())
}

/// The peers, the newest first: that of the chroot, if there is one, then the machine's.
///
/// # Errors
/// One line with the reason why there is none.
pub(crate) fn peers(chroot: Option<&Path>) -> Result<Vec<Program>, String> {
    let missing = ["ssh", "sshd", "ssh-keygen"]
        .into_iter()
        .find(|tool| installed(tool).is_none());
    let mut found = Vec::new();
    if let Some(root) = chroot {
        found.push(named(Place::Chroot(root.to_owned())));
    }
    match missing {
        None => found.push(named(Place::Here)),
        Some(tool) if found.is_empty() => return Err(format!("no {tool}")),
        Some(_) => {}
    }
    if is_root() {
        std::fs::create_dir_all("/run/sshd").map_err(|error| format!("/run/sshd: {error}"))?;
    }
    Ok(found)
}

/// Named by its version, such as `OpenSSH 9.2`.
fn named(place: Place) -> Program {
    let mut program = Program {
        name: "OpenSSH".into(),
        place,
    };
    let said = program.run("ssh", &["-V".into()], Path::new("/"));
    let text = said.stderr.text();
    if let Some(version) = text.strip_prefix("OpenSSH_") {
        let digits = |c: char| !c.is_ascii_digit() && c != '.';
        let version = version.split(digits).next().unwrap_or_default();
        program.name = format!("OpenSSH {version}");
    }
    program
}

/// Executes this program again in a private mount namespace with the prepared chroot; returns
/// there.
///
/// # Errors
/// If that is not possible.
pub(crate) fn enter(chroot: &Path) -> Result<(), String> {
    if std::env::var_os(INSIDE).is_some() {
        return Ok(());
    }
    if !is_root() {
        return Err("a chroot needs root".into());
    }
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new("unshare");
    command
        .args([
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-c",
            SCRIPT,
            "sh",
        ])
        .arg(chroot)
        .arg(program)
        .args(std::env::args_os().skip(1))
        .env("TMPDIR", "/tmp")
        .env(INSIDE, "yes");
    Err(format!("unshare: {}", command.exec()))
}
