//! Child processes: exit status, waiting, and signals that cannot reach an unrelated process.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Weak};

use rustix::process::{PidfdFlags, WaitOptions, WaitStatus};

use crate::Pid;
use crate::signals::{self, Signal};

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitStatus {
    /// By exit, with this status.
    Exited(u8),
    /// By a signal.
    Signaled {
        /// The signal.
        signal: Signal,
        /// True if a core file was written.
        core_dumped: bool,
    },
}

impl ExitStatus {
    /// True for exit status 0.
    #[must_use]
    pub fn is_success(self) -> bool {
        self == Self::Exited(0)
    }

    /// Decodes a status as stored by `wait4`.
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

/// Text for messages: `status 1`, `signal KILL`.
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

/// A process by descriptor, which is readable once the process has exited.
#[derive(Debug)]
pub struct PidFd(OwnedFd);

impl PidFd {
    /// Opens a descriptor for `pid`. Only for an own child that was not waited for is the process
    /// certain to be the intended one.
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

    /// Sends a signal to this process.
    ///
    /// # Errors
    /// `ESRCH` after the process was waited for, `EPERM`.
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

/// A child that this process started. Dropping it neither kills it nor waits for it.
#[derive(Debug)]
pub struct Child {
    pid: Pid,
    pidfd: Arc<PidFd>,
    status: Option<ExitStatus>,
}

impl Child {
    pub(super) fn new(pid: Pid, pidfd: PidFd) -> Self {
        Self {
            pid,
            pidfd: Arc::new(pidfd),
            status: None,
        }
    }

    /// Process id of the child.
    #[must_use]
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Descriptor that is readable once the child has exited.
    #[must_use]
    pub fn pidfd(&self) -> &PidFd {
        &self.pidfd
    }

    /// The same descriptor for another thread, as long as this child is not dropped.
    #[must_use]
    pub fn weak_pidfd(&self) -> Weak<PidFd> {
        Arc::downgrade(&self.pidfd)
    }

    /// Waits for the child to exit. Later calls return the same status.
    ///
    /// # Errors
    /// `ECHILD` if the child was waited for elsewhere.
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        loop {
            if let Some(status) = self.wait_with(WaitOptions::empty())? {
                return Ok(status);
            }
        }
    }

    /// Returns the exit status, or `None` while the child runs.
    ///
    /// # Errors
    /// `ECHILD` if the child was waited for elsewhere.
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

    /// Stores the status that [`reap_any`] returned for this child.
    pub fn set_reaped(&mut self, status: ExitStatus) {
        self.status = Some(status);
    }

    /// Sends a signal to the child; does nothing after it was waited for.
    ///
    /// # Errors
    /// `EPERM`.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        if self.status.is_some() {
            return Ok(());
        }
        self.pidfd.signal(signal)
    }

    /// Sends a signal to the child's process group, which it must lead. After the child was waited
    /// for this returns `ESRCH`, because its number may be in use again.
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

/// Reaps one exited child, whoever started it; `None` if no child has exited.
///
/// # Errors
/// The kernel's error; without children it returns `None`.
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
