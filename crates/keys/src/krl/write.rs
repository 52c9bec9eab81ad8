//! Modifying and encoding revocation lists (PROTOCOL.krl).

use std::collections::{BTreeMap, HashSet};

use crypto::hash::HashAlgorithm;
use wire::Put;

use super::{
    CERT_KEY_ID, CERT_SERIAL_BITMAP, CERT_SERIAL_LIST, CERT_SERIAL_RANGE, CertificateSection,
    FORMAT_VERSION, MAGIC, RevocationList, SECTION_CERTIFICATES, SECTION_EXPLICIT_KEY,
    SECTION_FINGERPRINT_SHA1, SECTION_FINGERPRINT_SHA256, bit_of,
};
use crate::public_key::PublicKey;

/// Longest bitmap in serials: half of the limit of readers for a bignum.
const MAX_BITMAP_SERIALS: u64 = 8192;
/// Longest gap of unrevoked serials within a bitmap: as many bits as a new section costs.
const MAX_GAP: u64 = 100;
/// Size of a section's header (kind and length) in bytes.
const HEAD_BYTES: u64 = 5;

/// Revoked certificates of one authority, sorted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RevokedCertificates {
    /// The authority's key blob; `None` for certificates of all authorities.
    pub authority: Option<Vec<u8>>,
    /// Ranges of serials, both ends inclusive; no two are adjacent.
    pub serials: Vec<(u64, u64)>,
    /// Key ids of revoked certificates.
    pub key_ids: Vec<Vec<u8>>,
}

impl RevocationList {
    /// Revokes the certificates of an authority (`None`: of all authorities) with serials from
    /// `first` to `last`, inclusive. Serial 0 means "no serial" and is not revoked.
    pub fn revoke_serials(&mut self, authority: Option<&PublicKey>, first: u64, last: u64) {
        self.section(authority).ranges.push((first.max(1), last));
    }

    /// Revokes the certificates of an authority (`None`: of all authorities) with this key id.
    pub fn revoke_key_id(&mut self, authority: Option<&PublicKey>, key_id: &[u8]) {
        self.section(authority).key_ids.insert(key_id.to_vec());
    }

    /// Revokes a key.
    pub fn revoke_key(&mut self, key: &PublicKey) {
        self.keys.insert(key.blob());
    }

    /// Revokes a key by its SHA-1 digest, without storing the key; every OpenSSH reads this form.
    pub fn revoke_key_by_sha1(&mut self, key: &PublicKey) {
        self.sha1
            .insert(HashAlgorithm::Sha1.digest(&key.blob()).to_vec());
    }

    /// Revokes a key by its SHA-256 digest, without storing the key.
    pub fn revoke_key_by_sha256(&mut self, key: &PublicKey) {
        self.sha256
            .insert(HashAlgorithm::Sha256.digest(&key.blob()).to_vec());
    }

    /// Revokes the key with this SHA-256 fingerprint.
    pub fn revoke_fingerprint(&mut self, sha256: [u8; 32]) {
        self.sha256.insert(sha256.to_vec());
    }

    /// Blobs of the keys that are listed by blob, sorted.
    #[must_use]
    pub fn keys(&self) -> Vec<&[u8]> {
        sorted(&self.keys)
    }

    /// SHA-1 and SHA-256 digests of the keys that are listed by digest, sorted.
    #[must_use]
    pub fn fingerprints(&self) -> (Vec<&[u8]>, Vec<&[u8]>) {
        (sorted(&self.sha1), sorted(&self.sha256))
    }

    /// Revoked certificates by authority; those of all authorities come first.
    #[must_use]
    pub fn certificates(&self) -> Vec<RevokedCertificates> {
        let mut by_authority: BTreeMap<Option<&[u8]>, Vec<&CertificateSection>> = BTreeMap::new();
        for section in &self.certificates {
            let sections = by_authority.entry(section.authority.as_deref());
            sections.or_default().push(section);
        }
        by_authority
            .into_iter()
            .map(|(authority, sections)| {
                let key_ids: HashSet<Vec<u8>> = sections
                    .iter()
                    .flat_map(|section| section.key_ids.iter().cloned())
                    .collect();
                RevokedCertificates {
                    authority: authority.map(<[u8]>::to_vec),
                    serials: merged(sections.iter().flat_map(|section| section.all_ranges())),
                    key_ids: sorted(&key_ids).into_iter().map(<[u8]>::to_vec).collect(),
                }
            })
            .collect()
    }

