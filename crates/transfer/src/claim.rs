//! Who may write a file in place: one copy at a time.
//!
//! A copy that writes a file where it stands locks bytes of it far behind any end, at the end that
//! writes; other programs and other clients do not look at them. Another copy waits a little, and is
//! refused while the first one writes. One that has not written for [`STALE`] does not hold it up
//! any longer: its network may have died hours before its process. The other copy goes on then, and
//! the first, should it wake, finds out before it writes on, and fails.
//!
//! Who holds a place of [`PLACES`] writes; the length of its lock tells since when. Whoever
//! decides something holds the [`GATE`] meanwhile, for a few system calls. The first writer of a file takes
//! all of it at once, which fails where anybody holds anything, and gives back what it does not need.
//!
//! Without a claim goes what is no regular file, and what is not on a [local](content::is_local)
//! file system: there a lock may take a round trip, and times are another machine's.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use sys::fs::{Info, Kind, Time, content, locks};

/// A writer that has written nothing for so long may be dead.
const STALE: Duration = Duration::from_secs(3);
/// Behind such a pause a writer looks whether another took its place; well below [`STALE`].
const PAUSE: Duration = Duration::from_secs(1);
/// How far a file's time may be from the clock's when it was written to: below [`STALE`] by what a
/// coarse clock may tell.
const CLOSE_BY: Duration = Duration::from_millis(2500);
/// A copy is refused when it has waited for so long: what is dead has shown it by then.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
/// And asks again behind this.
pub(crate) const AGAIN: Duration = Duration::from_millis(100);
/// How often somebody who may write asks for the gate, and how long it waits between.
const GATE_TRIES: u32 = 100;
const GATE_WAIT: Duration = Duration::from_millis(5);

/// Where the places begin: no file is so long.
const FAR: u64 = 1 << 62;
/// As many copies as may have died one after the other, and how far apart their places are: more
/// than there are seconds.
const PLACES: u64 = 16;
const PLACE: u64 = 1 << 40;
const ALL_PLACES: u64 = PLACES * PLACE;
/// The byte behind them.
const GATE: u64 = FAR + ALL_PLACES;

/// Another copy writes to the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Busy;

/// What comes of [`Claim::take`].
#[derive(Debug)]
pub(crate) enum Taken {
    /// The file may be written; without a claim where none are made. What is known of it from then
    /// on.
    Ours(Option<Claim>, Info),
    /// See [`Busy`].
    Busy,
}

/// Another copy has written to the file, or does: what is in it is not ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lost;

impl fmt::Display for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(sftp::Code::LOCK_CONFLICT.text())
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("changed by another copy")
    }
}

impl std::error::Error for Busy {}
impl std::error::Error for Lost {}

impl From<Lost> for io::Error {
    fn from(lost: Lost) -> Self {
        Self::other(lost)
    }
}

/// What is written through the handle that claims, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// All of it, at once.
    Brief,
    /// Piece by piece.
    Alone,
    /// Piece by piece, and other handles write to it as well: its times say nothing.
    First,
    /// What another handle has claimed.
    Further,
}

/// The right to write a file. See the module's head.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Claim {
    how: How,
    place: u64,
    /// What its lock tells.
    since: Duration,
    /// When it was last known to be ours, and when the file was last changed through it; since
    /// 1970.
    known: Duration,
    changed: Duration,
    is_lost: bool,
}

/// Since 1970, by the clock that files' times are taken from.
fn now() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}

fn since_epoch(time: Time) -> Duration {
    let seconds = u64::try_from(time.seconds).unwrap_or(0);
    Duration::new(seconds, time.nanoseconds)
}

/// The place's lock that tells this time.
fn place_since(place: u64, at: Duration) -> (u64, u64) {
    let seconds = at.as_secs().min(PLACE - 2);
    (FAR + place * PLACE, 1 + seconds)
}

