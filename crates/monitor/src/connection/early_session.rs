//! The session process, started while the client still authenticates, so that a login need not wait
//! for a program to start.
//!
//! Invariants: the process receives nothing before the login (it waits for its grant, the first
//! message that it reads); a process that no session uses is killed; at most one per connection;
//! none if PAM opens the session, because the process must inherit what modules set.

use std::io;
use std::os::fd::OwnedFd;

use privsep::roles;
use sys::process::{Child, SelfExe};
use sys::signals::Signal;

use crate::log::Log;

/// A session process that has its descriptors and nothing else. It ends when its socket closes.
pub(crate) struct SessionProcess {
    pub(crate) child: Child,
    /// The monitor's end of the RPC.
    pub(crate) socket: OwnedFd,
}

impl SessionProcess {
    /// Starts a session process.
    ///
    /// # Errors
    /// The reason why it could not be started.
    pub(crate) fn start(executable: &SelfExe, network: &OwnedFd) -> io::Result<Self> {
        let (ours, theirs) = sys::socket::stream_pair()?;
        let mut command = executable.command()?;
        command
            .args(["fulmar", roles::ROLE_SESSION, roles::TITLE_ROOM])
            .env("PATH", super::PATH)
            // The monitor's standard input is /dev/null.
            .fd_shared(sys::io::stdin(), 0)
            .fd_shared(sys::io::stdin(), 1)
            .fd_shared(sys::io::stderr(), 2)
            .fd_shared(network, roles::NETWORK_FD)
            .fd(theirs, roles::RPC_FD)
            .fd_shared(executable, roles::SESSION_BINARY_FD);
        for name in ["TZ", crypto::arch::FEATURES_VARIABLE] {
            if let Ok(value) = std::env::var(name) {
                command.env(name, value);
            }
        }
        Ok(Self {
            child: command.spawn()?,
            socket: ours,
        })
    }

    /// Kills and reaps the process.
    pub(crate) fn end(mut self) {
        let _ = self.child.signal(Signal::KILL);
        let _ = self.child.wait();
    }
}

/// Starts a session process before the login, at most once. On drop, kills a started process that
/// no session has taken.
pub(crate) struct EarlySession<'c> {
    source: Option<(&'c SelfExe, &'c OwnedFd)>,
    started: Option<SessionProcess>,
}

impl<'c> EarlySession<'c> {
    /// Never starts a process before the login.
    pub(crate) fn never() -> Self {
        Self {
            source: None,
            started: None,
        }
    }

    /// May start a process for the client connected to `network`.
    pub(crate) fn of(executable: &'c SelfExe, network: &'c OwnedFd) -> Self {
        Self {
            source: Some((executable, network)),
            started: None,
        }
    }

    /// Starts the process, once. A failure is only logged: the session tries again and reports the
    /// reason.
    pub(crate) fn start(&mut self, log: &Log) {
        let Some((executable, network)) = self.source.take() else {
            return;
        };
        match SessionProcess::start(executable, network) {
            Ok(process) => self.started = Some(process),
            Err(error) => log.debug(&format!("starting the session process early: {error}")),
        }
    }

    /// Returns the process if one was started.
    pub(crate) fn into_started(mut self) -> Option<SessionProcess> {
        self.started.take()
    }
}

impl Drop for EarlySession<'_> {
    fn drop(&mut self) {
        if let Some(process) = self.started.take() {
            process.end();
        }
    }
}
