//! Compressed streams of both directions, each by its negotiated method. NEWKEYS starts a new
//! stream in its own direction, and may change the method.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use compress::{
    CompressionReport, CompressionSettings, Compressor, Decompressor, DeflateError, Form, Origin,
    PacketCompressor, ZstdCompressor,
};

use crate::config::Compression;

/// Compression of sent data. It works at the head of the queue, whose later items may belong to
/// other keys and another method.
pub(crate) struct OutStream {
    settings: CompressionSettings,
    /// Method of the next payload that leaves.
    method: Compression,
    /// Each compressor serves all epochs; that of zlib keeps its accelerator.
    zlib: Option<Compressor>,
    zstd: Option<ZstdCompressor>,
}

impl OutStream {
    pub(super) fn new(settings: CompressionSettings) -> Self {
        Self {
            settings,
            method: Compression::None,
            zlib: None,
            zstd: None,
        }
    }

    /// Starts a new stream with this method.
    pub(super) fn begin(&mut self, method: Compression) {
        self.method = method;
        match method {
            Compression::None => {}
            Compression::ZlibOpenssh => match &mut self.zlib {
                Some(zlib) => zlib.reset(),
                none => *none = Some(Compressor::new(self.settings)),
            },
            Compression::Zstd => match &mut self.zstd {
                Some(zstd) => zstd.reset(),
                none => *none = Some(ZstdCompressor::new(self.settings)),
            },
        }
    }

    pub(super) fn method(&self) -> Compression {
        self.method
    }

    /// Appends the encoding of `payload`, or the header that precedes it, to `out`.
    pub(super) fn compress_around(
        &mut self,
        origin: Origin,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Form, DeflateError> {
        match (self.method, &mut self.zlib, &mut self.zstd) {
            (Compression::ZlibOpenssh, Some(zlib), _) => zlib.compress_around(origin, payload, out),
            (Compression::Zstd, _, Some(zstd)) => zstd.compress_around(origin, payload, out),
            _ => Err(DeflateError),
        }
    }

    /// The zlib compressor, which accelerators may serve.
    pub(crate) fn zlib(&mut self) -> Option<&mut Compressor> {
        self.zlib.as_mut()
    }

    /// The compressor whose figures are shown.
    fn shown(&self) -> Option<&dyn PacketCompressor> {
        match (self.method, &self.zlib, &self.zstd) {
            (Compression::Zstd, _, Some(zstd)) => Some(zstd),
            (_, Some(zlib), _) => Some(zlib),
            _ => None,
        }
    }

    fn each(&mut self) -> impl Iterator<Item = &mut dyn PacketCompressor> {
        let zlib = self
            .zlib
            .iter_mut()
            .map(|zlib| zlib as &mut dyn PacketCompressor);
        zlib.chain(
            self.zstd
                .iter_mut()
                .map(|zstd| zstd as &mut dyn PacketCompressor),
        )
    }

    pub(crate) fn report(&self) -> Option<CompressionReport> {
        self.shown().map(PacketCompressor::report)
    }

    /// Current compression level.
    pub(crate) fn level(&self) -> Option<u8> {
        self.shown().map(PacketCompressor::level)
    }

    pub(crate) fn set_level(&mut self, level: u8) {
        for compressor in self.each() {
            compressor.set_level(level);
        }
    }

    /// Name of the engine that compresses bulk data.
    pub(crate) fn engine(&self) -> Option<String> {
        if self.method == Compression::Zstd && self.zstd.is_some() {
            return Some(format!("zstd {}", compress::zstd_version()));
        }
        let zlib = self.zlib.as_ref()?;
        Some(zlib.engine())
    }

    pub(super) fn has_spare(&self) -> bool {
        self.zlib.as_ref().is_some_and(Compressor::has_spare)
            || self.zstd.as_ref().is_some_and(ZstdCompressor::has_spare)
    }

    pub(super) fn shed(&mut self) {
        for compressor in self.each() {
            compressor.shed();
        }
    }
}

/// Starts decompression of a new stream of received data with this method; reuses `before` if it
/// has the same method.
pub(super) fn begin_in_stream(
    method: Compression,
    before: Option<Decompressor>,
) -> Option<Decompressor> {
    let new: fn() -> Decompressor = match method {
        Compression::None => return None,
        Compression::ZlibOpenssh => Decompressor::new,
        Compression::Zstd => Decompressor::zstd,
    };
    let same = before.filter(|stream| stream.is_zstd() == (method == Compression::Zstd));
    let mut stream = same.unwrap_or_else(new);
    stream.reset();
    Some(stream)
}
