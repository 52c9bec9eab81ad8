//! Signs of life: ServerAliveInterval and ClientAliveInterval, and what is asked where a packet does
//! not come to its end.
//!
//! A length that was changed on its way can wait for bytes that nobody sends, before any check of
//! the packet could fail. So the peer is asked for something when nothing more of a packet comes: the
//! bytes of its answer end the false packet, whose check then fails. A packet that only such answers
//! lengthen is given up. One that nothing lengthens is not: a network that is away says no more. Nor
//! is one asked about that grows, however slowly: what comes behind an answer, while nothing is asked,
//! is no answer.
//!
//! The peer may be the one that waits for such a packet: OpenSSH's server does so for ever (9.2, 10.6;
//! tests/interop/tests/flips.rs). So a client asks a server that is known to answer whether what it
//! sent was taken. Where nothing at all comes then, though the server's system has every byte, it sends
//! as many as the largest packet has: they end the false one, whose check fails. A server that was only
//! stopped passes them over. Where something comes the answer may stand in a long line.

use wire::message::Ignore;

use super::{Auth, Connection, Stage};
use crate::{Error, Millis, TransportConfig};

/// Between two looks at a packet that is unfinished, milliseconds: what has not grown meanwhile is
/// asked about. So long an answer has to come, too, and then more than the answer.
const UNFINISHED_MS: Millis = 5_000;
/// Between what a client sent and its question whether that was taken, and then until it doubts that,
/// milliseconds.
const TAKEN_MS: Millis = 10_000;
/// Data of one message that only fills, bytes: every implementation takes a packet of so many.
const FILLER_BYTES: usize = 32_000;
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
    /// Bytes of an unfinished packet at the last deadline.
    bytes: usize,
    doubt: Doubt,
}

/// Whether the server took what a client sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    /// All of it.
    Sure,
    /// Something left since then that may not be.
    Unsure { since: Millis },
    /// It was asked; so many packets left since, the question with them.
    Asked { at: Millis, left: u32 },
    /// It was sent the end of any packet.
    Filled,
}

impl Taken {
    /// A packet left.
    pub(super) fn left(&mut self, now: Millis) {
        match self {
            Self::Sure => *self = Self::Unsure { since: now },
            Self::Asked { left, .. } => *left = left.saturating_add(1),
            Self::Unsure { .. } | Self::Filled => {}
        }
    }

    /// Every question was answered.
    pub(super) fn answered(&mut self, now: Millis) {
        *self = match *self {
            Self::Asked { left: 0..=1, .. } => Self::Sure,
            Self::Asked { .. } | Self::Filled => Self::Unsure { since: now },
            Self::Sure | Self::Unsure { .. } => return,
        }
    }

