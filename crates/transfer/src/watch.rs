//! Notices whoever else writes a file that a copy writes in place: then the copy fails.
//!
//! A copy remembers the file's size and time of modification behind each of its own changes, and
//! looks again before the next one and in the end. Where somebody else has written, cut or touched the file, one
//! of them is another. A mode, an owner, a name or a link are not looked at. Nothing is locked: whoever
//! writes besides is hindered by nothing, and a writer that comes back after hours finds out
//! before it writes. Of two copies that write one file from its beginning, the one that comes later cuts it, which
//! the first sees by the size, and the one that is behind in the file finds it longer than it made it.
//!
//! What is not seen: what lands between our own change and the look behind it, or between the look
//! before it and our own change (a microsecond), and, on kernels before 6.13 where a time of modification goes by
//! ticks of 1 to 10 ms, what lands in the tick of our own last change and leaves the size as it was. Two
//! that go on writing meet in many ticks. On file systems of a network or a process (FUSE) nothing
//! is seen: their sizes and times change by themselves.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use sys::fs::{Info, Kind, Time, content};

/// What a copy says that has noticed another writer.
const OTHER: &str = "another program wrote this file while it was copied: copy it again";

/// Before each of the times that [`mark`] sets.
const MARK_PAUSES: [Duration; 3] = [
    Duration::ZERO,
    Duration::from_millis(1),
    Duration::from_millis(5),
];

/// What a copy knows of the file that it writes. See the module's head.
#[derive(Debug)]
pub(crate) struct Watch {
    /// Bytes.
    size: u64,
    /// None where only the size is known.
    modified: Option<Time>,
    /// We have changed it.
    touched: bool,
    /// How often it was looked at before a change.
    looks: u32,
    /// Device and inode number; (0, 0) until the file was looked at.
    identity: (u64, u64),
    /// True once the same copy writes the file under another name as well.
    aliased: Arc<AtomicBool>,
    state: State,
}

/// The files that one copy has open, by device and inode number. A copy may write one file under several
/// names (hard links, symbolic links among the targets); it is not another program then. A clone is the
/// same list.
#[derive(Debug, Clone, Default)]
pub(crate) struct Targets(Arc<Mutex<Vec<OpenTarget>>>);

/// Device and inode number of an open file, and its watch's `aliased`.
type OpenTarget = ((u64, u64), Weak<AtomicBool>);

impl Targets {
    /// Adds an open file. If the copy already has the file open, both watches are switched off.
    pub(crate) fn add(&self, watch: &Watch) {
        if self.wrote(watch) {
            watch.aliased.store(true, Ordering::Relaxed);
        }
        let mut open = self.open();
        open.retain(|(_, other)| other.strong_count() > 0);
        open.push((watch.identity, Arc::downgrade(&watch.aliased)));
    }

    /// Notes that the copy has written this file in another way. Returns true if the file is open.
    pub(crate) fn wrote(&self, watch: &Watch) -> bool {
        let mut is_open = false;
        for (identity, other) in self.open().iter() {
            if *identity == watch.identity
                && let Some(other) = other.upgrade()
            {
                other.store(true, Ordering::Relaxed);
                is_open = true;
            }
        }
        is_open
    }

    fn open(&self) -> MutexGuard<'_, Vec<OpenTarget>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    On,
    /// The file tells nothing: it is no regular one, or not on a file system of this machine's own, or
    /// the copy itself writes it under another name as well.
    Off,
    /// Somebody else has written.
    Lost,
}

impl Watch {
    /// Of a file that was just made or cut to nothing, and which nobody has written.
    pub(crate) fn of_empty() -> Self {
        Self {
            size: 0,
            modified: None,
            touched: false,
            looks: 0,
            identity: (0, 0),
            aliased: Arc::default(),
            state: State::On,
        }
    }

