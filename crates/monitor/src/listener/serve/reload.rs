//! Another configuration (SIGHUP), whose libraries are probed while connections are served.

use std::io;

use config::server::ServerConfig;
use sys::epoll::Interest;
use sys::process::SelfExe;

use super::{Listener, TRIAL_TOKEN, spares_of};
use crate::listener::accelerate::Trial;
use crate::listener::hostkeys::HostKeys;
use crate::listener::launch::Launch;
use crate::listener::sockets::Socket;
use crate::listener::successor::Successor;

/// The two steps of a reload (SIGHUP). Between them libraries may be probed while connections are
/// served.
pub(crate) trait Reloads {
    /// The program that has been installed in the place of `running`, if it can go on as this server.
    fn successor(&mut self, _running: &SelfExe) -> Option<Successor> {
        None
    }

    /// Reads the configuration and keys again. Returns `None` if any of it is invalid, and logs the
    /// reason.
    fn begin(&mut self) -> Option<NewConfiguration>;

    /// Makes the `Launch` that replaces `launch`, and the sockets. On failure, logs the reason and returns the old sockets.
    fn finish(
        &mut self,
        candidate: NewConfiguration,
        launch: &Launch,
        sockets: Vec<Socket>,
    ) -> Result<Reloaded, Vec<Socket>>;
}

/// A configuration that was read and is not in use yet.
pub(crate) struct NewConfiguration {
    pub(crate) config: ServerConfig,
    pub(crate) host_keys: HostKeys,
    /// The probe of the libraries that the configuration names.
    pub(crate) trial: Option<Trial>,
}

/// Result of a successful reload.
pub(crate) struct Reloaded {
    pub(crate) config: ServerConfig,
    pub(crate) launch: Launch,
    pub(crate) sockets: Vec<Socket>,
}

impl Listener<'_> {
    /// Lets the new program go on. Clients that have the banner of this one, and no process yet, get
    /// theirs first. Returns if that failed: with sockets that serve no more clients than before.
    pub(crate) fn hand_over(&mut self, successor: &Successor) -> io::Error {
        self.serve_greeted();
        self.end_to_measure();
        let error = successor.become_it(&self.sockets);
        self.begin_to_measure(sys::time::monotonic_ms());
        error
    }

    /// Monotonic milliseconds after which the probe of libraries is abandoned.
    pub(super) fn trial_deadline_ms(&self) -> Option<u64> {
        let trial = self.candidate.as_ref()?.trial.as_ref()?;
        Some(trial.deadline_ms())
    }

    pub(crate) fn begin_reload(&mut self, reloads: &mut impl Reloads) -> io::Result<()> {
        // A new reload replaces one whose probe still runs; dropping the candidate ends its probe.
        self.candidate = None;
        let Some(candidate) = reloads.begin() else {
            return Ok(());
        };
        if let Some(answer) = candidate.trial.as_ref().and_then(Trial::answer) {
            self.epoll.add(answer, TRIAL_TOKEN, Interest::READABLE)?;
            self.candidate = Some(candidate);
            return Ok(());
        }
        self.finish_reload(candidate, reloads)
    }

    /// Handles the probe's answer or deadline; completes the reload once the outcome is known.
    pub(crate) fn hear_trial(&mut self, reloads: &mut impl Reloads, now_ms: u64) -> io::Result<()> {
        let Some(mut candidate) = self.candidate.take() else {
            return Ok(());
        };
        if let Some(trial) = &mut candidate.trial {
            trial.hear(now_ms);
            if trial.answer().is_some() {
                self.candidate = Some(candidate);
                return Ok(());
            }
        }
        self.finish_reload(candidate, reloads)
    }

    fn finish_reload(
        &mut self,
        candidate: NewConfiguration,
        reloads: &mut impl Reloads,
    ) -> io::Result<()> {
        self.forget_sockets();
        let sockets = core::mem::take(&mut self.sockets);
        match reloads.finish(candidate, &self.launch, sockets) {
            Ok(reloaded) => {
                // These clients have received a KEXINIT of the old configuration, which their
                // monitors must use too.
                self.serve_greeted();
                self.options = reloaded.config.global();
                self.log.set_json(self.options.logging.is_json);
                self.log.follow(&self.options.logging);
                self.launch = reloaded.launch;
                self.sockets = reloaded.sockets;
            }
            Err(sockets) => self.sockets = sockets,
        }
        self.begin_to_measure(sys::time::monotonic_ms());
        // Pre-forked monitors have the old configuration; closing their sockets ends them.
        self.spares = spares_of(&self.options.limits, self.only_one);
        if self.paused_until_ms.is_none() {
            self.watch_sockets(Interest::READABLE)?;
        }
        Ok(())
    }
}
