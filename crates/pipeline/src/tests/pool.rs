//! Workers start late, sleep and end, and do not affect the results.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::lane::{Job, Numbers};
use crate::{Lane, Pool};

pub(super) fn no_guard() -> Box<dyn Any> {
    Box::new(())
}

/// Lanes of an owner that parks and is woken by them.
fn lanes(count: usize) -> Vec<Lane<Numbers>> {
    (0..count)
        .map(|_| {
            let owner = thread::current();
            Lane::new(4, move || owner.unpark())
        })
        .collect()
}

fn pool(workers: usize, lanes: &[Lane<Numbers>]) -> Pool {
    let tasks = lanes.iter().map(Lane::tasks).collect();
    let mut pool = Pool::new(workers, tasks, no_guard);
    pool.allow(workers);
    pool
}

#[test]
fn no_thread_starts_before_a_batch_waits_and_all_end_with_the_pool() {
    let lanes = lanes(1);
    let mut pool = pool(4, &lanes);
    assert_eq!(pool.alive(), 0);
    pool.allow(0);
    pool.summon();
    assert_eq!(pool.alive(), 0, "none is allowed");
    pool.allow(2);
    pool.summon();
    pool.summon();
    pool.summon();
    assert!(pool.most() <= 2);
    pool.rest();
    assert_eq!(pool.alive(), 0);
}

#[test]
fn a_worker_without_work_ends_and_another_starts_when_there_is_some() {
    let mut lanes = lanes(1);
    let mut pool = pool(1, &lanes);
    let mut out = VecDeque::new();
    for round in 0..2 {
        lanes[0].push(Job::Number(round), 4);
        assert_eq!(lanes[0].advance(true, &mut out), Ok(true));
        pool.summon();
        // Waits for the worker to end, without a limit; it may have ended already.
        while pool.alive() > 0 {
            thread::park_timeout(std::time::Duration::from_millis(20));
        }
        assert!(!lanes[0].help(), "nobody has taken it");
        lanes[0].advance(true, &mut out).unwrap();
        let wanted = u64::try_from(round + 1).unwrap();
        assert_eq!(lanes[0].tally().by_workers, wanted);
    }
    assert_eq!(out, [0, 1]);
    assert_eq!(pool.most(), 1);
}

/// Two lanes with random pushes, helps, sleeps and changes of the number of workers: the results
/// are the jobs, in order.
fn stress(workers: usize, seed: u64) {
    const JOBS: i64 = 20_000;
    let mut state = seed | 1;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state >> 33).unwrap() % below
    };
    let mut lanes = lanes(2);
    let mut pool = pool(workers, &lanes);
    let mut pushed = [0_i64; 2];
    let mut out = [VecDeque::new(), VecDeque::new()];
    let mut seen = [0_i64; 2];
    while seen.iter().any(|seen| *seen < JOBS) {
        for (index, lane) in lanes.iter_mut().enumerate() {
            for _ in 0..random(12) {
                if !lane.has_room() || pushed[index] == JOBS {
                    break;
                }
                let job = if random(4) == 0 {
                    Job::Slow(pushed[index])
                } else {
                    Job::Number(pushed[index])
                };
                lane.push(job, 1 + random(3));
                pushed[index] += 1;
            }
            let share = random(5) > 0;
            if lane.advance(share, &mut out[index]).unwrap() {
                pool.summon();
            }
            for number in out[index].drain(..) {
                assert_eq!(number, seen[index], "order, seed {seed}");
                seen[index] += 1;
            }
        }
        match random(40) {
            0 => pool.allow(random(workers + 1)),
            1 if workers > 0 => pool.rest(),
            2..=9 => {
                lanes[random(2)].help();
            }
            10..=25 => {
                // Like a driver: runs the batches that no worker took, then sleeps on both lanes.
                while lanes.iter_mut().any(Lane::help) {}
                let sleeps = lanes
                    .iter()
                    .filter(|lane| lane.standing() > 0)
                    .map(Lane::owner_sleeps)
                    .fold(lanes.iter().any(|lane| lane.standing() > 0), |a, b| a & b);
                if sleeps {
                    thread::park();
                }
                for lane in &lanes {
                    lane.owner_wakes();
                }
            }
            _ => {}
        }
    }
    assert!(lanes.iter().all(Lane::is_empty));
}

#[test]
fn results_keep_their_order_whoever_runs_the_batches() {
    for (seed, workers) in [(1, 0), (2, 1), (3, 2), (4, 4), (5, 3)] {
        stress(workers, seed);
    }
}

#[test]
fn what_is_left_in_a_lane_that_is_dropped_is_dropped_with_it() {
    static ALIVE: AtomicUsize = AtomicUsize::new(0);
    struct Counted;
    impl Counted {
        fn new() -> Self {
            ALIVE.fetch_add(1, Ordering::Relaxed);
            Self
        }
    }
    impl Drop for Counted {
        fn drop(&mut self) {
            ALIVE.fetch_sub(1, Ordering::Relaxed);
        }
    }
    struct Keep;
    impl crate::LaneWork for Keep {
        type Job = Counted;
        type Done = Counted;
        fn run(jobs: &mut Vec<Counted>, done: &mut Vec<Counted>) {
            done.append(jobs);
        }
        fn is_failure(_: &Counted) -> bool {
            false
        }
    }
    let mut lane: Lane<Keep> = Lane::new(1, || {});
    let mut pool = Pool::new(2, vec![lane.tasks()], no_guard);
    pool.allow(2);
    let mut out = VecDeque::new();
    for _ in 0..10 {
        lane.push(Counted::new(), 1);
        if lane.advance(true, &mut out).unwrap() {
            pool.summon();
        }
    }
    drop(lane);
    drop(out);
    drop(pool);
    assert_eq!(ALIVE.load(Ordering::Relaxed), 0);
}
