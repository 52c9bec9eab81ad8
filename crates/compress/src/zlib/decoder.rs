//! Receiving: one packet's piece of the stream in, payload out, under a limit.

use zlib_rs::{Inflate, InflateError as ZlibError, InflateFlush, Status};

use super::WINDOW_BITS;
use crate::Decoder;
use crate::error::InflateError;

/// The first output space, in bytes; each further one doubles what came out.
const FIRST_BYTES: usize = 4096;

/// One zlib stream being read.
pub(crate) struct ZlibDecoder {
    stream: Inflate,
    /// After an error zlib's state is nobody's guess: no further packet reaches it.
    failed: Option<InflateError>,
}

impl ZlibDecoder {
    pub(crate) fn new() -> Self {
        Self {
            stream: Inflate::new(true, WINDOW_BITS),
            failed: None,
        }
    }

    fn decode_to_end(
        &mut self,
        mut input: &[u8],
        out: &mut Vec<u8>,
        limit_bytes: usize,
    ) -> Result<(), InflateError> {
        let start = out.len();
        let mut produced: usize = 0;
        loop {
            // One byte past the limit shows that there is more, and never more than that.
            let size = FIRST_BYTES
                .max(produced.saturating_mul(2))
                .min(limit_bytes.saturating_add(1));
            out.resize(start + size, 0);
            let space = out
                .get_mut(start + produced..)
                .ok_or(InflateError::Corrupt)?;
            let space_len = space.len();
            let (in_before, out_before) = (self.stream.total_in(), self.stream.total_out());
            let status = self
                .stream
                .decompress(input, space, InflateFlush::SyncFlush)
                .map_err(translate)?;
            let taken = delta(in_before, self.stream.total_in())?;
            let made = delta(out_before, self.stream.total_out())?;
            input = input.get(taken..).ok_or(InflateError::Corrupt)?;
            produced += made;
            if produced > limit_bytes {
                return Err(InflateError::TooLong { limit_bytes });
            }
            if status == Status::StreamEnd {
                return Err(InflateError::StreamEnded);
            }
            if made < space_len {
                // Space was left, so the input is at its end.
                break;
            }
        }
        out.truncate(start + produced);
        match (input.is_empty(), produced) {
            (false, _) => Err(InflateError::Corrupt),
            (true, 0) => Err(InflateError::Empty),
            (true, _) => Ok(()),
        }
    }
}

impl Decoder for ZlibDecoder {
    fn decode(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        limit_bytes: usize,
    ) -> Result<(), InflateError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let start = out.len();
        let result = self.decode_to_end(input, out, limit_bytes);
        if let Err(error) = result {
            out.truncate(start);
            self.failed = Some(error);
        }
        result
    }

    fn reset(&mut self) {
        *self = Self::new();
    }
}

fn translate(error: ZlibError) -> InflateError {
    match error {
        ZlibError::MemError => InflateError::OutOfMemory,
        ZlibError::NeedDict { .. } | ZlibError::StreamError | ZlibError::DataError => {
            InflateError::Corrupt
        }
    }
}

fn delta(before: u64, after: u64) -> Result<usize, InflateError> {
    usize::try_from(after.wrapping_sub(before)).map_err(|_| InflateError::Corrupt)
}
