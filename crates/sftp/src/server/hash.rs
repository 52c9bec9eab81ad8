//! `hash-range` (docs/PROTOCOL.md): BLAKE3 hashes of a range of a file, as a whole or by blocks.
//!
//! The blocks of a long range are hashed by any free thread: the server's thread, slice by slice
//! between requests, and helper threads, if there are processors for them.

use std::io;
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::Code;
use crate::extension::HashRange;
use crate::message::reply::encode_extended;
use crate::vendor::{HASH_BYTES, Hashes, MAX_HASH_BLOCKS, MIN_HASH_BLOCK_BYTES};
use sys::fs::content;

use super::status::Failed;
use super::{Buffers, Done, Job, LogLevel, Outbox, STEP_BYTES, Serve, Slice, shown};
use crate::hash::{READ_BYTES, threads};

/// Number of bytes hashed per slice.
const SLICE_BYTES: usize = 1 << 20;
/// Minimum length of a range for helpers, bytes: a shorter one is hashed before a helper has
/// started.
const LEAST_SHARED_BYTES: u64 = 32 << 20;
/// Time that a slice waits for the helpers' last blocks, before other tasks get their turn.
const PATIENCE: Duration = Duration::from_millis(1);

/// Number of helpers running in this process, for all channels and ranges.
static HELPERS: AtomicUsize = AtomicUsize::new(0);

/// A range being hashed.
pub(super) struct Hash {
    pub(super) id: u32,
    range: Arc<Range>,
    /// The block that this thread hashes.
    block: Option<Block>,
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
            let Some(block) = self.block.take().or_else(|| self.range.begin_block()) else {
                if self.range.wait(PATIENCE) {
                    return self.answer(out, buffers);
                }
                return Ok(Slice::More(STEP_BYTES));
            };
            let (count, block) = self.range.go_on(block, &mut self.buffer);
            self.block = block;
            done += count;
        }
        Ok(Slice::More(done))
    }

    fn answer(&self, out: &mut Outbox, buffers: &mut dyn Buffers) -> Result<Slice, Failed> {
        let mut state = self.range.state();
        let (blocks, hashed) = match state.end.take() {
            // An empty block does not count, except the first.
            Some(End { index, hashed }) => {
                let hashed = hashed?;
                let is_empty = index > 0 && hashed == self.range.begin_of(index);
                (if is_empty { index } else { index + 1 }, hashed)
            }
            None => (self.range.blocks, self.range.len),
        };
        let hashes_len = blocks.saturating_mul(HASH_BYTES);
        let hashes = Hashes {
            len: hashed,
            hashes: state.hashes.get(..hashes_len).unwrap_or_default(),
        };
        let mut message = Vec::with_capacity(hashes_len + 64);
        encode_extended(self.id, &mut message, |fields| hashes.write(fields));
        out.put(&message, buffers);
        Ok(Slice::Answered)
    }
}

impl Drop for Hash {
    /// Helpers end after their current read. Do not wait for them: a disk may hang.
    fn drop(&mut self) {
        self.range.over.store(true, Ordering::Relaxed);
    }
}

/// State shared by all threads that hash a range.
struct Range {
    fd: Arc<OwnedFd>,
    offset: u64,
    len: u64,
    block_len: u64,
    /// Number of blocks, at least 1.
    blocks: usize,
    /// The hashes are no longer needed.
    over: AtomicBool,
    state: Mutex<RangeState>,
    ended: Condvar,
}

/// Progress of a range.
struct RangeState {
    /// The next block to begin; blocks begin in order.
    next: usize,
    /// Number of blocks begun and not ended.
    under_way: usize,
    /// One hash per block; zeros for those that have not ended.
    hashes: Vec<u8>,
    /// The early end of the range, if any.
    end: Option<End>,
}

/// The first block that cannot be read completely.
struct End {
    index: usize,
    /// Number of bytes of the range hashed up to there, or the error of reading.
    hashed: io::Result<u64>,
}

/// A block being hashed.
struct Block {
    index: usize,
    /// Offset of the next byte in the file.
    at: u64,
    left: u64,
    hasher: blake3::Hasher,
}

impl Range {
    fn state(&self) -> MutexGuard<'_, RangeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Offset of a block relative to the range.
    fn begin_of(&self, index: usize) -> u64 {
        (index as u64).saturating_mul(self.block_len)
    }

    fn begin_block(&self) -> Option<Block> {
        let mut state = self.state();
        // Blocks after the first incomplete one do not count.
        if state.next >= self.blocks || state.end.is_some() {
            return None;
        }
        let index = state.next;
        state.next += 1;
        state.under_way += 1;
        drop(state);
        let begin = self.begin_of(index);
        Some(Block {
            index,
            at: self.offset.saturating_add(begin),
            left: self.block_len.min(self.len.saturating_sub(begin)),
            hasher: blake3::Hasher::new(),
        })
    }

