//! Adaptive compression level. The level is the one asked for while this side is not the
//! bottleneck, and lower while it is.
//!
//! The time of a window consists of three parts: the socket is full (or the peer's windows are
//! shut, which looks the same here), there is nothing to send, or this side is working. If this
//! side works nearly all the time, it is the bottleneck: the next lower level is tried, and kept if
//! throughput rises. If this side has spare time, the next higher level is tried once the spare
//! time suffices for it. After a failed trial the next attempt at the same step waits twice as
//! long.
//!
//! Bulk data need not wait for a whole window. If the socket was never full and the peer has
//! acknowledged nearly all written bytes before more are written, the line is at least as fast as
//! this side, and the level drops after a few packets without a comparison. Bytes in flight or in
//! the socket are evidence against that, so a slow line whose buffers are still filling does not
//! look fast.
//!
//! This module is pure: time and counts are parameters.

/// Levels tried below the one asked for; 0 stores.
const LEVELS: [u8; 4] = [6, 3, 1, 0];
/// Minimum length of a window, µs, and its minimum size in bytes before compression. The size
/// prevents a run of files that are already compressed from deciding alone.
const WINDOW_US: u64 = 20_000;
const WINDOW_BYTES: u64 = 1 << 20;
/// Bytes before compression that suffice to lower the level when the socket runs dry, if at most
/// one `DRY_PART`th of the written bytes is unacknowledged.
const DRY_BYTES: u64 = 256 * 1024;
const DRY_PART: u64 = 4;
/// Data that shrinks to less than one `DRY_RATIO`th needs a comparison: storing it might take
/// longer.
const DRY_RATIO: u64 = 4;
/// Minimum bytes before compression, and minimum time, to raise the level when there is spare time.
const SLOW_BYTES: u64 = 64 * 1024;
const SLOW_US: u64 = 200_000;
/// At the level asked for, a window starts only with bulk: this many bytes after an idle time of
/// `LULL_US` µs, and anew if fewer than `TRICKLE_BYTES` came in `WINDOW_US`. No processor compresses
/// as slowly as that.
const LITTLE_BYTES: u64 = 64 * 1024;
const TRICKLE_BYTES: u64 = 4 * 1024;
const LULL_US: u64 = 2000;
/// Percentage of the time spent working from which this side counts as the bottleneck.
const BOUND: u64 = 85;
/// Maximum percentage of time spent working at which the next higher level is tried; that level
/// takes up to half as much time again.
const SPARE: u64 = 60;
/// The same for level 0: storing takes a tenth of the time of any other level.
const SPARE_STORING: u64 = 20;
/// A lower level is kept if throughput reaches this percentage of the previous throughput.
const GAIN: u64 = 105;
/// Windows before a failed step is tried again: initial and maximum value.
const FIRST_WAIT: u32 = 2;
const LAST_WAIT: u32 = 64;

/// Activity of this side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Activity {
    /// Compresses, seals or writes, or waits for workers that do.
    Work,
    /// The socket is full, or there is nothing to send.
    Wait,
}

/// Total bytes so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ByteTotals {
    /// Before and after compression.
    pub(super) raw: u64,
    pub(super) compressed: u64,
    /// Written to the socket.
    pub(super) sent: u64,
}

impl ByteTotals {
    fn since(self, before: Self) -> Self {
        Self {
            raw: self.raw.saturating_sub(before.raw),
            compressed: self.compressed.saturating_sub(before.compressed),
            sent: self.sent.saturating_sub(before.sent),
        }
    }
}

/// Back-off for one step: windows left until it may be tried, and the next value of `left`.
#[derive(Debug, Clone, Copy)]
struct StepBackoff {
    left: u32,
    next: u32,
}

impl StepBackoff {
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

/// The step under trial in the current window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trial {
    None,
    /// One level down; the value is the throughput before it, bytes a second.
    Down(u64),
    Up,
}

