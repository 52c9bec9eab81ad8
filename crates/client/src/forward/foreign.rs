//! Listeners of the server that belong to passengers in proxy mode, who speak for their channels
//! themselves. Their requests wait for the server's answers in one queue with ours.

use std::collections::VecDeque;

use driver::Driver;
use driver::forward::Listening;
use proto::ChannelId;

use super::SessionForwards;
use crate::error::ClientError;

/// A listener of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ForeignListener {
    /// Whose it is.
    pub(crate) passenger: u64,
    pub(crate) listening: Listening,
}

/// A channel that the server has opened for a listener.
#[derive(Debug)]
pub(crate) struct ForeignOpen {
    pub(crate) passenger: u64,
    pub(crate) channel: ChannelId,
    pub(crate) kind: String,
    pub(crate) fields: Vec<u8>,
}

/// All of them.
#[derive(Default)]
pub(super) struct Foreign {
    listeners: Vec<ForeignListener>,
    pub(super) answers: VecDeque<Option<Vec<u8>>>,
    pub(super) opened: Vec<ForeignOpen>,
}

impl Foreign {
    /// Whose listener this is.
    pub(super) fn owner(&self, listening: &Listening) -> Option<u64> {
        let mut listeners = self.listeners.iter();
        let found = listeners.find(|each| each.listening == *listening);
        found.map(|listener| listener.passenger)
    }
}

impl SessionForwards {
    /// Asks the server to listen, or to listen no more; the answer is
    /// [`Self::next_foreign_answer`]'s.
    ///
    /// # Errors
    /// Those of the connection.
    pub(crate) fn request_foreign(
        &mut self,
        listening: &Listening,
        is_cancel: bool,
        driver: &mut Driver,
    ) -> Result<(), ClientError> {
        self.remotes.request_foreign(listening, is_cancel, driver)
    }

    /// The server's next answer to a request for a passenger; the inner `None` refuses it.
    pub(crate) fn next_foreign_answer(&mut self) -> Option<Option<Vec<u8>>> {
        self.foreign.answers.pop_front()
    }

    /// The server listens for a passenger.
    pub(crate) fn add_foreign(&mut self, listener: ForeignListener) {
        self.foreign.listeners.push(listener);
    }

    /// The server listens no more.
    pub(crate) fn remove_foreign(&mut self, passenger: u64, listening: &Listening) {
        let is_it =
            |each: &ForeignListener| each.passenger == passenger && each.listening == *listening;
        self.foreign.listeners.retain(|each| !is_it(each));
    }

    /// True if the server listens there for this passenger.
    pub(crate) fn has_foreign(&self, passenger: u64, listening: &Listening) -> bool {
        let mut listeners = self.foreign.listeners.iter();
        listeners.any(|each| each.passenger == passenger && each.listening == *listening)
    }

    /// Takes the listeners of a passenger who is gone.
    pub(crate) fn end_foreign(&mut self, passenger: u64) -> Vec<Listening> {
        let all = std::mem::take(&mut self.foreign.listeners);
        let (its, others): (Vec<_>, Vec<_>) = all
            .into_iter()
            .partition(|each| each.passenger == passenger);
        self.foreign.listeners = others;
        its.into_iter().map(|each| each.listening).collect()
    }

    /// The channels that the server has opened for passengers since the last call.
    pub(crate) fn take_foreign_opened(&mut self) -> Vec<ForeignOpen> {
        std::mem::take(&mut self.foreign.opened)
    }
}
