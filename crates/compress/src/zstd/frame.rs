//! What of a packet can be judged without inflating it: what it holds, the header of a frame
//! (RFC 8878 §3.1.1.1), and where its blocks end (§3.1.1.2). A packet that is cut anywhere, or
//! that the zstd library would wait for more of, does not get past this.

use super::WINDOW_LOG;
use crate::error::InflateError;

/// The payload as it is, which the history does not know.
pub(super) const STORED: u8 = 0;
/// Blocks of the context's frame at hand.
pub(super) const BLOCKS: u8 = 1;
/// A frame's header and its first blocks. The context's frame before it is over.
pub(super) const FRAME: u8 = 2;

/// Bits of a packet's first byte that say what follows; the context's number stands above them.
const KIND_BITS: u32 = 2;

/// The first byte of a packet that holds `kind`, [`BLOCKS`] or [`FRAME`], of a context.
pub(super) fn lead(kind: u8, context: usize) -> u8 {
    let context = u8::try_from(context).unwrap_or(u8::MAX >> KIND_BITS);
    context << KIND_BITS | kind
}

/// What the first byte of a packet says: what follows, and the number of the context, which is 0
/// for [`STORED`]. Any number may stand there.
pub(super) fn read_lead(lead: u8) -> (u8, usize) {
    (
        lead & ((1 << KIND_BITS) - 1),
        usize::from(lead >> KIND_BITS),
    )
}

/// Bytes of the one form of header that there may be.
const HEADER_BYTES: usize = 6;
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// A window follows; neither the content's size, nor a dictionary, nor a checksum.
const DESCRIPTOR: u8 = 0;
/// The largest window, as §3.1.1.1.2 writes it: an exponent above 10 and no mantissa.
const MOST_WINDOW: u8 = (WINDOW_LOG - 10) << 3;
/// What a block may hold, raw or compressed, bytes (§3.1.1.2.4).
const MAX_BLOCK_BYTES: usize = 128 * 1024;

/// The blocks behind the header of `frame`.
///
/// # Errors
/// `Corrupt` for any header but the one that we make, and for a larger window.
pub(super) fn behind_header(frame: &[u8]) -> Result<&[u8], InflateError> {
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

/// Checks that `blocks` are whole blocks, none of them the frame's last, which do not say
/// themselves that they hold more than `limit_bytes`.
///
/// # Errors
/// [`InflateError`].
pub(super) fn check_blocks(mut blocks: &[u8], limit_bytes: usize) -> Result<(), InflateError> {
    if blocks.is_empty() {
        return Err(InflateError::Empty);
    }
    let mut told_bytes: usize = 0;
    while let Some((header, behind)) = blocks.split_first_chunk::<3>() {
        let [a, b, c] = *header;
        let header = u32::from_le_bytes([a, b, c, 0]);
        if header & 1 != 0 {
            return Err(InflateError::StreamEnded);
        }
        let size = usize::try_from(header >> 3).unwrap_or(usize::MAX);
        if size > MAX_BLOCK_BYTES {
            return Err(InflateError::Corrupt);
        }
        let (taken, told) = match (header >> 1) & 3 {
            // Raw, one byte many times, compressed.
            0 => (size, size),
            1 => (1, size),
            2 if size > 0 => (size, 0),
            _ => return Err(InflateError::Corrupt),
        };
        told_bytes = told_bytes.saturating_add(told);
        if told_bytes > limit_bytes {
            return Err(InflateError::TooLong { limit_bytes });
        }
        blocks = behind.get(taken..).ok_or(InflateError::Corrupt)?;
    }
    if blocks.is_empty() {
        Ok(())
    } else {
        Err(InflateError::Corrupt)
    }
}
