//! The use of channels: type, bytes carried, time of the last data, and how long each may be unused
//! (`ChannelTimeout`).
//!
//! Data that is sent, and received data that is consumed, count as use. The deadline is checked
//! lazily: a use does not move it, and a check that finds nothing due sets the next one.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::Channels;
use crate::{ChannelId, Event, Millis};

/// Bytes of data that a channel has carried, both streams together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ChannelTraffic {
    /// Bytes sent.
    pub sent: u64,
    /// Bytes received.
    pub received: u64,
}

/// A channel, for its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChannelStatus<'a> {
    /// Our number for the channel.
    pub channel: ChannelId,
    /// Its type, or what `label_channel` replaced it by.
    pub kind: &'a str,
    /// True if it is confirmed and not closed.
    pub is_open: bool,
    /// Its data so far.
    pub traffic: ChannelTraffic,
}

/// Limits of the time for which open channels may be unused, milliseconds.
pub struct ChannelTimeouts {
    /// The limit of a channel of this type; 0 for none.
    pub limit_ms: Box<dyn Fn(&str) -> Millis + Send>,
    /// The limit of all channels together: any channel's use counts; 0 for none.
    pub global_ms: Millis,
}

/// The line of the log about a channel that is closed because of its limit, in OpenSSH's words.
#[must_use]
pub fn idle_text(channel: ChannelId, limit_ms: Millis) -> String {
    let (seconds, thousandths) = (limit_ms / 1000, limit_ms % 1000);
    let number = channel.0;
    format!("channel {number}: closing after {seconds}.{thousandths:03}000 seconds of inactivity")
}

/// The use of one channel.
pub(super) struct Usage {
    pub(super) kind: Box<str>,
    pub(super) traffic: ChannelTraffic,
    used: Millis,
    /// 0 without a limit.
    limit_ms: Millis,
    /// The owner was told that the channel is unused.
    has_expired: bool,
}

impl Usage {
    pub(super) fn new(kind: &str) -> Self {
        Self {
            kind: kind.into(),
            traffic: ChannelTraffic::default(),
            used: 0,
            limit_ms: 0,
            has_expired: false,
        }
    }

    pub(super) fn send(&mut self, len: usize) {
        self.traffic.sent = self.traffic.sent.saturating_add(wide(len));
    }

    pub(super) fn receive(&mut self, len: usize) {
        self.traffic.received = self.traffic.received.saturating_add(wide(len));
    }
}

fn wide(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}

/// Most types of channels whose openings are counted; a peer may invent any number of types.
const MAX_COUNTED_TYPES: usize = 32;

/// The use of all channels.
#[derive(Default)]
pub(super) struct ChannelUses {
    timeouts: Option<ChannelTimeouts>,
    /// Time of any channel's last use.
    used: Millis,
    /// Number of channels that were opened, labelled or removed so far.
    changes: u64,
    /// Types and numbers of the channels that were opened, at most [`MAX_COUNTED_TYPES`] types.
    opened: Vec<(Box<str>, u64)>,
    /// Time of the next check.
    due: Option<Millis>,
    /// The channel that was removed last, for the owner that has just taken the event of its end.
    removed: Option<(ChannelId, ChannelTraffic)>,
}

impl ChannelUses {
    pub(super) fn note_removed(&mut self, id: ChannelId, usage: &Usage) {
        self.changes += 1;
        self.removed = Some((id, usage.traffic));
    }
}

