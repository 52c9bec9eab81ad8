//! Children: how they ended, waiting, signals that cannot hit a stranger.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::process::{PidfdFlags, WaitOptions, WaitStatus};

use crate::Pid;
use crate::signals::{self, Signal};

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitStatus {
    /// By exit, with a status between 0 and 255.
    Exited(u8),
    /// By a signal.
    Signaled {
        /// Which.
        signal: Signal,
        /// Whether a core file was written.
        core_dumped: bool,
    },
}

impl ExitStatus {
    /// Exit status 0.
    #[must_use]
    pub fn is_success(self) -> bool {
        self == Self::Exited(0)
    }

    /// The status that `wait4` stores.
    pub(super) fn from_raw(status: i32) -> Option<Self> {
        use std::os::unix::process::ExitStatusExt;
        let status = std::process::ExitStatus::from_raw(status);
        if let Some(code) = status.code() {
            return Some(Self::Exited(u8::try_from(code & 0xff).unwrap_or(255)));
        }
        Some(Self::Signaled {
            signal: Signal::from_raw(status.signal()?)?,
            core_dumped: status.core_dumped(),
        })
    }

    fn from_wait(status: WaitStatus) -> Option<Self> {
        if let Some(code) = status.exit_status() {
            return Some(Self::Exited(u8::try_from(code & 0xff).unwrap_or(255)));
        }
        let signal = Signal::from_raw(status.terminating_signal()?)?;
        Some(Self::Signaled {
            signal,
            core_dumped: status.as_raw() & 0x80 != 0,
        })
    }
}

/// For a person: `status 1`, `signal KILL`.
impl fmt::Display for ExitStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(status) => write!(f, "status {status}"),
            Self::Signaled { signal, .. } => match signal.ssh_name() {
                Some(name) => write!(f, "signal {name}"),
                None => write!(f, "{signal:?}"),
            },
        }
    }
}

/// A process by descriptor: readable when it has ended.
#[derive(Debug)]
pub struct PidFd(OwnedFd);

impl PidFd {
    /// Opens one for `pid`. Safe against reuse of the number only for our own
    /// child that was not waited for.
    ///
    /// # Errors
    /// `ESRCH`, `InvalidInput` for a pid below 1.
    pub fn open(pid: Pid) -> io::Result<Self> {
        let fd = rustix::process::pidfd_open(raw_pid(pid)?, PidfdFlags::empty())?;
        Ok(Self(fd))
    }

    pub(super) fn from_owned(fd: OwnedFd) -> Self {
        Self(fd)
    }

    /// Sends a signal to exactly that process.
    ///
    /// # Errors
    /// `ESRCH` once it was waited for, `EPERM`.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        // SAFETY: numbers and a null siginfo only.
        crate::ffi::check_long(unsafe {
            libc::syscall(
                libc::SYS_pidfd_send_signal,
                std::os::fd::AsRawFd::as_raw_fd(&self.0),
                signal.as_raw(),
                std::ptr::null::<libc::siginfo_t>(),
                0,
            )
        })?;
        Ok(())
    }
}

impl AsFd for PidFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn raw_pid(pid: Pid) -> io::Result<rustix::process::Pid> {
    let invalid = || io::Error::from(io::ErrorKind::InvalidInput);
    if pid < 1 {
        return Err(invalid());
    }
    rustix::process::Pid::from_raw(pid).ok_or_else(invalid)
}

/// A child that we started. Dropping it neither ends it nor waits for it.
#[derive(Debug)]
pub struct Child {
    pid: Pid,
    pidfd: PidFd,
    status: Option<ExitStatus>,
}

impl Child {
    pub(super) fn new(pid: Pid, pidfd: PidFd) -> Self {
        Self {
            pid,
            pidfd,
            status: None,
        }
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Readable when it has ended.
    #[must_use]
    pub fn pidfd(&self) -> &PidFd {
        &self.pidfd
    }

    /// Waits for its end. The second call gives the same answer.
    ///
    /// # Errors
    /// `ECHILD` when somebody else waited for it.
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        loop {
            if let Some(status) = self.wait_with(WaitOptions::empty())? {
                return Ok(status);
            }
        }
    }

    /// How it ended, or `None` while it runs.
    ///
    /// # Errors
    /// `ECHILD` when somebody else waited for it.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.wait_with(WaitOptions::NOHANG)
    }

    fn wait_with(&mut self, options: WaitOptions) -> io::Result<Option<ExitStatus>> {
        if self.status.is_none() {
            let pid = raw_pid(self.pid)?;
            let waited = crate::ffi::retry(|| rustix::process::waitpid(Some(pid), options))?;
            self.status = waited.and_then(|(_, status)| ExitStatus::from_wait(status));
        }
        Ok(self.status)
    }

    /// Tells it that [`reap_any`] saw its end.
    pub fn set_reaped(&mut self, status: ExitStatus) {
        self.status = Some(status);
    }

    /// Sends it a signal; nothing happens when it was waited for.
    ///
    /// # Errors
    /// `EPERM`.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        if self.status.is_some() {
            return Ok(());
        }
        self.pidfd.signal(signal)
    }

    /// Sends a signal to its whole process group (it must have been started as the
    /// leader of one). Only while it was not waited for: then the number may belong
    /// to others, and `ESRCH` is returned.
    ///
    /// # Errors
    /// `ESRCH`, `EPERM`.
    pub fn signal_group(&self, signal: Signal) -> io::Result<()> {
        if self.status.is_some() {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        signals::send_group(self.pid, signal)
    }
}

/// Collects one child that has ended, whoever started it; `None` when none waits.
///
/// # Errors
/// The kernel's error; having no children is `None`.
pub fn reap_any() -> io::Result<Option<(Pid, ExitStatus)>> {
    loop {
        match crate::ffi::retry(|| rustix::process::wait(WaitOptions::NOHANG)) {
            Ok(None) => return Ok(None),
            Ok(Some((pid, status))) => {
                if let Some(status) = ExitStatus::from_wait(status) {
                    return Ok(Some((pid.as_raw_nonzero().get(), status)));
                }
            }
            Err(error) if error.raw_os_error() == Some(libc::ECHILD) => return Ok(None),
            Err(error) => return Err(error),
        }
    }
}
