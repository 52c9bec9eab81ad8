//! The sender's controllers together: compression level, workers and send limits act on one
//! simulated connection, whose line, round trip and cores change in steps. None of the three knows
//! the others; each sees the effects of the others' decisions as changes of its own measurements.

use pipeline::{Sample, WorkerController};

use super::level_controller::{ByteTotals, LevelController};
use super::send_limits::SendLimits;

/// Length of a step of the simulation, µs.
const TICK_US: u64 = 25;
const LEVELS: [u8; 4] = [6, 3, 1, 0];
const MAX_WORKERS: usize = 3;

/// Speed of a level on one core, bytes before compression a second, and its ratio.
fn compression(level: u8) -> (f64, f64) {
    match level {
        0 => (6000e6, 1.0),
        1 => (150e6, 2.2),
        2..=3 => (110e6, 2.26),
        _ => (75e6, 2.33),
    }
}

/// Encryption on one core and writing by the connection's own thread, bytes a second.
const SEAL: f64 = 3000e6;
const WRITE: f64 = 4000e6;

/// What the controllers do not control.
#[derive(Clone, Copy)]
struct Surroundings {
    /// Bytes a second.
    line: f64,
    round_trip_us: f64,
    /// Cores that nobody else uses.
    cores: f64,
}

impl Surroundings {
    /// Raw bytes a second that the sender can produce, and the part of the owner's time that jobs
    /// take then.
    fn able(self, level: u8, workers: usize) -> (f64, f64) {
        let (speed, ratio) = compression(level);
        let jobs = 1.0 / speed + 1.0 / (ratio * SEAL);
        let own = 1.0 / (ratio * WRITE);
        let threads = f64::from(u32::try_from(1 + workers).unwrap()).min(self.cores);
        // All threads share jobs and writing; the owner alone writes.
        let time = ((jobs + own) / threads).max(own);
        (1.0 / time, (time - own).max(0.0) / time)
    }

    /// Raw bytes a second with this level and these workers.
    fn rate(self, level: u8, workers: usize) -> f64 {
        let (_, ratio) = compression(level);
        self.able(level, workers).0.min(self.line * ratio)
    }

    /// The most that any fixed choice reaches.
    fn best(self) -> f64 {
        let all = LEVELS
            .iter()
            .flat_map(|level| (0..=MAX_WORKERS).map(|w| (*level, w)));
        all.map(|(level, workers)| self.rate(level, workers))
            .fold(0.0, f64::max)
    }
}

/// What a phase of the simulation came to.
#[derive(Debug)]
struct Outcome {
    /// Raw bytes a second after the first six seconds.
    rate: f64,
    level_changes: usize,
    worker_changes: usize,
    limit_changes: usize,
    /// Longest time that bytes waited in the socket unsent after the first six seconds, milliseconds.
    longest_wait_ms: f64,
    level: u8,
    workers: usize,
}

struct Sender {
    level: LevelController,
    workers: WorkerController,
    limits: SendLimits,
    now_us: u64,
    raw: f64,
    compressed: f64,
    sent: f64,
    /// Bytes in the socket that the line has not carried yet.
    unsent: f64,
    /// Bytes on the line that are not acknowledged: sent at a time.
    under_way: std::collections::VecDeque<(u64, f64)>,
    is_blocked: bool,
    /// The limit of unsent bytes that is set on the socket.
    set_unsent: f64,
    idle_us: f64,
    unsampled_raw: f64,
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss
)]
impl Sender {
    fn new() -> Self {
        Self {
            level: LevelController::new(6, 0, ByteTotals::default()),
            workers: WorkerController::auto(MAX_WORKERS),
            limits: SendLimits::new(),
            now_us: 1,
            raw: 0.0,
            compressed: 0.0,
            sent: 0.0,
            unsent: 0.0,
            under_way: std::collections::VecDeque::new(),
            is_blocked: false,
            set_unsent: f64::from(SendLimits::new().unsent_bytes()),
            idle_us: 0.0,
            unsampled_raw: 0.0,
        }
    }

    fn totals(&self) -> ByteTotals {
        ByteTotals {
            raw: self.raw as u64,
            compressed: self.compressed as u64,
            sent: self.sent as u64,
        }
    }

    /// Sends for `seconds`; the first six are for the controllers to adapt.
    fn run(&mut self, around: Surroundings, seconds: u64) -> Outcome {
        self.limits.set_round_trip(around.round_trip_us as u32);
        let settled_at = self.now_us + 6_000_000;
        let end = self.now_us + seconds * 1_000_000;
        let mut outcome = Outcome {
            rate: 0.0,
            level_changes: 0,
            worker_changes: 0,
            limit_changes: 0,
            longest_wait_ms: 0.0,
            level: 0,
            workers: 0,
        };
        let mut settled_raw = None;
        while self.now_us < end {
            let before = (self.level.level(), self.workers.workers());
            let limits_changed = self.tick(around);
            if self.now_us < settled_at {
                continue;
            }
            settled_raw.get_or_insert(self.raw);
            outcome.level_changes += usize::from(self.level.level() != before.0);
            outcome.worker_changes += usize::from(self.workers.workers() != before.1);
            outcome.limit_changes += usize::from(limits_changed);
            let wait_ms = self.unsent / around.line * 1000.0;
            outcome.longest_wait_ms = outcome.longest_wait_ms.max(wait_ms);
        }
        let measured = (end - settled_at) as f64 / 1e6;
        outcome.rate = (self.raw - settled_raw.unwrap_or(self.raw)) / measured;
        (outcome.level, outcome.workers) = (self.level.level(), self.workers.workers());
        outcome
    }

