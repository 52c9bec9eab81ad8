//! [`WorkerController`]: the worker controller, which decides at run time how many workers to use.
//!
//! A worker helps only if the owner is the bottleneck, spends a considerable part of its time in
//! jobs, and a core is idle. None of this is known in advance: the peer or another tenant may use
//! the cores. The controller therefore first observes (does the owner sleep, how long do the jobs
//! take, how idle were the cores), then makes a trial: some milliseconds with a worker, some
//! without, and once more with it. A worker that raised the rate twice is kept, and is compared
//! again at intervals. After a rejected trial the next one is delayed, by twice as long each time,
//! so that the cost of all trials is too small to measure.
//!
//! This module reads no clock: time and measurements are parameters.

/// Length of an observation window without trial, µs.
const OBSERVE_US: u64 = 25_000;
/// Length of a window that measures the idle time of the cores, µs: the kernel counts it in steps
/// of 10 ms.
const IDLE_US: u64 = 100_000;
/// Length of a trial window, µs: at rates where the owner is the bottleneck, much more data than
/// the socket's buffers hold.
const TRIAL_US: u64 = 30_000;
/// Time that is not counted after a change of the number of workers, µs, because batches in
/// progress were started before it.
const SETTLE_US: u64 = 5_000;
/// Maximum share of its time that the owner sleeps if it is the bottleneck.
const BOUND_SLEEP: f64 = 0.15;
/// If the owner sleeps for more than this share of its time, workers are not needed.
const IDLE_SLEEP: f64 = 0.5;
/// Minimum share of the owner's time that jobs must take for a trial: workers can save no more than
/// that.
const WORTH_JOBS: f64 = 0.12;
/// Number of cores that must have been idle before another worker is tried.
const IDLE_CORES: f64 = 0.6;
/// Minimum ratio of rates, with and without the worker, to accept it in a trial.
const GAIN: f64 = 1.05;
/// The same ratio for workers that are compared again.
const KEPT_GAIN: f64 = 1.03;
/// If the rate falls below this part of the previous one, the workers are compared at once.
const DROP: f64 = 0.85;
/// Delay of the next trial after a rejected one, µs; doubles each time, up to the maximum below.
const FIRST_WAIT_US: u64 = 500_000;
const LAST_WAIT_US: u64 = 16_000_000;
/// Delay of the first trial if the idle time of the cores cannot be read, as in a chroot, µs. On
/// busy cores each trial fails, which must not slow down a short transfer.
const UNKNOWN_IDLE_WAIT_US: u64 = 2_000_000;
/// Delay until kept workers are compared again, µs; doubles each time, up to the maximum below.
const FIRST_CHECK_US: u64 = 1_000_000;
const LAST_CHECK_US: u64 = 16_000_000;

/// Measurements of the owner since the last sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sample {
    /// The current time, µs, from any fixed origin.
    pub now_us: u64,
    /// Number of bytes in finished jobs.
    pub bytes: u64,
    /// Time that the owner spent in jobs, µs.
    pub jobs_us: u64,
    /// Time that the owner slept, µs.
    pub asleep_us: u64,
}

/// Sum of the samples of a window.
#[derive(Debug, Clone, Copy, Default)]
struct SampleWindow {
    start_us: u64,
    bytes: u64,
    jobs_us: u64,
    asleep_us: u64,
}

/// Averages of a finished window: `rate` in bytes per µs, `jobs` and `asleep` as shares of the
/// owner's time.
struct WindowAverages {
    wall_us: f64,
    rate: f64,
    jobs: f64,
    asleep: f64,
}

#[derive(Debug, Clone, Copy)]
enum ControllerState {
    /// No trial: no reason for one, or the delay has not passed.
    Keep,
    /// The owner is the bottleneck: measures how idle the cores are. `idle_us` is the idle time at
    /// the start, µs.
    MeasureIdleCores { idle_us: Option<u64> },
    /// Trial with one more worker, for the first or second time (`again`). `without` is the rate
    /// without it.
    TrialWith { without: f64, again: bool },
    /// Trial without that worker, between the two. `with` is the rate with it.
    TrialWithout { with: f64 },
    /// Comparison without any worker. `with` is the rate with all kept workers.
    CheckKept { with: f64 },
}

