//! A limit on the rate of transfer.

use std::time::{Duration, Instant};

/// Length of the burst that is permitted beyond the limit, as time at the limited rate.
const BURST: Duration = Duration::from_millis(100);

/// Limits transfers to a number of bytes per second, with bursts of 100 ms.
#[derive(Debug)]
pub struct Pace {
    bytes_per_second: u64,
    /// The time at which all bytes sent so far would have been sent at the limited rate.
    paid_until: Option<Instant>,
}

impl Pace {
    /// Creates a limit; 0 for none.
    #[must_use]
    pub fn new(bytes_per_second: u64) -> Self {
        Self {
            bytes_per_second,
            paid_until: None,
        }
    }

    /// Returns true if more may be sent now.
    #[must_use]
    pub fn lets_go(&self) -> bool {
        self.wakes_at().is_none()
    }

    /// Records that `bytes` bytes were sent.
    pub fn went(&mut self, bytes: u64) {
        if self.bytes_per_second == 0 {
            return;
        }
        let now = Instant::now();
        let from = self.paid_until.map_or(now, |at| at.max(now));
        let nanoseconds = u128::from(bytes) * 1_000_000_000 / u128::from(self.bytes_per_second);
        let nanoseconds = u64::try_from(nanoseconds).unwrap_or(u64::MAX);
        self.paid_until = from.checked_add(Duration::from_nanos(nanoseconds));
    }

    /// Returns the time at which more may be sent; `None` if that is now.
    #[must_use]
    pub fn wakes_at(&self) -> Option<Instant> {
        let at = self.paid_until?.checked_sub(BURST)?;
        (at > Instant::now()).then_some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_lets_a_burst_go_and_then_waits() {
        let mut pace = Pace::new(1 << 20);
        assert!(pace.lets_go());
        pace.went(1000 << 20);
        let left = pace.wakes_at().unwrap() - Instant::now();
        assert!(left > Duration::from_secs(900) && left < Duration::from_millis(999_901));
        let mut free = Pace::new(0);
        free.went(u64::MAX);
        assert!(free.lets_go());
    }
}
