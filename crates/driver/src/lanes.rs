//! The seal, open and compress lanes of a connection. Jobs run in batches, on the connection's
//! thread or on workers.
//!
//! By default jobs run on the connection's thread. Workers are considered for bulk only: after the
//! first [`LaneTerms::bulk_bytes`] the cores are counted, and from then on [`WorkerController`] (or
//! the configured number) sets the number of workers. Order is kept: while a lane holds batches,
//! later jobs queue in the lane too, however small.

use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use packet::{OpenJob, OpenedPacket, PacketError, SealJob, SealedPacket};
use pipeline::{Lane, LaneWork, Panicked, Pool, Sample, Tally, WorkerController};
use proto::{CompressJob, Compressed, Connection, TransportOutput};
use sys::epoll::{Epoll, EventFd, Interest};

use super::error::DriverError;
use super::notice::Notice;

/// Bytes at which a batch is closed. A batch that is read, sealed and written in one go stays in a
/// core's cache.
const BATCH_BYTES: usize = 256 * 1024;
/// The same for algorithms that process packets together: 16 packets of 32 KiB. HMAC-SHA2-256 with
/// two copies: 8 together 2.3 GB/s, 16 2.8, 24 2.6, 32 2.8.
const MANY_BATCH_BYTES: usize = 512 * 1024;
/// Maximum number of workers; with more, the owner's reads and writes are the bottleneck.
const MOST_WORKERS: usize = 6;
/// Maximum received bytes in the lane. They pin receive slabs, whose number is limited (`packet`).
const MAX_OPEN_BYTES: usize = 2 << 20;
/// The bulk transfer is over when the owner has slept this long, µs.
const LULL_US: u64 = 50_000;

/// Payloads in a run that a worker compresses. With fewer, each run's indexing of the history costs
/// too much; with more, the queue holds too few runs for all workers.
const RUN_PAYLOADS: usize = 4;
/// Minimum bytes of a run for a worker; smaller runs are compressed in place.
const RUN_BYTES: usize = 64 * 1024;
/// As [`RUN_PAYLOADS`] and [`RUN_BYTES`] for an accelerator, which indexes no history. Passing a
/// smaller run takes longer than compressing it.
const ACCELERATED_PAYLOADS: usize = 8;
const ACCELERATED_BYTES: usize = 4096;
/// Maximum number of threads that compress with `CompressionThreads auto`.
const MOST_DEFLATE_THREADS: usize = 4;

/// Number of threads that may process a connection's packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CryptoThreads {
    /// As many as raise throughput, determined while running.
    Auto,
    /// Maximum number of threads, counting the connection's own; capped at the number of cores. `1`
    /// disables workers.
    AtMost(usize),
}

/// Configuration of a connection's workers.
#[derive(Debug, Clone, Copy)]
pub struct LaneTerms {
    /// Threads for sealing and opening.
    pub threads: CryptoThreads,
    /// Threads for compression; unused without compression.
    pub compress_threads: CryptoThreads,
    /// Number of cores to assume; `None` asks the system when bulk data starts.
    pub cores: Option<usize>,
    /// Bytes that must have passed before workers are considered.
    pub bulk_bytes: u64,
    /// Minimum bytes of a batch for workers.
    pub share_bytes: usize,
}

impl CryptoThreads {
    /// Converts the value of the option; `None` is `auto`.
    #[must_use]
    pub fn from_option(threads: Option<usize>) -> Self {
        threads.map_or(Self::Auto, Self::AtMost)
    }
}

impl LaneTerms {
    /// Default values, with `threads` for sealing, opening and compression alike.
    #[must_use]
    pub fn new(threads: CryptoThreads) -> Self {
        Self {
            threads,
            compress_threads: threads,
            cores: None,
            bulk_bytes: 8 << 20,
            share_bytes: 64 * 1024,
        }
    }
}