/// Whether claims are made on the file's system; the last answer is remembered.
fn takes_claims(fd: impl AsFd, info: &Info) -> bool {
    thread_local! {
        static LAST: Cell<Option<(u64, bool)>> = const { Cell::new(None) };
    }
    let (device, _) = info.identity;
    match LAST.get() {
        Some((last, takes)) if last == device => takes,
        _ => {
            let takes = content::is_local(fd).unwrap_or(false);
            LAST.set(Some((device, takes)));
            takes
        }
    }
}

/// The same for a file that was just made in `folder`, whose files are all on one system.
fn takes_claims_in(folder: &[u8], fd: impl AsFd) -> io::Result<bool> {
    thread_local! {
        static LAST: RefCell<(Vec<u8>, bool)> = const { RefCell::new((Vec::new(), false)) };
    }
    LAST.with_borrow_mut(|last| {
        if last.0 != folder {
            let info = content::info(&fd)?;
            *last = (folder.to_vec(), takes_claims(&fd, &info));
        }
        Ok(last.1)
    })
}

/// Holds the gate as long as it lives.
struct Gate<F: AsFd>(F);

impl<F: AsFd> Gate<F> {
    fn enter(fd: F) -> io::Result<Option<Self>> {
        Ok(locks::lock(&fd, GATE, 1)?.then_some(Self(fd)))
    }
}

impl<F: AsFd> Drop for Gate<F> {
    fn drop(&mut self) {
        // It goes with the file at last.
        let _ = locks::unlock(&self.0, GATE, 1);
    }
}

