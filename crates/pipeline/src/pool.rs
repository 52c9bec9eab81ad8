//! [`Pool`]: the worker threads that run batches.
//!
//! A thread starts when a batch is queued and no allowed worker is asleep, sleeps when there is no
//! work, and ends when it has slept for [`IDLE_LIMIT`]. None starts before the first batch is
//! queued.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::parker::Parker;

/// A worker that has been idle for this time ends.
const IDLE_LIMIT: Duration = Duration::from_secs(1);
/// How long a worker polls for the next batch before it sleeps: during bulk transfer a batch
/// arrives every 50 to 200 µs, and waking a sleeper costs the owner several µs each time.
const SPIN_LIMIT: Duration = Duration::from_micros(100);
/// Number of polls between two readings of the clock.
const SPINS: usize = 64;
/// Stack size of a worker in bytes; cipher kernels need a few KiB.
const STACK_BYTES: usize = 256 * 1024;

/// A source of batches for workers; a [`Lane`](crate::Lane) provides one.
pub trait Tasks: Send + Sync {
    /// Returns true if a batch is ready.
    fn has_ready(&self) -> bool;
    /// Takes one batch and runs it; returns false if none is ready.
    fn run_one(&self) -> bool;
}

/// Called on the owner's thread before a worker is started; its return value is dropped once the
/// worker has started. A thread inherits the signal mask of the thread that starts it.
pub type StartGuard = fn() -> Box<dyn Any>;

struct PoolShared {
    lanes: Vec<Arc<dyn Tasks>>,
    parkers: Vec<Parker>,
    /// Workers with a smaller index may take batches.
    allowed: AtomicUsize,
    ending: AtomicBool,
}

impl PoolShared {
    fn has_work(&self, worker: usize) -> bool {
        self.ending.load(Ordering::Relaxed)
            || (worker < self.allowed.load(Ordering::Relaxed)
                && self.lanes.iter().any(|lane| lane.has_ready()))
    }

    /// The main loop of worker number `worker`.
    fn work(&self, worker: usize) {
        // Each worker, and each iteration, starts with a different lane.
        let mut first_lane = worker;
        let mut idle_since = None;
        while !self.ending.load(Ordering::Relaxed) {
            first_lane = first_lane.wrapping_add(1);
            if self.run_one(worker, first_lane) {
                idle_since = None;
            } else if !self.spin(worker) {
                let since: Instant = *idle_since.get_or_insert_with(Instant::now);
                let left = IDLE_LIMIT.saturating_sub(since.elapsed());
                if left.is_zero() {
                    return;
                }
                self.parkers[worker].park(left, || self.has_work(worker));
            }
        }
    }

    fn run_one(&self, worker: usize, first_lane: usize) -> bool {
        let count = self.lanes.len();
        worker < self.allowed.load(Ordering::Relaxed)
            && (0..count).any(|step| self.lanes[(first_lane.wrapping_add(step)) % count].run_one())
    }

    /// Polls for work for at most [`SPIN_LIMIT`]; returns true if there is some.
    fn spin(&self, worker: usize) -> bool {
        let begun = Instant::now();
        while worker < self.allowed.load(Ordering::Relaxed) {
            for _ in 0..SPINS {
                if self.has_work(worker) {
                    return true;
                }
                std::hint::spin_loop();
            }
            if begun.elapsed() >= SPIN_LIMIT {
                break;
            }
        }
        self.has_work(worker)
    }
}

/// Worker threads for a fixed set of lanes. Ends its threads when dropped.
pub struct Pool {
    shared: Arc<PoolShared>,
    threads: Vec<Option<JoinHandle<()>>>,
    guard: StartGuard,
    /// The system refused to start a thread; no further start is attempted.
    refused: bool,
    most: usize,
}

impl Pool {
    /// A pool of at most `limit` threads. None is started yet and none is [allowed](Pool::allow).
    #[must_use]
    pub fn new(limit: usize, lanes: Vec<Arc<dyn Tasks>>, guard: StartGuard) -> Self {
        Self {
            shared: Arc::new(PoolShared {
                lanes,
                parkers: (0..limit).map(|_| Parker::new()).collect(),
                allowed: AtomicUsize::new(0),
                ending: AtomicBool::new(false),
            }),
            threads: (0..limit).map(|_| None).collect(),
            guard,
            refused: false,
            most: 0,
        }
    }

    /// Sets how many workers may take batches; others finish their current batch.
    pub fn allow(&mut self, workers: usize) {
        self.shared.allowed.store(workers, Ordering::Relaxed);
    }

    /// Number of workers that may take batches and are running or can be started.
    #[must_use]
    pub fn allowed(&self) -> usize {
        let allowed = self.shared.allowed.load(Ordering::Relaxed);
        if self.refused {
            allowed.min(self.alive())
        } else {
            allowed.min(self.threads.len())
        }
    }

    /// Number of running threads.
    #[must_use]
    pub fn alive(&self) -> usize {
        let alive = |thread: &&JoinHandle<()>| !thread.is_finished();
        self.threads.iter().flatten().filter(alive).count()
    }

    /// Maximum number of threads that ran at once.
    #[must_use]
    pub fn most(&self) -> usize {
        self.most
    }

    /// Wakes a sleeping worker, or starts one if fewer than allowed are running. To be called after
    /// a batch was queued in a lane.
    pub fn summon(&mut self) {
        let allowed = self.allowed();
        let pairs = self.shared.parkers.iter().zip(&self.threads).take(allowed);
        for (parker, thread) in pairs {
            if let Some(thread) = thread
                && parker.wake()
                && !thread.is_finished()
            {
                thread.thread().unpark();
                return;
            }
        }
        let vacant = self.threads.iter().take(allowed).position(|thread| {
            thread
                .as_ref()
                .is_none_or(std::thread::JoinHandle::is_finished)
        });
        if let Some(worker) = vacant {
            self.start(worker);
        }
    }

    fn start(&mut self, worker: usize) {
        let shared = Arc::clone(&self.shared);
        let guard = (self.guard)();
        let started = thread::Builder::new()
            .name("crypto".to_owned())
            .stack_size(STACK_BYTES)
            .spawn(move || shared.work(worker));
        drop(guard);
        match started {
            Ok(thread) => {
                self.threads[worker] = Some(thread);
                self.most = self.most.max(self.alive());
            }
            // Process limit reached or out of memory: the owner runs all batches.
            Err(_) => self.refused = true,
        }
    }

    /// Ends and joins all threads; they start again when needed. For a process that is about to
    /// fork.
    pub fn rest(&mut self) {
        self.shared.ending.store(true, Ordering::Relaxed);
        for (parker, thread) in self.shared.parkers.iter().zip(&mut self.threads) {
            if let Some(thread) = thread.take() {
                if parker.wake() {
                    thread.thread().unpark();
                }
                // A worker catches its jobs' panics.
                let _ = thread.join();
            }
        }
        self.shared.ending.store(false, Ordering::Relaxed);
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.rest();
    }
}
