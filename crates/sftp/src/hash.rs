//! BLAKE3 hashes of ranges of a file.

use std::borrow::Borrow;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::thread::JoinHandle;

use crate::vendor::HASH_BYTES;

/// Number of bytes per read; fits in the cache of a core.
pub(crate) const READ_BYTES: usize = 128 << 10;
/// Maximum number of threads that hash one range; more would be limited by memory bandwidth. Half
/// of the processors are left for others: the other end may hash on the same machine.
const MAX_THREADS: usize = 8;

/// A range that is hashed on threads of its own.
#[derive(Debug)]
pub struct Hashing(io::Result<JoinHandle<io::Result<Vec<u8>>>>);

impl Hashing {
    /// Waits for the hashes.
    ///
    /// # Errors
    /// As [`blocks`]; also if no thread could be started.
    pub fn join(self) -> io::Result<Vec<u8>> {
        joined(self.0?.join())
    }
}

/// Starts [`blocks`] on threads of its own: at most 8, and half of the processors.
pub fn begin(file: impl Borrow<File> + Send + Sync + 'static, len: u64, block_len: u64) -> Hashing {
    let thread = std::thread::Builder::new();
    Hashing(thread.spawn(move || by_many(file.borrow(), len, block_len)))
}

/// Number of threads on which this process hashes one range.
pub(crate) fn threads() -> usize {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    (processors / 2).clamp(1, MAX_THREADS)
}

/// Hashes each block, as [`blocks`] does; each thread hashes a part of the range that starts at a
/// block.
fn by_many(file: &File, len: u64, block_len: u64) -> io::Result<Vec<u8>> {
    if block_len == 0 {
        return blocks(file, 0, len, block_len);
    }
    let count = u64::try_from(threads()).unwrap_or(1);
    let blocks_each = len.div_ceil(block_len).div_ceil(count);
    let part = blocks_each.saturating_mul(block_len);
    if part >= len {
        return blocks(file, 0, len, block_len);
    }
    std::thread::scope(|scope| {
        let parts: Vec<_> = (0..count)
            .map(|index| index * part)
            .filter(|begin| *begin < len)
            .map(|begin| {
                let thread = std::thread::Builder::new();
                thread.spawn_scoped(scope, move || {
                    blocks(file, begin, part.min(len - begin), block_len)
                })
            })
            .collect();
        let mut hashes = Vec::new();
        for part in parts {
            hashes.extend(joined(part?.join())?);
        }
        Ok(hashes)
    })
}

fn joined(done: std::thread::Result<io::Result<Vec<u8>>>) -> io::Result<Vec<u8>> {
    done.map_err(|_| io::Error::other("hashing panicked"))?
}

/// Returns the concatenated hashes of the blocks of `block_len` bytes (0: one block) from `offset`
/// to `offset + len`.
///
/// # Errors
/// The system's error; `UnexpectedEof` if the file is shorter.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn many_threads_come_to_the_same_hashes_as_one() {
        let scratch = Scratch::new();
        let path = scratch.join("file");
        let content: Vec<u8> = (0..1_000_003_u32).map(|at| (at % 251) as u8).collect();
        std::fs::write(&path, &content).unwrap();
        for (len, block_len) in [
            (1_000_003, 4096),
            (1_000_003, 1 << 20),
            (70_000, 65_536),
            (70_000, 0),
            (0, 4096),
            (0, 0),
        ] {
            let file = File::open(&path).unwrap();
            let one = blocks(&file, 0, len, block_len).unwrap();
            let many = begin(file, len, block_len).join().unwrap();
            assert_eq!(one, many, "{len} by {block_len}");
            let first = if block_len == 0 {
                len
            } else {
                len.min(block_len)
            };
            let first = usize::try_from(first).unwrap();
            assert_eq!(
                one[..HASH_BYTES],
                *blake3::hash(&content[..first]).as_bytes()
            );
        }
        let short = begin(File::open(&path).unwrap(), 1_000_004, 4096);
        let why = short.join().unwrap_err();
        assert_eq!(why.kind(), io::ErrorKind::UnexpectedEof);
    }
}