/// Statistics of a connection's lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LaneReport {
    /// Maximum number of workers at one time.
    pub workers: usize,
    /// Batches sealed, by who ran them.
    pub sealed: Tally,
    /// Batches opened, by who ran them.
    pub opened: Tally,
    /// Compression runs that were or could have been given to workers, by who ran them.
    pub compressed: Tally,
}

impl fmt::Display for LaneReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let worked = |tally: Tally| {
            let all = tally.in_place + tally.helped + tally.by_workers;
            (tally.by_workers, all)
        };
        let ((sealed, all_sealed), (opened, all_opened)) =
            (worked(self.sealed), worked(self.opened));
        write!(
            f,
            "at most {} at once; workers sealed {sealed} of {all_sealed} batches and opened {opened} of \
             {all_opened}",
            self.workers + 1
        )
    }
}

struct Seal;

impl LaneWork for Seal {
    type Job = SealJob;
    type Done = SealedPacket;

    fn run(jobs: &mut Vec<SealJob>, done: &mut Vec<SealedPacket>) {
        packet::seal_batch(jobs, done);
    }

    fn is_failure(_: &SealedPacket) -> bool {
        false
    }
}

struct Deflate;

impl LaneWork for Deflate {
    type Job = CompressJob;
    type Done = Compressed;

    fn run(jobs: &mut Vec<CompressJob>, done: &mut Vec<Compressed>) {
        done.extend(jobs.drain(..).map(CompressJob::run));
    }

    fn is_failure(done: &Compressed) -> bool {
        done.is_failure()
    }
}

type OpenResult = Result<OpenedPacket, PacketError>;

struct Open;

impl LaneWork for Open {
    type Job = OpenJob;
    type Done = OpenResult;

    fn run(jobs: &mut Vec<OpenJob>, done: &mut Vec<OpenResult>) {
        packet::open_batch(jobs, done);
    }

    fn is_failure(done: &OpenResult) -> bool {
        done.is_err()
    }
}

/// Measurements since the last sample for the gauge.
#[derive(Default)]
struct Meter {
    bytes: u64,
    jobs_us: u64,
    asleep_us: u64,
    /// Bulk data is being transferred, so clocks are read.
    runs: bool,
}

pub(super) struct Lanes {
    seal: Lane<Seal>,
    open: Lane<Open>,
    deflate: Lane<Deflate>,
    /// Sent data is compressed.
    deflates: bool,
    /// An accelerator compressed at the last check.
    accelerated: bool,
    accelerator_end: Option<Notice>,
    compressed: VecDeque<Compressed>,
    /// Opened packets that the connection has not taken yet.
    opened: VecDeque<OpenResult>,
    terms: LaneTerms,
    gauge: WorkerController,
    pool: Option<Pool>,
    /// Wakes the owner; unset until there is a worker.
    wake: Arc<OnceLock<EventFd>>,
    total_bytes: u64,
    meter: Meter,
}

fn batch_bytes(gains_by_many: bool) -> usize {
    if gains_by_many {
        MANY_BATCH_BYTES
    } else {
        BATCH_BYTES
    }
}

/// Returns true if compression is on and currently at level 0.
fn stores(connection: &Connection) -> bool {
    connection.compress_level() == Some(0)
}

fn micros(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX)
}

/// Blocks all signals: threads inherit the mask, and only the owner handles signals.
fn without_signals() -> Box<dyn Any> {
    Box::new(sys::signals::Blocked::all().ok())
}

impl From<Panicked> for DriverError {
    fn from(_: Panicked) -> Self {
        Self::Proto(proto::Error::Bug("a packet's job panicked"))
    }
}

