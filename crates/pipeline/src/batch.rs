//! [`Batch`]: jobs that run together, later their results.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Maximum number of jobs in a batch.
pub const MAX_BATCH_JOBS: usize = 32;

/// Maximum number of bytes in a batch, unless a single job has more. Bounds the time that a batch
/// takes, and so the time that the owner may wait for one.
pub const MAX_BATCH_BYTES: usize = 1 << 20;

/// A kind of job that a lane can run.
pub trait LaneWork: 'static {
    /// A job; owns all of its input.
    type Job: Send;
    /// The result of a job.
    type Done: Send;

    /// Runs all of `jobs`, empties it, and appends the results to `done` in the same order.
    fn run(jobs: &mut Vec<Self::Job>, done: &mut Vec<Self::Done>);

    /// Returns true if no result after `done` may leave the lane.
    fn is_failure(done: &Self::Done) -> bool;
}

/// A job panicked: its result and all later ones are lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Panicked;

impl fmt::Display for Panicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a job panicked")
    }
}

impl std::error::Error for Panicked {}

/// Holds jobs or results or nothing, never both.
pub(crate) struct Batch<W: LaneWork> {
    jobs: Vec<W::Job>,
    done: Vec<W::Done>,
    bytes: usize,
    panicked: bool,
}

impl<W: LaneWork> Batch<W> {
    pub(crate) fn new() -> Self {
        Self {
            jobs: Vec::new(),
            done: Vec::new(),
            bytes: 0,
            panicked: false,
        }
    }

    pub(crate) fn push(&mut self, job: W::Job, bytes: usize) {
        self.jobs.push(job);
        self.bytes = self.bytes.saturating_add(bytes);
    }

    pub(crate) fn jobs(&self) -> usize {
        self.jobs.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Replaces the jobs with their results. Catches a panic, because unwinding through a worker
    /// would leave the batch taken for ever.
    pub(crate) fn run(&mut self) {
        let Self { jobs, done, .. } = self;
        let ran = catch_unwind(AssertUnwindSafe(|| W::run(jobs, done)));
        if ran.is_err() {
            self.panicked = true;
            self.jobs.clear();
            self.done.clear();
        }
    }

    /// Moves the results to `out`, up to and including the first failure, and empties the batch.
    /// Returns true if there was a failure.
    ///
    /// # Errors
    /// [`Panicked`] if a job of this batch panicked.
    pub(crate) fn empty_into(&mut self, out: &mut VecDeque<W::Done>) -> Result<bool, Panicked> {
        let mut failed = false;
        for done in self.done.drain(..) {
            failed = W::is_failure(&done);
            out.push_back(done);
            if failed {
                break;
            }
        }
        self.jobs.clear();
        self.bytes = 0;
        if std::mem::take(&mut self.panicked) {
            return Err(Panicked);
        }
        Ok(failed)
    }
}
