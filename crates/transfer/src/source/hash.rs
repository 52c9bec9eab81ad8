//! BLAKE3 of a file's ranges.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use sftp::own::HASH_BYTES;

/// Bytes read at once.
const READ_BYTES: usize = 1 << 20;

/// The hash of each block of `block_len` bytes from `offset` to `offset + len` (0: one block),
/// one behind the other.
///
/// # Errors
/// The system's; `UnexpectedEof` where the file is shorter.
pub fn blocks(file: &File, offset: u64, len: u64, block_len: u64) -> io::Result<Vec<u8>> {
    let block_len = if block_len == 0 {
        len.max(1)
    } else {
        block_len
    };
    let mut hashes = Vec::new();
    let mut buffer = vec![0; READ_BYTES];
    let (mut at, end) = (offset, offset.saturating_add(len));
    loop {
        let block_end = at.saturating_add(block_len).min(end);
        let mut hasher = blake3::Hasher::new();
        while at < block_end {
            let left = usize::try_from(block_end - at).unwrap_or(usize::MAX);
            let max = left.min(buffer.len());
            let room = buffer.get_mut(..max).unwrap_or_default();
            let count = match file.read_at(room, at) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            hasher.update(buffer.get(..count).unwrap_or_default());
            at += u64::try_from(count).unwrap_or_default();
        }
        hashes.extend_from_slice(hasher.finalize().as_bytes());
        debug_assert!(hashes.len() % HASH_BYTES == 0);
        if at >= end {
            return Ok(hashes);
        }
    }
}