impl Lanes {
    pub(super) fn new() -> Self {
        let wake: Arc<OnceLock<EventFd>> = Arc::default();
        let waker = || {
            let wake = Arc::clone(&wake);
            move || {
                if let Some(wake) = wake.get() {
                    // A write to our own eventfd fails only if it is full, and then it is readable.
                    let _ = wake.signal();
                }
            }
        };
        Self {
            seal: Lane::new(BATCH_BYTES, waker()),
            open: Lane::new(BATCH_BYTES, waker()),
            // Each run is a batch.
            deflate: Lane::new(1, waker()),
            deflates: false,
            accelerated: false,
            accelerator_end: None,
            compressed: VecDeque::new(),
            opened: VecDeque::new(),
            terms: LaneTerms::new(CryptoThreads::AtMost(1)),
            gauge: WorkerController::auto(0),
            pool: None,
            wake,
            total_bytes: 0,
            meter: Meter::default(),
        }
    }

    /// Sets the terms; to be called before the first byte.
    pub(super) fn set_terms(&mut self, terms: LaneTerms) {
        self.terms = terms;
    }

    pub(super) fn report(&self) -> LaneReport {
        LaneReport {
            workers: self.pool.as_ref().map_or(0, Pool::most),
            sealed: self.seal.tally(),
            opened: self.open.tally(),
            compressed: self.deflate.tally(),
        }
    }

    // ---- sending --------------------------------------------------------------------------

    /// Returns true if another job may be pushed before the next [`Lanes::seal`].
    pub(super) fn takes_seal(&self) -> bool {
        self.seal.has_room()
    }

    pub(super) fn push_seal(&mut self, job: SealJob) {
        let bytes = job.packet_bytes();
        self.seal.set_batch_bytes(batch_bytes(job.gains_by_many()));
        self.seal.push(job, bytes);
    }

    /// Bytes waiting to be sealed or being sealed.
    pub(super) fn unsealed_bytes(&self) -> usize {
        self.seal.bytes()
    }

    /// Maximum bytes in the seal lane plus those that wait for the socket.
    pub(super) fn seal_limit_bytes(&self) -> usize {
        self.limit_bytes(self.seal.batch_bytes())
    }

    /// One batch in place, and for each worker one running and one queued.
    fn limit_bytes(&self, batch_bytes: usize) -> usize {
        batch_bytes * (1 + 2 * self.gauge.workers())
    }

    /// Advances the seal lane; sealed packets are appended to `out`.
    pub(super) fn seal(&mut self, out: &mut VecDeque<SealedPacket>) -> Result<(), DriverError> {
        let bytes = self.seal.gathered_bytes();
        let share = self.shares(bytes);
        let begun = self.begin(bytes);
        let handed = self.seal.advance(share, out)?;
        self.end(bytes, begun, handed);
        Ok(())
    }

    // ---- compressing ----------------------------------------------------------------------

    /// Passes finished runs to the connection and queues new ones for workers.
    pub(super) fn deflate(&mut self, connection: &mut Connection) -> Result<(), DriverError> {
        self.deflates |= connection.is_compressing();
        if !self.deflates {
            return Ok(());
        }
        loop {
            let handed = self.deflate.advance(true, &mut self.compressed)?;
            for compressed in self.compressed.drain(..) {
                connection.handle_compressed(compressed)?;
            }
            if handed && let Some(pool) = &mut self.pool {
                pool.summon();
            }
            let accelerated = self.is_accelerated(connection);
            if !accelerated && stores(connection) {
                // Storing leaves workers nothing to do.
                return Ok(());
            }
            if !self.shares_deflate() || !self.deflate.has_room() {
                if accelerated {
                    self.accelerate_in_place(connection)?;
                }
                return Ok(());
            }
            let (most, least) = if accelerated {
                (ACCELERATED_PAYLOADS, ACCELERATED_BYTES)
            } else {
                (RUN_PAYLOADS, RUN_BYTES)
            };
            let Some(job) = connection.poll_compress(most, least) else {
                return Ok(());
            };
            let bytes = job.bytes();
            self.count_deflated(bytes, None);
            self.deflate.push(job, bytes);
        }
    }

