//! How much a shared connection carries, for passengers that choose among several.

use proto::Millis;

/// Least time that a rate is taken over, and the time after which a connection without bytes carries
/// nothing, milliseconds.
const SPAN_MS: Millis = 250;
/// Least time between two marks, milliseconds.
const PERIOD_MS: Millis = 1000;

/// Bytes that a connection had carried at some times.
#[derive(Debug, Default)]
pub(super) struct CarriedRate {
    /// The last two marks, the older one first.
    marks: [(Millis, u64); 2],
    /// When the bytes were last found to have grown, and how many they were.
    grown: (Millis, u64),
}

impl CarriedRate {
    /// Notes that the connection has carried `bytes` until now.
    pub(super) fn note(&mut self, bytes: u64, now: Millis) {
        if bytes != self.grown.1 {
            self.grown = (now, bytes);
        }
        let [_, last] = self.marks;
        if now.saturating_sub(last.0) >= PERIOD_MS {
            self.marks = [last, (now, bytes)];
        }
    }

    /// Bytes a second in the last second or so.
    pub(super) fn per_second(&self, now: Millis) -> u64 {
        let (grown_at, bytes) = self.grown;
        if now.saturating_sub(grown_at) > SPAN_MS {
            return 0;
        }
        let [older, last] = self.marks;
        let (since, before) = match now.saturating_sub(last.0) >= SPAN_MS {
            true => last,
            false => older,
        };
        let elapsed_ms = now.saturating_sub(since).max(1);
        bytes.saturating_sub(before).saturating_mul(1000) / elapsed_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_that_of_the_last_second() {
        let mut rate = CarriedRate::default();
        rate.note(5000, 1_000_000);
        assert_eq!(rate.per_second(1_000_000), 5);
        // An hour without bytes, then 1,000 bytes in a millisecond.
        let mut now = 4_600_000;
        let mut bytes = 5000;
        assert_eq!(rate.per_second(now), 0);
        for _ in 0..3000 {
            rate.note(bytes, now);
            now += 1;
            bytes += 1000;
        }
        let seen = rate.per_second(now);
        assert!((990_000..1_010_000).contains(&seen), "{seen}");
        assert_eq!(rate.per_second(now + 300), 0);
        // Nobody has looked for a while, and bytes have come all the time.
        rate.note(bytes + 20_000_000, now + 20_000);
        let seen = rate.per_second(now + 20_000);
        assert!((900_000..1_010_000).contains(&seen), "{seen}");
    }
}
