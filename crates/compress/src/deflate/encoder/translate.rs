//! Translates positions in a channel's window to positions in the stream: the parser's matches are
//! rewritten before a block's codes are built.
//!
//! The window holds only one channel's bytes, so the matcher cannot compare with a foreign byte. In
//! the stream, foreign bytes are between them: a match becomes one match for each part of its
//! source that is contiguous there, and literals where a part is too short or too far away.

use core::ops::Range;
use std::mem;

use super::block::DeflateBlock;
use super::matcher::View;
use crate::deflate::Gaps;
use crate::deflate::symbols::MIN_MATCH;
use crate::provider::HISTORY_BYTES;

/// A match of [`MIN_MATCH`] bytes costs more than its literals at a larger distance than this, in
/// bytes.
const FAR_FOR_SHORT: usize = 4096;

impl DeflateBlock {
    /// Rewrites the block, which encodes `plain` of `view`, from distances in the window to
    /// distances in the stream.
    pub(super) fn translate(&mut self, view: View<'_>, plain: Range<usize>, gaps: &Gaps) {
        let chosen = mem::take(&mut self.sequences);
        self.clear();
        self.sequences.reserve(chosen.len());
        let (mut at, mut literals) = (plain.start, 0);
        for sequence in &chosen {
            let before = sequence.literals();
            self.literals(view.span(at, at + before));
            (at, literals) = (at + before, literals + before);
            let back = match usize::from(sequence.distance()) {
                0 => HISTORY_BYTES,
                back => back,
            };
            let mut left = sequence.length();
            while left > 0 {
                // The parser takes sources only from the window.
                let source = at.saturating_sub(back);
                let (foreign, next) = gaps.beyond(source);
                let piece = next.map_or(left, |next| left.min(next - source));
                let distance = back.saturating_add(foreign);
                let reaches = distance <= HISTORY_BYTES;
                if reaches
                    && (piece > MIN_MATCH || (piece == MIN_MATCH && distance <= FAR_FOR_SHORT))
                {
                    self.repeat(mem::take(&mut literals), piece, distance);
                } else {
                    self.literals(view.span(at, at + piece));
                    literals += piece;
                }
                (at, left) = (at + piece, left - piece);
            }
        }
        self.literals(view.span(at, plain.end));
    }
}
