//! [`Gauge`]: how many workers are worth it, decided while running.
//!
//! A worker pays only where the owner is what everything waits for, a good part of its time goes
//! into jobs, and a core has nothing better to do. None of this can be known beforehand: the
//! cores may be the peer's, too, or a neighbour's. So the gauge first looks (does the owner sleep,
//! what do the jobs take, how much were the cores idle), then tries: some milliseconds with a
//! worker, some without, and again. Only what brought more bytes twice is kept, and it is
//! compared again as long as it lasts. A trial that was lost is not repeated soon, and each loss
//! makes the next one later, so that all trials together cost less than can be measured.
//!
//! Pure: time and measurements are parameters.

/// A window of looking, or of keeping what was decided, µs.
const LOOK_US: u64 = 25_000;
/// A window in which the idle time of the cores is read: the kernel counts it in steps of 10 ms.
const IDLE_US: u64 = 100_000;
/// A window of a trial, µs: far more than the socket's buffers hold at rates where the owner is
/// the bottleneck.
const TRIAL_US: u64 = 30_000;
/// Not counted behind a change: what is under way was begun before it, µs.
const SETTLE_US: u64 = 5_000;
/// Share of its time that an owner who is the bottleneck sleeps, at most.
const BOUND_SLEEP: f64 = 0.15;
/// Share of its time above which an owner that has workers could do without.
const IDLE_SLEEP: f64 = 0.5;
/// Share of the owner's time that jobs must take: all that workers could ever save.
const WORTH_JOBS: f64 = 0.12;
/// Cores that must have been idle for another worker to be tried.
const IDLE_CORES: f64 = 0.6;
/// What a trial must bring, and what must be left of it when it is looked at again.
const GAIN: f64 = 1.05;
const KEPT_GAIN: f64 = 1.03;
/// A rate that falls below this part of itself is a reason to look again at once.
const FALL: f64 = 0.85;
/// Until the next trial behind a lost one, µs; doubles with each.
const FIRST_WAIT_US: u64 = 500_000;
const LAST_WAIT_US: u64 = 16_000_000;
/// Until the first trial where nothing tells whether cores are idle, as behind a chroot, µs: on
/// cores that are busy each is lost, which must not be felt in a short transfer.
const BLIND_WAIT_US: u64 = 2_000_000;
/// Until what is kept is compared again, µs; doubles each time.
const FIRST_CHECK_US: u64 = 1_000_000;
const LAST_CHECK_US: u64 = 16_000_000;

/// What the owner did since the last sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sample {
    /// The time now, µs.
    pub now_us: u64,
    /// Bytes whose jobs are done.
    pub bytes: u64,
    /// The owner's time in jobs, µs.
    pub jobs_us: u64,
    /// The owner's time asleep, µs.
    pub asleep_us: u64,
}

/// Samples added up.
#[derive(Debug, Clone, Copy, Default)]
struct Window {
    begun_us: u64,
    bytes: u64,
    jobs_us: u64,
    asleep_us: u64,
}

/// A window that is over, by its length.
struct Measured {
    wall_us: f64,
    rate: f64,
    jobs: f64,
    asleep: f64,
}

#[derive(Debug, Clone, Copy)]
enum State {
    /// Nothing speaks for more workers, or it is not yet time to try again.
    Keep,
    /// The owner is the bottleneck: how idle are the cores? What they had been idle then, µs.
    LookAtCores { idle_us: Option<u64> },
    /// One worker more, for the first or the second time; the rates without.
    With { without: f64, again: bool },
    /// One worker less again, between the two.
    Without { with: f64 },
    /// No worker at all for once; the rate with all.
    Check { with: f64 },
}

/// See the module's head.
#[derive(Debug)]
pub struct Gauge {
    most: usize,
    fixed: bool,
    /// Workers that have shown that they are worth it.
    kept: usize,
    /// Workers now: in a trial, more or fewer than are kept.
    now: usize,
    state: State,
    window: Window,
    /// Nothing is tried before, µs.
    not_before_us: u64,
    wait_us: u64,
    /// The idle time of the cores cannot be read.
    blind: bool,
    check_at_us: u64,
    check_us: u64,
    /// The rate of the last window with what is kept.
    rate: f64,
}

impl Gauge {
    /// At most `most` workers, as many as are worth it.
    #[must_use]
    pub fn auto(most: usize) -> Self {
        Self {
            most,
            fixed: false,
            kept: 0,
            now: 0,
            state: State::Keep,
            window: Window::default(),
            not_before_us: 0,
            wait_us: FIRST_WAIT_US,
            blind: false,
            check_at_us: 0,
            check_us: FIRST_CHECK_US,
            rate: 0.0,
        }
    }

    /// Always this many.
    #[must_use]
    pub fn fixed(workers: usize) -> Self {
        Self {
            fixed: true,
            kept: workers,
            now: workers,
            ..Self::auto(workers)
        }
    }

