//! How hard compression tries: as hard as was asked for while something else is what everything
//! waits for, and less where the socket runs dry behind it.
//!
//! The time of a window is shared out among three: the socket takes no more (or, which is the same
//! to us, the peer's windows are shut), there is nothing to send, and the rest, in which this side
//! is at work. A side that is always at work is what the bytes wait for: the next lower level is
//! tried, and kept if more bytes got through with it. A side that has time left goes back up, by
//! a step that it has the time for. What did not stand the trial is tried again later each time.
//!
//! Bulk does not wait for a whole window: where the socket was never full and the peer has
//! acknowledged nearly all that was written before there is more, the line is as fast as what this
//! side makes at least, and the level goes down after a few packets, without a comparison. What is
//! on its way to the peer, or waits in the socket, speaks against it: a slow line that has only
//! begun to fill does not look fast.
//!
//! Pure: time and counts are parameters.

/// The levels below the one asked for; 0 stores.
const LEVELS: [u8; 4] = [6, 3, 1, 0];
/// A window is at least so long, µs, and holds so many bytes before compression: a run of files
/// that are compressed already must not decide alone.
const WINDOW_US: u64 = 20_000;
const WINDOW_BYTES: u64 = 1 << 20;
/// So much is enough to go down where the socket runs dry, if no more of what was written than
/// one part of so many is under way still.
const DRY_BYTES: u64 = 256 * 1024;
const DRY_PART: u64 = 4;
/// What shrinks to less than one part of so many is compared: it might take longer as it is.
const DRY_RATIO: u64 = 4;
/// And so much, over so long a time, to go up where there is time left.
const SLOW_BYTES: u64 = 64 * 1024;
const SLOW_US: u64 = 200_000;
/// At the level asked for, a window begins with bulk: not before so many bytes have come, and
/// behind a rest of so many µs.
const LITTLE_BYTES: u64 = 64 * 1024;
const LULL_US: u64 = 2000;
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

/// What has gone through in all, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Through {
    /// Before compression, and behind it.
    pub(super) raw: u64,
    pub(super) compressed: u64,
    /// Written to the socket.
    pub(super) sent: u64,
}

impl Through {
    fn since(self, before: Self) -> Self {
        Self {
            raw: self.raw.saturating_sub(before.raw),
            compressed: self.compressed.saturating_sub(before.compressed),
            sent: self.sent.saturating_sub(before.sent),
        }
    }
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
    begun: Through,
    /// The socket has taken everything since then.
    dry: bool,
    /// The socket takes nothing now.
    full: bool,
    /// When the first of the windows began that ended with a dry socket one behind the other, and
    /// bytes before compression until then.
    dry_since: (u64, u64),
    trial: Trial,
    /// The window of the trial was begun anew.
    again: bool,
    down: Bar,
    up: Bar,
    /// Bytes a second that went through before the last of them were stored, and windows since.
    before_storing: u64,
    storing: u32,
}

impl Effort {
    /// Begins with the level asked for.
    pub(super) fn new(asked: u8, now_us: u64, through: Through) -> Self {
        let below = LEVELS.into_iter().filter(|level| *level < asked);
        Self {
            ladder: std::iter::once(asked).chain(below).collect(),
            step: 0,
            doing: Doing::Wait,
            since_us: now_us,
            work_us: 0,
            begun_us: now_us,
            begun: through,
            dry: true,
            full: false,
            dry_since: (now_us, through.raw),
            trial: Trial::None,
            again: false,
            down: Bar::OPEN,
            up: Bar::OPEN,
            before_storing: 0,
            storing: 0,
        }
    }

    /// The level for what comes next.
    pub(super) fn level(&self) -> u8 {
        self.ladder.get(self.step).copied().unwrap_or_default()
    }

    /// Goes to work, if it does not work already; takes note of what has gone through. True when
    /// the level changes.
    pub(super) fn resume(&mut self, now_us: u64, through: Through) -> bool {
        let waits = self.doing == Doing::Wait;
        let lull = waits && now_us.saturating_sub(self.since_us) >= LULL_US;
        let full = std::mem::replace(&mut self.full, false);
        let idle = lull && !full;
        let before = self.step;
        if idle && matches!(self.trial, Trial::Down(_)) && !self.again {
            // There was nothing to send, or the peer's command is not there yet: that is no trial.
            // Once, as the peer's windows may be what everything waits for.
            self.begin(now_us, through);
            self.again = true;
        } else {
            self.weigh(now_us, through);
        }
        if self.step == 0 && (lull || through.since(self.begun).raw < LITTLE_BYTES) {
            // It has time left, or nothing to judge by.
            self.trial = Trial::None;
            self.begin(now_us, through);
        }
        self.does(Doing::Work, now_us);
        self.step != before
    }

    /// From now on this is done.
    pub(super) fn does(&mut self, doing: Doing, now_us: u64) {
        if self.doing == Doing::Work {
            self.work_us += now_us.saturating_sub(self.since_us);
        }
        (self.doing, self.since_us) = (doing, now_us);
    }

    /// The socket takes no more.
    pub(super) fn is_full(&mut self, now_us: u64) {
        (self.dry, self.full) = (false, true);
        self.does(Doing::Wait, now_us);
    }

    fn begin(&mut self, now_us: u64, through: Through) {
        self.begin_behind(now_us, through);
        self.dry_since = (now_us, through.raw);
    }

    /// Begins a window that belongs to the one before.
    fn begin_behind(&mut self, now_us: u64, through: Through) {
        self.does(self.doing, now_us);
        (self.begun_us, self.begun, self.work_us) = (now_us, through, 0);
        self.dry = true;
    }

    /// It may turn out that the socket runs dry: what there is should be written soon.
    pub(super) fn may_run_dry(&self) -> bool {
        self.dry && self.down.left == 0 && self.step + 1 < self.ladder.len()
    }

    /// Before more is written: true when the level goes down, as the socket has run dry while this
    /// side was at work. `under_way` asks how many of the bytes that were written are not
    /// acknowledged, where that is known.
    pub(super) fn runs_dry(
        &mut self,
        now_us: u64,
        through: Through,
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
        self.down = Bar::OPEN;
        // One of these windows alone is too short to tell how fast it went.
        let (since_us, raw) = self.dry_since;
        let raw = through.raw.saturating_sub(raw);
        self.lower(rate(raw, now_us.saturating_sub(since_us)));
        self.begin_behind(now_us, through);
        true
    }

    /// Judges the window, if it is over.
    fn weigh(&mut self, now_us: u64, through: Through) {
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

    /// The share of the time that this side may be at work if the next higher level is to be tried.
    fn spare(&self) -> u64 {
        if self.level() == 0 {
            SPARE_STORING
        } else {
            SPARE
        }
    }

    /// Tries the next lower level; `rate` is what there was before.
    fn lower(&mut self, rate: u64) {
        self.step += 1;
        (self.trial, self.again) = (Trial::Down(rate), false);
        if self.level() == 0 {
            (self.before_storing, self.storing) = (rate, 0);
        }
    }

    /// Stores more than would go through compressed, by what is known. As that may have changed,
    /// it is not believed for ever.
    fn gains_by_storing(&mut self, rate: u64) -> bool {
        if self.level() > 0 || rate < self.before_storing {
            return false;
        }
        self.storing += 1;
        self.storing < LAST_WAIT
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

/// Bytes a second.
fn rate(bytes: u64, wall_us: u64) -> u64 {
    bytes.saturating_mul(1_000_000) / wall_us.max(1)
}