    /// One step of time; true if the limits changed noticeably.
    fn tick(&mut self, around: Surroundings) -> bool {
        let tick = TICK_US as f64 / 1e6;
        let mut limits_changed = false;
        // The line carries, and the peer acknowledges a round trip later.
        let carried = self.unsent.min(around.line * tick);
        self.unsent -= carried;
        let arrives = self.now_us + around.round_trip_us as u64;
        self.under_way.push_back((arrives, carried));
        while self
            .under_way
            .front()
            .is_some_and(|(at, _)| *at <= self.now_us)
        {
            self.under_way.pop_front();
        }
        let limit = self.set_unsent;
        if self.is_blocked && self.unsent <= limit / 2.0 {
            self.is_blocked = false;
            self.limits.takes_more(self.now_us / 1000);
        }
        let mut worked = 0.0;
        let (able, jobs) = around.able(self.level.level(), self.workers.workers());
        let threads = self.threads(around);
        if !self.is_blocked {
            self.level.resume(self.now_us, self.totals());
            let (_, ratio) = compression(self.level.level());
            let space = (limit - self.unsent).max(0.0);
            let raw = (able * tick).min(space * ratio);
            worked = raw / able / tick;
            let busy_until = self.now_us + (worked * TICK_US as f64) as u64;
            self.add(raw, ratio);
            let unacknowledged = self.unsent + self.under_way.iter().map(|(_, n)| n).sum::<f64>();
            self.level
                .runs_dry(busy_until, self.totals(), || Some(unacknowledged as u64));
            if self.unsent >= limit - 1.0 {
                self.is_blocked = true;
                self.level.is_full(busy_until);
                limits_changed = self
                    .limits
                    .is_full(self.sent as u64, self.now_us / 1000, || {
                        Some(self.unsent as u64)
                    });
                if limits_changed {
                    self.set_unsent = f64::from(self.limits.unsent_bytes());
                }
            }
        }
        self.now_us += TICK_US;
        self.idle_us += (around.cores - worked * threads).max(0.0) * TICK_US as f64;
        let sample = Sample {
            now_us: self.now_us,
            bytes: self.unsampled_raw as u64,
            jobs_us: (worked * jobs * TICK_US as f64) as u64,
            asleep_us: ((1.0 - worked) * TICK_US as f64) as u64,
        };
        self.unsampled_raw = 0.0;
        let idle_us = self.idle_us as u64;
        self.workers.note(sample, &mut || Some(idle_us));
        limits_changed
    }

    fn threads(&self, around: Surroundings) -> f64 {
        (1.0 + self.workers.workers() as f64).min(around.cores)
    }

    fn add(&mut self, raw: f64, ratio: f64) {
        self.raw += raw;
        self.compressed += raw / ratio;
        self.sent += raw / ratio;
        self.unsent += raw / ratio;
        self.unsampled_raw += raw;
    }
}

/// Line, round trip and cores of each phase of 20 s, and the part of the best fixed choice that the
/// controllers must reach together.
const PHASES: [(f64, f64, f64, f64); 8] = [
    (5e6, 20_000.0, 4.0, 0.95),
    (2000e6, 100.0, 4.0, 0.95),
    (2000e6, 100.0, 1.0, 0.95),
    (50e6, 100.0, 4.0, 0.9),
    (50e6, 50_000.0, 1.0, 0.95),
    // Four cores that compress would be twice as fast as storing. A lower level is tried for less
    // time than a worker, and workers are not tried while the line is full of stored bytes.
    (300e6, 50_000.0, 4.0, 0.5),
    (1e6, 200_000.0, 4.0, 0.95),
    (1200e6, 100.0, 2.0, 0.95),
];

#[test]
fn together_they_settle_after_each_step_of_line_path_and_cores() {
    let mut sender = Sender::new();
    for (line, round_trip_us, cores, part) in PHASES {
        let around = Surroundings {
            line,
            round_trip_us,
            cores,
        };
        let outcome = sender.run(around, 20);
        let what = format!("{line} {round_trip_us} {cores}: {outcome:?}");
        assert!(outcome.rate >= part * around.best(), "{what}");
        // A trial is four changes at most, and each that fails delays the next twice as long.
        assert!(outcome.worker_changes <= 12, "{what}");
        assert!(outcome.level_changes <= 8, "{what}");
        assert!(outcome.limit_changes <= 2, "{what}");
        assert!(outcome.longest_wait_ms <= 30.0, "{what}");
    }
}
