//! Local files to which received data are written.

use std::collections::BTreeMap;
use std::fs::{File, FileTimes, OpenOptions};
use std::io::{self, IoSlice};
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use sftp::{ExactTimes, Timestamp};

use crate::part::PartNames;
use crate::room::Room;
use crate::watch::{Targets, Watch};

mod fifo;
mod part;

/// Smallest number of zero bytes in a piece that becomes a hole.
const HOLE_BYTES: usize = 4096;

/// How a target is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opening {
    /// Existing content is truncated, unless the file has this size and time: then it may be the
    /// source.
    Anew {
        /// Bytes.
        len: Option<u64>,
        /// Seconds.
        modified: Option<i64>,
    },
    /// Existing content is kept.
    GoOn,
}

/// A target file. It records how many bytes from its beginning are written without a gap.
#[derive(Debug)]
pub struct Sink {
    file: File,
    path: PathBuf,
    /// The name that a part file gets at the end.
    target: Option<PathBuf>,
    /// True for a part file that a later copy of the same source finds.
    is_findable: bool,
    /// All bytes before this offset are written.
    front: u64,
    /// Ranges that are written after a gap: start and end.
    ahead: BTreeMap<u64, u64>,
    len_before: u64,
    regular: bool,
    holes: bool,
    /// True if it may be the source, so that existing content is not truncated.
    in_place: bool,
    room: Option<Room>,
    /// `Some` for a target that is written in place.
    watch: Option<Watch>,
}

/// Converts a time to the system's form; a time out of its range becomes the nearest one.
#[must_use]
pub fn system_time(at: Timestamp) -> SystemTime {
    let part = Duration::from_nanos(u64::from(at.nanoseconds));
    let whole = Duration::from_secs(at.seconds.unsigned_abs());
    let base = match at.seconds >= 0 {
        true => UNIX_EPOCH.checked_add(whole),
        false => UNIX_EPOCH.checked_sub(whole),
    };
    base.and_then(|base| base.checked_add(part))
        .unwrap_or(UNIX_EPOCH)
}

/// Sets access and modification times.
///
/// # Errors
/// The system's.
pub fn set_times(file: &File, times: &ExactTimes) -> io::Result<()> {
    let times = FileTimes::new()
        .set_accessed(system_time(times.accessed))
        .set_modified(system_time(times.modified));
    file.set_times(times)
}

impl Sink {
    /// A target that was just created and is empty.
    #[must_use]
    pub fn made(file: File, path: PathBuf, holes: bool) -> Self {
        Self {
            file,
            path,
            target: None,
            is_findable: false,
            front: 0,
            ahead: BTreeMap::new(),
            len_before: 0,
            regular: true,
            holes,
            in_place: false,
            room: None,
            watch: Some(Watch::of_empty()),
        }
    }

    /// Opens the target, and creates it with `mode` if it does not exist. With `beside`, opens a
    /// part file of one of these names in the target's directory, which [`Sink::finish`] renames to
    /// the target; the part file has the mode of the file that it replaces, else the mode of a new
    /// file, before it has content. `targets` are the files that the copy writes in place.
    ///
    /// # Errors
    /// The system's error; `Interrupted` if a signal ended the wait for a FIFO's reader.
    pub(crate) fn open(
        target: &Path,
        mode: u32,
        opening: Opening,
        beside: Option<&PartNames>,
        holes: bool,
        targets: &Targets,
    ) -> io::Result<Self> {
        let mode = mode & 0o777 | 0o200;
        match beside {
            Some(names) => Self::open_beside(target, mode, opening, names, holes),
            None => Self::open_in_place(target, mode, opening, holes, targets),
        }
    }

    fn open_beside(
        target: &Path,
        mode: u32,
        opening: Opening,
        names: &PartNames,
        holes: bool,
    ) -> io::Result<Self> {
        let there = std::fs::symlink_metadata(target).ok();
        let replaced = there
            .filter(|there| there.is_file())
            .map(|there| there.permissions().mode() & 0o777);
        let part = part::open(target, names, replaced.map_or(mode, |mode| mode | 0o200))?;
        let made = part.is_left.then(|| mode & !sys::process::umask());
        let mut sink = Self::made(part.file, part.path, holes);
        sink.target = Some(target.to_path_buf());
        // No other process knows its name or has its lock.
        sink.watch = None;
        sink.is_findable = part.is_findable;
        let set = || {
            if let Some(mode) = replaced.or(made) {
                let permissions = std::fs::Permissions::from_mode(mode);
                sink.file.set_permissions(permissions)?;
            }
            sink.file.metadata()
        };
        let prepared = set().and_then(|metadata| {
            sink.len_before = metadata.len();
            match opening {
                Opening::Anew { .. } if sink.len_before > 0 => sink.cut(0),
                _ => Ok(()),
            }
        });
        match prepared {
            Ok(()) => Ok(sink),
            Err(error) => {
                sink.give_up(false);
                Err(error)
            }
        }
    }

