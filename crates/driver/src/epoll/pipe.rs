//! The size of the pipes that bulk data goes through.
//!
//! A pipe holds 64 KiB unless asked otherwise, so the programs on its two ends wake each other
//! for every 64 KiB. One that carries bulk is asked for more, in steps; an idle or interactive
//! one is left alone, as the kernel counts the room that all of a user's pipes have, used or not
//! (`pipe-user-pages-soft`, 64 MiB), and gives new ones a page when it is used up.

use std::os::fd::AsFd;

/// What has gone through a pipe, and the room that it is asked for then, bytes.
///
/// The second step matters most where the cores are shared: a program that has to wait for its
/// turn leaves the others as much work as the pipes hold. Few streams at a time are that long.
const STEPS: [(usize, usize); 2] = [(1 << 20, 256 << 10), (32 << 20, 1 << 20)];

/// Watches what goes through a descriptor for when it is bulk.
#[derive(Debug, Default)]
pub(super) struct PipeGrowth {
    bytes: usize,
    steps: usize,
}

impl PipeGrowth {
    /// `count` bytes went through `fd`.
    #[inline]
    pub(super) fn count(&mut self, fd: impl AsFd, count: usize) {
        let Some((after_bytes, room_bytes)) = STEPS.get(self.steps) else {
            return;
        };
        self.bytes = self.bytes.saturating_add(count);
        if self.bytes >= *after_bytes {
            self.steps += 1;
            // No pipe, or a system that grants no more: either way it goes on as it is.
            let _ = sys::io::set_pipe_size(fd, *room_bytes);
        }
    }
}
