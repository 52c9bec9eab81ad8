//! Signs of life: ServerAliveInterval and ClientAliveInterval, and what is asked where a packet does
//! not come to its end.
//!
//! A length that was changed on its way can wait for bytes that nobody sends, before any check of
//! the packet could fail. So the peer is asked for something when nothing more of a packet comes: the
//! bytes of its answer end the false packet, whose check then fails. A packet that only such answers
//! lengthen is given up. One that nothing lengthens is not: a network that is away says no more. Nor
//! is one asked about that grows, however slowly.

use super::{Connection, Stage};
use crate::{Error, Millis, TransportConfig};

/// Between two looks at a packet that is unfinished, milliseconds: what has not grown meanwhile is
/// asked about.
const UNFINISHED_MS: Millis = 10_000;
/// Answers that may lengthen a packet and not end it.
const MOST_ANSWERS: u32 = 3;
/// What is longer is more than an answer, bytes.
const ANSWER_BYTES: usize = 512;

/// When the peer was last heard or asked, and how often it was asked since it was heard.
///
/// Each question gives a whole interval for its answer: time in which we were stopped ourselves
/// asks one question, not all of them at once.
#[derive(Debug, Clone, Copy)]
pub(super) struct Alive {
    since: Millis,
    asked: u32,
    doubt: Doubt,
}

/// A packet that does not come to its end.
#[derive(Debug, Clone, Copy, Default)]
struct Doubt {
    /// When it was looked at, and how many bytes were there then.
    looked: Option<Millis>,
    bytes: usize,
    /// The peer was asked, and that has brought nothing yet.
    awaits: bool,
    /// Answers that did not end it.
    answers: u32,
}

impl Alive {
    pub(super) fn new(now: Millis) -> Self {
        Self {
            since: now,
            asked: 0,
            doubt: Doubt::default(),
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

    /// When a packet that is unfinished is to be looked at.
    pub(super) fn doubts_at(&self) -> Millis {
        let since = self.doubt.looked.unwrap_or(self.since);
        since.saturating_add(UNFINISHED_MS)
    }

    /// Whether to ask now since a packet is unfinished, of which so many bytes are there.
    ///
    /// # Errors
    /// [`Error::TimedOut`] when nothing but answers came, and they did not end it.
    pub(super) fn doubts(&mut self, bytes: usize, now: Millis) -> Result<bool, Error> {
        if now < self.doubts_at() {
            return Ok(false);
        }
        let doubt = &mut self.doubt;
        let grown = bytes.saturating_sub(doubt.bytes);
        (doubt.looked, doubt.bytes) = (Some(now), bytes);
        match (doubt.awaits, grown) {
            (false, 0) => {}
            // The question, or its answer, is still on its way.
            (true, 0) => return Ok(false),
            (true, 1..=ANSWER_BYTES) => doubt.answers += 1,
            // It comes, however slowly.
            (_, _) => {
                (doubt.awaits, doubt.answers) = (false, 0);
                return Ok(false);
            }
        }
        if doubt.answers >= MOST_ANSWERS {
            return Err(Error::TimedOut("the end of a packet"));
        }
        doubt.awaits = true;
        Ok(true)
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

impl Connection {
    /// The clock reached [`Connection::poll_deadline`]. True when the connection is idle and has
    /// freed the memory of its bulk data, which the allocator may keep.
    ///
    /// # Errors
    /// [`Error::TimedOut`].
    pub fn handle_timeout(&mut self, now: Millis) -> Result<bool, Error> {
        self.transport.now = now;
        let freed = self.transport.handle_timeout()?;
        if self.stage == Stage::Connected && self.alive.is_due(&self.transport.config, now)? {
            self.globals.send_keepalive(&mut self.transport)?;
        }
        if let Some(bytes) = self.unfinished_bytes()
            && self.alive.doubts(bytes, now)?
        {
            self.globals.send_keepalive(&mut self.transport)?;
        }
        Ok(freed)
    }

    /// Bytes of a packet whose end has not come, where the peer may be asked for more.
    pub(super) fn unfinished_bytes(&self) -> Option<usize> {
        let may_ask = self.stage == Stage::Connected && !self.transport.is_exchanging();
        self.transport
            .splitter
            .unfinished_bytes()
            .filter(|_| may_ask)
    }
}
