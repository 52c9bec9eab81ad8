//! [`Lane`]: the jobs of one direction, in order of submission, and the owner's side of the ring.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::batch::{Batch, LaneWork, MAX_BATCH_BYTES, MAX_BATCH_JOBS, Panicked};
use crate::pool::Tasks;
use crate::ring::{Ran, Ring};

/// Number of batches in a lane's ring. More would only delay the jobs queued after them.
pub const RING_BATCHES: usize = 16;

/// Numbers of batches of a lane, by the thread that ran them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Run by the owner immediately, without entering the ring.
    pub in_place: u64,
    /// Queued in the ring and run by the owner.
    pub helped: u64,
    /// Queued in the ring and run by a worker.
    pub by_workers: u64,
}

/// The part of a lane that workers share.
struct LaneShared<W: LaneWork> {
    ring: Ring<Batch<W>>,
    wake_owner: Box<dyn Fn() + Send + Sync>,
    /// The results of queued batches are not needed any more; workers skip them.
    abandoned: AtomicBool,
    by_workers: AtomicU64,
}

impl<W: LaneWork> LaneShared<W> {
    fn take_one(&self) -> Ran {
        self.ring.run_one(|batch| {
            if !self.abandoned.load(Ordering::Relaxed) {
                batch.run();
            }
        })
    }
}

impl<W: LaneWork> Tasks for LaneShared<W> {
    fn has_ready(&self) -> bool {
        self.ring.has_ready()
    }

    fn run_one(&self) -> bool {
        let ran = self.take_one();
        if ran == Ran::Nothing {
            return false;
        }
        self.by_workers.fetch_add(1, Ordering::Relaxed);
        if ran == Ran::OneAwaited {
            (self.wake_owner)();
        }
        true
    }
}

/// The owner's end of a lane; see the crate documentation.
///
/// The owner [pushes](Lane::push) jobs while the lane [has room](Lane::has_room), and calls
/// [`Lane::advance`] to fetch results and to start the pushed jobs. Before it sleeps it runs the
/// remaining batches ([`Lane::help`]), then announces itself ([`Lane::owner_sleeps`]).
pub struct Lane<W: LaneWork> {
    shared: Arc<LaneShared<W>>,
    /// Pushed jobs that are not in the ring yet.
    gathered: Batch<W>,
    /// Numbers of the oldest batch in the ring and of the next one to be queued.
    oldest: usize,
    next: usize,
    batch_bytes: usize,
    queued_bytes: usize,
    /// A failure has left the lane; no result follows it.
    failed: bool,
    tally: Tally,
}

impl<W: LaneWork> Lane<W> {
    /// An empty lane whose batches are closed at `batch_bytes` (1 to [`MAX_BATCH_BYTES`]).
    /// `wake_owner` is called on a worker's thread when the owner sleeps and a result is ready.
    #[must_use]
    pub fn new(batch_bytes: usize, wake_owner: impl Fn() + Send + Sync + 'static) -> Self {
        Self {
            shared: Arc::new(LaneShared {
                ring: Ring::new(RING_BATCHES, Batch::new),
                wake_owner: Box::new(wake_owner),
                abandoned: AtomicBool::new(false),
                by_workers: AtomicU64::new(0),
            }),
            gathered: Batch::new(),
            oldest: 0,
            next: 0,
            queued_bytes: 0,
            batch_bytes: batch_bytes.clamp(1, MAX_BATCH_BYTES),
            failed: false,
            tally: Tally::default(),
        }
    }

    /// The source of batches for a [`Pool`](crate::Pool).
    #[must_use]
    pub fn tasks(&self) -> Arc<dyn Tasks> {
        Arc::clone(&self.shared) as Arc<dyn Tasks>
    }

    /// Sets the number of bytes at which a batch is closed, clamped to 1 to [`MAX_BATCH_BYTES`].
    pub fn set_batch_bytes(&mut self, bytes: usize) {
        self.batch_bytes = bytes.clamp(1, MAX_BATCH_BYTES);
    }

    /// Number of bytes at which a batch is closed.
    #[must_use]
    pub fn batch_bytes(&self) -> usize {
        self.batch_bytes
    }

    /// Appends a job that processes `bytes` bytes. The order of calls is the order of the results.
    /// After a failure the job is dropped.
    pub fn push(&mut self, job: W::Job, bytes: usize) {
        if !self.failed {
            self.gathered.push(job, bytes);
        }
    }

