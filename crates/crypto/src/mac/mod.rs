//! Message authentication codes: one table of them, and a key for each.
//!
//! HMAC (RFC 2104, RFC 6668), UMAC (RFC 4418), and OpenSSH's
//! encrypt-then-MAC names. A key is immutable; the packet's sequence number is
//! a parameter, so MACs may be computed on any thread in any order. What is
//! covered by a MAC (ciphertext or plaintext) is decided in `packet`.
#![forbid(unsafe_code)]

mod hmac;
mod many;
mod umac;

use core::fmt;

use crate::arch::{self, CpuFeatures};
use crate::hash::HashAlgorithm;
use crate::{IntegrityFailed, KeyLengthError, constant_time};

pub use hmac::Hmac;
use many::Many;
use umac::Umac;

/// A MAC by which packets are authenticated.
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
}

/// The construction behind a MAC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MacKind {
    /// HMAC with this hash.
    Hmac(HashAlgorithm),
    /// UMAC with the tag length of the row.
    Umac,
}

/// A row of [`MACS`]. Lengths are in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MacSpec {
    /// The MAC that this row describes.
    pub algorithm: MacAlgorithm,
    /// Its name on the wire.
    pub name: &'static str,
    /// Key material drawn from the exchange.
    pub key_len: usize,
    /// Length of the tag on the wire.
    pub tag_len: usize,
    /// Whether it covers the ciphertext, with the length in the clear.
    pub etm: bool,
    /// The construction.
    pub kind: MacKind,
}

/// Every MAC, in the order of [`MacAlgorithm`]'s variants.
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
];

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

impl MacAlgorithm {
    /// The MAC of a wire name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        MACS.iter()
            .find(|spec| spec.name == name)
            .map(|spec| spec.algorithm)
    }

    /// Its row in [`MACS`].
    #[must_use]
    pub const fn spec(self) -> &'static MacSpec {
        &MACS[self as usize]
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

    /// Tag length in bytes.
    #[must_use]
    pub const fn tag_len(self) -> usize {
        self.spec().tag_len
    }

    /// Whether it covers the ciphertext, with the length in the clear.
    #[must_use]
    pub const fn is_etm(self) -> bool {
        self.spec().etm
    }
}

/// Packets that [`MacKey::verify_many`] works on at once.
const MANY: usize = 32;

/// The longest tag in bytes (HMAC-SHA-512).
pub const MAX_TAG_LEN: usize = 64;

/// A tag of at most [`MAX_TAG_LEN`] bytes, by value.
///
/// It has no `==`: [`MacKey::verify`] compares in constant time.
#[derive(Clone, Copy)]
pub struct Tag {
    bytes: [u8; MAX_TAG_LEN],
    len: u8,
}

impl Tag {
    /// The first [`MAX_TAG_LEN`] bytes of `bytes`.
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

    /// Zeros, to be written over.
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

/// An empty tag: a place for [`MacKey::compute_many`] to write to.
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
    keyed: Keyed,
}

enum Keyed {
    Hmac {
        one: Box<Hmac>,
        many: Option<Box<Many>>,
    },
    Umac(Box<Umac>),
}

impl MacKey {
    /// Prepares a key.
    ///
    /// # Errors
    /// If the key's length is not [`MacAlgorithm::key_len`].
    pub fn new(algorithm: MacAlgorithm, key: &[u8]) -> Result<Self, KeyLengthError> {
        Self::with_features(algorithm, key, arch::detect())
    }

    /// Prepares a key whose kernels are those that `features` allow: for tables
    /// that compare them.
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
            MacKind::Hmac(hash) => Keyed::Hmac {
                one: Box::new(Hmac::new(hash, key)),
                many: Many::new(hash, key, features).map(Box::new),
            },
            MacKind::Umac => {
                let key = key.try_into().map_err(|_| KeyLengthError)?;
                Keyed::Umac(Box::new(Umac::new(key, spec.tag_len, features)?))
            }
        };
        Ok(Self { algorithm, keyed })
    }

    /// The algorithm of this key.
    #[must_use]
    pub fn algorithm(&self) -> MacAlgorithm {
        self.algorithm
    }

    /// The tag over a packet's number and `data`.
    #[must_use]
    pub fn compute(&self, sequence_number: u32, data: &[u8]) -> Tag {
        self.compute_parts(sequence_number, &[data])
    }

    /// The tag over a packet's number and the concatenation of `parts`.
    #[must_use]
    pub fn compute_parts(&self, sequence_number: u32, parts: &[&[u8]]) -> Tag {
        match &self.keyed {
            Keyed::Hmac { one: hmac, .. } => {
                let mut running = hmac.start();
                running.update(&sequence_number.to_be_bytes());
                for part in parts {
                    running.update(part);
                }
                Tag::from_slice(&hmac.finish(running))
            }
            Keyed::Umac(umac) => {
                let (tag, len) = umac.compute(u64::from(sequence_number), parts);
                Tag::from_slice(tag.get(..len).unwrap_or_default())
            }
        }
    }

    /// The kernel that tags many packets at once, or one packet if there is no
    /// such kernel; for tables.
    #[must_use]
    pub fn kernel(&self) -> &'static str {
        match &self.keyed {
            Keyed::Hmac { many, .. } => many.as_ref().map_or("aws-lc", |many| many.kernel()),
            Keyed::Umac(umac) => umac.kernel(),
        }
    }

    /// Whether [`Self::compute_many`] is faster than packet by packet for some
    /// number of packets.
    #[must_use]
    pub fn gains_by_many(&self) -> bool {
        self.many_for(usize::MAX).is_some()
    }

    /// The tags over each packet's number and data, in the packets' order, the
    /// same as [`Self::compute`]'s: several packets at once where a kernel can.
    /// It is fastest with 16 packets or more of equal length.
    ///
    /// # Panics
    /// If there are not as many `tags` as `packets`.
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

    /// Checks the tags of several packets, each in constant time; returns how
    /// many are right before the first that is wrong.
    ///
    /// # Panics
    /// If there are not as many `tags` as `packets`.
    #[must_use]
    pub fn verify_many(&self, packets: &[(u32, &[u8])], tags: &[&[u8]]) -> usize {
        assert_eq!(packets.len(), tags.len(), "a tag for each packet");
        let mut expected = [Tag::default(); MANY];
        let mut right = 0;
        for (packets, tags) in packets.chunks(MANY).zip(tags.chunks(MANY)) {
            let expected = &mut expected[..packets.len()];
            self.compute_many(packets, expected);
            let pairs = expected.iter().zip(tags);
            let here = pairs
                .take_while(|(tag, other)| constant_time::eq(tag, other))
                .count();
            right += here;
            if here < packets.len() {
                break;
            }
        }
        right
    }

    /// The kernels for `count` packets at once, if they gain anything.
    fn many_for(&self, count: usize) -> Option<&Many> {
        match &self.keyed {
            Keyed::Hmac {
                many: Some(many), ..
            } => many
                .least()
                .filter(|least| count >= *least)
                .map(|_| &**many),
            _ => None,
        }
    }

    /// Checks a tag in constant time.
    ///
    /// # Errors
    /// If `tag` differs from the tag over the packet's number and `data`, in
    /// length or in a byte.
    pub fn verify(
        &self,
        sequence_number: u32,
        data: &[u8],
        tag: &[u8],
    ) -> Result<(), IntegrityFailed> {
        self.verify_parts(sequence_number, &[data], tag)
    }

    /// Checks a tag over the concatenation of `parts` in constant time.
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
