//! The session process before its session: executed while the client still proves who it is, so
//! that a login need not wait for a program to start.
//!
//! Invariants: it is given nothing before the login (it waits for its grant, the first thing that it
//! reads); what nobody takes over is killed; one for each connection; none where PAM opens the
//! session, for what a module sets is to be inherited.

use std::io;
use std::os::fd::OwnedFd;

use privsep::roles;
use sys::process::{Child, SelfExe};
use sys::signals::Signal;

use crate::log::Log;

/// A session process that has its descriptors and nothing else. It ends when the socket does.
pub(crate) struct SessionProcess {
    pub(crate) child: Child,
    /// Our end of the RPC.
    pub(crate) socket: OwnedFd,
}

impl SessionProcess {
    /// Executes it.
    ///
    /// # Errors
    /// Why it could not be started.
    pub(crate) fn start(executable: &SelfExe, network: &OwnedFd) -> io::Result<Self> {
        let (ours, theirs) = sys::socket::stream_pair()?;
        let mut command = executable.command()?;
        command
            .args(["fulmar", roles::ROLE_SESSION])
            .env("PATH", super::PATH)
            // The monitor's own is /dev/null.
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

    /// Ends it.
    pub(crate) fn end(mut self) {
        let _ = self.child.signal(Signal::KILL);
        let _ = self.child.wait();
    }
}

/// What a session process could be started with, and whether it was. One that nobody takes over
/// is killed.
pub(crate) struct Ahead<'c> {
    source: Option<(&'c SelfExe, &'c OwnedFd)>,
    started: Option<SessionProcess>,
}

impl<'c> Ahead<'c> {
    /// None is started before there is a session.
    pub(crate) fn never() -> Self {
        Self {
            source: None,
            started: None,
        }
    }

    /// One may be started for the client behind `network`.
    pub(crate) fn of(executable: &'c SelfExe, network: &'c OwnedFd) -> Self {
        Self {
            source: Some((executable, network)),
            started: None,
        }
    }

    /// Starts it, once. That it fails is no loss: the session tries again, and says why.
    pub(crate) fn start(&mut self, log: &Log) {
        let Some((executable, network)) = self.source.take() else {
            return;
        };
        match SessionProcess::start(executable, network) {
            Ok(process) => self.started = Some(process),
            Err(error) => log.debug(&format!("starting the session ahead: {error}")),
        }
    }

    /// The process, if there is one.
    pub(crate) fn into_started(mut self) -> Option<SessionProcess> {
        self.started.take()
    }
}

impl Drop for Ahead<'_> {
    fn drop(&mut self) {
        if let Some(process) = self.started.take() {
            process.end();
        }
    }
}