/// Controls the number of workers, from 0 to a maximum; see the crate documentation.
#[derive(Debug)]
pub struct WorkerController {
    max_workers: usize,
    fixed: bool,
    /// Number of workers that passed a trial.
    kept: usize,
    /// Number of workers now; differs from `kept` during a trial.
    now: usize,
    state: ControllerState,
    window: SampleWindow,
    /// Earliest time of the next trial, µs.
    next_trial_us: u64,
    trial_wait_us: u64,
    /// The idle time of the cores cannot be read; the first trial was delayed for that.
    idle_unknown: bool,
    check_at_us: u64,
    check_us: u64,
    /// Rate in the last window with `kept` workers, bytes per µs.
    rate: f64,
}

impl WorkerController {
    /// Uses up to `max_workers` workers, as many as raise the rate.
    #[must_use]
    pub fn auto(max_workers: usize) -> Self {
        Self {
            max_workers,
            fixed: false,
            kept: 0,
            now: 0,
            state: ControllerState::Keep,
            window: SampleWindow::default(),
            next_trial_us: 0,
            trial_wait_us: FIRST_WAIT_US,
            idle_unknown: false,
            check_at_us: 0,
            check_us: FIRST_CHECK_US,
            rate: 0.0,
        }
    }

    /// Always uses `workers` workers.
    #[must_use]
    pub fn fixed(workers: usize) -> Self {
        Self {
            fixed: true,
            kept: workers,
            now: workers,
            ..Self::auto(workers)
        }
    }

