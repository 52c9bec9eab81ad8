//! [`Batch`]: jobs that run together, and then their results.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The most jobs in one batch.
pub const MAX_BATCH_JOBS: usize = 32;

/// The most bytes in one batch, unless a single job has more. Bounds how long a batch takes, and
/// with it how long the owner can have to wait for one.
pub const MAX_BATCH_BYTES: usize = 1 << 20;

/// A kind of jobs.
pub trait Work: 'static {
    /// What is to be done; owns all that it needs.
    type Job: Send;
    /// What comes of it.
    type Done: Send;

    /// Runs all of `jobs`, which is empty afterwards, and appends their results to `done` in the
    /// same order.
    fn run(jobs: &mut Vec<Self::Job>, done: &mut Vec<Self::Done>);

    /// Behind a failure no result may be seen.
    fn is_failure(done: &Self::Done) -> bool;
}

/// A job panicked: what it was to bring, and all that stands behind it, is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Panicked;

impl fmt::Display for Panicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a job panicked")
    }
}

impl std::error::Error for Panicked {}

/// Empty, jobs, or results: never both.
pub(crate) struct Batch<W: Work> {
    jobs: Vec<W::Job>,
    done: Vec<W::Done>,
    bytes: usize,
    panicked: bool,
}

impl<W: Work> Batch<W> {
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

    /// Makes jobs results. A panic is caught: unwinding through a worker would leave the batch
    /// taken for ever.
    pub(crate) fn run(&mut self) {
        let Self { jobs, done, .. } = self;
        let ran = catch_unwind(AssertUnwindSafe(|| W::run(jobs, done)));
        if ran.is_err() {
            self.panicked = true;
            self.jobs.clear();
            self.done.clear();
        }
    }

    /// Moves the results to `out`, up to the first failure, and empties the batch. Says whether
    /// there was one, and how many bytes the batch had.
    ///
    /// # Errors
    /// [`Panicked`].
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
