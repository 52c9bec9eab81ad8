//! Verification of an external engine's output: it is inflated and compared before it is used.

use zlib_rs::{Inflate, InflateFlush, Status};

use super::{Run, RunError};

/// log2 of the window size in bytes.
const WINDOW_BITS: u8 = 15;

/// A possible continuation: an empty stored block, and one that holds [`PROBE`]. Only a stream that
/// is between two blocks and on a byte inflates it to that.
const BEHIND: &[u8] = &[0, 0, 0, 0xff, 0xff, 0, 1, 0, 0xfe, 0xff, PROBE[0]];
const PROBE: &[u8] = &[0x5a];

/// Verifies runs by inflating them, one at a time.
pub struct Verifier {
    /// `None` before the first use, and after an error.
    stream: Option<Inflate>,
    plain: Vec<u8>,
}

impl Verifier {
    /// Creates a verifier; memory is allocated at the first run.
    #[must_use]
    pub fn new() -> Self {
        Self {
            stream: None,
            plain: Vec::new(),
        }
    }

    /// Checks that `out`, in pieces that end at `ends`, is `run` in raw deflate: each piece
    /// inflates to its payload alone and is fully consumed, the stream continues after it, and
    /// after the last piece it is on a byte and between blocks, where any other engine can
    /// continue.
    ///
    /// # Errors
    /// [`RunError`] with the defect.
    pub fn verify(&mut self, run: &Run<'_>, out: &[u8], ends: &[usize]) -> Result<(), RunError> {
        if ends.len() != run.ends.len() || ends.last() != Some(&out.len()) {
            return Err(wrong("is incomplete"));
        }
        let mut stream = match self.stream.take() {
            Some(mut stream) => {
                stream.reset(false);
                stream
            }
            None => Inflate::new(false, WINDOW_BITS),
        };
        if !run.history().is_empty() {
            let set = stream.set_dictionary(run.history());
            set.map_err(|_| wrong("cannot be inflated: no dictionary"))?;
        }
        let mut start = 0;
        for (payload, end) in run.payloads().zip(ends) {
            let piece = out.get(start..*end).ok_or_else(|| wrong("has no order"))?;
            self.inflate(&mut stream, piece, payload)?;
            start = *end;
        }
        self.inflate(&mut stream, BEHIND, PROBE)
            .map_err(|_| wrong("does not end between blocks and on a byte"))?;
        self.stream = Some(stream);
        Ok(())
    }

    fn inflate(
        &mut self,
        stream: &mut Inflate,
        mut piece: &[u8],
        payload: &[u8],
    ) -> Result<(), RunError> {
        // One byte more than expected reveals excess output.
        self.plain.clear();
        self.plain.resize(payload.len() + 1, 0);
        let mut made = 0;
        while !piece.is_empty() {
            let (taken_before, made_before) = (stream.total_in(), stream.total_out());
            let space = self.plain.get_mut(made..).unwrap_or_default();
            let status = stream
                .decompress(piece, space, InflateFlush::SyncFlush)
                .map_err(|_| wrong("is not valid deflate data"))?;
            if status == Status::StreamEnd {
                return Err(wrong("ends the stream"));
            }
            let taken = delta(taken_before, stream.total_in());
            let more = delta(made_before, stream.total_out());
            made += more;
            piece = piece.get(taken..).unwrap_or_default();
            if made > payload.len() || (taken == 0 && more == 0) {
                return Err(wrong("inflates to different bytes"));
            }
        }
        if self.plain.get(..made) == Some(payload) {
            Ok(())
        } else {
            Err(wrong("inflates to different bytes"))
        }
    }

    /// Frees all memory; the next run allocates it again.
    pub fn shed(&mut self) {
        *self = Self::new();
    }
}

impl Default for Verifier {
    fn default() -> Self {
        Self::new()
    }
}

fn wrong(what: &str) -> RunError {
    RunError(format!("its output {what}"))
}

fn delta(before: u64, after: u64) -> usize {
    usize::try_from(after.wrapping_sub(before)).unwrap_or(usize::MAX)
}