impl Claim {
    /// Claims a file that is open for writing.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn take(fd: impl AsFd, how: How) -> io::Result<Taken> {
        Self::take_at(fd, how, now())
    }

    /// Claims for a moment a regular file that was just made at `path`; false where another copy has
    /// seen it and claims it, or has written it meanwhile.
    pub(crate) fn take_new(fd: impl AsFd, path: &[u8]) -> bool {
        let end = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
        let folder = path.get(..end).unwrap_or_default();
        if !takes_claims_in(folder, &fd).unwrap_or(false) {
            return true;
        }
        locks::lock(&fd, FAR, ALL_PLACES + 1).unwrap_or(true)
            && content::end(&fd).is_ok_and(|end| end == 0)
    }

    fn take_at(fd: impl AsFd, how: How, at: Duration) -> io::Result<Taken> {
        let fd = fd.as_fd();
        let info = content::info(fd)?;
        if info.kind() != Kind::Regular || !takes_claims(fd, &info) {
            return Ok(Taken::Ours(None, info));
        }
        // Others may have written until now.
        let claim = |place| {
            let info = content::info(fd)?;
            let claim = Self {
                how,
                place,
                since: at,
                known: at,
                changed: since_epoch(info.modified),
                is_lost: false,
            };
            Ok(Taken::Ours(Some(claim), info))
        };
        if how == How::Further {
            return claim(0);
        }
        // Without locks nobody can be told from anybody.
        let Ok(is_first) = locks::lock(fd, FAR, ALL_PLACES + 1) else {
            return Ok(Taken::Ours(None, info));
        };
        if is_first {
            if how != How::Brief {
                let (begin, len) = place_since(0, at);
                let behind = begin + len;
                locks::unlock(fd, behind, GATE + 1 - behind)?;
            }
            return claim(0);
        }
        match take_over(fd, at) {
            Ok(Some(place)) => claim(place),
            _ => {
                let _ = locks::unlock(fd, FAR, ALL_PLACES);
                Ok(Taken::Busy)
            }
        }
    }

    /// [`Claim::take`], as often as there is patience.
    ///
    /// # Errors
    /// [`Busy`] within `Other`; what `look` says, which is asked between.
    pub(crate) fn wait(
        fd: impl AsFd,
        how: How,
        look: impl Fn() -> io::Result<()>,
    ) -> io::Result<(Option<Self>, Info)> {
        let begun = Instant::now();
        loop {
            match Self::take(&fd, how)? {
                Taken::Ours(claim, info) => return Ok((claim, info)),
                Taken::Busy if begun.elapsed() > PATIENCE => return Err(io::Error::other(Busy)),
                Taken::Busy => {}
            }
            look()?;
            std::thread::sleep(AGAIN);
        }
    }

    /// The file is about to be changed; `path` leads to it where several handles write it.
    ///
    /// # Errors
    /// [`Lost`], from then on always.
    pub(crate) fn check(
        &mut self,
        fd: impl AsFd,
        path: impl FnOnce() -> Option<Info>,
    ) -> Result<(), Lost> {
        self.check_at(fd, path, now())
    }

    fn check_at(
        &mut self,
        fd: impl AsFd,
        path: impl FnOnce() -> Option<Info>,
        at: Duration,
    ) -> Result<(), Lost> {
        if self.is_lost {
            return Err(Lost);
        }
        if self.how != How::Brief && at.abs_diff(self.known) > PAUSE {
            let is_ours = self.is_still_ours(fd.as_fd(), at, path);
            self.is_lost = !is_ours.unwrap_or(false);
            if self.is_lost {
                return Err(Lost);
            }
        }
        (self.known, self.changed) = (at, at);
        Ok(())
    }

    fn is_still_ours(
        &mut self,
        fd: impl AsFd,
        at: Duration,
        path: impl FnOnce() -> Option<Info>,
    ) -> io::Result<bool> {
        let fd = fd.as_fd();
        let mut tries = 0;
        let _gate = loop {
            if let Some(gate) = Gate::enter(fd)? {
                break gate;
            }
            tries += 1;
            if tries > GATE_TRIES {
                return Ok(false);
            }
            std::thread::sleep(GATE_WAIT);
        };
        let info = content::info(fd)?;
        let is_named = || path().is_some_and(|named| named.identity == info.identity);
        let is_last = || is_last(fd, self.since);
        let unchanged = since_epoch(info.modified).abs_diff(self.changed) <= CLOSE_BY;
        let is_ours = match self.how {
            How::Further => return Ok(is_named()),
            How::First => is_named() && is_last()?,
            How::Alone | How::Brief => unchanged && is_last()?,
        };
        if is_ours {
            let (begin, len) = place_since(self.place, at);
            locks::lock(fd, begin, len)?;
            self.since = at;
        }
        Ok(is_ours)
    }
}

/// Whether nobody has taken a place later: those before are dead, as far as anybody knows.
fn is_last(fd: impl AsFd, since: Duration) -> io::Result<bool> {
    for place in 0..PLACES {
        let (begin, ours) = place_since(place, since);
        let other = locks::others(&fd, begin, PLACE)?;
        if other.is_some_and(|(_, len)| len > ours) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Takes a place beside those of writers that are gone or may be dead. None where one of them writes.
fn take_over(fd: impl AsFd, at: Duration) -> io::Result<Option<u64>> {
    let fd = fd.as_fd();
    let Some(_gate) = Gate::enter(fd)? else {
        return Ok(None);
    };
    let info = content::info(fd)?;
    let is_stale = |then: Duration| at.abs_diff(then) > STALE;
    let mut free = None;
    let mut has_writer = false;
    for place in 0..PLACES {
        match locks::others(fd, FAR + place * PLACE, PLACE)? {
            None => free = free.or(Some(place)),
            Some((_, len)) if is_stale(Duration::from_secs(len)) => has_writer = true,
            Some(_) => return Ok(None),
        }
    }
    let Some(place) = free.filter(|_| !has_writer || is_stale(since_epoch(info.changed))) else {
        return Ok(None);
    };
    let (begin, len) = place_since(place, at);
    Ok(locks::lock(fd, begin, len)?.then_some(place))
}

#[cfg(test)]
#[path = "claim_tests.rs"]
mod tests;
