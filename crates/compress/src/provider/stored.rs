//! Stored blocks (RFC 1951 §3.2.4), which an engine's output is replaced by where it is too long, and
//! ends with.

use super::{MAX_GROWTH_BYTES, RunError};

/// What a sync flush ends with: an empty stored block's length and its complement.
pub(super) const SYNC_END: [u8; 4] = [0, 0, 0xff, 0xff];
/// The longest stored block, bytes.
const BLOCK_BYTES: usize = 65535;

/// Appends `payload` as stored blocks.
pub(super) fn store(payload: &[u8], out: &mut Vec<u8>) {
    for block in payload.chunks(BLOCK_BYTES) {
        let len = u16::try_from(block.len()).unwrap_or(u16::MAX);
        out.push(0);
        out.extend_from_slice(&len.to_le_bytes());
        out.extend_from_slice(&(!len).to_le_bytes());
        out.extend_from_slice(block);
    }
}

/// Appends what `deflate` writes of `payload` into the space that it is given, whose length it
/// returns; or `payload` stored, where that is longer than a peer takes. Of the space, `spare_bytes`
/// are beyond nine bits a byte, the most that static codes take: level 1 of zlib-ng and zlib-rs knows
/// no others and stores nothing.
///
/// # Errors
/// Those of `deflate`.
pub(super) fn deflated_or_stored(
    payload: &[u8],
    spare_bytes: usize,
    out: &mut Vec<u8>,
    deflate: impl FnOnce(&mut [u8]) -> Result<usize, RunError>,
) -> Result<(), RunError> {
    let start = out.len();
    out.resize(start + payload.len() + payload.len() / 8 + spare_bytes, 0);
    let made = deflate(out.get_mut(start..).unwrap_or_default())?;
    out.truncate(start + made);
    if made > payload.len() + MAX_GROWTH_BYTES {
        out.truncate(start);
        store(payload, out);
    }
    Ok(())
}