    /// Number of workers to use now.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.now
    }

    /// Returns true if samples can change the number of workers; otherwise the caller need not take
    /// any.
    #[must_use]
    pub fn wants_samples(&self) -> bool {
        !self.fixed && self.max_workers > 0
    }

    /// Adds a sample; to be called during bulk transfer. `idle_us` returns the total idle time, in
    /// µs since some fixed time, of the cores that this process may use; `None` if it cannot be
    /// read.
    pub fn note(&mut self, sample: Sample, idle_us: &mut dyn FnMut() -> Option<u64>) {
        if !self.wants_samples() {
            return;
        }
        let window_us = self.window_us();
        let window = &mut self.window;
        // The first sample of a window only sets its start.
        if window.start_us == 0 || sample.now_us < window.start_us {
            if window.start_us == 0 {
                window.start_us = sample.now_us.max(1);
            }
            return;
        }
        window.bytes += sample.bytes;
        window.jobs_us += sample.jobs_us;
        window.asleep_us += sample.asleep_us;
        let wall_us = sample.now_us - window.start_us;
        if wall_us < window_us {
            return;
        }
        let wall = to_f64(wall_us);
        let measured = WindowAverages {
            wall_us: wall,
            rate: to_f64(window.bytes) / wall,
            jobs: to_f64(window.jobs_us) / wall,
            asleep: to_f64(window.asleep_us) / wall,
        };
        let before = self.now;
        self.on_window_end(&measured, sample.now_us, idle_us);
        let settle = if self.now == before { 0 } else { SETTLE_US };
        self.window = SampleWindow {
            start_us: sample.now_us + settle,
            ..SampleWindow::default()
        };
    }

    fn window_us(&self) -> u64 {
        match self.state {
            ControllerState::Keep => OBSERVE_US,
            ControllerState::MeasureIdleCores { .. } => IDLE_US,
            ControllerState::TrialWith { .. }
            | ControllerState::TrialWithout { .. }
            | ControllerState::CheckKept { .. } => TRIAL_US,
        }
    }

    fn on_window_end(
        &mut self,
        window: &WindowAverages,
        now_us: u64,
        idle_us: &mut dyn FnMut() -> Option<u64>,
    ) {
        if window.asleep > IDLE_SLEEP {
            if let ControllerState::TrialWith { without, .. } = self.state
                && (without * DROP..without * GAIN).contains(&window.rate)
            {
                // The bytes flow as before, and something else than the owner limits them: another
                // trial soon would end alike.
                return self.postpone_trial(now_us);
            }
            // No bulk data, or another bottleneck: the window proves nothing about workers.
            return self.drop_workers(now_us);
        }
        match self.state {
            ControllerState::Keep => self.on_kept_window(window, now_us, idle_us),
            ControllerState::MeasureIdleCores { idle_us: before } => {
                let idle = match (before, idle_us()) {
                    (Some(before), Some(after)) => {
                        to_f64(after.saturating_sub(before)) / window.wall_us
                    }
                    // The idle time is unknown: only the trial can decide.
                    _ => IDLE_CORES,
                };
                if self.is_worth_a_trial(window) && idle >= IDLE_CORES {
                    self.now = self.kept + 1;
                    self.state = ControllerState::TrialWith {
                        without: window.rate,
                        again: false,
                    };
                } else {
                    self.postpone_trial(now_us);
                }
            }
            ControllerState::TrialWith { without, again } => {
                if window.rate < without * GAIN {
                    self.postpone_trial(now_us);
                } else if again {
                    self.accept_trial(window.rate, now_us);
                } else {
                    self.now = self.kept;
                    self.state = ControllerState::TrialWithout { with: window.rate };
                }
            }
            ControllerState::TrialWithout { with } => {
                if with < window.rate * GAIN {
                    self.postpone_trial(now_us);
                } else {
                    self.now = self.kept + 1;
                    self.state = ControllerState::TrialWith {
                        without: window.rate,
                        again: true,
                    };
                }
            }
            ControllerState::CheckKept { with } => {
                if with < window.rate * KEPT_GAIN {
                    self.kept = 0;
                    self.postpone_trial(now_us);
                } else {
                    self.check_us = (self.check_us * 2).min(LAST_CHECK_US);
                    self.check_at_us = now_us + self.check_us;
                    self.rate = with;
                    self.use_kept();
                }
            }
        }
    }

    /// Handles a window with `kept` workers: starts a comparison or a trial if one is due.
    fn on_kept_window(
        &mut self,
        window: &WindowAverages,
        now_us: u64,
        idle_us: &mut dyn FnMut() -> Option<u64>,
    ) {
        let dropped = window.rate < self.rate * DROP;
        self.rate = window.rate;
        if self.kept > 0 && (now_us >= self.check_at_us || dropped) {
            self.now = 0;
            self.state = ControllerState::CheckKept { with: window.rate };
        } else if self.kept < self.max_workers
            && now_us >= self.next_trial_us
            && self.is_worth_a_trial(window)
        {
            let idle_us = idle_us();
            if idle_us.is_none() && !std::mem::replace(&mut self.idle_unknown, true) {
                self.next_trial_us = now_us + UNKNOWN_IDLE_WAIT_US;
            } else {
                self.state = ControllerState::MeasureIdleCores { idle_us };
            }
        }
    }

    fn is_worth_a_trial(&self, window: &WindowAverages) -> bool {
        // An owner with workers may be waiting for them.
        self.kept > 0 || (window.asleep <= BOUND_SLEEP && window.jobs >= WORTH_JOBS)
    }

    fn use_kept(&mut self) {
        self.now = self.kept;
        self.state = ControllerState::Keep;
    }

    fn accept_trial(&mut self, rate: f64, now_us: u64) {
        self.kept += 1;
        self.rate = rate;
        self.trial_wait_us = FIRST_WAIT_US;
        self.check_us = FIRST_CHECK_US;
        self.check_at_us = now_us + self.check_us;
        self.use_kept();
    }

    fn postpone_trial(&mut self, now_us: u64) {
        self.next_trial_us = now_us + self.trial_wait_us;
        self.trial_wait_us = (self.trial_wait_us * 2).min(LAST_WAIT_US);
        self.use_kept();
    }

    /// Uses no workers until there is bulk data again.
    fn drop_workers(&mut self, now_us: u64) {
        if self.kept > 0 {
            self.next_trial_us = self.next_trial_us.max(now_us + FIRST_WAIT_US);
        }
        self.kept = 0;
        self.rate = 0.0;
        self.use_kept();
    }
}

/// The counts of one window are far below 2^52.
#[allow(clippy::cast_precision_loss)]
fn to_f64(count: u64) -> f64 {
    count as f64
}
