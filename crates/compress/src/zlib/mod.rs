//! The interim engine: zlib-rs, one resumable stream per direction, a partial flush per packet.
//!
//! Partial flush is RFC 4253 §6.2's word and what OpenSSH sends: it ends the packet with an
//! empty static block of 10 bits and carries fewer than 8 bits into the next packet, where a
//! sync flush would spend 4 bytes more. A packet engine with histories that threads can share
//! takes this one's place later.

mod decoder;
mod encoder;

pub(crate) use decoder::ZlibDecoder;
pub(crate) use encoder::ZlibEncoder;

/// log2 of the window, in bytes: deflate's largest, as the header announces it.
const WINDOW_BITS: u8 = 15;
