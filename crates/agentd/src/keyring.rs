//! The keys that the agent holds, with what restricts them, and the lock.

use std::sync::Arc;

use agent::Constraints;
use agent::constraint::DestinationConstraint;
use agent::message::MAX_MESSAGE_BYTES;
use crypto::hash::HashAlgorithm;
use keys::KeyType;
use keys::private_file::HeldKey;
use zeroize::Zeroizing;

/// Largest number of keys: a client reads no longer list.
const MAX_KEYS: usize = 2048;
/// Bytes of the list before its first key: the message's number and the count.
const LIST_HEAD_BYTES: usize = 5;
/// Bytes of a key in the list beside its blob and comment: their lengths.
const LIST_ENTRY_BYTES: usize = 8;

/// A key in a token, which a helper reaches.
#[derive(Debug, Clone)]
pub(crate) struct TokenKeyPlace {
    /// The event loop's number of the helper.
    pub(crate) link: u64,
    /// Place of the key in the helper's list.
    pub(crate) key: u32,
    pub(crate) key_type: KeyType,
    /// The library's canonical path.
    pub(crate) provider: Arc<str>,
}

/// Where a key is.
pub(crate) enum KeyHolder {
    Memory(Box<HeldKey>),
    Token(TokenKeyPlace),
}

impl KeyHolder {
    pub(crate) fn token(&self) -> Option<&TokenKeyPlace> {
        match self {
            Self::Memory(_) => None,
            Self::Token(place) => Some(place),
        }
    }
}

/// A key in the agent.
pub(crate) struct KeyEntry {
    pub(crate) holder: KeyHolder,
    pub(crate) blob: Vec<u8>,
    pub(crate) comment: String,
    pub(crate) confirm: bool,
    pub(crate) destinations: Vec<DestinationConstraint>,
    /// The provider of a key in a security key.
    pub(crate) provider: Option<String>,
    /// When the key is removed, by [`sys::time::boot_ms`]; `None`: never.
    expires_ms: Option<u64>,
}

/// The keys in the order in which they were added.
#[derive(Default)]
pub(crate) struct Keyring {
    entries: Vec<KeyEntry>,
    lock: Option<Lock>,
}

/// The result of an attempt to unlock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unlocked {
    Yes,
    /// The passphrase is wrong.
    Wrong,
    /// The agent is not locked, or the passphrase is empty.
    NotTried,
}

/// The lock's passphrase, salted and hashed. Whoever reads this memory has the keys too.
struct Lock {
    salt: [u8; 32],
    digest: Zeroizing<Vec<u8>>,
}

impl Lock {
    fn new(passphrase: &[u8]) -> Self {
        let salt = crypto::random::bytes();
        Self {
            salt,
            digest: digest(&salt, passphrase),
        }
    }

    fn opens(&self, passphrase: &[u8]) -> bool {
        crypto::constant_time::eq(&self.digest, &digest(&self.salt, passphrase))
    }
}

fn digest(salt: &[u8; 32], passphrase: &[u8]) -> Zeroizing<Vec<u8>> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(salt.len() + passphrase.len()));
    bytes.extend_from_slice(salt);
    bytes.extend_from_slice(passphrase);
    Zeroizing::new(HashAlgorithm::Sha512.digest(&bytes).as_ref().to_vec())
}

impl Keyring {
    pub(crate) fn entries(&self) -> &[KeyEntry] {
        &self.entries
    }

    pub(crate) fn find(&self, blob: &[u8]) -> Option<&KeyEntry> {
        self.entries.iter().find(|entry| entry.blob == blob)
    }

    /// True if a key with this blob and comment can be added, or replace the one with the same blob: the
    /// list of all keys stays one that clients read, in number and in bytes.
    pub(crate) fn has_room(&self, blob: &[u8], comment: &str) -> bool {
        let others = self.entries.iter().filter(|entry| entry.blob != blob);
        let listed = |blob: &[u8], comment: &str| LIST_ENTRY_BYTES + blob.len() + comment.len();
        let (mut count, mut bytes) = (1, LIST_HEAD_BYTES + listed(blob, comment));
        for other in others {
            count += 1;
            bytes += listed(&other.blob, &other.comment);
        }
        count <= MAX_KEYS && bytes <= MAX_MESSAGE_BYTES
    }

    /// Adds a key, or replaces the one with the same blob. `default_lifetime` is in seconds.
    pub(crate) fn add(
        &mut self,
        holder: KeyHolder,
        blob: Vec<u8>,
        comment: String,
        constraints: Constraints,
        default_lifetime: Option<u64>,
        now_ms: u64,
    ) {
        let seconds = constraints.lifetime.map(u64::from).or(default_lifetime);
        let entry = KeyEntry {
            blob,
            holder,
            comment,
            confirm: constraints.confirm,
            destinations: constraints.destinations,
            provider: constraints.provider,
            expires_ms: seconds.map(|seconds| now_ms.saturating_add(seconds.saturating_mul(1000))),
        };
        match self.entries.iter_mut().find(|old| old.blob == entry.blob) {
            Some(old) => *old = entry,
            None => self.entries.push(entry),
        }
    }

    /// Removes a key; true if it was there.
    pub(crate) fn remove(&mut self, blob: &[u8]) -> bool {
        self.remove_where(|entry| entry.blob == blob)
    }

    /// Removes the keys for which `is_meant` is true; true if there was one.
    pub(crate) fn remove_where(&mut self, is_meant: impl Fn(&KeyEntry) -> bool) -> bool {
        let before = self.entries.len();
        self.entries.retain(|entry| !is_meant(entry));
        self.entries.len() < before
    }

    /// True if a key needs the helper with this number.
    pub(crate) fn uses_link(&self, link: u64) -> bool {
        let mut places = self.entries.iter().filter_map(|entry| entry.holder.token());
        places.any(|place| place.link == link)
    }

    pub(crate) fn remove_all(&mut self) {
        self.entries = Vec::new();
    }

    /// Removes the keys whose time is over, and returns their comments.
    pub(crate) fn expire(&mut self, now_ms: u64) -> Vec<String> {
        let is_over = |entry: &KeyEntry| entry.expires_ms.is_some_and(|end| end <= now_ms);
        if !self.entries.iter().any(is_over) {
            return Vec::new();
        }
        let over = self.entries.iter().filter(|entry| is_over(entry));
        let comments = over.map(|entry| entry.comment.clone()).collect();
        self.entries.retain(|entry| !is_over(entry));
        comments
    }

    /// When the next key expires.
    pub(crate) fn next_expiry_ms(&self) -> Option<u64> {
        self.entries
            .iter()
            .filter_map(|entry| entry.expires_ms)
            .min()
    }

    pub(crate) fn is_locked(&self) -> bool {
        self.lock.is_some()
    }

    /// Locks the agent; false if it is locked or the passphrase is empty.
    pub(crate) fn lock(&mut self, passphrase: &[u8]) -> bool {
        if passphrase.is_empty() || self.is_locked() {
            return false;
        }
        self.lock = Some(Lock::new(passphrase));
        true
    }

    /// Tries to unlock.
    pub(crate) fn unlock(&mut self, passphrase: &[u8]) -> Unlocked {
        match &self.lock {
            Some(lock) if !passphrase.is_empty() => {
                if !lock.opens(passphrase) {
                    return Unlocked::Wrong;
                }
                self.lock = None;
                Unlocked::Yes
            }
            _ => Unlocked::NotTried,
        }
    }
}
