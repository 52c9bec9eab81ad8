//! known_hosts files (sshd(8), SSH_KNOWN_HOSTS FILE FORMAT): their lines and entries.
//!
//! [`lookup`] looks up hosts, [`edit`] changes the text; both iterate over the text as read, so
//! that nothing is lost. Invalid lines are skipped, lines over the limit entirely.

pub mod edit;
mod lookup;

#[cfg(test)]
mod tests;

use std::io::Read;
use std::path::{Path, PathBuf};

use crypto::hash::HashAlgorithm;
use crypto::mac::Hmac;

pub use lookup::{HostKeyStatus, KnownKey, KnownTypes, Location, known_types, lookup};

use crate::algorithm::KeyType;
use crate::base64;
use crate::lines::{self, is_blank, lines, split_word, trim_start};
use crate::pattern::{Case, match_list};

/// Largest known_hosts file that is read, in bytes.
pub const MAX_FILE_BYTES: u64 = 64 * 1024 * 1024;

/// The port that host names omit.
pub const DEFAULT_PORT: u16 = 22;

/// A known_hosts file in memory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KnownHosts {
    path: PathBuf,
    text: Vec<u8>,
}

impl KnownHosts {
    /// Creates a value from a file's text and the path to show in messages.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>, text: impl Into<Vec<u8>>) -> Self {
        Self {
            path: path.into(),
            text: text.into(),
        }
    }

    /// Reads a file.
    ///
    /// # Errors
    /// Errors of the file system; [`std::io::ErrorKind::FileTooLarge`] above [`MAX_FILE_BYTES`].
    pub fn load(path: &Path) -> std::io::Result<Self> {
        let file = std::fs::File::open(path)?;
        // Capacity for the whole file and for detecting its end: two reads for a file of any size.
        let size = file.metadata()?.len().min(MAX_FILE_BYTES);
        let mut text = Vec::with_capacity(usize::try_from(size).unwrap_or(0).saturating_add(64));
        file.take(MAX_FILE_BYTES + 1).read_to_end(&mut text)?;
        if u64::try_from(text.len()).is_ok_and(|len| len > MAX_FILE_BYTES) {
            return Err(std::io::ErrorKind::FileTooLarge.into());
        }
        Ok(Self::new(path, text))
    }

    /// The path given to [`new`](Self::new) or [`load`](Self::load).
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The content of the file.
    #[must_use]
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// Parses every line, in order.
    pub fn lines(&self) -> impl Iterator<Item = KnownHostsLine<'_>> {
        lines(&self.text).map(KnownHostsLine::parse)
    }

    /// Parses the lines and returns those that are entries.
    pub fn entries(&self) -> impl Iterator<Item = KnownHostsEntry<'_>> {
        self.lines().filter_map(|line| match line.content {
            LineContent::Entry(entry) => Some(entry),
            LineContent::Comment | LineContent::Invalid => None,
        })
    }
}

/// A line and its parsed content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownHostsLine<'a> {
    /// Line number, from 1.
    pub number: usize,
    /// The bytes of the line, including its line end.
    pub raw: &'a [u8],
    /// The parsed content.
    pub content: LineContent<'a>,
}

/// Parsed content of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LineContent<'a> {
    /// Blank, or starts with `#`.
    Comment,
    /// An entry for hosts.
    Entry(KnownHostsEntry<'a>),
    /// Neither; skipped.
    Invalid,
}

/// The marker before the hosts field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Marker {
    /// No marker: the key belongs to the host.
    None,
    /// `@cert-authority`: the key signs the hosts' certificates.
    CertAuthority,
    /// `@revoked`: the key must not be accepted.
    Revoked,
}

/// An entry for hosts. The key is not decoded before [`KnownHostsEntry::key_blob`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownHostsEntry<'a> {
    /// Line number, from 1.
    pub line: usize,
    /// The marker before the hosts field.
    pub marker: Marker,
    /// The hosts field: comma-separated patterns, or one hashed name.
    pub hosts: &'a [u8],
    /// Name of the key type as written in the line.
    pub key_type: &'a [u8],
    /// The key in base64.
    key: &'a [u8],
    /// The text after the key.
    pub comment: &'a [u8],
    /// The text from the key type on.
    pub key_and_comment: &'a [u8],
    tab_after_marker: bool,
}

impl<'a> KnownHostsLine<'a> {
    fn parse(line: lines::NumberedLine<'a>) -> Self {
        let content = match line.text.map(trim_start) {
            Some([] | [b'#', ..]) => LineContent::Comment,
            Some(text) => KnownHostsEntry::parse(line.number, text)
                .map_or(LineContent::Invalid, LineContent::Entry),
            None => LineContent::Invalid,
        };
        Self {
            number: line.number,
            raw: line.raw,
            content,
        }
    }
}

