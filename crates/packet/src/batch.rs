//! Batches: several seal or open jobs of one direction run in one call, so that what can work on
//! many packets at once (the MACs of queued packets do not depend on each other) gets them
//! together. The results are those of running each job alone.

use alloc::vec::Vec;

use crate::error::PacketError;
use crate::open::{OpenJob, OpenedPacket};
use crate::seal::{SealJob, SealedPacket};

/// Runs all of `jobs` and appends their packets to `sealed`, in the same order. `jobs` is empty
/// afterwards and keeps its memory.
pub fn seal_batch(jobs: &mut Vec<SealJob>, sealed: &mut Vec<SealedPacket>) {
    sealed.extend(jobs.drain(..).map(SealJob::run));
}

/// Runs all of `jobs` and appends their results to `opened`, in the same order. `jobs` is empty
/// afterwards and keeps its memory. Whoever dispatches the results stops at the first error.
pub fn open_batch(jobs: &mut Vec<OpenJob>, opened: &mut Vec<Result<OpenedPacket, PacketError>>) {
    opened.extend(jobs.drain(..).map(OpenJob::run));
}
