//! The ring and the parker under a model checker: every interleaving of the owner and its workers,
//! and every order in which their writes can become visible, within loom's bound on preemptions.
//!
//! The unchanged sources are included over loom's primitives instead of the standard library's. A
//! lost wake-up is found as a deadlock.

// loom, the model checker, has no atomics of 64 bits for machines with 32-bit words.
#![cfg(target_pointer_width = "64")]
// The model does not use everything that the library does.
#![allow(dead_code)]

mod sync {
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering, fence};
    pub(crate) use loom::sync::{Mutex, MutexGuard};

    /// No time limit: the model shows that none is needed.
    pub(crate) fn park_timeout(_: std::time::Duration) {
        loom::thread::park();
    }
}

#[path = "../src/parker.rs"]
mod parker;
#[path = "../src/ring.rs"]
mod ring;

use std::sync::Arc;
use std::time::Duration;

use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;
use parker::Parker;
use ring::{Ran, Ring};

/// Running job n replaces it with n * 10; it must run once.
type Content = Vec<u32>;

fn run(content: &mut Content) {
    for number in content {
        assert!(*number < 10, "run twice");
        *number *= 10;
    }
}

fn checked(preemptions: usize, body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(body);
}

/// The owner's part: puts `numbers` through `ring` and returns the results. Sleeps if the oldest
/// batch is not done and there is nothing to run.
fn own(ring: &Ring<Content>, numbers: &[u32], summon: impl Fn(), helps: bool) -> Vec<u32> {
    let mut out = Vec::new();
    let (mut oldest, mut next) = (0, 0);
    while out.len() < numbers.len() {
        if next < numbers.len() && next - oldest < ring.slots() {
            ring.put(next, |content| {
                assert!(content.is_empty());
                content.push(numbers[next]);
            });
            next += 1;
            summon();
            continue;
        }
        if ring.is_done(oldest) {
            ring.take(oldest, |content| out.append(content));
            oldest += 1;
        } else if !(helps && ring.run_one(run) != Ran::Nothing) {
            if ring.owner_sleeps(oldest) {
                thread::park();
            }
            ring.owner_wakes();
        }
    }
    out
}

/// Workers that each poll once, while the owner helps.
fn crowd(workers: usize, numbers: &'static [u32]) {
    checked(2, move || {
        let ring: Arc<Ring<Content>> = Arc::new(Ring::new(2, Vec::new));
        let owner = thread::current();
        let workers: Vec<_> = (0..workers)
            .map(|_| {
                let (ring, owner) = (Arc::clone(&ring), owner.clone());
                thread::spawn(move || {
                    if ring.run_one(run) == Ran::OneAwaited {
                        owner.unpark();
                    }
                })
            })
            .collect();
        let wanted: Vec<u32> = numbers.iter().map(|number| number * 10).collect();
        assert_eq!(own(&ring, numbers, || {}, true), wanted);
        for worker in workers {
            worker.join().unwrap();
        }
    });
}

#[test]
fn two_workers_and_the_owner_run_each_batch_once_and_results_keep_their_order() {
    crowd(2, &[1, 2]);
}

#[test]
fn a_slot_that_is_used_again_is_no_batch_of_before() {
    crowd(1, &[1, 2, 3]);
}

/// An owner that runs nothing itself depends on every wake-up, its own and the worker's.
#[test]
fn no_wake_up_is_lost_between_an_owner_and_a_worker_that_both_sleep() {
    checked(2, || {
        let ring: Arc<Ring<Content>> = Arc::new(Ring::new(2, Vec::new));
        let parker = Arc::new(Parker::new());
        let ending = Arc::new(AtomicBool::new(false));
        let owner = thread::current();
        let worker = {
            let (ring, parker, ending) =
                (Arc::clone(&ring), Arc::clone(&parker), Arc::clone(&ending));
            thread::spawn(move || {
                while !ending.load(Ordering::Relaxed) {
                    match ring.run_one(run) {
                        Ran::OneAwaited => owner.unpark(),
                        Ran::One => {}
                        Ran::Nothing => parker.park(Duration::ZERO, || {
                            ring.has_ready() || ending.load(Ordering::Relaxed)
                        }),
                    }
                }
            })
        };
        let wake_worker = || {
            if parker.wake() {
                worker.thread().unpark();
            }
        };
        assert_eq!(own(&ring, &[1, 2, 3], wake_worker, false), [10, 20, 30]);
        ending.store(true, Ordering::Relaxed);
        wake_worker();
        worker.join().unwrap();
    });
}

/// The model detects errors: an owner that does not check again before it sleeps deadlocks.
#[test]
#[should_panic(expected = "deadlock")]
fn an_owner_that_sleeps_without_a_second_look_is_found_out() {
    checked(2, || {
        let ring: Arc<Ring<Content>> = Arc::new(Ring::new(2, Vec::new));
        let owner = thread::current();
        let worker = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || {
                while match ring.run_one(run) {
                    Ran::OneAwaited => {
                        owner.unpark();
                        false
                    }
                    Ran::One => false,
                    Ran::Nothing => {
                        thread::yield_now();
                        true
                    }
                } {}
            })
        };
        ring.put(0, |content| content.push(1));
        if !ring.is_done(0) {
            let _ = ring.owner_sleeps(0);
            thread::park();
        }
        worker.join().unwrap();
    });
}
