//! Signs of life: ServerAliveInterval and ClientAliveInterval, and requests to the peer when a
//! packet stays incomplete.
//!
//! A packet length that was damaged in transit can make the receiver wait for bytes that nobody
//! sends, before the MAC is checked. If an unfinished packet does not grow, the peer is therefore
//! asked for an answer: its bytes complete the false packet, whose MAC is then wrong. A packet that
//! grows only by such answers ends the connection. A packet that does not grow at all does not,
//! because the network may be interrupted. A packet that grows, however slowly, causes no request:
//! bytes that arrive after an answer, while no request is open, are not an answer.
//!
//! The peer may wait for such a packet too: OpenSSH's server waits indefinitely (9.2, 10.6;
//! tests/interop/tests/flips.rs). A client therefore asks a server that is known to answer whether
//! it has processed the sent packets. If nothing at all arrives then, although the server's kernel
//! has acknowledged every byte, the client sends as many bytes as the largest packet has: they
//! complete the false packet, whose MAC is wrong. A server that was only stopped ignores them. If
//! something arrives, the answer may be delayed by other data.

use wire::message::Ignore;

use super::{Auth, Connection, ConnectionStage};
use crate::{Error, Millis, TransportConfig};

/// Interval between two checks of an unfinished packet, milliseconds; a packet that has not grown
/// causes a request. The same time is allowed for the answer, and then for bytes beyond the answer.
const UNFINISHED_MS: Millis = 5_000;
/// Time between a client's packet and its request whether the server has processed it, and between
/// this request and [`Connection::fill_packet`], milliseconds.
const TAKEN_MS: Millis = 10_000;
/// Data of one filler message, bytes; every implementation accepts a packet of this size.
const FILLER_BYTES: usize = 32_000;
/// Number of answers by which a packet may grow without being completed.
const MOST_ANSWERS: u32 = 3;
/// Largest size of an answer, bytes; more bytes belong to the packet itself.
const ANSWER_BYTES: usize = 512;

/// The time of the peer's last packet or of our last request, and the number of requests since its
/// last packet.
///
/// Each request allows a whole interval for its answer: after a time in which this process was
/// stopped, one request is sent, not several at once.
#[derive(Debug, Clone, Copy)]
pub(super) struct Alive {
    since: Millis,
    asked: u32,
    /// Bytes of an unfinished packet at the last deadline.
    bytes: usize,
    doubt: Doubt,
}

/// Client: the state of the packets that the server may not have processed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    /// Nothing is outstanding.
    Sure,
    /// A packet was sent then that the server may not have processed.
    Unsure { since: Millis },
    /// The server was asked; `left` packets were sent since, including the request.
    Asked { at: Millis, left: u32 },
    /// Filler for the largest packet was sent.
    Filled,
}

impl Taken {
    /// Records a sent packet.
    pub(super) fn left(&mut self, now: Millis) {
        match self {
            Self::Sure => *self = Self::Unsure { since: now },
            Self::Asked { left, .. } => *left = left.saturating_add(1),
            Self::Unsure { .. } | Self::Filled => {}
        }
    }

    /// Records that every request was answered.
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

/// An unfinished packet.
#[derive(Debug, Clone, Copy, Default)]
struct Doubt {
    /// The time of the last check, and the number of bytes then.
    looked: Option<Millis>,
    bytes: usize,
    /// True if the peer was asked and nothing has arrived since.
    awaits: bool,
    /// Number of answers that did not complete the packet.
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

    /// Records a packet from the peer, which is a sign of life.
    pub(super) fn heard(&mut self, now: Millis) {
        *self = Self::new(now);
    }

    fn is_silent_since(&self, at: Millis) -> bool {
        self.since <= at
    }

    /// True if a request is unanswered.
    pub(super) fn is_awaited(&self) -> bool {
        self.asked > 0
    }

    pub(super) fn deadline(&self, config: &TransportConfig) -> Option<Millis> {
        let interval = config.alive_interval_ms?;
        Some(self.since.saturating_add(interval))
    }

    /// Time of the next check of an unfinished packet.
    pub(super) fn doubts_at(&self) -> Millis {
        let since = self.doubt.looked.unwrap_or(self.since);
        since.saturating_add(UNFINISHED_MS)
    }

