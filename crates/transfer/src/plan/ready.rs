//! Who has something to send, by connection.

use std::collections::VecDeque;

/// Numbers of what is ready, for each connection in its own turn; one may stand there twice.
#[derive(Debug)]
pub(crate) struct Ready {
    queues: Vec<VecDeque<usize>>,
}

impl Ready {
    /// For so many connections, at least one.
    pub(crate) fn new(links: usize) -> Self {
        Self {
            queues: vec![VecDeque::new(); links.max(1)],
        }
    }

    /// How many stand there.
    pub(crate) fn len(&self, link: usize) -> usize {
        self.queues.get(link).map_or(0, VecDeque::len)
    }

    /// It stands behind the others.
    pub(crate) fn add(&mut self, link: usize, number: usize) {
        if let Some(queue) = self.queues.get_mut(link) {
            queue.push_back(number);
        }
    }

    /// It stands before the others: what it sends goes out in a row.
    pub(crate) fn keep(&mut self, link: usize, number: usize) {
        if let Some(queue) = self.queues.get_mut(link) {
            queue.push_front(number);
        }
    }

    /// Takes the first.
    pub(crate) fn next(&mut self, link: usize) -> Option<usize> {
        self.queues.get_mut(link)?.pop_front()
    }
}