    /// Of a file as it is now.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn of(fd: impl AsFd) -> io::Result<Self> {
        let mut watch = Self::of_empty();
        watch.restart(fd)?;
        Ok(watch)
    }

    /// Before a change of our own, and in the end.
    ///
    /// # Errors
    /// Somebody else has written; the system's.
    pub(crate) fn check(&mut self, fd: impl AsFd) -> io::Result<()> {
        let mut may_have_mixed = false;
        self.looks = self.looks.saturating_add(1);
        // Two that write in turn take each other's time for their own as long as they keep in step: a
        // moment in which only the other writes ends that.
        if self.looks >= 64 && self.looks.is_power_of_two() {
            std::thread::sleep(Duration::from_micros(500));
        }
        let looked = self.look(&fd, |watch, info| {
            // Who has cut it writes all of it behind our changes, and needs to hear of none. Nor does
            // who came when we had stood still.
            may_have_mixed = watch.touched
                && info.size >= watch.size
                && watch.modified.is_none_or(|at| is_soon(at, info.modified));
            info.size == watch.size && watch.modified.is_none_or(|at| at == info.modified)
        });
        if looked.is_err() && may_have_mixed {
            mark(&fd);
        }
        looked
    }

    /// Behind a write of our own that ended at `end`.
    ///
    /// # Errors
    /// As [`Watch::check`].
    pub(crate) fn wrote(&mut self, fd: impl AsFd, end: u64) -> io::Result<()> {
        self.wrote_last(end);
        self.changed(fd)
    }

    /// The same without a look: nothing is written behind it before [`Watch::check`].
    pub(crate) fn wrote_last(&mut self, end: u64) {
        (self.size, self.modified) = (self.size.max(end), None);
        self.touched = true;
    }

    /// Behind our own cutting or extending.
    ///
    /// # Errors
    /// As [`Watch::check`].
    pub(crate) fn cut(&mut self, fd: impl AsFd, len: u64) -> io::Result<()> {
        self.size = len;
        self.changed(fd)
    }

    /// Behind another change of our own, which leaves the size.
    ///
    /// # Errors
    /// As [`Watch::check`].
    pub(crate) fn changed(&mut self, fd: impl AsFd) -> io::Result<()> {
        let before = self.state;
        self.touched = true;
        let looked = self.look(&fd, |watch, info| {
            watch.modified = Some(info.modified);
            info.size == watch.size
        });
        if looked.is_err() && before == State::On {
            mark(&fd);
        }
        looked
    }

    /// Behind a change of our own that failed: nobody knows how far it came.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn restart(&mut self, fd: impl AsFd) -> io::Result<()> {
        if self.state == State::On {
            let info = content::info(fd)?;
            (self.size, self.modified) = (info.size, Some(info.modified));
            self.identity = info.identity;
        }
        Ok(())
    }

    fn look(
        &mut self,
        fd: impl AsFd,
        is_ours: impl FnOnce(&mut Self, &Info) -> bool,
    ) -> io::Result<()> {
        if self.state == State::On {
            let info = content::info(&fd)?;
            self.identity = info.identity;
            if self.aliased.load(Ordering::Relaxed) {
                self.state = State::Off;
                return Ok(());
            }
            if is_ours(self, &info) {
                return Ok(());
            }
            // Asked only here: most files never come to this.
            let tells = info.kind() == Kind::Regular && content::is_local(&fd)?;
            self.state = if tells { State::Lost } else { State::Off };
        }
        match self.state {
            State::Lost => Err(io::Error::other(OTHER)),
            State::On | State::Off => Ok(()),
        }
    }
}

/// `later` is at most a second behind `earlier`.
fn is_soon(earlier: Time, later: Time) -> bool {
    let next = Time {
        seconds: earlier.seconds.saturating_add(1),
        ..earlier
    };
    let order = |at: Time| (at.seconds, at.nanoseconds);
    (order(earlier)..=order(next)).contains(&order(later))
}

/// Our own change may have landed among another's, who may have taken its time for that of its own: gives
/// the file one that nobody knows, so that the other notices too. It does so several times, since the
/// other takes also this one for its own where it stands between a write and the look behind it: there
/// it stands often, since setting a time waits for a write under way. What fails here leaves the file as it was.
fn mark(fd: impl AsFd) {
    for pause in MARK_PAUSES {
        std::thread::sleep(pause);
        if let Ok(info) = content::info(&fd) {
            let nanoseconds = (info.modified.nanoseconds + 1) % 1_000_000_000;
            let modified = Time {
                nanoseconds,
                ..info.modified
            };
            let _ = content::set_times(&fd, info.accessed, modified);
        }
    }
}

#[cfg(test)]
#[path = "watch_tests.rs"]
mod tests;
