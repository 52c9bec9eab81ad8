//! Starts the user's program, and before it the rc file (sshd(8), SSHRC).

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use config::server::SessionOptions;
use privsep::SessionGrant;
use sys::process::{Child, ChildCommand, SpawnError};
use wire::permissions::Permission;

use super::command::Launch;
use super::environment::Environment;
use super::stdio::CommandEnd;

/// The system's shell, which runs the system's rc file.
const SYSTEM_SHELL: &str = "/bin/sh";
/// The rc file that runs if the user has no ~/.ssh/rc.
const SYSTEM_RC: &str = "/etc/ssh/sshrc";

/// Starts the command with the streams of `end`, in a new session.
pub(super) fn command(
    launch: &Launch,
    environment: &Environment,
    home: &str,
    end: CommandEnd,
    umask: Option<u32>,
) -> Result<Child, SpawnError> {
    let mut command = ChildCommand::new(&launch.program);
    if let Some(mask) = umask {
        command.umask(mask);
    }
    command.args(launch.argv.iter().map(|word| OsStr::from_bytes(word)));
    spawn(command, environment, home, end)
}

/// The rc file that runs before a command, a subsystem or internal-sftp, if there is one.
///
/// The user's rc file does not run before a subsystem, under ForceCommand of sshd_config, or if
/// PermitUserRC or the key forbids it: otherwise whoever may write files in the home directory
/// could run any program. It runs under a `command=` of the key unless the key has `no-user-rc` or
/// `restrict`. All as in OpenSSH (do_rc_files of session.c). In every other case the system's rc
/// file runs, if there is one.
pub(super) fn rc_file(
    grant: &SessionGrant,
    session: &SessionOptions,
    is_subsystem: bool,
) -> Option<RcFile> {
    let user_rc_permitted = !is_subsystem
        && session.force_command.is_none()
        && session.permit_user_rc
        && grant.restrictions.permits(Permission::UserRc);
    if user_rc_permitted && Path::new(&grant.home).join(".ssh/rc").exists() {
        return Some(RcFile::User);
    }
    Path::new(SYSTEM_RC).exists().then_some(RcFile::System)
}

/// The reason why a command cannot start in this home directory, as the system's error text; `None`
/// if it can.
pub(super) fn unusable_home(home: &str) -> Option<String> {
    // `.` inside the directory needs the same search permission as entering it.
    let error = std::fs::metadata(Path::new(home).join(".")).err()?;
    Some(escape::system_words(&error.to_string()).into_owned())
}

/// An rc file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RcFile {
    /// ~/.ssh/rc, through the user's shell.
    User,
    /// /etc/ssh/sshrc.
    System,
}

/// Starts the rc file with the command's outputs, `input` as its input and no controlling terminal.
pub(super) fn rc(
    file: RcFile,
    shell_path: &str,
    environment: &Environment,
    home: &str,
    end: &CommandEnd,
    input: &[u8],
) -> Result<Child, SpawnError> {
    let command = match file {
        RcFile::User => {
            let mut command = ChildCommand::new(shell_path);
            let name = Path::new(shell_path)
                .file_name()
                .unwrap_or(OsStr::new("sh"));
            command.arg(name).args(["-c", "/bin/sh .ssh/rc"]);
            command
        }
        RcFile::System => {
            let mut command = ChildCommand::new(SYSTEM_SHELL);
            command.args(["sh", SYSTEM_RC]);
            command
        }
    };
    spawn_with_input(command, environment, home, end, input)
}

/// Starts xauth(1), which reads its commands from `input`.
pub(super) fn xauth(
    program: &str,
    environment: &Environment,
    home: &str,
    end: &CommandEnd,
    input: &[u8],
) -> Result<Child, SpawnError> {
    let mut command = ChildCommand::new(program);
    command.args(["xauth", "-q", "-"]);
    spawn_with_input(command, environment, home, end, input)
}

fn spawn_with_input(
    command: ChildCommand,
    environment: &Environment,
    home: &str,
    end: &CommandEnd,
    input: &[u8],
) -> Result<Child, SpawnError> {
    let end = end.with_input(input).map_err(|error| SpawnError {
        step: sys::process::SpawnStep::Descriptors,
        error,
    })?;
    spawn(command, environment, home, end)
}

fn spawn(
    mut command: ChildCommand,
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