    /// Returns true if an accelerator compresses for the connection. Records a failed or dismissed
    /// one.
    fn is_accelerated(&mut self, connection: &mut Connection) -> bool {
        let Some(compressor) = connection.compressor() else {
            return false;
        };
        let accelerated = compressor.has_provider();
        if self.accelerated && !accelerated {
            let failed = compressor.take_failure();
            self.accelerator_end = match failed {
                Some(why) => Some(Notice::AcceleratorFailed(why.0)),
                None => compressor.dismissed().map(Notice::AcceleratorDismissed),
            };
        }
        self.accelerated = accelerated;
        accelerated
    }

    /// Takes the notice that the accelerator is no longer used; returned once.
    pub(super) fn take_notice(&mut self) -> Option<Notice> {
        self.accelerator_end.take()
    }

    /// Runs compress jobs on the accelerator from this thread while no worker has any. The
    /// remaining data is compressed by the software compressor in [`Lanes::poll_output`].
    fn accelerate_in_place(&mut self, connection: &mut Connection) -> Result<(), DriverError> {
        while self.deflate.is_empty()
            && let Some(job) = connection.poll_compress(ACCELERATED_PAYLOADS, ACCELERATED_BYTES)
        {
            let begun = Instant::now();
            let bytes = job.bytes();
            connection.handle_compressed(job.run())?;
            self.count_deflated(bytes, Some(begun));
        }
        // Record a failure now, together with the data at which it occurred.
        self.is_accelerated(connection);
        Ok(())
    }

    fn shares_deflate(&self) -> bool {
        self.gauge.workers() > 0
            && self.terms.compress_threads != CryptoThreads::AtMost(1)
            && self.deflate.standing() < self.deflate_limit()
            && self.pool.as_ref().is_some_and(|pool| pool.allowed() > 0)
    }

    /// Maximum runs in the lane: one running and one queued for each thread.
    fn deflate_limit(&self) -> usize {
        2 * (1 + self.gauge.workers())
    }

    /// Returns the next output; compression done within the call is counted as a job.
    pub(super) fn poll_output(&mut self, connection: &mut Connection) -> Option<TransportOutput> {
        if !self.deflates {
            return connection.poll_output();
        }
        let begun = Instant::now();
        let output = connection.poll_output();
        if let Some(TransportOutput::Seal(job)) = &output {
            self.count_deflated(job.packet_bytes(), Some(begun));
        }
        output
    }

    fn count_deflated(&mut self, bytes: usize, begun: Option<Instant>) {
        self.total_bytes = self.total_bytes.saturating_add(bytes as u64);
        self.meter.bytes += bytes as u64;
        if let Some(begun) = begun {
            self.meter.jobs_us += micros(begun);
        }
        self.meter.runs |= self.gauge.wants_samples() && bytes >= self.terms.share_bytes / 16;
    }

    /// Returns true while runs are being compressed; output waits for them.
    pub(super) fn is_deflating(&self) -> bool {
        !self.deflate.is_empty()
    }

    /// Waits for the oldest batch to be sent, running jobs where possible.
    pub(super) fn wait_sealed(&mut self) {
        while !self.deflate.is_empty() && self.deflate.standing() > 0 && !self.deflate.has_result()
        {
            if !self.deflate.help() {
                // Another thread runs it; the wait is one run at most.
                std::thread::yield_now();
            }
        }
        while !self.seal.is_empty() && self.seal.standing() > 0 && !self.seal.has_result() {
            if !self.seal.help() {
                // Another thread runs it; the wait is one batch at most.
                std::thread::yield_now();
            }
        }
    }

    // ---- receiving ------------------------------------------------------------------------

    /// Returns true if another job may be pushed before the next [`Lanes::open`].
    pub(super) fn takes_open(&self) -> bool {
        let limit = self.limit_bytes(self.open.batch_bytes());
        self.open.has_room() && self.open.bytes() < limit.min(MAX_OPEN_BYTES)
    }

