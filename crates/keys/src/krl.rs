//! Revocation lists: OpenSSH's binary key revocation lists (PROTOCOL.krl) and text lists of public
//! keys, one per line. `write` modifies and encodes lists.
//!
//! Parsing fails closed: a list that cannot be parsed completely is an error, and the caller then
//! accepts no key.

use std::collections::HashSet;
use std::io::Read;
use std::path::Path;

use core::fmt;

use crypto::hash::HashAlgorithm;
use wire::{DecodeError, Reader};

use crate::certificate::Certificate;
use crate::error::KeyError;
use crate::lines::{lines, trim_start};
use crate::presented::PresentedKey;
use crate::public_file;
use crate::public_key::PublicKey;

mod write;

pub use write::RevokedCertificates;

const MAGIC: u64 = 0x5353_484b_524c_0a00;
const FORMAT_VERSION: u32 = 1;

const SECTION_CERTIFICATES: u8 = 1;
const SECTION_EXPLICIT_KEY: u8 = 2;
const SECTION_FINGERPRINT_SHA1: u8 = 3;
const SECTION_SIGNATURE: u8 = 4;
const SECTION_FINGERPRINT_SHA256: u8 = 5;
const SECTION_EXTENSION: u8 = 255;

const CERT_SERIAL_LIST: u8 = 0x20;
const CERT_SERIAL_RANGE: u8 = 0x21;
const CERT_SERIAL_BITMAP: u8 = 0x22;
const CERT_KEY_ID: u8 = 0x23;
const CERT_EXTENSION: u8 = 0x39;

/// Largest list that is read, in bytes: twice OpenSSH 9.2's limit for a KRL. It applies to all
/// lists, of user keys and of host keys.
pub const MAX_FILE_BYTES: u64 = 256 * 1024 * 1024;

/// Why a revocation list cannot be used.
#[derive(Debug)]
pub enum KrlError {
    /// The file cannot be read.
    Io(std::io::Error),
    /// The file exceeds [`MAX_FILE_BYTES`].
    TooLarge,
    /// The binary encoding is malformed.
    Malformed(DecodeError),
    /// The format version is not supported.
    UnsupportedVersion(u32),
    /// An unknown section that must not be ignored.
    UnknownSection(u8),
    /// A line of a text list is not a key.
    BadLine {
        /// Line number, from 1.
        line: usize,
        /// The error of the key.
        error: KeyError,
    },
}

impl fmt::Display for KrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "cannot read revocation list: {error}"),
            Self::TooLarge => write!(
                f,
                "revocation list is larger than {} MiB, the limit; divide it into \
                 several files",
                MAX_FILE_BYTES / (1024 * 1024)
            ),
            Self::Malformed(error) => write!(f, "malformed revocation list: {error}"),
            Self::UnsupportedVersion(version) => {
                write!(
                    f,
                    "revocation list has the unsupported format version {version}"
                )
            }
            Self::UnknownSection(kind) => {
                write!(f, "revocation list has an unsupported section ({kind})")
            }
            Self::BadLine { line, error } => {
                write!(f, "revocation list, line {line}: {error}")
            }
        }
    }
}

impl std::error::Error for KrlError {}

impl From<DecodeError> for KrlError {
    fn from(error: DecodeError) -> Self {
        Self::Malformed(error)
    }
}

/// A set of revoked keys and certificates.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RevocationList {
    /// The list's version number; 0 for text lists.
    pub version: u64,
    /// Time of generation in seconds since 1970; 0 for text lists.
    pub generated: u64,
    /// Comment of the list.
    pub comment: String,
    keys: HashSet<Vec<u8>>,
    sha1: HashSet<Vec<u8>>,
    sha256: HashSet<Vec<u8>>,
    certificates: Vec<CertificateSection>,
}

/// Revoked certificates of one authority.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct CertificateSection {
    /// Key blob of the authority; `None` for all authorities.
    authority: Option<Vec<u8>>,
    /// Serial numbers, both ends inclusive.
    ranges: Vec<(u64, u64)>,
    /// First serial, and a big-endian number whose bit n means serial first + n.
    bitmaps: Vec<(u64, Vec<u8>)>,
    key_ids: HashSet<Vec<u8>>,
}

