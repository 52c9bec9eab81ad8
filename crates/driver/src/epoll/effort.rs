//! How hard compression tries: as hard as was asked for while something else is what everything
//! waits for, and less where the socket runs dry behind it.
//!
//! The time of a window is shared out among three: the socket takes no more (or, which is the same
//! to us, the peer's windows are shut), there is nothing to send, and the rest, in which this side
//! is at work. A side that is always at work is what the bytes wait for: the next lower level is
//! tried, and kept if more bytes got through with it. A side that has time left goes back up, by
//! a step that it has the time for. What did not stand the trial is tried again later each time.
//!
//! Pure: time and counts are parameters.

/// The levels below the one asked for; 0 stores.
const LEVELS: [u8; 4] = [6, 3, 1, 0];
/// A window is at least so long, µs, and holds so many bytes before compression: a run of files
/// that are compressed already must not decide alone.
const WINDOW_US: u64 = 20_000;
const WINDOW_BYTES: u64 = 1 << 20;
/// Share of its time, of 100, that this side is at work if it is what the bytes wait for.
const BOUND: u64 = 85;
/// The most of it that may leave the time for the next higher level, which takes up to half as
/// much again.
const SPARE: u64 = 60;
/// The same where nothing was compressed: that takes a tenth of the time of anything else.
const SPARE_STORING: u64 = 20;
/// A lower level is kept if so many bytes got through, of 100 before it.
const GAIN: u64 = 105;
/// Windows until a step that did not stand its trial is tried again: at first, and at most.
const FIRST_WAIT: u32 = 2;
const LAST_WAIT: u32 = 64;

/// What this side does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doing {
    /// Compresses, seals or writes, or waits for those who do.
    Work,
    /// Nothing that the socket would take, or nothing to send.
    Wait,
}

/// Windows until a step may be tried, and how many it was the last time.
#[derive(Debug, Clone, Copy)]
struct Bar {
    left: u32,
    next: u32,
}

impl Bar {
    const OPEN: Self = Self {
        left: 0,
        next: FIRST_WAIT,
    };

    fn shut(&mut self) {
        self.left = self.next;
        self.next = (self.next * 2).min(LAST_WAIT);
    }

    fn pass(&mut self) -> bool {
        let open = self.left == 0;
        self.left = self.left.saturating_sub(1);
        open
    }
}

/// The step that the window at hand follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trial {
    None,
    /// One step down; bytes a second before it.
    Down(u64),
    Up,
}

/// See the module's head.
#[derive(Debug)]
pub(super) struct Effort {
    /// The level asked for, and those below it.
    ladder: Vec<u8>,
    step: usize,
    doing: Doing,
    since_us: u64,
    work_us: u64,
    begun_us: u64,
    begun_bytes: u64,
    trial: Trial,
    down: Bar,
    up: Bar,
}

impl Effort {
    /// Begins with the level asked for, after `bytes` before compression.
    pub(super) fn new(asked: u8, now_us: u64, bytes: u64) -> Self {
        let below = LEVELS.into_iter().filter(|level| *level < asked);
        Self {
            ladder: std::iter::once(asked).chain(below).collect(),
            step: 0,
            doing: Doing::Wait,
            since_us: now_us,
            work_us: 0,
            begun_us: now_us,
            begun_bytes: bytes,
            trial: Trial::None,
            down: Bar::OPEN,
            up: Bar::OPEN,
        }
    }

    /// The level for what comes next.
    pub(super) fn level(&self) -> u8 {
        self.ladder.get(self.step).copied().unwrap_or_default()
    }

    /// From now on this is done.
    pub(super) fn does(&mut self, doing: Doing, now_us: u64) {
        if self.doing == Doing::Work {
            self.work_us += now_us.saturating_sub(self.since_us);
        }
        (self.doing, self.since_us) = (doing, now_us);
    }

    /// Takes note that `bytes` have gone through in all, counted before compression; true when
    /// the level changes.
    pub(super) fn weigh(&mut self, now_us: u64, bytes: u64) -> bool {
        let wall_us = now_us.saturating_sub(self.begun_us);
        let through = bytes.saturating_sub(self.begun_bytes);
        if wall_us < WINDOW_US || through < WINDOW_BYTES {
            return false;
        }
        self.does(self.doing, now_us);
        let work = self.work_us.saturating_mul(100) / wall_us;
        let rate = through.saturating_mul(1_000_000) / wall_us;
        (self.begun_us, self.begun_bytes, self.work_us) = (now_us, bytes, 0);
        let before = self.step;
        let trial = std::mem::replace(&mut self.trial, Trial::None);
        self.judge(trial, work, rate);
        self.step != before
    }

