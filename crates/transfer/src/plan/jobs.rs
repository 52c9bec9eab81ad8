//! Files in progress, and how many of their bytes are still to be transferred.

use super::id::FileId;
use super::slab::Slab;

/// Maximum number of outstanding bytes of all files in progress; further files wait.
const MAX_BYTES: u64 = 32 << 20;
/// Maximum number of files in progress.
const MAX_FILES: usize = 2048;

/// A file in progress.
pub(crate) trait Left {
    /// Number of bytes still to be sent or requested.
    fn left(&self) -> u64;
}

/// Files by id. A file is changed only through [`Jobs::change`], so that the count of
/// outstanding bytes stays exact: bytes counted for a file that is gone would keep every further
/// file from beginning.
#[derive(Debug)]
pub(crate) struct Jobs<J> {
    slab: Slab<FileId, J>,
    bytes: u64,
}

impl<J> Default for Jobs<J> {
    fn default() -> Self {
        Self {
            slab: Slab::default(),
            bytes: 0,
        }
    }
}

impl<J: Left> Jobs<J> {
    /// True if another file may begin.
    pub(crate) fn takes_more(&self) -> bool {
        self.bytes < MAX_BYTES && self.slab.len() < MAX_FILES
    }

    /// Inserts the file that `make` returns for its id.
    pub(crate) fn insert(&mut self, make: impl FnOnce(FileId) -> J) -> FileId {
        let bytes = &mut self.bytes;
        self.slab.insert_with(|id| {
            let job = make(id);
            *bytes = bytes.saturating_add(job.left());
            job
        })
    }

    /// Removes and returns a file.
    pub(crate) fn remove(&mut self, id: FileId) -> Option<J> {
        let job = self.slab.remove(id)?;
        self.bytes = self.bytes.saturating_sub(job.left());
        Some(job)
    }

    /// Calls `how` with a file and updates the count of outstanding bytes; `None` if the id is not
    /// in use.
    pub(crate) fn change<R>(&mut self, id: FileId, how: impl FnOnce(&mut J) -> R) -> Option<R> {
        let job = self.slab.get_mut(id)?;
        let before = job.left();
        let result = how(job);
        let after = job.left();
        self.bytes = self.bytes.saturating_sub(before).saturating_add(after);
        Some(result)
    }

    /// True if there are no files.
    pub(crate) fn is_empty(&self) -> bool {
        self.slab.is_empty()
    }

    /// Returns the first file for which `is_it` returns true, with its id.
    pub(crate) fn find(&self, is_it: impl Fn(&J) -> bool) -> Option<(FileId, &J)> {
        let mut jobs = self
            .slab
            .ids()
            .filter_map(|id| Some((id, self.slab.get(id)?)));
        jobs.find(|(_, job)| is_it(job))
    }

    /// Ids of all files.
    pub(crate) fn ids(&self) -> Vec<FileId> {
        self.slab.ids().collect()
    }
}
