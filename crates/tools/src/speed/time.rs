//! How figures are taken.

use std::time::{Duration, Instant};

/// Time given to one figure.
const SLICE: Duration = Duration::from_millis(120);

/// Repeats `work` (which does `units` at a time) for a slice of time; the best run counts.
pub(super) fn rate(units: f64, mut work: impl FnMut()) -> f64 {
    work();
    let mut best = 0.0_f64;
    let end = Instant::now() + SLICE;
    while Instant::now() < end {
        let begun = Instant::now();
        let mut rounds = 0.0;
        while begun.elapsed() < SLICE / 12 {
            work();
            rounds += 1.0;
        }
        best = best.max(units * rounds / begun.elapsed().as_secs_f64());
    }
    best
}
