//! The owner's side of a lane: order, bounds, failures.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::pool::no_guard;
use crate::{Lane, LaneWork, MAX_BATCH_JOBS, Panicked, Pool, RING_BATCHES};

/// The result of a job is its number, negative for a failure.
pub(super) enum Job {
    Number(i64),
    Slow(i64),
    Fail(i64),
    Panic,
}

pub(super) struct Numbers;

impl LaneWork for Numbers {
    type Job = Job;
    type Done = i64;

    fn run(jobs: &mut Vec<Job>, done: &mut Vec<i64>) {
        for job in jobs.drain(..) {
            done.push(match job {
                Job::Number(number) => number,
                Job::Slow(number) => {
                    for _ in 0..20 * number.rem_euclid(50) {
                        std::hint::spin_loop();
                    }
                    // Lets workers run on a single core. Rarely, because each yield can cost
                    // milliseconds on a busy machine.
                    if number % 100 == 0 {
                        thread::yield_now();
                    }
                    number
                }
                Job::Fail(number) => -number,
                Job::Panic => panic!("as asked"),
            });
        }
    }

    fn is_failure(done: &i64) -> bool {
        *done < 0
    }
}

fn lane(batch_bytes: usize) -> Lane<Numbers> {
    Lane::new(batch_bytes, || {})
}

/// Runs all jobs of the lane and collects their results.
fn finish(lane: &mut Lane<Numbers>, share: bool, out: &mut VecDeque<i64>) -> Result<(), Panicked> {
    while !lane.is_empty() {
        lane.advance(share, out)?;
        if !lane.help() {
            thread::yield_now();
        }
    }
    Ok(())
}

#[test]
fn a_lone_job_runs_in_place() {
    let mut lane = lane(100);
    let mut out = VecDeque::new();
    lane.push(Job::Number(7), 1);
    assert_eq!(lane.advance(false, &mut out), Ok(false));
    assert_eq!(out, [7]);
    assert!(lane.is_empty());
    assert_eq!(lane.tally().in_place, 1);
}

#[test]
fn a_job_in_place_does_not_overtake_what_stands_in_the_lane() {
    let mut lane = lane(100);
    let mut out = VecDeque::new();
    lane.push(Job::Number(1), 100);
    assert_eq!(lane.advance(true, &mut out), Ok(true));
    lane.push(Job::Number(2), 1);
    // Not shared, but queued after a shared batch.
    assert_eq!(lane.advance(false, &mut out), Ok(true));
    assert!(out.is_empty());
    assert_eq!((lane.standing(), lane.bytes()), (2, 101));
    assert!(lane.help() && lane.help() && !lane.help());
    assert_eq!(lane.advance(false, &mut out), Ok(false));
    assert_eq!(out, [1, 2]);
    assert_eq!((lane.standing(), lane.bytes()), (0, 0));
    assert_eq!(lane.tally().helped, 2);
}

#[test]
fn a_batch_is_closed_by_its_bytes_and_by_its_jobs_and_the_ring_by_its_batches() {
    let mut lane = lane(100);
    let mut out = VecDeque::new();
    lane.push(Job::Number(0), 99);
    assert!(lane.has_room());
    lane.push(Job::Number(1), 1);
    assert!(!lane.has_room());
    assert_eq!(lane.advance(true, &mut out), Ok(true));
    for number in 0..MAX_BATCH_JOBS {
        assert!(lane.has_room());
        lane.push(Job::Number(number.try_into().unwrap()), 0);
    }
    assert!(!lane.has_room());
    let mut put = 1;
    while lane.advance(true, &mut out) == Ok(true) {
        put += 1;
        lane.push(Job::Number(1), 100);
    }
    assert_eq!(put, RING_BATCHES);
    assert!(!lane.has_room(), "one batch is gathered beside a full ring");
    assert!(!lane.has_result());
    finish(&mut lane, true, &mut out).unwrap();
    assert_eq!(out.len(), 2 + MAX_BATCH_JOBS + RING_BATCHES - 1);
}

#[test]
fn nothing_comes_behind_a_failure() {
    for share in [false, true] {
        let mut lane = lane(3);
        let mut out = VecDeque::new();
        for number in 1..=9 {
            let job = if number == 5 {
                Job::Fail(number)
            } else {
                Job::Number(number)
            };
            lane.push(job, 1);
            if !lane.has_room() {
                lane.advance(share, &mut out).unwrap();
            }
        }
        finish(&mut lane, share, &mut out).unwrap();
        assert_eq!(out, [1, 2, 3, 4, -5]);
        lane.push(Job::Number(10), 1);
        assert_eq!(lane.advance(share, &mut out), Ok(false));
        assert_eq!(out.len(), 5);
        assert!(!lane.has_room() && lane.is_empty() && !lane.help() && !lane.has_result());
        assert!(lane.owner_sleeps(), "nothing to wait for");
    }
}

#[test]
fn a_job_that_panics_is_told_once_and_kills_the_lane() {
    for share in [false, true] {
        let mut lane = lane(1);
        let mut out = VecDeque::new();
        lane.push(Job::Number(1), 1);
        lane.advance(share, &mut out).unwrap();
        lane.push(Job::Panic, 1);
        let told = lane
            .advance(share, &mut out)
            .map(|_| ())
            .and_then(|()| finish(&mut lane, share, &mut out));
        assert_eq!(told, Err(Panicked));
        assert_eq!(out, [1]);
        lane.push(Job::Number(2), 1);
        assert_eq!(lane.advance(share, &mut out), Ok(false));
        assert!(lane.is_empty());
    }
}

#[test]
fn a_worker_that_meets_a_panic_goes_on_and_the_owner_hears_of_it() {
    let woken = Arc::new(AtomicUsize::new(0));
    let owner = thread::current();
    let mut lane: Lane<Numbers> = {
        let woken = Arc::clone(&woken);
        Lane::new(1, move || {
            woken.fetch_add(1, Ordering::Relaxed);
            owner.unpark();
        })
    };
    let mut other = Lane::<Numbers>::new(1, || {});
    let mut pool = Pool::new(1, vec![lane.tasks(), other.tasks()], no_guard);
    pool.allow(1);
    let mut out = VecDeque::new();
    lane.push(Job::Panic, 1);
    assert_eq!(lane.advance(true, &mut out), Ok(true));
    pool.summon();
    // The owner does not help: only the worker can run the job.
    let told = loop {
        if lane.owner_sleeps() {
            thread::park();
        }
        lane.owner_wakes();
        match lane.advance(true, &mut out) {
            Ok(_) => {}
            Err(panicked) => break panicked,
        }
    };
    assert_eq!(told, Panicked);
    // The same worker still serves the other lane.
    other.push(Job::Number(3), 1);
    other.advance(true, &mut out).unwrap();
    pool.summon();
    while out.is_empty() {
        other.advance(true, &mut out).unwrap();
        thread::yield_now();
    }
    assert_eq!(out, [3]);
    assert_eq!(other.tally().by_workers, 1);
    assert_eq!(pool.most(), 1);
}
