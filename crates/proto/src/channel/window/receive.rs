//! Receive window of one channel.

use alloc::collections::VecDeque;

use super::drain::{Drain, WindowRequest};
use super::{CROWD_WINDOW_BYTES, Memory, RoundTripEstimate};
use crate::{Error, Millis};

/// Maximum size of a window, bytes: some peers store theirs in 31 bits.
const MOST_WINDOW_BYTES: u64 = 1 << 30;
/// Bytes that a sender with `piles_up` may have open in addition to data in flight: its input
/// buffer becomes quadratic at 16 MiB.
const PILE_BYTES: u64 = 15 * 1024 * 1024;
/// A queue up to this length counts as empty, since the sink reports consumed data with a delay of
/// that size.
const EMPTY_BYTES: u32 = 256 * 1024;
/// Maximum number of grants tracked at a time.
const MAX_EDGES: usize = 8;
/// Shortest stall that is distinguishable from a busy machine, milliseconds.
const LEAST_STALL_MS: Millis = 2;
/// A sender stalls at an edge if it is silent for one part in this many of a round trip.
const STALL_PART: Millis = 16;

/// Bytes that may be outstanding while a user types, on a path so short that almost none of them are
/// in flight. With 128 KiB a sender on the same machine loses a third of its speed.
const TYPING_BYTES: u64 = 160 * 1024;
/// The same on a long path, in halves of the bandwidth-delay product: a window of just that product
/// would limit the speed by which it is measured.
const TYPING_HALVES: u64 = 3;
/// Speed that fills the path or a window, bytes per round trip.
const BULK_BYTES: u64 = 64 * 1024;

/// Receive window of one channel.
#[derive(Debug)]
pub(crate) struct ReceiveWindow {
    /// Maximum outstanding bytes (open plus queued). Fewer are outstanding between two adjusts,
    /// more while the window shrinks.
    size: u32,
    /// Granted and not received, bytes.
    open: u32,
    /// Received and not consumed by the sink, bytes.
    queued: u32,
    max_data: u32,
    /// The sender reads as much input as its window is open, and moves all of it for each packet.
    piles_up: bool,
    /// Data may arrive, and window may be granted.
    granting: bool,
    /// Total bytes received.
    received: u64,
    /// Time of the last received data.
    heard: Millis,
    /// Edges of the window at the last grants, as totals of received bytes, and the grants' times.
    edges: VecDeque<(u64, Millis)>,
    drain: Drain,
}

impl ReceiveWindow {
    /// Creates a window of `size` bytes, granted by the channel's first message. `piles_up`: the
    /// sender reads as much input as its window is open.
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

    /// Initial window for the peer, bytes, of which early data may have been taken already.
    pub(crate) fn first(&self) -> u32 {
        self.open + self.queued
    }

    pub(crate) fn max_data(&self) -> u32 {
        self.max_data
    }

    /// Size of the window: maximum bytes in flight or queued.
    pub(crate) fn size(&self) -> usize {
        usize::try_from(self.size).unwrap_or(usize::MAX)
    }

    /// Bytes leased from [`Memory`].
    fn lease(&self) -> u64 {
        let queued = u64::from(self.queued);
        if self.granting {
            u64::from(self.size).max(u64::from(self.open) + queued)
        } else {
            queued
        }
    }

    /// Charges received data.
    ///
    /// # Errors
    /// [`Error::PeerMisbehaved`] if one message or the total exceeds what was granted.
    pub(crate) fn take(
        &mut self,
        len: usize,
        now: Millis,
        path: &mut RoundTripEstimate,
    ) -> Result<(), Error> {
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

    /// Data after an edge could not leave before its grant had arrived. A sender that was silent
    /// right at the edge was waiting for that grant.
    fn watch_edges(&mut self, len: u32, now: Millis, path: &mut RoundTripEstimate) {
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

    /// Returns true if the sink recently consumed bulk data.
    pub(crate) fn has_bulk(&self) -> bool {
        self.drain.mean() >= BULK_BYTES
    }

    /// Records that the sink consumed `len` bytes. Returns the bytes to grant if a quarter of the
    /// window is due, of a smaller window while a user types.
    pub(crate) fn consume(
        &mut self,
        len: usize,
        now: Millis,
        path: &RoundTripEstimate,
        is_typing: bool,
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
        let request = self.drain.count(
            u64::from(len),
            self.queued <= EMPTY_BYTES,
            u64::from(self.size),
            now,
            round_trip_us,
        );
        let high = self.drain.high(now, round_trip_us);
        self.resize(request, leased, high, memory);
        let size = match (is_typing, path.shortest_us()) {
            (true, Some(shortest_us)) => {
                let in_flight =
                    self.drain.mean().saturating_mul(shortest_us) / round_trip_us.max(1);
                let enough = (in_flight.saturating_mul(TYPING_HALVES) / 2).max(TYPING_BYTES);
                self.size.min(u32::try_from(enough).unwrap_or(u32::MAX))
            }
            _ => self.size,
        };
        let room = size.saturating_sub(self.open + self.queued);
        let due = room > 0 && room >= size / 4;
        if due {
            // A sender stalls at the edge of a smaller window on any path.
            if size == self.size && self.edges.len() < MAX_EDGES {
                let edge = self.received.saturating_add(u64::from(self.open));
                self.edges.push_back((edge, now));
            }
            self.open += room;
        }
        memory.change(leased, self.lease());
        due.then_some(room)
    }

    fn resize(&mut self, request: WindowRequest, leased: u64, high: u64, memory: &Memory) {
        let size = u64::from(self.size);
        let floor = u64::from(memory.floor(leased).unwrap_or(CROWD_WINDOW_BYTES));
        let wanted = match request {
            WindowRequest::Keep => size,
            WindowRequest::AtLeast(bytes) => bytes.max(size),
            WindowRequest::Exactly(bytes) => bytes.max(floor),
        };
        let most = match (self.piles_up, self.drain.keeps_up()) {
            (false, _) => MOST_WINDOW_BYTES,
            (true, true) => PILE_BYTES.saturating_add(high).min(MOST_WINDOW_BYTES),
            (true, false) => PILE_BYTES,
        };
        // Bytes leased already cost nothing more.
        let affordable = leased.max(floor).saturating_add(memory.room_to_grow());
        let size = wanted.min(most).min(affordable);
        self.size = u32::try_from(size).unwrap_or(self.size);
    }

    /// Ends the window: nothing more is granted or used, and only queued bytes stay leased.
    pub(crate) fn end(&mut self, memory: &mut Memory) {
        let leased = self.lease();
        self.granting = false;
        memory.change(leased, self.lease());
    }

    /// Returns the whole lease of a removed channel.
    pub(crate) fn release(mut self, memory: &mut Memory) {
        self.end(memory);
        memory.change(u64::from(self.queued), 0);
    }
}

#[cfg(test)]
impl ReceiveWindow {
    /// Size and queued bytes.
    pub(super) fn size_and_queued(&self) -> (u64, u64) {
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
