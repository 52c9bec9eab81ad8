//! Estimated costs of a block's symbols, from their previous frequencies.

use super::block::Frequencies;
use crate::deflate::symbols::{
    DISTANCE_EXTRA, DISTANCE_SYMBOLS, END_OF_BLOCK, FIRST_LENGTH, LENGTH_EXTRA, LENGTH_SLOT,
    MAX_MATCH, MIN_MATCH,
};

/// Cost units per bit.
const BIT: u32 = 32;
/// Minimum and maximum cost of a symbol in bits.
const LEAST_SYMBOL_BITS: f32 = 0.25;
const MAX_SYMBOL_BITS: f32 = 13.0;

/// Estimated cost of each symbol with its extra bits, in cost units.
pub(super) struct Costs {
    pub(super) literal: [u32; 256],
    pub(super) length: [u32; MAX_MATCH + 1],
    pub(super) distance: [u32; 32],
}

impl Costs {
    /// Estimates the costs of symbols with these frequencies.
    pub(super) fn new(of: &Frequencies) -> Self {
        let litlen = symbol_costs(&of.litlen);
        let distances = symbol_costs(&of.distance);
        let mut costs = Self {
            literal: [0; 256],
            length: [0; MAX_MATCH + 1],
            distance: [0; 32],
        };
        let (literals, _) = litlen.split_at(END_OF_BLOCK);
        costs.literal.copy_from_slice(literals);
        for (length, cost) in costs.length.iter_mut().enumerate().skip(MIN_MATCH) {
            let slot = usize::from(LENGTH_SLOT[length]);
            *cost = litlen[FIRST_LENGTH + slot] + u32::from(LENGTH_EXTRA[slot]) * BIT;
        }
        for slot in 0..DISTANCE_SYMBOLS {
            costs.distance[slot] = distances[slot] + u32::from(DISTANCE_EXTRA[slot]) * BIT;
        }
        costs
    }
}

/// Symbols that did not occur count as half as frequent as those that occurred once.
#[allow(clippy::cast_precision_loss, clippy::cast_sign_loss)]
fn symbol_costs<const N: usize>(frequencies: &[u32; N]) -> [u32; N] {
    let bits_of_all = log2(frequencies.iter().sum::<u32>().max(1));
    frequencies.map(|frequency| {
        let rarity = if frequency == 0 {
            bits_of_all + 1.0
        } else {
            bits_of_all - log2(frequency)
        };
        (rarity.clamp(LEAST_SYMBOL_BITS, MAX_SYMBOL_BITS) * BIT as f32) as u32
    })
}

/// Binary logarithm of `number`, at least 1, with an error below 0.01. The standard library's would
/// link another library than the C library.
#[allow(clippy::cast_precision_loss)]
fn log2(number: u32) -> f32 {
    let whole = number.ilog2();
    let above = number as f32 / (1_u64 << whole) as f32 - 1.0;
    whole as f32 + above * (1.346_6 - 0.346_6 * above)
}
