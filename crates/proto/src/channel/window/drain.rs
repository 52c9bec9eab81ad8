//! Measures how fast a sink consumes its data, in bytes per round trip. A measuring round lasts at
//! least one round trip.

use crate::Millis;

/// Minimum length of a round, milliseconds: with a clock of milliseconds a shorter one is
/// inaccurate.
const LEAST_ROUND_MS: Millis = 10;
/// Time over which a past speed fades, milliseconds: by then the window of an idle
/// channel is back at its floor.
const FADE_MS: Millis = 4_000;
/// While the speed rises, the window is eight round trips' worth: the measurement is up to a round
/// trip old, the grant takes another one to be used, and a sender in its start phase nearly triples
/// its speed in each (BBR: by 2.89).
const RISING: u64 = 8;
/// Once the speed has settled, the window is twice the bandwidth-delay product.
const SETTLED: u64 = 2;
/// Rounds without a new maximum after which the speed has settled.
const SETTLED_ROUNDS: u64 = 4;

/// Window size requested by the measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WindowRequest {
    /// No change.
    Keep,
    /// Grow to at least this many bytes, at once.
    AtLeast(u64),
    /// Set to this many bytes.
    Exactly(u64),
}

/// Speed measurement of one sink.
#[derive(Debug)]
pub(super) struct Drain {
    since: Millis,
    bytes: u64,
    /// Highest recent speed, bytes per round trip; fades over time.
    high: u64,
    /// Mean speed of the last rounds, bytes per round trip.
    mean: u64,
    settled_rounds: u64,
    /// The sink's queue was empty at some time in this round, and in the previous one.
    was_empty: bool,
    was_empty_before: bool,
}

impl Drain {
    pub(super) fn new(now: Millis) -> Self {
        Self {
            since: now,
            bytes: 0,
            high: 0,
            mean: 0,
            settled_rounds: 0,
            was_empty: false,
            was_empty_before: false,
        }
    }

    /// Records that the sink consumed `bytes`; `empty` says whether its queue is empty now. Returns
    /// the request for a window of `size` bytes.
    pub(super) fn count(
        &mut self,
        bytes: u64,
        empty: bool,
        size: u64,
        now: Millis,
        round_trip_us: u64,
    ) -> WindowRequest {
        self.bytes = self.bytes.saturating_add(bytes);
        self.was_empty |= empty;
        let speed = self.speed(now, round_trip_us);
        // Measurements vary: less than a quarter more is not a new maximum.
        let rises = speed > self.high.saturating_add(self.high / 4);
        let round_ms = (round_trip_us / 1000).max(LEAST_ROUND_MS);
        let rounds = now.saturating_sub(self.since) / round_ms;
        let is_over = rounds > 0;
        if is_over {
            self.end_round(speed, rises, rounds, now);
        }
        // Part of a round suffices, but not less than the clock's resolution.
        let counts = is_over || round_trip_us >= LEAST_ROUND_MS * 1000;
        let ahead = speed.saturating_mul(RISING);
        if rises && counts && ahead > size {
            self.settled_rounds = 0;
            return WindowRequest::AtLeast(ahead);
        }
        if is_over && self.settled_rounds >= SETTLED_ROUNDS {
            return WindowRequest::Exactly(self.high.saturating_mul(SETTLED));
        }
        WindowRequest::Keep
    }

    fn end_round(&mut self, speed: u64, rises: bool, rounds: u64, now: Millis) {
        let elapsed_ms = now.saturating_sub(self.since).min(FADE_MS);
        let faded = self.high - self.high / FADE_MS * elapsed_ms;
        self.high = speed.max(faded);
        self.mean = u64::midpoint(self.mean, speed);
        self.settled_rounds = if rises {
            0
        } else {
            self.settled_rounds.saturating_add(rounds)
        };
        self.since = now;
        self.bytes = 0;
        self.was_empty_before = self.was_empty;
        self.was_empty = false;
    }

    /// Bytes per round trip in this round so far, never more than the bytes counted.
    fn speed(&self, now: Millis, round_trip_us: u64) -> u64 {
        let elapsed_us = now.saturating_sub(self.since).max(1).saturating_mul(1000);
        if elapsed_us <= round_trip_us {
            return self.bytes;
        }
        let scaled = u128::from(self.bytes) * u128::from(round_trip_us) / u128::from(elapsed_us);
        u64::try_from(scaled).unwrap_or(u64::MAX)
    }

    /// Highest recent speed, this round included.
    pub(super) fn high(&self, now: Millis, round_trip_us: u64) -> u64 {
        self.high.max(self.speed(now, round_trip_us))
    }

    /// Mean speed of the last rounds. The highest is too high where data waits for this process: it
    /// then arrives in bursts.
    pub(super) fn mean(&self) -> u64 {
        self.mean
    }

    /// Returns true if the sink's queue was empty at some time in this or the previous round.
    pub(super) fn keeps_up(&self) -> bool {
        self.was_empty || self.was_empty_before
    }
}
