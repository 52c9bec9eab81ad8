//! Decides which payloads are stored without compression.
//!
//! Two indications must agree. A payload with a random-looking sample may still contain
//! repetitions, and a payload that did not become smaller says little about the next. Decisions
//! from the results alone would lose 5 % of the ratio of a mixed stream; decisions from samples
//! alone would miss repetitions of random-looking bytes.

/// Shorter payloads are always deflated, because the cost is negligible.
const LEAST_BYTES: usize = 512;
/// Number of samples of a payload, and of bytes in each.
const SAMPLES: usize = 16;
const SAMPLE_BYTES: usize = 128;
/// Maximum number of payloads that are stored between two attempts.
const MOST_WAIT: u8 = 16;
/// A payload counts as compressible if it becomes smaller by at least this fraction (1/64).
const GAIN_PART: usize = 64;

/// What to do with a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PayloadRoute {
    /// Compress it at the configured level.
    Deflate,
    /// Test with little effort whether it becomes smaller.
    Attempt,
    /// Store it.
    Store,
}

/// State of the decision, kept from payload to payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Policy {
    /// Number of payloads to store before the next attempt, and how many of them are left. Both are
    /// 0 while the last attempt was successful.
    wait: u8,
    left: u8,
}

impl Policy {
    /// Decides what to do with `payload`.
    pub(crate) fn choose(&mut self, payload: &[u8]) -> PayloadRoute {
        if self.wait == 0 || payload.len() < LEAST_BYTES || !looks_random(payload) {
            return PayloadRoute::Deflate;
        }
        if self.left == 0 {
            return PayloadRoute::Attempt;
        }
        self.left -= 1;
        PayloadRoute::Store
    }

    /// Records that a payload of `raw` bytes was deflated to `deflated` bytes; `None` if it had to
    /// be stored.
    pub(crate) fn note(&mut self, raw: usize, deflated: Option<usize>) {
        if raw < LEAST_BYTES {
            return;
        }
        if deflated.is_some_and(|bytes| bytes < raw - raw / GAIN_PART) {
            *self = Self::default();
        } else {
            self.wait = (self.wait * 2).clamp(1, MOST_WAIT);
            self.left = self.wait;
        }
    }
}

/// Returns true if all byte values are about equally frequent in samples of `payload`: the sum of
/// their squared counts is less than 1.097 times the sum expected of random bytes.
fn looks_random(payload: &[u8]) -> bool {
    // Four counters per value, so that a run of equal bytes is not a chain of dependent additions.
    let mut counts = [[0_u16; 256]; 4];
    let last = payload.len().saturating_sub(SAMPLE_BYTES);
    let mut taken = 0_u64;
    for sample in 0..SAMPLES {
        let start = last * sample / (SAMPLES - 1);
        let sample = payload.get(start..).unwrap_or_default();
        let sample = sample.get(..SAMPLE_BYTES).unwrap_or(sample);
        taken += sample.len() as u64;
        for four in sample.chunks_exact(4) {
            for (counts, byte) in counts.iter_mut().zip(four) {
                counts[usize::from(*byte)] += 1;
            }
        }
    }
    let [a, b, c, d] = &counts;
    let columns = a.iter().zip(b).zip(c).zip(d);
    let squares: u64 = columns
        .map(|(((a, b), c), d)| {
            let count = u64::from(a + b + c + d);
            count * count
        })
        .sum();
    // For n bytes of 256 values: n²/256 + n·255/256, here multiplied by 256,000.
    let expected = taken * taken * 1000 + taken * 255 * 1000;
    squares * 256_000 * 1000 < expected * 1097
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(len: usize, mut seed: u64) -> Vec<u8> {
        (0..len)
            .map(|_| {
                seed ^= seed << 13;
                seed ^= seed >> 7;
                seed ^= seed << 17;
                seed.to_be_bytes()[3]
            })
            .collect()
    }

    #[test]
    fn noise_looks_random_and_text_does_not() {
        for seed in 1..50 {
            assert!(looks_random(&noise(32 * 1024, seed)));
            assert!(looks_random(&noise(2048, seed)));
        }
        let text = b"In a hole in the ground there lived a daemon. ".repeat(800);
        assert!(!looks_random(&text));
        assert!(!looks_random(&vec![0; 32 * 1024]));
        let base64: Vec<u8> = noise(32 * 1024, 9)
            .iter()
            .map(|byte| b'0' + byte % 64)
            .collect();
        assert!(!looks_random(&base64));
    }

    #[test]
    fn both_witnesses_must_speak_for_storing() {
        let (random, text) = (noise(4096, 3), vec![b'a'; 4096]);
        let mut policy = Policy::default();
        assert_eq!(
            policy.choose(&random),
            PayloadRoute::Deflate,
            "nothing was tried"
        );
        policy.note(4096, None);
        assert_eq!(
            policy.choose(&text),
            PayloadRoute::Deflate,
            "does not look random"
        );
        assert_eq!(policy.choose(&random), PayloadRoute::Store);
        assert_eq!(policy.choose(&random), PayloadRoute::Attempt);
        policy.note(4096, Some(2000));
        assert_eq!(
            policy.choose(&random),
            PayloadRoute::Deflate,
            "the last gained"
        );
    }

    #[test]
    fn attempts_become_rarer_up_to_a_limit() {
        let random = noise(4096, 3);
        let mut policy = Policy::default();
        policy.note(4096, None);
        let mut waits = Vec::new();
        for _ in 0..7 {
            let mut stored = 0;
            while policy.choose(&random) == PayloadRoute::Store {
                stored += 1;
            }
            policy.note(4096, Some(4090));
            waits.push(stored);
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 16, 16]);
    }

    #[test]
    fn small_payloads_are_no_witnesses() {
        let mut policy = Policy::default();
        policy.note(100, None);
        assert_eq!(policy, Policy::default());
        policy.note(4096, None);
        assert_eq!(policy.choose(&noise(100, 5)), PayloadRoute::Deflate);
    }
}
