//! Queues of jobs that have something to send, per connection.

use std::collections::VecDeque;

/// Numbers of ready jobs, a queue per connection; a number may be queued twice.
#[derive(Debug)]
pub(crate) struct Ready {
    queues: Vec<VecDeque<usize>>,
}

impl Ready {
    /// Creates queues for `links` connections, at least one.
    pub(crate) fn new(links: usize) -> Self {
        Self {
            queues: vec![VecDeque::new(); links.max(1)],
        }
    }

    /// Number of entries queued for the connection.
    pub(crate) fn len(&self, link: usize) -> usize {
        self.queues.get(link).map_or(0, VecDeque::len)
    }

    /// Appends a number to the queue.
    pub(crate) fn add(&mut self, link: usize, number: usize) {
        if let Some(queue) = self.queues.get_mut(link) {
            queue.push_back(number);
        }
    }

    /// Puts a number at the front of the queue, so that a job sends its requests in a row.
    pub(crate) fn keep(&mut self, link: usize, number: usize) {
        if let Some(queue) = self.queues.get_mut(link) {
            queue.push_front(number);
        }
    }

    /// Removes and returns the first number.
    pub(crate) fn next(&mut self, link: usize) -> Option<usize> {
        self.queues.get_mut(link)?.pop_front()
    }
}
