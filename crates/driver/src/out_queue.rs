//! Output that waits for the socket: the identification line, then sealed packets.

use std::collections::VecDeque;
use std::io::IoSlice;

use packet::SealedPacket;
use proto::Connection;

#[derive(Default)]
pub(super) struct OutQueue {
    /// The identification line, which precedes all packets.
    line: Vec<u8>,
    packets: VecDeque<SealedPacket>,
    /// Bytes of `packets`, with those of the first that are written.
    bytes: usize,
    /// Bytes of the first packet that are written.
    offset: usize,
}

impl OutQueue {
    pub(super) fn is_empty(&self) -> bool {
        self.line.is_empty() && self.packets.is_empty()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn push_line(&mut self, line: Vec<u8>) {
        debug_assert!(self.packets.is_empty(), "the version line comes first");
        self.line.extend(line);
    }

    /// Adds the packets that `fill` appends.
    pub(super) fn push_with<E>(
        &mut self,
        fill: impl FnOnce(&mut VecDeque<SealedPacket>) -> Result<(), E>,
    ) -> Result<(), E> {
        let before = self.packets.len();
        let filled = fill(&mut self.packets);
        let new = self.packets.range(before..);
        self.bytes += new.map(|packet| packet.wire().len()).sum::<usize>();
        filled
    }

    /// Fills `slices` from the front; returns the number used.
    pub(super) fn slices<'s>(&'s self, slices: &mut [IoSlice<'s>]) -> usize {
        let mut offset = self.offset;
        let line = Some(&self.line[..]).filter(|line| !line.is_empty());
        let packets = self.packets.iter().map(|packet| {
            let skip = std::mem::take(&mut offset);
            packet.wire().get(skip..).unwrap_or_default()
        });
        let mut filled = 0;
        for (slice, bytes) in slices.iter_mut().zip(line.into_iter().chain(packets)) {
            *slice = IoSlice::new(bytes);
            filled += 1;
        }
        filled
    }

    /// Removes `count` written bytes; returns the buffers of whole packets to `connection`.
    pub(super) fn advance(&mut self, mut count: usize, connection: &mut Connection) {
        let of_line = count.min(self.line.len());
        self.line.drain(..of_line);
        count -= of_line;
        while count > 0 {
            let Some(first) = self.packets.front() else {
                return;
            };
            let left = first.wire().len().saturating_sub(self.offset);
            if count < left {
                self.offset += count;
                return;
            }
            count -= left;
            self.offset = 0;
            if let Some(done) = self.packets.pop_front() {
                self.bytes = self.bytes.saturating_sub(done.wire().len());
                connection.recycle(done.into_buf());
            }
        }
    }
}
