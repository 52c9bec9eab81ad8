//! Packet ciphers: a table, and a key type for each kind.
//!
//! RFC 4253 §6.3 (CBC), RFC 4344 §4 (CTR), RFC 5647 (AES-GCM) and OpenSSH's PROTOCOL.chacha20poly1305.
//! Keys are immutable: every operation takes the packet's position as a parameter, so packets can
//! be sealed and opened on any thread in any order. Framing, counters and padding are in `packet`.
#![forbid(unsafe_code)]

mod cbc;
mod chacha;
mod ctr;
mod gcm;

pub use cbc::{CbcKey, ChainBlock};
pub use chacha::ChaChaPolyKey;
pub use ctr::CtrKey;
pub use gcm::GcmKey;

/// A packet cipher.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CipherAlgorithm {
    /// aes128-gcm@openssh.com
    Aes128Gcm,
    /// aes256-gcm@openssh.com
    Aes256Gcm,
    /// chacha20-poly1305@openssh.com
    ChaCha20Poly1305,
    /// aes128-ctr
    Aes128Ctr,
    /// aes192-ctr
    Aes192Ctr,
    /// aes256-ctr
    Aes256Ctr,
    /// aes128-cbc
    Aes128Cbc,
    /// aes192-cbc
    Aes192Cbc,
    /// aes256-cbc
    Aes256Cbc,
    /// 3des-cbc
    TripleDesCbc,
}

/// Construction of a cipher.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CipherKind {
    /// AES in counter mode; needs a separate MAC.
    Ctr,
    /// A block cipher in cipher block chaining mode; needs a separate MAC.
    Cbc,
    /// AES-GCM; the packet length is authenticated but not encrypted.
    Gcm,
    /// ChaCha20 and Poly1305; the packet length is encrypted with a key of its own.
    ChaChaPoly,
}

/// A row of [`CIPHERS`]. Lengths are in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CipherSpec {
    /// The cipher that this row describes.
    pub algorithm: CipherAlgorithm,
    /// SSH name.
    pub name: &'static str,
    /// Length of the key.
    pub key_len: usize,
    /// Length of the IV; 0 if the cipher needs none.
    pub iv_len: usize,
    /// Block size to which packets are padded (RFC 4253 §6).
    pub block_len: usize,
    /// Length of the tag; 0 for a cipher that needs a MAC.
    pub tag_len: usize,
    /// Construction of the cipher.
    pub kind: CipherKind,
}

/// All ciphers, in the order of [`CipherAlgorithm`]'s variants.
pub const CIPHERS: &[CipherSpec] = &[
    spec(
        CipherAlgorithm::Aes128Gcm,
        "aes128-gcm@openssh.com",
        16,
        CipherKind::Gcm,
    ),
    spec(
        CipherAlgorithm::Aes256Gcm,
        "aes256-gcm@openssh.com",
        32,
        CipherKind::Gcm,
    ),
    spec(
        CipherAlgorithm::ChaCha20Poly1305,
        "chacha20-poly1305@openssh.com",
        64,
        CipherKind::ChaChaPoly,
    ),
    spec(
        CipherAlgorithm::Aes128Ctr,
        "aes128-ctr",
        16,
        CipherKind::Ctr,
    ),
    spec(
        CipherAlgorithm::Aes192Ctr,
        "aes192-ctr",
        24,
        CipherKind::Ctr,
    ),
    spec(
        CipherAlgorithm::Aes256Ctr,
        "aes256-ctr",
        32,
        CipherKind::Ctr,
    ),
    spec(
        CipherAlgorithm::Aes128Cbc,
        "aes128-cbc",
        16,
        CipherKind::Cbc,
    ),
    spec(
        CipherAlgorithm::Aes192Cbc,
        "aes192-cbc",
        24,
        CipherKind::Cbc,
    ),
    spec(
        CipherAlgorithm::Aes256Cbc,
        "aes256-cbc",
        32,
        CipherKind::Cbc,
    ),
    CipherSpec {
        iv_len: 8,
        block_len: 8,
        ..spec(
            CipherAlgorithm::TripleDesCbc,
            "3des-cbc",
            24,
            CipherKind::Cbc,
        )
    },
];

const fn spec(
    algorithm: CipherAlgorithm,
    name: &'static str,
    key_len: usize,
    kind: CipherKind,
) -> CipherSpec {
    let (iv_len, block_len, tag_len) = match kind {
        CipherKind::Ctr | CipherKind::Cbc => (16, 16, 0),
        CipherKind::Gcm => (12, 16, 16),
        CipherKind::ChaChaPoly => (0, 8, 16),
    };
    CipherSpec {
        algorithm,
        name,
        key_len,
        iv_len,
        block_len,
        tag_len,
        kind,
    }
}

crate::spec_table::spec_accessors! { CipherAlgorithm, CipherSpec, CIPHERS }

impl CipherAlgorithm {
    /// IV length in bytes; 0 if the cipher needs none.
    #[must_use]
    pub const fn iv_len(self) -> usize {
        self.spec().iv_len
    }

    /// Block size in bytes, to which packets are padded.
    #[must_use]
    pub const fn block_len(self) -> usize {
        self.spec().block_len
    }

    /// Returns true for a cipher without a tag of its own.
    #[must_use]
    pub const fn needs_mac(self) -> bool {
        self.spec().tag_len == 0
    }

    /// Construction of the cipher.
    #[must_use]
    pub const fn kind(self) -> CipherKind {
        self.spec().kind
    }
}

#[cfg(test)]
mod tests;
