//! Message authentication codes: a table, and a key type.
//!
//! HMAC (RFC 2104, RFC 6668), UMAC (RFC 4418), and OpenSSH's encrypt-then-MAC names. Keys are
//! immutable; the packet's sequence number is a parameter, so MACs can be computed on any thread in
//! any order. `packet` decides whether a MAC covers ciphertext or plaintext.
#![forbid(unsafe_code)]

mod hmac;
mod hmac_many;
mod umac;

use core::fmt;

use crate::arch::{self, CpuFeatures};
use crate::hash::HashAlgorithm;
use crate::{IntegrityFailed, KeyLengthError, constant_time};

pub use hmac::Hmac;
use hmac_many::HmacMany;
use umac::Umac;

/// A packet MAC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MacAlgorithm {
    /// umac-64-etm@openssh.com
    Umac64Etm,
    /// umac-128-etm@openssh.com
    Umac128Etm,
    /// hmac-sha2-256-etm@openssh.com
    HmacSha256Etm,
    /// hmac-sha2-512-etm@openssh.com
    HmacSha512Etm,
    /// hmac-sha1-etm@openssh.com
    HmacSha1Etm,
    /// umac-64@openssh.com
    Umac64,
    /// umac-128@openssh.com
    Umac128,
    /// hmac-sha2-256
    HmacSha256,
    /// hmac-sha2-512
    HmacSha512,
    /// hmac-sha1
    HmacSha1,
    /// hmac-sha1-96-etm@openssh.com
    HmacSha1TruncatedEtm,
    /// hmac-md5-etm@openssh.com
    HmacMd5Etm,
    /// hmac-md5-96-etm@openssh.com
    HmacMd5TruncatedEtm,
    /// hmac-sha1-96
    HmacSha1Truncated,
    /// hmac-md5
    HmacMd5,
    /// hmac-md5-96
    HmacMd5Truncated,
}

/// Construction of a MAC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MacKind {
    /// HMAC with this hash function.
    Hmac(HashAlgorithm),
    /// UMAC with [`MacSpec::tag_len`].
    Umac,
}

/// A row of [`MACS`]. Lengths are in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MacSpec {
    /// The MAC that this row describes.
    pub algorithm: MacAlgorithm,
    /// SSH name.
    pub name: &'static str,
    /// Length of the key.
    pub key_len: usize,
    /// Length of the tag.
    pub tag_len: usize,
    /// Whether the MAC covers the ciphertext and the packet length is not encrypted
    /// (encrypt-then-MAC).
    pub etm: bool,
    /// The construction.
    pub kind: MacKind,
}

/// All MACs, in the order of [`MacAlgorithm`]'s variants.
pub const MACS: &[MacSpec] = &[
    umac(MacAlgorithm::Umac64Etm, "umac-64-etm@openssh.com", 8, true),
    umac(
        MacAlgorithm::Umac128Etm,
        "umac-128-etm@openssh.com",
        16,
        true,
    ),
    hmac(
        MacAlgorithm::HmacSha256Etm,
        "hmac-sha2-256-etm@openssh.com",
        HashAlgorithm::Sha256,
        true,
    ),
    hmac(
        MacAlgorithm::HmacSha512Etm,
        "hmac-sha2-512-etm@openssh.com",
        HashAlgorithm::Sha512,
        true,
    ),
    hmac(
        MacAlgorithm::HmacSha1Etm,
        "hmac-sha1-etm@openssh.com",
        HashAlgorithm::Sha1,
        true,
    ),
    umac(MacAlgorithm::Umac64, "umac-64@openssh.com", 8, false),
    umac(MacAlgorithm::Umac128, "umac-128@openssh.com", 16, false),
    hmac(
        MacAlgorithm::HmacSha256,
        "hmac-sha2-256",
        HashAlgorithm::Sha256,
        false,
    ),
    hmac(
        MacAlgorithm::HmacSha512,
        "hmac-sha2-512",
        HashAlgorithm::Sha512,
        false,
    ),
    hmac(
        MacAlgorithm::HmacSha1,
        "hmac-sha1",
        HashAlgorithm::Sha1,
        false,
    ),
    truncated(hmac(
        MacAlgorithm::HmacSha1TruncatedEtm,
        "hmac-sha1-96-etm@openssh.com",
        HashAlgorithm::Sha1,
        true,
    )),
    hmac(
        MacAlgorithm::HmacMd5Etm,
        "hmac-md5-etm@openssh.com",
        HashAlgorithm::Md5,
        true,
    ),
    truncated(hmac(
        MacAlgorithm::HmacMd5TruncatedEtm,
        "hmac-md5-96-etm@openssh.com",
        HashAlgorithm::Md5,
        true,
    )),
    truncated(hmac(
        MacAlgorithm::HmacSha1Truncated,
        "hmac-sha1-96",
        HashAlgorithm::Sha1,
        false,
    )),
    hmac(MacAlgorithm::HmacMd5, "hmac-md5", HashAlgorithm::Md5, false),
    truncated(hmac(
        MacAlgorithm::HmacMd5Truncated,
        "hmac-md5-96",
        HashAlgorithm::Md5,
        false,
    )),
];