    /// True if the peer is to be asked now because a packet with `bytes` received bytes is
    /// unfinished.
    ///
    /// # Errors
    /// [`Error::TimedOut`] if only answers have arrived, and they did not complete the packet.
    pub(super) fn doubts(&mut self, bytes: usize, now: Millis) -> Result<bool, Error> {
        if now < self.doubts_at() {
            return Ok(false);
        }
        let doubt = &mut self.doubt;
        let grown = bytes.saturating_sub(doubt.bytes);
        (doubt.looked, doubt.bytes) = (Some(now), bytes);
        match (doubt.awaits, grown) {
            (false, 0) => {}
            // The request or its answer is still in transit.
            (true, 0) => return Ok(false),
            // An answer, or a part of the packet; bytes that arrive while no request is open decide
            // which.
            (true, 1..=ANSWER_BYTES) => {
                doubt.answers += 1;
                doubt.awaits = false;
                return Ok(false);
            }
            // The packet grows, however slowly.
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

    /// True if the peer is to be asked now; `bytes` is the number of received bytes of an
    /// unfinished packet.
    ///
    /// # Errors
    /// [`Error::TimedOut`] after the configured number of unanswered requests.
    pub(super) fn is_due(
        &mut self,
        config: &TransportConfig,
        bytes: usize,
        now: Millis,
    ) -> Result<bool, Error> {
        if self.deadline(config).is_none_or(|deadline| now < deadline) {
            return Ok(false);
        }
        // Received bytes postpone the request, as with OpenSSH: a large packet may take minutes.
        // They may be answers, so earlier requests still count.
        if core::mem::replace(&mut self.bytes, bytes) < bytes {
            self.since = now;
            return Ok(false);
        }
        // A count of 0 means to ask but never to end the connection (sshd_config(5),
        // ClientAliveCountMax).
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
        if self.stage == ConnectionStage::Connected
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

    /// The time at which [`Connection::handle_timeout`] must be called.
    #[must_use]
    pub fn poll_deadline(&self) -> Option<Millis> {
        let alive = match self.stage {
            ConnectionStage::Connected => self.alive.deadline(&self.transport.config),
            _ => None,
        };
        let doubts = self.unfinished_bytes().map(|_| self.alive.doubts_at());
        [self.transport.deadline(), alive, doubts, self.asks_at()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Records received data, which may be the answer to the last request.
    pub(super) fn note_answer(&mut self) {
        if !self.globals.awaits_answer() {
            self.taken.answered(self.transport.now);
        }
    }

    /// Client: the time of the next request whether the server has processed the sent packets.
    fn asks_at(&self) -> Option<Millis> {
        let asks = matches!(self.auth, Auth::Client(_))
            && self.may_ask()
            && self.transport.peer_quirks().answers_keepalives;
        self.taken.deadline().filter(|_| asks)
    }

    fn ask_whether_taken(&mut self, now: Millis) -> Result<(), Error> {
        match &mut self.taken {
            // Unsent output may complete the server's packet by itself.
            Taken::Unsure { since: at } | Taken::Asked { at, .. }
                if self.transport.has_output() =>
            {
                *at = now;
            }
            Taken::Unsure { .. } => {
                self.globals.send_keepalive(&mut self.transport)?;
                self.taken = Taken::Asked { at: now, left: 0 };
            }
            // Something arrived, or the network may be interrupted.
            Taken::Asked { at, .. } => *at = now,
            Taken::Sure | Taken::Filled => {}
        }
        Ok(())
    }

    /// Client: true if the server was asked and is silent. If its kernel has acknowledged all sent
    /// bytes, it may wait for the end of a packet with a damaged length; the caller then calls
    /// [`Connection::fill_packet`].
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

    /// Sends as many bytes as the largest packet has; compression does not shorten them.
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

    /// True if a request to the peer is permitted now.
    fn may_ask(&self) -> bool {
        self.stage == ConnectionStage::Connected && !self.transport.is_exchanging()
    }

    /// Received bytes of an unfinished packet, if a request to the peer is permitted now.
    pub(super) fn unfinished_bytes(&self) -> Option<usize> {
        let bytes = self.transport.splitter.unfinished_bytes();
        bytes.filter(|_| self.may_ask())
    }
}
