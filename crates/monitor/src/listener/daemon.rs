//! Going to the background by executing ourselves anew in a session of our own: the parent
//! waits until the daemon listens, so that its exit status says whether it does.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;

use sys::process::SelfExe;

/// Set for the process that is to be the daemon.
const MARK: &str = "FULMAR_SSHD_DAEMON";
/// Where it says that it listens.
const READY_FD: i32 = 3;

/// We are the daemon, and somebody waits to hear that we listen.
pub(crate) struct Daemon {
    ready: OwnedFd,
}

impl Daemon {
    /// Tells whether this process was started by [`start`].
    pub(crate) fn from_environment() -> Option<Self> {
        let marked =
            std::env::var(MARK).is_ok_and(|mark| mark == sys::process::parent_pid().to_string());
        if !marked {
            return None;
        }
        let ready = sys::io::inherited(READY_FD).ok()?;
        Some(Self { ready })
    }

    /// Says that we listen, and lets go of where we were started: directory and, unless lines
    /// go there, standard error.
    pub(crate) fn ready(self, keep_stderr: bool) {
        let _ = std::env::set_current_dir("/");
        if !keep_stderr && let Ok(null) = sys::io::null() {
            let _ = sys::io::replace_stdio(&null, 2);
        }
        let _ = sys::io::write(&self.ready, b"R");
    }
}

/// Starts the daemon and waits until it listens or has failed. Returns our exit status.
pub(crate) fn start(arguments: &[OsString]) -> io::Result<i32> {
    let (reader, writer) = sys::io::pipe()?;
    let mut command = SelfExe::open()?.command()?;
    command
        .args(["fulmar", "sshd"])
        .args(arguments)
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
        // It has said on standard error why.
        let _ = child.wait();
        return Ok(1);
    }
    Ok(0)
}