/// The row of a MAC of which only the first 96 bits are sent (RFC 4253 §6.4).
const fn truncated(row: MacSpec) -> MacSpec {
    MacSpec { tag_len: 12, ..row }
}

const fn umac(algorithm: MacAlgorithm, name: &'static str, tag_len: usize, etm: bool) -> MacSpec {
    MacSpec {
        algorithm,
        name,
        key_len: 16,
        tag_len,
        etm,
        kind: MacKind::Umac,
    }
}

const fn hmac(
    algorithm: MacAlgorithm,
    name: &'static str,
    hash: HashAlgorithm,
    etm: bool,
) -> MacSpec {
    MacSpec {
        algorithm,
        name,
        key_len: hash.digest_len(),
        tag_len: hash.digest_len(),
        etm,
        kind: MacKind::Hmac(hash),
    }
}

crate::spec_table::spec_accessors! { MacAlgorithm, MacSpec, MACS }

impl MacAlgorithm {
    /// Whether the MAC covers the ciphertext and the packet length is not encrypted
    /// (encrypt-then-MAC).
    #[must_use]
    pub const fn is_etm(self) -> bool {
        self.spec().etm
    }
}

/// Number of packets that [`MacKey::verify_many`] processes at once.
const VERIFY_CHUNK: usize = 32;

/// Length of the longest tag in bytes (HMAC-SHA-512).
pub const MAX_TAG_LEN: usize = 64;

/// A tag of at most [`MAX_TAG_LEN`] bytes.
///
/// `Tag` does not implement `PartialEq`; [`MacKey::verify`] compares in constant time.
#[derive(Clone, Copy)]
pub struct Tag {
    bytes: [u8; MAX_TAG_LEN],
    len: u8,
}

impl Tag {
    /// A tag with the first [`MAX_TAG_LEN`] bytes of `bytes`.
    fn from_slice(bytes: &[u8]) -> Self {
        let mut tag = Self {
            bytes: [0; MAX_TAG_LEN],
            len: 0,
        };
        for (to, from) in tag.bytes.iter_mut().zip(bytes) {
            *to = *from;
            tag.len += 1;
        }
        tag
    }

    /// A tag of `len` zero bytes, to be overwritten.
    fn of_len(len: usize) -> Self {
        Self {
            bytes: [0; MAX_TAG_LEN],
            len: u8::try_from(len.min(MAX_TAG_LEN)).unwrap_or_default(),
        }
    }

    fn buffer(&mut self) -> &mut [u8] {
        self.bytes
            .get_mut(..usize::from(self.len))
            .unwrap_or_default()
    }
}

/// An empty tag, for [`MacKey::compute_many`] to overwrite.
impl Default for Tag {
    fn default() -> Self {
        Self::of_len(0)
    }
}

impl AsRef<[u8]> for Tag {
    fn as_ref(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }
}

impl core::ops::Deref for Tag {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.as_ref()
    }
}

impl fmt::Debug for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tag({} bytes)", self.len)
    }
}

/// A MAC key of one direction and one epoch.
pub struct MacKey {
    algorithm: MacAlgorithm,
    keyed: KeyedMac,
}

enum KeyedMac {
    Hmac {
        one: Box<Hmac>,
        many: Option<Box<HmacMany>>,
    },
    Umac(Box<Umac>),
}

impl MacKey {
    /// Creates a key.
    ///
    /// # Errors
    /// If the key's length is not [`MacAlgorithm::key_len`].
    pub fn new(algorithm: MacAlgorithm, key: &[u8]) -> Result<Self, KeyLengthError> {
        Self::with_features(algorithm, key, arch::detect())
    }

