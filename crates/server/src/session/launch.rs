//! Starting what a user asked for: the login shell, and before it the rc file (sshd(8), SSHRC).

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use config::server::ServerOptions;
use privsep::SessionGrant;
use sys::process::{Child, Command, SpawnError};

use super::command::Launch;
use super::environment::Environment;
use super::stdio::CommandEnd;

/// The shell of the system, which reads the rc files.
const SYSTEM_SHELL: &str = "/bin/sh";
/// Run when the user has no ~/.ssh/rc of their own.
const SYSTEM_RC: &str = "/etc/ssh/sshrc";

/// Starts the command on its streams, in a session of its own.
pub(super) fn command(
    launch: &Launch,
    environment: &Environment,
    home: &str,
    end: CommandEnd,
    umask: Option<u32>,
) -> Result<Child, SpawnError> {
    let mut command = Command::new(&launch.program);
    if let Some(mask) = umask {
        command.umask(mask);
    }
    command.args(launch.argv.iter().map(|word| OsStr::from_bytes(word)));
    spawn(command, environment, home, end)
}

/// The rc file that runs before a command, a subsystem or internal-sftp, if there is one.
///
/// The user's own never runs before a subsystem, under ForceCommand of sshd_config, or where
/// PermitUserRC or the key forbids it: who may write files in the home could run anything by it.
/// Under a `command=` of the key it runs, unless the key has `no-user-rc` or `restrict`: both
/// as in OpenSSH (do_rc_files of session.c). The system's runs in every case.
pub(super) fn rc_file(
    grant: &SessionGrant,
    options: &ServerOptions,
    is_subsystem: bool,
) -> Option<RcFile> {
    let user_rc_permitted = !is_subsystem
        && options.force_command.is_none()
        && options.permit_user_rc
        && !grant.restrictions.no_user_rc;
    if user_rc_permitted && Path::new(&grant.home).join(".ssh/rc").exists() {
        return Some(RcFile::User);
    }
    Path::new(SYSTEM_RC).exists().then_some(RcFile::System)
}

/// Why a command cannot begin in this home directory, in the system's words.
pub(super) fn unusable_home(home: &str) -> Option<String> {
    // Asking for what is inside asks for the permission that entering needs.
    let error = std::fs::metadata(Path::new(home).join(".")).err()?;
    Some(transfer::text::reason(&error))
}

/// Which rc file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RcFile {
    /// ~/.ssh/rc, through the user's shell.
    User,
    /// /etc/ssh/sshrc.
    System,
}

/// Starts the rc file. It has the command's output, no input and no controlling terminal.
pub(super) fn rc(
    file: RcFile,
    shell_path: &str,
    environment: &Environment,
    home: &str,
    end: &CommandEnd,
) -> Result<Child, SpawnError> {
    let command = match file {
        RcFile::User => {
            let mut command = Command::new(shell_path);
            let name = Path::new(shell_path)
                .file_name()
                .unwrap_or(OsStr::new("sh"));
            command.arg(name).args(["-c", "/bin/sh .ssh/rc"]);
            command
        }
        RcFile::System => {
            let mut command = Command::new(SYSTEM_SHELL);
            command.args(["sh", SYSTEM_RC]);
            command
        }
    };
    let end = end.without_input().map_err(|error| SpawnError {
        step: sys::process::Step::Descriptors,
        error,
    })?;
    spawn(command, environment, home, end)
}

fn spawn(
    mut command: Command,
    environment: &Environment,
    home: &str,
    end: CommandEnd,
) -> Result<Child, SpawnError> {
    for (name, value) in environment.iter() {
        command.env(OsStr::from_bytes(name), OsStr::from_bytes(value));
    }
    command.new_session().current_dir_or_root(home);
    if end.is_terminal {
        command.controlling_terminal(0);
    }
    command.fd(end.stdin, 0).fd(end.stdout, 1).fd(end.stderr, 2);
    command.spawn()
}
