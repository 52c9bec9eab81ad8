//! A token bucket, which limits how often a process may make a request. No I/O; the caller passes
//! the time.

/// A token bucket, full at the start.
#[derive(Debug)]
pub(crate) struct Rate {
    capacity: u64,
    refill_ms: u64,
    tokens: u64,
    since_ms: u64,
}

impl Rate {
    /// A bucket of `capacity` tokens that gains one token every `refill_ms` milliseconds (at least
    /// 1).
    pub(crate) fn new(capacity: u64, refill_ms: u64, now_ms: u64) -> Self {
        Self {
            capacity,
            refill_ms: refill_ms.max(1),
            tokens: capacity,
            since_ms: now_ms,
        }
    }

    /// Takes `count` tokens and returns true, or takes none and returns false if there are fewer.
    pub(crate) fn take(&mut self, count: u64, now_ms: u64) -> bool {
        let earned = now_ms.saturating_sub(self.since_ms) / self.refill_ms;
        self.since_ms = self
            .since_ms
            .saturating_add(earned.saturating_mul(self.refill_ms));
        self.tokens = self.tokens.saturating_add(earned).min(self.capacity);
        if self.tokens < count {
            return false;
        }
        self.tokens -= count;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_and_then_one_per_interval() {
        let mut rate = Rate::new(3, 1000, 0);
        assert!(rate.take(2, 0) && rate.take(1, 0));
        assert!(!rate.take(1, 999));
        assert!(rate.take(1, 1000));
        assert!(!rate.take(1, 1500));
        assert!(rate.take(1, 2000));
        assert!(!rate.take(4, 1_000_000), "never more than the capacity");
        assert!(rate.take(3, 1_000_000));
    }
}