    /// Like [`Self::new`], with the best kernels for `features`, for tests and benchmarks.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn with_features(
        algorithm: MacAlgorithm,
        key: &[u8],
        features: &CpuFeatures,
    ) -> Result<Self, KeyLengthError> {
        let spec = algorithm.spec();
        if key.len() != spec.key_len {
            return Err(KeyLengthError);
        }
        let keyed = match spec.kind {
            MacKind::Hmac(hash) => KeyedMac::Hmac {
                one: Box::new(Hmac::new(hash, key)),
                many: (spec.tag_len == hash.digest_len())
                    .then(|| HmacMany::new(hash, key, features).map(Box::new))
                    .flatten(),
            },
            MacKind::Umac => {
                let key = key.try_into().map_err(|_| KeyLengthError)?;
                KeyedMac::Umac(Box::new(Umac::new(key, spec.tag_len, features)?))
            }
        };
        Ok(Self { algorithm, keyed })
    }

    /// The algorithm of this key.
    #[must_use]
    pub fn algorithm(&self) -> MacAlgorithm {
        self.algorithm
    }

    /// Returns the tag over the packet's sequence number and `data`.
    #[must_use]
    pub fn compute(&self, sequence_number: u32, data: &[u8]) -> Tag {
        self.compute_parts(sequence_number, &[data])
    }

    /// Returns the tag over the packet's sequence number and the concatenation of `parts`.
    #[must_use]
    pub fn compute_parts(&self, sequence_number: u32, parts: &[&[u8]]) -> Tag {
        match &self.keyed {
            KeyedMac::Hmac { one: hmac, .. } => {
                let mut running = hmac.start();
                running.update(&sequence_number.to_be_bytes());
                for part in parts {
                    running.update(part);
                }
                let digest = hmac.finish(running);
                Tag::from_slice(digest.get(..self.algorithm.tag_len()).unwrap_or_default())
            }
            KeyedMac::Umac(umac) => {
                let (tag, len) = umac.compute(u64::from(sequence_number), parts);
                Tag::from_slice(tag.get(..len).unwrap_or_default())
            }
        }
    }

    /// The name of the kernel for many packets, or for single packets if there is no such kernel;
    /// for benchmark tables.
    #[must_use]
    pub fn kernel(&self) -> &'static str {
        match &self.keyed {
            KeyedMac::Hmac { many, .. } => many.as_ref().map_or("aws-lc", |many| many.kernel()),
            KeyedMac::Umac(umac) => umac.kernel(),
        }
    }

    /// Returns true if [`Self::compute_many`] is faster than [`Self::compute`] for some number of
    /// packets.
    #[must_use]
    pub fn gains_by_many(&self) -> bool {
        self.many_for(usize::MAX).is_some()
    }

    /// Writes to `tags` the tags over each packet's sequence number and data, as [`Self::compute`]
    /// returns them. Computes several in parallel lanes if a kernel supports it; fastest for 16 or
    /// more packets of equal length.
    ///
    /// # Panics
    /// If `tags` and `packets` have different lengths.
    pub fn compute_many(&self, packets: &[(u32, &[u8])], tags: &mut [Tag]) {
        assert_eq!(packets.len(), tags.len(), "a tag for each packet");
        if let Some(many) = self.many_for(packets.len()) {
            many.compute(packets, tags);
        } else {
            for (tag, (sequence_number, data)) in tags.iter_mut().zip(packets) {
                *tag = self.compute(*sequence_number, data);
            }
        }
    }

    /// Verifies the tags of several packets, each in constant time. Returns the number of correct
    /// tags before the first wrong one.
    ///
    /// # Panics
    /// If `tags` and `packets` have different lengths.
    #[must_use]
    pub fn verify_many(&self, packets: &[(u32, &[u8])], tags: &[&[u8]]) -> usize {
        assert_eq!(packets.len(), tags.len(), "a tag for each packet");
        let mut expected = [Tag::default(); VERIFY_CHUNK];
        let mut verified = 0;
        for (packets, tags) in packets.chunks(VERIFY_CHUNK).zip(tags.chunks(VERIFY_CHUNK)) {
            let expected = &mut expected[..packets.len()];
            self.compute_many(packets, expected);
            let pairs = expected.iter().zip(tags);
            let correct = pairs
                .take_while(|(tag, other)| constant_time::eq(tag, other))
                .count();
            verified += correct;
            if correct < packets.len() {
                break;
            }
        }
        verified
    }

    /// The kernels for many packets if they are faster for `count` packets.
    fn many_for(&self, count: usize) -> Option<&HmacMany> {
        match &self.keyed {
            KeyedMac::Hmac {
                many: Some(many), ..
            } => many
                .min_packets()
                .filter(|min| count >= *min)
                .map(|_| &**many),
            _ => None,
        }
    }

    /// Verifies a tag in constant time.
    ///
    /// # Errors
    /// If `tag` is not the tag over the packet's sequence number and `data`.
    pub fn verify(
        &self,
        sequence_number: u32,
        data: &[u8],
        tag: &[u8],
    ) -> Result<(), IntegrityFailed> {
        self.verify_parts(sequence_number, &[data], tag)
    }

    /// Verifies a tag over the concatenation of `parts` in constant time.
    ///
    /// # Errors
    /// As [`Self::verify`].
    pub fn verify_parts(
        &self,
        sequence_number: u32,
        parts: &[&[u8]],
        tag: &[u8],
    ) -> Result<(), IntegrityFailed> {
        if constant_time::eq(&self.compute_parts(sequence_number, parts), tag) {
            Ok(())
        } else {
            Err(IntegrityFailed)
        }
    }
}

impl fmt::Debug for MacKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MacKey({})", self.algorithm.name())
    }
}

#[cfg(test)]
mod tests;
