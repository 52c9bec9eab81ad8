//! A client's unanswered requests by id.

use alloc::collections::BTreeMap;

/// Unanswered requests of a client, with data of type `T` for each.
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
    /// Number of unanswered requests.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// True if every request was answered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Records a request about to be sent and returns its id.
    pub fn insert(&mut self, request: T) -> u32 {
        // The id may still be in use by an unanswered request, 2^32 requests ago.
        while self.waiting.contains_key(&self.next) {
            self.next = self.next.wrapping_add(1);
        }
        let id = self.next;
        self.next = id.wrapping_add(1);
        self.waiting.insert(id, request);
        id
    }

    /// Returns the request of this id without removing it: for requests that are answered by
    /// several messages.
    pub fn find(&mut self, id: u32) -> Option<&mut T> {
        self.waiting.get_mut(&id)
    }

    /// Removes and returns the request of this id; `None` if no unanswered request has it.
    pub fn answered(&mut self, id: u32) -> Option<T> {
        self.waiting.remove(&id)
    }

    /// Iterates over the unanswered requests with their ids, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let older = self.waiting.range(self.next..);
        let newer = self.waiting.range(..self.next);
        older.chain(newer).map(|(id, request)| (*id, request))
    }
}
