//! When keys have done enough: by bytes, packets and time, in either direction
//! (RFC 4253 §9, RFC 4344 §3).

use super::{Kex, Transport};
use crate::{Error, Millis};

/// Bytes under one key where the configuration names no limit: 2^32 blocks of 16 bytes, far
/// below what RFC 4344 §3.2 and GCM's counter allow.
const DEFAULT_REKEY_BYTES: u64 = 1 << 36;
/// Packets under one key, RFC 4344 §3.1.
const MAX_PACKETS: u64 = 1 << 31;
/// Bytes below a limit, or half of it, at which the next exchange is near.
const NEAR_BYTES: u64 = 64 << 20;
/// A key exchange that takes longer than this is given up, milliseconds. Counts from the last
/// packet that left.
const EXCHANGE_LIMIT_MS: Millis = 120_000;

impl Transport {
    /// Starts a key exchange when a limit is reached and none is under way.
    pub(super) fn check_rekey(&mut self) -> Result<(), Error> {
        let settled = matches!(self.kex, Kex::Idle) && self.keys_queued == 0;
        if self.session.is_none() || !self.authenticated || !settled {
            // With keys in the queue the sequencer still counts what the old ones have done.
            return Ok(());
        }
        let limit = self.rekey_limit_bytes();
        let due = self.sequencer.bytes() >= limit
            || self.splitter.bytes() >= limit
            || self.sequencer.packets() >= MAX_PACKETS
            || self.splitter.packets() >= MAX_PACKETS
            || self.sequencer.must_rekey()
            || self.splitter.must_rekey();
        if due { self.start_exchange() } else { Ok(()) }
    }

    fn rekey_limit_bytes(&self) -> u64 {
        self.config.rekey_bytes.unwrap_or(DEFAULT_REKEY_BYTES)
    }

    /// Bytes that may still be sent before that.
    pub(super) fn bytes_until_rekey(&self) -> u64 {
        self.rekey_limit_bytes()
            .saturating_sub(self.sequencer.bytes())
    }

    /// The limit on bytes is not far: so the next exchange comes soon, unless the connection falls
    /// silent. With a low limit that can be said while the one before it is under way, and the
    /// peer's answer waited for.
    pub(super) fn rekey_is_near(&self) -> bool {
        let limit = self.rekey_limit_bytes();
        let used = self.sequencer.bytes().max(self.splitter.bytes());
        let soon = match self.kex {
            Kex::Idle => used >= limit.saturating_sub(NEAR_BYTES).max(limit / 2),
            _ => limit <= NEAR_BYTES,
        };
        soon && self.authenticated && self.active_at.is_some()
    }

    /// Channel data that may wait for the end of an exchange, bytes: it will all have the same
    /// new keys.
    pub(super) fn most_held_bulk(&self) -> usize {
        usize::try_from(self.rekey_limit_bytes() / 2).unwrap_or(usize::MAX)
    }

    /// Starts a key exchange now, unless one is under way.
    pub(crate) fn rekey(&mut self) -> Result<(), Error> {
        if self.session.is_none() || !matches!(self.kex, Kex::Idle) {
            return Ok(());
        }
        self.start_exchange()
    }

    /// A key exchange is under way, and waits for the peer.
    pub(crate) fn is_exchanging(&self) -> bool {
        !matches!(self.kex, Kex::Idle)
    }

    /// When time alone asks for something.
    pub(crate) fn deadline(&self) -> Option<Millis> {
        [self.exchange_deadline(), self.shed_deadline()]
            .into_iter()
            .flatten()
            .min()
    }

    fn exchange_deadline(&self) -> Option<Millis> {
        match &self.kex {
            Kex::Idle if self.session.is_some() && self.authenticated => self
                .config
                .rekey_ms
                .map(|interval| self.last_exchange.saturating_add(interval)),
            Kex::Idle | Kex::Moving => None,
            // The first exchange is bounded by the owner's login or connect timeout.
            _ if self.session.is_none() => None,
            Kex::InitSent { since, .. } => Some(since.saturating_add(EXCHANGE_LIMIT_MS)),
            Kex::Running(running) => Some(running.since.saturating_add(EXCHANGE_LIMIT_MS)),
        }
    }

    /// True when memory was given back.
    pub(crate) fn handle_timeout(&mut self) -> Result<bool, Error> {
        let shed = self.shed_if_idle();
        if self
            .exchange_deadline()
            .is_none_or(|deadline| self.now < deadline)
        {
            return Ok(shed);
        }
        match self.kex {
            Kex::Idle => self.start_exchange()?,
            _ => return Err(Error::TimedOut("key exchange")),
        }
        Ok(shed)
    }
}
