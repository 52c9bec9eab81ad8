//! Checks of a packet that need no inflating: its kind, the header of a frame (RFC 8878 §3.1.1.1),
//! and the ends of its blocks (§3.1.1.2). Truncated packets, and packets for which the zstd library
//! would wait for more input, are rejected here.

use super::WINDOW_LOG;
use crate::error::InflateError;

/// A stored payload, which is not added to the history.
pub(super) const STORED: u8 = 0;
/// Blocks of the context's current frame.
pub(super) const BLOCKS: u8 = 1;
/// A frame's header and its first blocks. Ends the context's previous frame.
pub(super) const FRAME: u8 = 2;

/// Number of low bits of a packet's first byte that hold the kind; the bits above hold the
/// context's number.
const KIND_BITS: u32 = 2;

/// The first byte of a packet of `kind`, [`BLOCKS`] or [`FRAME`], of a context.
pub(super) fn lead(kind: u8, context: usize) -> u8 {
    let context = u8::try_from(context).unwrap_or(u8::MAX >> KIND_BITS);
    context << KIND_BITS | kind
}

/// Decodes the first byte of a packet: the kind, and the number of the context, which is 0 for
/// [`STORED`]. The number may be out of range.
pub(super) fn read_lead(lead: u8) -> (u8, usize) {
    (
        lead & ((1 << KIND_BITS) - 1),
        usize::from(lead >> KIND_BITS),
    )
}

/// Length in bytes of the only allowed form of header.
const HEADER_BYTES: usize = 6;
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// A window size follows; no content size, dictionary or checksum.
const DESCRIPTOR: u8 = 0;
/// The largest window, encoded as in §3.1.1.1.2: an exponent above 10 and no mantissa.
const MOST_WINDOW: u8 = (WINDOW_LOG - 10) << 3;
/// Maximum size of a block in bytes, raw or compressed (§3.1.1.2.4).
const MAX_BLOCK_BYTES: usize = 128 * 1024;

/// Returns the blocks after the header of `frame`.
///
/// # Errors
/// `Corrupt` for any header other than the allowed form, and for a larger window.
pub(super) fn after_header(frame: &[u8]) -> Result<&[u8], InflateError> {
    let (header, blocks) = frame
        .split_first_chunk::<HEADER_BYTES>()
        .ok_or(InflateError::Corrupt)?;
    let [magic @ .., descriptor, window] = *header;
    if magic == MAGIC && descriptor == DESCRIPTOR && window <= MOST_WINDOW {
        Ok(blocks)
    } else {
        Err(InflateError::Corrupt)
    }
}

/// Checks that `blocks` are whole blocks, that none is the frame's last, and that the sizes that
/// they declare do not exceed `limit_bytes` in total.
///
/// # Errors
/// [`InflateError`].
pub(super) fn check_blocks(mut blocks: &[u8], limit_bytes: usize) -> Result<(), InflateError> {
    if blocks.is_empty() {
        return Err(InflateError::Empty);
    }
    let mut declared_bytes: usize = 0;
    while let Some((header, following)) = blocks.split_first_chunk::<3>() {
        let [a, b, c] = *header;
        let header = u32::from_le_bytes([a, b, c, 0]);
        if header & 1 != 0 {
            return Err(InflateError::StreamEnded);
        }
        let size = usize::try_from(header >> 3).unwrap_or(usize::MAX);
        if size > MAX_BLOCK_BYTES {
            return Err(InflateError::Corrupt);
        }
        let (taken, declared) = match (header >> 1) & 3 {
            // Raw, one byte many times, compressed.
            0 => (size, size),
            1 => (1, size),
            2 if size > 0 => (size, 0),
            _ => return Err(InflateError::Corrupt),
        };
        declared_bytes = declared_bytes.saturating_add(declared);
        if declared_bytes > limit_bytes {
            return Err(InflateError::TooLong { limit_bytes });
        }
        blocks = following.get(taken..).ok_or(InflateError::Corrupt)?;
    }
    if blocks.is_empty() {
        Ok(())
    } else {
        Err(InflateError::Corrupt)
    }
}
