//! The comparison of the target's existing content with the source, before a copy continues after
//! that content: by the hashes of its blocks if the server can hash, else by its last bytes.

use std::borrow::Borrow;
use std::fs::File;
use std::os::unix::fs::FileExt;

use sftp::extension::{self, Extended};
use sftp::message::{Reply, Request};
use sftp::vendor;

use super::FileCopy;
use crate::engine::{Op, Session, Token};
use crate::source::hash::{self, Hashing};

/// Number of bytes at the end of a part that are compared if the server cannot hash.
const TAIL_BYTES: u64 = 32 << 10;
/// Minimum length of the blocks in which a part is compared, bytes.
const BLOCK_BYTES: u64 = 4 << 20;

/// A comparison whose answer has not arrived.
#[derive(Debug)]
pub(crate) struct Proof {
    /// Number of bytes that are compared, from the beginning of the file.
    len: u64,
    by: By,
}

#[derive(Debug)]
enum By {
    /// The hashes of the local file's blocks; `None` if it could not be opened again.
    Hashes(Option<Hashing>),
    /// The server's last bytes, as far as they have arrived.
    Tail(Vec<u8>),
}

impl Proof {
    /// Asks about the first `len` bytes of the file that the first connection has open; `None` if
    /// it has not. `local` returns the local file, which is hashed at the same time.
    pub(crate) fn begin<F>(
        copy: &mut FileCopy,
        session: &mut Session,
        len: u64,
        local: impl FnOnce() -> Option<F>,
    ) -> Option<Self>
    where
        F: Borrow<File> + Send + Sync + 'static,
    {
        let handle = copy.handles.first()?;
        let by = if session.server().has(vendor::HASH_RANGE, "1") {
            let block_len = block(len);
            let request = Extended::HashRange(extension::HashRange {
                handle: &handle,
                offset: 0,
                len,
                block_len,
            });
            copy.send(session, Op::Hash, &Request::Extended(request));
            By::Hashes(local().map(|file| hash::begin(file, len, block_len)))
        } else {
            let tail = len.min(TAIL_BYTES);
            let offset = len - tail;
            let tail = u32::try_from(tail).unwrap_or(u32::MAX);
            copy.read(session, &handle, (offset, tail));
            By::Tail(Vec::new())
        };
        Some(Self { len, by })
    }

    /// Processes data of the answer.
    pub(crate) fn data(&mut self, bytes: &[u8]) {
        if let By::Tail(tail) = &mut self.by {
            tail.extend_from_slice(bytes);
        }
    }

    /// Returns the end of the range that is equal on both sides, once the answer is complete.
    /// `reply` is the answer if it was no DATA. The last bytes prove nothing of a file that
    /// `may_have_gaps`: several connections may have written it.
    pub(crate) fn ends(
        self,
        asked: Token,
        reply: Option<&Reply<'_>>,
        local: Option<&File>,
        may_have_gaps: bool,
    ) -> u64 {
        match (self.by, reply) {
            (By::Hashes(ours), Some(Reply::Extended(theirs))) => {
                let ours = ours.and_then(|hashing| hashing.join().ok());
                ours.map_or(0, |ours| equal_len(theirs, &ours, self.len))
            }
            (By::Tail(theirs), None) if !may_have_gaps => {
                let is_whole = u32::try_from(theirs.len()).is_ok_and(|len| len == asked.len);
                let mut ours = vec![0; theirs.len()];
                let read = local.map(|file| file.read_exact_at(&mut ours, asked.offset));
                match is_whole && matches!(read, Some(Ok(()))) && ours == theirs {
                    true => self.len,
                    false => 0,
                }
            }
            _ => 0,
        }
    }
}

/// Returns the block length for comparing `len` bytes: at least 4 MiB, and enough that the hashes
/// of all blocks fit in one message.
fn block(len: u64) -> u64 {
    BLOCK_BYTES.max(len.div_ceil(vendor::MAX_HASH_BLOCKS).next_multiple_of(4096))
}

/// Returns how many of the first `len` bytes are equal on both sides, rounded down to whole blocks:
/// `theirs` is the server's answer to a hash request for them, `ours` has the hashes of the local
/// blocks.
fn equal_len(theirs: &[u8], ours: &[u8], len: u64) -> u64 {
    let Ok(theirs) = vendor::Hashes::decode(theirs) else {
        return 0;
    };
    if theirs.len != len {
        return 0;
    }
    let equal = theirs
        .hashes
        .chunks(vendor::HASH_BYTES)
        .zip(ours.chunks(vendor::HASH_BYTES))
        .take_while(|(theirs, ours)| theirs == ours)
        .count();
    let equal = u64::try_from(equal).unwrap_or(0);
    equal.saturating_mul(block(len)).min(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_proven_ends_with_the_first_block_that_differs() {
        let answer = |len, hashes: &[u8]| {
            let mut fields = Vec::new();
            vendor::Hashes { len, hashes }.write(&mut fields);
            fields
        };
        let blocks = [
            [1; vendor::HASH_BYTES],
            [2; vendor::HASH_BYTES],
            [3; vendor::HASH_BYTES],
        ]
        .concat();
        let mut other = blocks.clone();
        other[vendor::HASH_BYTES] ^= 1;
        let len = 2 * BLOCK_BYTES + 5;
        assert_eq!(block(len), BLOCK_BYTES);
        assert_eq!(equal_len(&answer(len, &blocks), &blocks, len), len);
        assert_eq!(equal_len(&answer(len, &other), &blocks, len), BLOCK_BYTES);
        assert_eq!(equal_len(&answer(len - 1, &blocks), &blocks, len), 0);
        assert_eq!(equal_len(b"no answer", &blocks, len), 0);
        assert!(block(1 << 50) > BLOCK_BYTES);
        assert!((1_u64 << 50).div_ceil(block(1 << 50)) <= vendor::MAX_HASH_BLOCKS);
    }
}