impl<'a> KnownHostsEntry<'a> {
    fn parse(line: usize, text: &'a [u8]) -> Option<Self> {
        let mut tab_after_marker = false;
        let (marker, text) = if text.starts_with(b"@") {
            let (word, rest) = split_word(text);
            tab_after_marker = text.get(word.len()) == Some(&b'\t');
            let marker = match word {
                b"@cert-authority" => Marker::CertAuthority,
                b"@revoked" => Marker::Revoked,
                _ => return None,
            };
            (marker, rest)
        } else {
            (Marker::None, text)
        };
        if marker != Marker::None && text.starts_with(b"@") {
            return None;
        }
        let (hosts, key_and_comment) = split_word(text);
        let (key_type, rest) = split_word(key_and_comment);
        let (key, comment) = split_word(rest);
        // Lines of protocol version 1 have a number here and no base64 after it.
        if key.is_empty() || key.starts_with(b"#") || key_type.iter().all(u8::is_ascii_digit) {
            return None;
        }
        Some(Self {
            line,
            marker,
            hosts,
            key_type,
            key,
            comment: trim_end(comment),
            key_and_comment: trim_end(key_and_comment),
            tab_after_marker,
        })
    }

    /// Decodes the key blob; `None` if the base64 is invalid or the blob's type differs from the
    /// one written in the line.
    #[must_use]
    pub fn key_blob(&self) -> Option<Vec<u8>> {
        let blob = base64::decode(self.key)?;
        let name = wire::Reader::new(&blob).string().ok()?;
        (name == self.key_type).then(|| blob.to_vec())
    }

    /// True if a known_hosts file can contain this key type: one that is supported here, or one
    /// that only OpenSSH supports. A line with another type is damaged or belongs to another kind
    /// of file.
    #[must_use]
    pub fn has_known_type(&self) -> bool {
        KeyType::from_blob_name(self.key_type).is_some() || OTHER_TYPES.contains(&self.key_type)
    }

    /// True if OpenSSH accepts the line too: the key type is known, and a blank, not a tab, follows
    /// the marker. (This crate honours a revocation with a tab all the same.)
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.has_known_type() && !self.tab_after_marker
    }

    /// True if the hosts field is a malformed hash, which matches no name.
    #[must_use]
    pub fn has_damaged_hash(&self) -> bool {
        self.is_hashed() && split_hash(self.hosts).is_none()
    }

    /// True if the hosts field is a hash.
    #[must_use]
    pub fn is_hashed(&self) -> bool {
        self.hosts.starts_with(b"|")
    }

    /// True if the hosts field contains wildcards or negations.
    #[must_use]
    pub fn has_patterns(&self) -> bool {
        self.hosts
            .iter()
            .any(|byte| matches!(byte, b'*' | b'?' | b'!'))
    }

    /// True if the entry matches `name`, in the form of [`host_name`].
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        if self.is_hashed() {
            hashed_name_matches(self.hosts, name)
        } else {
            match_list(name.as_bytes(), self.hosts, Case::Ignored).is_yes()
        }
    }
}

/// The name under which a host is looked up: in lower case, and `[host]:port` for a port other than
/// 22.
#[must_use]
pub fn host_name(host: &str, port: u16) -> String {
    let host = host.to_ascii_lowercase();
    if port == DEFAULT_PORT {
        host
    } else {
        format!("[{host}]:{port}")
    }
}

/// Key types that OpenSSH accepts in known_hosts and this suite does not support.
const OTHER_TYPES: &[&[u8]] = &[
    b"ssh-dss",
    b"ssh-dss-cert-v01@openssh.com",
    b"rsa-sha2-256",
    b"rsa-sha2-512",
    b"ssh-xmss@openssh.com",
    b"ssh-xmss-cert-v01@openssh.com",
    b"webauthn-sk-ecdsa-sha2-nistp256@openssh.com",
];

const HASH_MAGIC: &[u8] = b"|1|";
const HASH_BYTES: usize = 20;

/// Hashes a name with a new salt, as `|1|salt|hash`.
#[must_use]
pub fn hash_name(name: &str) -> String {
    hash_name_with(name, &crypto::random::bytes())
}

fn hash_name_with(name: &str, salt: &[u8; HASH_BYTES]) -> String {
    format!(
        "|1|{}|{}",
        base64::encode(salt),
        base64::encode(&name_hash(salt, name))
    )
}

/// True if `field`, in the form of [`hash_name`], is the hash of `name`.
#[must_use]
pub fn hashed_name_matches(field: &[u8], name: &str) -> bool {
    split_hash(field).is_some_and(|(salt, hash)| hash == name_hash(&salt, name))
}

/// Splits a field in the form of [`hash_name`] into salt and hash.
fn split_hash(field: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let mut parts = field.strip_prefix(HASH_MAGIC)?.split(|byte| *byte == b'|');
    let (Some(salt), Some(hash), None) = (parts.next(), parts.next(), parts.next()) else {
        return None;
    };
    let decoded = |part| base64::decode(part).map(|bytes| bytes.to_vec());
    let (salt, hash) = (decoded(salt)?, decoded(hash)?);
    (salt.len() == HASH_BYTES && hash.len() == HASH_BYTES).then_some((salt, hash))
}

fn name_hash(salt: &[u8], name: &str) -> Vec<u8> {
    Hmac::new(HashAlgorithm::Sha1, salt)
        .compute(&[name.as_bytes()])
        .to_vec()
}

fn trim_end(text: &[u8]) -> &[u8] {
    let end = text
        .iter()
        .rposition(|byte| !is_blank(*byte))
        .map_or(0, |last| last + 1);
    text.get(..end).unwrap_or_default()
}
