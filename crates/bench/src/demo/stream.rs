//! Bytes that are quick to generate and check: a block of noise in which each 4 KiB contains its
//! offset, so that lost, repeated, moved and changed pieces are found.

use std::io::{self, Read, Write};

/// Bytes made at a time.
pub(crate) const BLOCK_BYTES: usize = 1 << 18;
/// Distance between two stamps.
const STAMP_BYTES: usize = 4096;

/// The stream from any offset that is a multiple of the block.
pub(crate) struct Pattern {
    block: Vec<u8>,
}

impl Pattern {
    pub(crate) fn new() -> Self {
        let mut state = 0x2545_f491_4f6c_dd1d_u64;
        let mut block = Vec::with_capacity(BLOCK_BYTES);
        while block.len() < BLOCK_BYTES {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            block.extend_from_slice(&state.to_le_bytes());
        }
        Self { block }
    }

    /// The block at `offset`.
    pub(crate) fn at(&mut self, offset: u64) -> &[u8] {
        for (index, piece) in self.block.chunks_mut(STAMP_BYTES).enumerate() {
            let stamp = offset + u64::try_from(index * STAMP_BYTES).unwrap_or_default();
            if let Some(head) = piece.first_chunk_mut::<8>() {
                *head = stamp.to_le_bytes();
            }
        }
        &self.block
    }
}

fn piece(total: u64, offset: u64) -> usize {
    usize::try_from(total - offset).map_or(BLOCK_BYTES, |left| left.min(BLOCK_BYTES))
}

/// Writes the first `total` bytes of the stream.
pub(crate) fn source(mut out: impl Write, total: u64) -> io::Result<()> {
    let mut pattern = Pattern::new();
    let mut offset = 0;
    while offset < total {
        let len = piece(total, offset);
        out.write_all(pattern.at(offset).get(..len).unwrap_or_default())?;
        offset += u64::try_from(len).unwrap_or_default();
    }
    out.flush()
}

/// Reads to the end and compares.
///
/// # Errors
/// Where the bytes differ, or are fewer or more than `total`.
pub(crate) fn sink(mut input: impl Read, total: u64) -> io::Result<()> {
    let mut pattern = Pattern::new();
    let mut buffer = vec![0; BLOCK_BYTES];
    let mut offset = 0;
    while offset < total {
        let len = piece(total, offset);
        let room = buffer.get_mut(..len).unwrap_or_default();
        input.read_exact(room).map_err(|error| {
            io::Error::new(
                error.kind(),
                format!("the stream ends early, after {offset} bytes or less"),
            )
        })?;
        if pattern.at(offset).get(..len) != Some(&*room) {
            return Err(io::Error::other(format!(
                "bytes differ between {offset} and {len} bytes on"
            )));
        }
        offset += u64::try_from(len).unwrap_or_default();
    }
    match input.read(&mut buffer)? {
        0 => Ok(()),
        _ => Err(io::Error::other("bytes follow the end of the stream")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_that_changed_anywhere_is_found_out() {
        let total = 2 * BLOCK_BYTES as u64 + 777;
        let mut bytes = Vec::new();
        source(&mut bytes, total).unwrap();
        sink(&bytes[..], total).unwrap();
        for index in [0, 8, 4096, BLOCK_BYTES, bytes.len() - 1] {
            let mut broken = bytes.clone();
            broken[index] ^= 1;
            assert!(sink(&broken[..], total).is_err(), "byte {index}");
        }
        assert!(sink(&bytes[..bytes.len() - 1], total).is_err());
        bytes.push(0);
        assert!(sink(&bytes[..], total).is_err());
        let swapped = [
            &bytes[4096..8192],
            &bytes[..4096],
            &bytes[8192..bytes.len() - 1],
        ]
        .concat();
        assert!(sink(&swapped[..], total).is_err());
    }
}
