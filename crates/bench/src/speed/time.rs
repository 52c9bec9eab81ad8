//! How figures are taken.

use std::time::{Duration, Instant};

/// Time given to one figure.
pub(super) const SLICE: Duration = Duration::from_millis(120);
/// Time over which the time-stamp counter's clock is counted.
const COUNTED: Duration = Duration::from_millis(10);
/// Runs among which the best one counts: many, so that some are over before the scheduler of a
/// busy machine takes the core away.
const RUNS: u32 = 100;

/// Repeats `work` (which does `units` at a time) for a slice of time; the best run counts.
pub(super) fn rate(units: f64, mut work: impl FnMut()) -> f64 {
    let mut works: [(f64, &mut dyn FnMut()); 1] = [(units, &mut work)];
    rates(&mut works, SLICE).into_iter().sum()
}

/// The same of several works by turns, so that what disturbs one disturbs the others: each is
/// given with its units and takes `slice`.
pub(super) fn rates(works: &mut [(f64, &mut dyn FnMut())], slice: Duration) -> Vec<f64> {
    let mut best = vec![0.0_f64; works.len()];
    for (_, work) in &mut *works {
        work();
    }
    for _ in 0..RUNS {
        for ((units, work), best) in works.iter_mut().zip(&mut best) {
            let begun = Instant::now();
            let mut rounds = 0.0;
            while begun.elapsed() < slice / RUNS {
                work();
                rounds += 1.0;
            }
            *best = best.max(*units * rounds / begun.elapsed().as_secs_f64());
        }
    }
    best
}

/// Ticks of the CPU's time-stamp counter in a second: its nominal clock. `None` where there is
/// none.
pub(super) fn ticks_per_second() -> Option<f64> {
    let (begun, first) = (Instant::now(), crypto::arch::time_stamp()?);
    while begun.elapsed() < COUNTED {
        std::hint::spin_loop();
    }
    let last = crypto::arch::time_stamp()?;
    let seconds = begun.elapsed().as_secs_f64();
    #[allow(clippy::cast_precision_loss)]
    let ticks = last.wrapping_sub(first) as f64;
    Some(ticks / seconds)
}

/// Calls that are prepared at a time.
const PREPARED: u8 = 16;

/// The rate of work that uses up what `prepare` makes, without the making.
pub(super) fn rate_of_prepared<T>(
    mut prepare: impl FnMut() -> Option<T>,
    mut work: impl FnMut(T),
) -> f64 {
    let begun = Instant::now();
    let mut best = 0.0_f64;
    while best == 0.0 || begun.elapsed() < SLICE {
        let prepared: Option<Vec<T>> = (0..PREPARED).map(|_| prepare()).collect();
        let Some(prepared) = prepared else {
            return f64::NAN;
        };
        let begun = Instant::now();
        prepared.into_iter().for_each(&mut work);
        best = best.max(f64::from(PREPARED) / begun.elapsed().as_secs_f64());
    }
    best
}
