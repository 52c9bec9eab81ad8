use wire::Put;

use super::*;
use crate::test_support::survives_damage;
use crate::{KeySpec, PresentedKey, PrivateKey};

fn generate(spec: KeySpec) -> PublicKey {
    PrivateKey::generate(spec).unwrap().public().clone()
}

#[test]
fn blobs_come_back_as_they_went() {
    let keys = [
        generate(KeySpec::Ed25519),
        generate(KeySpec::Ecdsa(EcCurve::P256)),
        generate(KeySpec::Ecdsa(EcCurve::P384)),
        generate(KeySpec::Ecdsa(EcCurve::P521)),
        generate(KeySpec::Rsa { bits: 1024 }),
        PublicKey::SkEd25519 {
            point: [7; 32],
            application: b"ssh:".to_vec(),
        },
    ];
    for key in keys {
        let blob = key.blob();
        assert_eq!(PublicKey::from_blob(&blob).unwrap(), key);
        let mut longer = blob.clone();
        longer.push(0);
        assert!(PublicKey::from_blob(&longer).is_err());
        for end in 0..blob.len() {
            assert!(PublicKey::from_blob(&blob[..end]).is_err());
        }
        survives_damage(&blob, 2000, |bytes| {
            let _ = PresentedKey::from_blob(bytes);
        });
    }
}

#[test]
fn an_ed25519_key_has_exactly_32_bytes() {
    for len in [0, 31, 33, 64] {
        let mut blob = Vec::new();
        blob.put_string(b"ssh-ed25519");
        blob.put_string(&vec![1; len]);
        assert!(matches!(
            PublicKey::from_blob(&blob),
            Err(KeyError::Invalid(_))
        ));
    }
}

#[test]
fn a_curve_other_than_the_key_types_is_refused() {
    let point = match generate(KeySpec::Ecdsa(EcCurve::P256)) {
        PublicKey::Ecdsa { point, .. } => point,
        _ => unreachable!(),
    };
    let mut blob = Vec::new();
    blob.put_string(b"ecdsa-sha2-nistp384");
    blob.put_string(b"nistp256");
    blob.put_string(&point);
    assert!(PublicKey::from_blob(&blob).is_err());
    let mut compressed = Vec::new();
    compressed.put_string(b"ecdsa-sha2-nistp256");
    compressed.put_string(b"nistp256");
    compressed.put_string(&[&[2], &point[1..33]].concat());
    assert!(PublicKey::from_blob(&compressed).is_err());
}

#[test]
fn an_empty_or_path_like_blob_is_no_key() {
    for blob in [&b""[..], b"/etc/passwd", b"\0\0\0\0", b"\0\0\0\x07ssh-dss"] {
        assert!(PresentedKey::from_blob(blob).is_err());
    }
}

#[test]
fn rsa_numbers_are_bounded_before_any_work() {
    let rsa = |exponent: &[u8], modulus: &[u8]| {
        let mut blob = Vec::new();
        blob.put_string(b"ssh-rsa");
        blob.put_mpint(exponent);
        blob.put_mpint(modulus);
        PublicKey::from_blob(&blob)
    };
    let odd = vec![0xff; 256];
    assert!(rsa(&[3], &odd).is_ok());
    assert!(rsa(&[3], &vec![0xff; 12_500]).is_err(), "100,000 bits");
    assert!(rsa(&[3], &vec![0xff; 2049]).is_err());
    assert!(rsa(&[3], &[0xff; 32]).is_err());
    assert!(rsa(&vec![0xff; 256], &odd).is_err(), "giant exponent");
    assert!(rsa(&[1], &odd).is_err());
    assert!(rsa(&[4], &odd).is_err());
    assert!(rsa(&[], &odd).is_err());
    let mut even = odd;
    even[255] = 0xfe;
    assert!(rsa(&[3], &even).is_err());
}
