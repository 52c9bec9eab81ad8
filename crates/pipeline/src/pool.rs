//! [`Pool`]: the threads that run batches.
//!
//! A thread starts when a batch waits that no thread is free for, sleeps when there is nothing,
//! and ends when it has slept for [`IDLE_LIMIT`]. None starts before the first batch is waiting.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::seat::Seat;

/// A worker that has slept for so long ends.
const IDLE_LIMIT: Duration = Duration::from_secs(1);
/// How long a worker looks for the next batch before it sleeps: in steady bulk one comes every
/// 50 to 200 µs, and waking a sleeper costs the owner several µs each time.
const SPIN_LIMIT: Duration = Duration::from_micros(100);
/// Looks between two readings of the clock.
const SPINS: usize = 64;
/// Stack of a worker, bytes: kernels of ciphers need a few KiB.
const STACK_BYTES: usize = 256 * 1024;

/// Where workers find batches: a [`Lane`](crate::Lane).
pub trait Tasks: Send + Sync {
    /// Whether a batch waits.
    fn has_ready(&self) -> bool;
    /// Takes one batch and runs it; false when none waits.
    fn run_one(&self) -> bool;
}

/// Called on the owner's thread before a thread is started; what it returns is dropped when the
/// thread has started. A thread inherits its starter's signal mask.
pub type StartGuard = fn() -> Box<dyn Any>;

struct Shared {
    lanes: Vec<Arc<dyn Tasks>>,
    seats: Vec<Seat>,
    /// Workers in seats below this may take batches.
    allowed: AtomicUsize,
    ending: AtomicBool,
}

impl Shared {
    fn has_work(&self, seat: usize) -> bool {
        self.ending.load(Ordering::Relaxed)
            || (seat < self.allowed.load(Ordering::Relaxed)
                && self.lanes.iter().any(|lane| lane.has_ready()))
    }

    /// A worker's life.
    fn work(&self, seat: usize) {
        // Which lane is looked at first: each worker, and each turn, begins with another.
        let mut first = seat;
        let mut idle_since = None;
        while !self.ending.load(Ordering::Relaxed) {
            first = first.wrapping_add(1);
            if self.run_one(seat, first) {
                idle_since = None;
            } else if !self.spin(seat) {
                let since: Instant = *idle_since.get_or_insert_with(Instant::now);
                let left = IDLE_LIMIT.saturating_sub(since.elapsed());
                if left.is_zero() {
                    return;
                }
                self.seats[seat].sleep(left, || self.has_work(seat));
            }
        }
    }

    fn run_one(&self, seat: usize, first: usize) -> bool {
        let count = self.lanes.len();
        seat < self.allowed.load(Ordering::Relaxed)
            && (0..count).any(|step| self.lanes[(first.wrapping_add(step)) % count].run_one())
    }

    /// Looks for work for a while.
    fn spin(&self, seat: usize) -> bool {
        let begun = Instant::now();
        while seat < self.allowed.load(Ordering::Relaxed) {
            for _ in 0..SPINS {
                if self.has_work(seat) {
                    return true;
                }
                std::hint::spin_loop();
            }
            if begun.elapsed() >= SPIN_LIMIT {
                break;
            }
        }
        self.has_work(seat)
    }
}

/// Workers for a fixed set of lanes. Ends its threads when dropped.
pub struct Pool {
    shared: Arc<Shared>,
    threads: Vec<Option<JoinHandle<()>>>,
    guard: StartGuard,
    /// The system refused a thread: it is not asked again.
    refused: bool,
    most: usize,
}

impl Pool {
    /// A pool of at most `limit` threads, of which none is started yet and none is
    /// [allowed](Pool::allow).
    #[must_use]
    pub fn new(limit: usize, lanes: Vec<Arc<dyn Tasks>>, guard: StartGuard) -> Self {
        Self {
            shared: Arc::new(Shared {
                lanes,
                seats: (0..limit).map(|_| Seat::new()).collect(),
                allowed: AtomicUsize::new(0),
                ending: AtomicBool::new(false),
            }),
            threads: (0..limit).map(|_| None).collect(),
            guard,
            refused: false,
            most: 0,
        }
    }

    /// How many workers may take batches from now on; those beyond finish what they have.
    pub fn allow(&mut self, workers: usize) {
        self.shared.allowed.store(workers, Ordering::Relaxed);
    }

    /// Workers that may take batches, and could be started.
    #[must_use]
    pub fn allowed(&self) -> usize {
        let allowed = self.shared.allowed.load(Ordering::Relaxed);
        if self.refused {
            allowed.min(self.alive())
        } else {
            allowed.min(self.threads.len())
        }
    }

    /// Threads that there are now.
    #[must_use]
    pub fn alive(&self) -> usize {
        let alive = |thread: &&JoinHandle<()>| !thread.is_finished();
        self.threads.iter().flatten().filter(alive).count()
    }

    /// The most threads that there were at once.
    #[must_use]
    pub fn most(&self) -> usize {
        self.most
    }

    /// A batch was put into a lane: wakes a worker that sleeps, or starts one that there is not.
    pub fn summon(&mut self) {
        let allowed = self.allowed();
        let pairs = self.shared.seats.iter().zip(&self.threads).take(allowed);
        for (seat, thread) in pairs {
            if let Some(thread) = thread
                && seat.rouse()
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
        if let Some(seat) = vacant {
            self.start(seat);
        }
    }

    fn start(&mut self, seat: usize) {
        let shared = Arc::clone(&self.shared);
        let guard = (self.guard)();
        let started = thread::Builder::new()
            .name("crypto".to_owned())
            .stack_size(STACK_BYTES)
            .spawn(move || shared.work(seat));
        drop(guard);
        match started {
            Ok(thread) => {
                self.threads[seat] = Some(thread);
                self.most = self.most.max(self.alive());
            }
            // No more processes for this user, or no memory: the owner does it all.
            Err(_) => self.refused = true,
        }
    }

    /// Ends all threads; they start again when they are needed. For a process that is to fork.
    pub fn rest(&mut self) {
        self.shared.ending.store(true, Ordering::Relaxed);
        for (seat, thread) in self.shared.seats.iter().zip(&mut self.threads) {
            if let Some(thread) = thread.take() {
                if seat.rouse() {
                    thread.thread().unpark();
                }
                // A worker catches what its jobs throw.
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
