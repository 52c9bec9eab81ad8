//! Queues of files and directories that have something to send, per connection.

use std::collections::VecDeque;

use super::id::Subject;

/// Ready files and directories, a queue per connection; one may be queued twice.
#[derive(Debug)]
pub(crate) struct Ready {
    queues: Vec<VecDeque<Subject>>,
}

impl Ready {
    /// Creates queues for `links` connections, at least one.
    pub(crate) fn new(links: usize) -> Self {
        Self {
            queues: vec![VecDeque::new(); links.max(1)],
        }
    }

    /// Returns true if the connection is one that the work uses.
    pub(crate) fn has_queue(&self, link: usize) -> bool {
        link < self.queues.len()
    }

    /// Number of entries queued for the connection.
    pub(crate) fn len(&self, link: usize) -> usize {
        self.queues.get(link).map_or(0, VecDeque::len)
    }

    /// Appends to the queue.
    pub(crate) fn add(&mut self, link: usize, subject: Subject) {
        if let Some(queue) = self.queues.get_mut(link) {
            queue.push_back(subject);
        }
    }

    /// Puts a subject at the front of the queue, so that it sends its requests in a row.
    pub(crate) fn keep(&mut self, link: usize, subject: Subject) {
        if let Some(queue) = self.queues.get_mut(link) {
            queue.push_front(subject);
        }
    }

    /// Removes and returns the first of the queue.
    pub(crate) fn next(&mut self, link: usize) -> Option<Subject> {
        self.queues.get_mut(link)?.pop_front()
    }
}
