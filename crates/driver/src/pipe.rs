//! Growth of the pipes that carry bulk data.
//!
//! A pipe holds 64 KiB by default, so the programs at its two ends wake each other for every 64
//! KiB. A pipe that carries bulk data is enlarged in steps. An idle or interactive pipe keeps its
//! size, because the kernel limits the total capacity of a user's pipes, used or not
//! (`pipe-user-pages-soft`, 64 MiB), and gives new pipes one page once that is used up.

use std::os::fd::AsFd;

/// Bytes through a pipe, and the capacity requested at that point, bytes.
///
/// The second step matters most where processes share cores: while one program waits to be
/// scheduled, the others have as much work as the pipes hold. Few streams are long enough at any
/// time.
const STEPS: [(usize, usize); 2] = [(1 << 20, 256 << 10), (32 << 20, 1 << 20)];

/// Counts the bytes through a descriptor and enlarges its pipe.
#[derive(Debug, Default)]
pub(super) struct PipeGrowth {
    bytes: usize,
    steps: usize,
}

impl PipeGrowth {
    /// Records that `count` bytes went through `fd`.
    #[inline]
    pub(super) fn count(&mut self, fd: impl AsFd, count: usize) {
        let Some((after_bytes, room_bytes)) = STEPS.get(self.steps) else {
            return;
        };
        self.bytes = self.bytes.saturating_add(count);
        if self.bytes >= *after_bytes {
            self.steps += 1;
            // Best effort: `fd` may not be a pipe, or the system may not grant more.
            let _ = sys::io::set_pipe_size(fd, *room_bytes);
        }
    }
}
