//! The resumable inflate (zlib-rs), for streams whose packets do not end at block boundaries:
//! slower, but able to stop anywhere.

use zlib_rs::{Inflate, InflateError as ZlibError, InflateFlush, Status};

use crate::error::InflateError;

/// log2 of the window, in bytes: deflate's largest.
const WINDOW_BITS: u8 = 15;
/// Initial output space in bytes; it grows to twice the bytes produced so far.
const FIRST_BYTES: usize = 4096;

/// The state of inflating one deflate stream.
pub(crate) struct Resumable {
    stream: Inflate,
}

impl Resumable {
    /// Continues a stream whose last output is `history`, and whose next `carry.1` bits are
    /// `carry.0`, the first bit lowest.
    pub(crate) fn resume(history: &[u8], carry: (u64, u32)) -> Result<Self, InflateError> {
        let mut stream = Inflate::new(false, WINDOW_BITS);
        if !history.is_empty() {
            stream.set_dictionary(history).map_err(translate)?;
        }
        let (bits, count) = carry;
        if count > 0 {
            // The library accepts only whole bytes: empty blocks before the bits make the total a
            // whole number of bytes.
            let lead = lead(bits, count);
            let status = stream.decompress(&lead, &mut [0], InflateFlush::SyncFlush);
            let status = status.map_err(translate)?;
            if status != Status::Ok || stream.total_out() != 0 {
                return Err(InflateError::Corrupt);
            }
        }
        Ok(Self { stream })
    }

    /// Appends the plaintext of `input` to `out`.
    pub(crate) fn decode(
        &mut self,
        mut input: &[u8],
        out: &mut Vec<u8>,
        limit_bytes: usize,
    ) -> Result<(), InflateError> {
        let start = out.len();
        let mut produced: usize = 0;
        loop {
            // One byte past the limit reveals excess output.
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
                // Output space is left, so all input is consumed.
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

/// Returns empty blocks followed by the `count` low bits of `bits`, in whole bytes.
fn lead(bits: u64, count: u32) -> Vec<u8> {
    let mut bytes = BitVec::default();
    if count % 2 == 1 {
        bytes.push_odd_block();
    }
    while !(bytes.count + count as usize).is_multiple_of(8) {
        // An empty static block.
        bytes.push(0b010, 10);
    }
    bytes.push(bits, count);
    bytes.bytes
}

#[derive(Default)]
struct BitVec {
    bytes: Vec<u8>,
    count: usize,
}

impl BitVec {
    fn push(&mut self, bits: u64, count: u32) {
        for at in 0..count {
            let bit = u8::from(bits >> at & 1 == 1);
            match self.bytes.last_mut() {
                Some(last) if !self.count.is_multiple_of(8) => *last |= bit << (self.count % 8),
                _ => self.bytes.push(bit),
            }
            self.count += 1;
        }
    }

    /// Appends an empty dynamic block, of 91 bits: static ones have ten bits, so that no number of
    /// them gives an odd total.
    fn push_odd_block(&mut self) {
        self.push(0b100, 3);
        // 257 literal and length codes, 2 distance codes, 18 precode codes.
        self.push(0, 5);
        self.push(1, 5);
        self.push(14, 4);
        // In the order of RFC 1951 §3.2.7 the third is symbol 18 and the last is symbol 1: one bit
        // each, 0 for symbol 1 and 1 for symbol 18.
        for index in 0..18 {
            self.push(u64::from(index == 2 || index == 17), 3);
        }
        // 138 and 118 zeros: no literals.
        for zeros in [138, 118] {
            self.push(1, 1);
            self.push(zeros - 11, 7);
        }
        // A bit for the end of the block, and for each of two distances.
        self.push(0, 3);
        // The end of the block.
        self.push(0, 1);
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
