//! Tests of candidates on all cores, their results in the candidates' order.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Mutex, mpsc};

use crypto::prime::PrimalityTests;

use super::natural::Natural;

/// A number that may be prime with its p = 2q + 1.
#[derive(Debug, Clone)]
pub(super) struct PrimePair {
    pub(super) q: Natural,
    pub(super) p: Natural,
}

impl PrimePair {
    pub(super) fn of_q(q: Natural) -> Self {
        let p = q.twice_plus_one();
        Self { q, p }
    }

    pub(super) fn of_p(p: Natural) -> Self {
        Self { q: p.halved(), p }
    }
}

/// Which of the pairs are primes: q by at least `rounds` rounds of Miller-Rabin, p proved to be one
/// if q is.
pub(super) fn safe_primes(tests: &PrimalityTests, pairs: &[PrimePair], rounds: u32) -> Vec<bool> {
    // Pocklington's proof wants p not to divide 2^2 - 1, p = 2q + 1.
    let fits = |pair: &PrimePair| pair.p.is_odd() && pair.p.modulo(3) != 0;
    let numbered = pairs.iter().enumerate().filter(|(_, pair)| fits(pair));
    let left = passing(tests, numbered.collect(), |pair| &pair.q);
    let left = passing(tests, left, |pair| &pair.p);
    let mut safe = vec![false; pairs.len()];
    for (at, pair) in left {
        if let Some(safe) = safe.get_mut(at) {
            *safe = tests.is_prime(pair.q.words(), rounds);
        }
    }
    safe
}

/// Those whose number passes the test of base 2.
fn passing<'a>(
    tests: &PrimalityTests,
    pairs: Vec<(usize, &'a PrimePair)>,
    number: impl Fn(&PrimePair) -> &Natural,
) -> Vec<(usize, &'a PrimePair)> {
    let numbers: Vec<&[u64]> = pairs.iter().map(|(_, pair)| number(pair).words()).collect();
    let passed = tests.fermat(&numbers);
    let kept = pairs.into_iter().zip(passed);
    kept.filter_map(|(pair, passed)| passed.then_some(pair))
        .collect()
}

/// Candidates of a job: enough for full vectors at the second test, few enough for a checkpoint
/// every few seconds.
pub(super) fn job_len(bits: u32) -> usize {
    match bits {
        ..=2048 => 512,
        2049..=4096 => 256,
        _ => 128,
    }
}

/// Does jobs on `workers` threads and hands their results over in the jobs' order, until the
/// receiver ends the search. Few jobs are started before their turn.
pub(super) fn in_order<J: Send, R: Send>(
    workers: usize,
    jobs: impl Iterator<Item = J>,
    work: impl Fn(J) -> R + Sync,
    mut take: impl FnMut(R) -> ControlFlow<()>,
) {
    let (job_sender, job_receiver) = mpsc::channel::<(u64, J)>();
    let (sender, receiver) = mpsc::channel();
    let job_receiver = Mutex::new(job_receiver);
    std::thread::scope(|scope| {
        let (job_receiver, work) = (&job_receiver, &work);
        for _ in 0..workers {
            let sender = sender.clone();
            scope.spawn(move || {
                // The lock goes with the statement: others wait for jobs meanwhile, not for work.
                let next = || job_receiver.lock().ok()?.recv().ok();
                while let Some((number, job)) = next() {
                    let result = catch_unwind(AssertUnwindSafe(|| work(job)));
                    if sender.send((number, result)).is_err() {
                        break;
                    }
                }
            });
        }
        // Gone when this closure ends, whichever way: the workers' channels end with them.
        let (job_sender, receiver) = (job_sender, receiver);
        let mut jobs = (0..).zip(jobs).fuse();
        let mut ahead = 0;
        let mut early = BTreeMap::new();
        let mut due = 0_u64;
        loop {
            while ahead < 2 * workers
                && let Some(job) = jobs.next()
            {
                ahead += 1;
                // The receiver outlives this loop.
                let _ = job_sender.send(job);
            }
            if ahead == 0 {
                return;
            }
            let Ok((number, result)) = receiver.recv() else {
                return;
            };
            early.insert(number, result);
            while let Some(result) = early.remove(&due) {
                due += 1;
                ahead -= 1;
                match result.map(&mut take) {
                    Ok(ControlFlow::Break(())) => return,
                    Ok(ControlFlow::Continue(())) => {}
                    Err(panic) => resume_unwind(panic),
                }
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order_and_the_end_is_heard() {
        for workers in [1, 2, 5] {
            let mut seen = Vec::new();
            let work = |n: u64| {
                // The later the shorter, so that the first ones come last.
                let rounds = 2000_u64.saturating_sub(20 * n);
                (0..rounds).fold(n, |n, round| std::hint::black_box(n ^ round ^ round))
            };
            in_order(workers, 0..100, work, |n| {
                seen.push(n);
                ControlFlow::Continue(())
            });
            assert!(seen.iter().copied().eq(0..100));
            let mut seen = Vec::new();
            in_order(workers, 0_u64.., work, |n| {
                seen.push(n);
                if n == 30 {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            });
            assert!(seen.into_iter().eq(0..=30));
        }
        in_order(2, std::iter::empty::<u8>(), |n| n, |_| unreachable!());
    }

    #[test]
    fn a_failed_job_is_told_and_does_not_hang() {
        let failed = catch_unwind(|| {
            in_order(
                2,
                0..10,
                |n| assert_ne!(n, 5),
                |()| ControlFlow::Continue(()),
            );
        });
        assert!(failed.is_err());
    }

    #[test]
    fn safe_primes_are_told_from_primes_and_others() {
        let tests = PrimalityTests::default();
        let small = |p: u64| PrimePair::of_p(Natural::from_hex(&format!("{p:x}"), 64).unwrap());
        let is_prime = |n: u64| {
            n > 1
                && (2..n)
                    .take_while(|d| d * d <= n)
                    .all(|d| !n.is_multiple_of(d))
        };
        let numbers: Vec<u64> = (8..3000).collect();
        let pairs: Vec<PrimePair> = numbers.iter().map(|p| small(*p)).collect();
        let safe = safe_primes(&tests, &pairs, 20);
        for (p, safe) in numbers.iter().zip(safe) {
            assert_eq!(safe, p % 2 == 1 && is_prime(*p) && is_prime(p / 2), "{p}");
        }
    }
}