impl RevocationList {
    /// Whether a file holds a binary list. A text list has no version, time and comment, which a
    /// program would show or change.
    #[must_use]
    pub fn is_binary(file: &[u8]) -> bool {
        file.starts_with(&MAGIC.to_be_bytes())
    }

    /// Parses a binary or text list.
    ///
    /// # Errors
    /// [`KrlError`].
    pub fn parse(file: &[u8]) -> Result<Self, KrlError> {
        if Self::is_binary(file) {
            Self::parse_binary(file)
        } else {
            Self::parse_plain(file)
        }
    }

    /// Reads a list from a file.
    ///
    /// # Errors
    /// [`KrlError`].
    pub fn load(path: &Path) -> Result<Self, KrlError> {
        Self::read(&std::fs::File::open(path).map_err(KrlError::Io)?)
    }

    /// Reads a list from an open file, from its current position to its end.
    ///
    /// # Errors
    /// [`KrlError`]; [`KrlError::TooLarge`] above [`MAX_FILE_BYTES`].
    pub fn read(file: &std::fs::File) -> Result<Self, KrlError> {
        let size = file.metadata().map_err(KrlError::Io)?.len();
        // Fails before reading that much; the check below catches a file that grows meanwhile.
        if size > MAX_FILE_BYTES {
            return Err(KrlError::TooLarge);
        }
        let mut bytes = Vec::new();
        let mut bounded = file.take(MAX_FILE_BYTES + 1);
        bounded.read_to_end(&mut bytes).map_err(KrlError::Io)?;
        if u64::try_from(bytes.len()).is_ok_and(|len| len > MAX_FILE_BYTES) {
            return Err(KrlError::TooLarge);
        }
        Self::parse(&bytes)
    }

    /// True if a presented key is revoked: the key itself, the certified key, the certificate, or
    /// its authority.
    #[must_use]
    pub fn is_revoked(&self, presented: &PresentedKey) -> bool {
        self.is_key_revoked(presented.key())
            || presented.certificate().is_some_and(|certificate| {
                self.is_key_revoked(certificate.authority())
                    || self.is_certificate_revoked(certificate)
            })
    }

    /// True if a plain key is revoked.
    #[must_use]
    pub fn is_key_revoked(&self, key: &PublicKey) -> bool {
        let blob = key.blob();
        let listed = |set: &HashSet<Vec<u8>>, algorithm: HashAlgorithm| {
            !set.is_empty() && set.contains(&algorithm.digest(&blob)[..])
        };
        self.keys.contains(&blob)
            || listed(&self.sha256, HashAlgorithm::Sha256)
            || listed(&self.sha1, HashAlgorithm::Sha1)
    }

    fn is_certificate_revoked(&self, certificate: &Certificate) -> bool {
        if self.certificates.is_empty() {
            return false;
        }
        let authority = certificate.authority().blob();
        self.certificates
            .iter()
            .filter(|section| {
                section
                    .authority
                    .as_ref()
                    .is_none_or(|known| *known == authority)
            })
            .any(|section| section.revokes(certificate))
    }

    fn parse_plain(file: &[u8]) -> Result<Self, KrlError> {
        let mut list = Self::default();
        for line in lines(file) {
            let bad = |error| KrlError::BadLine {
                line: line.number,
                error,
            };
            let Some(text) = line.text else {
                return Err(bad(KeyError::Invalid("line is too long")));
            };
            let text = trim_start(text);
            if text.is_empty() || text.starts_with(b"#") {
                continue;
            }
            match public_file::parse_line(text) {
                Ok(file) => {
                    list.keys.insert(file.key.key().blob());
                }
                // A key of an unsupported type cannot log in, so it need not be revoked.
                Err(KeyError::UnknownType(_)) => {}
                Err(error) => return Err(bad(error)),
            }
        }
        Ok(list)
    }

    fn parse_binary(file: &[u8]) -> Result<Self, KrlError> {
        let mut reader = Reader::new(file);
        let _magic = reader.u64()?;
        let format = reader.u32()?;
        if format != FORMAT_VERSION {
            return Err(KrlError::UnsupportedVersion(format));
        }
        let version = reader.u64()?;
        let generated = reader.u64()?;
        let _flags = reader.u64()?;
        let _reserved = reader.string()?;
        let comment = String::from_utf8_lossy(reader.string()?).into_owned();
        let mut list = Self {
            version,
            generated,
            comment,
            ..Self::default()
        };
        while !reader.is_empty() {
            let kind = reader.u8()?;
            let mut section = Reader::new(reader.string()?);
            list.read_section(kind, &mut section, &mut reader)?;
        }
        Ok(list)
    }