    /// Returns true if another job may be pushed before the next [`Lane::advance`].
    #[must_use]
    pub fn has_room(&self) -> bool {
        !self.failed
            && self.gathered.jobs() < MAX_BATCH_JOBS
            && self.gathered.bytes() < self.batch_bytes
    }

    /// Number of bytes of pushed jobs that have neither run nor entered the ring.
    #[must_use]
    pub fn gathered_bytes(&self) -> usize {
        self.gathered.bytes()
    }

    /// Number of bytes of all jobs in the lane.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.gathered.bytes() + self.queued_bytes
    }

    /// Number of batches in the ring.
    #[must_use]
    pub fn standing(&self) -> usize {
        self.next.wrapping_sub(self.oldest)
    }

    /// Returns true if the lane holds no jobs and no results, or has failed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.failed || (self.gathered.jobs() == 0 && self.standing() == 0)
    }

    /// Appends finished results to `out`, then submits the pushed jobs: into the ring if `share` is
    /// true (workers are available) or the ring is not empty, else they run immediately on this
    /// thread. If the ring is full they stay. Returns true if a batch entered the ring.
    ///
    /// # Errors
    /// [`Panicked`], once; the lane then accepts no jobs and has no results.
    pub fn advance(&mut self, share: bool, out: &mut VecDeque<W::Done>) -> Result<bool, Panicked> {
        self.collect(out)?;
        if self.failed || self.gathered.jobs() == 0 {
            return Ok(false);
        }
        if self.standing() == 0 && !share {
            self.tally.in_place += 1;
            self.gathered.run();
            let emptied = self.gathered.empty_into(out);
            self.note(emptied)?;
            return Ok(false);
        }
        if self.standing() == self.shared.ring.slots() {
            return Ok(false);
        }
        self.queued_bytes += self.gathered.bytes();
        let gathered = &mut self.gathered;
        self.shared
            .ring
            .put(self.next, |slot| std::mem::swap(slot, gathered));
        self.next = self.next.wrapping_add(1);
        Ok(true)
    }

    fn collect(&mut self, out: &mut VecDeque<W::Done>) -> Result<(), Panicked> {
        while !self.failed && self.standing() > 0 && self.shared.ring.is_done(self.oldest) {
            let ring = &self.shared.ring;
            let (bytes, emptied) = ring.take(self.oldest, |batch| {
                let bytes = batch.bytes();
                (bytes, batch.empty_into(out))
            });
            self.queued_bytes = self.queued_bytes.saturating_sub(bytes);
            self.oldest = self.oldest.wrapping_add(1);
            self.note(emptied)?;
        }
        Ok(())
    }

    fn note(&mut self, emptied: Result<bool, Panicked>) -> Result<(), Panicked> {
        if emptied != Ok(false) {
            self.failed = true;
            self.shared.abandoned.store(true, Ordering::Relaxed);
            self.gathered = Batch::new();
            self.queued_bytes = 0;
        }
        emptied.map(|_| ())
    }

    /// Runs the oldest batch that no worker has taken; returns false if there is none.
    pub fn help(&mut self) -> bool {
        let ran = !self.failed && self.standing() > 0 && self.shared.take_one() != Ran::Nothing;
        self.tally.helped += u64::from(ran);
        ran
    }

    /// Returns true if [`Lane::advance`] would return a result from the ring.
    #[must_use]
    pub fn has_result(&self) -> bool {
        !self.failed && self.standing() > 0 && self.shared.ring.is_done(self.oldest)
    }

    /// Announces that the owner is about to sleep until the oldest batch is done. Returns false if
    /// it is done already; the owner must then not sleep. The owner must call [`Lane::owner_wakes`]
    /// afterwards in either case.
    #[must_use]
    pub fn owner_sleeps(&self) -> bool {
        self.failed || self.standing() == 0 || self.shared.ring.owner_sleeps(self.oldest)
    }

    /// Announces that the owner is awake.
    pub fn owner_wakes(&self) {
        self.shared.ring.owner_wakes();
    }

    /// Numbers of batches run so far, by thread.
    #[must_use]
    pub fn tally(&self) -> Tally {
        Tally {
            by_workers: self.shared.by_workers.load(Ordering::Relaxed),
            ..self.tally
        }
    }
}

impl<W: LaneWork> Drop for Lane<W> {
    fn drop(&mut self) {
        self.shared.abandoned.store(true, Ordering::Relaxed);
    }
}
