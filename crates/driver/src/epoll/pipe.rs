//! The size of the pipes that bulk data goes through.
//!
//! A pipe holds 64 KiB unless asked otherwise, so the programs on its two ends wake each other
//! for every 64 KiB. One that carries bulk is asked for more, once; an idle or interactive one
//! is left alone, as the kernel counts the room that all of a user's pipes have, used or not.

use std::os::fd::AsFd;

/// Room that a pipe with bulk data is asked for, bytes. A MiB measured no faster, and 64 MiB is
/// what the kernel lets the pipes of one user have in all (`pipe-user-pages-soft`).
const BULK_PIPE_BYTES: usize = 256 << 10;
/// Bytes that make a stream bulk.
const BULK_BYTES: usize = 1 << 20;

/// Watches what goes through a descriptor until it is bulk.
#[derive(Debug, Default)]
pub(super) struct PipeGrowth {
    bytes: usize,
    done: bool,
}

impl PipeGrowth {
    /// `count` bytes went through `fd`.
    #[inline]
    pub(super) fn count(&mut self, fd: impl AsFd, count: usize) {
        if self.done {
            return;
        }
        self.bytes = self.bytes.saturating_add(count);
        if self.bytes >= BULK_BYTES {
            self.done = true;
            // No pipe, or a system that grants no more: either way it goes on as it is.
            let _ = sys::io::set_pipe_size(fd, BULK_PIPE_BYTES);
        }
    }
}
