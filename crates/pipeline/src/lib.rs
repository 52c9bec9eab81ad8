//! An ordered parallel executor: jobs go in, in one order; results come out in the same; in
//! between they run on whichever thread is free.
//!
//! A [`Lane`] belongs to one thread, its *owner*, who gathers jobs into batches, runs them in
//! place or stands them in the lane's ring, and takes the results in order. A [`Pool`] has
//! threads, *workers*, that take batches from the rings of all of its lanes, one and the other
//! in turn. The owner takes batches, too, when it has nothing else to do, so nothing ever
//! depends on there being a worker. A [`Gauge`] decides how many workers are worth it, by what
//! is measured while running.
//!
//! Invariants: results leave in the order of [`Lane::push`]; behind a result that is a failure
//! (or a job that panicked) none leaves; a worker that ends, or never starts, delays nothing;
//! what is in a lane is bounded by [`RING_BATCHES`] batches of [`MAX_BATCH_BYTES`] and
//! [`MAX_BATCH_JOBS`].
//!
//! Nothing here knows what a job is: `driver` fills the lanes with packets to seal and to open.
#![forbid(unsafe_code)]

mod batch;
mod gauge;
mod lane;
mod pool;
mod ring;
mod seat;
mod sync;

#[cfg(test)]
mod tests;

pub use batch::{MAX_BATCH_BYTES, MAX_BATCH_JOBS, Panicked, Work};
pub use gauge::{Gauge, Sample};
pub use lane::{Lane, RING_BATCHES, Tally};
pub use pool::{Pool, StartGuard, Tasks};