/// Controller of the compression level.
#[derive(Debug)]
pub(super) struct LevelController {
    /// The level asked for, followed by the lower levels.
    ladder: Vec<u8>,
    step: usize,
    doing: Activity,
    since_us: u64,
    work_us: u64,
    begun_us: u64,
    begun: ByteTotals,
    /// No write blocked since the window began.
    dry: bool,
    /// The last write blocked.
    full: bool,
    /// Start time and total raw bytes at the start of the first in a row of windows that each ended
    /// with a dry socket.
    dry_since: (u64, u64),
    /// Total raw bytes after the last idle time.
    lull_raw: u64,
    trial: Trial,
    /// The trial's window was restarted once.
    again: bool,
    down: StepBackoff,
    up: StepBackoff,
    /// Throughput before the switch to level 0, bytes a second, and windows at level 0 since.
    before_storing: u64,
    storing: u32,
}

impl LevelController {
    /// Starts at level `asked`.
    pub(super) fn new(asked: u8, now_us: u64, through: ByteTotals) -> Self {
        let below = LEVELS.into_iter().filter(|level| *level < asked);
        Self {
            ladder: std::iter::once(asked).chain(below).collect(),
            step: 0,
            doing: Activity::Wait,
            since_us: now_us,
            work_us: 0,
            begun_us: now_us,
            begun: through,
            dry: true,
            full: false,
            dry_since: (now_us, through.raw),
            lull_raw: through.raw,
            trial: Trial::None,
            again: false,
            down: StepBackoff::OPEN,
            up: StepBackoff::OPEN,
            before_storing: 0,
            storing: 0,
        }
    }

    /// The level for the next packets.
    pub(super) fn level(&self) -> u8 {
        self.ladder.get(self.step).copied().unwrap_or_default()
    }

    /// Starts working, if not working already, and judges the window. Returns true if the level
    /// changes.
    pub(super) fn resume(&mut self, now_us: u64, through: ByteTotals) -> bool {
        let waits = self.doing == Activity::Wait;
        let lull = waits && now_us.saturating_sub(self.since_us) >= LULL_US;
        let full = std::mem::replace(&mut self.full, false);
        let idle = lull && !full;
        let before = self.step;
        if idle && matches!(self.trial, Trial::Down(_)) && !self.again {
            // There was nothing to send, or the peer's command has not started yet: no valid trial.
            // Restart only once, as the peer's windows may be the bottleneck.
            self.begin(now_us, through);
            self.again = true;
        } else {
            self.update_level(now_us, through);
        }
        if lull {
            self.lull_raw = through.raw;
        }
        let begins = through.raw.saturating_sub(self.lull_raw) < LITTLE_BYTES;
        let trickles = now_us.saturating_sub(self.begun_us) >= WINDOW_US
            && through.since(self.begun).raw < TRICKLE_BYTES;
        if self.step == 0 && (begins || trickles) {
            // There is spare time, or too little data to judge by.
            self.trial = Trial::None;
            self.begin(now_us, through);
        }
        self.does(Activity::Work, now_us);
        self.step != before
    }

    /// Records that this side does `doing` from `now_us` on.
    pub(super) fn does(&mut self, doing: Activity, now_us: u64) {
        if self.doing == Activity::Work {
            self.work_us += now_us.saturating_sub(self.since_us);
        }
        (self.doing, self.since_us) = (doing, now_us);
    }

    /// Records that a write blocked.
    pub(super) fn is_full(&mut self, now_us: u64) {
        (self.dry, self.full) = (false, true);
        self.does(Activity::Wait, now_us);
    }

    fn begin(&mut self, now_us: u64, through: ByteTotals) {
        self.begin_continued(now_us, through);
        self.dry_since = (now_us, through.raw);
    }

    /// Starts a window that continues the row of dry windows.
    fn begin_continued(&mut self, now_us: u64, through: ByteTotals) {
        self.does(self.doing, now_us);
        (self.begun_us, self.begun, self.work_us) = (now_us, through, 0);
        self.dry = true;
    }

    /// Returns true if the socket may turn out to run dry: output should be written early.
    pub(super) fn may_run_dry(&self) -> bool {
        self.dry && self.down.left == 0 && self.step + 1 < self.ladder.len()
    }

