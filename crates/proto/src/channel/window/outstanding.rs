//! Bound of the bulk data that is outstanding (sent and not granted back) while the peer's user
//! types, for a peer whose windows do not shrink meanwhile. It applies only
//! - to a channel whose peer has made a grant smaller than the bound;
//! - while grants arrive: after a silence of [`SILENT_MS`] it never applies to that channel again;
//! - while the connection has at least half of the speed that it had without a bound. Otherwise a
//!   proxy hides a long path from the kernel, and the bound pauses for [`PAUSE_MS`].
//!
//! So a transfer that begins after the keystroke has no bound until its speed is known.

use crate::Millis;

/// Bytes that may be outstanding on a path of no length. OpenSSH's client grants what it has
/// consumed once this is more than three packets, 96 KiB.
const LEAST_BYTES: u64 = 160 * 1024;
/// In addition, bytes per microsecond of the shortest round trip: no peer consumes more.
const BYTES_PER_US: u64 = 1000;
/// Silence that shows that a peer waits for more data before it grants a window, milliseconds.
const SILENT_MS: Millis = 50;
/// Length of a round in which the speed is measured, milliseconds.
const ROUND_MS: Millis = 50;
/// A pause of this length ends a transfer: the speed of the next one is not known.
const IDLE_MS: Millis = 500;
/// Successive slow rounds that are the fault of the bound: the peer may not run for a moment.
const SLOW_ROUNDS: u8 = 2;
/// Time without a bound after it was at fault, milliseconds.
const PAUSE_MS: Millis = 10_000;

/// Outstanding bytes of one channel, and how its peer grants.
#[derive(Debug, Default)]
pub(crate) struct Outstanding {
    bytes: u64,
    /// Time of the last grant, or of the last data sent below the bound.
    moved_at: Millis,
    /// Smallest grant, bytes.
    least_grant: Option<u32>,
    /// The peer kept silent at the bound.
    grants_late: bool,
}

impl Outstanding {
    /// Records sent data. `bound` is the connection's.
    pub(crate) fn send(&mut self, len: usize, bound: Option<u64>, now: Millis) {
        let left = bound.and_then(|bound| self.left(bound, now));
        // What exceeds the bound is a keystroke's echo, and does not prolong the silence.
        if left != Some(0) {
            self.grants_late |= bound.is_some_and(|bound| self.is_silent(bound, now));
            self.moved_at = now;
        }
        let len = u64::try_from(len).unwrap_or(u64::MAX);
        self.bytes = self.bytes.saturating_add(len);
    }

    /// Records a grant.
    fn grant(&mut self, bytes: u32, now: Millis) {
        self.bytes = self.bytes.saturating_sub(bytes.into());
        self.moved_at = now;
        self.least_grant = Some(self.least_grant.map_or(bytes, |least| least.min(bytes)));
    }

    /// Bytes that may be sent below `bound`; `None` if it does not apply.
    pub(crate) fn left(&self, bound: u64, now: Millis) -> Option<u64> {
        let grants_early = self
            .least_grant
            .is_some_and(|least| u64::from(least) < bound);
        let applies = grants_early && !self.grants_late && !self.is_silent(bound, now);
        applies.then(|| bound.saturating_sub(self.bytes))
    }

    /// Returns true if the channel is at the bound and has been silent there.
    fn is_silent(&self, bound: u64, now: Millis) -> bool {
        self.bytes >= bound && now >= self.silent_at()
    }

    /// Time at which a channel at the bound counts as silent.
    pub(crate) fn silent_at(&self) -> Millis {
        self.moved_at.saturating_add(SILENT_MS)
    }
}

/// Bound of each channel of a connection.
#[derive(Debug, Default)]
pub(crate) struct OutstandingBound {
    /// Start of the round, and the bytes granted since then, in all and at the bound.
    since: Millis,
    bytes: u64,
    held_bytes: u64,
    /// The bound applies in this round.
    is_bound: bool,
    /// Bytes granted per millisecond without a bound.
    free_speed: Option<u64>,
    slow_rounds: u8,
    paused_until: Millis,
}

impl OutstandingBound {
    /// Bytes that may be outstanding on each channel over a path with this shortest round trip.
    pub(crate) fn bytes(&self, shortest_us: u64, now: Millis) -> Option<u64> {
        self.free_speed?;
        (now >= self.paused_until).then(|| {
            shortest_us
                .saturating_mul(BYTES_PER_US)
                .saturating_add(LEAST_BYTES)
        })
    }

    /// Records a grant of `bytes` for `channel`; `bound` is what applies now.
    pub(crate) fn grant(
        &mut self,
        channel: &mut Outstanding,
        bytes: u32,
        bound: Option<u64>,
        now: Millis,
    ) {
        let is_held = bound.and_then(|bound| channel.left(bound, now)) == Some(0);
        channel.grant(bytes, now);
        if bound.is_some() != self.is_bound {
            self.is_bound = bound.is_some();
            (self.since, self.bytes, self.held_bytes) = (now, 0, 0);
            return;
        }
        self.bytes = self.bytes.saturating_add(bytes.into());
        if is_held {
            self.held_bytes = self.held_bytes.saturating_add(bytes.into());
        }
        let elapsed_ms = now.saturating_sub(self.since);
        if elapsed_ms >= ROUND_MS {
            self.end_round(elapsed_ms, now);
        }
    }

    fn end_round(&mut self, elapsed_ms: Millis, now: Millis) {
        let speed = self.bytes / elapsed_ms.max(1);
        let is_held = self.held_bytes > self.bytes / 2;
        if elapsed_ms >= IDLE_MS {
            self.free_speed = None;
        } else if !self.is_bound {
            self.free_speed = Some(
                self.free_speed
                    .map_or(speed, |free| u64::midpoint(free, speed)),
            );
        } else if is_held && self.free_speed.is_some_and(|free| speed < free / 2) {
            self.slow_rounds += 1;
            if self.slow_rounds >= SLOW_ROUNDS {
                self.slow_rounds = 0;
                self.paused_until = now.saturating_add(PAUSE_MS);
            }
        } else {
            self.slow_rounds = 0;
        }
        (self.since, self.bytes, self.held_bytes) = (now, 0, 0);
    }
}