    fn open_in_place(
        target: &Path,
        mode: u32,
        opening: Opening,
        holes: bool,
        targets: &Targets,
    ) -> io::Result<Self> {
        let path = target.to_path_buf();
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(mode);
        if matches!(opening, Opening::Anew { .. }) {
            match options.clone().create_new(true).open(&path) {
                // Most targets do not exist yet; a new file needs no check.
                Ok(file) => return Ok(Self::made(file, path, holes)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        let file = match opening {
            _ if fifo::is_one(&path) => fifo::open(&path),
            // Reading is needed to verify existing content only; a write-only target is sufficient.
            Opening::GoOn => options.clone().read(true).open(&path),
            Opening::Anew { .. } => options.open(&path),
        }?;
        let metadata = file.metadata()?;
        let regular = metadata.is_file();
        let watch = regular.then(|| Watch::of(&file)).transpose()?;
        if let Some(watch) = &watch {
            targets.add(watch);
        }
        let mut sink = Self {
            len_before: metadata.len(),
            regular,
            holes: holes && regular,
            watch,
            ..Self::made(file, path, holes)
        };
        if let Opening::Anew { len, modified } = opening {
            let seconds = crate::source::times_of(&metadata).modified.seconds;
            let may_be_source =
                len == Some(metadata.len()) && modified.is_none_or(|at| at == seconds);
            if regular && metadata.len() > 0 && may_be_source {
                // A hole would keep the old content.
                (sink.in_place, sink.holes) = (true, false);
            } else if regular && metadata.len() > 0 {
                sink.cut(0)?;
            }
        }
        Ok(sink)
    }

    /// Length of the existing content, bytes.
    #[must_use]
    pub fn len_before(&self) -> u64 {
        self.len_before
    }

    /// The open file.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Keeps the existing content up to `offset` as part of the copy and removes the rest.
    ///
    /// # Errors
    /// The system's.
    pub fn go_on_at(&mut self, offset: u64) -> io::Result<()> {
        self.front = offset;
        if self.len_before > offset {
            self.cut(offset)?;
        }
        Ok(())
    }

    /// Announces the final length: space is preallocated as data arrive, and by [`Sink::work`].
    pub fn expect(&mut self, end: u64) {
        if self.gathers() && !self.in_place {
            self.room = Room::new(self.front, end);
        }
    }

    /// True if the file system allocates memory and the rest of the file is not reserved yet.
    #[must_use]
    pub fn takes_memory(&self) -> bool {
        self.room
            .as_ref()
            .is_some_and(|room| room.takes_memory(self.front))
    }

    /// True if [`Sink::work`] has something to do.
    #[must_use]
    pub fn has_work(&self) -> bool {
        self.room
            .as_ref()
            .is_some_and(|room| room.has_work(self.front))
    }

    /// Does idle work for about half a millisecond.
    pub fn work(&mut self) {
        // The next operation reports another writer.
        if let Some(room) = &mut self.room
            && self
                .watch
                .as_mut()
                .is_none_or(|watch| watch.check(&self.file).is_ok())
        {
            room.work(&self.file, self.front);
            if let Some(watch) = &mut self.watch {
                let _ = watch.changed(&self.file);
            }
        }
    }

    fn cut(&mut self, len: u64) -> io::Result<()> {
        self.check()?;
        self.file.set_len(len)?;
        self.len_before = len;
        match &mut self.watch {
            Some(watch) => watch.cut(&self.file, len),
            None => Ok(()),
        }
    }

    /// Checks that no other process writes the file.
    fn check(&mut self) -> io::Result<()> {
        match &mut self.watch {
            Some(watch) => watch.check(&self.file),
            None => Ok(()),
        }
    }

    /// Records our own write up to `end`.
    fn wrote(&mut self, end: u64, written: io::Result<()>) -> io::Result<()> {
        match (&mut self.watch, written) {
            (Some(watch), Ok(())) => watch.wrote(&self.file, end),
            (Some(watch), Err(error)) => watch.restart(&self.file).and(Err(error)),
            (None, written) => written,
        }
    }

    /// All bytes before this offset are written.
    #[must_use]
    pub fn front(&self) -> u64 {
        self.front
    }

    /// Writes a piece at `offset`.
    ///
    /// # Errors
    /// The system's error; the bytes written so far count.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let end = offset.saturating_add(as_u64(bytes.len()));
        if self.holes && bytes.len() >= HOLE_BYTES && is_zero(bytes) {
            self.note(offset, end);
            return Ok(());
        }
        self.check()?;
        let written = self.write_bytes(offset, bytes);
        self.wrote(end, written)
    }

    /// Writes the whole content of a new file.
    ///
    /// # Errors
    /// The system's error; the bytes written so far count.
    pub fn write_whole(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.holes || self.watch.is_none() {
            return self.write(0, bytes);
        }
        self.write_bytes(0, bytes)?;
        if let Some(watch) = &mut self.watch {
            watch.wrote_last(as_u64(bytes.len()));
        }
        Ok(())
    }

    fn write_bytes(&mut self, mut at: u64, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            // A device or a pipe has no offsets.
            let written = match self.regular {
                true => self.file.write_at(bytes, at),
                false => fifo::write(&self.file, bytes),
            };
            match written {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    self.note(at, at + as_u64(count));
                    at += as_u64(count);
                    bytes = bytes.get(count..).unwrap_or_default();
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// True if consecutive pieces may be written in one call ([`Sink::write_pieces`]).
    #[must_use]
    pub fn gathers(&self) -> bool {
        self.regular && !self.holes
    }

    /// True if zeros need not be written, because unwritten ranges are holes.
    #[must_use]
    pub fn leaves_holes(&self) -> bool {
        self.holes
    }

    /// Leaves a hole of `len` bytes at `offset`.
    pub fn leave_hole(&mut self, offset: u64, len: u64) {
        self.note(offset, offset.saturating_add(len));
    }

    /// Writes consecutive pieces from `offset` on, into a file that [gathers](Sink::gathers).
    ///
    /// # Errors
    /// The system's error; the bytes written so far count.
    pub fn write_pieces(&mut self, offset: u64, pieces: &[Bytes]) -> io::Result<()> {
        self.check()?;
        if let Some(room) = &mut self.room {
            room.advance(&self.file, self.front);
        }
        let mut at = offset;
        let written = self.write_slices(&mut at, pieces);
        self.wrote(at, written)
    }

    fn write_slices(&mut self, at: &mut u64, pieces: &[Bytes]) -> io::Result<()> {
        let mut slices: Vec<IoSlice<'_>> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
        let mut rest = slices.as_mut_slice();
        while !rest.is_empty() {
            let count = sys::fs::content::write_pieces_at(&self.file, rest, *at)?;
            if count == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            self.note(*at, *at + as_u64(count));
            *at += as_u64(count);
            IoSlice::advance_slices(&mut rest, count);
        }
        Ok(())
    }

    fn note(&mut self, begin: u64, end: u64) {
        if begin > self.front {
            let known = self.ahead.entry(begin).or_insert(end);
            *known = (*known).max(end);
            return;
        }
        self.front = self.front.max(end);
        while let Some(entry) = self.ahead.first_entry() {
            if *entry.key() > self.front {
                break;
            }
            self.front = self.front.max(entry.remove());
        }
    }

    /// Finishes after the last write: sets length, mode and times, and renames a part file to its
    /// target.
    ///
    /// # Errors
    /// The failed operation with its error; the part file is removed then.
    pub fn finish(
        mut self,
        kept: Option<(u32, Option<ExactTimes>)>,
        sync: bool,
    ) -> Result<(), String> {
        let finished = self.complete(kept, sync);
        if finished.is_err() && self.target.is_some() {
            // A file that cannot be finished or renamed now cannot be later either.
            let _ = std::fs::remove_file(&self.path);
        }
        finished
    }

    fn complete(
        &mut self,
        kept: Option<(u32, Option<ExactTimes>)>,
        sync: bool,
    ) -> Result<(), String> {
        let shown = crate::plan::shown(&self.path);
        let failed = |what: &str| {
            let what = what.to_owned();
            let shown = shown.clone();
            move |error: io::Error| format!("{what} \"{shown}\": {}", crate::text::reason(&error))
        };
        let left = self
            .room
            .take()
            .is_some_and(|room| room.is_left(self.front));
        self.check().map_err(failed("write local"))?;
        if self.regular && (self.len_before > self.front || self.holes || left) {
            let front = self.front;
            self.cut(front).map_err(failed("local truncate"))?;
        }
        if let Some((mode, times)) = kept {
            let permissions = std::fs::Permissions::from_mode(mode & 0o777);
            self.file
                .set_permissions(permissions)
                .map_err(failed("local set mode on"))?;
            if let Some(times) = times {
                set_times(&self.file, &times).map_err(failed("local set times on"))?;
                if let Some(watch) = &mut self.watch {
                    watch.changed(&self.file).map_err(failed("write local"))?;
                }
            }
        }
        if sync {
            self.file.sync_all().map_err(failed("local fsync"))?;
            self.check().map_err(failed("write local"))?;
        }
        if let Some(target) = &self.target {
            std::fs::rename(&self.path, target).map_err(failed("local rename"))?;
        }
        Ok(())
    }

    /// Ends a failed copy: truncates the file after the last byte without a gap, unless another
    /// process writes it. A part file is removed, unless it `stays` for a later copy of the same
    /// source, which must be able to find it.
    pub fn give_up(mut self, stays: bool) {
        let front = self.front;
        // The first failure is reported; a second one adds nothing.
        if self.regular && !self.in_place {
            let _ = self.cut(front);
        }
        if self.target.is_some() && !(stays && self.is_findable) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn as_u64(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().fold(0, |all, byte| all | byte) == 0
}

#[cfg(test)]
mod tests;
