//! The least time that a refused attempt takes, so that how it failed cannot be measured. Pure.
//!
//! The pad depends on the user's name and a secret of this boot of the listener, so that it
//! does not average out over many tries.

use crypto::hash::{HashAlgorithm, Hasher};

/// Pads of this connection.
#[derive(Debug)]
pub(crate) struct FailureDelay {
    pad_us: u64,
}

/// The least time of any refusal.
const FLOOR_US: u64 = 5_000;
/// Spread by name above the floor.
const SPREAD_US: u64 = 4_300;
/// No refusal is held longer than this.
const CEILING_US: u64 = 2_000_000;

impl FailureDelay {
    /// For one user of one listener. The secret is 32 random bytes.
    pub(crate) fn new(user: &str, secret: &[u8]) -> Self {
        let mut hash = Hasher::new(HashAlgorithm::Sha256);
        hash.update(secret);
        hash.update(user.as_bytes());
        let digest = hash.finish();
        let number = digest
            .as_ref()
            .first_chunk::<4>()
            .map_or(0, |bytes| u32::from_be_bytes(*bytes));
        Self {
            pad_us: FLOOR_US + u64::from(number) % SPREAD_US,
        }
    }

    /// How long to wait still when `elapsed_us` have gone: the pad, doubled until it covers
    /// what was needed, so that work beyond the first pad shows in steps only.
    pub(crate) fn remaining_us(&self, elapsed_us: u64) -> u64 {
        let mut total = self.pad_us;
        while total < elapsed_us && total < CEILING_US {
            total = total.saturating_mul(2);
        }
        total.saturating_sub(elapsed_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_does_not_tell_how_long_the_work_was() {
        let delay = FailureDelay::new("ada", &[1; 32]);
        let ends: Vec<u64> = [0, 100, 1_000, 4_999]
            .into_iter()
            .map(|elapsed| elapsed + delay.remaining_us(elapsed))
            .collect();
        assert!(ends.iter().all(|end| *end == ends[0]));
        assert!(ends[0] >= FLOOR_US && ends[0] < FLOOR_US + SPREAD_US);
        let late = 3 * ends[0];
        assert_eq!(late + delay.remaining_us(late), 4 * ends[0]);
    }

    #[test]
    fn the_pad_is_the_same_for_a_name_and_differs_between_names_and_secrets() {
        let pad = |user: &str, secret: u8| FailureDelay::new(user, &[secret; 32]).pad_us;
        assert_eq!(pad("ada", 1), pad("ada", 1));
        assert_ne!(pad("ada", 1), pad("ada", 2));
        assert_ne!(pad("ada", 1), pad("bob", 1));
    }

    #[test]
    fn very_long_work_is_not_doubled_without_end() {
        let delay = FailureDelay::new("ada", &[1; 32]);
        assert_eq!(delay.remaining_us(u64::MAX), 0);
        assert!(delay.remaining_us(3_000_000) <= CEILING_US);
    }
}
