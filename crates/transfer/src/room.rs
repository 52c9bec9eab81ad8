//! Preallocation: reserves disk space for the rest of a large file before it is written.
//!
//! On file systems with extents (ext4, XFS) preallocation costs almost nothing and makes the writes
//! a quarter cheaper (measured on ext4). On tmpfs it allocates pages, which is half of the work of
//! writing; it is then done while the copy is idle: over a long path nearly a second passes before
//! data arrives at full speed. Other file systems get no preallocation: one on the network would
//! have to be asked, and one that compresses would stop compressing.
//!
//! The reserved space lies after the end of the file, where readers do not see it. A copy that
//! ends, successfully or not, releases the unused part. A killed copy leaves up to [`STEP_BYTES`],
//! or a part of [`LEAD_BYTES`], which are freed when the file is removed or truncated. A failed
//! reservation is not reported: the write that needs the space will fail with its own error. A
//! server may claim any length, so the amount of memory reserved grows with the bytes received.

use std::os::fd::AsFd;

use sys::fs::content::{self, Keeping};
use sys::process::Resource;

/// Minimum number of bytes left for which space is reserved.
const LEAST_BYTES: u64 = 16 << 20;
/// Step of a reservation on file systems with extents, bytes.
const STEP_BYTES: u64 = 64 << 20;
/// Step of a reservation in memory, bytes: half a millisecond of work.
const SLICE_BYTES: u64 = 2 << 20;
/// Limit of the memory reserved beyond the bytes written, in bytes: [`FIRST_LEAD_BYTES`] plus
/// [`LEAD_PARTS`] times the bytes written, at most [`LEAD_BYTES`].
const FIRST_LEAD_BYTES: u64 = 256 << 20;
const LEAD_PARTS: u64 = 8;
const LEAD_BYTES: u64 = 1 << 30;

/// Preallocation state of one file.
#[derive(Debug)]
pub(crate) struct Room {
    /// End of the range worth reserving: the expected length, or 0 after a failed reservation.
    end: u64,
    /// End of the reserved range.
    to: u64,
    /// Kind of the file system, once determined.
    keeping: Option<Keeping>,
}

impl Room {
    /// Creates the state for a file of `end` bytes, of which the first `front` are written; `None`
    /// if too few are left.
    pub(crate) fn new(front: u64, end: u64) -> Option<Self> {
        // A write beyond this limit raises SIGXFSZ; do not reserve beyond it, so that the write
        // raises it.
        let limit = sys::process::limit(Resource::FileSize).map_or(0, |limit| limit.soft);
        let end = end.min(limit);
        (end.saturating_sub(front) >= LEAST_BYTES).then_some(Self {
            end,
            to: front,
            keeping: None,
        })
    }

    /// Reserves the next step on a file system with extents; all before `front` is written and more
    /// will be.
    pub(crate) fn advance(&mut self, file: impl AsFd, front: u64) {
        if self.keeping(&file) == Keeping::Extents && front.saturating_add(STEP_BYTES / 2) > self.to
        {
            self.set_aside(file, front, STEP_BYTES);
        }
    }

    /// True if the file system allocates memory and the rest of the file is not reserved yet.
    pub(crate) fn takes_memory(&self, front: u64) -> bool {
        self.keeping == Some(Keeping::Pages) && self.to.max(front) < self.end
    }

    /// True if more memory should be reserved while the copy is idle.
    pub(crate) fn has_work(&self, front: u64) -> bool {
        let lead = FIRST_LEAD_BYTES.saturating_add(front.saturating_mul(LEAD_PARTS));
        self.takes_memory(front) && self.to < front.saturating_add(lead.min(LEAD_BYTES))
    }

    /// Reserves one step of memory, which takes half a millisecond.
    pub(crate) fn work(&mut self, file: impl AsFd, front: u64) {
        if self.has_work(front) {
            self.set_aside(file, front, SLICE_BYTES);
        }
    }

    /// True if reserved space after `front` is unused.
    pub(crate) fn is_left(&self, front: u64) -> bool {
        self.to > front
    }

    fn keeping(&mut self, file: impl AsFd) -> Keeping {
        *self
            .keeping
            .get_or_insert_with(|| content::keeping(file).unwrap_or(Keeping::Other))
    }