    /// Workers that may be used now.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.now
    }

    /// Whether samples change anything: if not, they need not be taken.
    #[must_use]
    pub fn wants_samples(&self) -> bool {
        !self.fixed && self.most > 0
    }

    /// Takes a sample, while there is bulk. `idle_us` gives, each time it is called, how long the
    /// cores that we may run on have been idle since some fixed time, all together, in µs; `None`
    /// where that cannot be known.
    pub fn note(&mut self, sample: Sample, idle_us: &mut dyn FnMut() -> Option<u64>) {
        if !self.wants_samples() {
            return;
        }
        let length_us = self.length_us();
        let window = &mut self.window;
        // The first sample of a window only says when it began.
        if window.begun_us == 0 || sample.now_us < window.begun_us {
            if window.begun_us == 0 {
                window.begun_us = sample.now_us.max(1);
            }
            return;
        }
        window.bytes += sample.bytes;
        window.jobs_us += sample.jobs_us;
        window.asleep_us += sample.asleep_us;
        let wall_us = sample.now_us - window.begun_us;
        if wall_us < length_us {
            return;
        }
        let wall = precise(wall_us);
        let measured = Measured {
            wall_us: wall,
            rate: precise(window.bytes) / wall,
            jobs: precise(window.jobs_us) / wall,
            asleep: precise(window.asleep_us) / wall,
        };
        let before = self.now;
        self.step(&measured, sample.now_us, idle_us);
        let settle = if self.now == before { 0 } else { SETTLE_US };
        self.window = Window {
            begun_us: sample.now_us + settle,
            ..Window::default()
        };
    }

    fn length_us(&self) -> u64 {
        match self.state {
            State::Keep => LOOK_US,
            State::LookAtCores { .. } => IDLE_US,
            State::With { .. } | State::Without { .. } | State::Check { .. } => TRIAL_US,
        }
    }

    fn step(&mut self, window: &Measured, now_us: u64, idle_us: &mut dyn FnMut() -> Option<u64>) {
        if window.asleep > IDLE_SLEEP {
            // No bulk, or something else is the bottleneck: nothing is learnt by this.
            return self.rest(now_us);
        }
        match self.state {
            State::Keep => self.look(window, now_us, idle_us),
            State::LookAtCores { idle_us: before } => {
                let idle = match (before, idle_us()) {
                    (Some(before), Some(after)) => {
                        precise(after.saturating_sub(before)) / window.wall_us
                    }
                    // Not to be known here: then only the trial tells.
                    _ => IDLE_CORES,
                };
                if self.is_worth_a_trial(window) && idle >= IDLE_CORES {
                    self.now = self.kept + 1;
                    self.state = State::With {
                        without: window.rate,
                        again: false,
                    };
                } else {
                    self.lost(now_us);
                }
            }
            State::With { without, again } => {
                if window.rate < without * GAIN {
                    self.lost(now_us);
                } else if again {
                    self.won(window.rate, now_us);
                } else {
                    self.now = self.kept;
                    self.state = State::Without { with: window.rate };
                }
            }
            State::Without { with } => {
                if with < window.rate * GAIN {
                    self.lost(now_us);
                } else {
                    self.now = self.kept + 1;
                    self.state = State::With {
                        without: window.rate,
                        again: true,
                    };
                }
            }
            State::Check { with } => {
                if with < window.rate * KEPT_GAIN {
                    self.kept = 0;
                    self.lost(now_us);
                } else {
                    self.check_us = (self.check_us * 2).min(LAST_CHECK_US);
                    self.check_at_us = now_us + self.check_us;
                    self.rate = with;
                    self.keep();
                }
            }
        }
    }

    /// A window with what is kept: is it time to compare, or is there reason to try more?
    fn look(&mut self, window: &Measured, now_us: u64, idle_us: &mut dyn FnMut() -> Option<u64>) {
        let fell = window.rate < self.rate * FALL;
        self.rate = window.rate;
        if self.kept > 0 && (now_us >= self.check_at_us || fell) {
            self.now = 0;
            self.state = State::Check { with: window.rate };
        } else if self.kept < self.most
            && now_us >= self.not_before_us
            && self.is_worth_a_trial(window)
        {
            let idle_us = idle_us();
            if idle_us.is_none() && !std::mem::replace(&mut self.blind, true) {
                self.not_before_us = now_us + BLIND_WAIT_US;
            } else {
                self.state = State::LookAtCores { idle_us };
            }
        }
    }

    fn is_worth_a_trial(&self, window: &Measured) -> bool {
        // With workers, what the owner waits for may be them.
        self.kept > 0 || (window.asleep <= BOUND_SLEEP && window.jobs >= WORTH_JOBS)
    }

    fn keep(&mut self) {
        self.now = self.kept;
        self.state = State::Keep;
    }

    fn won(&mut self, rate: f64, now_us: u64) {
        self.kept += 1;
        self.rate = rate;
        self.wait_us = FIRST_WAIT_US;
        self.check_us = FIRST_CHECK_US;
        self.check_at_us = now_us + self.check_us;
        self.keep();
    }

    fn lost(&mut self, now_us: u64) {
        self.not_before_us = now_us + self.wait_us;
        self.wait_us = (self.wait_us * 2).min(LAST_WAIT_US);
        self.keep();
    }

    /// Without workers until there is bulk again.
    fn rest(&mut self, now_us: u64) {
        if self.kept > 0 {
            self.not_before_us = now_us + FIRST_WAIT_US;
        }
        self.kept = 0;
        self.rate = 0.0;
        self.keep();
    }
}

/// Counts of one window are far below 2^52.
#[allow(clippy::cast_precision_loss)]
fn precise(count: u64) -> f64 {
    count as f64
}
