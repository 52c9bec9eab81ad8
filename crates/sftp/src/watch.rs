//! Detects other writers of a file that a copy writes in place, so that the copy fails.
//!
//! A copy stores the file's size and modification time after each of its own changes, and compares
//! both before the next change and at the end. If another process has written, truncated or touched
//! the file, one of them differs. Changes of mode, owner, name and links are ignored. Nothing is
//! locked: other writers are not hindered, and a writer that pauses for hours detects a change
//! before it writes again. If two copies write one file from its beginning, the later one truncates
//! it, which the first detects by the size, and the copy that has written less finds the file
//! longer than it left it.
//!
//! Not detected are changes between our own change and the check after it, or between the check
//! before it and our own change (a microsecond), and, on kernels before 6.13, whose modification
//! times have ticks of 1 to 10 ms, changes in the tick of our own last change that keep the size.
//! Two continuous writers meet in many ticks. On network file systems and FUSE nothing is detected,
//! because their sizes and times change by themselves.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use sys::fs::{FileKind, Info, Time, content};

/// The error of a copy that has detected another writer.
const OTHER: &str = "another program wrote this file while it was copied: copy it again";

/// The pause before each time that [`mark`] sets.
const MARK_PAUSES: [Duration; 3] = [
    Duration::ZERO,
    Duration::from_millis(1),
    Duration::from_millis(5),
];

/// The state of a file that a copy writes. See the module's head.
#[derive(Debug)]
pub struct Watch {
    /// Bytes.
    size: u64,
    /// `None` if only the size is known.
    modified: Option<Time>,
    /// True once this copy has changed the file.
    touched: bool,
    /// Number of checks before a change.
    looks: u32,
    /// Device and inode number; (0, 0) before the first check.
    identity: (u64, u64),
    /// True once the same copy writes the file under another name as well.
    aliased: Arc<AtomicBool>,
    state: WatchState,
}

/// The files that one copy has open, by device and inode number. A copy may write one file under several
/// names (hard links, symbolic links among the targets); it is not another program then. A clone is the
/// same list.
#[derive(Debug, Clone, Default)]
pub struct Targets(Arc<Mutex<Vec<OpenTarget>>>);

/// Device and inode number of an open file, and its watch's `aliased`.
type OpenTarget = ((u64, u64), Weak<AtomicBool>);

impl Targets {
    /// Adds an open file. If the copy already has the file open, both watches are switched off.
    pub fn add(&self, watch: &Watch) {
        if self.wrote(watch) {
            watch.aliased.store(true, Ordering::Relaxed);
        }
        let mut open = self.open();
        open.retain(|(_, other)| other.strong_count() > 0);
        open.push((watch.identity, Arc::downgrade(&watch.aliased)));
    }

    /// Notes that the copy has written this file in another way. Returns true if the file is open.
    pub fn wrote(&self, watch: &Watch) -> bool {
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
enum WatchState {
    On,
    /// Nothing is checked: the file is not regular, or not on a local file system, or the copy
    /// itself also writes it under another name.
    Off,
    /// Another process has written the file.
    Lost,
}

impl Watch {
    /// A watch of a file that was just created or truncated to 0 bytes and that nobody has written.
    pub fn of_empty() -> Self {
        Self {
            size: 0,
            modified: None,
            touched: false,
            looks: 0,
            identity: (0, 0),
            aliased: Arc::default(),
            state: WatchState::On,
        }
    }

    /// A watch of a file in its present state.
    ///
    /// # Errors
    /// The system's.
    pub fn of(fd: impl AsFd) -> io::Result<Self> {
        let mut watch = Self::of_empty();
        watch.restart(fd)?;
        Ok(watch)
    }

    /// Checks the file; call it before each change and at the end.
    ///
    /// # Errors
    /// Another process has written the file, or a system error.
    pub fn check(&mut self, fd: impl AsFd) -> io::Result<()> {
        let mut may_have_mixed = false;
        self.looks = self.looks.saturating_add(1);
        // Two copies that write in turns take each other's time for their own while they stay in
        // step. A pause in which only the other one writes ends this.
        if self.looks >= 64 && self.looks.is_power_of_two() {
            std::thread::sleep(Duration::from_micros(500));
        }
        let looked = self.look(&fd, |watch, info| {
            // A process that truncated the file writes all of it after our changes, so its content
            // is not mixed. The same holds for one that came after our last change.
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

    /// Records a write of our own that ended at `end`.
    ///
    /// # Errors
    /// As [`Watch::check`].
    pub fn wrote(&mut self, fd: impl AsFd, end: u64) -> io::Result<()> {
        self.wrote_last(end);
        self.changed(fd)
    }

    /// The same without a check; no other write may follow before [`Watch::check`].
    pub fn wrote_last(&mut self, end: u64) {
        (self.size, self.modified) = (self.size.max(end), None);
        self.touched = true;
    }

    /// Records our own truncation or extension.
    ///
    /// # Errors
    /// As [`Watch::check`].
    pub fn cut(&mut self, fd: impl AsFd, len: u64) -> io::Result<()> {
        self.size = len;
        self.changed(fd)
    }

    /// Records another change of our own, which keeps the size.
    ///
    /// # Errors
    /// As [`Watch::check`].
    pub fn changed(&mut self, fd: impl AsFd) -> io::Result<()> {
        let before = self.state;
        self.touched = true;
        let looked = self.look(&fd, |watch, info| {
            watch.modified = Some(info.modified);
            info.size == watch.size
        });
        if looked.is_err() && before == WatchState::On {
            mark(&fd);
        }
        looked
    }

    /// Starts again after a failed change of our own, of which an unknown part was done.
    ///
    /// # Errors
    /// The system's.
    pub fn restart(&mut self, fd: impl AsFd) -> io::Result<()> {
        if self.state == WatchState::On {
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
        if self.state == WatchState::On {
            let info = content::info(&fd)?;
            self.identity = info.identity;
            if self.aliased.load(Ordering::Relaxed) {
                self.state = WatchState::Off;
                return Ok(());
            }
            if is_ours(self, &info) {
                return Ok(());
            }
            // Asked only here, because most files never reach this point.
            let tells = info.kind() == FileKind::Regular && content::is_local(&fd)?;
            self.state = if tells {
                WatchState::Lost
            } else {
                WatchState::Off
            };
        }
        match self.state {
            WatchState::Lost => Err(io::Error::other(OTHER)),
            WatchState::On | WatchState::Off => Ok(()),
        }
    }
}

/// True if `later` is at most one second after `earlier`.
fn is_soon(earlier: Time, later: Time) -> bool {
    let next = Time {
        seconds: earlier.seconds.saturating_add(1),
        ..earlier
    };
    let order = |at: Time| (at.seconds, at.nanoseconds);
    (order(earlier)..=order(next)).contains(&order(later))
}

/// Sets modification times that no copy expects, so that the other writer detects us too: it may
/// have taken the time of our change for its own. Several times are set, because the other writer
/// also accepts a time that is set between its write and the check after it; this is frequent,
/// because setting a time waits for a running write. A failure leaves the file unchanged.
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
