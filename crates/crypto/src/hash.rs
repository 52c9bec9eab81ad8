//! Hash functions: SHA-1 and SHA-2 (FIPS 180-4), and MD5 for old key fingerprints, old PEM files
//! and hmac-md5 only. Digests are values on the stack.
//!
//! HMAC is in [`crate::mac`].
#![forbid(unsafe_code)]

use core::fmt;

use crate::awslc::digest::HashContext;

/// A hash function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HashAlgorithm {
    /// RFC 1321; only for old fingerprints, old PEM encryption and hmac-md5.
    Md5,
    /// FIPS 180-4; only for hmac-sha1, hashed host names, SSHFP, the token `%C` of configurations,
    /// and key exchanges and signatures with old devices.
    Sha1,
    /// FIPS 180-4.
    Sha256,
    /// FIPS 180-4.
    Sha384,
    /// FIPS 180-4.
    Sha512,
}

impl HashAlgorithm {
    /// Length of a digest in bytes.
    #[must_use]
    pub const fn digest_len(self) -> usize {
        match self {
            Self::Md5 => 16,
            Self::Sha1 => 20,
            Self::Sha256 => 32,
            Self::Sha384 => 48,
            Self::Sha512 => 64,
        }
    }

    /// Length of the compression function's block in bytes.
    #[must_use]
    pub const fn block_len(self) -> usize {
        match self {
            Self::Md5 | Self::Sha1 | Self::Sha256 => 64,
            Self::Sha384 | Self::Sha512 => 128,
        }
    }

    /// Returns the digest of `data`.
    #[must_use]
    pub fn digest(self, data: &[u8]) -> Digest {
        let mut hasher = Hasher::new(self);
        hasher.update(data);
        hasher.finish()
    }
}

/// A digest of at most 64 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest {
    bytes: [u8; 64],
    len: u8,
}

impl Digest {
    /// A zeroed digest with the length of `algorithm`.
    pub(crate) fn zeroed(algorithm: HashAlgorithm) -> Self {
        // No digest is longer than 64 bytes, so the fallback is never used.
        let len = u8::try_from(algorithm.digest_len()).unwrap_or(64);
        Self {
            bytes: [0; 64],
            len,
        }
    }

    pub(crate) fn buffer(&mut self) -> &mut [u8; 64] {
        &mut self.bytes
    }
}

impl AsRef<[u8]> for Digest {
    fn as_ref(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }
}

impl core::ops::Deref for Digest {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.as_ref()
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Digest(")?;
        for byte in self.as_ref() {
            write!(f, "{byte:02x}")?;
        }
        f.write_str(")")
    }
}

/// A hash computation in progress; its state is wiped when it is dropped.
#[derive(Clone)]
pub struct Hasher {
    algorithm: HashAlgorithm,
    context: HashContext,
}

impl Hasher {
    /// Starts a hash.
    #[must_use]
    pub fn new(algorithm: HashAlgorithm) -> Self {
        Self {
            algorithm,
            context: HashContext::new(algorithm),
        }
    }

    /// The hash function of this computation.
    #[must_use]
    pub fn algorithm(&self) -> HashAlgorithm {
        self.algorithm
    }

    /// Appends `data` to the message.
    pub fn update(&mut self, data: &[u8]) {
        self.context.update(data);
    }

    /// Returns the digest of the message.
    #[must_use]
    pub fn finish(mut self) -> Digest {
        let mut digest = Digest::zeroed(self.algorithm);
        self.context.finish(digest.buffer());
        digest
    }

    /// Writes the digest to the start of `out` and returns it. For a digest that is a key:
    /// [`Hasher::finish`] would leave copies in memory, while the caller can wipe `out`.
    #[must_use]
    pub fn finish_into(mut self, out: &mut [u8; 64]) -> &[u8] {
        self.context.finish(out);
        out.get(..self.algorithm.digest_len()).unwrap_or_default()
    }
}

impl fmt::Debug for Hasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hasher({:?})", self.algorithm)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::hex;

    #[test]
    fn digests_of_abc() {
        let expected = [
            (HashAlgorithm::Md5, "900150983cd24fb0d6963f7d28e17f72"),
            (
                HashAlgorithm::Sha1,
                "a9993e364706816aba3e25717850c26c9cd0d89d",
            ),
            (
                HashAlgorithm::Sha256,
                "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
            ),
            (
                HashAlgorithm::Sha384,
                "cb00753f45a35e8bb5a03d699ac65007272c32ab0eded1631a8b605a43ff5bed\
                 8086072ba1e7cc2358baeca134c825a7",
            ),
            (
                HashAlgorithm::Sha512,
                "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a\
                 2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
            ),
        ];
        for (algorithm, digest) in expected {
            assert_eq!(
                algorithm.digest(b"abc").as_ref(),
                hex(digest),
                "{algorithm:?}"
            );
            let mut hasher = Hasher::new(algorithm);
            hasher.update(b"abc");
            let mut out = [0; 64];
            assert_eq!(hasher.finish_into(&mut out), hex(digest), "{algorithm:?}");
            assert_eq!(algorithm.digest_len(), hex(digest).len());
        }
    }

    #[test]
    fn any_split_gives_the_same_digest() {
        let data: Vec<u8> = (0..300u32).map(|i| (i % 251) as u8).collect();
        for algorithm in [
            HashAlgorithm::Md5,
            HashAlgorithm::Sha1,
            HashAlgorithm::Sha256,
            HashAlgorithm::Sha384,
            HashAlgorithm::Sha512,
        ] {
            for split in [0, 1, 63, 64, 65, 128, 299, 300] {
                let mut hasher = Hasher::new(algorithm);
                hasher.update(&data[..split]);
                let mut copy = hasher.clone();
                hasher.update(&data[split..]);
                copy.update(&data[split..]);
                assert_eq!(hasher.finish(), algorithm.digest(&data));
                assert_eq!(copy.finish(), algorithm.digest(&data));
            }
        }
    }
}