    /// To be called before a write. Returns true if the level drops because the socket ran dry
    /// while this side was working. `under_way` returns the number of written bytes that are not
    /// acknowledged, `None` if unknown.
    pub(super) fn runs_dry(
        &mut self,
        now_us: u64,
        through: ByteTotals,
        under_way: impl FnOnce() -> Option<u64>,
    ) -> bool {
        let window = through.since(self.begun);
        if !self.may_run_dry()
            || window.raw < DRY_BYTES
            || window.compressed.saturating_mul(DRY_RATIO) < window.raw
        {
            return false;
        }
        self.does(self.doing, now_us);
        let wall_us = now_us.saturating_sub(self.begun_us).max(1);
        if self.work_us.saturating_mul(100) < wall_us.saturating_mul(BOUND)
            || window.sent == 0
            || under_way().is_none_or(|bytes| bytes.saturating_mul(DRY_PART) > window.sent)
        {
            return false;
        }
        if self.trial == Trial::Up {
            self.up.shut();
        }
        self.down = StepBackoff::OPEN;
        // One such window alone is too short to measure the throughput.
        let (since_us, raw) = self.dry_since;
        let raw = through.raw.saturating_sub(raw);
        self.lower(rate(raw, now_us.saturating_sub(since_us)));
        self.begin_continued(now_us, through);
        true
    }

    /// Judges the window, if it is complete.
    fn update_level(&mut self, now_us: u64, through: ByteTotals) {
        let wall_us = now_us.saturating_sub(self.begun_us);
        let raw = through.since(self.begun).raw;
        let is_whole = wall_us >= WINDOW_US && raw >= WINDOW_BYTES;
        let is_slow = self.step > 0 && wall_us >= SLOW_US && raw >= SLOW_BYTES;
        if !is_whole && !is_slow {
            return;
        }
        self.does(self.doing, now_us);
        let work = self.work_us.saturating_mul(100) / wall_us;
        if !is_whole && work >= self.spare() {
            return;
        }
        self.begin(now_us, through);
        let trial = std::mem::replace(&mut self.trial, Trial::None);
        self.judge(trial, work, rate(raw, wall_us));
    }

    /// Maximum percentage of time spent working at which the next higher level is tried.
    fn spare(&self) -> u64 {
        if self.level() == 0 {
            SPARE_STORING
        } else {
            SPARE
        }
    }

    /// Tries the next lower level; `rate` is the throughput at the current one, bytes a second.
    fn lower(&mut self, rate: u64) {
        self.step += 1;
        (self.trial, self.again) = (Trial::Down(rate), false);
        if self.level() == 0 {
            (self.before_storing, self.storing) = (rate, 0);
        }
    }

    /// Returns true if storing is faster than compressing was. The older measurement expires after
    /// `LAST_WAIT` windows, because the data may have changed.
    fn gains_by_storing(&mut self, rate: u64) -> bool {
        if self.level() > 0 || rate < self.before_storing {
            return false;
        }
        self.storing += 1;
        self.storing < LAST_WAIT
    }

    /// Decides on the next step. In the window that followed the step `trial`, this side worked
    /// `work` percent of the time and the throughput was `rate` bytes a second.
    fn judge(&mut self, trial: Trial, work: u64, rate: u64) {
        match trial {
            Trial::Down(before) if rate.saturating_mul(100) < before.saturating_mul(GAIN) => {
                self.step = self.step.saturating_sub(1);
                self.down.shut();
                return;
            }
            Trial::Down(_) => self.down = StepBackoff::OPEN,
            Trial::Up if work < BOUND => self.up = StepBackoff::OPEN,
            Trial::Up => {
                // The step up was too much. The lower level was probably better: try it at once.
                self.up.shut();
                self.down = StepBackoff::OPEN;
            }
            Trial::None => {}
        }
        if work >= BOUND && self.step + 1 < self.ladder.len() {
            if self.down.pass() {
                self.lower(rate);
            }
        } else if work < self.spare()
            && self.step > 0
            && !self.gains_by_storing(rate)
            && self.up.pass()
        {
            self.step -= 1;
            self.trial = Trial::Up;
        }
    }
}

/// Throughput, bytes a second.
fn rate(bytes: u64, wall_us: u64) -> u64 {
    bytes.saturating_mul(1_000_000) / wall_us.max(1)
}
