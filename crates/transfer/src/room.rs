//! Room for what is still to come of a large file, set aside before it is written.
//!
//! Where the file system notes extents (ext4, XFS) that costs next to nothing, and a write into them a
//! quarter less (measured on ext4). Where it takes pages of memory (tmpfs), it is half of
//! the work of writing, and is done while nothing else is to be done: over a long path nearly a second
//! goes by before data come at full speed. Elsewhere nothing is set aside: a file system over a
//! network would be asked, and one that compresses would stop that.
//!
//! What is set aside is behind the file's end, and nobody sees it there. A copy that ends, well or not,
//! gives back what it did not use; one that is killed leaves it: [`STEP_BYTES`], or a part of
//! [`LEAD_BYTES`], which go with the file or when it is cut. Where room cannot be had, nothing is said: the
//! write that needs it will say why. A server's word for a length is worth little at first: how far
//! ahead memory is taken follows what has come.

use std::os::fd::AsFd;

use sys::fs::content::{self, Keeping};
use sys::process::Resource;

/// A file of which less is to come gets none, bytes.
const LEAST_BYTES: u64 = 16 << 20;
/// What is noted ahead of the writes at once, bytes.
const STEP_BYTES: u64 = 64 << 20;
/// Memory that is taken at once, bytes: half a millisecond.
const SLICE_BYTES: u64 = 2 << 20;
/// And ahead of the writes: so much at first, bytes, so many times what is written, and at most, bytes.
const FIRST_LEAD_BYTES: u64 = 256 << 20;
const LEAD_PARTS: u64 = 8;
const LEAD_BYTES: u64 = 1 << 30;

/// One file's. See the module's head.
#[derive(Debug)]
pub(crate) struct Room {
    /// Where the file will end, as far as room is still worth setting aside.
    end: u64,
    /// What is before it has room.
    to: u64,
    /// The file system, once it was asked.
    keeping: Option<Keeping>,
}

impl Room {
    /// For a file that will have `end` bytes, of which those before `front` are there.
    pub(crate) fn new(front: u64, end: u64) -> Option<Self> {
        // Beyond this limit comes a signal; it is to come with the write.
        let limit = sys::process::limit(Resource::FileSize).map_or(0, |limit| limit.soft);
        let end = end.min(limit);
        (end.saturating_sub(front) >= LEAST_BYTES).then_some(Self {
            end,
            to: front,
            keeping: None,
        })
    }

    /// What is before `front` is written, and more will be: sets aside what costs nothing.
    pub(crate) fn advance(&mut self, file: impl AsFd, front: u64) {
        if self.keeping(&file) == Keeping::Extents && front.saturating_add(STEP_BYTES / 2) > self.to
        {
            self.set_aside(file, front, STEP_BYTES);
        }
    }

    /// It takes memory for what is still to come.
    pub(crate) fn takes_memory(&self, front: u64) -> bool {
        self.keeping == Some(Keeping::Pages) && self.to.max(front) < self.end
    }

    /// There is something to be done while nothing else is.
    pub(crate) fn has_work(&self, front: u64) -> bool {
        let lead = FIRST_LEAD_BYTES.saturating_add(front.saturating_mul(LEAD_PARTS));
        self.takes_memory(front) && self.to < front.saturating_add(lead.min(LEAD_BYTES))
    }

    /// Does a little of it: half a millisecond.
    pub(crate) fn work(&mut self, file: impl AsFd, front: u64) {
        if self.has_work(front) {
            self.set_aside(file, front, SLICE_BYTES);
        }
    }

    /// Some of it was not used.
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
            // What was had before it failed is given back with the rest.
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

    /// What the file takes of its file system, bytes.
    fn taken(file: &File) -> u64 {
        file.metadata().unwrap().blocks() * 512
    }

    /// An empty file on each kind of file system that is at hand, with the kind.
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
            // To the end and no further.
            for front in [100, 150, 190, 200] {
                room.advance(&file, front * MIB);
            }
            assert!(taken(&file) <= 201 * MIB);
            assert_eq!(room.is_left(0), keeping != Keeping::Other);
            assert!(!room.is_left(200 * MIB));
            // Its own length gives it back.
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
        // It came so fast that nothing was ever set aside.
        for front in [200 * MIB, 300 * MIB] {
            assert!(!room.has_work(front) && !room.takes_memory(front));
        }
        assert!(room.has_work(200 * MIB - 1));
    }

    #[test]
    fn what_cannot_be_had_is_not_asked_for_again() {
        // Nothing can be set aside for what is only read.
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
