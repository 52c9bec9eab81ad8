//! Memory while nothing happens: what bulk data has left is given back when the connection has
//! been idle for a moment. Which memory that is, and how little small packets need, is known to
//! `packet`.

use super::Transport;
use super::streams::InStream;
use crate::Millis;

/// The pause after which a connection is idle, milliseconds: longer than those of a transfer
/// that goes on, which then asks for new memory once a second at most.
const IDLE_MS: Millis = 1000;

impl Transport {
    /// A packet came, has left or was dealt with. Asks for no deadline unless there is something
    /// to give back.
    pub(crate) fn note_activity(&mut self) {
        self.active_at = Some(self.now);
    }

    /// When memory is to be given back: once behind each activity.
    pub(super) fn shed_deadline(&self) -> Option<Millis> {
        let spare = self.pool.has_spare()
            || self.splitter.has_spare()
            || self.prepared.is_some()
            || self.out_stream.has_spare()
            || self.in_stream.as_ref().is_some_and(InStream::has_spare);
        self.active_at
            .filter(|_| spare)
            .map(|active_at| active_at.saturating_add(IDLE_MS))
    }

    pub(super) fn shed_if_idle(&mut self) -> bool {
        if self.shed_deadline().is_none_or(|at| self.now < at) {
            return false;
        }
        self.active_at = None;
        self.shed();
        true
    }

    /// Gives back what is not in use, whether or not anything is going on.
    pub(crate) fn shed(&mut self) {
        self.pool.shed();
        self.prepared = None;
        self.splitter.shed();
        self.out_stream.shed();
        if let Some(stream) = &mut self.in_stream {
            stream.shed();
        }
        self.output.shrink_to_fit();
        self.events.shrink_to_fit();
    }
}