    /// Hashes the next bytes of a block, up to the size of the buffer; returns their number and the
    /// block, if it continues.
    fn go_on(&self, mut block: Block, buffer: &mut [u8]) -> (usize, Option<Block>) {
        let max = usize::try_from(block.left).unwrap_or(usize::MAX);
        let max = max.min(buffer.len());
        let room = buffer.get_mut(..max).unwrap_or_default();
        if room.is_empty() {
            self.end_block(&block, ControlFlow::Continue(()));
            return (0, None);
        }
        match content::read_at(&*self.fd, room, block.at) {
            Ok(0) => {
                let end = block.at.saturating_sub(self.offset);
                self.end_block(&block, ControlFlow::Break(Ok(end)));
                (0, None)
            }
            Ok(count) => {
                block.hasher.update(room.get(..count).unwrap_or_default());
                block.at = block.at.saturating_add(count as u64);
                block.left = block.left.saturating_sub(count as u64);
                if block.left > 0 {
                    return (count, Some(block));
                }
                self.end_block(&block, ControlFlow::Continue(()));
                (count, None)
            }
            Err(error) => {
                self.end_block(&block, ControlFlow::Break(Err(error)));
                (0, None)
            }
        }
    }

    /// Ends a block: complete, or (`Break`) with the range's end in it or an error.
    fn end_block(&self, block: &Block, how: ControlFlow<io::Result<u64>>) {
        let hash = block.hasher.finalize();
        let mut state = self.state();
        state.under_way = state.under_way.saturating_sub(1);
        let at = block.index.saturating_mul(HASH_BYTES);
        if let Some(room) = state.hashes.get_mut(at..at.saturating_add(HASH_BYTES)) {
            room.copy_from_slice(hash.as_bytes());
        }
        let index = block.index;
        if let ControlFlow::Break(hashed) = how
            && state.end.as_ref().is_none_or(|end| index < end.index)
        {
            state.end = Some(End { index, hashed });
        }
        drop(state);
        self.ended.notify_all();
    }

    /// Waits until all begun blocks have ended; returns false if the time is over before.
    fn wait(&self, patience: Duration) -> bool {
        let state = self.state();
        let waited = self
            .ended
            .wait_timeout_while(state, patience, |state| state.under_way > 0);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.under_way == 0
    }

    /// Main loop of a helper.
    fn help(&self) {
        let mut buffer = vec![0; READ_BYTES];
        let mut begun = None;
        while !self.over.load(Ordering::Relaxed) {
            let Some(block) = begun.take().or_else(|| self.begin_block()) else {
                return;
            };
            (_, begun) = self.go_on(block, &mut buffer);
        }
    }
}

/// A counted helper of the process.
struct Helper;

impl Helper {
    /// Counts a helper; `None` if there are `max` already.
    fn begin(max: usize) -> Option<Self> {
        let more = |count: usize| (count < max).then_some(count + 1);
        let counted = HELPERS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        counted.is_ok().then(|| Self)
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        HELPERS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Starts helpers for a long range; without them hashing only takes longer.
fn call_helpers(range: &Arc<Range>, threads: usize) {
    let max = threads.saturating_sub(1);
    // Threads inherit the signal mask: signals are for the main thread.
    let _blocked = sys::signals::Blocked::all();
    for _ in 0..max.min(range.blocks.saturating_sub(1)) {
        let Some(helper) = Helper::begin(max) else {
            return;
        };
        let range = range.clone();
        let thread = std::thread::Builder::new().name("hash".to_owned());
        let started = thread.spawn(move || {
            range.help();
            drop(helper);
        });
        if started.is_err() {
            return;
        }
    }
}

impl Serve {
    pub(super) fn hash_range(&mut self, id: u32, request: &HashRange<'_>) -> Done {
        let file = self.handles.file(request.handle)?;
        let fd = file.fd.clone();
        if self.log.wants(LogLevel::Debug1) {
            let line = format!("request {id}: hash-range \"{}\"", shown(&file.path));
            self.log.line(LogLevel::Debug1, &line);
        }
        let size = content::info(&*fd)?.size;
        let len = request.len.min(size.saturating_sub(request.offset));
        let block_len = match request.block_len {
            0 => u64::MAX,
            len if len < MIN_HASH_BLOCK_BYTES => {
                return Err(Failed::new(Code::FAILURE, "blocks are too short"));
            }
            len => len,
        };
        let blocks = len.div_ceil(block_len).max(1);
        if blocks > MAX_HASH_BLOCKS {
            return Err(Failed::new(Code::FAILURE, "too many blocks for one answer"));
        }
        let blocks = usize::try_from(blocks).unwrap_or(1);
        let range = Arc::new(Range {
            fd,
            offset: request.offset,
            len,
            block_len,
            blocks,
            over: AtomicBool::new(false),
            state: Mutex::new(RangeState {
                next: 0,
                under_way: 0,
                hashes: vec![0; blocks.saturating_mul(HASH_BYTES)],
                end: None,
            }),
            ended: Condvar::new(),
        });
        self.begin_job(Job::Hash(Box::new(Hash {
            id,
            range: range.clone(),
            block: None,
            buffer: vec![0; READ_BYTES],
        })))?;
        if len >= LEAST_SHARED_BYTES {
            call_helpers(&range, self.hash_threads.unwrap_or_else(threads));
        }
        Ok(())
    }
}
