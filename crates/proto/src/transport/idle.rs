//! Memory of an idle connection: memory for bulk data is freed when the connection has been idle
//! for a while. `packet` knows which memory that is, and how little small packets need.

use super::Transport;
use crate::Millis;

/// Time after which a connection is idle, milliseconds. It exceeds the pauses of a running
/// transfer, which then allocates new memory once a second at most.
const IDLE_MS: Millis = 1000;

impl Transport {
    /// Records that a packet arrived, left or was processed. Sets a deadline only if there is
    /// memory to free.
    pub(crate) fn note_activity(&mut self) {
        self.active_at = Some(self.now);
    }

    /// Time at which memory is to be freed: once after each activity.
    pub(super) fn shed_deadline(&self) -> Option<Millis> {
        let saves = self.config.saves_memory;
        let spare = self.inbound.has_spare()
            || self.outbound.has_spare()
            || self.exchange.has_spare()
            || (saves && (self.inbound.has_buffers() || self.outbound.has_buffers()));
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

    /// Frees all unused memory, even if the connection is active.
    pub(crate) fn shed(&mut self) {
        self.inbound.shed();
        self.outbound.shed();
        self.exchange.shed();
        if self.config.saves_memory {
            self.outbound.shed_buffers();
        }
        self.events.shrink_to_fit();
    }
}
