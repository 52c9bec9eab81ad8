//! Batches: several seal or open jobs of one direction run in one call, so that HMACs of packets
//! under the same keys are computed in parallel lanes (`ctr_mac`: encrypt each packet, then MAC
//! all, or the reverse without encrypt-then-MAC). Packets of other suites are processed one after
//! another. Memory is allocated only where the caller's vectors lack capacity.

use alloc::vec::Vec;

use crate::error::PacketError;
use crate::open::{OpenJob, OpenedPacket};
use crate::seal::{SealJob, SealedPacket};

/// Runs all of `jobs` and appends their packets to `sealed`, in the same order and with the same
/// bytes as [`SealJob::run`] would return for each. Empties `jobs`, which keeps its capacity.
pub fn seal_batch(jobs: &mut Vec<SealJob>, sealed: &mut Vec<SealedPacket>) {
    SealJob::run_all(jobs, sealed);
}

/// Runs `jobs` and appends their results to `opened`, in the same order and with the same values as
/// [`OpenJob::run`] would return for each, up to and including the first error. Jobs after the
/// first error are dropped without a result. Empties `jobs`, which keeps its capacity.
pub fn open_batch(jobs: &mut Vec<OpenJob>, opened: &mut Vec<Result<OpenedPacket, PacketError>>) {
    OpenJob::run_all(jobs, opened);
}
