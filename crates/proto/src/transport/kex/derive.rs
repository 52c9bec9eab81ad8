//! The exchange hash and the keys derived from it (RFC 4253 §7.2, §8; RFC 4419 §3; RFC 5656 §4; RFC
//! 8731 §3.1).

use alloc::vec::Vec;

use crypto::hash::{Digest, HashAlgorithm, Hasher};
use crypto::kex::{DhGroup, KexFamily, SecretEncoding, SharedSecret};
use wire::Put;
use zeroize::Zeroizing;

use crate::transport::epoch_keys::{DirectionSuite, EpochKeys};

/// Smallest, preferred and largest size of a group, bits.
pub(super) type GroupSizes = (u32, u32, u32);

/// A group that the server chose by the client's request.
pub(super) struct RequestedGroup {
    pub(super) request: GroupSizes,
    pub(super) group: DhGroup,
}

/// Public values of both sides, as in their messages.
pub(super) struct PublicValues<'a> {
    /// Determines the encoding: mpints for groups, strings for ECDH and the hybrids.
    pub(super) family: KexFamily,
    /// Group exchange: precedes the values.
    pub(super) group: Option<&'a RequestedGroup>,
    pub(super) client: &'a [u8],
    pub(super) server: &'a [u8],
}

/// Inputs of the exchange hash from before the exchange of public values.
pub(crate) struct Transcript<'a> {
    pub(crate) client_version: &'a [u8],
    pub(crate) server_version: &'a [u8],
    pub(crate) client_init: &'a [u8],
    pub(crate) server_init: &'a [u8],
    pub(crate) host_key: &'a [u8],
}

/// Encodes the shared secret K for hashing: as an mpint, or as a string if the method requires that
/// (the hybrids).
pub(crate) fn encode_secret(secret: &SharedSecret) -> Zeroizing<Vec<u8>> {
    // The buffer must not move: a reallocation would leave a copy of the secret in freed memory.
    let mut out = Vec::with_capacity(secret.bytes().len() + 8);
    match secret.encoding() {
        SecretEncoding::Mpint => out.put_mpint(secret.bytes()),
        SecretEncoding::String => out.put_string(secret.bytes()),
    }
    Zeroizing::new(out)
}

/// Computes the exchange hash H.
pub(crate) fn exchange_hash(
    algorithm: HashAlgorithm,
    transcript: &Transcript<'_>,
    values: &PublicValues<'_>,
    secret_encoded: &[u8],
) -> Digest {
    let mut text = Vec::with_capacity(8 * 1024);
    text.put_string(transcript.client_version);
    text.put_string(transcript.server_version);
    text.put_string(transcript.client_init);
    text.put_string(transcript.server_init);
    text.put_string(transcript.host_key);
    if let Some(RequestedGroup { request, group }) = values.group {
        let (min, preferred, max) = *request;
        for size in [min, preferred, max] {
            text.put_u32(size);
        }
        text.put_mpint(&group.p());
        text.put_mpint(&group.g());
    }
    for value in [values.client, values.server] {
        match values.family {
            KexFamily::Dh | KexFamily::DhGroupExchange => text.put_mpint(value),
            KexFamily::Ecdh | KexFamily::Curve25519 | KexFamily::Hybrid => text.put_string(value),
        }
    }
    let mut hasher = Hasher::new(algorithm);
    hasher.update(&text);
    hasher.update(secret_encoded);
    hasher.finish()
}

/// Inputs of key derivation, RFC 4253 §7.2.
pub(crate) struct KeySource<'a> {
    pub(crate) algorithm: HashAlgorithm,
    pub(crate) secret_encoded: &'a [u8],
    pub(crate) hash: &'a [u8],
    pub(crate) session_id: &'a [u8],
}

impl KeySource<'_> {
    fn letter(&self, letter: u8, len: usize) -> Zeroizing<Vec<u8>> {
        // Digests and key leave no copy: digests are overwritten in place, and the key's buffer
        // never moves.
        let mut digest = Zeroizing::new([0; 64]);
        let mut key = Zeroizing::new(Vec::with_capacity(len + digest.len()));
        let mut hasher = Hasher::new(self.algorithm);
        hasher.update(self.secret_encoded);
        hasher.update(self.hash);
        hasher.update(&[letter]);
        hasher.update(self.session_id);
        key.extend_from_slice(hasher.finish_into(&mut digest));
        while key.len() < len {
            let mut hasher = Hasher::new(self.algorithm);
            hasher.update(self.secret_encoded);
            hasher.update(self.hash);
            hasher.update(&key);
            key.extend_from_slice(hasher.finish_into(&mut digest));
        }
        key.truncate(len);
        key
    }

    /// Derives the keys with the letters A, C and E.
    pub(crate) fn client_to_server(&self, suite: DirectionSuite) -> EpochKeys {
        self.direction(suite, [b'A', b'C', b'E'])
    }

    /// Derives the keys with the letters B, D and F.
    pub(crate) fn server_to_client(&self, suite: DirectionSuite) -> EpochKeys {
        self.direction(suite, [b'B', b'D', b'F'])
    }

    fn direction(&self, suite: DirectionSuite, [iv, key, mac]: [u8; 3]) -> EpochKeys {
        EpochKeys {
            suite,
            iv: self.letter(iv, suite.cipher.iv_len()),
            key: self.letter(key, suite.cipher.key_len()),
            mac_key: self.letter(mac, suite.mac.map_or(0, |each| each.key_len())),
        }
    }
}
