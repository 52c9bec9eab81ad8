//! Lookup of a host and its key in known_hosts files.
//!
//! A `@revoked` line in any file refuses its key, also as the authority of a certificate; a
//! matching line in any file takes precedence over a differing one in another file.

use std::path::PathBuf;

use crate::algorithm::KeyType;
use crate::fingerprint;
use crate::known_hosts::{KnownHosts, KnownHostsEntry, Marker};
use crate::presented::PresentedKey;
use crate::public_key::PublicKey;

/// A line of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    /// The file.
    pub path: PathBuf,
    /// Line number, from 1.
    pub line: usize,
}

/// A key that a file lists for a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownKey {
    /// The line that lists the key.
    pub location: Location,
    /// Name of the key type; may be an unsupported one.
    pub key_type: String,
    /// Key blob.
    pub blob: Vec<u8>,
}

impl KnownKey {
    /// Returns the `SHA256:…` fingerprint.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        fingerprint::sha256(&self.blob)
    }

    /// Label of the key's type, as `ED25519`.
    #[must_use]
    pub fn label(&self) -> &str {
        match KeyType::from_blob_name(self.key_type.as_bytes()) {
            Some((key_type, _)) => key_type.label(),
            None => &self.key_type,
        }
    }
}

/// Result of a lookup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostKeyStatus {
    /// The key is listed for the host; for a certificate, its authority is trusted for the host.
    Found {
        /// The matching line.
        at: Location,
        /// True if the line is marked `@cert-authority`.
        by_authority: bool,
    },
    /// The host is listed with another key of the same type.
    Changed {
        /// All its keys, also those of other types, in the order of the files.
        known: Vec<KnownKey>,
    },
    /// The host is listed, but not with a key of this type.
    OtherTypes {
        /// All listed keys, which have other types.
        known: Vec<KnownKey>,
    },
    /// The host is not listed (for a certificate: with no matching authority).
    Unknown,
    /// A line revokes this key, or the authority of this certificate.
    Revoked {
        /// The revoking line.
        at: Location,
    },
}

/// Looks up `name` (from [`super::host_name`]) and `key` in all `files`.
///
/// For a certificate only `@cert-authority` and `@revoked` lines count; if the result is
/// [`HostKeyStatus::Unknown`], the caller may look up its plain key.
#[must_use]
pub fn lookup<'f>(
    files: impl IntoIterator<Item = &'f KnownHosts>,
    name: &str,
    key: &PresentedKey,
) -> HostKeyStatus {
    let mut matches = LookupMatches::default();
    let plain = key.key().blob();
    let plain_type = key.key().key_type().name();
    let authority = key
        .certificate()
        .map(|certificate| certificate.authority().blob());
    for (file, entry) in entries_for(files, name) {
        let Some(blob) = entry.key_blob() else {
            continue;
        };
        let at = Location {
            path: file.path().to_owned(),
            line: entry.line,
        };
        let is_authority = authority.as_ref() == Some(&blob);
        match entry.marker {
            Marker::Revoked if is_authority || blob == plain => {
                return HostKeyStatus::Revoked { at };
            }
            Marker::CertAuthority if is_authority => {
                matches.found.get_or_insert((at, true));
            }
            Marker::None if authority.is_none() && blob == plain => {
                matches.found.get_or_insert((at, false));
            }
            // A key that no server can show here says nothing, and a damaged one neither.
            Marker::None if authority.is_none() && is_of_a_server(&entry, &blob) => {
                let key_type = String::from_utf8_lossy(entry.key_type).into_owned();
                matches.has_same_type |= key_type == plain_type;
                matches.known.push(KnownKey {
                    location: at,
                    key_type,
                    blob,
                });
            }
            _ => {}
        }
    }
    matches.status()
}

#[derive(Default)]
struct LookupMatches {
    found: Option<(Location, bool)>,
    /// Keys that differ.
    known: Vec<KnownKey>,
    /// One of them has the type of the key that is looked up.
    has_same_type: bool,
}

impl LookupMatches {
    fn status(self) -> HostKeyStatus {
        if let Some((at, by_authority)) = self.found {
            HostKeyStatus::Found { at, by_authority }
        } else if self.has_same_type {
            HostKeyStatus::Changed { known: self.known }
        } else if !self.known.is_empty() {
            HostKeyStatus::OtherTypes { known: self.known }
        } else {
            HostKeyStatus::Unknown
        }
    }
}

/// Kinds of host keys that the files would accept for a host, so that the client can prefer them in
/// the negotiation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KnownTypes {
    /// Types of the listed plain keys.
    pub plain: Vec<KeyType>,
    /// True if an authority is trusted for the host, so that certificates are preferable.
    pub authority: bool,
}

/// Collects the [`KnownTypes`] of `name` from all `files`.
#[must_use]
pub fn known_types<'f>(files: impl IntoIterator<Item = &'f KnownHosts>, name: &str) -> KnownTypes {
    let mut known = KnownTypes::default();
    for (_, entry) in entries_for(files, name) {
        match (entry.marker, KeyType::from_blob_name(entry.key_type)) {
            (Marker::CertAuthority, _) => known.authority = true,
            (Marker::None, Some((key_type, false)))
                if !known.plain.contains(&key_type)
                    && entry
                        .key_blob()
                        .is_some_and(|blob| is_of_a_server(&entry, &blob)) =>
            {
                known.plain.push(key_type);
            }
            _ => {}
        }
    }
    known
}

/// False for a key of a type that is not supported, and for a damaged one.
fn is_of_a_server(entry: &KnownHostsEntry<'_>, blob: &[u8]) -> bool {
    match KeyType::from_blob_name(entry.key_type) {
        Some((_, is_certificate)) => is_certificate || PublicKey::from_blob(blob).is_ok(),
        None => false,
    }
}

fn entries_for<'f>(
    files: impl IntoIterator<Item = &'f KnownHosts>,
    name: &str,
) -> impl Iterator<Item = (&'f KnownHosts, KnownHostsEntry<'f>)> {
    files.into_iter().flat_map(move |file| {
        file.entries()
            .filter(move |entry| entry.matches(name))
            .map(move |entry| (file, entry))
    })
}