    /// Returns true if reading more first is better than opening now: the packets gain from being
    /// opened together and do not fill a batch yet.
    pub(super) fn awaits_more(&self) -> bool {
        self.open.batch_bytes() > BATCH_BYTES && self.open.has_room()
    }

    /// Returns true if pushed jobs have not been submitted.
    pub(super) fn holds(&self) -> bool {
        self.open.gathered_bytes() > 0 && self.open.standing() == 0
    }

    pub(super) fn push_open(&mut self, job: OpenJob) {
        let bytes = job.wire_bytes();
        self.open.set_batch_bytes(batch_bytes(job.gains_by_many()));
        self.open.push(job, bytes);
    }

    /// Advances the open lane.
    pub(super) fn open(&mut self) -> Result<(), DriverError> {
        let bytes = self.open.gathered_bytes();
        let share = self.shares(bytes);
        let begun = self.begin(bytes);
        let handed = self.open.advance(share, &mut self.opened)?;
        self.end(bytes, begun, handed);
        Ok(())
    }

    pub(super) fn next_opened(&mut self) -> Option<OpenResult> {
        self.opened.pop_front()
    }

    /// Returns true if no received packet is in the lane. Opened packets that the connection has
    /// not taken do not count.
    pub(super) fn is_open_empty(&self) -> bool {
        self.open.is_empty()
    }

    // ---- workers --------------------------------------------------------------------------

    fn shares(&self, bytes: usize) -> bool {
        bytes >= self.terms.share_bytes
            && self.terms.threads != CryptoThreads::AtMost(1)
            && self.gauge.workers() > 0
            && self.pool.as_ref().is_some_and(|pool| pool.allowed() > 0)
    }

    /// Reads the clock for batches large enough to count.
    fn begin(&self, bytes: usize) -> Option<Instant> {
        (self.meter.runs && bytes >= self.terms.share_bytes).then(Instant::now)
    }

    fn end(&mut self, bytes: usize, begun: Option<Instant>, handed: bool) {
        if bytes == 0 {
            return;
        }
        self.total_bytes = self.total_bytes.saturating_add(bytes as u64);
        if handed {
            if let Some(pool) = &mut self.pool {
                pool.summon();
            }
        } else if let Some(begun) = begun {
            self.meter.jobs_us += micros(begun);
        }
        self.meter.bytes += bytes as u64;
        self.meter.runs |= self.gauge.wants_samples() && bytes >= self.terms.share_bytes;
    }

    /// To be called once a turn: starts the pool when there is bulk, and passes the gauge a sample.
    pub(super) fn update_workers(&mut self, epoll: &Epoll, token: u64) -> io::Result<()> {
        if self.pool.is_none()
            && self.total_bytes >= self.terms.bulk_bytes
            && self.wanted_threads() != CryptoThreads::AtMost(1)
        {
            self.begin_bulk(epoll, token)?;
        }
        if self.meter.runs && self.meter.bytes > 0 {
            self.update_worker_controller();
        }
        Ok(())
    }

    /// With compression its setting decides, as compression takes most of the time.
    fn wanted_threads(&self) -> CryptoThreads {
        match self.terms.compress_threads {
            CryptoThreads::AtMost(1) => self.terms.threads,
            threads if self.deflates => threads,
            _ => self.terms.threads,
        }
    }

