//! A queue of byte chunks. Chunks keep their buffers, except that small ones are copied together: a
//! full window of single-byte chunks must not cost much more memory than its bytes.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Buf, Bytes};

/// Queued chunks shorter than this, in bytes, are joined: keeping one costs more than copying it.
const CRUMB_BYTES: usize = 512;
/// Maximum size of a buffer of joined chunks, bytes.
const JOINED_BYTES: usize = 16 * 1024;

/// A queue of byte chunks that joins small ones.
#[derive(Debug, Default)]
pub struct ChunkQueue {
    whole: VecDeque<Bytes>,
    /// Small chunks being joined. They follow everything in `whole`.
    crumbs: Vec<u8>,
}

impl ChunkQueue {
    /// Number of queued bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.whole.iter().map(Bytes::len).sum::<usize>() + self.crumbs.len()
    }

    /// Returns true if no bytes are queued.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.whole.is_empty() && self.crumbs.is_empty()
    }

    /// Appends a chunk.
    pub fn push(&mut self, piece: Bytes) {
        if self.is_empty() || piece.len() >= CRUMB_BYTES {
            self.coalesce();
            self.whole.push_back(piece);
            return;
        }
        if self.crumbs.len() + piece.len() > JOINED_BYTES {
            self.coalesce();
        }
        self.crumbs.extend_from_slice(&piece);
    }

    /// Moves the joined small chunks to the end of `whole`.
    fn coalesce(&mut self) {
        if !self.crumbs.is_empty() {
            let crumbs = std::mem::take(&mut self.crumbs);
            self.whole.push_back(Bytes::from(crumbs));
        }
    }

    /// Fills `room` with the first chunks; returns the number of slices filled.
    pub fn slices<'a>(&'a mut self, room: &mut [IoSlice<'a>]) -> usize {
        self.coalesce();
        let mut count = 0;
        for (slice, piece) in room.iter_mut().zip(&self.whole) {
            *slice = IoSlice::new(piece);
            count += 1;
        }
        count
    }

    /// Removes the first `count` bytes from the queue.
    pub fn advance(&mut self, mut count: usize) {
        while count > 0 {
            let Some(first) = self.first() else {
                return;
            };
            let taken = count.min(first.len());
            first.advance(taken);
            count -= taken;
            self.drop_empty();
        }
    }

    /// Moves as many bytes into `room` as fit; returns the number copied.
    pub fn copy_to(&mut self, room: &mut [u8]) -> usize {
        let mut copied = 0;
        while let (Some(first), Some(rest)) = (self.first(), room.get_mut(copied..)) {
            let len = first.len().min(rest.len());
            if len == 0 {
                break;
            }
            first.copy_to_slice(rest.get_mut(..len).unwrap_or_default());
            copied += len;
            self.drop_empty();
        }
        copied
    }

    /// Removes and returns all chunks.
    #[must_use]
    pub fn take(&mut self) -> Vec<Bytes> {
        self.coalesce();
        std::mem::take(&mut self.whole).into()
    }

    fn first(&mut self) -> Option<&mut Bytes> {
        if self.whole.is_empty() {
            self.coalesce();
        }
        self.whole.front_mut()
    }

    fn drop_empty(&mut self) {
        if self.whole.front().is_some_and(Bytes::is_empty) {
            self.whole.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(pieces: &[usize]) -> (ChunkQueue, Vec<u8>) {
        let mut queue = ChunkQueue::default();
        let mut all = Vec::new();
        for (index, len) in pieces.iter().enumerate() {
            let piece = vec![u8::try_from(index % 251).unwrap(); *len];
            all.extend_from_slice(&piece);
            queue.push(Bytes::from(piece));
        }
        (queue, all)
    }

    const MIXED: &[usize] = &[1, 2, 3, 40_000, 511, 512, 7, 7, 16_000, 500, 500];

    #[test]
    fn order_is_kept_whatever_is_joined() {
        for step in [1, 2, 100, 600, 70_000] {
            let (mut queue, all) = filled(MIXED);
            assert_eq!(queue.len(), all.len());
            let mut copied = Vec::new();
            let mut room = vec![0; step];
            loop {
                let count = queue.copy_to(&mut room);
                copied.extend_from_slice(&room[..count]);
                if count == 0 {
                    break;
                }
            }
            assert!(copied == all && queue.is_empty());

            let (mut queue, all) = filled(MIXED);
            let mut seen = Vec::new();
            while !queue.is_empty() {
                let mut room = [IoSlice::new(&[]); 1];
                assert_eq!(queue.slices(&mut room), 1);
                let first = room[0].to_vec();
                let taken = step.min(first.len());
                seen.extend_from_slice(&first[..taken]);
                queue.advance(taken);
            }
            assert!(seen == all);
        }
        let (mut queue, all) = filled(MIXED);
        assert_eq!(queue.take().concat(), all);
        assert!(queue.is_empty());
    }

    #[test]
    fn crumbs_become_few_pieces_and_large_ones_stay() {
        let (mut queue, _) = filled(&[1; 100_000]);
        assert!(queue.take().len() < 10);
        let (mut queue, _) = filled(&[CRUMB_BYTES; 100]);
        assert_eq!(queue.take().len(), 100);
    }
}
