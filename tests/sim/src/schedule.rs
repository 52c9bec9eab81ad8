//! Packet jobs in any order: several threads seal and open them out of order, the results are
//! returned in order, and the splitter reads further than dispatch. The order is random with a
//! seed, so that failures are repeatable.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::thread;

use packet::{OpenedPacket, PacketError, SealedPacket};
use proto::{Connection, Error, Event, Millis, TransportOutput};

/// Threads in addition to the caller's that take jobs of a batch.
const THREADS: usize = 3;
/// Number of jobs from which threads are started.
const BATCH: usize = 6;

/// xorshift64*: small, and the same everywhere.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The sequence of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `limit`; 0 if `limit` is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        let limit = u64::try_from(limit.max(1)).unwrap_or(u64::MAX);
        usize::try_from((self.next() >> 11) % limit).unwrap_or(0)
    }

    /// True with a probability of 1 in `of`.
    pub fn once_in(&mut self, of: usize) -> bool {
        self.below(of) == 0
    }

    fn shuffle<T>(&mut self, list: &mut [T]) {
        for index in (1..list.len()).rev() {
            let other = self.below(index + 1);
            list.swap(index, other);
        }
    }
}

/// The order of one side's jobs.
#[derive(Debug, Clone)]
pub enum Schedule {
    /// One after the other, in place.
    Serial,
    /// In random order and number.
    Random(Random),
}

impl Schedule {
    fn run<J: Send, R: Send>(&mut self, jobs: Vec<J>, run: fn(J) -> R) -> Vec<R> {
        let Self::Random(random) = self else {
            return jobs.into_iter().map(run).collect();
        };
        let count = jobs.len();
        let mut waiting: Vec<(usize, J)> = jobs.into_iter().enumerate().collect();
        random.shuffle(&mut waiting);
        let waiting = Mutex::new(waiting);
        let done = Mutex::new(Vec::with_capacity(count));
        let work = || {
            loop {
                let Some((index, job)) = waiting.lock().expect("no panic").pop() else {
                    return;
                };
                let result = run(job);
                done.lock().expect("no panic").push((index, result));
            }
        };
        if count < BATCH {
            work();
        } else {
            thread::scope(|scope| {
                for _ in 0..THREADS {
                    scope.spawn(work);
                }
                work();
            });
        }
        let mut done = done.into_inner().expect("no panic");
        done.sort_by_key(|(index, _)| *index);
        done.into_iter().map(|(_, result)| result).collect()
    }

    /// The number of `count` jobs that are done now.
    fn some_of(&mut self, count: usize) -> usize {
        match self {
            Self::Serial => count,
            Self::Random(random) => random.below(count + 1),
        }
    }

    fn batch(&mut self) -> usize {
        match self {
            Self::Serial => 1,
            Self::Random(random) => 1 + random.below(40),
        }
    }
}

/// One connection whose jobs are scheduled.
pub struct Worked {
    /// The connection.
    pub connection: Connection,
    /// Sealed bytes that are not delivered.
    pub wire: VecDeque<u8>,
    /// The largest number of jobs in progress at once.
    pub most_out: usize,
    schedule: Schedule,
    opened: VecDeque<Result<OpenedPacket, PacketError>>,
}

impl Worked {
    /// A connection with a schedule.
    #[must_use]
    pub fn new(connection: Connection, schedule: Schedule) -> Self {
        Self {
            connection,
            wire: VecDeque::new(),
            most_out: 0,
            schedule,
            opened: VecDeque::new(),
        }
    }

    /// Seals some of the output; true if there was any.
    pub fn transmit(&mut self) -> bool {
        let mut any = false;
        loop {
            let mut jobs = Vec::new();
            let mut raw = None;
            for _ in 0..self.schedule.batch() {
                match self.connection.poll_output() {
                    Some(TransportOutput::Seal(job)) => jobs.push(job),
                    Some(TransportOutput::Raw(bytes)) => {
                        raw = Some(bytes);
                        break;
                    }
                    None => break,
                }
            }
            if jobs.is_empty() && raw.is_none() {
                return any;
            }
            any = true;
            let sealed: Vec<SealedPacket> = self.schedule.run(jobs, |job| job.run());
            for packet in sealed {
                self.wire.extend(packet.wire());
                self.connection.recycle(packet.into_buf());
            }
            self.wire.extend(raw.unwrap_or_default());
        }
    }

    /// Receives bytes, and opens and returns as many packets as the schedule selects; with `all`,
    /// every packet.
    ///
    /// # Errors
    /// What the connection says.
    pub fn receive(&mut self, bytes: &[u8], all: bool, now: Millis) -> Result<(), Error> {
        self.connection.receive_buffer().extend_from_slice(bytes);
        self.connection.handle_received(now)?;
        loop {
            let mut jobs = Vec::new();
            for _ in 0..self.schedule.batch() {
                match self.connection.poll_open()? {
                    Some(job) => jobs.push(job),
                    None => break,
                }
            }
            let got = jobs.len();
            self.most_out = self.most_out.max(got + self.opened.len());
            self.opened.extend(self.schedule.run(jobs, |job| job.run()));
            if got == 0 && self.opened.is_empty() {
                return Ok(());
            }
            let mut count = self.schedule.some_of(self.opened.len());
            if got == 0 && count == 0 {
                if !all {
                    return Ok(());
                }
                count = self.opened.len();
            }
            for opened in self.opened.drain(..count) {
                self.connection.handle_opened(opened, now)?;
            }
        }
    }

    /// The next event.
    pub fn event(&mut self) -> Option<Event> {
        self.connection.poll_event()
    }
}
