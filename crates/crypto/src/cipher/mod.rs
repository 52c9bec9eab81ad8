//! Packet ciphers: one table of them, and a key type for each kind.
//!
//! RFC 4253 §6.3, RFC 4344 §4 (CTR), RFC 5647 (AES-GCM) and OpenSSH's
//! PROTOCOL.chacha20poly1305. Keys are immutable: every operation takes the
//! packet's place in the stream as a parameter, so packets may be sealed and
//! opened on any thread in any order. Framing, counters and padding are in
//! `packet`.
#![forbid(unsafe_code)]

mod chacha;
mod ctr;
mod gcm;

pub use chacha::ChaChaPolyKey;
pub use ctr::CtrKey;
pub use gcm::GcmKey;

/// A cipher by which packets are encrypted.
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
}

/// How a cipher works on packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CipherKind {
    /// AES in counter mode; needs a MAC.
    Ctr,
    /// AES-GCM; the length field is authenticated in the clear.
    Gcm,
    /// ChaCha20 and Poly1305; the length field is encrypted apart.
    ChaChaPoly,
}

/// A row of [`CIPHERS`]. Lengths are in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CipherSpec {
    /// The cipher that this row describes.
    pub algorithm: CipherAlgorithm,
    /// Its name on the wire.
    pub name: &'static str,
    /// Key material drawn from the exchange.
    pub key_len: usize,
    /// IV material drawn from the exchange.
    pub iv_len: usize,
    /// What packets are padded to a multiple of (RFC 4253 §6).
    pub block_len: usize,
    /// Length of the tag; 0 for a cipher that needs a MAC.
    pub tag_len: usize,
    /// How it works on packets.
    pub kind: CipherKind,
}

/// Every cipher, in the order of [`CipherAlgorithm`]'s variants.
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
];

const fn spec(
    algorithm: CipherAlgorithm,
    name: &'static str,
    key_len: usize,
    kind: CipherKind,
) -> CipherSpec {
    let (iv_len, block_len, tag_len) = match kind {
        CipherKind::Ctr => (16, 16, 0),
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

impl CipherAlgorithm {
    /// The cipher of a wire name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        CIPHERS
            .iter()
            .find(|spec| spec.name == name)
            .map(|spec| spec.algorithm)
    }

    /// Its row in [`CIPHERS`].
    #[must_use]
    pub const fn spec(self) -> &'static CipherSpec {
        &CIPHERS[self as usize]
    }

    /// Its name on the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.spec().name
    }

    /// Key length in bytes.
    #[must_use]
    pub const fn key_len(self) -> usize {
        self.spec().key_len
    }

    /// IV length in bytes; 0 if it takes none.
    #[must_use]
    pub const fn iv_len(self) -> usize {
        self.spec().iv_len
    }

    /// Block length in bytes, to which packets are padded.
    #[must_use]
    pub const fn block_len(self) -> usize {
        self.spec().block_len
    }

    /// Tag length in bytes; 0 for a cipher that needs a MAC.
    #[must_use]
    pub const fn tag_len(self) -> usize {
        self.spec().tag_len
    }

    /// How it works on packets.
    #[must_use]
    pub const fn kind(self) -> CipherKind {
        self.spec().kind
    }
}

#[cfg(test)]
mod tests;
