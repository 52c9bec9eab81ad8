//! Moves the server to the background: the program executes itself again in a new session. The
//! first process waits until the daemon listens, so that its exit status reports whether the daemon
//! started.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use sys::process::{ExitStatus, SelfExe};

/// Environment variable that marks the daemon; its value is the parent's process id.
const MARK: &str = "FULMAR_SSHD_DAEMON";
/// Descriptor of the pipe to which the daemon writes when it listens.
const READY_FD: i32 = 3;

/// The daemon's side: the parent process waits on the pipe `ready`.
pub(crate) struct Daemon {
    ready: OwnedFd,
}

impl Daemon {
    /// Returns the daemon's state if [`start`] has started this process.
    pub(crate) fn from_environment() -> Option<Self> {
        let marked =
            std::env::var(MARK).is_ok_and(|mark| mark == sys::process::parent_pid().to_string());
        if !marked {
            return None;
        }
        let ready = sys::io::inherited(READY_FD).ok()?;
        Some(Self { ready })
    }

    /// Reports to the parent that the server listens. Changes the directory to `/` and, unless
    /// `keep_stderr`, replaces standard error by the null device.
    pub(crate) fn ready(self, keep_stderr: bool) {
        let _ = std::env::set_current_dir("/");
        if !keep_stderr && let Ok(null) = sys::io::null() {
            let _ = sys::io::replace_stdio(&null, 2);
        }
        let _ = sys::io::write(&self.ready, b"R");
    }
}

/// Gives this process, which was executed by a descriptor, the name of its command line: the kernel has named it after the
/// descriptor's number or after the file. `ps -C`, `pgrep -x` and `systemctl status` know it by its name.
pub(crate) fn keep_name() {
    let first = std::env::args_os().next().map(PathBuf::from);
    if let Some(name) = first.as_deref().and_then(Path::file_name) {
        let _ = sys::process::set_name(&name.to_string_lossy());
    }
}

/// Starts the daemon and waits until it listens or has failed. Returns the exit status for this
/// process: 0 if it listens, else the daemon's.
pub(crate) fn start() -> io::Result<i32> {
    let (reader, writer) = sys::io::pipe()?;
    let mut command = SelfExe::open()?.command()?;
    command
        .args(std::env::args_os())
        .inherit_env()
        .env(MARK, sys::process::pid().to_string())
        .fd(sys::io::null()?, 0)
        .fd(sys::io::null()?, 1)
        .fd_shared(sys::io::stderr(), 2)
        .fd(writer, READY_FD)
        .new_session();
    let mut child = command.spawn()?;
    drop(command);
    let said = sys::io::read_to_end(&reader, 16)?;
    if said.is_empty() {
        // The daemon has written the reason to standard error.
        return Ok(match child.wait() {
            Ok(ExitStatus::Exited(status @ 1..)) => i32::from(status),
            _ => 1,
        });
    }
    Ok(0)
}
