//! An ordered parallel executor: jobs run on any free thread, and their results leave in the order
//! in which the jobs were submitted.
//!
//! A [`Lane`] belongs to one thread, its *owner*, which collects jobs into batches, runs them in
//! place or queues them in the lane's ring, and takes the results in order. A [`Pool`] has threads,
//! *workers*, that take batches in turn from the rings of all of its lanes. An otherwise idle owner
//! runs queued batches too, so progress never depends on a worker. A [`WorkerController`] controls
//! how many workers are used, from measurements at run time.
//!
//! Invariants: results leave in the order of [`Lane::push`]; no result leaves after a failed one or
//! after a job that panicked; a worker that ends, or never starts, delays nothing; a lane holds at
//! most [`RING_BATCHES`] batches of [`MAX_BATCH_BYTES`] and [`MAX_BATCH_JOBS`].
//!
//! This crate does not interpret jobs: `driver` fills the lanes with packets to seal and to open.
#![forbid(unsafe_code)]

mod batch;
mod lane;
mod parker;
mod pool;
mod ring;
mod sync;
mod worker_controller;

#[cfg(test)]
mod tests;

pub use batch::{LaneWork, MAX_BATCH_BYTES, MAX_BATCH_JOBS, Panicked};
pub use lane::{Lane, RING_BATCHES, Tally};
pub use pool::{Pool, StartGuard, Tasks};
pub use worker_controller::{Sample, WorkerController};
