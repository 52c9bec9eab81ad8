//! The receiving side of one channel.

use alloc::collections::VecDeque;

use super::drain::{Drain, Wish};
use super::{LEAST_WINDOW_BYTES, Memory, Path};
use crate::{Error, Millis};

/// No window grows past this, bytes: some peers keep theirs in 31 bits.
const MOST_WINDOW_BYTES: u64 = 1 << 30;
/// What a sender that piles up its input may have open beyond what is on its way: its buffer
/// turns quadratic at 16 MiB.
const PILE_BYTES: u64 = 15 * 1024 * 1024;
/// A queue this short is none: what the sink has taken is told with so much delay.
const EMPTY_BYTES: u32 = 256 * 1024;
/// Grants whose effect is watched for at once.
const MAX_EDGES: usize = 8;
/// The shortest standstill that is told from a busy machine, milliseconds.
const LEAST_STALL_MS: Millis = 2;
/// A sender stands still at an edge when it is silent for this part of a round trip.
const STALL_PART: Millis = 16;

/// The receiving side of one channel.
#[derive(Debug)]
pub(crate) struct ReceiveWindow {
    /// What may be outstanding, that is open or queued, bytes. Less than that is outstanding
    /// between two adjusts, more while the window shrinks.
    size: u32,
    /// Granted and not received.
    open: u32,
    /// Received and not taken by the sink.
    queued: u32,
    max_data: u32,
    /// The sender reads as much input as its window is open, and moves all of it for each packet.
    piles_up: bool,
    /// Data may come, and be answered with more room.
    granting: bool,
    /// All that was received.
    received: u64,
    /// When the last of it came.
    heard: Millis,
    /// Where the window ended when more was granted, and when that was.
    edges: VecDeque<(u64, Millis)>,
    drain: Drain,
}

impl ReceiveWindow {
    /// A window of `size` bytes, which the first message about the channel grants. `piles_up`
    /// for a sender that reads as much input as its window is open.
    pub(crate) fn new(
        size: u32,
        max_data: u32,
        piles_up: bool,
        now: Millis,
        memory: &mut Memory,
    ) -> Self {
        memory.change(0, u64::from(size));
        Self {
            size,
            open: size,
            queued: 0,
            max_data,
            piles_up,
            granting: true,
            received: 0,
            heard: now,
            edges: VecDeque::new(),
            drain: Drain::new(now),
        }
    }

    /// What the peer is told at first.
    pub(crate) fn first(&self) -> u32 {
        self.open
    }

    pub(crate) fn max_data(&self) -> u32 {
        self.max_data
    }

    /// What may be on its way or queued, bytes.
    pub(crate) fn size(&self) -> usize {
        usize::try_from(self.size).unwrap_or(usize::MAX)
    }

    /// What it stands for in [`Memory`].
    fn lease(&self) -> u64 {
        let queued = u64::from(self.queued);
        if self.granting {
            u64::from(self.size).max(u64::from(self.open) + queued)
        } else {
            queued
        }
    }

    /// Data arrived.
    ///
    /// # Errors
    /// [`Error::PeerMisbehaved`] when it is more than was granted, in one message or in all.
    pub(crate) fn take(&mut self, len: usize, now: Millis, path: &mut Path) -> Result<(), Error> {
        let len = u32::try_from(len).unwrap_or(u32::MAX);
        if len > self.max_data {
            return Err(Error::PeerMisbehaved(
                "channel data longer than the maximum packet",
            ));
        }
        self.open = self
            .open
            .checked_sub(len)
            .ok_or(Error::PeerMisbehaved("channel data beyond the window"))?;
        if self.granting {
            self.queued = self.queued.saturating_add(len);
            self.watch_edges(len, now, path);
        }
        Ok(())
    }

    /// Data beyond an edge could not leave before the grant of that moment had arrived. If its
    /// sender was silent before, right at the edge, then it had waited for that grant.
    fn watch_edges(&mut self, len: u32, now: Millis, path: &mut Path) {
        let before = self.received;
        self.received = before.saturating_add(u64::from(len));
        let silent_ms = now.saturating_sub(self.heard);
        self.heard = now;
        while let Some((edge, granted)) = self.edges.front().copied()
            && edge < self.received
        {
            self.edges.pop_front();
            let taken_ms = now.saturating_sub(granted);
            if edge == before && silent_ms >= LEAST_STALL_MS.max(taken_ms / STALL_PART) {
                path.stalled(taken_ms);
            }
        }
    }

    /// The sink took `len` bytes; gives the number to grant, if it is time: once per quarter of
    /// the window.
    pub(crate) fn consume(
        &mut self,
        len: usize,
        now: Millis,
        path: &Path,
        memory: &mut Memory,
    ) -> Option<u32> {
        let leased = self.lease();
        let len = u32::try_from(len).unwrap_or(u32::MAX).min(self.queued);
        self.queued -= len;
        if !self.granting {
            memory.change(leased, self.lease());
            return None;
        }
        let round_trip_us = path.round_trip_us();
        let wish = self.drain.count(
            u64::from(len),
            self.queued <= EMPTY_BYTES,
            u64::from(self.size),
            now,
            round_trip_us,
        );
        let high = self.drain.high(now, round_trip_us);
        self.resize(wish, leased, high, memory);
        let room = self.size.saturating_sub(self.open + self.queued);
        let due = room > 0 && room >= self.size / 4;
        if due {
            if self.edges.len() < MAX_EDGES {
                let edge = self.received.saturating_add(u64::from(self.open));
                self.edges.push_back((edge, now));
            }
            self.open += room;
        }
        memory.change(leased, self.lease());
        due.then_some(room)
    }

    fn resize(&mut self, wish: Wish, leased: u64, high: u64, memory: &Memory) {
        let size = u64::from(self.size);
        let floor = u64::from(memory.floor(leased).unwrap_or(LEAST_WINDOW_BYTES));
        let wanted = match wish {
            Wish::Keep => size,
            Wish::AtLeast(bytes) => bytes.max(size),
            Wish::Exactly(bytes) => bytes.max(floor),
        };
        let most = match (self.piles_up, self.drain.keeps_up()) {
            (false, _) => MOST_WINDOW_BYTES,
            (true, true) => PILE_BYTES.saturating_add(high).min(MOST_WINDOW_BYTES),
            (true, false) => PILE_BYTES,
        };
        // What is leased already costs nothing more.
        let affordable = leased.max(floor).saturating_add(memory.room_to_grow());
        let size = wanted.min(most).min(affordable);
        self.size = u32::try_from(size).unwrap_or(self.size);
    }

    /// Nothing more will be granted or used: only what is queued counts.
    pub(crate) fn end(&mut self, memory: &mut Memory) {
        let leased = self.lease();
        self.granting = false;
        memory.change(leased, self.lease());
    }

    /// The channel is gone, and with it all that it stood for.
    pub(crate) fn release(mut self, memory: &mut Memory) {
        self.end(memory);
        memory.change(u64::from(self.queued), 0);
    }
}

#[cfg(test)]
impl ReceiveWindow {
    /// Size and queue.
    pub(super) fn standing(&self) -> (u64, u64) {
        (u64::from(self.size), u64::from(self.queued))
    }

    pub(super) fn open_bytes(&self) -> u64 {
        u64::from(self.open)
    }

    pub(super) fn granted_bytes(&self) -> u64 {
        u64::from(self.open) + u64::from(self.queued)
    }

    pub(super) fn is_open_for(&self, len: usize) -> bool {
        usize::try_from(self.open).unwrap() >= len
    }
}
