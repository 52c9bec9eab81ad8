//! [`PacketCompressor`]: the methods that the compressors of both methods have.

use crate::CompressionReport;
use crate::error::DeflateError;
use crate::form::Form;
use crate::origin::Origin;

/// Compression of the sending direction, by either method.
pub trait PacketCompressor {
    /// Appends the encoding of `payload` to `out`, flushed so that the peer can inflate all of it.
    /// A stored payload is not copied: the caller sends it after `out` if the returned form says
    /// so.
    ///
    /// Data of a channel may refer to earlier data of that channel; other messages are stored.
    ///
    /// # Errors
    /// [`DeflateError`]; the stream cannot continue then.
    fn compress_around(
        &mut self,
        origin: Origin,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Form, DeflateError>;

    /// Like [`PacketCompressor::compress_around`] and [`Form::complete`], for a stream with the data
    /// of a single channel and nothing else.
    ///
    /// # Errors
    /// [`DeflateError`]; the stream cannot continue then.
    fn compress(&mut self, payload: &[u8], out: &mut Vec<u8>) -> Result<(), DeflateError> {
        let form = self.compress_around(Origin::Channel(0), payload, out)?;
        form.complete(payload, out);
        Ok(())
    }

    /// Starts a new stream, to be called when NEWKEYS is sent.
    fn reset(&mut self);

    /// `CompressionLevel` for the next payload; 0 stores.
    fn level(&self) -> u8;

    /// Sets the level for the next payload, from 0 to
    /// [`CompressionSettings::level`](crate::CompressionSettings::level); 0 stores. Ignored unless
    /// the stream is adaptive. A change of zstd's level starts a new frame without history.
    fn set_level(&mut self, level: u8);

    /// Returns true if [`PacketCompressor::shed`] would free considerable memory.
    fn has_spare(&self) -> bool;

    /// Frees memory that only bulk data needs. With zlib the histories stay, and the tables for one
    /// channel's small payloads (352 KiB); with zstd the next payload starts a frame.
    fn shed(&mut self);

    /// Statistics since the connection began.
    fn report(&self) -> CompressionReport;
}