    fn read_section(
        &mut self,
        kind: u8,
        section: &mut Reader<'_>,
        after: &mut Reader<'_>,
    ) -> Result<(), KrlError> {
        match kind {
            SECTION_CERTIFICATES => self.certificates.push(CertificateSection::read(section)?),
            SECTION_EXPLICIT_KEY => read_set(section, &mut self.keys, None)?,
            SECTION_FINGERPRINT_SHA1 => read_set(section, &mut self.sha1, Some(20))?,
            SECTION_FINGERPRINT_SHA256 => read_set(section, &mut self.sha256, Some(32))?,
            // The file is trusted because of its location, not because of a signature. The
            // signature's second half is a string after the section; both are skipped.
            SECTION_SIGNATURE => {
                let _signature = after.string()?;
            }
            SECTION_EXTENSION => refuse_critical(kind, section)?,
            _ => return Err(KrlError::UnknownSection(kind)),
        }
        Ok(())
    }
}

impl CertificateSection {
    fn read(reader: &mut Reader<'_>) -> Result<Self, KrlError> {
        let authority = reader.string()?;
        let _reserved = reader.string()?;
        let mut this = Self {
            authority: (!authority.is_empty()).then(|| authority.to_vec()),
            ..Self::default()
        };
        while !reader.is_empty() {
            let kind = reader.u8()?;
            let mut section = Reader::new(reader.string()?);
            match kind {
                CERT_SERIAL_LIST => {
                    while !section.is_empty() {
                        let serial = section.u64()?;
                        this.ranges.push((serial, serial));
                    }
                }
                CERT_SERIAL_RANGE => {
                    this.ranges.push((section.u64()?, section.u64()?));
                    section.finish()?;
                }
                CERT_SERIAL_BITMAP => {
                    let first = section.u64()?;
                    this.bitmaps
                        .push((first, section.mpint()?.magnitude().to_vec()));
                    section.finish()?;
                }
                CERT_KEY_ID => read_set(&mut section, &mut this.key_ids, None)?,
                CERT_EXTENSION => refuse_critical(kind, &mut section)?,
                _ => return Err(KrlError::UnknownSection(kind)),
            }
        }
        Ok(this)
    }

    fn revokes(&self, certificate: &Certificate) -> bool {
        if self.key_ids.contains(certificate.key_id()) {
            return true;
        }
        let serial = certificate.serial();
        // Authorities that do not number certificates write serial 0.
        serial != 0
            && (self
                .ranges
                .iter()
                .any(|(first, last)| (*first..=*last).contains(&serial))
                || self
                    .bitmaps
                    .iter()
                    .any(|(first, bits)| bit_of(bits, serial.checked_sub(*first))))
    }
}

/// True if the bit is set, counted from the lowest bit of a big-endian number.
fn bit_of(magnitude: &[u8], bit: Option<u64>) -> bool {
    let byte = bit
        .and_then(|bit| usize::try_from(bit / 8).ok())
        .and_then(|at| magnitude.iter().rev().nth(at));
    match (byte, bit) {
        (Some(byte), Some(bit)) => byte >> (bit % 8) & 1 == 1,
        _ => false,
    }
}

fn read_set(
    reader: &mut Reader<'_>,
    set: &mut HashSet<Vec<u8>>,
    len: Option<usize>,
) -> Result<(), KrlError> {
    while !reader.is_empty() {
        let item = reader.string()?;
        if len.is_some_and(|len| item.len() != len) {
            return Err(DecodeError::Malformed("fingerprint has the wrong length").into());
        }
        set.insert(item.to_vec());
    }
    Ok(())
}

/// Reads `string name, boolean critical, string data`: no extension is supported, so only
/// non-critical ones are ignored.
fn refuse_critical(kind: u8, section: &mut Reader<'_>) -> Result<(), KrlError> {
    let _name = section.string()?;
    if section.bool()? {
        return Err(KrlError::UnknownSection(kind));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