    fn begin_bulk(&mut self, epoll: &Epoll, token: u64) -> io::Result<()> {
        let cores = self.terms.cores.unwrap_or_else(sys::cpu::available);
        let most = cores.saturating_sub(1).min(MOST_WORKERS);
        self.gauge = match self.wanted_threads() {
            CryptoThreads::Auto if self.deflates => {
                WorkerController::auto(most.min(MOST_DEFLATE_THREADS - 1))
            }
            CryptoThreads::Auto => WorkerController::auto(most),
            CryptoThreads::AtMost(threads) => {
                WorkerController::fixed(threads.saturating_sub(1).min(most))
            }
        };
        if most == 0 {
            self.terms.threads = CryptoThreads::AtMost(1);
            self.terms.compress_threads = CryptoThreads::AtMost(1);
            return Ok(());
        }
        if self.wake.get().is_none() {
            let wake = EventFd::new()?;
            epoll.add(&wake, token, Interest::READABLE)?;
            // Set only here.
            let _ = self.wake.set(wake);
        }
        let tasks = vec![self.deflate.tasks(), self.seal.tasks(), self.open.tasks()];
        let mut pool = Pool::new(most, tasks, without_signals);
        pool.allow(self.gauge.workers());
        self.pool = Some(pool);
        Ok(())
    }

    fn update_worker_controller(&mut self) {
        let sample = Sample {
            now_us: sys::time::monotonic_us(),
            bytes: std::mem::take(&mut self.meter.bytes),
            jobs_us: std::mem::take(&mut self.meter.jobs_us),
            asleep_us: std::mem::take(&mut self.meter.asleep_us),
        };
        self.gauge.note(sample, &mut sys::cpu::idle_us);
        if let Some(pool) = &mut self.pool {
            pool.allow(self.gauge.workers());
        }
    }

    /// Runs one batch that no worker has taken; returns false if there is none.
    pub(super) fn help(&mut self) -> bool {
        if self.pool.is_none() {
            return false;
        }
        let begun = self.meter.runs.then(Instant::now);
        let helped = self.seal.help() || self.open.help() || self.deflate.help();
        if let Some(begun) = begun.filter(|_| helped) {
            self.meter.jobs_us += micros(begun);
        }
        helped
    }

    /// [`Lanes::help`] for an owner that never sleeps: without workers, batches queued earlier
    /// would otherwise stay in the lane as long as the owner is busy.
    pub(super) fn help_alone(&mut self) -> bool {
        let alone = self.pool.as_ref().is_some_and(|pool| pool.allowed() == 0);
        alone && self.help()
    }

    /// Prepares for sleep; [`Sleep::may`] is false if a result is available.
    pub(super) fn sleeps(&mut self) -> Sleep {
        let may = self.pool.is_none()
            || (self.seal.owner_sleeps() & self.open.owner_sleeps() & self.deflate.owner_sleeps());
        Sleep {
            may,
            begun: self.meter.runs.then(Instant::now),
        }
    }

    /// To be called after the sleep.
    pub(super) fn wakes(&mut self, sleep: &Sleep) {
        if self.pool.is_none() {
            return;
        }
        self.seal.owner_wakes();
        self.open.owner_wakes();
        self.deflate.owner_wakes();
        if let Some(begun) = sleep.begun {
            let asleep_us = micros(begun);
            self.meter.asleep_us += asleep_us;
            if asleep_us >= LULL_US {
                self.update_worker_controller();
                self.meter.runs = false;
            }
        }
    }

    /// Puts a job into the lane as if workers were available, then sets their number to 0 before
    /// one takes it.
    #[cfg(test)]
    pub(super) fn strand(&mut self, job: SealJob, out: &mut VecDeque<SealedPacket>) {
        self.push_seal(job);
        assert!(self.seal.advance(true, out).unwrap());
        self.pool.as_mut().unwrap().allow(0);
    }

    /// Ends all workers; they start again when needed.
    pub(super) fn end_workers(&mut self) {
        if let Some(pool) = &mut self.pool {
            pool.rest();
        }
    }

    /// Clears the signal of a worker.
    pub(super) fn drain(&self) {
        if let Some(wake) = self.wake.get() {
            // The eventfd is ours and readable.
            let _ = wake.drain();
        }
    }
}

/// Result of [`Lanes::sleeps`].
pub(super) struct Sleep {
    /// The owner may sleep: no result is available.
    pub(super) may: bool,
    begun: Option<Instant>,
}
