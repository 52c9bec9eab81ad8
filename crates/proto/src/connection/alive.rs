//! Signs of life: ServerAliveInterval and ClientAliveInterval.

use crate::{Error, Millis, TransportConfig};

/// When the peer was last heard or asked, and how often it was asked since it was heard.
///
/// Each question gives a whole interval for its answer: time in which we were stopped ourselves
/// asks one question, not all of them at once.
#[derive(Debug, Clone, Copy)]
pub(super) struct Alive {
    since: Millis,
    asked: u32,
}

impl Alive {
    pub(super) fn new(now: Millis) -> Self {
        Self {
            since: now,
            asked: 0,
        }
    }

    /// Any packet is a sign of life.
    pub(super) fn heard(&mut self, now: Millis) {
        *self = Self::new(now);
    }

    /// It was asked, and nothing was heard since.
    pub(super) fn is_awaited(&self) -> bool {
        self.asked > 0
    }

    pub(super) fn deadline(&self, config: &TransportConfig) -> Option<Millis> {
        let interval = config.alive_interval_ms?;
        Some(self.since.saturating_add(interval))
    }

    /// Whether to ask now.
    ///
    /// # Errors
    /// [`Error::TimedOut`] when it was asked often enough.
    pub(super) fn is_due(&mut self, config: &TransportConfig, now: Millis) -> Result<bool, Error> {
        if self.deadline(config).is_none_or(|deadline| now < deadline) {
            return Ok(false);
        }
        // A count of 0 means: ask, but never give up (sshd_config(5), ClientAliveCountMax).
        if config.alive_count_max > 0 && self.asked >= config.alive_count_max {
            return Err(Error::TimedOut("peer not responding"));
        }
        self.asked = self.asked.saturating_add(1);
        self.since = now;
        Ok(true)
    }
}