    fn deadline(self) -> Option<Millis> {
        match self {
            Self::Unsure { since: at } | Self::Asked { at, .. } => {
                Some(at.saturating_add(TAKEN_MS))
            }
            Self::Sure | Self::Filled => None,
        }
    }
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
            bytes: 0,
            doubt: Doubt::default(),
        }
    }

    /// Any packet is a sign of life.
    pub(super) fn heard(&mut self, now: Millis) {
        *self = Self::new(now);
    }

    fn is_silent_since(&self, at: Millis) -> bool {
        self.since <= at
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
            // An answer, or the packet itself: what comes while nothing is asked tells.
            (true, 1..=ANSWER_BYTES) => {
                doubt.answers += 1;
                doubt.awaits = false;
                return Ok(false);
            }
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

    /// Whether to ask now; so many bytes of an unfinished packet are there.
    ///
    /// # Errors
    /// [`Error::TimedOut`] when it was asked often enough.
    pub(super) fn is_due(
        &mut self,
        config: &TransportConfig,
        bytes: usize,
        now: Millis,
    ) -> Result<bool, Error> {
        if self.deadline(config).is_none_or(|deadline| now < deadline) {
            return Ok(false);
        }
        // Bytes put it off, as with OpenSSH: a large packet may take minutes. They may be answers, so
        // that what was asked counts.
        if core::mem::replace(&mut self.bytes, bytes) < bytes {
            self.since = now;
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
        let bytes = self.unfinished_bytes();
        let there = bytes.unwrap_or_default();
        if self.stage == Stage::Connected
            && self.alive.is_due(&self.transport.config, there, now)?
        {
            self.globals.send_keepalive(&mut self.transport)?;
        }
        if let Some(bytes) = bytes
            && self.alive.doubts(bytes, now)?
        {
            self.globals.send_keepalive(&mut self.transport)?;
        }
        if self.asks_at().is_some_and(|at| at <= now) {
            self.ask_whether_taken(now)?;
        }
        Ok(freed)
    }

    /// When [`Connection::handle_timeout`] wants to be called.
    #[must_use]
    pub fn poll_deadline(&self) -> Option<Millis> {
        let alive = match self.stage {
            Stage::Connected => self.alive.deadline(&self.transport.config),
            _ => None,
        };
        let doubts = self.unfinished_bytes().map(|_| self.alive.doubts_at());
        [self.transport.deadline(), alive, doubts, self.asks_at()]
            .into_iter()
            .flatten()
            .min()
    }

    /// What came may have been the answer to the last question.
    pub(super) fn note_answer(&mut self) {
        if !self.globals.awaits_answer() {
            self.taken.answered(self.transport.now);
        }
    }

    /// When a client wants to know whether the server took what it sent.
    fn asks_at(&self) -> Option<Millis> {
        let asks = matches!(self.auth, Auth::Client(_))
            && self.may_ask()
            && self.transport.peer_quirks().answers_keepalives;
        self.taken.deadline().filter(|_| asks)
    }

    fn ask_whether_taken(&mut self, now: Millis) -> Result<(), Error> {
        match &mut self.taken {
            // What is still to leave may end the server's packet by itself.
            Taken::Unsure { since: at } | Taken::Asked { at, .. }
                if self.transport.has_output() =>
            {
                *at = now;
            }
            Taken::Unsure { .. } => {
                self.globals.send_keepalive(&mut self.transport)?;
                self.taken = Taken::Asked { at: now, left: 0 };
            }
            // Something came, or the network may be away.
            Taken::Asked { at, .. } => *at = now,
            Taken::Sure | Taken::Filled => {}
        }
        Ok(())
    }

    /// Client: the server was asked and is silent. It may wait for the end of a packet whose length was
    /// changed, if its system has all that was written: then [`Connection::fill_packet`] is to be called.
    #[must_use]
    pub fn doubts_silence(&self, now: Millis) -> bool {
        let Taken::Asked { at, .. } = self.taken else {
            return false;
        };
        self.alive.is_silent_since(at)
            && self.unfinished_bytes().is_none()
            && !self.transport.has_output()
            && self.asks_at().is_some_and(|due| due <= now)
    }

    /// Sends as many bytes as the largest packet has, which compression does not make fewer.
    ///
    /// # Errors
    /// [`Error`] of sending.
    pub fn fill_packet(&mut self) -> Result<(), Error> {
        self.taken = Taken::Filled;
        let mut data = alloc::vec![0; FILLER_BYTES];
        for _ in 0..=wire::MAX_PACKET_BYTES / FILLER_BYTES {
            crypto::random::fill(&mut data);
            self.transport.send_message(&Ignore { data: &data })?;
        }
        Ok(())
    }

    /// The peer may be asked for something.
    fn may_ask(&self) -> bool {
        self.stage == Stage::Connected && !self.transport.is_exchanging()
    }

    /// Bytes of a packet whose end has not come, where the peer may be asked for more.
    pub(super) fn unfinished_bytes(&self) -> Option<usize> {
        let bytes = self.transport.splitter.unfinished_bytes();
        bytes.filter(|_| self.may_ask())
    }
}
