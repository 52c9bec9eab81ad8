use wire::Put;

use super::*;
use crate::certificate::CertificateKind;
use crate::private_file;
use crate::test_support::{Folder, have_ssh_keygen, key, signed, survives_damage};

fn certificate(seed: u8, authority: u8, serial: u64, key_id: &str) -> PresentedKey {
    signed(CertificateKind::User, "me", seed, authority, serial, key_id)
}

fn plain(seed: u8) -> PresentedKey {
    key(seed).public().clone().into()
}

/// Creates a list with ssh-keygen from this specification.
fn made_by_ssh_keygen(folder: &Folder, specification: &str) -> Vec<u8> {
    let ca = private_file::write_openssh(&key(100), "ca", None).unwrap();
    folder.write("ca", ca.as_bytes());
    folder.write("ca.pub", key(100).public().to_line().as_bytes());
    folder.write("spec", specification.as_bytes());
    folder.keygen_ok("-q -k -f krl -s ca.pub -z 5 spec");
    folder.read("krl")
}

#[test]
fn lists_of_ssh_keygen_revoke_what_they_say() {
    if !have_ssh_keygen() {
        return;
    }
    let folder = Folder::new("krl");
    let specification = format!(
        "serial: 3\nserial: 10-20\nserial: 100\nserial: 102\nserial: 104-105\nserial: 1000000-2000000\n\
         id: bad id\nkey: {}\nsha1: {}\nsha256: {}\nhash: SHA256:{}\n",
        key(1).public().to_line(),
        key(2).public().to_line(),
        key(3).public().to_line(),
        base64_of_sha256(4),
    );
    let file = made_by_ssh_keygen(&folder, &specification);
    let list = RevocationList::parse(&file).unwrap();
    assert_eq!(list.version, 5);
    for seed in 1..=4 {
        assert!(list.is_revoked(&plain(seed)), "key {seed}");
        assert!(
            list.is_revoked(&certificate(seed, 50, 1, "")),
            "inside a certificate"
        );
    }
    assert!(!list.is_revoked(&plain(5)));
    for serial in [
        3, 10, 15, 20, 100, 102, 104, 105, 1_000_000, 1_500_000, 2_000_000,
    ] {
        assert!(
            list.is_revoked(&certificate(5, 100, serial, "")),
            "{serial}"
        );
        assert!(
            !list.is_revoked(&certificate(5, 101, serial, "")),
            "other authority"
        );
    }
    for serial in [
        0,
        1,
        2,
        4,
        9,
        21,
        101,
        103,
        106,
        999_999,
        2_000_001,
        u64::MAX,
    ] {
        assert!(
            !list.is_revoked(&certificate(5, 100, serial, "")),
            "{serial}"
        );
    }
    assert!(list.is_revoked(&certificate(5, 100, 0, "bad id")));
    assert!(!list.is_revoked(&certificate(5, 101, 0, "bad id")));
    survives_damage(&file, 3000, |bytes| {
        if let Ok(list) = RevocationList::parse(bytes) {
            let _ = list.is_revoked(&certificate(5, 100, 7, "id"));
        }
    });
}

fn base64_of_sha256(seed: u8) -> String {
    let digest = HashAlgorithm::Sha256.digest(&key(seed).public().blob());
    crate::base64::encode_unpadded(&digest)
}

#[test]
fn revoking_an_authority_revokes_its_certificates() {
    let text = format!("# keys\n\n{} its comment\n", key(100).public().to_line());
    let list = RevocationList::parse(text.as_bytes()).unwrap();
    assert!(list.is_revoked(&plain(100)));
    assert!(list.is_revoked(&certificate(1, 100, 1, "")));
    assert!(!list.is_revoked(&certificate(1, 101, 1, "")));
    assert!(!list.is_revoked(&plain(1)));
}

#[test]
fn a_plain_list_that_cannot_be_read_whole_is_an_error() {
    let good = key(1).public().to_line();
    for bad in ["not a key", "ssh-ed25519 AAAA", "\u{0}"] {
        let text = format!("{good}\n{bad}\n");
        assert!(matches!(
            RevocationList::parse(text.as_bytes()),
            Err(KrlError::BadLine { line: 2, .. })
        ));
    }
    let old = format!("{good}\nssh-dss AAAAB3NzaC1kc3M=\n");
    assert!(RevocationList::parse(old.as_bytes()).is_ok());
    assert_eq!(
        RevocationList::parse(b"").unwrap(),
        RevocationList::default()
    );
}