    /// `work` is the share of its time, of 100, that this side was at work, and `rate` the bytes a
    /// second, in the window that followed the step `trial`.
    fn judge(&mut self, trial: Trial, work: u64, rate: u64) {
        match trial {
            Trial::Down(before) if rate.saturating_mul(100) < before.saturating_mul(GAIN) => {
                self.step = self.step.saturating_sub(1);
                self.down.shut();
                return;
            }
            Trial::Down(_) => self.down = Bar::OPEN,
            Trial::Up if work < BOUND => self.up = Bar::OPEN,
            Trial::Up => {
                // Too much: what is lower was better, most likely, which is tried at once.
                self.up.shut();
                self.down = Bar::OPEN;
            }
            Trial::None => {}
        }
        let spare = if self.level() == 0 {
            SPARE_STORING
        } else {
            SPARE
        };
        if work >= BOUND && self.step + 1 < self.ladder.len() {
            if self.down.pass() {
                self.step += 1;
                self.trial = Trial::Down(rate);
            }
        } else if work < spare && self.step > 0 && self.up.pass() {
            self.step -= 1;
            self.trial = Trial::Up;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What each level does with bytes a second, and by how much it divides them.
    fn speed(level: u8) -> (f64, f64) {
        match level {
            0 => (1200e6, 1.0),
            1 => (150e6, 2.2),
            2..=3 => (110e6, 2.26),
            4..=6 => (75e6, 2.33),
            _ => (20e6, 2.36),
        }
    }

    /// A sender whose packets go through a line, window by window.
    struct Sender {
        effort: Effort,
        now_us: f64,
        bytes: f64,
        seed: u64,
        /// How much faster or slower a window may be.
        noise: f64,
        /// The level behind each window.
        levels: Vec<u8>,
    }

    impl Sender {
        fn new(asked: u8) -> Self {
            Self {
                effort: Effort::new(asked, 0, 0),
                now_us: 0.0,
                bytes: 0.0,
                seed: 7,
                noise: 0.0,
                levels: Vec::new(),
            }
        }

        #[allow(clippy::cast_precision_loss)] // 53 bits.
        fn chance(&mut self) -> f64 {
            self.seed ^= self.seed << 13;
            self.seed ^= self.seed >> 7;
            self.seed ^= self.seed << 17;
            (self.seed >> 11) as f64 / (1_u64 << 53) as f64
        }

        /// So many windows over a line of `line` bytes a second, from a source that has `source`,
        /// with `cores` that compress.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Counts.
        fn send(&mut self, windows: usize, line: f64, source: f64, cores: f64) {
            for _ in 0..windows {
                let level = self.effort.level();
                let (engine, ratio) = speed(level);
                let engine = if level == 0 { engine } else { engine * cores };
                let swing = 1.0 + self.noise * (2.0 * self.chance() - 1.0);
                let able = engine * swing;
                let rate = able.min(line * ratio).min(source);
                // Ten pieces a window, some of it waiting.
                let wall = 25_000_f64.max(1.2e6 * 1e6 / rate);
                for _ in 0..10 {
                    self.effort.does(Doing::Work, self.now_us as u64);
                    let work = wall / 10.0 * rate / able;
                    self.effort.does(Doing::Wait, (self.now_us + work) as u64);
                    self.now_us += wall / 10.0;
                }
                self.bytes += rate * wall / 1e6;
                self.effort.weigh(self.now_us as u64, self.bytes as u64);
                self.levels.push(self.effort.level());
            }
        }

        fn share(&self, from: usize, level: u8) -> usize {
            let behind = &self.levels[from..];
            100 * behind.iter().filter(|each| **each == level).count() / behind.len()
        }
    }

    const ENDLESS: f64 = 1e12;

    #[test]
    fn a_slow_line_gets_the_level_asked_for() {
        for asked in [1, 3, 6, 9] {
            for line in [30e3, 1e6, 5e6] {
                let mut sender = Sender::new(asked);
                sender.noise = 0.1;
                sender.send(200, line, ENDLESS, 1.0);
                assert_eq!(sender.share(0, asked), 100, "level {asked}, {line} bytes/s");
            }
        }
    }

    #[test]
    fn a_fast_line_is_not_kept_waiting() {
        let mut sender = Sender::new(6);
        sender.send(8, 2000e6, ENDLESS, 1.0);
        assert_eq!(sender.levels[..3], [3, 1, 0], "step by step, and soon");
        sender.noise = 0.2;
        sender.send(300, 2000e6, ENDLESS, 1.0);
        assert!(sender.share(3, 0) >= 95, "{}", sender.share(3, 0));
    }

    #[test]
    fn between_them_is_the_level_that_brings_most() {
        // 60 MB/s: stored 60, level 1 132, level 3 110 with time left for nothing.
        let mut sender = Sender::new(6);
        sender.send(400, 60e6, ENDLESS, 1.0);
        let (first, third) = (sender.share(20, 1), sender.share(20, 3));
        assert!(first + third >= 90, "{first} and {third}");
        assert!(sender.share(20, 0) <= 6, "{}", sender.share(20, 0));
        // Rates that swing make it try more often, not lose its way.
        sender.noise = 0.15;
        let from = sender.levels.len();
        sender.send(400, 60e6, ENDLESS, 1.0);
        let lost = sender.share(from, 0) + sender.share(from, 6);
        assert!(lost <= 20, "{lost}");
    }

    #[test]
    fn a_line_that_fills_brings_the_level_back() {
        let mut sender = Sender::new(9);
        sender.send(50, 2000e6, ENDLESS, 1.0);
        assert_eq!(sender.effort.level(), 0);
        sender.send(150, 3e6, ENDLESS, 1.0);
        assert_eq!(sender.effort.level(), 9);
    }

    #[test]
    fn a_source_that_is_slow_leaves_the_time_for_more() {
        let mut sender = Sender::new(6);
        sender.send(50, 2000e6, ENDLESS, 1.0);
        sender.send(150, 2000e6, 20e6, 1.0);
        assert_eq!(sender.effort.level(), 6);
    }

    #[test]
    fn more_cores_raise_it() {
        let mut sender = Sender::new(6);
        sender.send(100, 60e6, ENDLESS, 1.0);
        assert_ne!(sender.effort.level(), 6);
        sender.send(200, 60e6, ENDLESS, 8.0);
        assert_eq!(sender.effort.level(), 6);
    }

    #[test]
    fn little_traffic_decides_nothing() {
        let mut effort = Effort::new(6, 0, 0);
        let mut bytes = 0;
        for now_ms in 1..10_000 {
            effort.does(Doing::Work, now_ms * 1000);
            bytes += 50;
            assert!(!effort.weigh(now_ms * 1000 + 900, bytes));
        }
        assert_eq!(effort.level(), 6);
    }
}
