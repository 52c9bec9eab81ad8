//! Batches: several seal or open jobs of one direction run in one call, so that what can work on
//! many packets at once gets them together: HMACs of packets under the same keys are computed
//! side by side (encrypt each, then MAC all, or the other way round without encrypt-then-MAC;
//! in `ctr_mac`). Packets of other suites go one after the other. Nothing is allocated beyond
//! what the vectors of the caller lack.

use alloc::vec::Vec;

use crate::error::PacketError;
use crate::open::{OpenJob, OpenedPacket};
use crate::seal::{SealJob, SealedPacket};

/// Runs all of `jobs` and appends their packets to `sealed`, in the same order and the same as
/// from each [`SealJob::run`]. `jobs` is empty afterwards and keeps its memory.
pub fn seal_batch(jobs: &mut Vec<SealJob>, sealed: &mut Vec<SealedPacket>) {
    SealJob::run_all(jobs, sealed);
}

/// Runs `jobs` and appends their results to `opened`, in the same order and the same as from
/// each [`OpenJob::run`], up to and with the first error: what stands behind it is dropped
/// unseen, and has no result. `jobs` is empty afterwards and keeps its memory.
pub fn open_batch(jobs: &mut Vec<OpenJob>, opened: &mut Vec<Result<OpenedPacket, PacketError>>) {
    OpenJob::run_all(jobs, opened);
}
