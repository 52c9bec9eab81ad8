//! When to rekey: by bytes, packets and time, in either direction (RFC 4253 §9, RFC 4344 §3).

use super::Kex;
use crate::transport::Transport;
use crate::{Error, Millis};

/// Default for the bytes under one key: 2^32 blocks of 16 bytes, far below the limits of RFC 4344
/// §3.2 and GCM's counter.
const DEFAULT_REKEY_BYTES: u64 = 1 << 36;
/// Maximum packets under one key, RFC 4344 §3.1.
const MAX_PACKETS: u64 = 1 << 31;
/// The next exchange is near at this many bytes below the limit, or at half of the limit if that is
/// later.
const NEAR_BYTES: u64 = 64 << 20;
/// Time limit of a key exchange, milliseconds, counted from the last packet that left.
const EXCHANGE_LIMIT_MS: Millis = 120_000;

impl Transport {
    /// Starts a key exchange if a limit is reached and none is running.
    pub(in crate::transport) fn check_rekey(&mut self) -> Result<(), Error> {
        let settled = matches!(self.kex, Kex::Idle) && self.keys_queued == 0;
        if self.session.is_none() || !self.authenticated || !settled {
            // With a key change in the queue the sequencer still counts bytes of the old keys.
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

    /// Bytes that may be sent before the limit.
    pub(in crate::transport) fn bytes_until_rekey(&self) -> u64 {
        self.rekey_limit_bytes()
            .saturating_sub(self.sequencer.bytes())
    }

    /// Returns true if the limit on bytes is near, so that the next exchange follows soon unless
    /// the connection becomes silent. With a low limit this is already known during an exchange,
    /// while waiting for the peer's answer.
    pub(in crate::transport) fn rekey_is_near(&self) -> bool {
        let limit = self.rekey_limit_bytes();
        let used = self.sequencer.bytes().max(self.splitter.bytes());
        let soon = match self.kex {
            Kex::Idle => used >= limit.saturating_sub(NEAR_BYTES).max(limit / 2),
            _ => limit <= NEAR_BYTES,
        };
        soon && self.authenticated && self.active_at.is_some()
    }

    /// Maximum channel data that may wait for the end of an exchange, bytes: all of it will be sent
    /// under the same new keys.
    pub(in crate::transport) fn most_held_bulk(&self) -> usize {
        usize::try_from(self.rekey_limit_bytes() / 2).unwrap_or(usize::MAX)
    }

    /// Starts a key exchange now, unless one is running.
    pub(crate) fn rekey(&mut self) -> Result<(), Error> {
        if self.session.is_none() || !matches!(self.kex, Kex::Idle) {
            return Ok(());
        }
        self.start_exchange()
    }

    /// Returns true if a key exchange is running.
    pub(crate) fn is_exchanging(&self) -> bool {
        !matches!(self.kex, Kex::Idle)
    }

    /// Time of the next action that does not depend on input.
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
            // The owner's login or connect timeout limits the first exchange.
            _ if self.session.is_none() => None,
            Kex::InitSent { since, .. } => Some(since.saturating_add(EXCHANGE_LIMIT_MS)),
            Kex::Running(running) => Some(running.since.saturating_add(EXCHANGE_LIMIT_MS)),
        }
    }

    /// Handles expired deadlines; returns true if memory was freed.
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
