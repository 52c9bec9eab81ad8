//! Signs of life: ServerAliveInterval and ClientAliveInterval, and what is asked where a packet does
//! not come to its end.
//!
//! A length that was changed on its way can wait for bytes that nobody sends, before any check of
//! the packet could fail. So the peer is asked for something while a packet stays unfinished: the
//! bytes of its answer end the false packet, whose check then fails. A packet that only such answers
//! lengthen is given up. One that nothing lengthens is not: a network that is away says no more.
//!
//! The peer may be the one that waits. So a client asks a server that is silent behind what it was
//! sent, too, and if it stays silent sends what ends any packet: as many bytes as the largest has.
//! Then it waits, as for a network that is away.

use wire::message::Ignore;

use super::{Auth, Connection, Stage};
use crate::{Error, Millis, TransportConfig};

/// How long a packet may stay unfinished before the peer is asked, and then between two questions,
/// milliseconds.
const UNFINISHED_MS: Millis = 10_000;
/// How long a server may be silent behind what it was sent, milliseconds.
const SILENT_MS: Millis = 10_000;
/// Answers that may lengthen a packet and not end it.
const MOST_ANSWERS: u32 = 3;
/// Data of one message that only fills, bytes: every implementation takes a packet of so many.
const FILLER_BYTES: usize = 32_000;
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
    /// What was done about its silence, and when.
    nudged: Option<(Nudge, Millis)>,
}

/// What is done about a server's silence, one behind the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Nudge {
    /// A question.
    Ask,
    /// What ends any packet.
    Fill,
}

/// A packet that does not come to its end.
#[derive(Debug, Clone, Copy, Default)]
struct Doubt {
    /// When the peer was asked for it.
    asked: Option<Millis>,
    /// Bytes that were there then.
    bytes: usize,
    /// Answers that did not end it.
    answers: u32,
}

impl Alive {
    pub(super) fn new(now: Millis) -> Self {
        Self {
            since: now,
            asked: 0,
            doubt: Doubt::default(),
            nudged: None,
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

    fn deadline(&self, config: &TransportConfig) -> Option<Millis> {
        let interval = config.alive_interval_ms?;
        Some(self.since.saturating_add(interval))
    }

    /// When something is to be done about the silence behind what left at `left_at`.
    fn nudges_at(&self, left_at: Millis) -> Option<Millis> {
        let since = match self.nudged {
            None => left_at,
            // The question itself may not have left yet.
            Some((Nudge::Ask, at)) => left_at.max(at),
            Some((Nudge::Fill, _)) => return None,
        };
        Some(since.saturating_add(SILENT_MS))
    }

    /// What is to be done now about the silence behind what left at `left_at`.
    fn nudge(&mut self, left_at: Millis, now: Millis) -> Option<Nudge> {
        if self.nudges_at(left_at).is_none_or(|at| now < at) {
            return None;
        }
        let nudge = match self.nudged {
            None => Nudge::Ask,
            Some(_) => Nudge::Fill,
        };
        self.nudged = Some((nudge, now));
        Some(nudge)
    }

    /// When the peer is to be asked since a packet is unfinished.
    fn doubts_at(&self) -> Millis {
        let since = self.doubt.asked.unwrap_or(self.since);
        since.saturating_add(UNFINISHED_MS)
    }

    /// Whether to ask now since a packet is unfinished, of which so many bytes are there.
    ///
    /// # Errors
    /// [`Error::TimedOut`] when nothing but answers came, and they did not end it.
    fn doubts(&mut self, bytes: usize, now: Millis) -> Result<bool, Error> {
        if now < self.doubts_at() {
            return Ok(false);
        }
        let doubt = &mut self.doubt;
        if doubt.asked.is_some() {
            match bytes.saturating_sub(doubt.bytes) {
                0 => {
                    // The question is still on its way.
                    doubt.asked = Some(now);
                    return Ok(false);
                }
                1..=ANSWER_BYTES => doubt.answers += 1,
                _ => doubt.answers = 0,
            }
        }
        if doubt.answers >= MOST_ANSWERS {
            return Err(Error::TimedOut("the end of a packet"));
        }
        (doubt.asked, doubt.bytes) = (Some(now), bytes);
        Ok(true)
    }

    /// Whether to ask now.
    ///
    /// # Errors
    /// [`Error::TimedOut`] when it was asked often enough.
    fn is_due(&mut self, config: &TransportConfig, now: Millis) -> Result<bool, Error> {
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
    /// Does what is due about a silent peer, and about a packet that does not come to its end, here or
    /// at the server.
    pub(super) fn tend_silence(&mut self, now: Millis) -> Result<(), Error> {
        if self.stage == Stage::Connected && self.alive.is_due(&self.transport.config, now)? {
            self.globals.send_keepalive(&mut self.transport)?;
        }
        if let Some(bytes) = self.unfinished_bytes()
            && self.alive.doubts(bytes, now)?
        {
            self.globals.send_keepalive(&mut self.transport)?;
        }
        if let Some(left_at) = self.silent_since() {
            match self.alive.nudge(left_at, now) {
                Some(Nudge::Ask) => self.globals.send_keepalive(&mut self.transport)?,
                Some(Nudge::Fill) => self.fill_packet()?,
                None => {}
            }
        }
        Ok(())
    }

    /// When [`Connection::tend_silence`] has something to do.
    pub(super) fn silence_deadline(&self) -> Option<Millis> {
        let doubts = self.unfinished_bytes().map(|_| self.alive.doubts_at());
        let silent = self.silent_since();
        let silent = silent.and_then(|left_at| self.alive.nudges_at(left_at));
        let alive = match self.stage {
            Stage::Connected => self.alive.deadline(&self.transport.config),
            _ => None,
        };
        [doubts, silent, alive].into_iter().flatten().min()
    }

    /// The peer may be asked for something.
    fn may_ask(&self) -> bool {
        self.stage == Stage::Connected && !self.transport.is_exchanging()
    }

    /// Bytes of a packet whose end has not come.
    fn unfinished_bytes(&self) -> Option<usize> {
        let bytes = self.transport.splitter.unfinished_bytes();
        bytes.filter(|_| self.may_ask())
    }

    /// When the last packet left for a server that has said nothing since.
    fn silent_since(&self) -> Option<Millis> {
        let is_client = matches!(self.auth, Auth::Client(_));
        self.transport
            .left_at
            .filter(|_| is_client && self.may_ask())
    }

    /// Sends as many bytes as the largest packet has, which compression does not make fewer.
    fn fill_packet(&mut self) -> Result<(), Error> {
        let mut data = alloc::vec![0; FILLER_BYTES];
        for _ in 0..=wire::MAX_PACKET_BYTES / FILLER_BYTES {
            crypto::random::fill(&mut data);
            self.transport.send_message(&Ignore { data: &data })?;
        }
        Ok(())
    }
}