fn header() -> Vec<u8> {
    let mut out = Vec::new();
    out.put_u64(MAGIC);
    out.put_u32(FORMAT_VERSION);
    out.put_u64(1);
    out.put_u64(2);
    out.put_u64(0);
    out.put_string(b"");
    out.put_string(b"comment");
    out
}

#[test]
fn sections_that_must_be_understood_are_not_passed_over() {
    let with = |kind: u8, body: &[u8]| {
        let mut file = header();
        file.put_u8(kind);
        file.put_string(body);
        RevocationList::parse(&file)
    };
    let mut extension = Vec::new();
    extension.put_string(b"x@y");
    extension.put_bool(false);
    extension.put_string(b"");
    assert!(with(SECTION_EXTENSION, &extension).is_ok());
    extension[7] = 1;
    assert!(with(SECTION_EXTENSION, &extension).is_err());
    assert!(with(77, b"").is_err());
    assert!(with(SECTION_FINGERPRINT_SHA256, b"\0\0\0\x01x").is_err());
    let mut version = header();
    version[11] = 2;
    assert!(matches!(
        RevocationList::parse(&version),
        Err(KrlError::UnsupportedVersion(2))
    ));
}

#[test]
fn bits_are_counted_from_the_lowest() {
    let bits = [0x01, 0x80];
    assert!(bit_of(&bits, Some(7)) && bit_of(&bits, Some(8)));
    assert!(!bit_of(&bits, Some(0)) && !bit_of(&bits, Some(9)));
    assert!(!bit_of(&bits, Some(u64::MAX)) && !bit_of(&bits, None));
}

#[test]
fn what_is_written_revokes_the_same() {
    // Runs of various lengths and distances, from splitmix64.
    let mut state = 1_u64;
    let mut next = |bound: u64| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ (mixed >> 27)) % bound
    };
    for scale in [3, 40, 300, 5000, 1 << 40] {
        let mut list = RevocationList {
            version: 9,
            generated: 1_700_000_000,
            comment: "a comment".to_owned(),
            ..RevocationList::default()
        };
        let mut at = 0;
        let authority = key(100);
        let mut edges = vec![0, 1, u64::MAX];
        for _ in 0..300 {
            let first = at + 1 + next(scale);
            let last = if next(3) == 0 {
                first + next(scale)
            } else {
                first
            };
            list.revoke_serials(Some(authority.public()), first, last);
            edges.extend([first - 1, first, last, last + 1, first.midpoint(last)]);
            at = last;
        }
        list.revoke_serials(None, u64::MAX - 1, u64::MAX);
        list.revoke_key_id(Some(authority.public()), b"id");
        list.revoke_key(key(1).public());
        list.revoke_key_by_sha1(key(2).public());
        list.revoke_key_by_sha256(key(3).public());
        let bytes = list.to_bytes();
        let read = RevocationList::parse(&bytes).unwrap();
        assert_eq!(read.certificates(), list.certificates());
        assert_eq!(read.to_bytes(), bytes);
        assert_eq!((read.version, read.generated), (9, 1_700_000_000));
        assert_eq!(read.comment, "a comment");
        for serial in edges {
            for signer in [100, 101] {
                let certificate = certificate(5, signer, serial, "");
                let expected = list.is_revoked(&certificate);
                assert_eq!(read.is_revoked(&certificate), expected, "{serial}");
            }
        }
        assert!((1..=3).all(|seed| read.is_revoked(&plain(seed))));
        assert!(read.is_revoked(&certificate(5, 100, 0, "id")));
        assert!(!read.is_revoked(&plain(4)));
        // A dense list takes about one bit per serial, a sparse one 8 bytes.
        if scale == 3 {
            assert!(bytes.len() < 600, "{}", bytes.len());
        }
    }
}

#[test]
fn ranges_to_the_end_are_kept() {
    let mut list = RevocationList::default();
    list.revoke_serials(None, 0, u64::MAX);
    list.revoke_serials(None, 7, 9);
    // The range ends before it begins.
    list.revoke_serials(Some(key(1).public()), 9, 7);
    let read = RevocationList::parse(&list.to_bytes()).unwrap();
    assert_eq!(read.certificates()[0].serials, [(1, u64::MAX)]);
    assert!(read.certificates()[1].serials.is_empty());
    assert!(read.is_revoked(&certificate(5, 100, u64::MAX, "")));
    assert!(!read.is_revoked(&certificate(5, 100, 0, "")));
}
