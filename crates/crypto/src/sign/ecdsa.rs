//! The two encodings of an ECDSA signature.
#![forbid(unsafe_code)]

use super::KeyKind;
use crate::BadSignature;

/// r and s as unsigned big-endian bytes without leading zeros, as in the mpints of RFC 5656 §3.1.2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EcdsaSignature {
    /// r.
    pub r: Vec<u8>,
    /// s.
    pub s: Vec<u8>,
}

impl EcdsaSignature {
    /// Splits r ‖ s, each of the coordinate length of `kind`'s curve.
    ///
    /// # Errors
    /// If `kind` is not ECDSA, or the length is wrong for its curve.
    pub fn from_fixed(kind: KeyKind, fixed: &[u8]) -> Result<Self, BadSignature> {
        let len = kind.curve().ok_or(BadSignature)?.coordinate_len();
        if fixed.len() != 2 * len {
            return Err(BadSignature);
        }
        let (r, s) = fixed.split_at(len);
        let trim = |bytes: &[u8]| bytes.iter().copied().skip_while(|b| *b == 0).collect();
        Ok(Self {
            r: trim(r),
            s: trim(s),
        })
    }

    /// r ‖ s, each padded to the coordinate length of `kind`'s curve.
    ///
    /// # Errors
    /// If `kind` is not ECDSA, or r or s is longer than a coordinate.
    pub fn to_fixed(&self, kind: KeyKind) -> Result<Vec<u8>, BadSignature> {
        Self::fixed_of(kind, &self.r, &self.s)
    }

    /// Like [`Self::to_fixed`], for borrowed r and s, which may have leading zeros.
    ///
    /// # Errors
    /// As [`Self::to_fixed`].
    pub fn fixed_of(kind: KeyKind, r: &[u8], s: &[u8]) -> Result<Vec<u8>, BadSignature> {
        let len = kind.curve().ok_or(BadSignature)?.coordinate_len();
        let mut fixed = Vec::with_capacity(2 * len);
        for value in [r, s] {
            let zeros = value.iter().take_while(|b| **b == 0).count();
            let value = value.get(zeros..).unwrap_or_default();
            let padding = len.checked_sub(value.len()).ok_or(BadSignature)?;
            fixed.resize(fixed.len() + padding, 0);
            fixed.extend_from_slice(value);
        }
        Ok(fixed)
    }
}