    fn set_aside(&mut self, file: impl AsFd, front: u64, bytes: u64) {
        let from = self.to.max(front);
        let to = from.saturating_add(bytes).min(self.end);
        if from >= to {
            return;
        }
        match content::set_aside(file, from, to - from) {
            Ok(()) => self.to = to,
            // Whatever was reserved before the failure is released with the rest.
            Err(_) => (self.to, self.end) = (to, 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::MetadataExt;

    use super::*;
    use crate::scratch::Scratch;

    const MIB: u64 = 1 << 20;

    /// Number of bytes that the file occupies on its file system.
    fn taken(file: &File) -> u64 {
        file.metadata().unwrap().blocks() * 512
    }

    /// An empty file on each available kind of file system, with the kind.
    fn files() -> Vec<(Scratch, File, Keeping)> {
        let here = [Some(Scratch::new()), Scratch::in_memory()];
        let files = here.into_iter().flatten().map(|scratch| {
            let file = File::create_new(scratch.join("file")).unwrap();
            let keeping = content::keeping(&file).unwrap();
            (scratch, file, keeping)
        });
        files.collect()
    }

    #[test]
    fn a_small_file_gets_no_room() {
        assert!(Room::new(0, LEAST_BYTES - 1).is_none());
        assert!(Room::new(100 * MIB, 100 * MIB + LEAST_BYTES - 1).is_none());
        assert!(Room::new(0, LEAST_BYTES).is_some());
    }

    #[test]
    fn extents_are_noted_ahead_of_the_writes_and_memory_while_nothing_is_to_be_done() {
        for (_scratch, file, keeping) in files() {
            let mut room = Room::new(0, 200 * MIB).unwrap();
            assert!(!room.has_work(0), "nothing was written");
            room.advance(&file, 0);
            let noted = match keeping {
                Keeping::Extents => STEP_BYTES,
                Keeping::Pages | Keeping::Other => 0,
            };
            assert!(taken(&file) >= noted && (noted > 0 || taken(&file) == 0));
            assert_eq!(file.metadata().unwrap().len(), 0);
            assert_eq!(room.has_work(0), keeping == Keeping::Pages);
            let mut turns = 0;
            while room.has_work(0) {
                room.work(&file, 0);
                turns += 1;
            }
            match keeping {
                Keeping::Pages => assert_eq!((turns, taken(&file)), (100, 200 * MIB)),
                Keeping::Extents | Keeping::Other => assert_eq!(turns, 0),
            }
            // Up to the end of the file, not beyond.
            for front in [100, 150, 190, 200] {
                room.advance(&file, front * MIB);
            }
            assert!(taken(&file) <= 201 * MIB);
            assert_eq!(room.is_left(0), keeping != Keeping::Other);
            assert!(!room.is_left(200 * MIB));
            // Truncating the file releases the space.
            file.set_len(0).unwrap();
            assert_eq!(taken(&file), 0, "{keeping:?}");
        }
    }

    #[test]
    fn memory_is_taken_as_far_ahead_as_what_has_come_is_worth() {
        let mut room = Room::new(0, 100 << 30).unwrap();
        room.keeping = Some(Keeping::Pages);
        for (front, lead) in [(0, 256), (32, 512), (96, 1024), (10_000, 1024)] {
            let front = front * MIB;
            room.to = front + lead * MIB - 1;
            assert!(room.has_work(front));
            room.to += 1;
            assert!(!room.has_work(front) && room.takes_memory(front));
        }
    }

    #[test]
    fn a_file_that_is_all_there_has_no_work_left() {
        let mut room = Room::new(0, 200 * MIB).unwrap();
        room.keeping = Some(Keeping::Pages);
        // The data arrived before anything was reserved.
        for front in [200 * MIB, 300 * MIB] {
            assert!(!room.has_work(front) && !room.takes_memory(front));
        }
        assert!(room.has_work(200 * MIB - 1));
    }

    #[test]
    fn what_cannot_be_had_is_not_asked_for_again() {
        // Reserving fails for a file open only for reading.
        let scratch = Scratch::in_memory().unwrap_or_else(Scratch::new);
        std::fs::write(scratch.join("file"), b"content").unwrap();
        let file = File::open(scratch.join("file")).unwrap();
        let mut room = Room::new(0, 200 * MIB).unwrap();
        room.keeping = Some(Keeping::Pages);
        room.work(&file, 0);
        assert!(!room.has_work(0));
        room.keeping = Some(Keeping::Extents);
        room.advance(&file, 0);
        assert_eq!(file.metadata().unwrap().len(), 7);
    }
}
