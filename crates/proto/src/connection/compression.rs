//! Compression as the connection's owner sees it: who does it, how hard, and what came of it.

use alloc::string::String;

use super::Connection;

impl Connection {
    /// What compression has done in our direction, if there was any.
    #[must_use]
    pub fn compress_report(&self) -> Option<compress::Report> {
        self.transport.compress_report()
    }

    /// What the peer's direction has brought, if it was compressed.
    #[must_use]
    pub fn inflate_totals(&self) -> Option<compress::Totals> {
        self.transport.inflate_totals()
    }

    /// How our direction was to be compressed.
    #[must_use]
    pub fn compress_settings(&self) -> compress::Settings {
        self.transport.config.deflate
    }

    /// The level for what comes next, 0 to 9, if our direction is compressed; 0 stores.
    #[must_use]
    pub fn compress_level(&self) -> Option<u8> {
        self.transport.compress_level()
    }

    /// Sets the level for what comes next, never above the one asked for; 0 stores. Only an
    /// adaptive stream takes it.
    pub fn set_compress_level(&mut self, level: u8) {
        self.transport.set_compress_level(level);
    }

    /// Who compresses bulk of our direction, if anybody does.
    #[must_use]
    pub fn compress_engine(&self) -> Option<String> {
        self.transport.compress_engine()
    }

    /// zlib's compressor of our direction, which others may work for; none where zstd compresses.
    pub fn compressor(&mut self) -> Option<&mut compress::Compressor> {
        self.transport.compressor()
    }
}
