//! Sending: payload in, flushed piece of the stream out.

use zlib_rs::{Deflate, DeflateFlush, Status};

use super::WINDOW_BITS;
use crate::Encoder;
use crate::error::DeflateError;

/// Level 1 of zlib-rs uses static trees alone: incompressible data grows by 5.5 %, and Dropbear
/// 2022.83 then closes the connection ("Bad packet size").
const LEAST_LEVEL: u8 = 2;

/// zlib's highest.
const MOST_LEVEL: u8 = 9;

/// Output space to begin with, beyond the payload's own length, in bytes: header, block headers
/// and flush.
const SLACK_BYTES: usize = 64;

/// One zlib stream being written.
pub(crate) struct ZlibEncoder {
    stream: Deflate,
}

impl ZlibEncoder {
    pub(crate) fn new(level: u8) -> Self {
        let level = level.clamp(LEAST_LEVEL, MOST_LEVEL);
        Self {
            stream: Deflate::new(i32::from(level), true, WINDOW_BITS),
        }
    }

    fn encode_to_end(&mut self, mut payload: &[u8], out: &mut Vec<u8>) -> Result<(), DeflateError> {
        let mut end = out.len();
        out.resize(end + payload.len() + SLACK_BYTES, 0);
        loop {
            let (in_before, out_before) = (self.stream.total_in(), self.stream.total_out());
            let space = out.get_mut(end..).ok_or(DeflateError)?;
            let space_len = space.len();
            let status = self
                .stream
                .compress(payload, space, DeflateFlush::PartialFlush)
                .map_err(|_| DeflateError)?;
            let taken = delta(in_before, self.stream.total_in())?;
            let made = delta(out_before, self.stream.total_out())?;
            payload = payload.get(taken..).ok_or(DeflateError)?;
            end += made;
            match status {
                // zlib's rule: a flush is complete once it left output space unused.
                Status::Ok if payload.is_empty() && made < space_len => break,
                // A call that finds nothing left to flush says so.
                Status::BufError if payload.is_empty() && made == 0 => break,
                Status::Ok if made == space_len => out.resize(end + SLACK_BYTES + payload.len(), 0),
                _ => return Err(DeflateError),
            }
        }
        out.truncate(end);
        Ok(())
    }
}

impl Encoder for ZlibEncoder {
    fn encode(&mut self, payload: &[u8], out: &mut Vec<u8>) -> Result<(), DeflateError> {
        let start = out.len();
        let result = self.encode_to_end(payload, out);
        if result.is_err() {
            out.truncate(start);
        }
        result
    }

    fn reset(&mut self) {
        self.stream.reset();
    }
}

fn delta(before: u64, after: u64) -> Result<usize, DeflateError> {
    usize::try_from(after.wrapping_sub(before)).map_err(|_| DeflateError)
}
