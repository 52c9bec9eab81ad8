//! The compressed streams of both directions, each by the method that was agreed for it. NEWKEYS
//! begins a new stream in its own direction, and may change the method.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use compress::{
    Compressor, Decompressor, DeflateError, Form, InflateError, Origin, Report, Settings, Totals,
    ZstdCompressor, ZstdDecompressor,
};

use crate::config::Compression;

/// What we send. Its own place in time is behind the queue: what waits there may belong to the
/// keys, and to the method, before.
pub(super) struct OutStream {
    settings: Settings,
    /// Of what leaves next.
    method: Compression,
    /// Each serves all epochs, with whoever does its work.
    zlib: Option<Compressor>,
    zstd: Option<ZstdCompressor>,
}

impl OutStream {
    pub(super) fn new(settings: Settings) -> Self {
        Self {
            settings,
            method: Compression::None,
            zlib: None,
            zstd: None,
        }
    }

    /// A new stream by this method begins.
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

    /// Appends what stands for `payload`, or what comes before it, to `out`.
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

    /// zlib's, which others may work for.
    pub(super) fn zlib(&mut self) -> Option<&mut Compressor> {
        self.zlib.as_mut()
    }

    fn by_zstd(&self) -> Option<&ZstdCompressor> {
        self.zstd
            .as_ref()
            .filter(|_| self.method == Compression::Zstd)
    }

    pub(super) fn report(&self) -> Option<Report> {
        match self.by_zstd() {
            Some(zstd) => Some(zstd.report()),
            None => self.zlib.as_ref().map(Compressor::report),
        }
    }

    /// The level for what comes next.
    pub(super) fn level(&self) -> Option<u8> {
        match self.by_zstd() {
            Some(zstd) => Some(zstd.level()),
            None => self.zlib.as_ref().map(Compressor::level),
        }
    }

    pub(super) fn set_level(&mut self, level: u8) {
        if let Some(zlib) = &mut self.zlib {
            zlib.set_level(level);
        }
        if let Some(zstd) = &mut self.zstd {
            zstd.set_level(level);
        }
    }

    /// Who compresses bulk.
    pub(super) fn engine(&self) -> Option<String> {
        if self.by_zstd().is_some() {
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
        if let Some(zlib) = &mut self.zlib {
            zlib.shed();
        }
        if let Some(zstd) = &mut self.zstd {
            zstd.shed();
        }
    }
}

/// What we receive.
pub(super) enum InStream {
    Zlib(Decompressor),
    Zstd(ZstdDecompressor),
}

impl InStream {
    /// A new stream by this method begins, behind `before`.
    pub(super) fn begin(method: Compression, before: Option<Self>) -> Option<Self> {
        match (method, before) {
            (Compression::None, _) => None,
            (Compression::ZlibOpenssh, Some(Self::Zlib(mut zlib))) => {
                zlib.reset();
                Some(Self::Zlib(zlib))
            }
            (Compression::ZlibOpenssh, _) => Some(Self::Zlib(Decompressor::new())),
            (Compression::Zstd, Some(Self::Zstd(mut zstd))) => {
                zstd.reset();
                Some(Self::Zstd(zstd))
            }
            (Compression::Zstd, _) => Some(Self::Zstd(ZstdDecompressor::new())),
        }
    }

    /// The place of the payload in `input`, where it is stored there as it is.
    pub(super) fn stored(&mut self, input: &[u8], limit_bytes: usize) -> Option<Range<usize>> {
        match self {
            Self::Zlib(zlib) => zlib.stored(input, limit_bytes),
            Self::Zstd(zstd) => zstd.stored(input, limit_bytes),
        }
    }

    pub(super) fn decompress(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        limit_bytes: usize,
    ) -> Result<(), InflateError> {
        match self {
            Self::Zlib(zlib) => zlib.decompress(input, out, limit_bytes),
            Self::Zstd(zstd) => zstd.decompress(input, out, limit_bytes),
        }
    }

    pub(super) fn totals(&self) -> Totals {
        match self {
            Self::Zlib(zlib) => zlib.totals(),
            Self::Zstd(zstd) => zstd.totals(),
        }
    }

    pub(super) fn has_spare(&self) -> bool {
        matches!(self, Self::Zlib(zlib) if zlib.has_spare())
    }

    pub(super) fn shed(&mut self) {
        if let Self::Zlib(zlib) = self {
            zlib.shed();
        }
    }
}
