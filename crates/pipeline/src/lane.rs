//! [`Lane`]: one direction's jobs, in the order in which they came, and its owner's side of the
//! ring.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::batch::{Batch, MAX_BATCH_BYTES, MAX_BATCH_JOBS, Panicked, Work};
use crate::pool::Tasks;
use crate::ring::{Ran, Ring};

/// Batches that a lane holds for workers: more than a few only lengthen the way of what is
/// queued behind them.
pub const RING_BATCHES: usize = 16;

/// Who ran the batches of a lane, by their number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Run by the owner at once, without standing in the lane.
    pub in_place: u64,
    /// Stood in the lane and run by the owner.
    pub helped: u64,
    /// Run by a worker.
    pub by_workers: u64,
}

/// What workers see of a lane.
struct Shared<W: Work> {
    ring: Ring<Batch<W>>,
    wake_owner: Box<dyn Fn() + Send + Sync>,
    /// What is in the ring is not wanted any more.
    abandoned: AtomicBool,
    by_workers: AtomicU64,
}

impl<W: Work> Shared<W> {
    fn take_one(&self) -> Ran {
        self.ring.run_one(|batch| {
            if !self.abandoned.load(Ordering::Relaxed) {
                batch.run();
            }
        })
    }
}

impl<W: Work> Tasks for Shared<W> {
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

/// The owner's end of a lane. See the crate's head.
///
/// Jobs are [pushed](Lane::push) while the lane [has room](Lane::has_room), and
/// [`Lane::advance`] moves things on: it fetches what is done and lets what was pushed run. An
/// owner that is about to sleep runs what is left first ([`Lane::help`]), then announces itself
/// ([`Lane::owner_sleeps`]).
pub struct Lane<W: Work> {
    shared: Arc<Shared<W>>,
    /// Jobs behind all that is in the ring.
    gathered: Batch<W>,
    /// Number of the oldest batch in the ring, and of the next to be put.
    oldest: usize,
    next: usize,
    batch_bytes: usize,
    standing_bytes: usize,
    /// A failure has been handed out: nothing comes after it.
    failed: bool,
    tally: Tally,
}

impl<W: Work> Lane<W> {
    /// An empty lane whose batches are closed at `batch_bytes` (at most [`MAX_BATCH_BYTES`]).
    /// `wake_owner` is called on a worker's thread when the owner sleeps and may go on.
    #[must_use]
    pub fn new(batch_bytes: usize, wake_owner: impl Fn() + Send + Sync + 'static) -> Self {
        Self {
            shared: Arc::new(Shared {
                ring: Ring::new(RING_BATCHES, Batch::new),
                wake_owner: Box::new(wake_owner),
                abandoned: AtomicBool::new(false),
                by_workers: AtomicU64::new(0),
            }),
            gathered: Batch::new(),
            oldest: 0,
            next: 0,
            standing_bytes: 0,
            batch_bytes: batch_bytes.clamp(1, MAX_BATCH_BYTES),
            failed: false,
            tally: Tally::default(),
        }
    }

    /// What a [`Pool`](crate::Pool) takes its work from.
    #[must_use]
    pub fn tasks(&self) -> Arc<dyn Tasks> {
        Arc::clone(&self.shared) as Arc<dyn Tasks>
    }

    /// Batches are closed at so many bytes from now on, at most [`MAX_BATCH_BYTES`].
    pub fn set_batch_bytes(&mut self, bytes: usize) {
        self.batch_bytes = bytes.clamp(1, MAX_BATCH_BYTES);
    }

    /// At how many bytes a batch is closed.
    #[must_use]
    pub fn batch_bytes(&self) -> usize {
        self.batch_bytes
    }

    /// Appends a job that deals with `bytes` bytes. Its place in the order is fixed by this.
    pub fn push(&mut self, job: W::Job, bytes: usize) {
        if !self.failed {
            self.gathered.push(job, bytes);
        }
    }

    /// Whether another job may be pushed before the next [`Lane::advance`].
    #[must_use]
    pub fn has_room(&self) -> bool {
        !self.failed
            && self.gathered.jobs() < MAX_BATCH_JOBS
            && self.gathered.bytes() < self.batch_bytes
    }

    /// Bytes of the jobs that were pushed and have not run or been stood in the ring.
    #[must_use]
    pub fn gathered_bytes(&self) -> usize {
        self.gathered.bytes()
    }

    /// Bytes of all jobs in the lane.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.gathered.bytes() + self.standing_bytes
    }

    /// Batches in the ring.
    #[must_use]
    pub fn standing(&self) -> usize {
        self.next.wrapping_sub(self.oldest)
    }

    /// No job is anywhere in the lane.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.failed || (self.gathered.jobs() == 0 && self.standing() == 0)
    }

    /// Appends to `out` the results that are due, and lets what was pushed go on: into the ring
    /// if `share` says that workers are there for it, or if something stands before it; else it
    /// runs here and now. True when something was put into the ring.
    ///
    /// # Errors
    /// [`Panicked`], once; the lane is dead then.
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
        self.standing_bytes += self.gathered.bytes();
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
            self.standing_bytes = self.standing_bytes.saturating_sub(bytes);
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
            self.standing_bytes = 0;
        }
        emptied.map(|_| ())
    }

    /// Runs the oldest batch that nobody has taken; false when there is none.
    pub fn help(&mut self) -> bool {
        let ran = !self.failed && self.standing() > 0 && self.shared.take_one() != Ran::Nothing;
        self.tally.helped += u64::from(ran);
        ran
    }

    /// Whether there is a result to be had by [`Lane::advance`].
    #[must_use]
    pub fn has_result(&self) -> bool {
        !self.failed && self.standing() > 0 && self.shared.ring.is_done(self.oldest)
    }

    /// The owner is about to sleep and wants to be woken when there is a result; false when there
    /// is one, so that it must not. Behind it, whatever woke the owner, comes
    /// [`Lane::owner_wakes`].
    #[must_use]
    pub fn owner_sleeps(&self) -> bool {
        self.failed || self.standing() == 0 || self.shared.ring.owner_sleeps(self.oldest)
    }

    /// The owner is awake.
    pub fn owner_wakes(&self) {
        self.shared.ring.owner_wakes();
    }

    /// Who ran the batches so far.
    #[must_use]
    pub fn tally(&self) -> Tally {
        Tally {
            by_workers: self.shared.by_workers.load(Ordering::Relaxed),
            ..self.tally
        }
    }
}

impl<W: Work> Drop for Lane<W> {
    fn drop(&mut self) {
        self.shared.abandoned.store(true, Ordering::Relaxed);
    }
}
