//! The start of the session's channel: what was sent for it before the server's answers.

use std::collections::VecDeque;

use proto::{ChannelId, Connection};

use crate::pipelining::early::{Asked, EarlyChannel, PipelineDepth};

/// Messages for the channel whose answers have not arrived.
pub(super) struct ChannelStartup {
    early: Option<EarlyChannel>,
    /// True if the server accepts channel requests before it has confirmed the channel.
    pub(super) at_once: bool,
    /// Messages that were sent before the channel's confirmation; reset when that arrives.
    pub(super) unconfirmed: PipelineDepth,
    /// Requests whose answers have not arrived, in their order.
    pub(super) asked: VecDeque<Asked>,
    /// The local input is attached already: the server takes data before it confirms the channel.
    pub(super) has_source: bool,
}

impl ChannelStartup {
    pub(super) fn new() -> Self {
        Self {
            early: None,
            at_once: false,
            unconfirmed: PipelineDepth::Nothing,
            asked: VecDeque::new(),
            has_source: false,
        }
    }

    /// Hands over the channel that was opened before the login was answered.
    pub(super) fn set_early(&mut self, early: Option<EarlyChannel>) {
        self.early = early;
    }

    /// The early channel. After a failed login it no longer exists; a later login may have
    /// succeeded.
    pub(super) fn take_living(&mut self, connection: &Connection) -> Option<EarlyChannel> {
        let early = self.early.take();
        early.filter(|early| connection.early_channel() == Some(early.id))
    }

    /// Waits for the confirmation of a channel that was opened early.
    pub(super) fn keep(&mut self, early: EarlyChannel) -> ChannelId {
        let id = early.id;
        self.unconfirmed = early.depth;
        self.early = Some(early);
        id
    }

    /// The server has not heard what was sent early.
    pub(super) fn forget(&mut self) {
        self.early = None;
        self.asked.clear();
    }

    /// The early channel whose command has been started; `heard`: the server has processed what was
    /// sent early.
    pub(super) fn take_started(&mut self, heard: bool) -> Option<EarlyChannel> {
        let early = self.early.take();
        early.filter(|early| early.depth == PipelineDepth::Whole && heard)
    }
}