    /// Encodes the list as a binary KRL.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.put_u64(MAGIC);
        out.put_u32(FORMAT_VERSION);
        out.put_u64(self.version);
        out.put_u64(self.generated);
        // Flags and a reserved string: no values are defined.
        out.put_u64(0);
        out.put_string(b"");
        out.put_string(self.comment.as_bytes());
        for revoked in self.certificates() {
            let mut body = Vec::new();
            body.put_string(revoked.authority.as_deref().unwrap_or_default());
            body.put_string(b"");
            put_serials(&mut body, &revoked.serials);
            put_set(&mut body, CERT_KEY_ID, &revoked.key_ids);
            out.put_u8(SECTION_CERTIFICATES);
            out.put_string(&body);
        }
        put_set(&mut out, SECTION_EXPLICIT_KEY, &self.keys());
        let (sha1, sha256) = self.fingerprints();
        put_set(&mut out, SECTION_FINGERPRINT_SHA1, &sha1);
        put_set(&mut out, SECTION_FINGERPRINT_SHA256, &sha256);
        out
    }

    fn section(&mut self, authority: Option<&PublicKey>) -> &mut CertificateSection {
        let blob = authority.map(PublicKey::blob);
        let known = self
            .certificates
            .iter()
            .position(|section| section.authority == blob);
        let at = known.unwrap_or_else(|| {
            self.certificates.push(CertificateSection {
                authority: blob,
                ..CertificateSection::default()
            });
            self.certificates.len() - 1
        });
        &mut self.certificates[at]
    }
}

impl CertificateSection {
    /// The ranges, including those of the bitmaps.
    fn all_ranges(&self) -> Vec<(u64, u64)> {
        let mut ranges = self.ranges.clone();
        for (first, bits) in &self.bitmaps {
            let count = u64::try_from(bits.len()).unwrap_or(0).saturating_mul(8);
            let set = (0..count).filter(|bit| bit_of(bits, Some(*bit)));
            ranges.extend(
                set.filter_map(|bit| first.checked_add(bit))
                    .map(|at| (at, at)),
            );
        }
        ranges
    }
}

/// Sorts and merges ranges. Ranges that end before they begin are empty.
fn merged(ranges: impl Iterator<Item = (u64, u64)>) -> Vec<(u64, u64)> {
    let mut ranges: Vec<(u64, u64)> = ranges.filter(|(first, last)| first <= last).collect();
    ranges.sort_unstable();
    let mut out: Vec<(u64, u64)> = Vec::new();
    for (first, last) in ranges {
        match out.last_mut() {
            Some((_, end)) if first <= end.saturating_add(1) => *end = last.max(*end),
            _ => out.push((first, last)),
        }
    }
    out
}

fn sorted(set: &HashSet<Vec<u8>>) -> Vec<&[u8]> {
    let mut items: Vec<&[u8]> = set.iter().map(Vec::as_slice).collect();
    items.sort_unstable();
    items
}

fn put_set(out: &mut Vec<u8>, kind: u8, items: &[impl AsRef<[u8]>]) {
    if items.is_empty() {
        return;
    }
    let mut body = Vec::new();
    for item in items {
        body.put_string(item.as_ref());
    }
    out.put_u8(kind);
    out.put_string(&body);
}

/// Encodes nearby ranges as one bitmap or list if that is shorter than one range each.
fn put_serials(out: &mut Vec<u8>, ranges: &[(u64, u64)]) {
    let mut rest = ranges;
    while let Some((first, _)) = rest.first() {
        let mut last = *first;
        let near = rest
            .iter()
            .take_while(|(from, to)| {
                let fits = from - last <= MAX_GAP && to - first < MAX_BITMAP_SERIALS;
                last = if fits { *to } else { last };
                fits
            })
            .count();
        let (group, remaining) = rest.split_at(near.max(1));
        put_group(out, group);
        rest = remaining;
    }
}

fn put_group(out: &mut Vec<u8>, group: &[(u64, u64)]) {
    let (Some((first, _)), Some((_, last))) = (group.first(), group.last()) else {
        return;
    };
    let span = last - first;
    let count = group.iter().fold(0_u64, |count, (from, to)| {
        count.saturating_add((to - from).saturating_add(1))
    });
    let ranges = u64::try_from(group.len())
        .unwrap_or(u64::MAX)
        .saturating_mul(16 + HEAD_BYTES);
    let list = count.saturating_mul(8).saturating_add(HEAD_BYTES);
    let bitmap = (span / 8).saturating_add(14 + HEAD_BYTES);
    if list <= bitmap.min(ranges) {
        let mut body = Vec::new();
        for (from, to) in group {
            (*from..=*to).for_each(|serial| body.put_u64(serial));
        }
        out.put_u8(CERT_SERIAL_LIST);
        out.put_string(&body);
    } else if bitmap <= ranges && span < MAX_BITMAP_SERIALS {
        let mut body = Vec::new();
        body.put_u64(*first);
        body.put_mpint(&bitmap_of(group, *first, span));
        out.put_u8(CERT_SERIAL_BITMAP);
        out.put_string(&body);
    } else {
        for (from, to) in group {
            let mut body = Vec::new();
            body.put_u64(*from);
            body.put_u64(*to);
            out.put_u8(CERT_SERIAL_RANGE);
            out.put_string(&body);
        }
    }
}

/// The big-endian number whose bit n means serial `first` + n.
fn bitmap_of(group: &[(u64, u64)], first: u64, span: u64) -> Vec<u8> {
    let mut bits = vec![0_u8; usize::try_from(span / 8 + 1).unwrap_or(0)];
    for serial in group.iter().flat_map(|(from, to)| *from..=*to) {
        let bit = serial - first;
        let at = usize::try_from(bit / 8).unwrap_or(usize::MAX);
        if let Some(byte) = bits.get_mut(at) {
            *byte |= 1 << (bit % 8);
        }
    }
    bits.reverse();
    bits
}
