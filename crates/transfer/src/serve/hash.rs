//! `hash-range` (docs/PROTOCOL.md): BLAKE3 of a range of a file, as a whole or by blocks.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use sftp::Code;
use sftp::extension::HashRange;
use sftp::message::reply::encode_extended;
use sftp::own::{HASH_BYTES, Hashes, MAX_HASH_BLOCKS, MIN_HASH_BLOCK_BYTES};
use sys::fs::content;

use super::status::Failed;
use super::{Buffers, Done, Job, Level, Outbox, Serve, Slice, shown};

/// Bytes that are hashed in one slice.
const SLICE_BYTES: usize = 1 << 20;
/// Bytes of one read: what fits in a core's cache.
const READ_BYTES: usize = 128 * 1024;

/// A range that is being hashed.
pub(super) struct Hash {
    pub(super) id: u32,
    fd: Arc<OwnedFd>,
    offset: u64,
    left: u64,
    block_len: u64,
    /// Of the block that has begun.
    block_left: u64,
    hasher: blake3::Hasher,
    hashed: u64,
    hashes: Vec<u8>,
    buffer: Vec<u8>,
}

impl Hash {
    pub(super) fn slice(
        &mut self,
        out: &mut Outbox,
        buffers: &mut dyn Buffers,
    ) -> Result<Slice, Failed> {
        let mut done = 0;
        while done < SLICE_BYTES {
            let wanted = self.left.min(self.block_left).min(READ_BYTES as u64);
            let room = usize::try_from(wanted).unwrap_or(READ_BYTES);
            let room = self.buffer.get_mut(..room).unwrap_or_default();
            let count = if room.is_empty() {
                0
            } else {
                content::read_at(&*self.fd, room, self.offset)?
            };
            if count == 0 {
                return Ok(self.answer(out, buffers));
            }
            self.hasher.update(room.get(..count).unwrap_or_default());
            let count_bytes = count as u64;
            self.offset = self.offset.saturating_add(count_bytes);
            self.hashed += count_bytes;
            self.left -= count_bytes.min(self.left);
            self.block_left -= count_bytes.min(self.block_left);
            done += count;
            if self.block_left == 0 {
                self.end_block();
            }
        }
        Ok(Slice::More(done))
    }

    fn end_block(&mut self) {
        self.hashes
            .extend_from_slice(self.hasher.finalize().as_bytes());
        self.hasher.reset();
        self.block_left = self.block_len;
    }

    fn answer(&mut self, out: &mut Outbox, buffers: &mut dyn Buffers) -> Slice {
        if self.block_left < self.block_len || self.hashes.is_empty() {
            self.end_block();
        }
        let hashes = Hashes {
            len: self.hashed,
            hashes: &self.hashes,
        };
        let mut message = Vec::with_capacity(self.hashes.len() + 64);
        encode_extended(self.id, &mut message, |fields| hashes.write(fields));
        out.put(&message, buffers);
        Slice::Answered
    }
}

impl Serve {
    pub(super) fn hash_range(&mut self, id: u32, request: &HashRange<'_>) -> Done {
        let file = self.handles.file(request.handle)?;
        let fd = file.fd.clone();
        if self.log.wants(Level::Debug1) {
            let line = format!("request {id}: hash-range \"{}\"", shown(&file.path));
            self.log.line(Level::Debug1, &line);
        }
        let size = content::info(&*fd)?.size;
        let left = request.len.min(size.saturating_sub(request.offset));
        let block_len = match request.block_len {
            0 => u64::MAX,
            len if len < MIN_HASH_BLOCK_BYTES => {
                return Err(Failed::new(Code::FAILURE, "blocks are too short"));
            }
            len => len,
        };
        let blocks = left.div_ceil(block_len);
        if blocks > MAX_HASH_BLOCKS {
            return Err(Failed::new(Code::FAILURE, "too many blocks for one answer"));
        }
        let room = usize::try_from(blocks).unwrap_or(0) * HASH_BYTES;
        self.begin_job(Job::Hash(Box::new(Hash {
            id,
            fd,
            offset: request.offset,
            left,
            block_len,
            block_left: block_len,
            hasher: blake3::Hasher::new(),
            hashed: 0,
            hashes: Vec::with_capacity(room.max(HASH_BYTES)),
            buffer: vec![0; READ_BYTES],
        })))
    }
}
