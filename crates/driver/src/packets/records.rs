//! Records in the data of a channel: `uint32` length, and that many bytes. Messages of the channel
//! may end anywhere in a record.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use packet::PacketBuf;
use wire::DecodeError;

use crate::ChannelIo;

/// Bytes of a record's length.
const LENGTH_BYTES: usize = 4;

/// Finds the records in a channel's data. It holds what the channel's window allows.
#[derive(Debug)]
pub struct Records {
    most: usize,
    /// Start of a record that continues in `queue`.
    partial: BytesMut,
    queue: VecDeque<Bytes>,
}

impl Records {
    /// Accepts records of at most `most` bytes.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self {
            most,
            partial: BytesMut::new(),
            queue: VecDeque::new(),
        }
    }

    /// Appends data of the channel.
    pub fn push(&mut self, data: Bytes) {
        self.queue.push_back(data);
    }

    /// Returns the next record, without its length. A record that lies in one message is not copied.
    ///
    /// # Errors
    /// [`DecodeError::Malformed`] for a record longer than the maximum; it comes again with every
    /// further call.
    pub fn next_record(&mut self) -> Result<Option<Bytes>, DecodeError> {
        // A record that was refused stays refused.
        self.whole_bytes(&self.partial)?;
        while let Some(mut first) = self.queue.pop_front() {
            if self.partial.is_empty() {
                let whole = match self.whole_bytes(&first) {
                    Ok(whole) => whole,
                    Err(error) => {
                        self.queue.push_front(first);
                        return Err(error);
                    }
                };
                if let Some(whole) = whole.filter(|whole| *whole <= first.len()) {
                    let record = first.split_to(whole);
                    if !first.is_empty() {
                        self.queue.push_front(first);
                    }
                    return Ok(Some(record.slice(LENGTH_BYTES..)));
                }
            }
            let wanted = self.whole_bytes(&self.partial)?.unwrap_or(LENGTH_BYTES);
            let taken = (wanted - self.partial.len()).min(first.len());
            self.partial.extend_from_slice(&first.split_to(taken));
            if !first.is_empty() {
                self.queue.push_front(first);
            }
            if self.whole_bytes(&self.partial)? == Some(self.partial.len()) {
                let record = self.partial.split().freeze();
                return Ok(Some(record.slice(LENGTH_BYTES..)));
            }
        }
        Ok(None)
    }

    /// Bytes of the record that starts with `start`, with its length; `None` if `start` is too short
    /// to know.
    fn whole_bytes(&self, start: &[u8]) -> Result<Option<usize>, DecodeError> {
        let Some(length) = start.first_chunk::<LENGTH_BYTES>() else {
            return Ok(None);
        };
        match usize::try_from(u32::from_be_bytes(*length)) {
            Ok(length) if length <= self.most => Ok(Some(LENGTH_BYTES + length)),
            _ => Err(DecodeError::Malformed("record longer than a packet")),
        }
    }
}

/// Writes records into buffers of the peer's maximum packet.
pub(super) struct RecordWriter {
    most: usize,
    /// Capacity of the first buffer, bytes.
    first: usize,
    full: VecDeque<PacketBuf>,
    current: Option<PacketBuf>,
    gathered: usize,
}

impl RecordWriter {
    /// `most`: bytes in one message. `expected`: bytes that are probably written.
    pub(super) fn new(most: usize, expected: usize) -> Self {
        Self {
            most,
            first: expected.min(most),
            full: VecDeque::new(),
            current: None,
            gathered: 0,
        }
    }

    /// Bytes written so far.
    pub(super) fn gathered(&self) -> usize {
        self.gathered
    }

    pub(super) fn record(&mut self, parts: &[&[u8]], line: &mut ChannelIo<'_>) {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        let len = u32::try_from(len).unwrap_or_default().to_be_bytes();
        self.extend(&len, line);
        for part in parts {
            self.extend(part, line);
        }
    }

    fn extend(&mut self, mut bytes: &[u8], line: &mut ChannelIo<'_>) {
        self.gathered += bytes.len();
        while !bytes.is_empty() {
            let capacity = match self.full.is_empty() {
                true => self.first,
                false => self.most,
            };
            let current = self
                .current
                .get_or_insert_with(|| line.take_buffer(capacity));
            let room = self.most.saturating_sub(current.len()).max(1);
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            current.extend(now);
            bytes = later;
            if current.len() >= self.most {
                self.full.extend(self.current.take());
            }
        }
    }

    pub(super) fn finish(mut self) -> VecDeque<PacketBuf> {
        self.full.extend(self.current);
        self.full
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream() -> (Vec<Vec<u8>>, Vec<u8>) {
        let records: Vec<Vec<u8>> = [0, 1, 3, 1000, 0, 65_537, 7]
            .into_iter()
            .map(|len: usize| (0..len).map(|at| u8::try_from(at % 253).unwrap()).collect())
            .collect();
        let mut bytes = Vec::new();
        for record in &records {
            bytes.extend(u32::try_from(record.len()).unwrap().to_be_bytes());
            bytes.extend(record);
        }
        (records, bytes)
    }

    #[test]
    fn records_are_found_wherever_messages_end() {
        let (wanted, bytes) = stream();
        for step in [1, 2, 3, 4, 5, 7, 100, 1004, 32_768, 100_000] {
            let mut records = Records::new(65_537);
            let mut found = Vec::new();
            for piece in bytes.chunks(step) {
                records.push(Bytes::copy_from_slice(piece));
                while let Some(record) = records.next_record().unwrap() {
                    found.push(record.to_vec());
                }
            }
            assert!(found == wanted, "{step}");
            assert!(records.partial.is_empty() && records.queue.is_empty());
        }
    }

    #[test]
    fn a_record_longer_than_the_maximum_ends_it() {
        for split in [1, 4, 6] {
            let mut records = Records::new(10);
            let bytes = [0, 0, 0, 11, 1, 2, 3];
            let mut failed = false;
            for piece in bytes.chunks(split) {
                records.push(Bytes::copy_from_slice(piece));
                failed |= records.next_record().is_err();
            }
            assert!(failed && records.next_record().is_err(), "{split}");
        }
    }
}
