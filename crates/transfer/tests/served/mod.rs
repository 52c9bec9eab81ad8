//! Buffers and log for Fulmar's server without a connection.

use packet::PacketBuf;
use sftp::server::{Buffers, Log, LogLevel};

/// Unpooled buffers.
pub struct Plain;

impl Buffers for Plain {
    fn take(&mut self, capacity: usize) -> PacketBuf {
        PacketBuf::with_capacity(capacity)
    }

    fn max_bytes(&self) -> usize {
        32_768
    }
}

/// Logs nothing.
pub struct Silent;

impl Log for Silent {
    fn wants(&self, _level: LogLevel) -> bool {
        false
    }

    fn line(&self, _level: LogLevel, _text: &str) {}
}
