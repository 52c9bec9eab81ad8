//! A client's memory of what it has asked: by id, in the order of sending.

use alloc::collections::BTreeMap;

/// Requests without an answer.
#[derive(Debug)]
pub struct Requests<T> {
    next: u32,
    waiting: BTreeMap<u32, T>,
}

impl<T> Default for Requests<T> {
    fn default() -> Self {
        Self {
            next: 1,
            waiting: BTreeMap::new(),
        }
    }
}

impl<T> Requests<T> {
    /// Without an answer.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Everything was answered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Remembers a request that is about to be sent; gives its id.
    pub fn insert(&mut self, request: T) -> u32 {
        // One that was asked 2^32 requests ago and has no answer keeps its id.
        while self.waiting.contains_key(&self.next) {
            self.next = self.next.wrapping_add(1);
        }
        let id = self.next;
        self.next = id.wrapping_add(1);
        self.waiting.insert(id, request);
        id
    }

    /// The request of this id, which stays: for those that are answered by many messages.
    pub fn find(&mut self, id: u32) -> Option<&mut T> {
        self.waiting.get_mut(&id)
    }

    /// Takes the request of this id; none for one that was not asked or was answered before.
    pub fn answered(&mut self, id: u32) -> Option<T> {
        self.waiting.remove(&id)
    }

    /// Those that wait, with their ids, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let behind = self.waiting.range(self.next..);
        let before = self.waiting.range(..self.next);
        behind.chain(before).map(|(id, request)| (*id, request))
    }
}
