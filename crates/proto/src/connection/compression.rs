//! Compression settings and statistics of a connection.

use alloc::string::String;

use super::Connection;

impl Connection {
    /// Statistics of the data sent, if it was compressed.
    #[must_use]
    pub fn compress_report(&self) -> Option<compress::CompressionReport> {
        self.transport.outbound.stream().report()
    }

    /// Totals of the data received, if it was compressed.
    #[must_use]
    pub fn inflate_totals(&self) -> Option<compress::Totals> {
        self.transport.inbound.totals()
    }

    /// Configured settings for the data sent.
    #[must_use]
    pub fn compress_settings(&self) -> compress::CompressionSettings {
        self.transport.config.deflate
    }

    /// Current level for the data sent, 0 to 9, if it is compressed; 0 stores.
    #[must_use]
    pub fn compress_level(&self) -> Option<u8> {
        self.transport.outbound.stream().level()
    }

    /// Sets the level for the next packets, at most the configured one; 0 stores. Only an adaptive
    /// stream uses it.
    pub fn set_compress_level(&mut self, level: u8) {
        self.transport.outbound.stream_mut().set_level(level);
    }

    /// Name of the engine that compresses sent bulk data, if any.
    #[must_use]
    pub fn compress_engine(&self) -> Option<String> {
        self.transport.outbound.stream().engine()
    }

    /// The zlib compressor of the data sent, which accelerators may serve; `None` for other
    /// methods.
    pub fn compressor(&mut self) -> Option<&mut compress::Compressor> {
        self.transport.outbound.stream_mut().zlib()
    }
}
