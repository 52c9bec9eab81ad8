//! The minimum duration of a refused attempt, which hides the reason of the refusal from a client
//! that measures time. No I/O.
//!
//! All users of a listener share one step, so that the step does not distinguish names. The step is
//! derived from a secret, so that it reveals nothing about the work that it hides.

use crypto::hash::{HashAlgorithm, Hasher};

/// Pads refusals to multiples of a step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FailureDelay {
    step_us: u64,
    is_of_kdc: bool,
}

/// Minimum step, and minimum time of any refusal.
const FLOOR_US: u64 = 5_000;
/// Range of the step above `FLOOR_US`.
const SPREAD_US: u64 = 4_300;
/// The least time of a refusal for which a KDC was asked, in steps: 250 to 465 ms. Whether a realm has the
/// principal makes a difference of a round trip and of the password's derivation to a key, together some milliseconds.
const KDC_STEPS: u64 = 50;
/// The time of one that took longer: a KDC far away, or the first of several does not answer, and each round trip
/// would show in coarse steps as well. It is as long as a KDC is awaited.
const SLOW_KDC_US: u64 = 10_000_000;
/// A refusal that took more steps than this (slow PAM modules) is not padded.
const MAX_STEPS: u64 = 200;

impl FailureDelay {
    /// The delay of one listener. `secret` is 32 random bytes.
    pub(crate) fn new(secret: &[u8]) -> Self {
        let mut hash = Hasher::new(HashAlgorithm::Sha256);
        hash.update(b"failure delay");
        hash.update(secret);
        let number = hash
            .finish()
            .first_chunk::<4>()
            .map_or(0, |bytes| u32::from_be_bytes(*bytes));
        Self {
            step_us: FLOOR_US + u64::from(number) % SPREAD_US,
            is_of_kdc: false,
        }
    }

    /// The delay of a connection that has asked a KDC.
    pub(crate) fn of_kdc(self) -> Self {
        Self {
            is_of_kdc: true,
            ..self
        }
    }

    /// Microseconds still to wait after `elapsed_us`, up to the next multiple of the step, or to one of the two times
    /// of a KDC.
    pub(crate) fn remaining_us(&self, elapsed_us: u64) -> u64 {
        if self.is_of_kdc {
            let least_us = self.step_us * KDC_STEPS;
            return match elapsed_us <= least_us {
                true => least_us - elapsed_us,
                false => SLOW_KDC_US.saturating_sub(elapsed_us),
            };
        }
        let steps = elapsed_us.div_ceil(self.step_us).max(1);
        if steps > MAX_STEPS {
            return 0;
        }
        (steps * self.step_us).saturating_sub(elapsed_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_does_not_tell_how_many_steps_a_kdc_took() {
        let delay = FailureDelay::new(&[1; 32]).of_kdc().of_kdc();
        let end = |elapsed| elapsed + delay.remaining_us(elapsed);
        let ends = [7_940, 15_200, 200_000].map(end);
        assert!((250_000..465_000).contains(&ends[0]));
        assert_eq!(ends, [ends[0]; 3]);
        // The first of two KDCs answers in no round trip.
        assert_eq!(end(1_010_000), end(2_020_000));
        assert_eq!(delay.remaining_us(10_000_001), 0);
    }

    #[test]
    fn the_end_does_not_tell_how_long_the_work_was() {
        let delay = FailureDelay::new(&[1; 32]);
        let ends: Vec<u64> = [0, 100, 1_000, 4_999]
            .into_iter()
            .map(|elapsed| elapsed + delay.remaining_us(elapsed))
            .collect();
        assert!(ends.iter().all(|end| *end == ends[0]));
        assert!(ends[0] >= FLOOR_US && ends[0] < FLOOR_US + SPREAD_US);
        for late in [ends[0] + 1, ends[0] + 3_000] {
            assert_eq!(late + delay.remaining_us(late), 2 * ends[0]);
        }
    }

    #[test]
    fn the_step_is_the_listeners_own() {
        let step = |secret: u8| FailureDelay::new(&[secret; 32]).step_us;
        assert_eq!(step(1), step(1));
        assert_ne!(step(1), step(2));
    }

    #[test]
    fn very_long_work_is_not_held_back_further() {
        let delay = FailureDelay::new(&[1; 32]);
        assert_eq!(delay.remaining_us(u64::MAX), 0);
        assert_eq!(delay.remaining_us(3_000_000), 0);
    }
}
