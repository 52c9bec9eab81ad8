//! Files that have begun, and how many of their bytes are still to go.

use super::slab::Slab;

/// Bytes of files that have begun and are still to go, at most: further files wait.
const MAX_BYTES: u64 = 32 << 20;
/// Files at most that have begun.
const MAX_FILES: usize = 2048;

/// A file under way.
pub(crate) trait Left {
    /// Bytes that are still to be sent, or to be asked for.
    fn left(&self) -> u64;
}

/// Files by number. A file is changed through [`Jobs::change`] and no other way, so that what is
/// counted of it is what is left of it: bytes that stayed counted behind their file would keep
/// every further file from beginning.
#[derive(Debug)]
pub(crate) struct Jobs<J> {
    slab: Slab<J>,
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
    /// Another file may begin.
    pub(crate) fn takes_more(&self) -> bool {
        self.bytes < MAX_BYTES && self.slab.len() < MAX_FILES
    }

    /// Puts a file in; gives its number.
    pub(crate) fn insert(&mut self, job: J) -> usize {
        self.bytes = self.bytes.saturating_add(job.left());
        self.slab.insert(job)
    }

    /// Takes a file out.
    pub(crate) fn remove(&mut self, index: usize) -> Option<J> {
        let job = self.slab.remove(index)?;
        self.bytes = self.bytes.saturating_sub(job.left());
        Some(job)
    }

    /// Lets something happen to a file; none where there is none of this number.
    pub(crate) fn change<R>(&mut self, index: usize, how: impl FnOnce(&mut J) -> R) -> Option<R> {
        let job = self.slab.get_mut(index)?;
        let before = job.left();
        let result = how(job);
        let after = job.left();
        self.bytes = self.bytes.saturating_sub(before).saturating_add(after);
        Some(result)
    }

    /// There is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.slab.is_empty()
    }

    /// The first of which this is true, and its number.
    pub(crate) fn find(&self, is_it: impl Fn(&J) -> bool) -> Option<(usize, &J)> {
        let mut jobs = self
            .slab
            .indexes()
            .filter_map(|index| Some((index, self.slab.get(index)?)));
        jobs.find(|(_, job)| is_it(job))
    }

    /// The numbers of all.
    pub(crate) fn indexes(&self) -> Vec<usize> {
        self.slab.indexes().collect()
    }
}
