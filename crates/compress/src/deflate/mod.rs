//! Deflate for packets (RFC 1951): an encoder that processes a whole payload with the history
//! before it, and a decoder that has all of a payload's bytes in memory.
//!
//! Neither can be interrupted within a payload, which makes them fast: no window is copied, and the
//! only state between payloads is the match tables and fewer than ten bits.
//!
//! `encoder`: `matcher` finds repetitions, `parse` chooses among them, `block` writes them with the
//! codes of `huffman`. `decoder`: `tables` are built from code lengths, `inflate` uses them.
//! `window` and `gaps` describe the stream around a payload: a window holds the bytes of one
//! channel only, and the gaps record where other bytes are in the stream between them
//! (`encoder::translate`).

// Lengths and positions are within a payload and its history, whose total size is checked where a
// payload comes in.
#![allow(clippy::cast_possible_truncation)]

/// Calls a function of the same module that is `#[inline(always)]`, compiled for these CPU features
/// where the CPU has them.
macro_rules! by_cpu {
    ([$($feature:tt),*],
     $body:ident $([const $constant:ident: $kind:ty])?
     ($($argument:ident: $type:ty),*) $(-> $result:ty)?) => {{
        #[cfg(target_arch = "x86_64")]
        {
            #[target_feature($(enable = $feature),*)]
            fn with_features$(<const $constant: $kind>)?($($argument: $type),*) $(-> $result)? {
                $body($($argument),*)
            }
            if $(is_x86_feature_detected!($feature))&&* {
                // SAFETY: the CPU has what the function needs.
                return unsafe { with_features($($argument),*) };
            }
        }
        $body($($argument),*)
    }};
}

mod decoder;
mod encoder;
mod gaps;
mod symbols;
mod window;

#[cfg(test)]
pub(crate) mod tests;

pub(crate) use decoder::PacketDecoder;
pub(crate) use encoder::{Carry, EncodeOutcome, Engine, PayloadSource, append_flush, store};
pub(crate) use gaps::Gaps;
pub(crate) use window::Window;

/// Number of bytes after a window's end that may be read, whatever their content.
pub(crate) const SLACK_BYTES: usize = 32;
