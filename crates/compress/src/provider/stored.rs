//! Stored blocks (RFC 1951 §3.2.4), which an engine's output is replaced by where it is too long, and
//! ends with.

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