impl Channels {
    /// All channels, in the order of their numbers.
    pub(crate) fn statuses(&self) -> impl Iterator<Item = ChannelStatus<'_>> {
        self.table
            .numbered()
            .map(|(channel, record)| ChannelStatus {
                channel,
                kind: &record.usage.kind,
                is_open: record.is_open(),
                traffic: record.usage.traffic,
            })
    }

    pub(crate) fn changes(&self) -> u64 {
        self.uses.changes
    }

    /// Counts a channel that has just been opened.
    pub(super) fn note_opened(&mut self, id: ChannelId) {
        let (Some(channel), opened) = (self.table.get(id), &mut self.uses.opened) else {
            return;
        };
        let kind = &channel.usage.kind;
        if let Some((_, count)) = opened.iter_mut().find(|(counted, _)| counted == kind) {
            *count += 1;
        } else if opened.len() < MAX_COUNTED_TYPES {
            opened.push((kind.clone(), 1));
        }
    }

    /// Types of the channels that were opened so far, and how many of each.
    pub(crate) fn opened(&self) -> &[(Box<str>, u64)] {
        &self.uses.opened
    }

    /// The data of a channel that exists or was removed last.
    pub(crate) fn traffic(&self, id: ChannelId) -> ChannelTraffic {
        let existing = self.table.get(id).map(|channel| channel.usage.traffic);
        let removed = self.uses.removed.filter(|(channel, _)| *channel == id);
        existing
            .or(removed.map(|(_, traffic)| traffic))
            .unwrap_or_default()
    }

    pub(crate) fn set_timeouts(&mut self, timeouts: ChannelTimeouts, now: Millis) {
        self.uses.timeouts = Some(timeouts);
        let open = self.table.numbered().filter(|(_, record)| record.is_open());
        let open: Vec<ChannelId> = open.map(|(id, _)| id).collect();
        for id in open {
            self.begin_use(id, now);
        }
    }

    /// Replaces the channel's type by `label`. A limit of the label's own takes precedence over that
    /// of the type.
    pub(crate) fn label(&mut self, id: ChannelId, label: &str, now: Millis) {
        if let Some(channel) = self.table.get_mut(id) {
            channel.usage.kind = label.into();
            if channel.is_open() {
                self.begin_use(id, now);
            }
        }
    }

    /// The channel is open, or its label is new.
    pub(super) fn begin_use(&mut self, id: ChannelId, now: Millis) {
        self.uses.changes += 1;
        let (Some(timeouts), Some(channel)) = (&self.uses.timeouts, self.table.get_mut(id)) else {
            return;
        };
        let usage = &mut channel.usage;
        match (timeouts.limit_ms)(&usage.kind) {
            0 => {}
            limit => usage.limit_ms = limit,
        }
        usage.used = now;
        self.uses.used = now;
        let limits = [usage.limit_ms, timeouts.global_ms];
        let limit = limits.into_iter().filter(|limit| *limit > 0).min();
        let at = limit.map(|limit| now.saturating_add(limit));
        self.uses.due = [self.uses.due, at].into_iter().flatten().min();
    }

    /// Data was sent or consumed.
    pub(super) fn note_use(&mut self, id: ChannelId, now: Millis) {
        if self.uses.timeouts.is_some()
            && let Some(channel) = self.table.get_mut(id)
        {
            channel.usage.used = now;
            self.uses.used = now;
        }
    }

    /// Time of the next check for unused channels.
    pub(crate) fn idle_deadline(&self) -> Option<Millis> {
        self.uses.due
    }

    /// Returns an event for each channel that has been unused for its limit.
    pub(crate) fn check_idle(&mut self, now: Millis) -> Vec<Event> {
        let mut events = Vec::new();
        let Some(timeouts) = self.uses.timeouts.as_ref() else {
            return events;
        };
        if self.uses.due.is_none_or(|due| due > now) {
            return events;
        }
        let (all_used, global_ms) = (self.uses.used, timeouts.global_ms);
        let mut next = None;
        for (channel, record) in self.table.numbered_mut() {
            if !record.is_open() || record.usage.has_expired {
                continue;
            }
            let usage = &mut record.usage;
            let limits = [(usage.used, usage.limit_ms), (all_used, global_ms)];
            let limits = limits.into_iter().filter(|(_, limit)| *limit > 0);
            let ends = limits.map(|(used, limit)| (used.saturating_add(limit), limit));
            match ends.min() {
                Some((at, limit_ms)) if at <= now => {
                    usage.has_expired = true;
                    events.push(Event::ChannelIdle { channel, limit_ms });
                }
                Some((at, _)) => next = Some(next.map_or(at, |next: Millis| next.min(at))),
                None => {}
            }
        }
        self.uses.due = next;
        events
    }
}
