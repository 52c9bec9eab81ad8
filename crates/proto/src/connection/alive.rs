//! Signs of life: ServerAliveInterval and ClientAliveInterval, and requests to the peer when a
//! packet stays incomplete.
//!
//! A packet length that was damaged in transit can make the receiver wait for bytes that nobody
//! sends, before the MAC is checked. If an unfinished packet does not grow, the peer is therefore
//! asked for an answer: its bytes complete the false packet, whose MAC is then wrong. A packet that
//! grows only by such answers ends the connection. A packet that does not grow at all does not after the
//! login, because the network may be interrupted. A packet that grows, however slowly, causes no request:
//! bytes that arrive after an answer, while no request is open, are not an answer.
//!
//! The peer may wait for such a packet too: OpenSSH's server waits indefinitely (9.2, 10.6;
//! tests/interop/tests/flips.rs). A client therefore asks a server that is known to answer whether
//! it has processed the sent packets. If nothing at all arrives then, although the server's kernel
//! has acknowledged every byte, the client sends as many bytes as the largest packet has: they
//! complete the false packet, whose MAC is wrong. A server that was only stopped ignores them. If
//! something arrives, the answer may be delayed by other data.

use crate::{Error, Millis, TransportConfig};

/// Interval between two checks of an unfinished packet, milliseconds; a packet that has not grown
/// causes a request. The same time is allowed for the answer, and then for bytes beyond the answer.
const UNFINISHED_MS: Millis = 5_000;
/// Time between a client's packet and its request whether the server has processed it, and between
/// this request and `Connection::fill_packet`, milliseconds.
const TAKEN_MS: Millis = 10_000;
/// Number of answers by which a packet may grow without being completed.
const MOST_ANSWERS: u32 = 3;
/// Client: interval between two checks of an unfinished packet before the login is over, milliseconds.
/// Nothing can be asked then. A server may take long to answer, but not in the middle of a packet: one that
/// has not grown at two checks in succession ends the connection.
const UNFINISHED_LOGIN_MS: Millis = 30_000;
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

    pub(super) fn deadline(self) -> Option<Millis> {
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

    pub(super) fn is_silent_since(&self, at: Millis) -> bool {
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

    /// Time of the next check of an unfinished packet before the login is over.
    pub(super) fn login_doubts_at(&self) -> Millis {
        let since = self.doubt.looked.unwrap_or(self.since);
        since.saturating_add(UNFINISHED_LOGIN_MS)
    }

    /// Checks an unfinished packet with `bytes` received bytes before the login is over.
    ///
    /// # Errors
    /// [`Error::TimedOut`] if it had the same number of bytes at the last two checks.
    pub(super) fn doubts_in_login(&mut self, bytes: usize, now: Millis) -> Result<(), Error> {
        if now < self.login_doubts_at() {
            return Ok(());
        }
        let doubt = &mut self.doubt;
        let has_grown = bytes > doubt.bytes;
        if doubt.awaits && !has_grown {
            return Err(Error::TimedOut("the end of a packet"));
        }
        (doubt.looked, doubt.bytes, doubt.awaits) = (Some(now), bytes, !has_grown);
        Ok(())
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
        if self.asked >= config.alive_count_max {
            return Err(Error::TimedOut("peer not responding"));
        }
        self.asked = self.asked.saturating_add(1);
        self.since = now;
        Ok(true)
    }
}
