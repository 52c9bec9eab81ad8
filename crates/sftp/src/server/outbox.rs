//! A queue of answers in the packet buffers that will carry them.

use std::collections::VecDeque;
use std::io;

use crate::message::reply::{DATA_HEAD_BYTES, data_head};
use packet::PacketBuf;

/// Minimum free space of a buffer for data of a READ, bytes; with less, the data begins in a new
/// buffer.
const LEAST_ROOM_BYTES: usize = 4096;
/// Size of the buffer for a short answer that is alone in the queue, bytes. Several answers share
/// large buffers: a thousand answers to a pipelining client take a few packets.
const SHORT_BYTES: usize = 960;

/// A source of packet buffers.
pub trait Buffers {
    /// Returns an empty buffer with room for `capacity` bytes.
    fn take(&mut self, capacity: usize) -> PacketBuf;

    /// Maximum number of bytes in one message.
    fn max_bytes(&self) -> usize;
}

/// The answers that wait to be sent.
#[derive(Debug, Default)]
pub struct Outbox {
    queue: VecDeque<PacketBuf>,
    len: usize,
}

impl Outbox {
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// Number of bytes that wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the next bytes to send, at most `space` (not 0): the front buffer if it fits, else a
    /// copy of its beginning.
    pub fn next(&mut self, space: usize, buffers: &mut dyn Buffers) -> Option<PacketBuf> {
        let front = self.queue.front_mut()?;
        if front.len() <= space {
            self.len -= front.len();
            return self.queue.pop_front();
        }
        // The peer's window ends within this buffer.
        let mut first = buffers.take(space);
        first.extend(front.payload().get(..space).unwrap_or_default());
        let rest = front.payload().get(space..).unwrap_or_default();
        let mut behind = buffers.take(rest.len());
        behind.extend(rest);
        *front = behind;
        self.len -= space;
        Some(first)
    }

    /// Returns the next buffer, whatever its length.
    pub fn next_whole(&mut self) -> Option<PacketBuf> {
        let front = self.queue.pop_front()?;
        self.len -= front.len();
        Some(front)
    }

    /// Appends bytes.
    pub(super) fn put(&mut self, mut bytes: &[u8], buffers: &mut dyn Buffers) {
        let max = buffers.max_bytes().max(1);
        self.len += bytes.len();
        while !bytes.is_empty() {
            let room = match self.queue.back() {
                Some(back) => {
                    let limit = if back.capacity() < max {
                        back.capacity()
                    } else {
                        max
                    };
                    limit.saturating_sub(back.len())
                }
                None => 0,
            };
            if room < bytes.len().min(max) {
                // A single short answer takes a small buffer; several in a row take large ones.
                let alone = self.queue.is_empty() && bytes.len() <= SHORT_BYTES;
                let size = if alone { SHORT_BYTES.min(max) } else { max };
                self.queue.push_back(buffers.take(size));
                continue;
            }
            let count = room.min(bytes.len());
            let (now, later) = bytes.split_at(count);
            if let Some(back) = self.queue.back_mut() {
                back.extend(now);
            }
            bytes = later;
        }
    }

    /// Appends a DATA with at most `len` bytes, which `read` writes in place: `read` gets the space
    /// and the number of bytes read before, and returns 0 at the end. Returns the number of data
    /// bytes; if that is 0, or `read` fails before the first byte, no DATA is appended.
    pub(super) fn data(
        &mut self,
        id: u32,
        len: u32,
        buffers: &mut dyn Buffers,
        read: &mut dyn FnMut(&mut [u8], u64) -> io::Result<usize>,
    ) -> io::Result<u32> {
        let max = buffers.max_bytes().max(DATA_HEAD_BYTES + 1);
        let wanted = usize::try_from(len).unwrap_or(usize::MAX);
        let least = DATA_HEAD_BYTES + wanted.min(LEAST_ROOM_BYTES);
        let fits = self
            .queue
            .back()
            .is_some_and(|back| back.capacity().min(max).saturating_sub(back.len()) >= least);
        if !fits {
            let size = if DATA_HEAD_BYTES + wanted <= SHORT_BYTES {
                SHORT_BYTES
            } else {
                max
            };
            self.queue.push_back(buffers.take(size.min(max)));
        }
        let first = self.queue.len() - 1;
        let Some(front) = self.queue.back_mut() else {
            return Ok(0);
        };
        let head_at = front.len();
        front.extend(&[0; DATA_HEAD_BYTES]);
        let mut done = 0;
        let mut failed = None;
        while done < wanted {
            let back_len = self.queue.back().map_or(max, PacketBuf::len);
            let capacity = self.queue.back().map_or(0, PacketBuf::capacity).min(max);
            let room = capacity.saturating_sub(back_len).min(wanted - done);
            if room == 0 {
                self.queue.push_back(buffers.take(max));
                continue;
            }
            let Some(back) = self.queue.back_mut() else {
                break;
            };
            match back.fill_with(room, |room| read(room, done as u64)) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
        // The last buffer may be unused.
        if self.queue.len() - 1 > first && self.queue.back().is_some_and(PacketBuf::is_empty) {
            self.queue.pop_back();
        }
        let count = u32::try_from(done).unwrap_or(len);
        let Some(front) = self.queue.get_mut(first) else {
            return Ok(0);
        };
        if count == 0 {
            front.truncate(head_at);
            if front.is_empty() {
                self.queue.pop_back();
            }
            return failed.map_or(Ok(0), Err);
        }
        if let Some(head) = front
            .payload_mut()
            .get_mut(head_at..head_at + DATA_HEAD_BYTES)
        {
            head.copy_from_slice(&data_head(id, count));
        }
        self.len += DATA_HEAD_BYTES + done;
        Ok(count)
    }
}
