//! Signals, the news of monitors, and their ends.

use std::io;

use privsep::roles::ConnectionNews;
use sys::process::{ExitStatus, reap_any};
use sys::signals::Signal;

use super::greeted;
use super::{Listener, Reloads, Stop};
use crate::listener::penalties::Offence;

impl Listener<'_> {
    /// Reads a monitor's news.
    pub(super) fn hear(&mut self, token: u64, now_ms: u64) {
        let Some(pending) = self.pending.get_mut(&token) else {
            return;
        };
        let mut bytes = [0_u8; 16];
        let count = match sys::io::read(&pending.news, &mut bytes) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Err(_) => 0,
        };
        if count == 0 {
            let _ = self.epoll.remove(&pending.news);
            if !core::mem::replace(&mut pending.silent, true) {
                let source = pending.source;
                self.startups.leave(source);
            }
            return;
        }
        for byte in bytes.into_iter().take(count) {
            let Some(news) = ConnectionNews::from_byte(byte) else {
                continue;
            };
            let offence = match news {
                ConnectionNews::Authenticated => {
                    self.logged_in(token, now_ms);
                    return;
                }
                ConnectionNews::AuthenticationFailed => Some(Offence::AuthFail),
                ConnectionNews::InvalidUser => Some(Offence::InvalidUser),
                ConnectionNews::NoAttempt | ConnectionNews::Gone => Some(Offence::NoAuth),
                ConnectionNews::GraceExceeded => Some(Offence::GraceExceeded),
                ConnectionNews::Crashed => Some(Offence::Crash),
                ConnectionNews::Refused => Some(Offence::RefuseConnection),
                ConnectionNews::NotServed => None,
            };
            self.measured.counters.ended(news);
            if let Some(pending) = self.pending.get_mut(&token) {
                pending.told = true;
                let (address, source) = (pending.peer.ip(), pending.source);
                if news == ConnectionNews::Gone {
                    let peer = greeted::text(pending.peer);
                    self.log.info(&format!(
                        "Connection reset by {peer}{}",
                        crate::log::PREAUTH
                    ));
                }
                if let Some(offence) = offence {
                    self.penalise(address, source, offence, now_ms);
                }
            }
        }
    }

    /// Removes a connection whose user has logged in from the start-ups. Its process is reaped when
    /// it ends.
    fn logged_in(&mut self, token: u64, now_ms: u64) {
        if let Some(pending) = self.pending.remove(&token) {
            let after_ms = now_ms.saturating_sub(pending.accepted_ms);
            self.measured.counters.logged_in(after_ms);
            self.measured.sessions.insert(pending.child.pid());
            let _ = self.epoll.remove(&pending.news);
            self.startups.leave(pending.source);
            if self.only_one {
                // With `-d`, the server waits for the session's end.
                let mut child = pending.child;
                let _ = child.wait();
            }
        }
    }

    pub(super) fn take_signals(&mut self, reloads: &mut impl Reloads) -> io::Result<Option<Stop>> {
        while let Some(info) = self.signals.read()? {
            match info.signal {
                Signal::HUP => {
                    self.log.info("Received SIGHUP; restarting.");
                    if let Some(successor) = reloads.successor(self.launch.executable()) {
                        return Ok(Some(Stop::Successor(successor)));
                    }
                    self.begin_reload(reloads)?;
                }
                Signal::CHLD => self.reap(),
                signal => {
                    self.log.info(&format!(
                        "Received signal {}; terminating.",
                        signal.as_raw()
                    ));
                    return Ok(Some(Stop::Signal));
                }
            }
        }
        Ok(None)
    }

    fn reap(&mut self) {
        let now_ms = sys::time::monotonic_ms();
        while let Ok(Some((pid, status))) = reap_any() {
            let token = self
                .pending
                .iter()
                .find(|(_, pending)| pending.child.pid() == pid)
                .map(|(token, _)| *token);
            let Some(token) = token else {
                if self.measured.sessions.remove(&pid) {
                    continue;
                }
                if self.spares.has_ended(pid, now_ms) {
                    let how = "a process that waited for a connection has ended";
                    self.log.verbose(&format!("{how}: {status}"));
                }
                continue;
            };
            // The pipe may still hold the process's last news.
            self.hear(token, now_ms);
            let Some(mut pending) = self.pending.remove(&token) else {
                // The login and its end arrived together.
                self.measured.sessions.remove(&pid);
                continue;
            };
            pending.child.set_reaped(status);
            if !pending.silent {
                let _ = self.epoll.remove(&pending.news);
                self.startups.leave(pending.source);
            }
            if let ExitStatus::Signaled { signal, .. } = status
                && !pending.told
            {
                self.log.error(&format!(
                    "process {pid} for {} was killed by signal {}",
                    pending.peer.ip(),
                    signal.as_raw()
                ));
                self.measured.counters.ended(ConnectionNews::Crashed);
                self.penalise(pending.peer.ip(), pending.source, Offence::Crash, now_ms);
            }
        }
    }
}
