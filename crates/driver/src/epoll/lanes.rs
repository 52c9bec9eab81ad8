//! The lanes of a connection: what is to be sealed and what is to be opened, in batches, in
//! place or on workers.
//!
//! In place is the rule. Workers come into play with bulk only: the machine's cores are counted
//! when the first [`LaneTerms::bulk_bytes`] have gone through, and from then on [`Gauge`] decides,
//! or the number that was asked for. Nothing overtakes: what is small and comes behind what
//! stands in a lane stands in it, too.

use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use packet::{OpenJob, OpenedPacket, PacketError, SealJob, SealedPacket};
use pipeline::{Gauge, Lane, Panicked, Pool, Sample, Tally, Work};
use proto::{CompressJob, Compressed, Connection, Output};
use sys::epoll::{Epoll, EventFd, Interest};

use super::{DriverError, Notice};

/// Bytes at which a batch is closed: what is read, sealed and written in one go stays in a
/// core's own cache.
const BATCH_BYTES: usize = 256 * 1024;
/// The same where packets gain by being done together: 16 of the usual 32 KiB. HMAC-SHA2-256
/// with two copies: 8 together 2.3 GB/s, 16 2.8, 24 2.6, 32 2.8.
const MANY_BATCH_BYTES: usize = 512 * 1024;
/// The most workers that are ever tried: the owner, who reads and writes, is the limit then.
const MOST_WORKERS: usize = 6;
/// Received bytes that may be in the lane: they pin the slabs that the socket is read into, of
/// which there is a limited number (`packet`).
const MAX_OPEN_BYTES: usize = 2 << 20;
/// The owner is done with bulk when it has slept so long, µs.
const LULL_US: u64 = 50_000;

/// Payloads in a run that a worker compresses: of fewer, indexing the history anew for each run
/// costs too much, and with more there are not enough runs for all in what may be queued.
const RUN_PAYLOADS: usize = 4;
/// Bytes from which on a run is worth giving away; less is compressed in place.
const RUN_BYTES: usize = 64 * 1024;
/// As [`RUN_PAYLOADS`] and [`RUN_BYTES`] for an accelerator, which has no history to index; what
/// is shorter takes longer to hand over than to compress.
const ACCELERATED_PAYLOADS: usize = 8;
const ACCELERATED_BYTES: usize = 4096;
/// The most threads that compress with `CompressionThreads auto`.
const MOST_DEFLATE_THREADS: usize = 4;

/// How many threads may work on a connection's packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CryptoThreads {
    /// As many as are worth it, which is found out while running.
    Auto,
    /// So many in all with the connection's own, as far as there are cores; 1 is never a worker.
    AtMost(usize),
}

/// On which terms a connection's packets are given to workers.
#[derive(Debug, Clone, Copy)]
pub struct LaneTerms {
    /// How many threads seal and open.
    pub threads: CryptoThreads,
    /// How many compress, where anything is compressed.
    pub compress_threads: CryptoThreads,
    /// Cores to reckon with; `None` asks the system when there is bulk.
    pub cores: Option<usize>,
    /// Bytes that must have gone through before workers are thought of.
    pub bulk_bytes: u64,
    /// Bytes from which on a batch is worth giving away.
    pub share_bytes: usize,
}

impl CryptoThreads {
    /// The option of that name: `None` is `auto`.
    #[must_use]
    pub fn from_option(threads: Option<usize>) -> Self {
        threads.map_or(Self::Auto, Self::AtMost)
    }
}

impl LaneTerms {
    /// The usual ones, for sealing, opening and compressing alike.
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

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LaneReport {
    /// The most workers that there were at once.
    pub workers: usize,
    /// Who sealed the batches that were sent.
    pub sealed: Tally,
    /// Who opened those that were received.
    pub opened: Tally,
    /// Who compressed the runs that were given away or could have been.
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
            "at most {} at once; {sealed} of {all_sealed} batches sealed and {opened} of {all_opened} \
             opened by others than the connection's own",
            self.workers + 1
        )
    }
}

struct Seal;

impl Work for Seal {
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

impl Work for Deflate {
    type Job = CompressJob;
    type Done = Compressed;

    fn run(jobs: &mut Vec<CompressJob>, done: &mut Vec<Compressed>) {
        done.extend(jobs.drain(..).map(CompressJob::run));
    }

    fn is_failure(done: &Compressed) -> bool {
        done.is_failure()
    }
}

type Opened = Result<OpenedPacket, PacketError>;

struct Open;

impl Work for Open {
    type Job = OpenJob;
    type Done = Opened;

    fn run(jobs: &mut Vec<OpenJob>, done: &mut Vec<Opened>) {
        packet::open_batch(jobs, done);
    }

