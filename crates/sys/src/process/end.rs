//! Immediate exit of a process that has loaded untrusted code.

/// Exits with `status`, without running exit handlers of libraries and without flushing buffers.
pub fn exit_at_once(status: i32) -> ! {
    // SAFETY: ends all threads; nothing of this process is used afterwards.
    unsafe { libc::_exit(status) }
}
