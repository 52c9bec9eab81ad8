//! When to rekey: by bytes, packets and time, in either direction (RFC 4253 §9, RFC 4344 §3).

use crate::transport::inbound::Inbound;
use crate::transport::outbound::Outbound;
use crate::{Millis, TransportConfig};

/// Default for the bytes under one key: 2^32 blocks of 16 bytes, far below the limits of RFC 4344
/// §3.2 and GCM's counter.
const DEFAULT_REKEY_BYTES: u64 = 1 << 36;
/// The next exchange is near at this many bytes below the limit, or at half of the limit if that is
/// later.
const NEAR_BYTES: u64 = 64 << 20;
/// Time limit of a key exchange, milliseconds, counted from the last packet that left.
const EXCHANGE_LIMIT_MS: Millis = 120_000;

/// Limits on the use of keys, from the configuration.
#[derive(Debug, Clone, Copy)]
pub(super) struct RekeyLimits {
    bytes: u64,
    interval_ms: Option<Millis>,
}

impl RekeyLimits {
    pub(super) fn new(config: &TransportConfig) -> Self {
        Self {
            bytes: config.rekey_bytes.unwrap_or(DEFAULT_REKEY_BYTES),
            interval_ms: config.rekey_ms,
        }
    }

    /// Returns true if the use of keys has reached a limit. While the queue contains a change of
    /// keys, the sent bytes are still those of the old ones.
    pub(super) fn are_reached(&self, outbound: &Outbound, inbound: &Inbound) -> bool {
        outbound.bytes().is_some_and(|sent| {
            sent.max(inbound.bytes()) >= self.bytes || outbound.must_rekey() || inbound.must_rekey()
        })
    }

    /// Returns true if the limit on bytes is near, so that the next exchange follows soon unless
    /// the connection becomes silent. With a low limit this is already known during an exchange,
    /// while waiting for the peer's answer.
    pub(super) fn are_near(
        &self,
        exchanging: bool,
        outbound: &Outbound,
        inbound: &Inbound,
    ) -> bool {
        if exchanging {
            return self.bytes <= NEAR_BYTES;
        }
        let used = outbound.bytes().unwrap_or_default().max(inbound.bytes());
        used >= self.bytes.saturating_sub(NEAR_BYTES).max(self.bytes / 2)
    }

    /// Bytes that may be sent before the limit; 0 while the queue contains a change of keys.
    pub(super) fn bytes_left(&self, outbound: &Outbound) -> u64 {
        let sent = outbound.bytes().unwrap_or(u64::MAX);
        self.bytes.saturating_sub(sent)
    }

    /// Returns true if the keys in use have reached the limit of bytes by what was sent.
    pub(super) fn are_spent(&self, outbound: &Outbound) -> bool {
        outbound.bytes().is_some_and(|sent| sent >= self.bytes)
    }

    /// Maximum channel data that may wait for the end of an exchange, bytes: all of it will be sent
    /// under the same new keys.
    pub(super) fn most_held_bulk(&self) -> usize {
        usize::try_from(self.bytes / 2).unwrap_or(usize::MAX)
    }

    /// Time of the exchange that follows the one completed at `completed_at`, if time limits it.
    pub(super) fn next_at(&self, completed_at: Millis) -> Option<Millis> {
        self.interval_ms
            .map(|interval| completed_at.saturating_add(interval))
    }
}

/// Time at which an exchange has taken too long, if its last packet left at `since`.
pub(super) fn ends_at(since: Millis) -> Millis {
    since.saturating_add(EXCHANGE_LIMIT_MS)
}