    fn is_failure(done: &Opened) -> bool {
        done.is_err()
    }
}

/// What the gauge is told next.
#[derive(Default)]
struct Meter {
    bytes: u64,
    jobs_us: u64,
    asleep_us: u64,
    /// Bulk has been going through: clocks are read.
    runs: bool,
}

pub(super) struct Lanes {
    seal: Lane<Seal>,
    open: Lane<Open>,
    deflate: Lane<Deflate>,
    /// Something is compressed.
    deflates: bool,
    /// By an accelerator, when that was last asked.
    accelerated: bool,
    accelerator_end: Option<Notice>,
    compressed: VecDeque<Compressed>,
    /// What was opened and the connection has not taken yet.
    opened: VecDeque<Opened>,
    terms: LaneTerms,
    gauge: Gauge,
    pool: Option<Pool>,
    /// There is none before the first worker.
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

/// What is sent is not compressed for the time being.
fn stores(connection: &Connection) -> bool {
    connection.compress_level() == Some(0)
}

fn micros(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX)
}

/// Threads inherit the mask: signals are the owner's.
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
                    // Writing to an eventfd of ours fails only when it is full, and so readable.
                    let _ = wake.signal();
                }
            }
        };
        Self {
            seal: Lane::new(BATCH_BYTES, waker()),
            open: Lane::new(BATCH_BYTES, waker()),
            // A run is a batch.
            deflate: Lane::new(1, waker()),
            deflates: false,
            accelerated: false,
            accelerator_end: None,
            compressed: VecDeque::new(),
            opened: VecDeque::new(),
            terms: LaneTerms::new(CryptoThreads::AtMost(1)),
            gauge: Gauge::auto(0),
            pool: None,
            wake,
            total_bytes: 0,
            meter: Meter::default(),
        }
    }

    /// To be called before the first byte.
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

    /// Whether another job may be pushed before the next [`Lanes::seal`].
    pub(super) fn takes_seal(&self) -> bool {
        self.seal.has_room()
    }

    pub(super) fn push_seal(&mut self, job: SealJob) {
        let bytes = job.packet_bytes();
        self.seal.set_batch_bytes(batch_bytes(job.gains_by_many()));
        self.seal.push(job, bytes);
    }

    /// Bytes that wait to be sealed, or are being.
    pub(super) fn unsealed_bytes(&self) -> usize {
        self.seal.bytes()
    }

    /// How many bytes may be on their way through the lane, or wait behind it for the socket.
    pub(super) fn seal_limit_bytes(&self) -> usize {
        self.limit_bytes(self.seal.batch_bytes())
    }

    /// A batch in place, and two for each worker, one in hand and one to go on with.
    fn limit_bytes(&self, batch_bytes: usize) -> usize {
        batch_bytes * (1 + 2 * self.gauge.workers())
    }

    /// Lets what was pushed go on; what is sealed is appended to `out`.
    pub(super) fn seal(&mut self, out: &mut VecDeque<SealedPacket>) -> Result<(), DriverError> {
        let bytes = self.seal.gathered_bytes();
        let share = self.shares(bytes);
        let begun = self.begin(bytes);
        let handed = self.seal.advance(share, out)?;
        self.end(bytes, begun, handed);
        Ok(())
    }

    // ---- compressing ----------------------------------------------------------------------

    /// Fetches runs that are compressed, and gives workers those that wait.
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
                // Nothing to help with.
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

    /// An accelerator works for the connection. Takes note of one that has just failed.
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

    /// Why the accelerator is not used any more; said once.
    pub(super) fn take_notice(&mut self) -> Option<Notice> {
        self.accelerator_end.take()
    }

    /// Gives the accelerator what nobody else is there for: what is left to
    /// [`Lanes::poll_output`] is compressed by our own engine.
    fn accelerate_in_place(&mut self, connection: &mut Connection) -> Result<(), DriverError> {
        while self.deflate.is_empty()
            && let Some(job) = connection.poll_compress(ACCELERATED_PAYLOADS, ACCELERATED_BYTES)
        {
            let begun = Instant::now();
            let bytes = job.bytes();
            connection.handle_compressed(job.run())?;
            self.count_deflated(bytes, Some(begun));
        }
        // One that has failed just now is told of with what it failed at.
        self.is_accelerated(connection);
        Ok(())
    }

    fn shares_deflate(&self) -> bool {
        self.gauge.workers() > 0
            && self.terms.compress_threads != CryptoThreads::AtMost(1)
            && self.deflate.standing() < self.deflate_limit()
            && self.pool.as_ref().is_some_and(|pool| pool.allowed() > 0)
    }

    /// Runs under way: one in each hand, and as many to go on with.
    fn deflate_limit(&self) -> usize {
        2 * (1 + self.gauge.workers())
    }

    /// The next packet; what is compressed for it here and now counts as a job.
    pub(super) fn poll_output(&mut self, connection: &mut Connection) -> Option<Output> {
        if !self.deflates {
            return connection.poll_output();
        }
        let begun = Instant::now();
        let output = connection.poll_output();
        if let Some(Output::Seal(job)) = &output {
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

    /// Runs are being compressed: output waits for them.
    pub(super) fn is_deflating(&self) -> bool {
        !self.deflate.is_empty()
    }

    /// Waits for the oldest batch of what is to be sent, helping where it can.
    pub(super) fn wait_sealed(&mut self) {
        while !self.deflate.is_empty() && self.deflate.standing() > 0 && !self.deflate.has_result()
        {
            if !self.deflate.help() {
                // Somebody is at it: a run at most.
                std::thread::yield_now();
            }
        }
        while !self.seal.is_empty() && self.seal.standing() > 0 && !self.seal.has_result() {
            if !self.seal.help() {
                // Somebody is at it: a batch at most.
                std::thread::yield_now();
            }
        }
    }

    // ---- receiving ------------------------------------------------------------------------

    /// Whether another job may be pushed before the next [`Lanes::open`].
    pub(super) fn takes_open(&self) -> bool {
        let limit = self.limit_bytes(self.open.batch_bytes());
        self.open.has_room() && self.open.bytes() < limit.min(MAX_OPEN_BYTES)
    }

    /// Whether it is better to wait for what can be read at once than to open what there is: it
    /// is less than makes the most of doing it together.
    pub(super) fn awaits_more(&self) -> bool {
        self.open.batch_bytes() > BATCH_BYTES && self.open.has_room()
    }

    /// Something was pushed and did not go on.
    pub(super) fn holds(&self) -> bool {
        self.open.gathered_bytes() > 0 && self.open.standing() == 0
    }

    pub(super) fn push_open(&mut self, job: OpenJob) {
        let bytes = job.wire_bytes();
        self.open.set_batch_bytes(batch_bytes(job.gains_by_many()));
        self.open.push(job, bytes);
    }

    /// Lets what was pushed go on.
    pub(super) fn open(&mut self) -> Result<(), DriverError> {
        let bytes = self.open.gathered_bytes();
        let share = self.shares(bytes);
        let begun = self.begin(bytes);
        let handed = self.open.advance(share, &mut self.opened)?;
        self.end(bytes, begun, handed);
        Ok(())
    }

    pub(super) fn next_opened(&mut self) -> Option<Opened> {
        self.opened.pop_front()
    }

    /// Nothing that was received is on its way through the lane. What the connection does not
    /// take yet does not count.
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

    /// The clock is read for batches that count.
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

    /// Once a turn: starts to think of workers when there is bulk, and tells the gauge.
    pub(super) fn weigh(&mut self, epoll: &Epoll, token: u64) -> io::Result<()> {
        if self.pool.is_none()
            && self.total_bytes >= self.terms.bulk_bytes
            && self.wanted_threads() != CryptoThreads::AtMost(1)
        {
            self.begin_bulk(epoll, token)?;
        }
        if self.meter.runs && self.meter.bytes > 0 {
            self.tell_gauge();
        }
        Ok(())
    }

    /// Compressing is what takes the time where there is any.
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
            CryptoThreads::Auto if self.deflates => Gauge::auto(most.min(MOST_DEFLATE_THREADS - 1)),
            CryptoThreads::Auto => Gauge::auto(most),
            CryptoThreads::AtMost(threads) => Gauge::fixed(threads.saturating_sub(1).min(most)),
        };
        if most == 0 {
            self.terms.threads = CryptoThreads::AtMost(1);
            self.terms.compress_threads = CryptoThreads::AtMost(1);
            return Ok(());
        }
        if self.wake.get().is_none() {
            let wake = EventFd::new()?;
            epoll.add(&wake, token, Interest::READABLE)?;
            // Nobody else sets it.
            let _ = self.wake.set(wake);
        }
        let tasks = vec![self.deflate.tasks(), self.seal.tasks(), self.open.tasks()];
        let mut pool = Pool::new(most, tasks, without_signals);
        pool.allow(self.gauge.workers());
        self.pool = Some(pool);
        Ok(())
    }

    fn tell_gauge(&mut self) {
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

    /// Runs a batch that nobody has taken; false when there is none.
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

    /// [`Lanes::help`] for an owner that is too busy to sleep: what stands in a lane when there are
    /// no workers any more would stand there as long as that lasts.
    pub(super) fn help_alone(&mut self) -> bool {
        let alone = self.pool.as_ref().is_some_and(|pool| pool.allowed() == 0);
        alone && self.help()
    }

    /// The owner is about to sleep; false when it must not, as there is a result.
    pub(super) fn sleeps(&mut self) -> Sleep {
        let may = self.pool.is_none()
            || (self.seal.owner_sleeps() & self.open.owner_sleeps() & self.deflate.owner_sleeps());
        Sleep {
            may,
            begun: self.meter.runs.then(Instant::now),
        }
    }

    /// The owner is awake.
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
                self.tell_gauge();
                self.meter.runs = false;
            }
        }
    }

    /// Stands a job in the lane as if workers were there for it, and sends them away before any has
    /// come.
    #[cfg(test)]
    pub(super) fn strand(&mut self, job: SealJob, out: &mut VecDeque<SealedPacket>) {
        self.push_seal(job);
        assert!(self.seal.advance(true, out).unwrap());
        self.pool.as_mut().unwrap().allow(0);
    }

    /// A worker has signalled.
    pub(super) fn drain(&self) {
        if let Some(wake) = self.wake.get() {
            // Readable, and ours.
            let _ = wake.drain();
        }
    }
}

/// What [`Lanes::sleeps`] says.
pub(super) struct Sleep {
    /// There is nothing to be done.
    pub(super) may: bool,
    begun: Option<Instant>,
}
