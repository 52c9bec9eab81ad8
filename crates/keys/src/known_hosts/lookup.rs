//! What the known_hosts files say about a host and the key that it presents.
//!
//! A revoked key is refused wherever a line says so, also when it signed the certificate that
//! is presented; a matching line in any file wins over a differing one in another.

use std::path::PathBuf;

use crate::algorithm::KeyType;
use crate::fingerprint;
use crate::known_hosts::{Entry, KnownHosts, Marker};
use crate::presented::PresentedKey;

/// A place in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    /// The file.
    pub path: PathBuf,
    /// The line, counted from 1.
    pub line: usize,
}

/// A key that a file holds for a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownKey {
    /// Where it stands.
    pub location: Location,
    /// The type's name; may be one that is not supported.
    pub key_type: String,
    /// The key.
    pub blob: Vec<u8>,
}

impl KnownKey {
    /// `SHA256:…`
    #[must_use]
    pub fn fingerprint(&self) -> String {
        fingerprint::sha256(&self.blob)
    }
}

/// The verdict on a host's key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostKeyStatus {
    /// The key is the host's; for a certificate, its authority is trusted for the host.
    Found {
        /// The line that says so.
        at: Location,
        /// True when the line is `@cert-authority`.
        by_authority: bool,
    },
    /// The host has another key of the same type.
    Changed {
        /// Every differing key of that type.
        known: Vec<KnownKey>,
    },
    /// The host has keys, but none of this type.
    OtherTypes {
        /// Every key of other types.
        known: Vec<KnownKey>,
    },
    /// Nothing is known of the host (for a certificate: no authority for it).
    Unknown,
    /// A line says that this key, or the authority of this certificate, is revoked.
    Revoked {
        /// That line.
        at: Location,
    },
}

/// Looks `name` (from [`super::host_name`]) and `key` up in all `files`.
///
/// A certificate is judged by `@cert-authority` lines alone; when the answer is
/// [`HostKeyStatus::Unknown`], the caller may look its plain key up.
#[must_use]
pub fn lookup<'f>(
    files: impl IntoIterator<Item = &'f KnownHosts>,
    name: &str,
    key: &PresentedKey,
) -> HostKeyStatus {
    let mut seen = Seen::default();
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
                seen.found.get_or_insert((at, true));
            }
            Marker::None if authority.is_none() && blob == plain => {
                seen.found.get_or_insert((at, false));
            }
            Marker::None if authority.is_none() => {
                let key_type = String::from_utf8_lossy(entry.key_type).into_owned();
                let same_type = key_type == plain_type;
                let known = KnownKey {
                    location: at,
                    key_type,
                    blob,
                };
                if same_type {
                    seen.changed.push(known);
                } else {
                    seen.others.push(known);
                }
            }
            _ => {}
        }
    }
    seen.verdict()
}

#[derive(Default)]
struct Seen {
    found: Option<(Location, bool)>,
    changed: Vec<KnownKey>,
    others: Vec<KnownKey>,
}

impl Seen {
    fn verdict(self) -> HostKeyStatus {
        if let Some((at, by_authority)) = self.found {
            HostKeyStatus::Found { at, by_authority }
        } else if !self.changed.is_empty() {
            HostKeyStatus::Changed {
                known: self.changed,
            }
        } else if !self.others.is_empty() {
            HostKeyStatus::OtherTypes { known: self.others }
        } else {
            HostKeyStatus::Unknown
        }
    }
}

/// What kinds of proof the files would accept for a host, so that the client asks for one of
/// them first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KnownTypes {
    /// Types of the host's plain keys.
    pub plain: Vec<KeyType>,
    /// True when an authority is trusted for the host: prefer certificates.
    pub authority: bool,
}

/// Collects [`KnownTypes`] of `name` over all `files`.
#[must_use]
pub fn known_types<'f>(files: impl IntoIterator<Item = &'f KnownHosts>, name: &str) -> KnownTypes {
    let mut known = KnownTypes::default();
    for (_, entry) in entries_for(files, name) {
        match (entry.marker, KeyType::from_blob_name(entry.key_type)) {
            (Marker::CertAuthority, _) => known.authority = true,
            (Marker::None, Some((key_type, false))) if !known.plain.contains(&key_type) => {
                known.plain.push(key_type);
            }
            _ => {}
        }
    }
    known
}

fn entries_for<'f>(
    files: impl IntoIterator<Item = &'f KnownHosts>,
    name: &str,
) -> impl Iterator<Item = (&'f KnownHosts, Entry<'f>)> {
    files.into_iter().flat_map(move |file| {
        file.entries()
            .filter(move |entry| entry.matches(name))
            .map(move |entry| (file, entry))
    })
}
